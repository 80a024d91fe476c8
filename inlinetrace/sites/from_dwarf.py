"""Sites from DWARF: every DW_TAG_inlined_subroutine, and every copy of a function that has code of its own.

>>> sites = DwarfSites(DebugInfo(elf))
>>> chosen = sites.select(["vfs_llseek", "tcp_*"])
>>> for site in sites.build(chosen.rows): ...

``select`` works on compiled records and is cheap; ``build`` makes the objects, only for what is asked for.
"""

from __future__ import annotations

import fnmatch
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from inlinetrace.dwarf.info import KEY_SHIFT, MISSING
from inlinetrace.sites.functions import Function, Functions
from inlinetrace.sites.locate import NO_LOCATION, Locator, Spot, compiler_of
from inlinetrace.sites.model import CallSite, InlineFrame, Parameter, Site
from inlinetrace.sites.reasons import Compiler, Mark
from inlinetrace.sites.sources import Move, Sources

if TYPE_CHECKING:
    from inlinetrace.dwarf._records import FunctionEntry, Records, SiteEntry
    from inlinetrace.dwarf.info import DebugInfo, Unit

_NO_ADDRESS = (1 << 64) - 1
# Rows come unit by unit: what was read for units that are done can go.
_KEPT = 20_000


class Place(NamedTuple):
    """Where an address is: section and symbol, None where unknown, and the address that people know it by.

    ``address`` is the link-time address, in a relocatable file the offset in the section.
    """

    section: str | None
    section_offset: int | None
    symbol: str | None
    symbol_offset: int | None
    address: int


class Surroundings(Protocol):
    """What sites need to know of the program besides its DWARF."""

    def place(self, address: int) -> Place:
        """Section and symbol of a link-time address."""

    def is_jump_target(self, address: int) -> bool | None:
        """Whether an instruction jumps to ``address``; None where the code cannot be read."""

    def marks(self, address: int, ranges: list[tuple[int, int]]) -> tuple[Mark, ...]:
        """What the code says of how often a site at ``address`` with these ranges is hit."""


class Row(NamedTuple):
    """One site or out-of-line copy before it is built: which Info, the record's id, and which of the two it is."""

    info: int
    id: int
    inlined: bool


@dataclass(slots=True)
class Selection:
    """Rows whose function has one of the wanted names, and how many sites are inside of these functions."""

    rows: list[Row] = field(default_factory=list)
    functions: dict[int, array[int]] = field(default_factory=dict)


class _Container:
    """The function that everything around a site was inlined into."""

    __slots__ = ("entry", "function")

    def __init__(self, entry: FunctionEntry, function: Function) -> None:
        self.entry = entry
        self.function = function


class _UnitFacts:
    """What the sites of one unit share."""

    __slots__ = ("compiler", "flavour", "move", "unit")

    def __init__(self, unit: Unit, compiler: Compiler, flavour: int, move: Move | None) -> None:
        self.unit = unit
        self.compiler = compiler
        self.flavour = flavour
        self.move = move


