"""A file to list: the program with its symbols and code, and the file with its DWARF.

>>> image = open_image("vmlinux")
>>> for site in image.sites(["vfs_llseek"]): print(hex(site.address), site.symbol)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from inlinetrace.code._flow import Flow
from inlinetrace.dwarf.info import DebugInfo, no_debug_info
from inlinetrace.elf.debugfile import DEFAULT_ROOTS, Attempt, find_alternate_file, find_debug_file
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import UnsupportedError
from inlinetrace.sites.from_dwarf import DwarfSites, Region, Selection

if TYPE_CHECKING:
    from inlinetrace.code.analysis import Code
    from inlinetrace.elf.symbols import SymbolTable
    from inlinetrace.sites.model import Site

_LAST_ADDRESS = (1 << 64) - 1


class Image:
    """One kernel image, module or user program, opened with open_image.

    ``tried`` are the places where its DWARF was looked for, ``alternate_missing`` names the supplementary file (dwz)
    that is referred to and not there.
    """

    def __init__(
        self, program: ElfFile, debug: ElfFile, alternate: ElfFile | None, tried: Sequence[Attempt], module: str | None
    ) -> None:
        self.program = program
        self.debug = debug
        self.alternate = alternate
        self.tried = tuple(tried)
        self.module = module
        self._codes: dict[int, Code | None] = {}

    @property
    def path(self) -> str:
        """Path of the program."""
        return self.program.path

    @cached_property
    def dwarf(self) -> DebugInfo:
        """The DWARF."""
        return DebugInfo(self.debug, program=self.program, alternate=self.alternate)

    @cached_property
    def reader(self) -> DwarfSites:
        """The reader of the sites."""
        return DwarfSites(self.dwarf, self, module=self.module)

    def select(self, patterns: Sequence[str] = ("*",), *, inside: bool = False) -> Selection:
        """What matches; see DwarfSites.select."""
        return self.reader.select(patterns, inside=inside)

    def has_function(self, pattern: str) -> bool:
        """Whether any function here has a name that matches ``pattern``."""
        return self.reader.has_function(pattern)

    def warnings(self) -> list[str]:
        """What keeps sites from being found or named, one line each."""
        found = []
        if self.dwarf.alternate_missing:
            link = self.debug.debug_alt_link
            name = link[0] if link else "?"
            found.append(f"{self.debug.path}: functions without a name stand in {name}, which is not there")
        missing = self.dwarf.split.missing
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            found.append(f"{self.debug.path}: split DWARF: {missing[0]}{more} not found: its sites are not listed")
        return found

    def sites(self, patterns: Sequence[str] = ("*",)) -> Iterator[Site]:
        """All sites and out-of-line copies of the functions that match one of ``patterns`` (shell globs)."""
        return self.reader.build(self.select(patterns).rows)

    @cached_property
    def _symbols_file(self) -> ElfFile:
        """The file with the fuller symbol table: a stripped program has none, its debug file has."""
        return self.debug if self.debug.section(".symtab") is not None else self.program

    @cached_property
    def _symbols(self) -> SymbolTable:
        return self._symbols_file.symbols()

    def region(self, address: int) -> Region:
        """The section around a link-time address."""
        section = self.program.section_at(address) or self._symbols_file.section_at(address)
        if section is None:
            return Region(None, address, min(address + 1, _LAST_ADDRESS))
        return Region(section.name, section.address, min(section.address + section.size, _LAST_ADDRESS))

    def flow(self, address: int) -> Flow | None:
        """The jumps of the section around ``address``; None if the file at hand does not have its code."""
        code = self.code(address)
        if code is None:
            return None
        by_source, by_target = code.jumps_by_source, code.jumps()
        return Flow(by_source.sources, by_source.targets, by_target.targets, by_target.sources)

    def symbol(self, address: int) -> tuple[str, int] | None:
        """Name of the function symbol that contains ``address``, and the offset in it."""
        return self._symbols.name_and_offset(address)

    def code(self, address: int) -> Code | None:
        """The instructions of the section around ``address``; None if the file at hand does not have them."""
        section = self.program.section_at(address)
        if section is None or not section.executable or section.nobits:
            return None
        if section.index not in self._codes:
            from inlinetrace.code.analysis import Code

            try:
                self._codes[section.index] = Code.of_section(self.program, section)
            except UnsupportedError:
                self._codes[section.index] = None
        return self._codes[section.index]


def open_image(
    path: str | os.PathLike[str], *, roots: Sequence[str] = DEFAULT_ROOTS, module: str | None = None
) -> Image:
    """Open a program and find its DWARF, in it or in a separate debug file below ``roots``.

    ``module`` is the module's name if it is one. Raises NotFoundError if there is no DWARF, MismatchError if the only
    debug file is one of another build, and what ElfFile.open raises.
    """
    program = ElfFile.open(path)
    search = find_debug_file(program, roots)
    if search.file is None:
        raise no_debug_info(program, "build with -g, or install the package with the debug symbols")
    alternate = find_alternate_file(search.file, roots)
    return Image(program, search.file, alternate.file, (*search.tried, *alternate.tried), module)
