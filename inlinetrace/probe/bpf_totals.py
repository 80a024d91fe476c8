"""What a BPF program can count and compare by itself: numbers that it fetches just as they are.

>>> counted = kernel_counts(capture, histogram="len", condition=None)     # None: hits have to be looked at

A histogram can be made in the kernel if at each site its value is one register or one read of memory, or is the same at
every hit, or cannot be had. A filter can be applied in the kernel if at each site it compares such numbers with
constants. Where hits are only counted nobody looks at them again, so the filter must not depend on a read, which may
fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.probe.bpf_capture import Capture, Entry
from inlinetrace.probe.bpf_program import MAXIMUM_DEPTH, Comparison, Value
from inlinetrace.probe.fetch import Recipe
from inlinetrace.probe.kernel_filter import fits
from inlinetrace.probe.where import Comparison as Test
from inlinetrace.probe.where import Literal
from inlinetrace.sites.location import Shape
from inlinetrace.sites.reasons import Unavailable

if TYPE_CHECKING:
    from inlinetrace.probe.fields import Item
    from inlinetrace.probe.plan import Probe
    from inlinetrace.probe.where import Condition

_SYMBOLS = ("==", "!=", "<", "<=", ">", ">=")
_NO_HISTOGRAM = -1


class KernelCounts(NamedTuple):
    """Values of each probe by its number, filters' first; the filter; names of the functions with a histogram."""

    values: dict[int, list[Value]]
    condition: tuple[Comparison | str, ...]
    histograms: list[str]


def kernel_filter(capture: Capture, condition: Condition | None) -> KernelCounts:
    """The filter as far as the kernel can apply it to hits that are looked at again: as a whole, or not at all."""
    return _condition(capture, condition, certain=False) or KernelCounts({}, (), [])


def kernel_counts(capture: Capture, histogram: str | None, condition: Condition | None) -> KernelCounts | None:
    """What the kernel needs to count hits without passing them on; None if it cannot.

    ``histogram`` is the label of the value that is counted by its size, for each function that has it.
    """
    counted = _condition(capture, condition, certain=True)
    if counted is None or histogram is None:
        return counted
    for entry in capture.entries:
        values = counted.values.setdefault(entry.probe.number, [])
        for function, item in items(entry.probe, histogram):
            if is_constant(item):
                continue
            value = _value(capture, entry, item)
            if value is None:
                return None
            if function not in counted.histograms:
                counted.histograms.append(function)
            values.append(value._replace(histogram=counted.histograms.index(function)))
    return counted


def items(probe: Probe, label: str) -> Iterator[tuple[str, Item]]:
    """The functions that have a value of this label at a probe, with how it is had."""
    for hit in probe.hits:
        for item in hit.items:
            if item.label == label:
                yield hit.site.function, item


def is_constant(item: Item) -> bool:
    """Whether a value is the same at every hit, or never there."""
    return isinstance(item.recipe, Unavailable) or item.recipe.location.shape is Shape.CONSTANT


def _value(capture: Capture, entry: Entry, item: Item) -> Value | None:
    """Where a number is in the record; None if it has to be computed."""
    if not item.exact or not isinstance(item.recipe, Recipe):
        return None
    argument = item.recipe.reads[-1].argument
    source = entry.sources[entry.probe.arguments.index(argument)]
    signed = argument.type.startswith("s")
    if source.kind == "register":
        return Value(capture.register_offset(source.number) // 8, source.size, signed, 0, _NO_HISTOGRAM)
    if source.kind != "number":
        return None
    faults = entry.reads[source.number].faults
    return Value(capture.read_offsets[source.number] // 8, source.size, signed, faults, _NO_HISTOGRAM)


def _condition(capture: Capture, condition: Condition | None, *, certain: bool) -> KernelCounts | None:
    if condition is None:
        return KernelCounts({}, (), [])
    labels = [reference.label for reference in condition.references]
    found: dict[int, list[Value]] = {}
    signs: list[set[tuple[bool, int]]] = [set() for _ in labels]
    for entry in capture.entries:
        if len(entry.probe.hits) != 1:
            return None
        values = found[entry.probe.number] = []
        for label, sign in zip(labels, signs, strict=True):
            value = next((_value(capture, entry, item) for _, item in items(entry.probe, label)), None)
            if value is None or (certain and value.faults):
                return None
            sign.add((value.signed, value.size))
            values.append(value)
    if any(len(sign) != 1 for sign in signs):
        return None
    types = {label: next(iter(sign)) for label, sign in zip(labels, signs, strict=True)}
    program = _program(condition.program, labels, types)
    return None if program is None else KernelCounts(found, program, [])


def _program(
    program: Sequence[Test | str], labels: Sequence[str], types: dict[str, tuple[bool, int]]
) -> tuple[Comparison | str, ...] | None:
    result: list[Comparison | str] = []
    depth = 0
    for item in program:
        if isinstance(item, str):
            depth -= item != "not"
            result.append(item)
            continue
        depth += 1
        comparison = _comparison(item, labels, types)
        if comparison is None or depth > MAXIMUM_DEPTH:
            return None
        result.append(comparison)
    return tuple(result)


def _comparison(item: Test, labels: Sequence[str], types: dict[str, tuple[bool, int]]) -> Comparison | None:
    source, mask = item.left.source, item.left.mask
    if isinstance(source, Literal) or source.label not in types:
        return None
    signed, size = types[source.label]
    index, type_ = labels.index(source.label), f"{'s' if signed else 'u'}{8 * size}"
    if item.symbol is None or item.right is None:
        if mask is None:
            return Comparison(index, "!=", 0, signed)
        return Comparison(index, "&", mask, signed) if mask > 0 and fits(mask, type_) else None
    literal = item.right.source
    if mask is not None or item.right.mask is not None or item.symbol not in _SYMBOLS:
        return None
    if not isinstance(literal, Literal) or not isinstance(literal.value, int) or not fits(literal.value, type_):
        return None
    return Comparison(index, item.symbol, literal.value, signed)
