"""A file to list: the program with its symbols and code, and the file with its DWARF.

>>> image = open_image("vmlinux")
>>> for site in image.sites(["vfs_llseek"]): print(hex(site.address), site.symbol)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from inlinetrace.dwarf.info import DebugInfo, no_debug_info
from inlinetrace.elf.constants import LAST_ADDRESS
from inlinetrace.elf.debugfile import (
    DEFAULT_ROOTS,
    Attempt,
    find_alternate_file,
    find_debug_file,
    find_program_file,
    has_code,
)
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import UnsupportedError
from inlinetrace.sites.from_dwarf import DwarfSites, Region, Selection
from inlinetrace.target.listing import Listing
from inlinetrace.target.loaded import AddressKind, Loaded

if TYPE_CHECKING:
    from inlinetrace.code._flow import Flow
    from inlinetrace.code.file import FileCode
    from inlinetrace.elf.machine import Machine
    from inlinetrace.elf.symbols import SymbolTable
    from inlinetrace.sites.model import Site


class Image:
    """One kernel image, module or user program, opened with open_image.

    ``path`` is what was asked for; ``program`` has the code and ``debug`` the DWARF, both in one address space.
    ``tried`` are the places where the other of the two was looked for. Addresses are those of the file; a relocatable
    one has those of inlinetrace.elf.layout, and Region says what people call them. That is the run-time address where
    ``loaded`` says that the kernel runs the file, and where; ``notices`` are for whoever asked for the image.
    """

    def __init__(
        self,
        path: str,
        program: ElfFile,
        debug: ElfFile,
        alternate: ElfFile | None,
        tried: Sequence[Attempt],
        module: str | None,
    ) -> None:
        self.loaded: Loaded | None = None
        self.notices: list[str] = []
        self.path = path
        self.program = program if program is debug else program.laid_out_as(debug)
        self.debug = debug
        self.alternate = alternate
        self.tried = tuple(tried)
        self.module = module

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

    def unknown(self, patterns: Sequence[str]) -> list[str]:
        """Those of ``patterns`` that no function's name here matches."""
        return self.reader.unknown(patterns)

    def warnings(self) -> list[str]:
        """What keeps sites from being found or named, one line each."""
        found = list(self.notices)
        if self.dwarf.alternate_missing:
            link = self.debug.debug_alt_link
            name = link[0] if link else "?"
            found.append(f"{self.debug.path}: functions without a name stand in {name}, which is not there")
        missing = self.dwarf.split.what_is_missing
        if missing is not None:
            found.append(f"{self.debug.path}: {missing}: its sites are not listed")
        return found

    @property
    def has_symbols(self) -> bool:
        """See Listed: DWARF has the functions itself."""
        return True

    @property
    def machine(self) -> Machine:
        """The machine whose registers are named."""
        return self.debug.machine

    def function_names(self) -> Iterator[str]:
        """Every name that a function has here."""
        return self.reader.function_names()

    def listing(self, patterns: Sequence[str] = ("*",), *, inside: bool = False) -> Listing:
        """The sites and copies of functions that match (shell globs), by address, or the sites inside of them."""
        chosen = self.select(patterns, inside=inside)
        reader = self.reader
        return Listing(
            len(chosen.rows),
            chosen.rows.inlined,
            lambda: reader.build(reader.by_address(chosen.rows)),
            lambda: reader.count_inside(chosen),
        )

    def is_gone(self, section: str | None) -> bool:
        """Whether ``section`` is one of a loaded module's that is not in memory (any more)."""
        # Of a loaded module some sections are gone, of everything else all sections are alike.
        return self.loaded is not None and self.load_bias is None and not self.has_runtime_address(section)

    def sites(self, patterns: Sequence[str] = ("*",)) -> Iterator[Site]:
        """All sites and out-of-line copies of the functions that match one of ``patterns`` (shell globs)."""
        return self.reader.build(self.select(patterns).rows)

    @cached_property
    def symbols_file(self) -> ElfFile:
        """The file with the fuller symbol table: a stripped program has none, its debug file has."""
        return self.debug if self.debug.section(".symtab") is not None else self.program

    @cached_property
    def _symbols(self) -> SymbolTable:
        return self.symbols_file.symbols()

    def region(self, address: int) -> Region:
        """The section around an address, and the address that its start is known by."""
        section = self.program.section_at(address) or self.symbols_file.section_at(address)
        runtime = None if self.loaded is None else self.loaded.runtime_address(section, address)
        if section is None:
            known_as = address if runtime is None else runtime
            return Region(None, address, min(address + 1, LAST_ADDRESS), known_as)
        if runtime is not None:
            known_as = runtime - (address - section.address)
        else:
            known_as = 0 if self.program.relocatable else section.address
        return Region(section.name, section.address, min(section.address + section.size, LAST_ADDRESS), known_as)

    def known_as(self, address: int) -> int:
        """What people call an address of the file, as Site.address does: its run-time address, if it is known."""
        region = self.region(address)
        return region.known_as + address - region.start

    def runtime_address(self, address: int) -> int | None:
        """Where an address of the file is while it runs; None where that is not known."""
        return None if self.loaded is None else self.loaded.runtime_address(self.debug.section_at(address), address)

    @property
    def load_bias(self) -> int | None:
        """What Site.address of a running kernel is above the link-time address; None where that is not known."""
        return None if self.loaded is None else self.loaded.bias

    def has_runtime_address(self, section: str | None) -> bool:
        """Whether Site.address is the run-time address for sites in ``section``."""
        return self.loaded is not None and self.loaded.knows(section)

    def address_kind(self, section: str | None) -> AddressKind:
        """What the addresses of the sites in ``section`` are."""
        if self.has_runtime_address(section):
            return AddressKind.RUN_TIME
        return AddressKind.SECTION_OFFSET if self.program.relocatable else AddressKind.LINK_TIME

    def symbol(self, address: int) -> tuple[str, int] | None:
        """Name of the function symbol that contains ``address``, and the offset in it."""
        return self._symbols.name_and_offset(address)

    def name_address(self, address: int) -> str:
        """What people call an address: a number, or section and offset in a relocatable file that is not loaded."""
        runtime = self.runtime_address(address)
        if runtime is not None:
            return hex(runtime)
        if not self.program.relocatable:
            return hex(address)
        section = self.debug.section_at(address)
        if section is None:
            return hex(address)
        return f"{section.name}+{address - section.address:#x}"

    @cached_property
    def _code(self) -> FileCode | None:
        """The instructions of the program; None if the file does not have them, or the machine's are not known."""
        from inlinetrace.code.file import FileCode

        if not has_code(self.program):
            return None
        code = FileCode(self.program)
        try:
            code.jumps_near(())
        except UnsupportedError:
            return None
        return code

    def has_code(self, address: int) -> bool:
        """Whether the file at hand has the instructions at ``address``, and they are known."""
        return self._code is not None and self._code.holds(address)

    def is_boundary(self, address: int) -> bool | None:
        """Whether an instruction starts at ``address``; None where that is not certain."""
        return None if self._code is None or not self._code.holds(address) else self._code.is_boundary(address)

    @cached_property
    def _flow(self) -> Flow | None:
        return None if self._code is None else self._code.jumps.flow()

    def forget_code(self) -> None:
        """Let go of the decoded instructions; whoever asks for them has them decoded again."""
        for name in ("_code", "_flow"):
            self.__dict__.pop(name, None)

    def flow(self, address: int) -> Flow | None:
        """The jumps of the program; None if the instructions at ``address`` are not at hand."""
        return self._flow if self.has_code(address) else None

    def flow_near(self, spans: Sequence[tuple[int, int]]) -> Flow | None:
        """The jumps to where a span begins, and all from inside of one; None if the program's are not at hand."""
        return None if self._code is None else self._code.jumps_near(spans).flow()

    def is_jump_target(self, address: int) -> bool | None:
        """Whether an instruction jumps to ``address``; None where the instructions there are not at hand."""
        return None if self._code is None or not self._code.holds(address) else self._code.is_jump_target(address)

    def jump_targets(self, addresses: Iterable[int]) -> dict[int, bool | None]:
        """The same for a few addresses at once, cheaper than one by one if the code is needed for nothing else."""
        addresses = list(addresses)
        code = self._code
        if code is None:
            return dict.fromkeys(addresses)
        targets = code.jump_targets(addresses)
        return {address: address in targets if code.holds(address) else None for address in addresses}


