"""Where instructions begin and where jumps land, for one stretch of code.

>>> code = Code.of_section(elf, elf.section(".text"))
>>> code.is_boundary(address)                # True, False, or None: not certain
>>> code.is_jump_target(address), code.jump_sources(address)

A location that is right when control falls into a place may be wrong when control jumps to it, so users of locations
ask ``is_jump_target``; who plants a probe asks ``is_boundary`` first. Calls are not jumps.

Limits, all of them visible to the caller: bytes that are no instructions make the boundaries around them uncertain
(``undecoded``, ``is_boundary`` answers None); an indirect jump whose table was not recognised can land anywhere in its
function (``has_indirect_jump``). A linear sweep cannot see data in code that happen to decode; knowing where functions
start (``starts``) confines the damage to one function.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.code import _x86
from inlinetrace.code._flow import Flow
from inlinetrace.code.jumptables import IndirectJump, resolve
from inlinetrace.elf.machine import Machine

if TYPE_CHECKING:
    from inlinetrace.code.capstone_sweep import CapstoneSweep
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.sections import Section

# Decoding from a wrong offset falls into step with the right instructions within a few of them; 64 bytes are far more.
RESYNCHRONISED = 64
# Machines whose instructions all have one size cannot get out of step.
FIXED_SIZE = ("aarch64", "ppc64")
# Machines with REL: there the displacement that the instruction has is part of the addend.
_ADDENDS_IN_PLACE = ("i686", "arm")


class Relocations(NamedTuple):
    """Relocations of relocatable code: patched places (addresses), symbol + addend, 1 if the symbol has a section."""

    places: array[int]
    values: array[int]
    inside: array[int]


class Jumps:
    """Jumps as parallel arrays of addresses, ``sources`` and ``targets``, sorted by target and then by source."""

    def __init__(self, sources: array[int], targets: array[int]) -> None:
        self.sources = sources
        self.targets = targets

    def __len__(self) -> int:
        return len(self.targets)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield (source, target)."""
        return zip(self.sources, self.targets, strict=True)

    def __contains__(self, target: int) -> bool:
        """Tell whether a jump goes to ``target``."""
        at = bisect_left(self.targets, target)
        return at < len(self.targets) and self.targets[at] == target

    def to(self, target: int) -> Sequence[int]:
        """Return the sources of the jumps to ``target``."""
        first = bisect_left(self.targets, target)
        return self.sources[first : bisect_right(self.targets, target, lo=first)]

    def flow(self) -> Flow:
        """Return what answers questions about where control goes by these jumps."""
        targets, sources = _x86.sort_by_target(self.targets, self.sources)
        return Flow(sources, targets, self.targets, self.sources)


