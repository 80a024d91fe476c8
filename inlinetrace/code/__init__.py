"""Instructions: where they begin and where jumps land.

The names of this package are imported when they are first used: a command that needs one module does not pay for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.code.analysis import Code, Jumps, Relocations
    from inlinetrace.code.file import FileCode
    from inlinetrace.code.jumptables import IndirectJump

__all__ = ["Code", "FileCode", "IndirectJump", "Jumps", "Relocations"]

_HOMES = {
    "Code": "inlinetrace.code.analysis",
    "FileCode": "inlinetrace.code.file",
    "IndirectJump": "inlinetrace.code.jumptables",
    "Jumps": "inlinetrace.code.analysis",
    "Relocations": "inlinetrace.code.analysis",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