def open_image(
    path: str | os.PathLike[str], *, roots: Sequence[str] = DEFAULT_ROOTS, module: str | None = None
) -> Image:
    """Open a program and find its DWARF, in it or in a separate debug file below ``roots``.

    ``path`` may also name that debug file; then the program is looked for, so that its instructions can be read.
    ``module`` is the module's name if it is one. Raises NotFoundError if there is no DWARF, MismatchError if the only
    debug file is one of another build, and what ElfFile.open raises.
    """
    program = ElfFile.open(path)
    search = find_debug_file(program, roots)
    if search.file is None:
        raise no_debug_info(program, "build with -g, or install the package with the debug symbols")
    return make_image(program, search.file, tried=search.tried, roots=roots, module=module)


def make_image(
    program: ElfFile,
    debug: ElfFile,
    *,
    tried: Sequence[Attempt] = (),
    roots: Sequence[str] = DEFAULT_ROOTS,
    module: str | None = None,
) -> Image:
    """Make an image of a program and the file with its DWARF, which may be the same and must belong together.

    The file with the instructions is looked for if ``program`` has none, and the supplementary file (dwz) of ``debug``.
    """
    code = find_program_file(program, roots)
    alternate = find_alternate_file(debug, roots)
    everything = (*tried, *code.tried, *alternate.tried)
    return Image(program.path, code.file or program, debug, alternate.file, everything, module)
