"""The BPF programs of the bcc backend: what happens when a probe is hit.

>>> table = Table(capture, values=0)
>>> code = site_program(capture, table, maps, options)

The address that was hit leads to the site's entry in a table (``Table`` says how it looks), which names what to read. A
program either writes a record for each hit, or adds to counts and histograms and writes none.

Programs on uprobes may be preempted, and another one run on the same processor meanwhile. So nothing is kept per
processor: a record is filled where it lies in the ring buffer, and without one the program's own stack takes its place.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from inlinetrace.probe import bpf_capture as record
from inlinetrace.probe.bpf_capture import LONG_TEXT, SHORT_TEXT, Capture, Entry
from inlinetrace.probe.bpf_code import FP, R0, R1, R2, R3, R4, R5, R6, R7, R8, Assembler
from inlinetrace.probe.bpf_kernel import DispatchNotes

# Helpers (include/uapi/linux/bpf.h).
_LOOKUP, _UPDATE, _DELETE, _TIME, _CPU, _THREAD, _COMMAND, _TASK, _STACK = 1, 2, 3, 5, 8, 14, 16, 35, 67
_READ_USER, _READ_KERNEL, _TEXT_USER, _TEXT_KERNEL = 112, 113, 114, 115
_RESERVE, _SUBMIT, _DISCARD, _COPY_USER = 131, 132, 133, 148
_NO_WAKEUP = 1
_USER_STACK = 256

# An entry of the table: hits counted, number of the probe, values, reads, texts.
_HITS, _NUMBER, _VALUES = 0, 8, 16
_VALUE_SIZE, _READ_SIZE = 24, 16

BUCKETS = 131
"""Counts of one histogram: for values of up to 64 bits below 0, 0, above 0, and for what could not be read."""
ZERO_BUCKET, UNREADABLE_BUCKET = 64, 129

STACK_LIMIT = 448
"""Bytes of a program's stack that may stand in for a record; the rest of its 512 is for keys."""
# Places on the stack, from its top.
_KEY, _HIT, _WHERE, _BYTE = -8, -16, -24, -32
_NOTE = -48
_SCRATCH = 64


class Value(NamedTuple):
    """A number for a histogram: where it is in the record, which bits of it, and the histogram it counts for."""

    slot: int
    size: int
    signed: bool
    faults: int
    histogram: int


class Comparison(NamedTuple):
    """A test of a register that decides whether a hit counts: ``value & mask`` or ``value symbol number``.

    It is the same for all sites; where the value is, their entries say.
    """

    value: int
    symbol: str
    number: int
    signed: bool


class Maps(NamedTuple):
    """Descriptors: the table of one event, and those that all events share. None for what is not used."""

    table: int
    ring: int | None = None
    lost: int | None = None
    processes: int | None = None
    histograms: int | None = None


class Options(NamedTuple):
    """What a program does. ``mask`` are the bits of an address that tell the site, ``notes`` how to find its offset in
    the file instead.

    ``condition`` is a filter in postfix order: comparisons, ``and``, ``or``, ``not``. ``wait``: memory of a user
    program may be read in, which takes a program that may sleep.
    """

    kernel: bool
    mask: int
    notes: DispatchNotes | None = None
    aggregate: bool = False
    condition: tuple[Comparison | str, ...] = ()
    wait: bool = True


