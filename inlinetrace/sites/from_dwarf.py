"""Sites from DWARF: every DW_TAG_inlined_subroutine, and every copy of a function that has code of its own.

>>> sites = DwarfSites(DebugInfo(elf))
>>> chosen = sites.select(["vfs_llseek", "tcp_*"])
>>> for site in sites.build(chosen.rows): ...

``select`` works on compiled records and is cheap; ``build`` makes the objects, only for what is asked for.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from inlinetrace.dwarf.info import KEY_SHIFT, MISSING
from inlinetrace.globs import divide, is_glob
from inlinetrace.sites._builder import Builder, Rows
from inlinetrace.sites.locate import Locator

if TYPE_CHECKING:
    from inlinetrace.code._flow import Flow
    from inlinetrace.dwarf._records import Records, SiteEntry
    from inlinetrace.dwarf.info import DebugInfo
    from inlinetrace.sites._functions import Function
    from inlinetrace.sites.model import Site


class Region(NamedTuple):
    """A stretch of addresses [start, end) that is one section; the section is None where there is none.

    ``known_as`` is what ``start`` is in Site.address: its run-time address where that is known, else the link-time
    address, or 0 in a relocatable file.
    """

    section: str | None
    start: int
    end: int
    known_as: int


class Surroundings(Protocol):
    """What sites need to know of the program besides its DWARF."""

    def region(self, address: int) -> Region:
        """The section around a link-time address; the address alone, without a name, where there is none."""

    def has_code(self, address: int) -> bool:
        """Whether there are instructions at ``address`` that can be read."""

    def flow(self, address: int) -> Flow | None:
        """The jumps of all code; None where ``has_code`` is False."""

    def flow_near(self, spans: Sequence[tuple[int, int]]) -> Flow | None:
        """At least the jumps to where a span (first address, the one behind the last) begins, and all from inside."""

    def is_jump_target(self, address: int) -> bool | None:
        """Whether an instruction jumps to ``address``; None where ``has_code`` is False."""

    def jump_targets(self, addresses: Iterable[int]) -> dict[int, bool | None]:
        """The same for a few addresses at once."""

    def symbol(self, address: int) -> tuple[str, int] | None:
        """Name of the function symbol that contains ``address``, and the offset in it."""


class Selection(NamedTuple):
    """Rows whose function has one of the wanted names.

    ``functions`` are the offsets of the functions' entries by Info, empty if all functions are wanted.
    """

    rows: Rows
    functions: dict[int, array[int]]


class DwarfSites:
    """The sites of one file. ``module`` is the name that goes into every Site, None for a kernel or program."""

    def __init__(self, dwarf: DebugInfo, surroundings: Surroundings, *, module: str | None = None) -> None:
        self.dwarf = dwarf
        self.module = module
        self._builder = Builder(dwarf, surroundings, Locator(dwarf), module)

    # Selecting

    def select(self, patterns: Sequence[str], *, inside: bool = False) -> Selection:
        """Rows of the functions whose names match one of ``patterns`` (shell globs), in the order of the file.

        With ``inside``, instead the sites of every function inlined into one of them, at any depth.
        """
        chosen = Selection(Rows(), {})
        every = "*" in patterns
        if every and not inside:
            for number, records in enumerate(self.dwarf.records):
                chosen.rows.extend(number, records.all_sites(), True)
                chosen.rows.extend(number, records.copies(), False)
            return chosen
        supplement = self.dwarf.supplement_number
        scanned = self._scanned_for(patterns)
        for number, records in enumerate(scanned):
            references = records.name_references() if every else self._references(records, patterns)
            chosen.functions[number] = records.functions_named(references)
        if supplement is not None:
            alternate = chosen.functions[supplement]
            for number, records in enumerate(scanned):
                if number != supplement:
                    more = records.with_alternate_origins(alternate)
                    chosen.functions[number] = array("Q", sorted({*chosen.functions[number], *more}))
        for number, records in enumerate(scanned):
            wanted = chosen.functions[number]
            if inside:
                chosen.rows.extend(number, records.sites_inside(wanted), True)
                continue
            chosen.rows.extend(number, records.sites_of(wanted), True)
            if supplement is not None and number != supplement:
                chosen.rows.extend(number, records.sites_of(chosen.functions[supplement], True), True)
            chosen.rows.extend(number, records.copies(wanted), False)
        return chosen

    def _scanned_for(self, patterns: Sequence[str]) -> list[Records]:
        """The records, at least those of all units with functions of these names."""
        if any(map(is_glob, patterns)):
            return self.dwarf.records
        return self.dwarf.records_naming(patterns)

    def _references(self, records: Records, patterns: Sequence[str]) -> array[int]:
        exact, matches = divide(patterns)
        found = {
            reference for name in exact for reference in records.references_to(name.encode("utf-8", "surrogateescape"))
        }
        if matches is not None:
            for reference in records.name_references():
                if matches(records.info.string(reference) or ""):
                    found.add(reference)
        return array("Q", sorted(found))

    def unknown(self, patterns: Sequence[str]) -> list[str]:
        """Those of ``patterns`` (shell globs) that no function's name here matches."""
        scanned = self._scanned_for(patterns)
        return [
            pattern for pattern in patterns if not any(len(self._references(records, [pattern])) for records in scanned)
        ]

    def count_inside(self, selection: Selection) -> tuple[int, int]:
        """How many sites are inlined into the functions of a selection, and of how many functions they are."""
        sites = 0
        names: set[str] = set()
        for number, records in enumerate(self.dwarf.scanned):
            for id_ in records.sites_inside(selection.functions.get(number, array("Q"))):
                sites += 1
                names.add(self.function_of(number, records.site(id_)).name)
        return sites, len(names)

    def function_names(self) -> Iterator[str]:
        """Every name that a function has here."""
        for records in self.dwarf.records:
            for reference in records.name_references():
                name = records.info.string(reference)
                if name:
                    yield name

    # Building

    def by_address(self, rows: Rows) -> Rows:
        """``rows`` ordered by address, at one address out-of-line copies first, then outer sites before inner ones.

        Rows that have no address (copies that the linker or compiler dropped) are left out.
        """
        return rows.by_address(self.dwarf.scanned)

    def build(self, rows: Rows) -> Iterator[Site]:
        """Make the Sites of ``rows``, in their order. Rows without any address have none and are left out."""
        return self._builder.build(rows)

    def function_of(self, number: int, entry: SiteEntry) -> Function:
        """The Function that a site of Info ``number`` is an inlined copy of."""
        key = number << KEY_SHIFT | entry.origin
        if entry.alternate_origin:
            supplement = self.dwarf.supplement_number
            key = MISSING if supplement is None else supplement << KEY_SHIFT | entry.origin
        return self._builder.functions.function(key)
