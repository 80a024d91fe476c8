"""Hits: what a record of a probe says, with the arguments decoded by their types.

>>> decoder = Decoder(plan, types)
>>> for hit in decoder.hits(record): print(hit.site.function, hit.values)

A probe where several functions are entered gives several hits, the outermost first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.probe.fetch import Argument, Evaluator, Field, Recipe
from inlinetrace.probe.types import Decoded, Pointer, text
from inlinetrace.sites.location import Shape
from inlinetrace.sites.model import Encoding
from inlinetrace.sites.reasons import Doubt, Unavailable

if TYPE_CHECKING:
    from inlinetrace.probe._ring import Record
    from inlinetrace.probe.fields import Item
    from inlinetrace.probe.plan import Plan
    from inlinetrace.probe.types import Types
    from inlinetrace.sites.model import Site

Shown = Decoded | Unavailable
_Value = Callable[[Sequence[Field], int], Shown]
# Names of processes that are kept.
_KEPT = 1000
_PLAIN = (Encoding.SIGNED, Encoding.UNSIGNED, Encoding.POINTER)


class Hit(NamedTuple):
    """One function entered: ``time`` in nanoseconds of the monotonic clock, values by the labels of the plan's items.

    ``doubts`` has the labels whose value may be another than the one that was passed. ``load_bias`` is how far the
    code is from its link-time addresses. ``stacks`` are addresses, innermost first: the user's stack, before it the
    kernel's if there are two.
    """

    time: int
    cpu: int
    thread: int
    command: str
    site: Site
    load_bias: int
    values: Mapping[str, Shown]
    doubts: Mapping[str, Doubt]
    stacks: tuple[tuple[int, ...], ...] = ()


class _LogicalHit(NamedTuple):
    site: Site
    values: tuple[tuple[str, _Value], ...]
    doubts: Mapping[str, Doubt]


def _stacks(fields: Sequence[Field]) -> tuple[tuple[int, ...], ...]:
    return tuple(struct.unpack(f"={len(raw) // 8}Q", raw) if isinstance(raw, bytes) else () for raw in fields)


class Decoder:
    """Decodes the records of a plan's probes. ``stacks`` is how many stacks they have behind their arguments."""

    def __init__(self, plan: Plan, types: Types, *, stacks: int = 0) -> None:
        self._types = types
        self._stacks = stacks
        self._commands: dict[Field, str] = {}
        self._addresses: dict[int, int] = {}
        self._moved = {probe.number: probe.moved for probe in plan.probes if probe.moved is not None}
        self._hits: dict[int, tuple[_LogicalHit, ...]] = {}
        for probe in plan.probes:
            index = {argument: number for number, argument in enumerate(probe.arguments)}
            self._addresses[probe.number] = probe.address + probe.shift
            self._hits[probe.number] = tuple(
                _LogicalHit(
                    hit.site,
                    tuple((item.label, self._value(item, index)) for item in hit.items),
                    {item.label: item.doubt for item in hit.items if item.doubt is not None},
                )
                for hit in probe.hits
            )

    def hits(self, record: Record) -> list[Hit]:
        """The hits of one record; none if it is of no probe of the plan, or of a module that was loaded elsewhere."""
        time, cpu, thread, number, address, fields = record
        logical = self._hits.get(number)
        if logical is None:
            return []
        bias = address - self._addresses[number]
        if self._moved and self._moved.get(number, bias) != bias:
            return []
        raw = fields[-1]
        name = self._commands.get(raw)
        if name is None:
            if len(self._commands) >= _KEPT:
                self._commands.clear()
            name = self._commands[raw] = text(raw) if isinstance(raw, bytes) else ""
        stacks = _stacks(fields[-1 - self._stacks : -1]) if self._stacks else ()
        return [
            Hit(
                time, cpu, thread, name, site, bias, {label: get(fields, bias) for label, get in values}, doubts, stacks
            )
            for site, values, doubts in logical
        ]

    def _value(self, item: Item, index: dict[Argument, int]) -> _Value:
        recipe = item.recipe
        if isinstance(recipe, Unavailable):
            reason = recipe
            return lambda fields, bias: reason
        fast = self._register(item, recipe, index)
        if fast is not None:
            return fast
        evaluator = Evaluator(recipe, index)
        if item.text:
            return self._text(item, recipe, evaluator)
        types, type_, start, size = self._types, item.type, item.start, item.size
        shift, bits = item.shift, item.bits

        def value(fields: Sequence[Field], bias: int) -> Shown:
            raw = evaluator.value(fields, bias)
            if isinstance(raw, Unavailable):
                return raw
            if start or size:
                raw = raw[start : start + (size if not bits else (shift + bits + 7) // 8)]
            return types.bitfield(raw, shift, bits, type_) if bits else types.decode(raw, type_)

        return value

    def _text(self, item: Item, recipe: Recipe, evaluator: Evaluator) -> _Value:
        pointed = bool(recipe.reads) or self._types.pointee(item.type) is not None
        # an array need not end with a NUL, and what is behind it is none of its text
        end = None if pointed else self._types.name(item.type).size or None

        def value(fields: Sequence[Field], bias: int) -> Shown:
            if pointed:
                raw = evaluator.value(fields, bias)
                if isinstance(raw, Unavailable):
                    return raw
                if not any(raw):
                    return Pointer(0)
            content = evaluator.text(fields)
            return content if isinstance(content, Unavailable) else text(content[:end])

        return value

    def _register(self, item: Item, recipe: Recipe, index: dict[Argument, int]) -> _Value | None:
        """The commonest case, done without the general machinery: an integer or pointer in a register."""
        location = recipe.location
        name = self._types.name(item.type)
        if item.text or item.bits or item.start or item.size or location.shape is not Shape.REGISTER:
            return None
        if name.encoding not in _PLAIN or not location.little_endian or name.size not in (1, 2, 4, 8):
            return None
        if name.size != (location.size or location.address_size):
            return None
        position = index[recipe.reads[0].argument]
        mask = (1 << 8 * name.size) - 1
        half = mask >> 1
        if name.encoding is Encoding.POINTER:
            return lambda fields, bias: Pointer(fields[position] & mask)  # type: ignore[operator]
        if name.encoding is Encoding.UNSIGNED:
            return lambda fields, bias: fields[position] & mask  # type: ignore[operator]

        def signed(fields: Sequence[Field], bias: int) -> Shown:
            number: int = fields[position] & mask  # type: ignore[operator]
            return number - mask - 1 if number > half else number

        return signed
