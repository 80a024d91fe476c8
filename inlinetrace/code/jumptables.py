"""Jump tables of x86-64: the switch statements that gcc and clang compile to an indirect jump.

Recognised forms, R a register (with or without ``notrack``):

- ``jmp *table(,R,8)``, and ``mov table(,R,8),R`` before ``jmp *R``: eight-byte absolute entries;
- ``lea table(%rip),B; movslq (B,I,4),R; add B,R; jmp *R``: four-byte entries relative to the table.

The number of entries comes from the comparison before the jump where it is found; entries beyond it are taken too as
long as they lead to instructions of the same code. That errs on the side of too many targets: a target that is none
makes a location doubtful without need, one that is missed makes a wrong one look right.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from inlinetrace.code import _x86

MAX_ENTRIES = 4096
# How many instructions before the jump its parts are looked for; the load of a table's address may have left a loop.
_NEAR = 16
_FAR = 400


class IndirectJump(NamedTuple):
    """An indirect jump, the address of its ``table`` and its ``targets``: None and empty if not recognised."""

    address: int
    table: int | None
    targets: tuple[int, ...]


class _Starts(Protocol):
    def starts(self, offset: int) -> bool: ...
    def previous(self, offset: int) -> int: ...
    def following(self, offset: int) -> int: ...


class _Table(NamedTuple):
    address: int
    entry_size: int
    least: int


class _Decoded(NamedTuple):
    """REX bits, opcode and the bytes from ModRM on, of an instruction without other prefixes."""

    rex: int
    opcode: int
    rest: bytes
    end: int

    @property
    def register(self) -> int:
        """The register field of ModRM with REX.R."""
        return self.rest[0] >> 3 & 7 | (self.rex & 4) << 1

    @property
    def operand(self) -> int | None:
        """The register that ModRM names as operand, with REX.B; None for memory."""
        return self.rest[0] & 7 | (self.rex & 1) << 3 if self.rest[0] >> 6 == 3 else None


def _decoded(data: memoryview, offset: int, end: int) -> _Decoded | None:
    raw = bytes(data[offset:end])
    while raw and raw[0] in (0x3E, 0xF2):
        raw = raw[1:]
    rex = 0
    if raw and raw[0] & 0xF0 == 0x40:
        rex, raw = raw[0], raw[1:]
    if len(raw) < 2:
        return None
    return _Decoded(rex, raw[0], raw[1:], end)


def _table_of_load(code: _Decoded) -> int | None:
    """Return the table of a memory operand ``table(,R,8)``."""
    rest = code.rest
    # mod 0, SIB; scale 8, no base, an index
    if (
        len(rest) < 6
        or rest[0] & 0xC7 != 0x04
        or rest[1] & 0xC7 != 0xC5
        or (rest[1] >> 3 & 7 == 4 and not code.rex & 2)
    ):
        return None
    return int.from_bytes(rest[2:6], "little", signed=True) & 0xFFFFFFFFFFFFFFFF


class _Finder:
    def __init__(self, data: memoryview, address: int, sweep: _Starts, functions: array[int]) -> None:
        self._data = data
        self._address = address
        self._sweep = sweep
        self._functions = functions

    def _before(self, offset: int, count: int, stop: int) -> list[_Decoded | None]:
        """The ``count`` instructions before ``offset``, nearest first, down to offset ``stop``."""
        found = []
        end = offset
        for _ in range(count):
            start = self._sweep.previous(end)
            if start < stop or start < 0:
                break
            found.append(_decoded(self._data, start, end))
            end = start
        return found

    def _least_entries(self, before: list[_Decoded | None]) -> int:
        """The number of entries that the bounds check promises, 0 if there is none."""
        for guard, check in pairwise(before):
            if guard is None or check is None:
                continue
            above = guard.opcode == 0x77 or (guard.opcode == 0x0F and guard.rest[0] == 0x87)
            if not above:
                continue
            rest = check.rest
            if check.opcode in (0x80, 0x83) and rest[0] >> 3 & 7 == 7:
                return (rest[-1] & 0x7F) + 1
            if check.opcode == 0x81 and rest[0] >> 3 & 7 == 7:
                return int.from_bytes(rest[-4:], "little") + 1
            if check.opcode == 0x3C:
                return rest[0] + 1
            if check.opcode == 0x3D:
                return int.from_bytes(rest[:4], "little") + 1
            return 0
        return 0

    def table(self, jump: int) -> _Table | None:
        """Recognise the table of the indirect jump at offset ``jump``."""
        following = self._sweep.following(jump)
        code = _decoded(self._data, jump, following if following >= 0 else len(self._data))
        if code is None or code.opcode != 0xFF:
            return None
        at = bisect_right(self._functions, self._address + jump) - 1
        stop = self._functions[at] - self._address if at >= 0 else 0
        near = self._before(jump, _NEAR, stop)
        direct = _table_of_load(code)
        if direct is not None:
            return _Table(direct, 8, self._least_entries(near))
        register = code.operand
        if register is None:
            return None
        base = None
        for position, before in enumerate(near):
            if before is None:
                continue
            if base is None:
                if before.opcode == 0x8B and before.rex & 8 and before.register == register:
                    loaded = _table_of_load(before)
                    return None if loaded is None else _Table(loaded, 8, self._least_entries(near))
                if before.opcode == 0x01 and before.operand == register:
                    base = before.register
                elif before.opcode == 0x03 and before.register == register and before.operand is not None:
                    base = before.operand
                continue
            # movslq (B,I,4), R: the sum has R and B in either role
            if before.opcode == 0x63 and before.rex & 8 and before.rest[0] & 7 == 4 and len(before.rest) > 1:
                sib_base = before.rest[1] & 7 | (before.rex & 1) << 3
                if (
                    before.rest[1] >> 6 != 2
                    or before.rest[0] >> 6 not in (0, 1)
                    or before.register not in (base, register)
                ):
                    continue
                if sib_base not in (base, register):
                    continue
                return self._relative(jump, sib_base, near, position, stop)
        return None

    def _relative(self, jump: int, base: int, near: list[_Decoded | None], position: int, stop: int) -> _Table | None:
        least = self._least_entries(near)
        far = self._before(jump, _FAR, stop)
        for before in far[position + 1 :]:
            if before is None or before.opcode != 0x8D or before.register != base:
                continue
            if before.rest[0] & 0xC7 != 0x05 or not before.rex & 8 or len(before.rest) != 5:
                return None
            displacement = int.from_bytes(before.rest[1:5], "little", signed=True)
            return _Table((self._address + before.end + displacement) & 0xFFFFFFFFFFFFFFFF, 4, least)
        return None


def has_table(data: memoryview, first: int, last: int, jumps: Sequence[int]) -> bool:
    """Tell whether one of the indirect ``jumps`` (offsets) seems to use a table, whatever that holds.

    ``first`` and ``last`` are the offsets of the start of a function and of the next one.
    """
    part = data[first:last]
    start = array("Q", [0])
    finder = _Finder(part, 0, _x86.sweep(part, 0, start), start)
    return any(finder.table(jump - first) is not None for jump in jumps)


def resolve(
    data: memoryview,
    address: int,
    jumps: array[int],
    sweep: _Starts,
    read: Callable[[int, int], bytes],
    functions: array[int],
) -> tuple[IndirectJump, ...]:
    """Find the targets of the indirect ``jumps`` (addresses) of ``data``; ``functions`` are addresses, ascending."""
    finder = _Finder(data, address, sweep, functions)
    tables = [finder.table(jump - address) for jump in jumps]
    beginnings = sorted({table.address for table in tables if table is not None})
    found = []
    for jump, table in zip(jumps, tables, strict=True):
        targets = None if table is None else _targets(table, data, address, sweep, read, beginnings)
        if table is None or not targets:
            found.append(IndirectJump(jump, None, ()))
        else:
            found.append(IndirectJump(jump, table.address, tuple(sorted(set(targets)))))
    return tuple(found)


def _targets(
    table: _Table,
    data: memoryview,
    address: int,
    sweep: _Starts,
    read: Callable[[int, int], bytes],
    beginnings: list[int],
) -> list[int] | None:
    """Read the entries; None if the table is not what it seems."""
    at = bisect_right(beginnings, table.address)
    room = MAX_ENTRIES
    if at < len(beginnings):
        room = min(room, (beginnings[at] - table.address) // table.entry_size)
    if table.least > room:
        return None
    contents = read(table.address, room * table.entry_size)
    targets: list[int] = []
    for offset in range(0, len(contents) - table.entry_size + 1, table.entry_size):
        entry = int.from_bytes(contents[offset : offset + table.entry_size], "little", signed=table.entry_size == 4)
        target = entry + table.address if table.entry_size == 4 else entry
        if not address <= target < address + len(data) or not sweep.starts(target - address):
            break
        targets.append(target)
    return targets if len(targets) >= table.least else None