class Code:
    """The instructions of ``data``, which is loaded at ``address``.

    ``starts``: addresses where instructions are known to start, functions as a rule. ``read(address, size)`` returns
    memory of the same program and lets jump tables be followed; it returns fewer bytes where there is nothing.
    ``relocations`` goes with bytes of a relocatable file that are not relocated. Raises UnsupportedError for a machine
    whose instructions are not known.
    """

    def __init__(
        self,
        machine: Machine,
        data: memoryview | bytes,
        address: int = 0,
        *,
        starts: Iterable[int] = (),
        read: Callable[[int, int], bytes] | None = None,
        relocations: Relocations | None = None,
        little_endian: bool = True,
        thumb: bool = False,
    ) -> None:
        self.machine = machine
        self.address = address
        self.data = memoryview(data)
        self._read = read
        self._relocations = relocations
        end = address + len(self.data)
        self._starts = array("Q", [start for start in starts if address <= start < end])
        if any(a >= b for a, b in pairwise(self._starts)):
            self._starts = array("Q", sorted(set(self._starts)))
        known = array("Q", [start - address for start in self._starts]) if address else self._starts
        self._plain_arm = machine.name == "arm" and not thumb
        self._x86 = machine.name == "x86_64"
        if self._x86:
            self._sweep: _x86.Sweep | CapstoneSweep = _x86.sweep(self.data, address, known)
        else:
            from inlinetrace.code import capstone_sweep

            self._sweep = capstone_sweep.sweep(
                machine, self.data, address, known, little_endian=little_endian, thumb=thumb
            )

    @classmethod
    def of_section(cls, elf: ElfFile, section: Section) -> Code:
        """Analyse a section of an ELF file, with its functions, relocations and jump tables.

        For more than one section of a file use FileCode, which also knows the jumps between them.
        """
        from inlinetrace.code.file import FileCode

        return FileCode(elf).code(section)

    @property
    def end(self) -> int:
        """The address behind the last byte."""
        return self.address + len(self.data)

    def __contains__(self, address: int) -> bool:
        return self.address <= address < self.end

    @property
    def instruction_count(self) -> int:
        """Number of instructions."""
        return self._sweep.instruction_count

    def boundaries(self) -> array[int]:
        """Return the addresses where the sweep saw an instruction start, ascending."""
        return self._sweep.boundaries()

    @cached_property
    def undecoded(self) -> tuple[tuple[int, int], ...]:
        """Stretches that are no instructions: (first address, address behind the last)."""
        pairs = self._sweep.undecoded
        return tuple(zip(pairs[::2], pairs[1::2], strict=True))

    @cached_property
    def _uncertain(self) -> tuple[list[int], list[int]]:
        """Starts and ends of the stretches in which boundaries are uncertain, merged and ascending."""
        starts: list[int] = []
        ends: list[int] = []
        for first, last in self.undecoded:
            if self.machine.name not in FIXED_SIZE and not self._plain_arm:
                function = bisect_right(self._starts, first) - 1
                following = bisect_left(self._starts, last)
                first = max(first - RESYNCHRONISED, self._starts[function] if function >= 0 else self.address)
                if following < len(self._starts):
                    last = min(last + RESYNCHRONISED, self._starts[following])
                else:
                    last += RESYNCHRONISED
            if ends and first <= ends[-1]:
                ends[-1] = max(last, ends[-1])
            else:
                starts.append(first)
                ends.append(last)
        return starts, ends

    def is_boundary(self, address: int) -> bool | None:
        """Tell whether an instruction starts at ``address``; None where that is not certain.

        Uncertain are the surroundings of undecoded bytes, and an address inside an instruction that some jump goes to
        (code that jumps over a prefix has two right answers).
        """
        if address not in self:
            return False
        known = bisect_left(self._starts, address)
        if known < len(self._starts) and self._starts[known] == address and self._sweep.starts(address - self.address):
            return True
        starts, ends = self._uncertain
        at = bisect_right(starts, address) - 1
        if at >= 0 and address < ends[at]:
            return None
        if self._sweep.starts(address - self.address):
            return True
        if self.is_jump_target(address):
            return None
        return False

    @cached_property
    def _direct(self) -> tuple[array[int], array[int]]:
        sweep = self._sweep
        if self._relocations is None:
            return sweep.sources, sweep.targets
        r = self._relocations
        return _x86.patch_jumps(sweep.sources, sweep.ends, sweep.targets, self._bases, r.places, r.values, r.inside)

    @property
    def _bases(self) -> array[int]:
        """What symbol value + addend - place is added to, for each direct jump, to make its target."""
        if self._x86:
            return self._sweep.ends
        return self._sweep.targets if self.machine.name in _ADDENDS_IN_PLACE else self._sweep.sources

    @cached_property
    def indirect_jumps(self) -> tuple[IndirectJump, ...]:
        """All jumps through a register or memory, with the targets of those whose jump table was recognised."""
        addresses = self._sweep.indirect
        if not self._x86 or self._read is None:
            return tuple(IndirectJump(address, None, ()) for address in addresses)
        return resolve(self.data, self.address, addresses, self._sweep, self._read, self._starts)

    @cached_property
    def unsorted_jumps(self) -> tuple[array[int], array[int]]:
        """The sources and targets of ``jumps``, in any order."""
        sources, targets = self._direct
        tables = [jump for jump in self.indirect_jumps if jump.targets]
        if tables:
            sources, targets = array("Q", sources), array("Q", targets)
            for jump in tables:
                sources.extend([jump.address] * len(jump.targets))
                targets.extend(jump.targets)
        return sources, targets

    @cached_property
    def _jumps(self) -> Jumps:
        return Jumps(*_x86.sort_by_target(*self.unsorted_jumps))

    def jumps(self) -> Jumps:
        """Return all jumps of this code whose targets are known, direct ones and those of jump tables."""
        return self._jumps

    def is_jump_target(self, address: int) -> bool:
        """Tell whether a known jump of this code goes to ``address``.

        FileCode knows the jumps from other sections; see ``has_indirect_jump`` for what is not known.
        """
        return address in self._jumps

    def jump_sources(self, address: int) -> Sequence[int]:
        """Return the addresses of the jumps in this code that go to ``address``, ascending."""
        return self._jumps.to(address)

    @cached_property
    def _unresolved(self) -> list[int]:
        return [jump.address for jump in self.indirect_jumps if not jump.targets]

    def has_indirect_jump(self, start: int, end: int) -> bool:
        """Tell whether an indirect jump with unknown targets lies in [start, end), a function as a rule.

        Then ``is_jump_target`` may be incomplete there. Tail calls through pointers count too: they look the same.
        """
        at = bisect_left(self._unresolved, start)
        return at < len(self._unresolved) and self._unresolved[at] < end
