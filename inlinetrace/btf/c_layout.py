"""Where a C compiler would put the members of a struct, and what to write so that it puts them where BTF says they are.

BTF has offsets and sizes but not the attributes that led to them. ``Layouts.plan`` infers the least that is needed:
``packed`` where natural alignment gives other offsets, unnamed bitfields for holes that alignment does not explain,
``aligned`` for unions that are larger than their members. The rules are those of the System V ABIs, which gcc and clang
follow on Linux.
"""

from __future__ import annotations

from inlinetrace.btf._types import (
    Array,
    Composite,
    Enum,
    Float,
    Int,
    Member,
    Ptr,
    Qualifier,
    Type,
    Typedef,
    TypeTag,
    Union,
)
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError

_LARGEST_HOLE_BY_BITFIELDS = 4096 * 8


class Padding:
    """A hole to fill with unnamed bitfields, or with an array of bytes where those would be too many.

    ``pieces`` are (bits of the unit, width in bits), in order; a unit of 0 stands for an array of ``width`` bytes.
    """

    __slots__ = ("pieces", "start")

    def __init__(self, start: int, end: int, largest_unit: int, packed: bool) -> None:
        """Cover the bits from ``start`` to ``end`` with units that do not align the struct more than it is."""
        self.start = start
        self.pieces: list[tuple[int, int]] = []
        at = start
        while at < end:
            if end - at > _LARGEST_HOLE_BY_BITFIELDS and at % 8 == 0:
                unit, width = 0, (end - at) // 8
                at += 8 * width
            else:
                unit = next(
                    (unit for unit in (8, 16, 32) if end - at <= unit - at % unit and unit <= largest_unit),
                    largest_unit,
                )
                width = min(end - at, unit if packed else unit - at % unit)
                at += width
            self.pieces.append((unit, width))


class Plan:
    """How to write a struct or union: attributes, alignment in bytes, the hole before each member, that at the end."""

    __slots__ = ("aligned", "alignment", "bitfields", "holes", "opaque", "packed", "tail")

    def __init__(self) -> None:
        self.packed = False
        self.alignment = 1
        self.aligned = 0
        self.holes: dict[int, Padding] = {}
        self.tail: Padding | None = None
        self.bitfields: list[tuple[int, int]] = []
        self.opaque = ""
        """Why no C definition has this layout; it is then written as an array of bytes."""


