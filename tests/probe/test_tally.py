"""Counts and histograms, from hits and from what the kernel has counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inlinetrace.errors import UsageError
from inlinetrace.probe.backend import Totals
from inlinetrace.probe.bpf_program import BUCKETS, UNREADABLE_BUCKET, ZERO_BUCKET
from inlinetrace.probe.events import Hit, Shown
from inlinetrace.probe.tally import Histogram, Tally, bounds, check_numbers
from inlinetrace.probe.types import Enumerator, Pointer
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Reason, Unavailable
from tests.probe.conftest import Compiler
from tests.probe.planning import plan_program
from tests.probe.programs import QUEUE

INLINED = Site("f", True, 0x1000, ".text", 0, "g", 4, "void", ())
COPY = Site("f", False, 0x2000, ".text", 0, "f", 0, "void", ())
GONE = Unavailable(Reason.FAULT, "")


def hit(site: Site, value: Shown) -> Hit:
    return Hit(0, 0, 1, "x", site, 0x5000, {"n": value}, {})


@pytest.mark.parametrize("value", [0, 1, 2, 3, 4, 255, 256, (1 << 64) - 1, -1, -2, -3, -4, -(1 << 63)])
def test_each_number_is_in_its_bucket(value: int) -> None:
    histogram = Histogram()
    histogram.add(value)
    ((bucket, hits),) = histogram.buckets.items()
    low, high = bounds(bucket)
    assert low <= value <= high
    assert hits == 1


def test_what_is_no_number_is_unavailable() -> None:
    histogram = Histogram()
    for value in (True, Pointer(8), Enumerator.of("RED", -2)):
        histogram.add(value)
    for none in (GONE, "text", 1.5, None):
        histogram.add(none)
    assert dict(histogram.buckets) == {1: 1, 4: 1, -2: 1}
    assert histogram.unavailable == 4


def test_counts_by_site_and_function() -> None:
    tally = Tally(counts=True, histogram=None)
    for site in (INLINED, COPY, INLINED):
        tally.add(hit(site, 1))
    assert list(tally.text()) == ["2 f g+0x4", "1 f f+0x0 (out of line)", "3 f in all"]
    assert [json.loads(line) for line in tally.json()] == [
        {"function": "f", "address": "0x1000", "symbol": "g", "symbol_offset": 4, "inlined": True, "hits": 2},
        {"function": "f", "address": "0x2000", "symbol": "f", "symbol_offset": 0, "inlined": False, "hits": 1},
    ]


def test_a_histogram() -> None:
    tally = Tally(counts=False, histogram="n")
    for value in (-3, 0, 3, 2, 3, GONE):
        tally.add(hit(INLINED, value))
    assert list(tally.text()) == [
        "f(n): 5 hits, 1 unavailable",
        "  -3..-2 1 ##############",
        "      -1 0",
        "       0 1 ##############",
        "       1 0",
        "    2..3 3 ########################################",
    ]
    assert [json.loads(line) for line in tally.json()] == [
        {
            "function": "f",
            "argument": "n",
            "buckets": [
                {"low": -3, "high": -2, "hits": 1},
                {"low": 0, "high": 0, "hits": 1},
                {"low": 2, "high": 3, "hits": 3},
            ],
            "unavailable": 1,
        }
    ]


def test_nothing_was_hit() -> None:
    tally = Tally(counts=True, histogram="n")
    assert list(tally.text()) == []
    assert list(tally.json()) == []


@pytest.mark.compiled
def test_what_the_kernel_has_counted_and_what_is_the_same_at_every_hit(compiler: Compiler) -> None:
    text = """
    static volatile long sink;
    static inline __attribute__((always_inline)) void f(int number) { sink += number; }
    __attribute__((noipa)) void a(int number) { f(number); }
    __attribute__((noipa)) void b(void) { f(-6); }
    int main(int argc, char **argv) { a(argc); b(); return 0; }
    """
    plan, types, _ = plan_program(compiler(text, "-O2"), ["f"], "number")
    in_register, constant = sorted(plan.probes, key=lambda probe: len(probe.arguments), reverse=True)
    assert (len(in_register.arguments), constant.arguments) == (1, ())
    counts = [0] * BUCKETS
    counts[ZERO_BUCKET + 3] = 5
    counts[UNREADABLE_BUCKET] = 1
    tally = Tally(counts=True, histogram="number")
    tally.add_totals(plan, Totals({in_register.number: 6, constant.number: 2}, {"f": counts}), types)
    *sites, histogram = [json.loads(line) for line in tally.json()]
    assert [(row["symbol"], row["hits"]) for row in sites] == [("a", 6), ("b", 2)]
    assert histogram["buckets"] == [{"low": -7, "high": -4, "hits": 2}, {"low": 4, "high": 7, "hits": 5}]
    assert histogram["unavailable"] == 1


@pytest.mark.compiled
def test_only_numbers_have_histograms(compiler: Compiler, tmp_path: Path) -> None:
    plan, types, _ = plan_program(compiler(QUEUE), ["push"], "number,queue,queue->color,queue->on,*queue,queue->row")
    for label in ("number", "queue", "queue->color", "queue->on"):
        check_numbers(plan, types, label)
    for label in ("*queue", "queue->row"):
        with pytest.raises(UsageError, match="is no integer"):
            check_numbers(plan, types, label)
