"""The location of one parameter at one site: which entry of its list counts, resolved, with its doubt.

The rules of trust: an entry of a location list counts if it is live at the site's address *and view* (gcc numbers the
states of one address); labels that gcc left before alignment padding are moved to where they belong; what is known to
be described wrongly keeps a doubt. docs/truth.md has the reasons and the measured rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inlinetrace.dwarf.expression import decode
from inlinetrace.dwarf.info import OFFSET_MASK
from inlinetrace.errors import FormatError
from inlinetrace.sites.doubt import shape_doubt
from inlinetrace.sites.location import Location
from inlinetrace.sites.nodes import Op
from inlinetrace.sites.reasons import Compiler, Doubt, Reason, Unavailable
from inlinetrace.sites.resolve import Context, Dependence, constant, resolve_traced

if TYPE_CHECKING:
    from inlinetrace.dwarf.expression import Operation
    from inlinetrace.dwarf.info import DebugInfo, Unit

NO_LOCATION = (Unavailable(Reason.NO_LOCATION), None)
NOT_LIVE = (Unavailable(Reason.NOT_LIVE), None)
# plain numbers: the operators of an IntFlag take a hundred times as long
_FRAME, _ENTRY, _UNIT = int(Dependence.FRAME), int(Dependence.ENTRY), int(Dependence.UNIT)

_ELSEWHERE = Unavailable(Reason.UNDEFINED_SYMBOL, "the address of a symbol that another file defines")

Located = tuple[Location | Unavailable, Doubt | None]


class Spot:
    """Where a location is wanted: the site's address, and what the function around it has as DW_AT_frame_base.

    ``at_entry`` tells that the address is the entry of that function.
    """

    __slots__ = ("address", "at_entry", "compiler", "frame_base", "inlined", "unit")

    def __init__(
        self,
        unit: Unit,
        compiler: Compiler,
        address: int,
        frame_base: bytes | None,
        inlined: bool,
        at_entry: bool,
    ) -> None:
        self.unit = unit
        self.compiler = compiler
        self.address = address
        self.frame_base = frame_base
        self.inlined = inlined
        self.at_entry = at_entry


def compiler_of(producer: str | None) -> Compiler:
    """The family that a DW_AT_producer text belongs to."""
    if producer is None:
        return Compiler.OTHER
    if producer.startswith("GNU "):
        return Compiler.GCC
    if "clang" in producer:
        return Compiler.CLANG
    return Compiler.OTHER


def is_untracked(producer: str | None) -> bool:
    """Whether a DW_AT_producer text says that gcc did not follow variables from place to place."""
    return producer is not None and "-fno-var-tracking" in producer.split()


class Locator:
    """Locates parameters in one file; equal expressions are resolved once."""

    def __init__(self, dwarf: DebugInfo) -> None:
        self._dwarf = dwarf
        self._machine = dwarf.elf.machine
        self._little = dwarf.elf.little_endian
        self._dependences: dict[bytes, int] = {}
        self._dependent: dict[tuple[object, ...], Located] = {}
        self._flavours: dict[tuple[object, ...], int] = {}
        self._frames: dict[bytes, tuple[Operation, ...]] = {}

    def flavour(self, unit: Unit, compiler: Compiler) -> int:
        """A number that is the same for units in which equal expressions mean the same."""
        return self._flavours.setdefault(
            (unit.version, unit.offset_size, unit.address_size, compiler), len(self._flavours)
        )

    def constant(self, value: int | bytes, size: int) -> Located:
        """Location of a DW_AT_const_value of a parameter with ``size`` bytes."""
        return constant(value, size, address_size=self._dwarf.elf.address_size, little_endian=self._little), None

    def locate(self, key: bytes, expression: bytes, spot: Spot, size: int, single: bool) -> tuple[Located, bool]:
        """Location that ``expression`` gives a parameter of ``size`` bytes, and whether it is that for every ``key``.

        ``key`` is equal for equal expressions, sizes, flavours and kinds of sites and descriptions; ``single`` tells
        that DW_AT_location is the expression itself, not a list. Raises FormatError for an expression that cannot be
        read.
        """
        known = self._dependences.get(key)
        if known is not None:
            again = self._dependent.get((key, *self._circumstances(spot, known)))
            if again is not None:
                return again, False
        try:
            location, depends = resolve_traced(expression, self._context(spot, size))
        except FormatError as error:
            if error.path is not None:
                raise
            raise FormatError(
                f"a location in this unit, byte {error.offset or 0} of {expression.hex()}: {error.message}",
                path=self._dwarf.elf.path,
                section=self._dwarf.infos[spot.unit.info].section,
                offset=spot.unit.offset,
            ) from error
        doubt = None
        if isinstance(location, Location) and self._leads_elsewhere(location):
            location = _ELSEWHERE
        if isinstance(location, Location):
            doubt = shape_doubt(
                location,
                compiler=spot.compiler,
                single_expression=single,
                inlined=spot.inlined,
                stack_pointer=self._machine.stack_pointer,
            )
        if depends is Dependence.NONE:
            return (location, doubt), known is None
        self._dependences.setdefault(key, int(depends))
        self._dependent[(key, *self._circumstances(spot, int(depends)))] = (location, doubt)
        return (location, doubt), False

    def _leads_elsewhere(self, location: Location) -> bool:
        """Whether an address in it is that of an undefined symbol, which a relocatable file has at 0 plus an addend."""
        elf = self._dwarf.elf
        return elf.relocatable and any(
            node.op == Op.ADDRESS and elf.section_at(node.a) is None for node in location.nodes
        )

    def _frame_base(self, spot: Spot) -> tuple[Operation, ...] | None:
        expression = spot.frame_base
        if not expression:
            return None
        known = self._frames.get(expression)
        if known is None:
            known = self._frames[expression] = decode(
                expression,
                address_size=spot.unit.address_size,
                offset_size=spot.unit.offset_size,
                little_endian=self._little,
                version=spot.unit.version,
            )
        return known

    def _circumstances(self, spot: Spot, depends: int) -> tuple[object, ...]:
        """What a location with these bits of Dependence depends on, at one spot."""
        frame: object = None
        if depends & _FRAME:
            frame = (spot.frame_base, self._dwarf.cfa(spot.address))
        return (
            depends,
            frame,
            spot.at_entry if depends & _ENTRY else None,
            (spot.unit.info, spot.unit.number) if depends & _UNIT else None,
        )

    def _context(self, spot: Spot, size: int) -> Context:
        unit, dwarf = spot.unit, self._dwarf
        top = unit.info << 44

        def within(offset: int) -> int:
            if offset > OFFSET_MASK:
                raise FormatError(
                    f"an expression refers to an entry at {offset:#x}", path=dwarf.elf.path, section=".debug_info"
                )
            return offset

        def base_type(offset: int) -> tuple[int, int] | None:
            tag, attributes, _ = dwarf.dies.die(top | within(unit.offset + offset))
            if tag != 0x24:
                return None
            size, encoding = attributes.get(0x0B), attributes.get(0x3E)
            if size is None or encoding is None or size[0] != "uint" or encoding[0] != "uint":
                return None
            return encoding[1], size[1]

        def pointed_at(offset: int, byte_offset: int) -> str | None:
            return self._value_of(top | within(offset), byte_offset)

        return Context(
            self._machine,
            unit.address_size,
            unit.offset_size,
            self._little,
            unit.version,
            size,
            frame_base=lambda: self._frame_base(spot),
            cfa=lambda: dwarf.cfa(spot.address),
            address_at=lambda index: dwarf.infos[unit.info].address(unit.number, index),
            base_type=base_type,
            at_entry=spot.at_entry,
            implicit_pointer_text=pointed_at,
        )

    def _value_of(self, key: int, byte_offset: int) -> str | None:
        """Text for what an implicit pointer points at: the variable's name and, if it is constant, its value."""
        if not (key & OFFSET_MASK):
            return None
        for _ in range(4):
            _, attributes, _ = self._dwarf.dies.die(key)
            if 0x03 in attributes or 0x31 not in attributes or attributes[0x31][0] != "ref":
                break
            key = attributes[0x31][1]
        name = attributes.get(0x03, (None, None))[1]
        text = str(name) if name else "an object without name"
        if byte_offset:
            text += f"+{byte_offset}"
        if 0x1C in attributes:
            value = attributes[0x1C][1]
            text += f" = {value.hex() if isinstance(value, bytes) else value}"
        return text
