"""Hold the hits of a run against the model's calls.

A call belongs to the inlined site whose chain of call lines is the longest that ends its path; a call that no chain
ends belongs to an out-of-line copy. Inside one invocation, hits and calls of one chain are compared pairwise if there
are equally many of them, value by value. If not, the difference is counted as surplus or missing, with whether a mark
of the site predicts it, and the values are counted apart: there a value is *unexplained* if no call of the same line
in the same invocation passed it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.oracle.reader import TracedParameter, TracedSite
from tests.oracle.run import Event, Hit, Run

MORE = frozenset({"reentered", "shared-target", "hoisted"})
FEWER = frozenset({"copies"})

Chain = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wrong:
    """A parameter of a site that showed at least one wrong value; the first one is kept."""

    address: int
    function: str
    copy: str
    lines: Chain
    parameter: str
    location: str
    doubt: str
    expected: str
    actual: str
    invocation: int


@dataclass(slots=True)
class Tally:
    """What a comparison found. Kinds of values are ``shown``, ``doubtful: X`` and ``unavailable: X``."""

    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(site kind, kind of value): values compared pairwise."""
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    loose: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(kind of value, "explained" or "unexplained"): values where hits and calls differ in number."""
    counts: Counter[str] = field(default_factory=Counter)
    """calls, hits, surplus and missing (each ``predicted`` or ``unpredicted``), unchecked pointers to locals."""
    records: Counter[Wrong] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add another comparison's figures."""
        self.values += other.values
        self.wrong += other.wrong
        self.loose += other.loose
        self.counts += other.counts
        self.records += other.records


def compare(run: Run, reader: str) -> Tally:
    """Compare one reader's hits with the model's calls."""
    comparison = _Comparison(run, reader)
    comparison.inlined()
    comparison.out_of_line()
    return comparison.tally


