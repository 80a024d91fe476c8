"""A small declarative writer of ELF files for tests.

>>> elf_file([Code(".text", b"\\x90")], symbols=[Sym("f", 0, 1, section=".text")])
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass
class Sec:
    name: str
    data: bytes = b""
    type: int = 1
    flags: int = 0
    address: int = 0
    alignment: int = 1
    link: int | str = 0
    info: int | str = 0
    entry_size: int = 0
    size: int | None = None


def Code(name: str, data: bytes, address: int = 0) -> Sec:
    return Sec(name, data, flags=0x6, address=address)


@dataclass
class Sym:
    name: str
    address: int = 0
    size: int = 0
    section: str | int = 0
    type: int = 2
    binding: int = 1


@dataclass
class Rel:
    offset: int
    type: int
    symbol: str = ""
    addend: int = 0


@dataclass
class Seg:
    address: int
    offset: int
    file_size: int
    memory_size: int
    type: int = 1
    flags: int = 5


@dataclass
class Layout:
    bits: int = 64
    little: bool = True
    machine: int = 62
    type: int = 2
    segments: Sequence[Seg] = field(default_factory=tuple)

    @property
    def order(self) -> str:
        return "<" if self.little else ">"


class Strings:
    def __init__(self) -> None:
        self.data = bytearray(1)
        self.at: dict[str, int] = {"": 0}

    def add(self, text: str) -> int:
        if text not in self.at:
            self.at[text] = len(self.data)
            self.data += text.encode() + b"\0"
        return self.at[text]


def elf_file(
    sections: Sequence[Sec],
    *,
    symbols: Sequence[Sym] = (),
    relocations: Mapping[str, Sequence[Rel]] | None = None,
    with_addends: bool = True,
    bits: int = 64,
    little: bool = True,
    machine: int = 62,
    type: int = 2,  # noqa: A002
    segments: Sequence[Seg] = (),
) -> bytes:
    """Return the bytes of an ELF file; section numbers are those of the list plus one (0 is the null section)."""
    layout = Layout(bits, little, machine, type, segments)
    order, wide = layout.order, bits == 64
    everything = [Sec("", type=0), *sections]
    numbers: dict[str, int] = {}
    for number, section in enumerate(everything):
        numbers.setdefault(section.name, number)
    if symbols or relocations:
        strings = Strings()
        table = bytearray(24 if wide else 16)
        extended = bytearray(4)
        symbol_numbers = {"": 0}
        # Local symbols come first, as the specification wants it.
        for number, symbol in enumerate(sorted(symbols, key=lambda s: s.binding != 0), 1):
            index = numbers[symbol.section] if isinstance(symbol.section, str) else symbol.section
            short = index if index < 0xFF00 or isinstance(symbol.section, int) else 0xFFFF
            info = symbol.binding << 4 | symbol.type
            name = strings.add(symbol.name)
            symbol_numbers.setdefault(symbol.name, number)
            extended += struct.pack(order + "I", index if short == 0xFFFF else 0)
            if wide:
                table += struct.pack(order + "IBBHQQ", name, info, 0, short, symbol.address, symbol.size)
            else:
                table += struct.pack(order + "IIIBBH", name, symbol.address, symbol.size, info, 0, short)
        local = 1 + sum(symbol.binding == 0 for symbol in symbols)
        everything.append(Sec(".strtab", bytes(strings.data), type=3))
        everything.append(
            Sec(".symtab", bytes(table), type=2, link=len(everything) - 1, info=local, entry_size=24 if wide else 16)
        )
        symtab = len(everything) - 1
        if len(sections) >= 0xFF00:
            everything.append(Sec(".symtab_shndx", bytes(extended), type=18, link=symtab, entry_size=4))
        for target, entries in (relocations or {}).items():
            contents = bytearray()
            for entry in entries:
                symbol_number = symbol_numbers[entry.symbol]
                if wide:
                    contents += struct.pack(order + "QQ", entry.offset, symbol_number << 32 | entry.type)
                    contents += struct.pack(order + "q", entry.addend) if with_addends else b""
                else:
                    contents += struct.pack(order + "II", entry.offset, symbol_number << 8 | entry.type)
                    contents += struct.pack(order + "i", entry.addend) if with_addends else b""
            everything.append(
                Sec(
                    (".rela" if with_addends else ".rel") + target,
                    bytes(contents),
                    type=4 if with_addends else 9,
                    link=symtab,
                    info=numbers[target],
                    entry_size=(3 if with_addends else 2) * (8 if wide else 4),
                )
            )
    names = Strings()
    everything.append(Sec(".shstrtab", type=3))
    offsets = [names.add(section.name) for section in everything]
    everything[-1].data = bytes(names.data)
    header_size, program_size, section_size = (64, 56, 64) if wide else (52, 32, 40)
    body = bytearray()
    start = header_size + program_size * len(segments)
    places = []
    for section in everything:
        if section.type not in (0, 8):
            body += bytes(-(start + len(body)) % max(section.alignment, 1))
        places.append(start + len(body) if section.type else 0)
        if section.type != 8:
            body += section.data
    body += bytes(-(start + len(body)) % 8)
    table_at = start + len(body)
    headers = bytearray()
    count, names_index = len(everything), len(everything) - 1
    for number, section in enumerate(everything):
        size = section.size if section.size is not None else len(section.data)
        link = numbers[section.link] if isinstance(section.link, str) else section.link
        info = numbers[section.info] if isinstance(section.info, str) else section.info
        if number == 0 and count >= 0xFF00:
            size, link = count, names_index
        headers += struct.pack(
            order + ("IIQQQQIIQQ" if wide else "10I"),
            offsets[number],
            section.type,
            section.flags,
            section.address,
            places[number],
            size,
            link,
            info,
            section.alignment,
            section.entry_size,
        )
    programs = bytearray()
    for seg in segments:
        if wide:
            fields = (seg.type, seg.flags, seg.offset, seg.address, 0, seg.file_size, seg.memory_size, 1)
            programs += struct.pack(order + "IIQQQQQQ", *fields)
        else:
            fields = (seg.type, seg.offset, seg.address, 0, seg.file_size, seg.memory_size, seg.flags, 1)
            programs += struct.pack(order + "8I", *fields)
    header = b"\x7fELF" + bytes([2 if wide else 1, 1 if little else 2, 1]) + bytes(9)
    header += struct.pack(
        order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
        type,
        machine,
        1,
        0,
        header_size if segments else 0,
        table_at,
        0,
        header_size,
        program_size if segments else 0,
        len(segments),
        section_size,
        0 if count >= 0xFF00 else count,
        0xFFFF if count >= 0xFF00 else names_index,
    )
    return header + bytes(programs) + bytes(body) + bytes(headers)
