"""What a BPF program fetches at each site: the fetch arguments of a plan as reads of memory, and where they end up.

>>> capture = Capture.of(plan, machine)
>>> capture.entries[0].reads                 # (Read(base=9, offset=8, size=8, faults=1), ...)

One program serves all sites. It stores the registers that any site needs, then does the reads that the site's entry in
a table names, one after the other: each reads memory at a word that is in the record already, plus a constant. Records
therefore have one layout for all sites: a header, registers, the reads in their order, text. What could not be read is
a bit in the record, so that no second read has to prove it, and text longer than a short slot is read again into a long
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from inlinetrace.elf.machine import Machine
from inlinetrace.errors import UnsupportedError
from inlinetrace.probe.fetch import STRING, Argument
from inlinetrace.probe.plan import Plan, Probe

# The header: time, address, thread and process, number of the probe, processor, name of the process, one bit for each
# read that failed, and a word that is 0, which fixed addresses are counted from.
TIME, ADDRESS, THREAD, NUMBER, CPU, COMMAND, FAULTS, ZERO, HEADER_SIZE = 0, 8, 16, 24, 28, 32, 48, 64, 72
COMMAND_SIZE = 16
MAXIMUM_READS = 128
"""Reads of a site: as many as there are bits in the header."""
SHORT_TEXT, LONG_TEXT = 128, 4096
"""Bytes kept for text with its NUL at first, and if it does not fit: the kernel's limit for probe events."""
MAXIMUM_FRAMES = 127
"""Frames of a stack (kernel.perf_event_max_stack)."""

_WORD = 8
_NESTED = re.compile(r"([+-]\d+)\((.*)\)\Z")
_ABSOLUTE = re.compile(r"@(0x[0-9a-f]+)\Z")
_ARRAY = re.compile(r"x(8|64)\[(\d+)\]\Z")

# struct pt_regs as BPF programs see it (arch/*/include/uapi/asm/ptrace.h).
_X86_64_ORDER = (
    *("r15", "r14", "r13", "r12", "bp", "bx", "r11", "r10", "r9", "r8"),
    *("ax", "cx", "dx", "si", "di", "orig_ax", "ip", "cs", "flags", "sp", "ss"),
)
_X86_64 = {name: 8 * index for index, name in enumerate(_X86_64_ORDER)}
_AARCH64 = {**{f"x{number}": 8 * number for number in range(31)}, "sp": 248, "pc": 256}


class Registers(NamedTuple):
    """Where registers are in ``struct pt_regs``; ``behind`` is how far the pc of a kprobe is behind its address."""

    offsets: dict[str, int]
    pc: int
    behind: int


def registers_of(machine: Machine) -> Registers:
    """The registers of a machine. Raises UnsupportedError for one that is not known."""
    if machine.name == "x86_64":
        return Registers(_X86_64, _X86_64["ip"], 1)
    if machine.name == "aarch64":
        return Registers(_AARCH64, _AARCH64["pc"], 0)
    raise UnsupportedError(f"the bcc backend does not know the registers of {machine.name}: use the tracefs backend")


class Read(NamedTuple):
    """``size`` bytes at the word in slot ``base`` plus ``offset``. ``faults``: bits that tell it cannot be had."""

    base: int
    offset: int
    size: int
    faults: int


class Source(NamedTuple):
    """Where an argument of a probe is: a register, or the read or text of this index; ``size`` bytes of it."""

    kind: str
    number: int
    size: int


