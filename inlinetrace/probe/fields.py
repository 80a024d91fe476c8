"""What the user asks for of a hit: parameters, and fields behind them.

>>> parse("skb->dev->name")                  # Reference("skb", (Step("->", "dev"), Step("->", "name")))
>>> resolve(reference, parameter, types, place)

A reference is a parameter's name followed by ``->member``, ``.member`` and ``[number]``, with ``*`` before it for what
a pointer points at. Between a pointer and its member ``.`` is as good as ``->``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.errors import UsageError
from inlinetrace.probe.fetch import Place, Recipe, dereference, make_recipe, member_in_memory, string_at
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Encoding, Parameter
from inlinetrace.sites.nodes import Op
from inlinetrace.sites.reasons import Doubt, Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.probe.types import Types

_STEP = re.compile(r"\s*(->|\.)\s*([A-Za-z_]\w*)|\s*\[\s*(0[xX][0-9a-fA-F]+|\d+)\s*\]")
_NAME = re.compile(r"\s*(\**)\s*([A-Za-z_]\w*(?:#\d+)?)")
# More steps than reads can be nested make no sense; arrays inside of structures need a few more.
_MAXIMUM_STEPS = 32
# 64 bits have 20, or 16 behind 0x.
_MAXIMUM_DIGITS = 40


_COMPARABLE = (
    Encoding.SIGNED,
    Encoding.UNSIGNED,
    Encoding.CHAR,
    Encoding.UCHAR,
    Encoding.BOOL,
    Encoding.POINTER,
    Encoding.ENUM,
)


class Step(NamedTuple):
    """One step: into a member (``->``, ``.``), to an element (``[]``) or to what is pointed at (``*``)."""

    kind: str
    member: str = ""
    number: int = 0


class Reference(NamedTuple):
    """A parameter, and the steps from it to the value that is wanted; ``label`` is how the user wrote it."""

    label: str
    parameter: str
    steps: tuple[Step, ...]


class Item(NamedTuple):
    """One value to show: how it is had, and as what type its bytes are read.

    ``shift`` and ``bits`` cut a bitfield out of the bytes. ``start`` and ``size`` cut a member out of a structure that
    is fetched whole. ``text`` tells that the value is text, ``exact`` that the last argument fetched is the value
    itself, in its own size and sign.
    """

    label: str
    type: int
    recipe: Recipe | Unavailable
    doubt: Doubt | None = None
    start: int = 0
    size: int = 0
    shift: int = 0
    bits: int = 0
    text: bool = False
    exact: bool = False


def parse(text: str) -> Reference:
    """Parse one reference. Raises UsageError that names the place."""
    found = _NAME.match(text)
    if found is None:
        raise UsageError(f"{text.strip()!r} is no argument: write a parameter's name, as in skb or skb->len")
    steps = []
    at = found.end()
    rest = text.rstrip()
    while at < len(rest):
        step = _STEP.match(rest, at)
        if step is None:
            raise UsageError(f"{rest!r}: {rest[at:]!r} is neither ->member nor .member nor [number]")
        if step[1]:
            steps.append(Step(step[1], step[2]))
        else:
            steps.append(Step("[]", "", _number(step[3])))
        at = step.end()
    steps += [Step("*")] * len(found[1])
    if len(steps) > _MAXIMUM_STEPS:
        raise UsageError(f"{rest[:60]!r}...: more than {_MAXIMUM_STEPS} steps")
    return Reference("".join(rest.split()), found[2], tuple(steps))


def _number(token: str) -> int:
    # Python refuses to convert more than some thousand digits
    if len(token) > _MAXIMUM_DIGITS:
        raise UsageError(f"[{token[:20]}...]: a number of {len(token)} digits is no index")
    return int(token, 0)


def parse_list(text: str) -> list[Reference]:
    """Parse references separated by commas."""
    references = [parse(part) for part in text.split(",") if part.strip()]
    if not references:
        raise UsageError("--args names no argument")
    return references


class _Cursor:
    """Where the steps have led so far: a location of a value of ``type``, or a part of an aggregate's bytes."""

    def __init__(self, location: Location, type_: int) -> None:
        self.location = location
        self.type = type_
        # offset into the bytes of `location`, if an aggregate is held in registers or in pieces
        self.start = 0
        self.part = False
        self.shift = self.bits = 0


def resolve(
    reference: Reference,
    parameter: Parameter,
    types: Types,
    place: Place,
    *,
    strings: bool = False,
    exact: bool = False,
) -> Item:
    """Return how the value of a reference is had at one site. Raises UsageError for fields that do not exist.

    ``exact`` asks for an argument that is the value itself, for the kernel to compare, where there can be one.
    """
    label = reference.label
    type_ = parameter.type.die
    location = parameter.location
    if isinstance(location, Unavailable):
        _check(reference, type_, types)
        return Item(label, type_, location)
    cursor = _Cursor(location, type_)
    for step in reference.steps:
        problem = _step(cursor, step, types, reference)
        if problem is not None:
            _check(reference, type_, types)
            return Item(label, cursor.type, problem, parameter.doubt)
    item = _item(label, cursor, types, place, parameter.doubt, strings)
    return _exact(item, types) if exact else item


