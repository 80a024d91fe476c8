"""The code of a whole ELF file: its executable sections, and the jumps within and between them.

>>> codes = FileCode(elf)
>>> codes.at(address).is_boundary(address)
>>> codes.jumps.to(address)
>>> codes.jump_targets([address])            # for a few addresses, without decoding everything

The cold parts of functions live in sections of their own in a kernel module (``.text.unlikely``) and jump back; a
section looked at alone would miss that. Every section is decoded once, when it is first needed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cached_property

from inlinetrace.code import _targets, _x86
from inlinetrace.code.analysis import Code, Jumps, Relocations
from inlinetrace.code.jumptables import has_table
from inlinetrace.elf.file import ElfFile
from inlinetrace.elf.sections import Section
from inlinetrace.errors import UnsupportedError


class FileCode:
    """The code of ``elf``."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._codes: dict[int, Code] = {}

    def code(self, section: Section) -> Code:
        """Return the code of ``section``. Raises UnsupportedError for a machine whose instructions are not known."""
        found = self._codes.get(section.index)
        if found is None:
            found = self._codes[section.index] = self._make(section)
        return found

    def at(self, address: int) -> Code | None:
        """Return the code around ``address``; None if the file has no instructions there. Raises as ``code`` does."""
        section = self._section_at(address)
        return None if section is None else self.code(section)

    def holds(self, address: int) -> bool:
        """Tell whether the file has instructions at ``address``."""
        return self._section_at(address) is not None

    def _section_at(self, address: int) -> Section | None:
        section = self._elf.section_at(address)
        return None if section is None or not section.executable or section.nobits else section

    def _sections(self) -> Iterable[Section]:
        """The sections that jumps are looked for in."""
        return (
            section
            for section in self._elf.sections
            if section.executable and section.allocated and section.size and not section.nobits
        )

    def _read(self, address: int, size: int) -> bytes:
        holder = self._elf.section_at(address)
        if holder is None or holder.nobits:
            return b""
        at = address - holder.address
        return bytes(self._elf.data(holder)[at : at + size])

    def _is_thumb(self, section: Section) -> bool:
        """Tell by the mapping symbols (ELF for the Arm Architecture, section 5.5.5) which instruction set it is."""
        symbols = self._elf.symbols()
        kinds = {
            name[:2]
            for prefix in ("$a", "$t")
            for name, index in ((s.name, s.section_index) for s in symbols.names_starting_with(prefix))
            if index == section.index and name[2:3] in ("", ".")
        }
        if len(kinds) != 1:
            found = "both Arm and Thumb instructions" if kinds else "no symbols that tell Arm from Thumb instructions"
            raise UnsupportedError(f"it has {found}", path=self._elf.path, section=section.label)
        return kinds == {"$t"}

    def _make(self, section: Section) -> Code:
        elf = self._elf
        relocations = None
        # Displacements of x86 are plain numbers, which are right once relocated; other machines pack their fields.
        if elf.relocatable and elf.machine.name != "x86_64":
            found = elf.relocations(section)
            relocations = Relocations(
                array("Q", [place for place, _, _ in found]),
                array("Q", [value for _, value, _ in found]),
                array("B", [target != 0 for _, _, target in found]),
            )
        return Code(
            elf.machine,
            elf.raw_data(section) if relocations is not None else elf.data(section),
            section.address,
            starts=elf.symbols().function_starts(section.index),
            read=self._read,
            relocations=relocations,
            little_endian=elf.little_endian,
            thumb=elf.machine.name == "arm" and self._is_thumb(section),
        )

    @cached_property
    def jumps(self) -> Jumps:
        """All jumps of the file whose targets are known, whatever sections they go from and to."""
        sources, targets = array("Q"), array("Q")
        for section in self._sections():
            more_sources, more_targets = self.code(section).unsorted_jumps
            sources.extend(more_sources)
            targets.extend(more_targets)
        return Jumps(*_x86.sort_by_target(sources, targets))

    @cached_property
    def jumps_by_source(self) -> Jumps:
        """The same jumps, sorted by source and then by target."""
        return Jumps(*reversed(_x86.sort_by_target(self.jumps.targets, self.jumps.sources)))

    def is_jump_target(self, address: int) -> bool:
        """Tell whether a known jump goes to ``address``; see Code.has_indirect_jump for what is not known."""
        return address in self.jumps

    def jump_targets(self, addresses: Iterable[int]) -> set[int]:
        """Return those of ``addresses`` that a known jump goes to: for a few, most of the code need not be decoded.

        Raises UnsupportedError for a machine whose instructions are not known.
        """
        wanted = array("Q", sorted(set(addresses)))
        if wanted and self._elf.machine.name == "x86_64" and "jumps" not in self.__dict__:
            found = self._direct_targets(wanted)
            if found is not None:
                return found
        return {address for address in wanted if address in self.jumps}

    def _direct_targets(self, wanted: array[int]) -> set[int] | None:
        """Those of ``wanted`` that direct jumps go to; None if there are jump tables, which only the whole tells."""
        found: set[int] = set()
        for section in self._sections():
            data = self._elf.data(section)
            candidates = _targets.candidates(
                data, section.address, self._elf.symbols().function_starts(section.index), wanted
            )
            found.update(candidates.found)
            if any(has_table(data, *stretch) for stretch in candidates.indirect):
                return None
        return found
