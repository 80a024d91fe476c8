"""Where things come from and where they are: files with code and DWARF, and the addresses in them.

The names of this package are imported when they are first used: a command that needs one module does not pay for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.target.image import Image, open_image

__all__ = ["Image", "open_image"]

_HOMES = {
    "Image": "inlinetrace.target.image",
    "open_image": "inlinetrace.target.image",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
