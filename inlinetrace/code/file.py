"""The code of a whole ELF file: its executable sections, and the jumps within and between them.

>>> codes = FileCode(elf)
>>> codes.code(section).boundaries()
>>> codes.jumps.to(address)
>>> codes.jump_targets([address])            # these for a few addresses, without decoding everything
>>> codes.jumps_near([(begin, end)])
>>> codes.is_boundary(address)

The cold parts of functions live in sections of their own in a kernel module (``.text.unlikely``) and jump back; a
section looked at alone would miss that. Every section is decoded once, when it is first needed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
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
        # a piece of code between two function starts, by its first address
        self._pieces: dict[int, Code] = {}
        self._function_starts: dict[int, array[int]] = {}

    def code(self, section: Section) -> Code:
        """Return the code of ``section``. Raises UnsupportedError for a machine whose instructions are not known."""
        found = self._codes.get(section.index)
        if found is None:
            found = self._codes[section.index] = self._make(section)
        return found

    def holds(self, address: int) -> bool:
        """Tell whether the file has instructions at ``address``."""
        return self._section_at(address) is not None

    def is_boundary(self, address: int) -> bool | None:
        """Tell what Code.is_boundary does, decoding as a rule no more than the function around ``address``.

        Raises UnsupportedError for a machine whose instructions are not known.
        """
        section = self._section_at(address)
        if section is None:
            return False
        # a sweep begins anew at every start; but which addresses are jumped to only the whole can tell
        alone = section.index not in self._codes and self._elf.machine.name == "x86_64"
        if alone and self._piece(section, address).is_boundary(address):
            return True
        return self.code(section).is_boundary(address)

    def _starts(self, section: Section) -> array[int]:
        """Where the functions of a section start; picked out of all symbols once."""
        found = self._function_starts.get(section.index)
        if found is None:
            found = self._function_starts[section.index] = self._elf.symbols().function_starts(section.index)
        return found

    def _piece(self, section: Section, address: int) -> Code:
        starts = self._starts(section)
        end = section.address + section.size
        following = bisect_right(starts, address)
        first = max(starts[following - 1] if following else section.address, section.address)
        last = min(starts[following] if following < len(starts) else end, end)
        piece = self._pieces.get(first)
        if piece is None:
            part = self._elf.data(section)[first - section.address : last - section.address]
            known = [first] if following and starts[following - 1] == first else []
            piece = self._pieces[first] = Code(self._elf.machine, part, first, starts=known)
        return piece

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
            starts=self._starts(section),
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

    def is_jump_target(self, address: int) -> bool:
        """Tell whether a known jump goes to ``address``; see Code.has_indirect_jump for what is not known."""
        return address in self.jumps

    def jump_targets(self, addresses: Iterable[int]) -> set[int]:
        """Return those of ``addresses`` that a known jump goes to: for a few, most of the code need not be decoded.

        Raises UnsupportedError for a machine whose instructions are not known.
        """
        wanted = set(addresses)
        found = self._direct_jumps(wanted, [])
        if found is not None:
            return wanted.intersection(found[1])
        return {address for address in wanted if address in self.jumps}

    def jumps_near(self, spans: Sequence[tuple[int, int]]) -> Jumps:
        """Return at least the jumps to the first address of a span, and all from inside of a span.

        A span is (first address, address behind the last), which may be the same. For a few, most of the code need not
        be decoded. Raises UnsupportedError for a machine whose instructions are not known.
        """
        found = self._direct_jumps({begin for begin, _ in spans}, spans)
        return self.jumps if found is None else Jumps(*_x86.sort_by_target(*found))

    def _direct_jumps(self, wanted: set[int], spans: Sequence[tuple[int, int]]) -> tuple[array[int], array[int]] | None:
        """Sources and targets of the direct jumps to ``wanted``, and of all from inside of ``spans``.

        None where that is of no use: all jumps are known, or there are jump tables, which only the whole tells.
        """
        if self._elf.machine.name != "x86_64" or "jumps" in self.__dict__:
            return None
        if not wanted:
            return array("Q"), array("Q")
        ascending = array("Q", sorted(wanted))
        begins, ends = array("Q", [begin for begin, _ in spans]), array("Q", [end for _, end in spans])
        sources, targets = array("Q"), array("Q")
        for section in self._sections():
            data = self._elf.data(section)
            found = _targets.candidates(data, section.address, self._starts(section), ascending, begins, ends)
            if any(has_table(data, *stretch) for stretch in found.indirect):
                return None
            sources.extend(found.sources)
            targets.extend(found.targets)
        return sources, targets