class _Comparison:
    def __init__(self, run: Run, reader: str) -> None:
        self.tally = Tally()
        self.stack = run.stack
        self.marks: dict[Chain | str, set[str]] = defaultdict(set)
        self.chains: dict[int, set[Chain]] = defaultdict(set)
        for site in run.sites[reader]:
            if site.inlined:
                self.chains[site.lines[0]].add(site.lines)
            self.marks[site.lines or site.function] |= site.marks
        self.calls: dict[tuple[int, int], list[tuple[Chain, Event]]] = defaultdict(list)
        self.outside: dict[tuple[str, int], list[Event]] = defaultdict(list)
        for event in run.events:
            chain = self.chain_of(event)
            if chain:
                self.calls[event.lines[0], event.invocation].append((chain, event))
            else:
                self.outside[event.function, event.invocation].append(event)
        self.hits: dict[tuple[int, int], list[Hit]] = defaultdict(list)
        self.copies: dict[tuple[str, int], list[Hit]] = defaultdict(list)
        for hit in run.hits[reader]:
            if hit.site.inlined:
                self.hits[hit.site.lines[0], hit.invocation].append(hit)
            elif not _is_part(hit.site):
                self.copies[hit.site.function, hit.invocation].append(hit)
        functions = {event.function for event in run.events}
        self.copies = {key: hits for key, hits in self.copies.items() if key[0] in functions}
        self.tally.counts["calls"] = len(run.events)
        self.tally.counts["hits"] = len(run.hits[reader])

    def chain_of(self, event: Event) -> Chain:
        """The longest chain of an inlined site that ends the event's path, or ()."""
        if not event.lines:
            return ()
        fitting = [c for c in self.chains.get(event.lines[0], ()) if event.lines[: len(c)] == c]
        return max(fitting, key=len, default=())

    def inlined(self) -> None:
        """Compare the inlined sites, line by line and invocation by invocation."""
        for key in self.calls.keys() | self.hits.keys():
            calls, hits = self.calls.get(key, []), self.hits.get(key, [])
            events_by: dict[Chain, list[Event]] = defaultdict(list)
            hits_by: dict[Chain, list[Hit]] = defaultdict(list)
            for chain, event in calls:
                events_by[chain].append(event)
            for hit in hits:
                hits_by[hit.site.lines].append(hit)
            different = [c for c in events_by.keys() | hits_by.keys() if len(events_by[c]) != len(hits_by[c])]
            if different and len(calls) == len(hits):
                # The copies of one call share the calls in another way than the longest chain says.
                pairs = list(zip(hits, (event for _, event in calls), strict=True))
                if all(event.lines[: len(hit.site.lines)] == hit.site.lines for hit, event in pairs):
                    self.pairs("inlined", pairs)
                    continue
            for chain in events_by.keys() | hits_by.keys():
                self.group("inlined", chain, hits_by[chain], events_by[chain], [event for _, event in calls])

    def out_of_line(self) -> None:
        """Compare the out-of-line copies with the calls that no inlined site stands for."""
        for key in self.outside.keys() | self.copies.keys():
            events = self.outside.get(key, [])
            self.group("out of line", key[0], self.copies.get(key, []), events, events)

    def group(self, kind: str, key: Chain | str, hits: list[Hit], events: list[Event], similar: list[Event]) -> None:
        """Compare hits and calls that belong together; ``similar`` are the calls that may explain a lone value."""
        if len(hits) == len(events):
            self.pairs(kind, zip(hits, events, strict=True))
            return
        surplus = len(hits) - len(events)
        if surplus > 0:
            word = "predicted" if self.marks[key] & MORE else "unpredicted"
            self.tally.counts[f"surplus {word}"] += surplus
        else:
            word = "predicted" if self.marks[key] & FEWER else "unpredicted"
            self.tally.counts[f"missing {word}"] -= surplus
        for hit in hits:
            for parameter, value in zip(hit.site.parameters, hit.values, strict=True):
                if isinstance(value, bytes):
                    known = any(event.arguments.get(parameter.name) == value for event in similar)
                    word = "explained" if known else "unexplained"
                    self.tally.loose[_kind(parameter, value), word] += 1

    def pairs(self, kind: str, pairs: Iterable[tuple[Hit, Event]]) -> None:
        """Compare value by value."""
        tally = self.tally
        for hit, event in pairs:
            seen = set()
            for parameter, value in zip(hit.site.parameters, hit.values, strict=True):
                expected = event.arguments.get(parameter.name)
                seen.add(parameter.name)
                if expected is None or hit.site.function != event.function:
                    # Another function's site or parameter: the reader attributes the location to the wrong thing.
                    tally.values[kind, _kind(parameter, value)] += 1
                    tally.wrong[kind, _kind(parameter, value)] += 1
                    self.record(hit, event, parameter, value, b"")
                    continue
                if self.points_to_local(parameter, expected):
                    tally.counts["pointers to locals, not compared"] += 1
                    continue
                tally.values[kind, _kind(parameter, value)] += 1
                if isinstance(value, bytes) and value != expected:
                    tally.wrong[kind, _kind(parameter, value)] += 1
                    self.record(hit, event, parameter, value, expected)
            absent = len(event.arguments.keys() - seen)
            if absent:
                tally.values[kind, "unavailable: absent"] += absent

    def points_to_local(self, parameter: TracedParameter, expected: bytes) -> bool:
        """True for a pointer into the stack: the model's local variables live elsewhere."""
        return len(expected) == 8 and self.stack[0] <= int.from_bytes(expected, "little") < self.stack[1]

    def record(self, hit: Hit, event: Event, parameter: TracedParameter, value: bytes | str, expected: bytes) -> None:
        site = hit.site
        shown = value[::-1].hex() if isinstance(value, bytes) else value
        for known in self.tally.records:
            if (known.address, known.lines, known.copy, known.parameter) == (
                site.address,
                site.lines,
                site.copy,
                parameter.name,
            ):
                self.tally.records[known] += 1
                return
        wrong = Wrong(
            site.address,
            site.function,
            site.copy,
            site.lines,
            parameter.name,
            parameter.location,
            parameter.doubt,
            expected[::-1].hex(),
            shown,
            event.invocation,
        )
        self.tally.records[wrong] += 1


def _is_part(site: TracedSite) -> bool:
    """True for what gcc split off: it is entered in the middle of the function, and not by every call."""
    return ".part." in site.copy or ".cold" in site.copy


def _kind(parameter: TracedParameter, value: bytes | str) -> str:
    if isinstance(value, str):
        return f"unavailable: {value}"
    return f"doubtful: {parameter.doubt}" if parameter.doubt else "shown"


def availability(tally: Tally, kinds: Sequence[str] = ("inlined", "out of line")) -> tuple[int, int, int, int]:
    """(all values, shown without doubt, wrong among these, shown with doubt) over some kinds of sites."""
    every = sum(n for (kind, _), n in tally.values.items() if kind in kinds)
    shown = sum(n for (kind, value), n in tally.values.items() if kind in kinds and value == "shown")
    wrong = sum(n for (kind, value), n in tally.wrong.items() if kind in kinds and value == "shown")
    doubtful = sum(n for (kind, value), n in tally.values.items() if kind in kinds and value.startswith("doubtful"))
    return every, shown, wrong, doubtful
