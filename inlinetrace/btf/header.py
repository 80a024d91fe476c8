"""The header of a BTF object: byte order, sections, and what only looks like BTF.

``Header.read(data)`` checks every bound it gives out. The April-2025 proposal for a separate inline blob shares BTF's
magic number; it is recognised here and refused by name.
"""

from __future__ import annotations

import struct
import sys

from inlinetrace.btf.kinds import CLASSIC_HEADER, LAYOUT_HEADER, MAGIC, VERSION
from inlinetrace.errors import FormatError, UnsupportedError

_APRIL = (
    "this is no BTF but the inline blob of the April-2025 proposal ({variant}), which was replaced by the location "
    "kinds of BTF and is not read; make the location info anew from DWARF"
)


class Header:
    """Header fields and the absolute offsets of the sections. All offsets and lengths are in bytes."""

    __slots__ = (
        "byte_order",
        "flags",
        "layout_at",
        "layout_len",
        "length",
        "size",
        "string_at",
        "string_len",
        "type_at",
        "type_len",
        "version",
    )

    def __init__(self, data: bytes | memoryview) -> None:
        """Read and check the header of ``data``.

        Errors: FormatError for what is no BTF or has a section outside of the object; UnsupportedError for the
        April-2025 blob and for other versions.
        """
        self.size = len(data)
        if self.size < CLASSIC_HEADER:
            raise FormatError(f"no BTF: {self.size} bytes are less than a header", offset=0)
        magic = bytes(data[:2])
        if magic == MAGIC.to_bytes(2, "little"):
            self.byte_order = "little"
        elif magic == MAGIC.to_bytes(2, "big"):
            self.byte_order = "big"
        else:
            raise FormatError(f"no BTF: the magic number is missing (the first bytes are {magic.hex()})", offset=0)
        order = "<" if self.byte_order == "little" else ">"
        self.version, self.flags, self.length = struct.unpack_from(order + "2BI", data, 2)
        if self.version != VERSION:
            raise UnsupportedError(f"BTF version {self.version}; only version {VERSION} is known", offset=2)
        if self.length < CLASSIC_HEADER or self.length > self.size:
            raise FormatError(f"the header says it has {self.length} bytes, of an object of {self.size}", offset=4)
        type_off, self.type_len, string_off, self.string_len = struct.unpack_from(order + "4I", data, 8)
        if (
            self.length == CLASSIC_HEADER
            and type_off == CLASSIC_HEADER
            and string_off == CLASSIC_HEADER + self.type_len
        ):
            raise UnsupportedError(_APRIL.format(variant="offsets from the start of the blob"), offset=8)
        layout_off = 0
        self.layout_len = 0
        if self.length >= LAYOUT_HEADER:
            layout_off, self.layout_len = struct.unpack_from(order + "2I", data, CLASSIC_HEADER)
        self.type_at = self.length + type_off
        self.string_at = self.length + string_off
        self.layout_at = self.length + layout_off if self.layout_len else 0
        if type_off % 4:
            raise FormatError(f"the type section starts at {type_off:#x}, which is no multiple of 4", offset=8)
        if self.type_at + self.type_len > self.size:
            raise FormatError("the type section ends behind the end of the object", offset=8)
        if self.string_at + self.string_len > self.size:
            raise FormatError("the string section ends behind the end of the object", offset=16)
        if type_off + self.type_len > string_off:
            raise FormatError("the type section overlaps the string section", offset=8)
        if self.layout_len:
            if layout_off % 4 or self.layout_len % 4:
                raise FormatError("offset and length of the layout section have to be multiples of 4", offset=24)
            if layout_off < type_off + self.type_len or layout_off + self.layout_len > string_off:
                raise FormatError("the layout section does not lie between types and strings", offset=24)

    @property
    def swapped(self) -> bool:
        """True if the object has the other byte order than this machine."""
        return self.byte_order != sys.byteorder


def april_blob(variant: str) -> UnsupportedError:
    """The error that names the April-2025 blob."""
    return UnsupportedError(_APRIL.format(variant=variant))


def is_compact_april_blob(data: bytes | memoryview, header: Header) -> bool:
    """True if what stands in the place of types is a table of instances of the compact April-2025 form.

    An instance is address (8 bytes), type id (4), count (2) and ``count`` 4-byte offsets into the locations, which
    stand in the place of the strings. The table has to end exactly, and every offset has to lie in the locations.
    """
    at, end = header.type_at, header.type_at + header.type_len
    if header.length != CLASSIC_HEADER or at != header.length or header.string_at != end or at == end:
        return False
    if header.string_len == 0 or data[header.string_at] != 0:
        return False
    order = "<" if header.byte_order == "little" else ">"
    while at < end:
        if end - at < 14:
            return False
        (count,) = struct.unpack_from(order + "H", data, at + 12)
        at += 14
        if end - at < 4 * count:
            return False
        if any(offset >= header.string_len for offset in struct.unpack_from(f"{order}{count}I", data, at)):
            return False
        at += 4 * count
    return True
