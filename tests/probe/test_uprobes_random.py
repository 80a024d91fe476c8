"""Random programs traced live: what is shown is what was passed, as often as under ptrace.

A sample with fixed seeds; ``python -m tests.oracle --live --values 500000`` is the measurement.
"""

from __future__ import annotations

import struct

import pytest

from inlinetrace.probe.types import Character, Enumerator, Pointer
from tests.oracle import live
from tests.oracle.c_types import BOOL, DOUBLE, HUE, LEVEL, MIXED8, S8, S128, STRUCT16, U8, WORDS
from tests.oracle.campaign import Result, matrix, measure
from tests.oracle.compare import availability
from tests.oracle.compilers import toolchain
from tests.oracle.report import report

SEEDS = range(1, 5)
KINDS = ("inlined", "out of line")


@pytest.fixture(scope="module", params=["tracefs", "bcc"])
def sample(request: pytest.FixtureRequest) -> Result:
    total = Result()
    for seed in SEEDS:
        total.add(measure(seed, matrix(toolchain("gcc"), dwarf=[5], lto=[False]), live=request.param))
    return total


@pytest.mark.compiled
@pytest.mark.uprobes
def test_live_traces_show_what_ptrace_shows(sample: Result, tracefs: str) -> None:
    assert sample.problems == {}
    ours, seen = sample.tally("ours"), sample.tally("live")
    # every hit and every value, whether it is shown or why it is not, and how many of them are wrong
    assert seen.counts["hits"] == ours.counts["hits"] > 5000
    assert seen.values == ours.values
    assert seen.wrong == ours.wrong
    assert seen.loose == ours.loose
    _, shown, wrong, _ = availability(seen, KINDS)
    assert shown > 10_000
    assert wrong <= 0.001 * shown
    assert "gcc, live" in report(sample)


@pytest.mark.compiled
@pytest.mark.uprobes
@pytest.mark.parametrize("backend", ["tracefs", "bcc"])
def test_of_clang_too(backend: str, tracefs: str) -> None:
    total = Result()
    # of seed 1 a site is at an instruction that the kernel cannot step over
    for seed in SEEDS[1:3]:
        total.add(measure(seed, matrix(toolchain("clang-16"), ["-O2"], dwarf=[5], lto=[False]), live=backend))
    assert total.problems == {}
    assert total.tally("live").values == total.tally("ours").values
    assert total.tally("live").wrong == total.tally("ours").wrong


def test_decoded_values_become_bytes_again() -> None:
    assert live.encode(-1, S8) == b"\xff"
    assert live.encode(Character(65), U8) == b"A"
    assert live.encode(True, BOOL) == b"\x01"
    assert live.encode(-(1 << 100), S128) == (-(1 << 100)).to_bytes(16, "little", signed=True)
    assert live.encode(Enumerator.of("LOWER", -2), LEVEL) == (-2).to_bytes(4, "little", signed=True)
    assert live.encode(99, HUE) == (99).to_bytes(4, "little")
    assert live.encode(1.5, DOUBLE) == struct.pack("<d", 1.5)
    assert live.encode(Pointer(0x1234), WORDS) == (0x1234).to_bytes(8, "little")
    assert live.encode({"a": 1, "b": -1}, STRUCT16) == bytes((1,)) + bytes(7) + b"\xff" * 8
    assert live.encode({"a": 2, "b": 0.25}, MIXED8) == struct.pack("<if", 2, 0.25)
