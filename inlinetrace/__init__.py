"""inlinetrace: inlined functions, as traceable as ordinary ones."""

from inlinetrace.errors import (
    FormatError,
    InlineTraceError,
    MismatchError,
    NotFoundError,
    NotPermittedError,
    PartialError,
    UnsupportedError,
    UsageError,
)

__all__ = [
    "FormatError",
    "InlineTraceError",
    "MismatchError",
    "NotFoundError",
    "NotPermittedError",
    "PartialError",
    "UnsupportedError",
    "UsageError",
]
__version__ = "0.1.0"