class Table:
    """The layout of entries: as many values, reads and texts as the site with the most needs.

    ``values`` are the numbers of each probe that are compared or counted in histograms, by the number of the probe.
    """

    def __init__(self, capture: Capture, values: Mapping[int, Sequence[Value]] | None = None) -> None:
        self.capture = capture
        self.values = values or {}
        # how many an entry has room for
        self.value_count = max(map(len, self.values.values()), default=0)

    def value(self, index: int) -> int:
        """Offset of a value in an entry."""
        return _VALUES + _VALUE_SIZE * index

    def read(self, index: int) -> int:
        """Offset of a read in an entry."""
        return self.value(self.value_count) + _READ_SIZE * index

    def text(self, index: int) -> int:
        """Offset of a text in an entry."""
        return self.read(len(self.capture.read_sizes)) + _READ_SIZE * index

    @property
    def size(self) -> int:
        """Bytes of an entry."""
        return self.text(self.capture.texts)

    def entry(self, entry: Entry) -> bytes:
        """An entry: what the program reads at one site."""
        result = bytearray(self.size)
        struct.pack_into("=I", result, _NUMBER, entry.probe.number)
        for index, value in enumerate(self.values.get(entry.probe.number, ())):
            shift, low, high = 64 - 8 * value.size, value.faults & _LOW, value.faults >> 64
            group = value.histogram + 1
            struct.pack_into(
                "=HHBBHQQ", result, self.value(index), value.slot, group, shift, value.signed, 1, low, high
            )
        for index, read in enumerate(entry.reads):
            struct.pack_into("=HHIQ", result, self.read(index), read.base, read.size, 0, read.offset & _LOW)
        for index, read in enumerate(entry.texts):
            struct.pack_into("=HHIQ", result, self.text(index), read.base, 1, 0, read.offset & _LOW)
        return bytes(result)

    @staticmethod
    def hits(entry: bytes) -> int:
        """How many hits the kernel has counted in an entry."""
        return int(struct.unpack_from("=Q", entry, _HITS)[0])


_LOW = (1 << 64) - 1


def aggregates_on_stack(capture: Capture) -> bool:
    """Whether what is fetched fits on a program's stack, so that it can count without writing records."""
    return not capture.texts and not capture.frames and capture.size(0) <= STACK_LIMIT


def site_program(capture: Capture, table: Table, maps: Maps, options: Options) -> bytes:
    """The program for the probes of one event."""
    return _SiteProgram(capture, table, maps, options).make()


