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
from inlinetrace.sites.functions import Function, Functions, call_site
from inlinetrace.sites.locate import Locator, Spot, compiler_of
from inlinetrace.sites.model import CallSite, InlineFrame, Parameter, Site
from inlinetrace.sites.reasons import Compiler, Mark, Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.dwarf._records import FunctionEntry, Records, SiteEntry
    from inlinetrace.dwarf.info import DebugInfo, Unit

_UNDESCRIBED = (Unavailable(Reason.NO_LOCATION), None)


class Place(NamedTuple):
    """Where an address is: section and symbol, None where unknown."""

    section: str | None
    section_offset: int | None
    symbol: str | None
    symbol_offset: int | None


class Surroundings(Protocol):
    """What sites need to know of the program besides its DWARF."""

    def place(self, address: int) -> Place:
        """Section and symbol of a link-time address."""

    def is_jump_target(self, address: int) -> bool | None:
        """Whether an instruction jumps to ``address``; None where the code cannot be read."""

    def marks(self, address: int, ranges: Sequence[tuple[int, int]]) -> tuple[Mark, ...]:
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


@dataclass(frozen=True, slots=True)
class _Container:
    """The function that everything around a site was inlined into."""

    entry: FunctionEntry
    function: Function
    unit: Unit
    low: int | None


