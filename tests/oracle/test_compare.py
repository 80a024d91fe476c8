"""The comparison: which hit stands for which call, and what counts as wrong."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.oracle.compare import availability, compare
from tests.oracle.reader import TracedParameter, TracedSite
from tests.oracle.run import Event, Hit, Run


def site(lines: tuple[int, ...], marks: frozenset[str] = frozenset(), doubt: str = "", copy: str = "") -> TracedSite:
    parameter = TracedParameter("a", 1, "rdi", None, doubt=doubt)
    return TracedSite("f", not copy, 0x1000, lines, (parameter,), marks, copy)


def run(
    hits: Sequence[tuple[TracedSite, int, bytes | str]], calls: Sequence[tuple[tuple[int, ...], int, bytes]]
) -> Run:
    result = Run()
    result.events = [Event("f", invocation, lines, {"a": value}) for lines, invocation, value in calls]
    result.hits["r"] = [Hit(where, invocation, (value,)) for where, invocation, value in hits]
    result.sites["r"] = list({id(where): where for where, _, _ in hits}.values())
    return result


def test_equal_numbers_are_compared_in_order() -> None:
    here = site((7,))
    tally = compare(run([(here, 0, b"1"), (here, 0, b"2")], [((7, 3), 0, b"1"), ((7, 3), 0, b"2")]), "r")
    assert availability(tally) == (2, 2, 0, 0)
    tally = compare(run([(here, 0, b"2"), (here, 0, b"1")], [((7, 3), 0, b"1"), ((7, 3), 0, b"2")]), "r")
    assert availability(tally) == (2, 2, 2, 0)
    ((record, times),) = tally.records.items()
    assert (record.expected, record.actual, times) == ("31", "32", 2)


def test_invocations_are_kept_apart() -> None:
    here = site((7,))
    tally = compare(run([(here, 0, b"1"), (here, 1, b"2")], [((7,), 1, b"1"), ((7,), 0, b"2")]), "r")
    assert availability(tally) == (2, 2, 2, 0)


def test_a_call_belongs_to_the_longest_chain_that_ends_its_path() -> None:
    short, long = site((7,)), site((7, 3))
    calls = [((7, 3, 1), 0, b"1"), ((7, 4, 1), 0, b"2")]
    assert availability(compare(run([(short, 0, b"2"), (long, 0, b"1")], calls), "r")) == (2, 2, 0, 0)
    assert availability(compare(run([(short, 0, b"1"), (long, 0, b"2")], calls), "r")) == (2, 2, 2, 0)


def test_calls_that_are_inlined_in_one_copy_of_the_caller_only() -> None:
    short, long = site((7,)), site((7, 3))
    calls = [((7, 3, 1), 0, b"1"), ((7, 3, 1), 0, b"2")]
    assert availability(compare(run([(short, 0, b"1"), (long, 0, b"2")], calls), "r")) == (2, 2, 0, 0)


def test_calls_without_an_inlined_site_reach_the_out_of_line_copy() -> None:
    copy = site((), copy="f.isra.0")
    tally = compare(run([(copy, 0, b"1"), (copy, 0, b"3")], [((7,), 0, b"1"), ((8,), 0, b"2")]), "r")
    assert availability(tally, ("out of line",)) == (2, 2, 1, 0)
    assert availability(tally, ("inlined",)) == (0, 0, 0, 0)


@pytest.mark.parametrize(("mark", "word"), [("reentered", "predicted"), ("copies", "unpredicted")])
def test_surplus_hits_are_counted_apart(mark: str, word: str) -> None:
    here = site((7,), frozenset({mark}))
    tally = compare(run([(here, 0, b"1"), (here, 0, b"9")], [((7,), 0, b"1")]), "r")
    assert availability(tally) == (0, 0, 0, 0)
    assert tally.counts[f"surplus {word}"] == 1
    assert tally.loose == {("shown", "explained"): 1, ("shown", "unexplained"): 1}


@pytest.mark.parametrize(("mark", "word"), [("copies", "predicted"), ("hoisted", "unpredicted")])
def test_missing_hits_are_counted(mark: str, word: str) -> None:
    here = site((7,), frozenset({mark}))
    tally = compare(run([(here, 0, b"1")], [((7,), 0, b"1"), ((7,), 0, b"2")]), "r")
    assert tally.counts[f"missing {word}"] == 1


def test_unavailable_and_doubtful_values_are_not_wrong_values() -> None:
    tally = compare(run([(site((7,)), 0, "no-location")], [((7,), 0, b"1")]), "r")
    assert availability(tally) == (1, 0, 0, 0)
    tally = compare(run([(site((7,), doubt="compiler"), 0, b"2")], [((7,), 0, b"1")]), "r")
    assert availability(tally) == (1, 0, 0, 1)
    assert tally.wrong == {("inlined", "doubtful: compiler"): 1}


def test_a_value_of_another_size_is_wrong() -> None:
    assert availability(compare(run([(site((7,)), 0, b"1\0")], [((7,), 0, b"1")]), "r")) == (1, 1, 1, 0)


def test_pointers_to_the_models_own_variables_are_not_compared() -> None:
    pointer = (0x7FFF0010).to_bytes(8, "little")
    traced = run([(site((7,)), 0, b"\0" * 8)], [((7,), 0, pointer)])
    traced.stack = (0x7FFF0000, 0x7FFFF000)
    tally = compare(traced, "r")
    assert availability(tally) == (0, 0, 0, 0)
    assert tally.counts["pointers to locals, not compared"] == 1
