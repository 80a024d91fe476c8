"""Counts instead of lines: hits by site, and histograms of a value by function.

>>> tally = Tally(counts=True, histogram="len")
>>> tally.add(hit)                           # or tally.add_totals(plan, totals, types): what the kernel has counted
>>> for line in tally.text(): print(line)

A histogram counts values by the number of their bits: 0, 1, 2..3, 4..7 and so on, and the same below 0.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.errors import UsageError
from inlinetrace.probe.bpf_program import UNREADABLE_BUCKET, ZERO_BUCKET
from inlinetrace.probe.fetch import Evaluator
from inlinetrace.probe.types import Enumerator
from inlinetrace.sites.model import Encoding
from inlinetrace.sites.reasons import Unavailable

if TYPE_CHECKING:
    from inlinetrace.probe.backend import Totals
    from inlinetrace.probe.events import Hit, Shown
    from inlinetrace.probe.plan import Plan
    from inlinetrace.probe.types import Types
    from inlinetrace.sites.model import Site

_BAR = 40
_NUMBERS = (
    Encoding.SIGNED,
    Encoding.UNSIGNED,
    Encoding.CHAR,
    Encoding.UCHAR,
    Encoding.BOOL,
    Encoding.POINTER,
    Encoding.ENUM,
)


class _Place(NamedTuple):
    function: str
    symbol: str | None
    offset: int | None
    address: int
    inlined: bool


class Histogram:
    """Counts by bucket (the number of bits, negative below 0), and of values that cannot be had."""

    def __init__(self) -> None:
        self.buckets: Counter[int] = Counter()
        self.unavailable = 0

    def add(self, value: Shown, hits: int = 1) -> None:
        """Count a value; what is no number counts as unavailable."""
        number = value.number if isinstance(value, Enumerator) else value
        if isinstance(number, int):
            self.buckets[number.bit_length() if number >= 0 else -(-number).bit_length()] += hits
        else:
            self.unavailable += hits

    def add_kernel(self, counts: Sequence[int]) -> None:
        """Count what the kernel has counted."""
        for index, hits in enumerate(counts):
            if not hits:
                continue
            if index == UNREADABLE_BUCKET:
                self.unavailable += hits
            else:
                self.buckets[index - ZERO_BUCKET] += hits


def bounds(bucket: int) -> tuple[int, int]:
    """The least and the greatest value of a bucket."""
    if bucket == 0:
        return 0, 0
    low, high = 1 << abs(bucket) - 1, (1 << abs(bucket)) - 1
    return (low, high) if bucket > 0 else (-high, -low)


class Tally:
    """Counts of one trace. ``counts``: hits by site are shown; ``histogram`` is the label of the value counted."""

    def __init__(self, *, counts: bool, histogram: str | None) -> None:
        self._counts = counts
        self._label = histogram
        self._hits: Counter[_Place] = Counter()
        self._histograms: dict[str, Histogram] = {}

    def add(self, hit: Hit) -> None:
        """Count a hit."""
        site = hit.site
        self._hits[_place(site)] += 1
        if self._label is not None and self._label in hit.values:
            self._histogram(site.function).add(hit.values[self._label])

    def add_totals(self, plan: Plan, totals: Totals, types: Types) -> None:
        """Count what the kernel has counted."""
        for function, counts in totals.histograms.items():
            self._histogram(function).add_kernel(counts)
        for probe in plan.probes:
            hits = totals.hits.get(probe.number, 0)
            for logical in probe.hits:
                if hits:
                    self._hits[_place(logical.site)] += hits
                for item in logical.items:
                    if not hits or item.label != self._label:
                        continue
                    if isinstance(item.recipe, Unavailable):
                        self._histogram(logical.site.function).add(item.recipe, hits)
                    elif not item.recipe.reads:
                        raw = Evaluator(item.recipe, {}).value((), 0)
                        value = raw if isinstance(raw, Unavailable) else types.decode(raw, item.type)
                        self._histogram(logical.site.function).add(value, hits)

    def _histogram(self, function: str) -> Histogram:
        return self._histograms.setdefault(function, Histogram())

    def text(self) -> Iterator[str]:
        """The counts as lines."""
        if self._counts:
            width = max((len(str(hits)) for hits in self._hits.values()), default=1)
            for place, hits in self._sorted():
                where = f"{place.address:#x}" if place.symbol is None else f"{place.symbol}+{place.offset:#x}"
                yield f"{hits:{width}} {place.function} {where}{'' if place.inlined else ' (out of line)'}"
            by_function = Counter[str]()
            for place, hits in self._hits.items():
                by_function[place.function] += hits
            for function, hits in sorted(by_function.items(), key=lambda item: (-item[1], item[0])):
                yield f"{hits:{width}} {function} in all"
        for function, histogram in sorted(self._histograms.items()):
            yield from _histogram_text(f"{function}({self._label})", histogram)

    def json(self) -> Iterator[str]:
        """The counts as JSON: one object for each site, one for each histogram."""
        if self._counts:
            for place, hits in self._sorted():
                yield json.dumps(
                    {
                        "function": place.function,
                        "address": hex(place.address),
                        "symbol": place.symbol,
                        "symbol_offset": place.offset,
                        "inlined": place.inlined,
                        "hits": hits,
                    },
                    ensure_ascii=False,
                )
        for function, histogram in sorted(self._histograms.items()):
            buckets = []
            for bucket, hits in sorted(histogram.buckets.items()):
                low, high = bounds(bucket)
                buckets.append({"low": low, "high": high, "hits": hits})
            yield json.dumps(
                {
                    "function": function,
                    "argument": self._label,
                    "buckets": buckets,
                    "unavailable": histogram.unavailable,
                },
                ensure_ascii=False,
            )

    def _sorted(self) -> list[tuple[_Place, int]]:
        return sorted(self._hits.items(), key=lambda item: (-item[1], item[0].address, item[0].function))


def check_numbers(plan: Plan, types: Types, label: str) -> None:
    """Raise UsageError if a value cannot be counted by its size."""
    found = [item.type for probe in plan.probes for hit in probe.hits for item in hit.items if item.label == label]
    for type_ in found:
        name = types.name(type_)
        if name.encoding not in _NUMBERS:
            raise UsageError(f"--hist {label}: {name.text} is no integer")


def _place(site: Site) -> _Place:
    return _Place(site.function, site.symbol, site.symbol_offset, site.address, site.inlined)


def _histogram_text(title: str, histogram: Histogram) -> Iterator[str]:
    total = sum(histogram.buckets.values())
    yield f"{title}: {total} hits" + (f", {histogram.unavailable} unavailable" if histogram.unavailable else "")
    if not histogram.buckets:
        return
    most = max(histogram.buckets.values())
    first, last = min(histogram.buckets), max(histogram.buckets)
    rows = []
    for bucket in range(first, last + 1):
        low, high = bounds(bucket)
        rows.append((str(low) if low == high else f"{low}..{high}", histogram.buckets[bucket]))
    left, right = max(len(name) for name, _ in rows), len(str(most))
    for name, hits in rows:
        bar = "#" * (-(-hits * _BAR // most) if hits else 0)
        yield f"  {name:>{left}} {hits:{right}} {bar}".rstrip()