class DwarfSites:
    """The sites of one file. ``module`` is the name that goes into every Site, None for a kernel or program."""

    def __init__(self, dwarf: DebugInfo, surroundings: Surroundings, *, module: str | None = None) -> None:
        self.dwarf = dwarf
        self.module = module
        self._surroundings = surroundings
        self._sources = Sources(dwarf)
        self._functions = Functions(dwarf, self._sources)
        self._locator = Locator(dwarf)
        self._containers: dict[tuple[int, int], _Container] = {}
        self._chains: dict[tuple[int, int], tuple[InlineFrame, ...]] = {}
        self._units: dict[tuple[int, int], _UnitFacts] = {}

    # Selecting

    def select(self, patterns: Sequence[str], *, inside: bool = False) -> Selection:
        """Rows of the functions whose names match one of ``patterns`` (shell globs), in the order of the file.

        With ``inside``, instead the sites of every function inlined into one of them, at any depth.
        """
        chosen = Selection()
        every = "*" in patterns
        supplement = self.dwarf.supplement_number
        for number, records in enumerate(self.dwarf.records):
            references = records.name_references() if every else self._references(records, patterns)
            chosen.functions[number] = records.functions_named(references)
        if supplement is not None:
            alternate = chosen.functions[supplement]
            for number, records in enumerate(self.dwarf.records):
                if number != supplement:
                    more = records.with_alternate_origins(alternate)
                    chosen.functions[number] = array("Q", sorted({*chosen.functions[number], *more}))
        for number, records in enumerate(self.dwarf.records):
            wanted = chosen.functions[number]
            if inside:
                chosen.rows += [Row(number, id_, True) for id_ in records.sites_inside(wanted)]
                continue
            if every:
                chosen.rows += [Row(number, id_, True) for id_ in records.all_sites()]
                chosen.rows += [Row(number, id_, False) for id_ in records.copies()]
                continue
            chosen.rows += [Row(number, id_, True) for id_ in records.sites_of(wanted)]
            if supplement is not None and number != supplement:
                found = records.sites_of(chosen.functions[supplement], True)
                chosen.rows += [Row(number, id_, True) for id_ in found]
            chosen.rows += [Row(number, id_, False) for id_ in records.copies(wanted)]
        return chosen

    def _references(self, records: Records, patterns: Sequence[str]) -> array[int]:
        globs = [pattern for pattern in patterns if any(character in pattern for character in "*?[")]
        found = {
            reference
            for pattern in patterns
            if pattern not in globs
            for reference in records.references_to(pattern.encode("utf-8", "surrogateescape"))
        }
        if globs:
            expression = re.compile("|".join(fnmatch.translate(pattern) for pattern in globs))
            for reference in records.name_references():
                if expression.match(records.info.string(reference) or ""):
                    found.add(reference)
        return array("Q", sorted(found))

    def has_function(self, pattern: str) -> bool:
        """Whether any function here has a name that matches ``pattern`` (shell glob)."""
        return any(len(self._references(records, [pattern])) for records in self.dwarf.records)

    def count_inside(self, selection: Selection) -> tuple[int, int]:
        """How many sites are inlined into the functions of a selection, and of how many functions they are."""
        sites = 0
        names: set[str] = set()
        for number, records in enumerate(self.dwarf.records):
            for id_ in records.sites_inside(selection.functions.get(number, array("Q"))):
                sites += 1
                entry = records.site(id_)
                names.add(self._functions.function(self._origin_key(number, entry)).name)
        return sites, len(names)

    def function_names(self) -> Iterator[str]:
        """Every name that a function has here."""
        for records in self.dwarf.records:
            for reference in records.name_references():
                name = records.info.string(reference)
                if name:
                    yield name

    # Building

    def by_address(self, rows: Sequence[Row]) -> list[Row]:
        """``rows`` ordered by address, at one address out-of-line copies first, then outer sites before inner ones.

        Rows that have no address (copies that the linker or compiler dropped) are left out.
        """
        keyed: list[tuple[int, bool, Row]] = []
        for number, records in enumerate(self.dwarf.records):
            for inlined in (False, True):
                mine = [row for row in rows if row.info == number and row.inlined == inlined]
                addresses = records.addresses([row.id for row in mine], inlined)
                keyed += [
                    (address, inlined, row)
                    for address, row in zip(addresses, mine, strict=True)
                    if address != _NO_ADDRESS
                ]
        keyed.sort()
        return [row for _, _, row in keyed]

    def build(self, rows: Iterable[Row]) -> Iterator[Site]:
        """Make the Sites of ``rows``, in their order. Rows without any address have none and are left out."""
        for row in rows:
            if self._functions.known > _KEPT or len(self._chains) > _KEPT:
                self._functions.forget()
                self._chains.clear()
                self._containers.clear()
                self._units.clear()
            site = self._inlined(row) if row.inlined else self._copy(row)
            if site is not None:
                yield site

    def _origin_key(self, number: int, entry: SiteEntry | FunctionEntry) -> int:
        if not entry.alternate_origin:
            return number << KEY_SHIFT | entry.origin
        supplement = self.dwarf.supplement_number
        return MISSING if supplement is None else supplement << KEY_SHIFT | entry.origin

    def _unit(self, number: int, index: int) -> _UnitFacts:
        facts = self._units.get((number, index))
        if facts is None:
            unit = self.dwarf.unit(number, index)
            compiler = compiler_of(unit.producer)
            facts = self._units[number, index] = _UnitFacts(
                unit, compiler, self._locator.flavour(unit, compiler), self._sources.mover(unit)
            )
        return facts

    def _container(self, number: int, id_: int) -> _Container:
        known = self._containers.get((number, id_))
        if known is None:
            entry = self.dwarf.records[number].function(id_)
            function = self._functions.function(number << KEY_SHIFT | entry.die)
            known = self._containers[number, id_] = _Container(entry, function)
        return known

    def _call(self, unit: Unit, entry: SiteEntry) -> CallSite | None:
        return self._sources.position(unit, entry.call_file, entry.call_line, entry.call_column)

    def _chain(self, number: int, id_: int) -> tuple[InlineFrame, ...]:
        """The inlined functions from the site ``id_`` outwards."""
        if id_ < 0:
            return ()
        known = self._chains.get((number, id_))
        if known is not None:
            return known
        pending = []
        frames: tuple[InlineFrame, ...] = ()
        records = self.dwarf.records[number]
        while id_ >= 0:
            known = self._chains.get((number, id_))
            if known is not None:
                frames = known
                break
            entry = records.site(id_)
            pending.append((id_, entry))
            id_ = entry.parent_site
        for done, entry in reversed(pending):
            function = self._functions.function(self._origin_key(number, entry))
            frames = (InlineFrame(function.name, self._call(self._unit(number, entry.unit).unit, entry)), *frames)
            self._chains[number, done] = frames
        return frames

    def _inlined(self, row: Row) -> Site | None:
        number, id_, _ = row
        records = self.dwarf.records[number]
        entry = records.site(id_)
        if not entry.has_address:
            return None
        address = entry.address
        facts = self._unit(number, entry.unit)
        function = self._functions.function(self._origin_key(number, entry))
        root = records.root(id_)
        container = None if root < 0 else self._container(number, root)
        spot = Spot(
            facts.unit,
            facts.flavour,
            facts.compiler,
            address,
            container.entry if container else None,
            True,
            container is not None and container.entry.address == address,
            self._surroundings.is_jump_target,
        )
        place = self._surroundings.place(address)
        described = records.parameters(id_, True, address, entry.view if entry.has_entry else 0, facts.move)
        return Site(
            function.name,
            True,
            place.address,
            place[0],
            place[1],
            place[2],
            place[3],
            function.return_type,
            self._parameters(spot, function, described, number),
            function.variadic,
            self._call(facts.unit, entry),
            self._chain(number, entry.parent_site),
            container.function.name if container else None,
            None,
            function.declared,
            self._marks(number, id_, entry, function, container, facts.compiler),
            facts.compiler,
            self.module,
        )

    def _marks(
        self,
        number: int,
        id_: int,
        entry: SiteEntry,
        function: Function,
        container: _Container | None,
        compiler: Compiler,
    ) -> tuple[Mark, ...]:
        records = self.dwarf.records[number]
        if entry.parent_site >= 0:
            outer = self._functions.function(self._origin_key(number, records.site(entry.parent_site)))
        else:
            outer = container.function if container else function
        marks: tuple[Mark, ...] = ()
        if outer.key == function.key and (container or entry.parent_site >= 0):
            marks = (Mark.TRANSPARENT,)
        if not entry.has_entry and compiler is Compiler.GCC:
            marks += (Mark.HOISTED,)
        return marks + self._surroundings.marks(entry.address, records.ranges(id_, True))

    def _parameters(
        self, spot: Spot, function: Function, found: list[tuple[int, int, int | bytes | None, bool]], number: int
    ) -> tuple[Parameter, ...]:
        if not function.parameters:
            return ()
        described: dict[int, tuple[int, int | bytes | None, bool]] = {}
        top = number << KEY_SHIFT
        index_of = function.index_of
        for origin, kind, value, empty in found:
            key = top | origin
            if origin >> 63:
                key = (self.dwarf.supplement_number or 0) << KEY_SHIFT | (origin & ~(1 << 63))
            position = index_of.get(key)
            if position is not None and (kind or position not in described):
                described[position] = (kind, value, empty)
        result = []
        locate = self._locator.locate
        for position, (name, type_) in enumerate(function.parameters):
            known = described.get(position)
            location, doubt = locate(spot, *known, type_) if known else NO_LOCATION
            result.append(Parameter(name, type_, location, doubt))
        return tuple(result)

    def _copy(self, row: Row) -> Site | None:
        number, id_, _ = row
        container = self._container(number, id_)
        function, entry = container.function, container.entry
        if not entry.has_address:
            return None
        facts = self._unit(number, entry.unit)
        address = entry.address
        place = self._surroundings.place(address)
        spot = Spot(
            facts.unit, facts.flavour, facts.compiler, address, entry, False, True, self._surroundings.is_jump_target
        )
        described = self.dwarf.records[number].parameters(id_, False, address, 0, facts.move)
        suffixed = [
            name
            for name in (entry.linkage_name, place.symbol if not place.symbol_offset else None)
            if name and name.startswith(function.name + ".")
        ]
        return Site(
            function=function.name,
            inlined=False,
            address=place.address,
            section=place.section,
            section_offset=place.section_offset,
            symbol=place.symbol,
            symbol_offset=place.symbol_offset,
            return_type=function.return_type,
            parameters=self._parameters(spot, function, described, number),
            variadic=function.variadic,
            copy=suffixed[0] if suffixed else None,
            declared=function.declared,
            compiler=facts.compiler,
            module=self.module,
        )
