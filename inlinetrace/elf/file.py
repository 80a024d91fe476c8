"""An ELF file: its sections with their contents, its segments, its identity.

>>> elf = ElfFile.open("/usr/lib/debug/boot/vmlinux-6.1.0")
>>> elf.machine.name, elf.build_id.hex()
>>> info = elf.data(".debug_info")          # a read-only memoryview, decompressed and relocated where needed

Plain files are mapped, so opening costs nothing for a file of any size; compressed modules (``.ko.xz``, ``.ko.zst``,
``.ko.gz``) are recognised by their contents and decompressed into memory. Everything beyond the ELF header is read when
it is first asked for. Damaged input raises FormatError with section and offset, from the access that meets the damage.
The sections of a relocatable file get addresses of their own (inlinetrace.elf.layout).
"""

from __future__ import annotations

import mmap
import os
import stat
from array import array
from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING

from inlinetrace._memory import forget_pages
from inlinetrace.elf import _relocate
from inlinetrace.elf.compressed import MAX_DECOMPRESSED, compression_of, decompress
from inlinetrace.elf.constants import (
    ELFCOMPRESS_ZLIB,
    ELFCOMPRESS_ZSTD,
    ET_REL,
    NT_GNU_BUILD_ID,
    PT_LOAD,
    PT_NOTE,
    SHF_COMPRESSED,
    SHF_TLS,
    SHT_NOTE,
    SHT_NULL,
    SHT_REL,
    SHT_RELA,
    SHT_SYMTAB,
    SHT_SYMTAB_SHNDX,
)
from inlinetrace.elf.layout import lay_out
from inlinetrace.elf.machine import Machine, machine_for
from inlinetrace.elf.notes import read_notes
from inlinetrace.elf.relocations import table_for, thread_local_bias
from inlinetrace.elf.sections import Section, Segment, read_header, read_sections, read_segments
from inlinetrace.elf.stamp import Stamp
from inlinetrace.errors import FormatError, InlineTraceError, NotFoundError, NotPermittedError, UnsupportedError

if TYPE_CHECKING:
    from inlinetrace.elf.symbols import SymbolTable

_EMPTY = memoryview(b"")


