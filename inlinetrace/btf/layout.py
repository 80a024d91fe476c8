"""The layout of a struct: offsets, sizes, holes, paddings and cache lines, in the words of pahole.

``analyse`` finds the holes of one struct or union; ``layout_text`` prints it with everything anonymous inside it.
Bitfields belong to storage units of their type's size, so a hole before one may be of bits, of bytes, or both.
"""

from __future__ import annotations

from inlinetrace.btf._types import Array, Composite, Enum, Int, Member, Struct, Union
from inlinetrace.btf.c_declarator import Declarators
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, NotFoundError

CACHE_LINE = 64
_TYPE_WIDTH = 26
_NAME_WIDTH = 21
_MOST_ROWS = 100_000
_MOST_DIMENSIONS = 16


class Place:
    """Where a member is.

    ``offset`` and ``size`` in bytes; for a bitfield those of its storage unit, with ``bit`` counted inside of it and
    ``width`` in bits (0 for an ordinary member). ``hole`` (bytes) and ``bit_hole`` follow it; ``padding`` is that at
    the end of the struct that the member is.
    """

    __slots__ = ("bit", "bit_hole", "bit_offset", "hole", "member", "offset", "padding", "size", "width")

    def __init__(self, member: Member, bit_offset: int, width: int, offset: int, size: int) -> None:
        self.member = member
        self.bit_offset = bit_offset
        self.width = width
        self.offset = offset
        self.size = size
        self.bit = bit_offset - offset * 8
        self.hole = 0
        self.bit_hole = 0
        self.padding = 0


class StructLayout:
    """The places of all members and what is left at the end; ``first_hole`` is one before the first member."""

    __slots__ = ("bit_padding", "first_bit_hole", "first_hole", "found", "padding", "places")

    def __init__(self, found: Composite, places: list[Place]) -> None:
        self.found = found
        self.places = places
        self.first_hole = 0
        self.first_bit_hole = 0
        self.padding = 0
        self.bit_padding = 0

    @property
    def holes(self) -> list[int]:
        """Sizes of all holes in bytes."""
        return [hole for hole in [self.first_hole, *[place.hole for place in self.places]] if hole]

    @property
    def bit_holes(self) -> list[int]:
        """Sizes of all holes in bits."""
        return [hole for hole in [self.first_bit_hole, *[place.bit_hole for place in self.places]] if hole]


