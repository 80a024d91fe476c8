"""What is shown without doubt at the sites of random programs is what was passed: the promise, measured on a sample.

The seeds are fixed, so that a compiler always gives the same figures. ``python -m tests.oracle --values 500000`` is the
measurement proper.
"""

from __future__ import annotations

import pytest

from tests.oracle.campaign import Result, matrix, measure
from tests.oracle.compare import availability
from tests.oracle.compilers import detect, toolchain

pytestmark = pytest.mark.compiled

SEEDS = range(1, 15)
RATE = 0.001
"""The promise: at most this share of the values that are shown without doubt is wrong.

The samples are so small that a single parameter that is wrong wherever it is shown breaks it.
"""

CLANG_RATE = 0.02
"""No promise: what is left of clang's values, with the notice that a reassigned parameter may show its new value."""


@pytest.fixture(scope="module")
def gcc() -> Result:
    """All levels, DWARF 5, without LTO."""
    total = Result()
    for seed in SEEDS:
        total.add(measure(seed, matrix(toolchain("gcc"), dwarf=[5], lto=[False])))
    return total


def test_every_program_runs_and_agrees_with_its_model(gcc: Result) -> None:
    assert gcc.problems == {}
    assert gcc.runs == 4 * len(SEEDS)


@pytest.mark.parametrize("kind", ["inlined", "out of line"])
def test_hardly_a_value_shown_without_doubt_is_wrong(gcc: Result, kind: str) -> None:
    _, shown, wrong, _ = availability(gcc.tally("ours"), [kind])
    assert shown > 15_000
    assert wrong <= RATE * shown


def test_the_plain_rule_is_wrong_far_more_often(gcc: Result) -> None:
    _, shown, wrong, _ = availability(gcc.tally("ours"), ["inlined"])
    _, plain_shown, plain_wrong, _ = availability(gcc.tally("plain"), ["inlined"])
    assert plain_wrong / plain_shown > 0.02
    assert plain_wrong / plain_shown > 20 * max(RATE, wrong / shown)


def test_about_as_much_is_shown_as_by_the_plain_rule_and_more_with_doubts(gcc: Result) -> None:
    every, shown, _, doubtful = availability(gcc.tally("ours"), ["inlined"])
    plain_every, plain_shown, _, _ = availability(gcc.tally("plain"), ["inlined"])
    assert plain_every == every
    assert shown >= 0.8 * plain_shown
    assert shown + doubtful > plain_shown


def test_doubtful_values_are_wrong_more_often_than_the_others(gcc: Result) -> None:
    tally = gcc.tally("ours")
    _, shown, wrong, doubtful = availability(tally)
    doubted = sum(n for (_, value), n in tally.wrong.items() if value.startswith("doubtful"))
    assert doubted / doubtful > 20 * max(RATE, wrong / shown)


def test_most_calls_hit_their_site_once(gcc: Result) -> None:
    counts = gcc.tally("ours").counts
    calls = counts["calls"]
    assert counts["missing unpredicted"] + counts["missing predicted"] < 0.15 * calls
    assert counts["surplus unpredicted"] + counts["surplus predicted"] < 0.1 * calls


def test_link_time_optimisation() -> None:
    total = Result()
    for seed in SEEDS[:4]:
        total.add(measure(seed, matrix(toolchain("gcc"), ["-O2"], lto=[True])))
    assert total.problems == {}
    _, shown, wrong, _ = availability(total.tally("ours", lto=True))
    _, plain_shown, plain_wrong, _ = availability(total.tally("plain", lto=True))
    assert shown > 1500
    assert wrong <= RATE * shown
    assert plain_wrong / plain_shown > 20 * RATE


@pytest.mark.parametrize("name", [tool.name for tool in detect() if tool.family == "clang"])
def test_what_clang_describes_is_trusted_less(name: str) -> None:
    total = Result()
    for seed in SEEDS[:6]:
        total.add(measure(seed, matrix(toolchain(name), ["-O2"], [5], lto=[False])))
    assert total.problems == {}
    _, shown, wrong, doubtful = availability(total.tally("ours"), ["inlined"])
    _, plain_shown, plain_wrong, _ = availability(total.tally("plain"), ["inlined"])
    assert plain_shown > shown > 100
    assert doubtful > shown
    assert wrong <= CLANG_RATE * shown
    assert plain_wrong / plain_shown > 5 * wrong / shown
