"""The symbol table: which function contains an address, and which symbols have a name.

>>> table = elf.symbols()
>>> symbol, offset = table.lookup(0xffffffff8102c2b4)
>>> [symbol.name for symbol in table.names_starting_with("vfs_llseek.")]

The index is compiled and compact; a Symbol is made, and its name decoded, only for what is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.elf._symbols import Index
from inlinetrace.elf.constants import LAST_ADDRESS, SHT_DYNSYM, SHT_SYMTAB, STT_FUNC, STT_GNU_IFUNC
from inlinetrace.errors import FormatError

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.sections import Section


class Symbol(NamedTuple):
    """One symbol; ``type`` is an STT_* and ``binding`` an STB_* number.

    ``address`` lies in the section as ElfFile.sections has it, in relocatable files too. Thumb functions have bit 0
    cleared. ``section_index`` is 0 for undefined symbols, SHN_ABS or SHN_COMMON of inlinetrace.elf.constants (above any
    real number), or the section's number.
    """

    name: str
    address: int
    size: int
    section_index: int
    type: int
    binding: int

    @property
    def is_function(self) -> bool:
        """It is typed as a function (a label of assembler code may have no type)."""
        return self.type in (STT_FUNC, STT_GNU_IFUNC)


class SymbolTable:
    """The symbols of one file: of ``.symtab``, or ``.dynsym`` if it is stripped. Empty if it has neither."""

    def __init__(self, elf: ElfFile) -> None:
        self._path = elf.path
        self._names: dict[int, tuple[str, int]] = {}
        self._strings = memoryview(b"")
        self.section: Section | None = None
        for kind in (SHT_SYMTAB, SHT_DYNSYM):
            found = next((s for s in elf.sections if s.type == kind and s.size), None)
            if found is not None:
                self.section = found
                break
        symbols = extended = memoryview(b"")
        if self.section is not None:
            expected = 24 if elf.address_size == 8 else 16
            if self.section.entry_size not in (0, expected):
                raise FormatError(
                    f"symbols of {self.section.entry_size} bytes, not {expected}",
                    path=elf.path,
                    section=self.section.label,
                )
            symbols = elf.raw_data(self.section)
            extended = elf.extended_section_indexes(self.section)
            strings = elf.linked_section(self.section)
            self._strings = elf.raw_data(strings)
            if self._strings and self._strings[-1]:
                raise FormatError("the string table does not end in NUL", path=elf.path, section=strings.label)
        self._code = bytes(section.executable and section.allocated for section in elf.sections)
        limits = array("Q", bytes(8 * len(elf.sections)))
        for section in elf.sections:
            if section.executable:
                limits[section.index] = min(section.address + section.size, LAST_ADDRESS)
        bases = array("Q", [section.address for section in elf.sections] if elf.relocatable else [])
        self._index = Index(
            symbols,
            self._strings,
            extended,
            memoryview(limits),
            bases,
            address_size=elf.address_size,
            little_endian=elf.little_endian,
            thumb=elf.machine.name == "arm",
        )

    def __len__(self) -> int:
        return self._index.count

    def __iter__(self) -> Iterator[Symbol]:
        """Yield every symbol in the order of the table, without the empty first one."""
        return (self.symbol(number) for number in range(1, self._index.count))

    def symbol(self, number: int) -> Symbol:
        """Return symbol ``number`` of the table."""
        name, address, size, section, kind, binding = self._index.fields(number)
        return Symbol(self._text(name), address, size, section, kind, binding)

    def _text(self, offset: int) -> str:
        strings = self._strings
        if offset >= len(strings):
            if not offset:
                return ""
            section = self.section.label if self.section is not None else None
            raise FormatError(
                f"a symbol's name at {offset:#x} lies outside the string table", path=self._path, section=section
            )
        # Nearly all names are short; a long one takes a few turns.
        size = 64
        while True:
            piece = bytes(strings[offset : offset + size])
            end = piece.find(b"\0")
            if end >= 0:
                return piece[:end].decode("utf-8", "surrogateescape")
            size *= 4

    def lookup(self, address: int) -> tuple[Symbol, int] | None:
        """Return the function that contains ``address`` and the offset in it; None if none does.

        Of several symbols at one address a function goes before a label without type, one with a size before one
        without, and a global one before a local one. A symbol without size extends to the next one. Labels inside a
        function count as that function; of nested functions the innermost is returned.
        """
        if not 0 <= address < 1 << 64:
            return None
        number = self._index.lookup(address)
        if number < 0:
            return None
        symbol = self.symbol(number)
        return symbol, address - symbol.address

    def name_and_offset(self, address: int) -> tuple[str, int] | None:
        """Return the name of the function that contains ``address``, and the offset in it, as ``lookup`` does."""
        number = self._index.lookup(address)
        if number < 0:
            return None
        known = self._names.get(number)
        if known is None:
            symbol = self.symbol(number)
            known = self._names[number] = (symbol.name, symbol.address)
        return known[0], address - known[1]

    def named(self, name: str) -> list[Symbol]:
        """Return all symbols called ``name``, in the order of the table."""
        return [self.symbol(number) for number in self._index.named(name.encode("utf-8", "surrogateescape"))]

    def names_starting_with(self, prefix: str) -> list[Symbol]:
        """Return all symbols whose names start with ``prefix``: ``foo.`` finds ``foo.isra.0``, ``foo.cold``..."""
        return [self.symbol(number) for number in self._index.with_prefix(prefix.encode("utf-8", "surrogateescape"))]

    def function_starts(self, section_index: int) -> array[int]:
        """Return the addresses (``Q``) where the typed functions of a section start, ascending."""
        return self._index.function_starts(section_index)

    def kallsyms(self) -> tuple[array[int], array[int]]:
        """Return the symbols of code that a kernel keeps: addresses (``Q``), ascending, and numbers for ``symbol``.

        Of several at one address it is the one that the kernel finds (scripts/kallsyms.c, find_kallsyms_symbol()).
        """
        return self._index.kallsyms(self._code)

    def functions(self) -> Iterator[Symbol]:
        """Yield all function symbols (aliases too) by address."""
        return (self.symbol(number) for number in self._index.functions())