class Analyser:
    """Analyses the structs of one object, each once."""

    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._done: dict[int, StructLayout] = {}

    def layout(self, found: Composite) -> StructLayout:
        """The layout of a struct or union. Errors: FormatError for members that have no size."""
        known = self._done.get(found.id)
        if known is None:
            known = self._analyse(found)
            self._done[found.id] = known
            for place in known.places:
                below = self._btf.type(place.member.type_id)
                if isinstance(below, Struct) and below.id != found.id:
                    place.padding = self._padding_of(below)
        return known

    def _padding_of(self, found: Struct) -> int:
        """Unused bytes at the end; needs the places of the members, not what they are made of."""
        known = self._done.get(found.id)
        return (known or self._analyse(found)).padding

    def _place(self, found: Composite, member: Member) -> Place:
        btf = self._btf
        below = btf.skip(member.type_id)
        size = btf.size_of(member.type_id)
        bit_offset, width = member.bit_offset, member.bitfield_size
        if not found.kind_flag and isinstance(below, Int) and (below.bits & 0xFF) != below.size * 8:
            bit_offset, width = bit_offset + below.bit_offset, below.bits & 0xFF
        offset = bit_offset // 8
        if width and size and isinstance(below, (Int, Enum)):
            offset = bit_offset // (size * 8) * size
        return Place(member, bit_offset, width, offset, size)

    def _analyse(self, found: Composite) -> StructLayout:
        layout = StructLayout(found, [self._place(found, member) for member in found.members])
        if isinstance(found, Union):
            return layout
        unit_end, unit_size, last, in_bitfield = found.size * 8, 0, 0, False
        previous: Place | None = None
        for place in layout.places:
            end = place.bit_offset + (place.width or place.size * 8)
            bits = hole = 0
            if in_bitfield:
                stop = min(place.bit_offset, unit_end)
                bits = stop - last
                last = stop
            if place.width:
                aligned = place.bit_offset // (place.size * 8) * place.size * 8 if place.size else place.bit_offset
                if last < aligned <= place.bit_offset:
                    hole = place.offset - last // 8
                    last = aligned
                bits += place.bit_offset - last
            else:
                hole = place.offset - last // 8
            last = end
            if place.width:
                in_bitfield = True
                if end > unit_end or place.size * 8 > unit_size:
                    unit_size = place.size * 8
                    unit_end = place.offset * 8 + unit_size
                    if end > unit_end:
                        unit_end += unit_size
            else:
                in_bitfield, unit_size, unit_end = False, 0, end
            if previous is not None:
                previous.hole, previous.bit_hole = max(hole, 0), max(bits, 0)
            else:
                layout.first_hole, layout.first_bit_hole = max(hole, 0), max(bits, 0)
            previous = place
        if in_bitfield:
            stop = min(found.size * 8, unit_end)
            layout.bit_padding = max(stop - last, 0)
            last = stop
        layout.padding = max(found.size - last // 8, 0)
        return layout


def analyse(btf: Btf, type_id: int) -> StructLayout:
    """The layout of a struct or union. Errors: FormatError for members without size, NotFoundError for other kinds."""
    found = btf.type(type_id)
    if not isinstance(found, Composite):
        raise NotFoundError("this type is no struct or union", path=btf.path, type_id=type_id)
    return Analyser(btf).layout(found)


def find_composite(btf: Btf, name: str) -> Composite:
    """The struct or union with this name, or the one that the typedef with this name stands for. Errors:
    NotFoundError.
    """
    for type_id in [*btf.find(name, Kind.STRUCT), *btf.find(name, Kind.UNION), *btf.find(name, Kind.TYPEDEF)]:
        found = btf.skip(type_id)
        if isinstance(found, Composite):
            return found
    raise NotFoundError(f"no struct or union is called {name!r}", path=btf.path, section=btf.section)


def layout_text(btf: Btf, name: str) -> str:
    """The layout of the struct or union ``name`` as pahole prints it. Errors: NotFoundError, FormatError."""
    return _Printer(btf).text(find_composite(btf, name))


class _Frame:
    """A struct or union that is being printed: its layout, its place, how far it has come."""

    __slots__ = ("at", "base", "depth", "first_line", "layout", "tail")

    def __init__(self, layout: StructLayout, base: int, depth: int, tail: str, cache_line: int) -> None:
        self.layout = layout
        self.first_line = cache_line
        self.base = base
        self.depth = depth
        self.tail = tail
        self.at = 0


class _Printer:
    def __init__(self, btf: Btf) -> None:
        self._btf = btf
        self._analyser = Analyser(btf)
        self._declarators = Declarators(btf, brief=True)
        self._lines: list[str] = []
        self._cache_line = 0

    def text(self, found: Composite) -> str:
        """Print with a stack of frames, one for each anonymous struct that is open."""
        keyword = "union" if isinstance(found, Union) else "struct"
        self._lines.append(f"{keyword} {found.name} {{" if found.name else f"{keyword} {{")
        stack = [_Frame(self._analyser.layout(found), 0, 1, "", 0)]
        while stack:
            if len(self._lines) > _MOST_ROWS:
                raise FormatError(
                    "structs inside each other become larger than is sensible", path=self._btf.path, type_id=found.id
                )
            frame = stack[-1]
            if frame.at == 0:
                self._hole(frame, frame.layout.first_hole, frame.layout.first_bit_hole)
            if frame.at == len(frame.layout.places):
                stack.pop()
                if isinstance(frame.layout.found, Union):
                    self._cache_line = frame.first_line
                if stack:
                    self._lines.append(frame.tail)
                    self._after(stack[-1])
                continue
            place = frame.layout.places[frame.at]
            frame.at += 1
            if isinstance(frame.layout.found, Union):
                self._cache_line = frame.first_line
            self._before(frame, place)
            nested, dimensions = self._nested(place.member.type_id)
            if nested is not None:
                if len(stack) > self._btf.end_id:
                    raise FormatError("the type contains itself", path=self._btf.path, type_id=found.id)
                stack.append(self._open(frame, place, nested, dimensions))
            else:
                self._lines.append(self._member(frame, place))
                self._after(frame)
        if isinstance(found, Struct):
            self._summary(self._analyser.layout(found))
        self._lines.append("};\n")
        return "\n".join(self._lines)

    def _nested(self, type_id: int) -> tuple[Composite | None, str]:
        """The anonymous struct or union that a member is, or is an array of, and the dimensions; None for other
        members.
        """
        dimensions = ""
        for _ in range(_MOST_DIMENSIONS):
            found = self._btf.skip(type_id, typedefs=False)
            if not isinstance(found, Array):
                return (found if isinstance(found, Composite) and not found.name else None), dimensions
            dimensions += f"[{found.length}]"
            type_id = found.type_id
        return None, ""

    def _open(self, frame: _Frame, place: Place, nested: Composite, dimensions: str) -> _Frame:
        margin = "\t" * frame.depth
        if dimensions == "[0]" and self._is_last(frame):
            dimensions = "[]"
        self._lines.append(f"{margin}{'union' if isinstance(nested, Union) else 'struct'} {{")
        tail = f"}} {place.member.name}{dimensions};" if place.member.name else "};"
        tail = margin + tail.ljust(_TYPE_WIDTH + _NAME_WIDTH + 1 - 8 * (frame.depth - 1)) + self._position(frame, place)
        return _Frame(self._analyser.layout(nested), frame.base + place.offset, frame.depth + 1, tail, self._cache_line)

    @staticmethod
    def _is_last(frame: _Frame) -> bool:
        """True at the last of several members of the outermost struct, where an array of no elements is a flexible
        one.
        """
        return isinstance(frame.layout.found, Struct) and frame.depth == 1 < len(frame.layout.places) == frame.at

    def _before(self, frame: _Frame, place: Place) -> None:
        line, into = divmod(frame.base + place.offset, CACHE_LINE)
        if line > self._cache_line:
            ago = f" was {_count(into, 'byte')} ago" if into else ""
            margin = "\t" * frame.depth
            self._lines.append(f"{margin}/* --- cacheline {line} boundary ({line * CACHE_LINE} bytes){ago} --- */")
            self._cache_line = line

    def _after(self, frame: _Frame) -> None:
        """Padding inside the member just printed, and the hole behind it."""
        place = frame.layout.places[frame.at - 1]
        if place.padding and isinstance(frame.layout.found, Struct):
            margin = "\t" * frame.depth
            self._lines += ["", f"{margin}/* XXX last struct has {_count(place.padding, 'byte')} of padding */"]
            if frame.at < len(frame.layout.places) and not (place.hole or place.bit_hole):
                self._lines.append("")
        self._hole(frame, place.hole, place.bit_hole)

    def _hole(self, frame: _Frame, hole: int, bit_hole: int) -> None:
        margin = "\t" * frame.depth
        if not (hole or bit_hole):
            return
        self._lines.append("")
        if bit_hole:
            self._lines.append(f"{margin}/* XXX {_count(bit_hole, 'bit')} hole, try to pack */")
        if hole:
            self._lines.append(f"{margin}/* XXX {_count(hole, 'byte')} hole, try to pack */")
        self._lines.append("")

    def _position(self, frame: _Frame, place: Place) -> str:
        if place.width:
            return f" /* {frame.base + place.offset:5}:{place.bit:2} {place.size:2} */"
        return f" /* {frame.base + place.offset:5} {place.size:5} */"

    def _member(self, frame: _Frame, place: Place) -> str:
        margin = "\t" * frame.depth
        width = max(_TYPE_WIDTH - 8 * (frame.depth - 1), 0)
        name = f"{place.member.name}:{place.width}" if place.width else place.member.name
        text = self._declarators.text(place.member.type_id, "\0")
        before, after = text.split("\0", 1)
        if after == "[0]" and self._is_last(frame):
            after = "[]"
        start = before.rfind("(*")
        if start < 0 and before.endswith("*"):
            stars = len(before) - len(before.rstrip("*"))
            before = f"{before[: len(before) - stars].rstrip()} {before[len(before) - stars :]}"
        elif start >= 0:
            before, name = before[:start].rstrip(), before[start:] + name
        text = f"{before.rstrip():<{width}} {name}{after};"
        return margin + text.ljust(width + 1 + _NAME_WIDTH) + self._position(frame, place)

    def _summary(self, layout: StructLayout) -> None:
        size = layout.found.size
        lines = ["", f"/* size: {size}, cachelines: {-(-size // CACHE_LINE)}, members: {len(layout.places)} */"]
        holes, bit_holes = layout.holes, layout.bit_holes
        bits = sum(place.width for place in layout.places)
        if holes or bit_holes:
            members = sum(place.size for place in layout.places if not place.width)
            if members:
                more = f", holes: {len(holes)}, sum holes: {sum(holes)}" if holes else ""
                lines.append(f"/* sum members: {members}{more} */")
            if bits:
                more = (
                    f", bit holes: {len(bit_holes)}, sum bit holes: {sum(bit_holes)} bits"
                    if bit_holes
                    else f" ({bits // 8} bytes)"
                )
                lines.append(f"/* sum bitfield members: {bits} bits{more} */")
        if layout.padding:
            lines.append(f"/* padding: {layout.padding} */")
        paddings = [place.padding for place in layout.places if place.padding]
        if paddings:
            lines.append(f"/* paddings: {len(paddings)}, sum paddings: {sum(paddings)} */")
        if layout.bit_padding:
            lines.append(f"/* bit_padding: {layout.bit_padding} bits */")
        if size % CACHE_LINE:
            lines.append(f"/* last cacheline: {size % CACHE_LINE} bytes */")
        self._lines += [f"\t{line}" if line else "" for line in lines]


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