class Layouts:
    """Alignment, sizes and plans of the types of one object, computed once each without recursion."""

    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._pointer_size = btf.pointer_size
        self._plans: dict[int, Plan] = {}
        self._measures: dict[int, tuple[int, int]] = {}

    def plan(self, type_id: int) -> Plan:
        """The plan of a struct or union. Errors: FormatError for members without size, types inside themselves."""
        self.measure(type_id)
        return self._plans[type_id]

    def measure(self, type_id: int) -> tuple[int, int]:
        """(size, alignment) in bytes of a type as it will be written. Errors: FormatError for types that have no
        size.
        """
        known = self._measures.get(type_id)
        if known is not None:
            return known
        btf = self._btf
        opened: set[int] = set()
        stack = [type_id]
        while stack:
            current = stack[-1]
            if current in self._measures:
                stack.pop()
                continue
            found = btf.type(current)
            parts = _parts(found)
            missing = [part for part in parts if part not in self._measures]
            if not missing:
                self._measures[current] = self._measured(found)
                stack.pop()
                opened.discard(current)
                continue
            if current in opened:
                raise self._error("the type contains itself", current)
            opened.add(current)
            for part in missing:
                if part in opened:
                    raise self._error("the type contains itself", part)
                stack.append(part)
        return self._measures[type_id]

    def _error(self, text: str, type_id: int) -> FormatError:
        return FormatError(text, path=self._btf.path, section=self._btf.section, type_id=type_id)

    def _measured(self, found: Type) -> tuple[int, int]:
        """Size and alignment of a type whose parts are measured."""
        if isinstance(found, (Int, Float)):
            size = found.size_or_type
            return size, self._scalar_alignment(size)
        if isinstance(found, Enum):
            return found.size, self._scalar_alignment(found.size)
        if isinstance(found, Ptr):
            return self._pointer_size, self._pointer_size
        if isinstance(found, (Typedef, Qualifier, TypeTag)):
            return self._measures[found.type_id]
        if isinstance(found, Array):
            size, alignment = self._measures[found.type_id]
            return size * found.length, alignment
        if isinstance(found, Composite):
            plan = self._planned(found)
            self._plans[found.id] = plan
            return found.size, plan.alignment
        raise self._error("a member or element of a type that has no size", found.id)

    def _scalar_alignment(self, size: int) -> int:
        """Natural alignment; numbers of more than pointer size are aligned to it on 32-bit machines."""
        if size == 0 or size & (size - 1):
            size = size & -size or 1
        return min(size, 16 if self._pointer_size == 8 else self._pointer_size)

    def bitfield(self, found: Composite, member: Member) -> tuple[int, int]:
        """(bit offset, width) of a member; width 0 for an ordinary one. Knows the form from before kind_flag, too."""
        if found.kind_flag:
            return member.bit_offset, member.bitfield_size
        below = self._btf.skip(member.type_id)
        if isinstance(below, Int) and (below.bits & 0xFF) != below.size * 8:
            return member.bit_offset + below.bit_offset, below.bits & 0xFF
        return member.bit_offset, 0

    def _planned(self, found: Composite) -> Plan:
        members = [(*self.bitfield(found, member), *self._measures[member.type_id]) for member in found.members]
        if isinstance(found, Union):
            return self._plan_union(found, members)
        plan = self._attempt(found, members, False) or self._attempt(found, members, True)
        return plan or _opaque(found, "no C struct has its members in these places")

    def _plan_union(self, found: Composite, members: list[tuple[int, int, int, int]]) -> Plan:
        plan = Plan()
        plan.bitfields = [(offset, width) for offset, width, _, _ in members]
        plan.alignment = max((alignment for *_, alignment in members), default=1)
        needed = max(((width + 7) // 8 if width else size for _, width, size, _ in members), default=0)
        if any(offset for offset, *_ in members):
            return _opaque(found, "no C union has a member behind its start")
        if found.size % plan.alignment or _round_up(needed, plan.alignment) > found.size:
            plan.packed, plan.alignment = True, 1
        natural = _round_up(needed, plan.alignment)
        if natural < found.size:
            aligned = next((1 << bit for bit in range(32) if _round_up(needed, 1 << bit) == found.size), 0)
            if not aligned:
                return _opaque(found, "no C union has this size")
            plan.aligned = plan.alignment = aligned
        elif natural > found.size:
            return _opaque(found, "the union is smaller than its members")
        return plan

    def _attempt(self, found: Composite, members: list[tuple[int, int, int, int]], packed: bool) -> Plan | None:
        """The plan with or without ``packed``; None if members cannot be where they are that way."""
        plan = Plan()
        plan.packed = packed
        plan.bitfields = [(offset, width) for offset, width, _, _ in members]
        if not packed:
            plan.alignment = max((alignment for *_, alignment in members), default=1)
        unit = 64 if packed else min(plan.alignment, 8) * 8
        at = 0
        for position, (offset, width, size, alignment) in enumerate(members):
            if width:
                storage = size * 8
                if width > storage:
                    return None
                natural = at if packed or (at % storage) + width <= storage else _round_up(at, storage)
                if not packed and (offset % storage) + width > storage:
                    return None
            else:
                step = 8 if packed else alignment * 8
                natural = _round_up(at, step)
                if offset % step:
                    return None
            if natural > offset:
                return None
            if natural < offset:
                plan.holes[position] = Padding(at, offset, unit, packed)
            at = offset + (width or size * 8)
        end = found.size * 8
        if found.size % plan.alignment or at > end:
            return None
        if _round_up(at, plan.alignment * 8) < end:
            plan.tail = Padding(at, end, unit, packed)
        return plan


def _opaque(found: Composite, why: str) -> Plan:
    plan = Plan()
    plan.opaque = f"{why} (size {found.size}, {len(found.members)} members)"
    return plan


def _parts(found: Type) -> list[int]:
    """What a type is made of by value."""
    if isinstance(found, (Typedef, Qualifier, TypeTag, Array)):
        return [found.type_id]
    if isinstance(found, Composite):
        return [member.type_id for member in found.members]
    return []


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