def _exact(item: Item, types: Types) -> Item:
    """The item with its value fetched in its own size and sign, if it is one register or one read of memory."""
    recipe, name = item.recipe, types.name(item.type)
    if isinstance(recipe, Unavailable) or item.bits or item.start or item.size or item.text:
        return item
    location = recipe.location
    if name.encoding not in _COMPARABLE or name.size not in (1, 2, 4, 8) or location.pieces:
        return item
    node = location.nodes[-1]
    if node.type is not None or node.op not in (Op.REGISTER, Op.LOAD) or (location.size or 8) != name.size:
        return item
    if node.op == Op.LOAD and node.b != name.size:
        return item
    signed = name.encoding in (Encoding.SIGNED, Encoding.CHAR, Encoding.ENUM) and name.signed
    last = recipe.reads[-1]
    argument = last.argument._replace(type=f"{'s' if signed else 'u'}{8 * name.size}")
    reads = (*recipe.reads[:-1], last._replace(argument=argument))
    return item._replace(recipe=recipe._replace(reads=reads), exact=True)


def _item(label: str, cursor: _Cursor, types: Types, place: Place, doubt: Doubt | None, strings: bool) -> Item:
    location, type_ = cursor.location, cursor.type
    size = types.name(type_).size
    if not cursor.part:
        if types.is_text(type_):
            text = _text(location, size, place)
            if text is not None:
                return Item(label, type_, text, doubt, text=True)
        string = strings and types.is_text_pointer(type_)
        recipe = make_recipe(location, place, string=string)
        return Item(label, type_, recipe, doubt, 0, 0, cursor.shift, cursor.bits, string and isinstance(recipe, Recipe))
    recipe = make_recipe(location, place)
    return Item(label, type_, recipe, doubt, cursor.start, size, cursor.shift, cursor.bits)


def _text(location: Location, size: int, place: Place) -> Recipe | None:
    """How to fetch an array of characters in memory as text; None if it is fetched as its bytes, which is bounded.

    In kernels the proof of bytes takes as much as the text.
    """
    if size and not (place.guarded and place.in_kernel) and isinstance(make_recipe(location, place), Recipe):
        return None
    text = string_at(location, place)
    return text if isinstance(text, Recipe) else None


def _step(cursor: _Cursor, step: Step, types: Types, reference: Reference) -> Unavailable | None:
    """Take one step. Returns the reason if what is there cannot be fetched; raises UsageError if there is nothing."""
    pointee = types.pointee(cursor.type)
    if step.kind in ("->", "."):
        through = pointee is not None
        structure = cursor.type if pointee is None else pointee
        member = types.member(structure, step.member)
        if member is None:
            raise UsageError(_no_member(reference, step, structure, types))
        shift, bits = member.offset_bits % 8, member.bits or 0
        size = (shift + bits + 7) // 8 if bits else types.name(member.type).size
        offset = member.offset_bits // 8
        cursor.type = member.type
        problem = _move(cursor, through, offset, size)
        cursor.shift, cursor.bits = shift, bits
        return problem
    if step.kind == "*":
        if pointee is None:
            raise UsageError(f"{reference.label}: {types.name(cursor.type).text} is no pointer")
        cursor.type = pointee
        return _move(cursor, True, 0, _size(types, pointee, reference))
    array = types.array(cursor.type)
    if array is None:
        if pointee is None:
            raise UsageError(f"{reference.label}: {types.name(cursor.type).text} is neither array nor pointer")
        cursor.type = pointee
        size = _size(types, pointee, reference)
        return _move(cursor, True, step.number * size, size)
    element, dimensions = array
    if len(dimensions) > 1:
        raise UsageError(f"{reference.label}: elements of arrays of several dimensions cannot be named")
    if dimensions[0] and step.number >= dimensions[0]:
        raise UsageError(f"{reference.label}: the array has {dimensions[0]} elements")
    size = _size(types, element, reference)
    cursor.type = element
    return _move(cursor, False, step.number * size, size)


def _size(types: Types, key: int, reference: Reference) -> int:
    size = types.name(key).size
    if not size:
        raise UsageError(f"{reference.label}: the size of {types.name(key).text} is not known here")
    return size


def _move(cursor: _Cursor, through: bool, offset: int, size: int) -> Unavailable | None:
    """Go to ``size`` bytes at ``offset``, of what is pointed at (``through``) or of the aggregate itself."""
    if cursor.bits:
        return Unavailable(Reason.UNSUPPORTED, "a bitfield has no parts")
    moved: Location | None
    # A structure of unknown size and a flexible array are addressed by their first byte.
    size = size or 1
    if through:
        if cursor.part:
            return Unavailable(Reason.UNSUPPORTED, "a pointer inside of a structure that is not in memory")
        moved = dereference(cursor.location, offset, size)
        if moved is None:
            return Unavailable(Reason.UNSUPPORTED, "a probe event cannot compute the address to read")
        cursor.location = moved
        return None
    moved = None if cursor.part else member_in_memory(cursor.location, offset, size)
    if moved is not None:
        cursor.location = moved
        return None
    cursor.part = True
    cursor.start += offset
    return None


def _no_member(reference: Reference, step: Step, structure: int, types: Types) -> str:
    import difflib

    text = types.name(structure).text
    if not types.is_aggregate(structure):
        return f"{reference.label}: {text} has no members"
    if not types.is_complete(structure):
        return f"{reference.label}: {text} is only declared where this function is compiled, its members are not known"
    names = [member.name for member in types.members(structure) if member.name]
    near = difflib.get_close_matches(step.member, names, 3)
    hint = f"; near: {', '.join(near)}" if near else ""
    return f"{reference.label}: {text} has no member {step.member}{hint}"


def _check(reference: Reference, type_: int, types: Types) -> None:
    """Raise UsageError for a field that does not exist, where there is no location to follow."""
    cursor = _Cursor(Location.constant(0, size=8), type_)
    for step in reference.steps:
        _step(cursor, step, types, reference)


def is_shown_as_pointer(types: Types, key: int) -> bool:
    """Whether values of a type are addresses."""
    return types.name(key).encoding is Encoding.POINTER
