"""A copy of an ELF file with sections added: what ``objcopy --add-section`` does, and nothing else.

::

    with open("vmlinux.new", "wb") as out:
        write_with_sections(elf, {".BTF.inline": data}, out)

Everything that the file has stays where it is, byte for byte; the new contents, the section names and the section
headers are appended and the ELF header is changed to point at them. A section of the same name is replaced: its header
leads to the new contents, which are not part of the loaded image. No other
section is moved.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import IO

from inlinetrace.elf.constants import SHN_LORESERVE, SHN_XINDEX, SHT_PROGBITS
from inlinetrace.elf.file import ElfFile
from inlinetrace.elf.sections import read_header
from inlinetrace.errors import FormatError

_ALIGNMENT = 8
# Places of e_shoff, e_shentsize, e_shnum and e_shstrndx in the ELF header (gABI chapter 4), by address size.
_SHOFF = {4: (32, "I"), 8: (40, "Q")}
_SHNUM = {4: 48, 8: 60}


def write_with_sections(elf: ElfFile, sections: Mapping[str, bytes], out: IO[bytes]) -> None:
    """Write a copy of ``elf`` with ``sections`` to ``out``. Raises FormatError, OSError.

    What follows the ELF file in a signed module is kept, but is no signature any more where it then stands.
    """
    image = elf.image
    header = read_header(image, elf.path)
    layout = header.section_format
    count = len(elf.sections)
    name_index = header.section_name_index
    if name_index == SHN_XINDEX and count:
        name_index = elf.sections[0].link
    if not 0 < name_index < count:
        raise FormatError("a file without section names cannot be given sections", path=elf.path)
    out.write(image)
    position = len(image)

    def append(data: bytes) -> int:
        nonlocal position
        gap = -position % _ALIGNMENT
        out.write(bytes(gap) + data)
        start = position + gap
        position = start + len(data)
        return start

    records = [
        list(layout.unpack_from(image, header.section_offset + index * header.section_entry_size))
        for index in range(count)
    ]
    names = bytearray(elf.raw_data(elf.sections[name_index]))
    for name, data in sections.items():
        existing = elf.section(name)
        start = append(data)
        if existing is not None:
            record = records[existing.index]
            # name, type, flags, address, offset, size, link, info, alignment, entry size
            record[1:6] = [SHT_PROGBITS, 0, 0, start, len(data)]
            record[6:10] = [0, 0, _ALIGNMENT, 0]
            continue
        records.append([len(names), SHT_PROGBITS, 0, 0, start, len(data), 0, 0, _ALIGNMENT, 0])
        names += name.encode() + b"\0"
    records[name_index][4:6] = [append(bytes(names)), len(names)]
    _count(records, name_index)
    table = append(b"".join(layout.pack(*record) for record in records))
    at, code = _SHOFF[elf.address_size]
    out.seek(at)
    out.write(struct.pack(header.order + code, table))
    out.seek(_SHNUM[elf.address_size] - 2)
    count = len(records)
    shown = count if count < SHN_LORESERVE else 0, name_index if name_index < SHN_LORESERVE else SHN_XINDEX
    out.write(struct.pack(header.order + "HHH", layout.size, *shown))
    out.seek(position)


def _count(records: list[list[int]], name_index: int) -> None:
    """Extended numbering: what does not fit into the ELF header stands in the first section header."""
    records[0][5] = len(records) if len(records) >= SHN_LORESERVE else 0
    records[0][6] = name_index if name_index >= SHN_LORESERVE else 0
