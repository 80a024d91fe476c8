"""Section and program headers: plain records and the reader of the header tables.

``read_header`` checks the identification and the ELF header; ``read_sections`` and ``read_segments`` read the two
tables with their extended numbering (a zero ``e_shnum``, ``SHN_XINDEX``, ``PN_XNUM``: gABI chapter 4). All of them
raise FormatError.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from inlinetrace.elf.constants import (
    LAST_ADDRESS,
    PN_XNUM,
    SHF_ALLOC,
    SHF_COMPRESSED,
    SHF_EXECINSTR,
    SHN_XINDEX,
    SHT_NOBITS,
)
from inlinetrace.errors import FormatError

# The names of all sections together; a hostile table could otherwise point every section into one endless string.
MAX_NAME_BYTES = 256 << 20


class Section:
    """One section header; ``offset`` and ``size`` are what the file has, before decompression."""

    __slots__ = (
        "address",
        "alignment",
        "entry_size",
        "flags",
        "index",
        "info",
        "link",
        "name",
        "offset",
        "size",
        "type",
    )

    def __init__(
        self,
        index: int,
        name: str,
        type_: int,
        flags: int,
        address: int,
        offset: int,
        size: int,
        link: int,
        info: int,
        alignment: int,
        entry_size: int,
    ) -> None:
        self.index = index
        self.name = name
        self.type = type_
        self.flags = flags
        self.address = address
        self.offset = offset
        self.size = size
        self.link = link
        self.info = info
        self.alignment = alignment
        self.entry_size = entry_size

    def at(self, address: int) -> Section:
        """The same section at another address."""
        return Section(
            self.index,
            self.name,
            self.type,
            self.flags,
            address,
            self.offset,
            self.size,
            self.link,
            self.info,
            self.alignment,
            self.entry_size,
        )

    @property
    def label(self) -> str:
        """The name as messages show it: one line of printable characters, whatever the file says."""
        shown = "".join(c if c.isprintable() else "?" for c in self.name[:200])
        return shown or f"section {self.index}"

    @property
    def executable(self) -> bool:
        """It holds instructions (SHF_EXECINSTR)."""
        return bool(self.flags & SHF_EXECINSTR)

    @property
    def allocated(self) -> bool:
        """It is in memory at run time (SHF_ALLOC)."""
        return bool(self.flags & SHF_ALLOC)

    @property
    def nobits(self) -> bool:
        """It has no contents in this file (SHT_NOBITS), as the code sections of a separate debug file."""
        return self.type == SHT_NOBITS

    @property
    def compressed(self) -> bool:
        """Its contents are compressed, with a header (SHF_COMPRESSED) or in the older ``.zdebug_`` form."""
        return bool(self.flags & SHF_COMPRESSED) or self.name.startswith(".zdebug_")


class Segment(NamedTuple):
    """One program header."""

    type: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int
    alignment: int


class Header(NamedTuple):
    """The ELF header, without what nobody asks for."""

    little_endian: bool
    address_size: int
    type: int
    machine: int
    entry: int
    program_offset: int
    section_offset: int
    program_entry_size: int
    program_count: int
    section_entry_size: int
    section_count: int
    section_name_index: int

    @property
    def order(self) -> str:
        """The byte order as the struct module writes it."""
        return "<" if self.little_endian else ">"

    @property
    def section_format(self) -> struct.Struct:
        """The struct of one section header."""
        return struct.Struct(self.order + ("IIQQQQIIQQ" if self.address_size == 8 else "10I"))


def read_header(data: memoryview, path: str) -> Header:
    """Read the ELF header at the start of ``data``."""
    if len(data) < 16 or bytes(data[:4]) != b"\x7fELF":
        raise FormatError("not an ELF file", path=path, section="ELF header", offset=0)
    size_class, encoding = data[4], data[5]
    if size_class not in (1, 2) or encoding not in (1, 2):
        raise FormatError("unknown ELF class or byte order", path=path, section="ELF header", offset=4)
    order = "<" if encoding == 1 else ">"
    layout = struct.Struct(order + ("HHIQQQIHHHHHH" if size_class == 2 else "HHIIIIIHHHHHH"))
    if len(data) < 16 + layout.size:
        raise FormatError("the file ends inside the ELF header", path=path, section="ELF header", offset=len(data))
    kind, machine, _, entry, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx = layout.unpack_from(
        data, 16
    )
    return Header(
        encoding == 1,
        4 * size_class,
        kind,
        machine,
        entry,
        phoff,
        shoff,
        phentsize,
        phnum,
        shentsize,
        shnum,
        shstrndx,
    )


def _first_section(data: memoryview, header: Header, path: str) -> tuple[int, ...]:
    layout = header.section_format
    if header.section_entry_size < layout.size:
        raise FormatError("section headers are too small", path=path, section="ELF header")
    if header.section_offset + layout.size > len(data):
        raise FormatError(
            "the section header table lies outside the file: is the file truncated?",
            path=path,
            section="section headers",
            offset=header.section_offset,
        )
    return layout.unpack_from(data, header.section_offset)


def read_sections(data: memoryview, header: Header, path: str) -> tuple[Section, ...]:
    """Read all section headers and their names; empty for a file without a section header table."""
    if not header.section_offset:
        return ()
    first = _first_section(data, header, path)
    count = header.section_count or first[5]
    name_index = first[6] if header.section_name_index == SHN_XINDEX else header.section_name_index
    step, layout = header.section_entry_size, header.section_format
    if count * step > len(data) - header.section_offset:
        raise FormatError(
            f"{count} section headers do not fit in the file: is the file truncated?",
            path=path,
            section="section headers",
            offset=header.section_offset,
        )
    raw = [
        layout.unpack_from(data, at) for at in range(header.section_offset, header.section_offset + count * step, step)
    ]
    names = b""
    if name_index:
        if name_index >= count:
            raise FormatError(
                f"there is no section {name_index} to take the names from", path=path, section="ELF header"
            )
        _, kind, _, _, offset, size, *_ = raw[name_index]
        if kind == SHT_NOBITS or offset + size > len(data):
            raise FormatError(
                "the section names lie outside the file", path=path, section="section headers", offset=offset
            )
        names = bytes(data[offset : offset + size])
    sections = []
    budget = MAX_NAME_BYTES
    for index, (name, kind, flags, address, offset, size, link, info, alignment, entry_size) in enumerate(raw):
        end = names.find(b"\0", name) if names else 0
        if (end < 0 or name > len(names)) and index:
            raise FormatError(
                f"the name of section {index} has no end", path=path, section="section headers", offset=name
            )
        budget -= end - name
        if budget < 0:
            raise FormatError("the section names are impossibly long", path=path, section="section headers")
        text = names[name:end].decode("utf-8", "surrogateescape") if names else ""
        if flags & SHF_ALLOC and address + size > LAST_ADDRESS:
            raise FormatError(f"{text} reaches beyond the last address", path=path, section="section headers")
        sections.append(Section(index, text, kind, flags, address, offset, size, link, info, alignment, entry_size))
    return tuple(sections)


def read_segments(data: memoryview, header: Header, path: str) -> tuple[Segment, ...]:
    """Read all program headers."""
    if not header.program_offset or not header.program_count:
        return ()
    count = header.program_count
    if count == PN_XNUM and header.section_offset:
        count = _first_section(data, header, path)[7]
    layout = struct.Struct(header.order + ("IIQQQQQQ" if header.address_size == 8 else "8I"))
    step = header.program_entry_size
    if step < layout.size or count * step + header.program_offset > len(data):
        raise FormatError(
            "the program headers do not fit in the file",
            path=path,
            section="program headers",
            offset=header.program_offset,
        )
    segments = []
    for at in range(header.program_offset, header.program_offset + count * step, step):
        if header.address_size == 8:
            kind, flags, offset, address, _, file_size, memory_size, alignment = layout.unpack_from(data, at)
        else:
            kind, offset, address, _, file_size, memory_size, flags, alignment = layout.unpack_from(data, at)
        segments.append(Segment(kind, flags, offset, address, file_size, memory_size, alignment))
    return tuple(segments)