class DwarfSites:
    """The sites of one file. ``module`` is the name that goes into every Site, None for a kernel or program."""

    def __init__(self, dwarf: DebugInfo, surroundings: Surroundings, *, module: str | None = None) -> None:
        self.dwarf = dwarf
        self.module = module
        self._surroundings = surroundings
        self._functions = Functions(dwarf)
        self._locator = Locator(dwarf)
        self._containers: dict[tuple[int, int], _Container] = {}
        self._chains: dict[tuple[int, int], tuple[InlineFrame, ...]] = {}
        self._compilers: dict[tuple[int, int], Compiler] = {}

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

    def build(self, rows: Iterable[Row]) -> Iterator[Site]:
        """Make the Sites of ``rows``, in their order. Rows without any address have none and are left out."""
        for row in rows:
            site = self._inlined(row) if row.inlined else self._copy(row)
            if site is not None:
                yield site

    def _origin_key(self, number: int, entry: SiteEntry | FunctionEntry) -> int:
        if not entry.alternate_origin:
            return number << KEY_SHIFT | entry.origin
        supplement = self.dwarf.supplement_number
        return MISSING if supplement is None else supplement << KEY_SHIFT | entry.origin

    def _compiler(self, unit: Unit) -> Compiler:
        key = (unit.info, unit.index)
        known = self._compilers.get(key)
        if known is None:
            known = self._compilers[key] = compiler_of(unit.producer)
        return known

    def _entry_ranges(self, number: int, entry: SiteEntry | FunctionEntry) -> Sequence[tuple[int, int]]:
        if entry.ranges is not None:
            return self.dwarf.ranges(number, entry.unit, entry.ranges, entry.ranges_indexed)
        if entry.low_pc is not None:
            return ((entry.low_pc, entry.high_pc or entry.low_pc),)
        return ()

    def _address(self, number: int, entry: SiteEntry | FunctionEntry) -> int | None:
        if entry.entry_pc is not None:
            return entry.entry_pc
        if entry.low_pc is not None and entry.ranges is None:
            return entry.low_pc
        ranges = self._entry_ranges(number, entry)
        chosen = next((begin for begin, end in ranges if begin < end), None)
        return ranges[0][0] if chosen is None and ranges else chosen

    def _container(self, number: int, id_: int) -> _Container:
        known = self._containers.get((number, id_))
        if known is None:
            entry = self.dwarf.records[number].function(id_)
            known = self._containers[number, id_] = _Container(
                entry,
                self._functions.function(self._own_key(number, entry)),
                self.dwarf.unit(number, entry.unit),
                self._address(number, entry),
            )
        return known

    def _own_key(self, number: int, entry: FunctionEntry) -> int:
        return number << KEY_SHIFT | entry.die

    def _call(self, unit: Unit, entry: SiteEntry) -> CallSite | None:
        return call_site(self.dwarf, unit, entry.call_file, entry.call_line, entry.call_column)

    def _chain(self, number: int, id_: int | None) -> tuple[InlineFrame, ...]:
        """The inlined functions from the site ``id_`` outwards."""
        pending = []
        frames: tuple[InlineFrame, ...] = ()
        records = self.dwarf.records[number]
        while id_ is not None:
            known = self._chains.get((number, id_))
            if known is not None:
                frames = known
                break
            entry = records.site(id_)
            pending.append((id_, entry))
            id_ = entry.parent_site
        for done, entry in reversed(pending):
            function = self._functions.function(self._origin_key(number, entry))
            unit = self.dwarf.unit(number, entry.unit)
            frames = (InlineFrame(function.name, self._call(unit, entry)), *frames)
            self._chains[number, done] = frames
        return frames

    def _root(self, number: int, entry: SiteEntry) -> int | None:
        records = self.dwarf.records[number]
        while entry.parent_site is not None:
            entry = records.site(entry.parent_site)
        return entry.parent_function

    def _inlined(self, row: Row) -> Site | None:
        number = row.info
        records = self.dwarf.records[number]
        entry = records.site(row.id)
        address = self._address(number, entry)
        if address is None:
            return None
        unit = self.dwarf.unit(number, entry.unit)
        function = self._functions.function(self._origin_key(number, entry))
        root = self._root(number, entry)
        container = None if root is None else self._container(number, root)
        compiler = self._compiler(unit)
        spot = Spot(
            unit,
            address,
            entry.view if entry.entry_pc is not None else 0,
            container.entry if container else None,
            True,
            container is not None and container.low == address,
            compiler,
            lambda: self._surroundings.is_jump_target(address),
        )
        place = self._surroundings.place(address)
        return Site(
            function=function.name,
            inlined=True,
            address=address,
            section=place.section,
            section_offset=place.section_offset,
            symbol=place.symbol,
            symbol_offset=place.symbol_offset,
            return_type=function.return_type,
            parameters=self._parameters(spot, function, records.parameters(row.id, True), number),
            variadic=function.variadic,
            call=self._call(unit, entry),
            chain=self._chain(number, entry.parent_site),
            container=container.function.name if container else None,
            declared=function.declared,
            marks=self._marks(number, entry, function, container, compiler, address),
            compiler=compiler,
            module=self.module,
        )

    def _marks(
        self,
        number: int,
        entry: SiteEntry,
        function: Function,
        container: _Container | None,
        compiler: Compiler,
        address: int,
    ) -> tuple[Mark, ...]:
        marks = []
        if entry.parent_site is not None:
            outer = self._functions.function(
                self._origin_key(number, self.dwarf.records[number].site(entry.parent_site))
            )
        else:
            outer = container.function if container else None
        if outer is not None and outer.key == function.key:
            marks.append(Mark.TRANSPARENT)
        if compiler is Compiler.GCC and entry.entry_pc is None:
            marks.append(Mark.HOISTED)
        return (*marks, *self._surroundings.marks(address, self._entry_ranges(number, entry)))

    def _parameters(
        self, spot: Spot, function: Function, found: list[tuple[int, int, int, int | bytes, int]], number: int
    ) -> tuple[Parameter, ...]:
        by_position: dict[int, tuple[int, int | bytes, int]] = {}
        top = number << KEY_SHIFT
        supplement = self.dwarf.supplement_number
        for die, origin, kind, value, views in found:
            if not origin:
                key = top | die
            elif origin >> 63:
                key = (supplement or 0) << KEY_SHIFT | (origin & ~(1 << 63))
            else:
                key = top | origin
            position = function.index_of.get(key)
            if position is not None and (position not in by_position or kind):
                by_position[position] = (kind, value, views)
        result = []
        for position, (name, type_) in enumerate(function.parameters):
            described = by_position.get(position)
            location, doubt = self._locator.locate(spot, *described, type_) if described else _UNDESCRIBED
            result.append(Parameter(name, type_, location, doubt))
        return tuple(result)

    def _copy(self, row: Row) -> Site | None:
        container = self._container(row.info, row.id)
        address = container.low
        if address is None:
            return None
        function, entry, unit = container.function, container.entry, container.unit
        compiler = self._compiler(unit)
        place = self._surroundings.place(address)
        spot = Spot(unit, address, 0, entry, False, True, compiler, lambda: False)
        suffixed = [
            name
            for name in (entry.linkage_name, place.symbol if not place.symbol_offset else None)
            if name and name.startswith(function.name + ".")
        ]
        return Site(
            function=function.name,
            inlined=False,
            address=address,
            section=place.section,
            section_offset=place.section_offset,
            symbol=place.symbol,
            symbol_offset=place.symbol_offset,
            return_type=function.return_type,
            parameters=self._parameters(
                spot, function, self.dwarf.records[row.info].parameters(row.id, False), row.info
            ),
            variadic=function.variadic,
            copy=suffixed[0] if suffixed else None,
            declared=function.declared,
            compiler=compiler,
            module=self.module,
        )


