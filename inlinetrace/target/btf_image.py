"""Location info in BTF as an input: the same questions as to an Image, answered without DWARF.

>>> image = open_btf("vmlinux.inline", ["vmlinux.btf"])
>>> for site in image.listing(["vfs_llseek"]).sites(): print(hex(site.address), site.function)

Where a site is in memory, and in which function, only a symbol table tells: that of ``program``. Without one, addresses
are offsets in the section.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from inlinetrace.btf.load import load
from inlinetrace.errors import MismatchError, NotFoundError, UsageError
from inlinetrace.globs import divide
from inlinetrace.sites.from_btf import BtfSites, ElfSurroundings, OffsetBase
from inlinetrace.target.listing import Listing
from inlinetrace.target.loaded import AddressKind

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.machine import Machine
    from inlinetrace.sites.model import Site

_INSIDE_INSTRUCTIONS = 0.1
"""The part of the sites that may lie inside of instructions before it is certain that the code is another."""


class BtfImage:
    """An object with location info, read by ``reader``.

    ``kind`` is what addresses are in the sections that ``reader`` knows the place of; ``notices`` are what the opener
    has to say; ``program`` is the file with the sections and symbols.
    """

    def __init__(
        self,
        path: str,
        reader: BtfSites,
        kind: AddressKind,
        notices: Sequence[str] = (),
        program: ElfFile | None = None,
    ) -> None:
        self.path = path
        self.reader = reader
        self.program = program
        self.notices = list(notices)
        self._kind = kind

    @property
    def has_symbols(self) -> bool:
        """Whether addresses and callers are known."""
        return self.reader.surroundings is not None

    @property
    def machine(self) -> Machine:
        """The machine whose registers are named."""
        return self.reader.machine

    def warnings(self) -> list[str]:
        """What the reader of a listing should know."""
        dialect = self.reader.btf.dialect
        found = [] if dialect is None else [f"{self.path}: location info in dialect {dialect.value}"]
        return found + self.notices

    def unknown(self, patterns: Sequence[str]) -> list[str]:
        """Those of ``patterns`` that no function's name here matches."""
        return self.reader.unknown(patterns)

    def function_names(self) -> Iterator[str]:
        """Every name that a function with sites has here."""
        return iter(self.reader.function_names())

    def listing(self, patterns: Sequence[str], *, inside: bool = False) -> Listing:
        """The sites of the functions that match one of ``patterns``, and their copies; ``inside`` as for an Image."""
        if inside:
            sites = self._inside(patterns)
        else:
            sites = _sorted([*self.reader.build(self.reader.select(patterns)), *self.reader.copies(patterns)])
        # Only all sites with their symbols tell what is inside: ten times the work of the listing, for a remark.
        return Listing(len(sites), sum(site.inlined for site in sites), lambda: iter(sites), lambda: (0, 0))

    def _inside(self, patterns: Sequence[str]) -> list[Site]:
        if not self.has_symbols:
            raise UsageError("BTF does not record what a site is inside of: name the symbol table with -k, -m or -x")
        exact, glob = divide(patterns)

        def wanted(site: Site) -> bool:
            name = (site.symbol or "").split(".")[0]
            return name in exact or (glob is not None and bool(glob(name)))

        return _sorted([site for site in self.reader.build(self.reader.select(["*"])) if wanted(site)])

    def name_address(self, address: int) -> str:
        """What people call an address of the program's data."""
        return hex(address)

    def is_gone(self, section: str | None) -> bool:
        """Whether ``section`` is one of the running kernel's that is not in memory (any more)."""
        return self._kind is AddressKind.RUN_TIME and not self._knows(section)

    def address_kind(self, section: str | None) -> AddressKind:
        """What the addresses of the sites in ``section`` are."""
        return self._kind if self._knows(section) else AddressKind.SECTION_OFFSET

    def _knows(self, section: str | None) -> bool:
        surroundings = self.reader.surroundings
        return surroundings is not None and section in surroundings.sections


def _sorted(sites: list[Site]) -> list[Site]:
    return sorted(sites, key=lambda site: (site.section or "", site.address, site.inlined))


def open_btf(
    path: str,
    bases: Sequence[str] = (),
    *,
    program: str | None = None,
    offset_base: OffsetBase | None = None,
    module: str | None = None,
) -> BtfImage:
    """Open an object with location info: detached, in an ELF file (``.BTF.inline``) or below /sys/kernel/btf.

    ``bases`` are what it is split from, outermost first. ``program`` is the file with the sections and symbols.
    Raises NotFoundError for BTF without location info, FormatError for BTF that cannot be read, MismatchError for a
    program or bases of another build.
    """
    section = None
    if program is not None and path == program:
        section = ".BTF.inline"
    btf = load(path, bases, section=section)
    if program is None:
        notice = "without a symbol table (-k, -m or -x) addresses are offsets in their section"
        alone = BtfSites(btf, this_machine(), offset_base=offset_base, module=module)
        return BtfImage(path, alone, AddressKind.SECTION_OFFSET, [notice])
    from inlinetrace.elf.file import ElfFile

    elf = ElfFile.open(program)
    reader = BtfSites(
        btf,
        elf.machine,
        surroundings=ElfSurroundings(elf),
        offset_base=offset_base,
        section_offsets=elf.relocatable,
        module=module,
    )
    if section is None:
        _check_program(reader, elf)
    kind = AddressKind.SECTION_OFFSET if elf.relocatable else AddressKind.LINK_TIME
    return BtfImage(path, reader, kind, program=elf)


def _check_program(reader: BtfSites, elf: ElfFile) -> None:
    """Refuse a program of another build: detached BTF has no build id, but its sites are where instructions begin.

    Of 1,000 sites of a kernel none lies inside an instruction of its own build, and 700 inside one of another. Where
    instructions have one size, or are decoded slowly, that is no evidence: only x86-64 is looked at.
    """
    if elf.machine.name != "x86_64":
        return
    from inlinetrace.code.file import FileCode

    codes = FileCode(elf)
    looked_at = inside = 0
    for name, offset in reader.sampled_places():
        section = elf.section(name)
        if section is None or section.nobits or not section.executable:
            continue
        looked_at += 1
        inside += codes.code(section).is_boundary(section.address + offset) is False
    if inside > looked_at * _INSIDE_INSTRUCTIONS:
        raise MismatchError(
            f"{inside} of {looked_at} sites are not where an instruction of {elf.path} begins: it is of another build",
            path=reader.btf.path,
        )


def has_location_info(path: str) -> bool:
    """Whether an ELF file has a section with location info."""
    from inlinetrace.elf.file import ElfFile

    return ElfFile.open(path).section(".BTF.inline") is not None


def this_machine() -> Machine:
    """The machine that we run on."""
    from inlinetrace.elf.machine import MACHINES

    name = os.uname().machine
    for machine in MACHINES.values():
        if machine.name == name or name.startswith(machine.name):
            return machine
    raise NotFoundError(f"the registers of {name} are not known: name a program with -k, -m or -x")
