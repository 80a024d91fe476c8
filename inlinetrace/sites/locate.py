"""The location of one parameter at one site: which entry of its list counts, resolved, with its doubt.

The rules of trust: an entry of a location list counts if it is live at the site's address *and view* (gcc numbers the
states of one address); labels that gcc left before alignment padding are moved to where they belong; what is known to
be described wrongly keeps a doubt. docs/truth.md has the reasons and the measured rates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from inlinetrace.dwarf.expression import decode
from inlinetrace.dwarf.info import OFFSET_MASK
from inlinetrace.errors import FormatError
from inlinetrace.sites.doubt import shape_doubt
from inlinetrace.sites.location import Location
from inlinetrace.sites.reasons import Compiler, Doubt, Reason, Unavailable
from inlinetrace.sites.resolve import Context, Dependence, constant, resolve_traced

if TYPE_CHECKING:
    from inlinetrace.dwarf._records import FunctionEntry
    from inlinetrace.dwarf.expression import Operation
    from inlinetrace.dwarf.info import DebugInfo, Unit
    from inlinetrace.sites.model import TypeName

NO_LOCATION = (Unavailable(Reason.NO_LOCATION), None)
NOT_LIVE = (Unavailable(Reason.NOT_LIVE), None)

Located = tuple[Location | Unavailable, Doubt | None]


class Spot:
    """Where a location is wanted: the site's address, and the function that contains it.

    ``flavour`` is what else of the unit and the site the meaning of an expression depends on, as Locator.flavour says.
    ``is_target`` tells whether another instruction jumps to the address; None if the code is not known.
    """

    __slots__ = ("address", "at_entry", "compiler", "flavour", "function", "inlined", "is_target", "unit")

    def __init__(
        self,
        unit: Unit,
        flavour: int,
        compiler: Compiler,
        address: int,
        function: FunctionEntry | None,
        inlined: bool,
        at_entry: bool,
        is_target: Callable[[int], bool | None],
    ) -> None:
        self.unit = unit
        self.flavour = flavour
        self.compiler = compiler
        self.address = address
        self.function = function
        self.inlined = inlined
        self.at_entry = at_entry
        self.is_target = is_target


def compiler_of(producer: str | None) -> Compiler:
    """The family that a DW_AT_producer text belongs to."""
    if producer is None:
        return Compiler.OTHER
    if producer.startswith("GNU "):
        return Compiler.GCC
    if "clang" in producer:
        return Compiler.CLANG
    return Compiler.OTHER


class Locator:
    """Locates parameters in one file; equal expressions are resolved once."""

    def __init__(self, dwarf: DebugInfo) -> None:
        self._dwarf = dwarf
        self._machine = dwarf.elf.machine
        self._little = dwarf.elf.little_endian
        self._cache: dict[tuple[object, ...], tuple[Located, Dependence]] = {}
        self._flavours: dict[tuple[object, ...], int] = {}
        self._frames: dict[bytes, tuple[Operation, ...]] = {}

    def flavour(self, unit: Unit, compiler: Compiler) -> int:
        """A number that is the same for units in which equal expressions mean the same."""
        return self._flavours.setdefault(
            (unit.version, unit.offset_size, unit.address_size, compiler), len(self._flavours)
        )

    def locate(self, spot: Spot, kind: int, value: int | bytes | None, empty: bool, type_: TypeName) -> Located:
        """Location of the parameter whose description is (``kind``, ``value``, ``empty``) of Records.parameters.

        Raises FormatError for expressions that cannot be read.
        """
        if kind == 2:
            assert isinstance(value, bytes)
            located = self._resolve(value, spot, type_, False)
            if (
                empty
                and located[1] is None
                and spot.inlined
                and isinstance(located[0], Location)
                and spot.is_target(spot.address) is not False
            ):
                return located[0], Doubt.JUMP_TARGET
            return located
        if kind == 1:
            assert isinstance(value, bytes)
            return self._resolve(value, spot, type_, True)
        if kind == 3:
            return NOT_LIVE
        if value is None or value == b"":
            return NO_LOCATION
        return (
            constant(value, type_.size, address_size=self._dwarf.elf.address_size, little_endian=self._little),
            None,
        )

    def _frame_base(self, spot: Spot) -> tuple[Operation, ...] | None:
        function = spot.function
        if function is None or not function.frame_base:
            return None
        known = self._frames.get(function.frame_base)
        if known is None:
            known = self._frames[function.frame_base] = decode(
                function.frame_base,
                address_size=spot.unit.address_size,
                offset_size=spot.unit.offset_size,
                little_endian=self._little,
                version=spot.unit.version,
            )
        return known

    def _resolve(self, expression: bytes, spot: Spot, type_: TypeName, single: bool) -> Located:
        key = (expression, type_.size, spot.flavour << 2 | single << 1 | spot.inlined)
        known = self._cache.get(key)
        if known is not None:
            if known[1] is Dependence.NONE:
                return known[0]
            again = self._cache.get((*key, *self._dependent(spot, known[1])))
            if again is not None:
                return again[0]
        location, depends = resolve_traced(expression, self._context(spot, type_.size))
        doubt = None
        if isinstance(location, Location):
            doubt = shape_doubt(
                location,
                compiler=spot.compiler,
                single_expression=single,
                inlined=spot.inlined,
                stack_pointer=self._machine.stack_pointer,
            )
        result = ((location, doubt), depends)
        if known is None:
            self._cache[key] = result
        if depends is not Dependence.NONE:
            self._cache[(*key, *self._dependent(spot, depends))] = result
        return result[0]

    def _dependent(self, spot: Spot, depends: Dependence) -> tuple[object, ...]:
        frame: object = None
        if depends & Dependence.FRAME:
            base = spot.function.frame_base if spot.function else None
            frame = (base, self._dwarf.cfa(spot.address))
        return (
            depends.value,
            frame,
            spot.at_entry if depends & Dependence.ENTRY else None,
            (spot.unit.info, spot.unit.index) if depends & Dependence.UNIT else None,
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
            address_at=lambda index: dwarf.infos[unit.info].address(unit.index, index),
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