class ElfFile:
    """One ELF file. ``open`` and ``from_bytes`` make it."""

    def __init__(self, data: memoryview, path: str, model: ElfFile | None = None) -> None:
        self.path = path
        self._data = data
        self._model = model
        self._header = header = read_header(data, path)
        self.little_endian = header.little_endian
        self.address_size = header.address_size
        self.machine: Machine = machine_for(header.machine, header.address_size)
        self.type = header.type
        self.relocatable = header.type == ET_REL
        self.entry = header.entry
        self.stamp: Stamp | None = None
        """The state of the file when it was opened; None if it was not."""
        self._contents: dict[int, memoryview] = {}

    def __repr__(self) -> str:
        return f"ElfFile({self.path!r})"

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ElfFile:
        """Open the ELF file at ``path``, which may be compressed.

        Raises NotFoundError, NotPermittedError or FormatError. A mapped file must not be truncated while it is in use.
        """
        name = os.fspath(path)
        try:
            # Without O_NONBLOCK a FIFO would wait for its writer for ever.
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError("no such file", path=name) from error
        except PermissionError as error:
            raise NotPermittedError("not permitted to read it", path=name) from error
        except (OSError, ValueError) as error:
            raise InlineTraceError(f"cannot be opened: {_reason(error)}", path=name) from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise FormatError("not a regular file", path=name)
            if not status.st_size:
                raise FormatError("the file is empty", path=name)
            data = memoryview(mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ))
        except OSError as error:
            raise InlineTraceError(f"cannot be read: {_reason(error)}", path=name) from error
        finally:
            os.close(descriptor)
        file = cls(_plain(data, name), name)
        file.stamp = Stamp.of(status)
        return file

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview, path: str = "<memory>") -> ElfFile:
        """Read an ELF file from ``data``, which may be compressed; ``path`` is for messages."""
        return cls(_plain(memoryview(data).toreadonly().cast("B"), path), path)

    def laid_out_as(self, other: ElfFile) -> ElfFile:
        """Return this file with the section addresses of ``other``, which is of the same build.

        Only relocatable files have addresses that are made up here; any other file is returned as it is. See
        inlinetrace.elf.layout for which sections belong together.
        """
        if not self.relocatable or not other.relocatable:
            return self
        return ElfFile(self._data, self.path, other)

    @property
    def image(self) -> memoryview:
        """The whole file, after decompression."""
        return self._data

    def forget_pages(self) -> None:
        """Let go of the pages of the file that are in memory; they come back when they are read again."""
        if isinstance(self._data.obj, mmap.mmap):
            forget_pages(self._data)

    @property
    def file_size(self) -> int:
        """Size in bytes, after decompression."""
        return len(self._data)

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All section headers, by number; those of a relocatable file with the addresses of inlinetrace.elf.layout."""
        sections = read_sections(self._data, self._header, self.path)
        if not self.relocatable:
            return sections
        model = () if self._model is None else self._model.sections
        return lay_out(sections, address_size=self.address_size, path=self.path, model=model)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        names: dict[str, int] = {}
        for section in self.sections:
            names.setdefault(section.name, section.index)
        return names

    def section(self, name: str) -> Section | None:
        """Return the first section called ``name``; ``.debug_x`` also finds an old compressed ``.zdebug_x``."""
        index = self._by_name.get(name)
        if index is None and name.startswith(".debug_"):
            index = self._by_name.get(".z" + name[1:])
        return None if index is None else self.sections[index]

    def sections_named(self, name: str) -> list[Section]:
        """Return all sections that ``section`` may find (section groups and ``-ffunction-sections`` repeat names)."""
        first = self.section(name)
        return [] if first is None else [section for section in self.sections if section.name == first.name]

    @cached_property
    def program_headers(self) -> tuple[Segment, ...]:
        """All program headers."""
        return read_segments(self._data, self._header, self.path)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The loaded segments (PT_LOAD)."""
        return tuple(segment for segment in self.program_headers if segment.type == PT_LOAD)

    def raw_data(self, section: Section) -> memoryview:
        """Return the bytes of ``section`` as the file has them: neither decompressed nor relocated."""
        if section.nobits or section.type == SHT_NULL or not section.size:
            return _EMPTY
        end = section.offset + section.size
        if end > len(self._data):
            raise FormatError(
                f"the section ends at {end:#x}, beyond the end of the file at {len(self._data):#x}: is it truncated?",
                path=self.path,
                section=section.label,
                offset=section.offset,
            )
        return self._data[section.offset : end]

    def data(self, section: Section | str | None) -> memoryview:
        """Return the contents of a section: decompressed, and with its relocations applied in a relocatable file.

        A read-only, contiguous memoryview of bytes, kept for the next call. Empty for a section that does not exist or
        has no contents in this file. The relocations that ``--emit-relocs`` leaves in a linked file are not applied.
        Raises UnsupportedError for a relocation type that is not known.
        """
        if isinstance(section, str):
            section = self.section(section)
        if section is None:
            return _EMPTY
        contents = self._contents.get(section.index)
        if contents is None:
            contents = self._contents[section.index] = self._relocated(section, self._decompressed(section))
        return contents

    def _decompressed(self, section: Section) -> memoryview:
        raw = self.raw_data(section)
        if not raw or not section.compressed:
            return raw
        if section.flags & SHF_COMPRESSED:
            header_size = 24 if self.address_size == 8 else 12
            if len(raw) < header_size:
                raise FormatError("the compression header is cut off", path=self.path, section=section.label, offset=0)
            order = "little" if self.little_endian else "big"
            number = int.from_bytes(raw[:4], order)  # type: ignore[arg-type]
            size_at = 8 if self.address_size == 8 else 4
            size = int.from_bytes(raw[size_at : size_at + self.address_size], order)  # type: ignore[arg-type]
            kind = {ELFCOMPRESS_ZLIB: "zlib", ELFCOMPRESS_ZSTD: "zstd"}.get(number)
            if kind is None:
                raise UnsupportedError(f"compression type {number}", path=self.path, section=section.label)
        else:
            if bytes(raw[:4]) != b"ZLIB" or len(raw) < 12:
                raise FormatError(
                    "a .zdebug section without its header", path=self.path, section=section.label, offset=0
                )
            header_size, kind, size = 12, "zlib", int.from_bytes(raw[4:12], "big")
        return memoryview(decompress(raw[header_size:], kind, path=self.path, section=section.label, expected=size))

    @cached_property
    def _section_addresses(self) -> array[int]:
        """What the symbols of each section of a relocatable file are relative to."""
        return array("Q", [section.address for section in self.sections])

    @cached_property
    def _relocation_sections(self) -> dict[int, list[Section]]:
        found: dict[int, list[Section]] = {}
        if self.relocatable:
            for section in self.sections:
                if section.type in (SHT_REL, SHT_RELA) and section.info:
                    found.setdefault(section.info, []).append(section)
        return found

    @cached_property
    def _extended_indexes(self) -> dict[int, Section]:
        return {section.link: section for section in self.sections if section.type == SHT_SYMTAB_SHNDX}

    def extended_section_indexes(self, symbol_table: Section) -> memoryview:
        """Return the SHT_SYMTAB_SHNDX contents that belong to ``symbol_table``; empty where there are none."""
        section = self._extended_indexes.get(symbol_table.index)
        return _EMPTY if section is None else self.raw_data(section)

    def linked_section(self, section: Section) -> Section:
        """Return the section that ``sh_link`` of ``section`` names."""
        if not 0 < section.link < len(self.sections):
            raise FormatError(
                f"it links to section {section.link}, which does not exist", path=self.path, section=section.label
            )
        return self.sections[section.link]

    def _layout(self, relocations: Section, target: Section) -> _relocate.Layout:
        symbol_table = self.linked_section(relocations)
        if symbol_table.type != SHT_SYMTAB:
            raise FormatError("relocations without a symbol table", path=self.path, section=relocations.label)
        with_addends = relocations.type == SHT_RELA
        expected = (3 if with_addends else 2) * self.address_size
        if relocations.entry_size not in (0, expected):
            raise FormatError(
                f"relocations of {relocations.entry_size} bytes, not {expected}",
                path=self.path,
                section=relocations.label,
            )
        return _relocate.Layout(
            self.raw_data(relocations),
            self.raw_data(symbol_table),
            self.extended_section_indexes(symbol_table),
            table_for(self.machine.elf_machine),
            self._section_addresses,
            place=target.address,
            address_size=self.address_size,
            with_addends=with_addends,
            little_endian=self.little_endian,
            thread_local_bias=thread_local_bias(self.machine.elf_machine),
            lenient=target.executable,
        )

    def _problem(self, problem: _relocate.RelocationError, relocations: Section) -> InlineTraceError:
        if problem.kind == "type":
            return UnsupportedError(
                f"relocation type {problem.number} of {self.machine.name} is not known",
                path=self.path,
                section=relocations.label,
                offset=problem.offset,
            )
        text = (
            "a relocation lies outside its section"
            if problem.kind == "bounds"
            else f"a relocation names symbol {problem.number}, which does not exist"
        )
        return FormatError(text, path=self.path, section=relocations.label, offset=problem.offset)

    def _relocated(self, section: Section, contents: memoryview) -> memoryview:
        applying = self._relocation_sections.get(section.index)
        if not applying or not contents:
            return contents
        patched = bytearray(contents)
        for relocations in applying:
            try:
                _relocate.apply(self._layout(relocations, section), patched)
            except _relocate.RelocationError as problem:
                raise self._problem(problem, relocations) from None
        return memoryview(patched).toreadonly()

    def relocations(self, section: Section) -> list[tuple[int, int, int]]:
        """Return every relocation of ``section`` as (place, symbol + addend, section of the symbol), by place.

        Place and symbol are addresses. The section is 0 for a symbol without one. For what no table of relocation types
        knows: branches above all. Empty for linked files.
        """
        found: list[tuple[int, int, int]] = []
        for relocations in self._relocation_sections.get(section.index, ()):
            try:
                found += zip(*_relocate.values(self._layout(relocations, section)), strict=True)
            except _relocate.RelocationError as problem:
                raise self._problem(problem, relocations) from None
        return sorted(found)

    def symbols(self) -> SymbolTable:
        """Return the symbol table (``.symtab``, else ``.dynsym``), indexed; made once."""
        return self._symbol_table

    @cached_property
    def _symbol_table(self) -> SymbolTable:
        from inlinetrace.elf.symbols import SymbolTable

        return SymbolTable(self)

    def notes(self) -> list[tuple[str, int, bytes]]:
        """Return the notes as (owner, type, description): of the note sections, or the segments if there are none."""
        found = []
        regions = [
            (s.name, self.raw_data(s), s.alignment) for s in self.sections if s.type == SHT_NOTE and not s.nobits
        ]
        if not self.sections:
            for segment in self.program_headers:
                if segment.type == PT_NOTE and segment.offset + segment.file_size <= len(self._data):
                    contents = self._data[segment.offset : segment.offset + segment.file_size]
                    regions.append(("PT_NOTE", contents, segment.alignment))
        for name, contents, alignment in regions:
            found += read_notes(contents, alignment, self.little_endian, path=self.path, section=name)
        return found

    @cached_property
    def build_id(self) -> bytes | None:
        """The build id (NT_GNU_BUILD_ID)."""
        for owner, kind, description in self.notes():
            if owner == "GNU" and kind == NT_GNU_BUILD_ID and description:
                return description
        return None

    def _name_and_rest(self, section_name: str) -> tuple[str, bytes, int] | None:
        contents = bytes(self.data(section_name))
        if not contents:
            return None
        end = contents.find(b"\0")
        if end <= 0:
            raise FormatError("the file name has no end", path=self.path, section=section_name, offset=0)
        return os.fsdecode(contents[:end]), contents, end + 1

    @cached_property
    def debug_link(self) -> tuple[str, int] | None:
        """File name and CRC-32 of the separate debug file (``.gnu_debuglink``)."""
        found = self._name_and_rest(".gnu_debuglink")
        if found is None:
            return None
        name, contents, at = found
        at = (at + 3) & ~3
        if len(contents) < at + 4:
            raise FormatError("the checksum is cut off", path=self.path, section=".gnu_debuglink", offset=at)
        return name, int.from_bytes(contents[at : at + 4], "little" if self.little_endian else "big")

    @cached_property
    def debug_alt_link(self) -> tuple[str, bytes] | None:
        """File name and build id of the file that dwz moved common DWARF into (``.gnu_debugaltlink``)."""
        found = self._name_and_rest(".gnu_debugaltlink")
        return None if found is None else (found[0], found[1][found[2] :])

    @cached_property
    def _mapped(self) -> list[tuple[int, int, int]]:
        """(address, file offset, size) of what is loaded, sorted by address."""
        if self.relocatable:
            return []
        if self.segments:
            regions = [(s.address, s.offset, s.file_size) for s in self.segments if s.file_size]
        else:
            regions = [(s.address, s.offset, s.size) for s in self.sections if s.allocated and s.size and not s.nobits]
        return sorted(regions)

    def file_offset(self, address: int) -> int | None:
        """Return where in the file the byte at ``address`` is; None if nowhere, and in relocatable files."""
        for start, offset, size in self._mapped:
            if start <= address < start + size:
                return offset + address - start
        return None

    def address_of(self, file_offset: int) -> int | None:
        """Return the address that the byte at ``file_offset`` is loaded at, None if it is not loaded."""
        for start, offset, size in self._mapped:
            if offset <= file_offset < offset + size:
                return start + file_offset - offset
        return None

    @cached_property
    def _placed(self) -> tuple[list[int], list[Section]]:
        placed = [
            s
            for s in self.sections
            if s.allocated and s.size and not (s.flags & SHF_TLS and (s.nobits or self.relocatable))
        ]
        placed.sort(key=lambda s: s.address)
        return [s.address for s in placed], placed

    def section_at(self, address: int) -> Section | None:
        """Return the section that contains ``address``; None if none does."""
        addresses, placed = self._placed
        at = bisect_right(addresses, address) - 1
        if at < 0 or address >= placed[at].address + placed[at].size:
            return None
        return placed[at]

    @cached_property
    def discards_at_zero(self) -> bool:
        """Whether address 0 stands for what the linker left out: the file is linked, and no code is there."""
        section = self.section_at(0)
        return not self.relocatable and not (section is not None and section.executable)


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _plain(data: memoryview, path: str) -> memoryview:
    """Return ``data``, decompressed if it is a compressed file."""
    kind = compression_of(data)
    return data if kind is None else memoryview(decompress(data, kind, path=path))


__all__ = ["MAX_DECOMPRESSED", "ElfFile"]
