"""The code of a whole ELF file, section by section, with the jumps that cross from one section into another.

>>> codes = FileCode(elf)
>>> code = codes.code(elf.section(".text"))

The cold parts of functions live in sections of their own in a kernel module (``.text.unlikely``) and jump back; a
section looked at alone would miss that. Every section is decoded once, when it is first needed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left

from inlinetrace.code.analysis import Code, Jumps, Relocations
from inlinetrace.elf.file import ElfFile
from inlinetrace.elf.sections import Section


class FileCode:
    """The code of ``elf``."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._codes: dict[int, Code] = {}
        self._relocations: dict[int, list[tuple[int, int, int]]] = {}

    def code(self, section: Section) -> Code:
        """Return the code of ``section``. Raises UnsupportedError for a machine whose instructions are not known."""
        found = self._codes.get(section.index)
        if found is None:
            found = self._codes[section.index] = self._make(section)
        return found

    def _relocations_of(self, section: Section) -> list[tuple[int, int, int]]:
        found = self._relocations.get(section.index)
        if found is None:
            found = self._relocations[section.index] = self._elf.relocations(section)
        return found

    def _read(self, address: int, size: int) -> bytes:
        holder = self._elf.section_at(address)
        if holder is None or holder.nobits:
            return b""
        at = address - holder.address
        return bytes(self._elf.raw_data(holder)[at : at + size])

    def _make(self, section: Section) -> Code:
        elf = self._elf
        relocations = None
        if elf.relocatable:
            found = self._relocations_of(section)
            relocations = Relocations(
                array("Q", [place for place, _, _ in found]),
                array("Q", [value for _, value, _ in found]),
                array("B", [target == section.index for _, _, target in found]),
            )
        return Code(
            elf.machine,
            elf.raw_data(section),
            section.address,
            starts=elf.symbols().function_starts(section.index),
            read=None if elf.relocatable else self._read,
            relocations=relocations,
            elsewhere=lambda: self._elsewhere(section),
            little_endian=elf.little_endian,
        )

    def _elsewhere(self, section: Section) -> Jumps:
        """The jumps of all other sections into ``section``, sorted by target."""
        pairs: list[tuple[int, int]] = []
        for other in self._elf.sections:
            if other.index == section.index or not other.executable or other.nobits or not other.size:
                continue
            if self._elf.relocatable:
                crossing = [(p, v) for p, v, target in self._relocations_of(other) if target == section.index]
                if crossing:
                    pairs += self.code(other).jumps_at(crossing)
            else:
                jumps = self.code(other).jumps()
                first = bisect_left(jumps.targets, section.address)
                last = bisect_left(jumps.targets, section.address + section.size)
                pairs += zip(jumps.targets[first:last], jumps.sources[first:last], strict=True)
        pairs.sort()
        return Jumps(array("Q", [source for _, source in pairs]), array("Q", [target for target, _ in pairs]))
