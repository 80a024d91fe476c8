"""Hits as text and as JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import pytest

from inlinetrace.probe.events import Hit, Shown
from inlinetrace.probe.output import Output, plain, text_of
from inlinetrace.probe.types import REST, Character, Decoded, Enumerator, Pointer
from inlinetrace.sites.model import CallSite, InlineFrame, Site
from inlinetrace.sites.reasons import Doubt, Reason, Unavailable

SITE = Site(
    "f", True, 0x1234, ".text", 0x34, "g", 0x10, "void", (), call=CallSite("a.c", 7, 3),
    chain=(InlineFrame("mid", None),), container="g",
)  # fmt: skip


def hit(values: dict[str, Shown], doubts: dict[str, Doubt] | None = None) -> Hit:
    return Hit(1_500_000_123_456, 2, 11, 'a"b', SITE, 0x1000, values, doubts or {})


def test_the_contract_of_json() -> None:
    values: dict[str, Shown] = {
        "n": -5,
        "big": (1 << 64) - 1,
        "p": Pointer(0xFFFF888000001000),
        "flag": True,
        "c": Character(65),
        "e": Enumerator.of("RED", 0),
        "x": 1.5,
        "nan": math.nan,
        "s": 'quo"te\n',
        "struct": {"a": Pointer(16), "b": [1, None]},
        "gone": Unavailable(Reason.FAULT, "detail"),
    }
    row = json.loads(Output(10**18).json(hit(values, {"n": Doubt.WIDTH, "gone": Doubt.COMPILER}), 10))
    assert row == {
        "time": 1_000_001_500.000123,
        "cpu": 2,
        "pid": 10,
        "tid": 11,
        "comm": 'a"b',
        "function": "f",
        "address": "0x2234",
        "symbol": "g",
        "symbol_offset": 16,
        "inlined": True,
        "args": {
            "n": -5,
            "big": (1 << 64) - 1,
            "p": "0xffff888000001000",
            "flag": True,
            "c": 65,
            "e": "RED",
            "x": 1.5,
            "nan": None,
            "s": 'quo"te\n',
            "struct": {"a": "0x10", "b": [1, None]},
        },
        "unavailable": {"gone": "fault"},
        "inlined_into": ["mid", "g"],
        "call": {"file": "a.c", "line": 7},
        "module": None,
        "doubt": {"n": "width-dependent"},
    }
    assert json.loads(Output(0).json(hit({}), None))["pid"] is None


def test_the_line() -> None:
    shown = hit({"n": 1, "d": 2, "gone": Unavailable(Reason.FAULT, "why")}, {"d": Doubt.WIDTH})
    assert Output(0).line(shown, 10).endswith('.000123 a"b/10/11 [002] f(n=1, d=~2, gone=?) g+0x10')
    assert (
        Output(0, verbose=True)
        .line(shown, 11)
        .endswith('a"b/11 [002] f(n=1, d=~2<width-dependent>, gone=?<fault: why>) g+0x10 in mid')
    )
    assert Output(0, hidden=frozenset(("n", "gone"))).line(shown, None).endswith('a"b/?/11 [002] f(d=~2) g+0x10')
    outside = shown._replace(site=SITE._replace(inlined=False, copy="f.part.0"))
    assert Output(0).line(outside, 10).endswith(" f.part.0 (out of line)")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (True, "true"),
        (Pointer(0), "NULL"),
        (Pointer(255), "0xff"),
        (Character(65), "'A'"),
        (Character(-1), "-1"),
        (Character(39), "39"),
        (Enumerator.of("RED", 0), "RED"),
        ("a\tb", '"a\\tb"'),
        ("a\udcffb", '"a\\xffb"'),
        (r"a\xffb", r'"a\\xffb"'),
        (Decimal("9007199254740993"), "9007199254740993"),
        ({"a": 1, "b": {"c": "x"}}, '{a=1, b={c="x"}}'),
        ([1, None], "[1, ?]"),
        ([1, REST], "[1, ...]"),
        ({"a": 1, REST: REST}, "{a=1, ...}"),
        (1.5, "1.5"),
    ],
)
def test_values_as_text(value: Decoded, text: str) -> None:
    assert text_of(value) == text


def test_the_name_of_a_process_with_bytes_and_backslashes() -> None:
    assert r" a\xff\\xff/10" in Output(0).line(hit({})._replace(command="a\udcff\\xff", thread=10), 10)


def test_numbers_that_json_cannot_have() -> None:
    assert plain([Decimal("1E-4940"), 1.5, float("inf")]) == ["1E-4940", 1.5, None]
