"""Where things come from and where they are: files with code and DWARF, and the addresses in them."""

from inlinetrace.target.image import Image, open_image

__all__ = ["Image", "open_image"]
