"""The part of a filter that the kernel can do, so that hits which do not match are not even recorded.

The kernel compares fields of records (Documentation/trace/events.rst, "Event filtering"). That is the user's
filter only if every probe of the event has fetched exactly the value that is compared, in the same field, and stands
for one hit. Then a hit for which the filter is certainly true is passed on. Each is looked at again after decoding,
so that a field whose value could not be read can only let too much through.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inlinetrace.probe.fetch import Recipe
from inlinetrace.probe.where import Comparison, Literal, Operand

if TYPE_CHECKING:
    from inlinetrace.probe.plan import Event, Plan
    from inlinetrace.probe.where import Condition

# MAX_FILTER_STR_VAL and the page that a filter is written in; longer ones are left to us.
_MAXIMUM_LENGTH = 2000


def set_filters(plan: Plan, condition: Condition) -> None:
    """Give a filter to each event whose probes all fetch what the condition compares."""
    for event in plan.events:
        event.filter = filter_text(event, condition)


def filter_text(event: Event, condition: Condition) -> str | None:
    """The filter of an event in the kernel's words; None if the kernel cannot do it."""
    fields: dict[str, tuple[str, str]] = {}
    for label in [reference.label for reference in condition.references]:
        found = _field(event, label)
        if found is None:
            return None
        fields[label] = found
    stack: list[str] = []
    for item in condition.program:
        if isinstance(item, Comparison):
            text = _comparison(item, fields)
            if text is None:
                return None
            stack.append(text)
        elif item == "not":
            stack.append(f"!({stack.pop()})")
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(f"({left} {'&&' if item == 'and' else '||'} {right})")
    return stack[-1] if len(stack[-1]) <= _MAXIMUM_LENGTH else None


def _field(event: Event, label: str) -> tuple[str, str] | None:
    """Name and type of the field that holds a value in all probes of an event."""
    found: set[tuple[str, str]] = set()
    for probe in event.probes:
        if len(probe.hits) != 1:
            return None
        items = [item for item in probe.hits[0].items if item.label == label]
        if len(items) != 1 or not isinstance(items[0].recipe, Recipe) or not items[0].exact:
            return None
        argument = items[0].recipe.reads[-1].argument
        found.add((f"a{probe.arguments.index(argument)}", argument.type))
    return found.pop() if len(found) == 1 else None


def _comparison(item: Comparison, fields: dict[str, tuple[str, str]]) -> str | None:
    field = _operand(item.left, fields)
    if field is None:
        return None
    name, type_ = field
    mask = item.left.mask
    if item.symbol is None or item.right is None:
        if mask is None:
            return f"{name} != 0"
        return f"{name} & {mask}" if mask > 0 and fits(mask, type_) else None
    if mask is not None or item.right.mask is not None:
        return None
    literal = item.right.source
    if not isinstance(literal, Literal) or not isinstance(literal.value, int) or not fits(literal.value, type_):
        return None
    return f"{name} {item.symbol} {literal.value}"


def _operand(operand: Operand, fields: dict[str, tuple[str, str]]) -> tuple[str, str] | None:
    return None if isinstance(operand.source, Literal) else fields.get(operand.source.label)


def fits(number: int, type_: str) -> bool:
    """Whether a number is one of a type as ``s32`` and ``u8``."""
    bits = int(type_[1:])
    if type_[0] == "s":
        return -(1 << (bits - 1)) <= number < 1 << (bits - 1)
    return 0 <= number < 1 << bits
