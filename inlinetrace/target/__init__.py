"""Where things come from and where they are: files with code and DWARF, and the addresses in them."""

from typing import TYPE_CHECKING

from inlinetrace._lazy import exporter

if TYPE_CHECKING:
    from inlinetrace.target.image import Image, open_image

__all__ = ["Image", "open_image"]

__getattr__ = exporter(
    __name__,
    {
        "Image": "inlinetrace.target.image",
        "open_image": "inlinetrace.target.image",
    },
)