class Entry:
    """What is fetched at one probe. Bases of reads are numbers of slots, set when all entries are known."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.reads: list[Read] = []
        self.texts: list[Read] = []
        self.sources: list[Source] = []


class _Compiler:
    """Compiles the arguments of one probe. Bases are symbolic: a register's index, or -1 - index of a read."""

    def __init__(self, plan: Plan, probe: Probe, registers: list[str], known: Registers) -> None:
        self._plan = plan
        self._registers = registers
        self._known = known
        self._index: dict[tuple[str, int], int] = {}
        self.entry = Entry(probe)

    def argument(self, argument: Argument) -> None:
        """Fetch one argument."""
        text, type_ = argument
        if type_ == STRING:
            base, offset, faults = self._address(text)
            self.entry.sources.append(Source("text", len(self.entry.texts), 0))
            self.entry.texts.append(Read(base, offset, 0, faults))
        elif text.startswith("%"):
            self.entry.sources.append(Source("register", self._register(text), int(type_[1:]) // 8))
        else:
            array = _ARRAY.match(type_)
            size = int(array[1]) // 8 * int(array[2]) if array else int(type_[1:]) // 8
            kind = "bytes" if array else "number"
            self.entry.sources.append(Source(kind, self._read(text, size), size))

    def _register(self, text: str) -> int:
        name = text[1:]
        if name not in self._known.offsets:
            raise UnsupportedError(f"no register {text}")
        if name not in self._registers:
            self._registers.append(name)
        return self._registers.index(name)

    def _read(self, text: str, size: int) -> int:
        """The index of the read of ``size`` bytes of memory, as the kernel's syntax names it."""
        pending = [(text, size)]
        # what an address is read from is read first; nesting is bounded by the syntax, not by recursion
        while (nested := _NESTED.match(pending[-1][0])) is not None and not nested[2].startswith("%"):
            pending.append((nested[2], _WORD))
        for key in reversed(pending):
            if key not in self._index:
                base, offset, faults = self._address(key[0])
                number = len(self.entry.reads)
                self._index[key] = number
                self.entry.reads.append(Read(base, offset, key[1], faults | 1 << number))
        return self._index[text, size]

    def _address(self, text: str) -> tuple[int, int, int]:
        """Base and offset of the memory that ``text`` names, and the faults of the way to it."""
        nested = _NESTED.match(text)
        if nested is not None:
            offset = int(nested[1])
            if nested[2].startswith("%"):
                return self._register(nested[2]), offset, 0
            index = self._index.get((nested[2], _WORD))
            if index is None:
                index = self._read(nested[2], _WORD)
            return -1 - index, offset, self.entry.reads[index].faults
        absolute = _ABSOLUTE.match(text)
        if absolute is not None:
            return _FIXED, int(absolute[1], 16), 0
        # counted like the probe's own offset: from the start of the file, or from the plan's symbol
        probe = self.entry.probe
        anchor = f"@{probe.anchor or self._plan.target}" if self._plan.kernel else "@"
        rest = text.removeprefix(anchor)
        if rest == text or not re.fullmatch(r"[+-]\d+", rest):
            raise UnsupportedError(f"memory at {text}")
        return _RELATIVE, int(rest) - probe.offset - probe.shift, 0


_RELATIVE, _FIXED = -1000, -1001


class Capture(NamedTuple):
    """What is fetched at all probes of a plan, and the one layout of its records.

    ``refused`` are probes at which it cannot be done, with the reason. ``read_sizes`` are the bytes kept for the first
    read, the second, ..., what the largest of any site needs, and ``read_offsets`` where they are. ``texts`` is how
    many texts there is room for. ``frames`` is how deep stacks are kept, 0 for none; there are ``stacks`` of them, the
    kernel's first if there are two.
    """

    registers: tuple[str, ...]
    known: Registers
    entries: list[Entry]
    refused: list[tuple[Probe, str]]
    read_sizes: list[int]
    read_offsets: list[int]
    stack_offset: int
    texts: int = 0
    frames: int = 0
    stacks: int = 0

    @classmethod
    def of(cls, plan: Plan, machine: Machine, *, frames: int = 0) -> Capture:
        """Compile a plan. Raises UnsupportedError for machines that are not known."""
        known = registers_of(machine)
        registers: list[str] = []
        entries = []
        refused = []
        for probe in plan.probes:
            compiler = _Compiler(plan, probe, registers, known)
            try:
                for argument in probe.arguments:
                    compiler.argument(argument)
            except UnsupportedError as error:
                refused.append((probe, f"{error.message} cannot be fetched by a BPF program"))
                continue
            if len(compiler.entry.reads) > MAXIMUM_READS:
                refused.append((probe, f"{len(compiler.entry.reads)} reads, {MAXIMUM_READS} are possible"))
                continue
            entries.append(compiler.entry)
        sizes = _sizes(entries)
        offsets = [HEADER_SIZE + _WORD * len(registers)]
        for size in sizes:
            offsets.append(offsets[-1] + (size + _WORD - 1) // _WORD * _WORD)
        stacks = 0 if not frames else 2 if plan.kernel else 1
        texts = max((len(entry.texts) for entry in entries), default=0)
        result = cls(tuple(registers), known, entries, refused, sizes, offsets, offsets[-1], texts, frames, stacks)
        for entry in entries:
            entry.reads = [read._replace(base=result._slot(read.base)) for read in entry.reads]
            entry.texts = [read._replace(base=result._slot(read.base)) for read in entry.texts]
        return result

    def _slot(self, base: int) -> int:
        """The number of the 8 bytes in a record that a symbolic base stands for."""
        if base == _RELATIVE:
            return ADDRESS // _WORD
        if base == _FIXED:
            return ZERO // _WORD
        return (self.register_offset(base) if base >= 0 else self.read_offsets[-1 - base]) // _WORD

    def register_offset(self, index: int) -> int:
        """Where a register is in a record."""
        return HEADER_SIZE + _WORD * index

    @property
    def stack_size(self) -> int:
        """Bytes that one stack takes: its size or an error below 0, then addresses."""
        return _WORD * (self.frames + 1) if self.frames else 0

    @property
    def text_offset(self) -> int:
        """Where the texts begin: for each its length with the NUL, or an error below 0, then its bytes."""
        return self.stack_offset + self.stacks * self.stack_size

    def size(self, text_size: int) -> int:
        """Bytes of a record whose texts have ``text_size`` bytes each."""
        return self.text_offset + self.texts * (_WORD + text_size)


def _sizes(entries: Iterable[Entry]) -> list[int]:
    """For each index of a read the largest size that any entry has there."""
    sizes: list[int] = []
    for entry in entries:
        for index, read in enumerate(entry.reads):
            if index == len(sizes):
                sizes.append(0)
            sizes[index] = max(sizes[index], read.size)
    return sizes