class _SiteProgram:
    """Makes one program. R6 is what the kernel gives it, R7 the record, R8 the entry of the table."""

    def __init__(self, capture: Capture, table: Table, maps: Maps, options: Options) -> None:
        self._capture = capture
        self._table = table
        self._maps = maps
        self._options = options
        self._code = Assembler()
        self._labels = 0

    def _label(self, name: str) -> str:
        self._labels += 1
        return f"{name}{self._labels}"

    def make(self) -> bytes:
        code, capture = self._code, self._capture
        code.move(R6, R1)
        if self._maps.processes is not None:
            self._check_process(self._maps.processes)
        self._find()
        if self._options.aggregate:
            self._aggregate()
            code.go("out")
        else:
            self._record(SHORT_TEXT, "long" if capture.texts else None)
            code.go("out")
            if capture.texts:
                code.label("long")
                self._record(LONG_TEXT, None)
                code.go("out")
        code.label("lost")
        if self._maps.lost is not None:
            self._count(self._maps.lost)
        code.label("out")
        # 0: the perf event itself records nothing
        code.constant(R0, 0)
        code.exit()
        return code.assemble()

    def _check_process(self, processes: int) -> None:
        code = self._code
        code.call(_THREAD)
        code.compute(R0, ">>=", 32)
        code.store(FP, _KEY, R0, 4)
        self._look_up(processes, "out")

    def _look_up(self, table: int, otherwise: str) -> None:
        """R0 = the element of the key at _KEY."""
        code = self._code
        code.map(R1, table)
        code.address(R2, FP, _KEY)
        code.call(_LOOKUP)
        code.jump("==", R0, 0, otherwise)

    def _find(self) -> None:
        """R8 = the site's entry, by the address that was hit."""
        code, known = self._code, self._capture.known
        code.load(R1, R6, known.pc, 8)
        if self._options.kernel and known.behind:
            code.compute(R1, "-=", known.behind)
        code.store(FP, _HIT, R1, 8)
        if self._options.notes is not None:
            self._offset_in_file(self._options.notes)
            self._look_up(self._maps.table, "lost")
            code.move(R8, R0)
            return
        if self._options.mask != _LOW:
            code.constant(R2, self._options.mask)
            code.compute_register(R1, "&=", R2)
        code.store(FP, _KEY, R1, 8)
        self._look_up(self._maps.table, "lost")
        code.move(R8, R0)

    def _offset_in_file(self, notes: DispatchNotes) -> None:
        """Put the probe's offset into the key, out of what the kernel has noted; prove that it belongs to the hit."""
        code = self._code
        code.call(_TASK)
        code.move(R3, R0)
        self._follow(notes.task, _WHERE, 8)
        code.load(R3, FP, _WHERE, 8)
        self._follow(notes.note, _WHERE, 8)
        code.load(R3, FP, _WHERE, 8)
        self._follow(0, _NOTE, 16)
        code.load(R1, FP, _HIT, 8)
        code.load(R2, FP, _NOTE + 8, 8)
        code.jump_register("!=", R1, R2, "lost")
        code.load(R3, FP, _NOTE, 8)
        self._follow(notes.offset, _KEY, 8)
        code.load(R1, FP, _HIT, 8)
        code.load(R2, FP, _KEY, 8)
        code.compute_register(R1, "^=", R2)
        code.compute(R1, "&=", _PAGE - 1)
        code.jump("!=", R1, 0, "lost")

    def _follow(self, offset: int, place: int, size: int) -> None:
        """Read what is at R3 plus ``offset`` in the kernel to a place on the stack."""
        code = self._code
        if offset:
            code.compute(R3, "+=", offset)
        code.address(R1, FP, place)
        code.constant(R2, size)
        code.call(_READ_KERNEL)
        code.jump("!=", R0, 0, "lost")

    def _count(self, table: int) -> None:
        """Add 1 to the only element of an array."""
        code = self._code
        code.store_number(FP, _KEY, 0, 8)
        self._look_up(table, "out")
        code.constant(R1, 1)
        code.atomic_add(R0, 0, R1)

    def _record(self, text_size: int, overflow: str | None) -> None:
        """Write a record, or jump to ``overflow`` without one if a text is longer than ``text_size``."""
        code, capture, maps = self._code, self._capture, self._maps
        assert maps.ring is not None
        code.map(R1, maps.ring)
        code.constant(R2, capture.size(text_size))
        code.constant(R3, 0)
        code.call(_RESERVE)
        code.jump("==", R0, 0, "lost")
        code.move(R7, R0)
        self._header()
        self._fetch()
        dropped = self._label("dropped")
        if self._options.condition:
            self._decide(dropped, certain=False)
        self._stacks()
        for index in range(capture.texts):
            self._text(index, text_size, dropped if overflow is not None else None)
        done = self._label("done")
        code.move(R1, R7)
        code.constant(R2, _NO_WAKEUP)
        code.call(_SUBMIT)
        if overflow is None and not self._options.condition:
            # the verifier does not take instructions that nothing leads to
            return
        code.go(done)
        code.label(dropped)
        # why it is dropped is written in its first word
        code.load(R1, R7, record.TIME, 8)
        code.store(FP, _WHERE, R1, 8)
        code.move(R1, R7)
        code.constant(R2, _NO_WAKEUP)
        code.call(_DISCARD)
        if overflow is not None:
            code.load(R1, FP, _WHERE, 8)
            code.jump("==", R1, 0, overflow)
        code.label(done)

    def _header(self) -> None:
        code = self._code
        code.call(_TIME)
        code.store(R7, record.TIME, R0, 8)
        code.load(R1, FP, _HIT, 8)
        code.store(R7, record.ADDRESS, R1, 8)
        code.call(_THREAD)
        code.store(R7, record.THREAD, R0, 8)
        code.load(R1, R8, _NUMBER, 4)
        code.store(R7, record.NUMBER, R1, 4)
        code.call(_CPU)
        code.store(R7, record.CPU, R0, 4)
        code.address(R1, R7, record.COMMAND)
        code.constant(R2, record.COMMAND_SIZE)
        code.call(_COMMAND)

    def _fetch(self) -> None:
        """Registers, then the reads that the entry names."""
        code, capture, table = self._code, self._capture, self._table
        for offset in (record.FAULTS, record.FAULTS + 8, record.ZERO):
            code.store_number(R7, offset, 0, 8)
        for index, name in enumerate(capture.registers):
            code.load(R1, R6, capture.known.offsets[name], 8)
            code.store(R7, capture.register_offset(index), R1, 8)
        end = self._label("fetched")
        for index, size in enumerate(capture.read_sizes):
            at = table.read(index)
            code.load(R4, R8, at + 2, 2)
            # reads are dense: the first that is empty ends them
            code.jump("==", R4, 0, end)
            code.jump(">", R4, size, end)
            self._address(at, end)
            code.address(R1, R7, capture.read_offsets[index])
            code.move(R2, R4)
            self._call_reader(_READ_USER if not self._options.wait else _COPY_USER, _READ_KERNEL)
            good = self._label("good")
            code.jump("==", R0, 0, good)
            self._note_fault(index)
            code.label(good)
        code.label(end)

    def _address(self, at: int, otherwise: str) -> None:
        """R3 = the address that the read at ``at`` of the entry names."""
        code = self._code
        self._load_slot(R3, at, otherwise)
        code.load(R2, R8, at + 8, 8)
        code.compute_register(R3, "+=", R2)

    def _load_slot(self, target: int, at: int, otherwise: str) -> None:
        """``target = `` the word of the record whose number is at ``at`` of the entry."""
        code = self._code
        code.load(target, R8, at, 2)
        # the verifier wants to see that it is inside
        code.jump(">=", target, self._capture.stack_offset // 8, otherwise)
        code.compute(target, "<<=", 3)
        code.compute_register(target, "+=", R7)
        code.load(target, target, 0, 8)

    def _call_reader(self, user: int, kernel: int) -> None:
        """Call a helper that reads memory at R3: for kernels the one of the half of memory that the address is in."""
        code = self._code
        if not self._options.kernel:
            code.call(user)
            return
        other, done = self._label("user"), self._label("read")
        code.jump("s>=", R3, 0, other)
        code.call(kernel)
        code.go(done)
        code.label(other)
        code.call(user)
        code.label(done)

    def _note_fault(self, index: int) -> None:
        code = self._code
        offset = record.FAULTS + 8 * (index // 64)
        code.load(R1, R7, offset, 8)
        code.constant(R2, 1 << index % 64)
        code.compute_register(R1, "|=", R2)
        code.store(R7, offset, R1, 8)

    def _text(self, index: int, size: int, too_long: str | None) -> None:
        """Read one text; ``too_long`` is where to go if it may go on behind ``size`` bytes."""
        code, capture, at = self._code, self._capture, self._table.text(index)
        place = capture.text_offset + index * (8 + size)
        end = self._label("text")
        # long texts lie farther from the start of the record than an instruction can say
        code.address(R5, R7, place)
        code.store_number(R5, 0, -1, 8)
        code.load(R4, R8, at + 2, 2)
        code.jump("==", R4, 0, end)
        self._address(at, end)
        code.store(FP, _WHERE, R3, 8)
        stored = self._label("stored")
        # Memory that was never used is not there before it is asked for; a text may reach into a second page.
        for attempt in range(3 if self._options.wait else 1):
            code.address(R1, R7, place + 8)
            code.constant(R2, size)
            code.load(R3, FP, _WHERE, 8)
            self._call_reader(_TEXT_USER, _TEXT_KERNEL)
            if attempt == 2 or not self._options.wait:
                break
            code.jump("s>=", R0, 0, stored)
            code.load(R3, FP, _WHERE, 8)
            if attempt:
                code.constant(R1, ~(_PAGE - 1))
                code.compute_register(R3, "&=", R1)
                code.compute(R3, "+=", _PAGE)
            code.address(R1, FP, _BYTE)
            code.constant(R2, 1)
            code.call(_COPY_USER)
        code.label(stored)
        code.address(R5, R7, place)
        code.store(R5, 0, R0, 8)
        if too_long is not None:
            fits = self._label("fits")
            code.jump("!=", R0, size, fits)
            code.store_number(R7, record.TIME, 0, 8)
            code.go(too_long)
            code.label(fits)
        code.label(end)

    def _stacks(self) -> None:
        code, capture = self._code, self._capture
        for index in range(capture.stacks):
            place = capture.stack_offset + index * capture.stack_size
            code.move(R1, R6)
            code.address(R2, R7, place + 8)
            code.constant(R3, capture.stack_size - 8)
            code.constant(R4, _USER_STACK if index == capture.stacks - 1 else 0)
            code.call(_STACK)
            code.store(R7, place, R0, 8)

    # Counting

    def _aggregate(self) -> None:
        code = self._code
        size = self._capture.size(0)
        code.address(R7, FP, -(_SCRATCH + (size + 7) // 8 * 8))
        if self._table.value_count:
            # the verifier wants all of it to have been written before anything of it is read
            for offset in range(0, size, 8):
                code.store_number(R7, offset, 0, 8)
            code.load(R1, FP, _HIT, 8)
            code.store(R7, record.ADDRESS, R1, 8)
            self._fetch()
        if self._options.condition:
            self._decide("out", certain=True)
        code.constant(R1, 1)
        code.atomic_add(R8, _HITS, R1)
        compared = {item.value for item in self._options.condition if isinstance(item, Comparison)}
        if self._maps.histograms is not None:
            for index in range(self._table.value_count):
                if index not in compared:
                    self._histogram(index, self._maps.histograms)

    def _value(self, index: int, otherwise: str) -> None:
        """R1 = a value as a number of 64 bits, R3 = whether it has a sign; R2 and R4 are lost."""
        code, at = self._code, self._table.value(index)
        self._load_slot(R1, at, otherwise)
        code.load(R2, R8, at + 4, 1)
        code.compute_register(R1, "<<=", R2)
        code.load(R3, R8, at + 5, 1)
        unsigned, done = self._label("unsigned"), self._label("value")
        code.jump("==", R3, 0, unsigned)
        code.compute_register(R1, "s>>=", R2)
        code.go(done)
        code.label(unsigned)
        code.compute_register(R1, ">>=", R2)
        code.label(done)

    def _histogram(self, index: int, histograms: int) -> None:
        """Count a value by the number of its bits, below and above 0."""
        code, at = self._code, self._table.value(index)
        end, counted = self._label("end"), self._label("counted")
        code.load(R5, R8, at + 2, 2)
        code.jump("==", R5, 0, end)
        code.constant(R0, UNREADABLE_BUCKET)
        for word in range(2):
            code.load(R1, R7, record.FAULTS + 8 * word, 8)
            code.load(R2, R8, at + 8 + 8 * word, 8)
            code.compute_register(R1, "&=", R2)
            code.jump("!=", R1, 0, counted)
        self._value(index, end)
        code.constant(R0, 0)
        positive, bits = self._label("positive"), self._label("bits")
        code.jump("==", R3, 0, positive)
        code.jump("s>=", R1, 0, positive)
        code.negate(R1)
        code.constant(R3, -1)
        code.go(bits)
        code.label(positive)
        code.constant(R3, 0)
        code.label(bits)
        zero = self._label("zero")
        code.jump("==", R1, 0, zero)
        code.constant(R0, 1)
        for width in (32, 16, 8, 4, 2, 1):
            narrow = self._label("narrow")
            code.move(R2, R1)
            code.compute(R2, ">>=", width)
            code.jump("==", R2, 0, narrow)
            code.move(R1, R2)
            code.compute(R0, "+=", width)
            code.label(narrow)
        code.label(zero)
        above = self._label("above")
        code.jump("==", R3, 0, above)
        code.negate(R0)
        code.label(above)
        code.compute(R0, "+=", ZERO_BUCKET)
        code.label(counted)
        # key = (histogram - 1) * BUCKETS + bucket
        code.compute(R5, "-=", 1)
        code.compute(R5, "*=", BUCKETS)
        code.compute_register(R5, "+=", R0)
        code.store(FP, _KEY, R5, 4)
        self._look_up(histograms, end)
        code.constant(R1, 1)
        code.atomic_add(R0, 0, R1)
        code.label(end)

    def _decide(self, otherwise: str, *, certain: bool) -> None:
        """Go to ``otherwise`` if the condition does not hold. Truths are kept on the stack, 0 or 1.

        Unless it must be ``certain``, a hit that has values which could not be read is let through.
        """
        code = self._code
        through = self._label("through")
        values = sorted({item.value for item in self._options.condition if isinstance(item, Comparison)})
        if not certain:
            for index in values:
                for word in range(2):
                    code.load(R1, R7, record.FAULTS + 8 * word, 8)
                    code.load(R2, R8, self._table.value(index) + 8 + 8 * word, 8)
                    code.compute_register(R1, "&=", R2)
                    code.jump("!=", R1, 0, through)
        depth = 0
        for item in self._options.condition:
            if isinstance(item, Comparison):
                self._compare(item, otherwise)
                depth += 1
                code.store(FP, _truth(depth), R0, 8)
            elif item == "not":
                code.load(R0, FP, _truth(depth), 8)
                code.compute(R0, "^=", 1)
                code.store(FP, _truth(depth), R0, 8)
            else:
                code.load(R0, FP, _truth(depth), 8)
                depth -= 1
                code.load(R1, FP, _truth(depth), 8)
                code.compute_register(R0, "&=" if item == "and" else "|=", R1)
                code.store(FP, _truth(depth), R0, 8)
        code.load(R0, FP, _truth(1), 8)
        code.jump("!=", R0, 0, through)
        if not certain:
            code.store_number(R7, record.TIME, 1, 8)
        code.go(otherwise)
        code.label(through)

    def _compare(self, item: Comparison, otherwise: str) -> None:
        """R0 = whether a comparison holds."""
        code = self._code
        self._value(item.value, otherwise)
        true = self._label("true")
        code.constant(R0, 1)
        code.constant(R2, item.number)
        symbol = item.symbol
        if item.signed and symbol not in ("==", "!=", "&"):
            symbol = f"s{symbol}"
        code.jump_register(symbol, R1, R2, true)
        code.constant(R0, 0)
        code.label(true)


MAXIMUM_DEPTH = 4
"""Truths that a filter may have to keep at once."""


def _truth(depth: int) -> int:
    return _BYTE - 8 * depth


_PAGE = 4096


def fork_program(processes: int, child: int) -> bytes:
    """For sched_process_fork, whose record has the child's number at ``child``: children of traced ones are traced."""
    code = Assembler()
    code.move(R6, R1)
    code.call(_THREAD)
    code.compute(R0, ">>=", 32)
    code.store(FP, _KEY, R0, 4)
    code.map(R1, processes)
    code.address(R2, FP, _KEY)
    code.call(_LOOKUP)
    code.jump("==", R0, 0, "out")
    code.load(R1, R6, child, 4)
    code.store(FP, _KEY, R1, 4)
    code.store_number(FP, _HIT, 1, 4)
    code.map(R1, processes)
    code.address(R2, FP, _KEY)
    code.address(R3, FP, _HIT)
    code.constant(R4, 0)
    code.call(_UPDATE)
    code.label("out")
    code.constant(R0, 0)
    code.exit()
    return code.assemble()


def exit_program(processes: int) -> bytes:
    """For sched_process_exit: threads that end are forgotten, processes not, for other threads of them may live on."""
    code = Assembler()
    code.call(_THREAD)
    code.move(R1, R0)
    code.compute(R1, ">>=", 32)
    code.store(FP, _KEY, R0, 4)
    code.load(R2, FP, _KEY, 4)
    code.jump_register("==", R1, R2, "out")
    code.map(R1, processes)
    code.address(R2, FP, _KEY)
    code.call(_DELETE)
    code.label("out")
    code.constant(R0, 0)
    code.exit()
    return code.assemble()
