"""Filters on the values of a hit."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inlinetrace.errors import UsageError
from inlinetrace.probe.types import Character, Enumerator, Pointer
from inlinetrace.probe.where import Condition, Shown, parse_condition
from inlinetrace.sites.reasons import Reason, Unavailable

GONE = Unavailable(Reason.FAULT)
VALUES: dict[str, Shown] = {
    "len": 5000,
    "n": -3,
    "flag": True,
    "p": Pointer(0xFFFF888000000000),
    "name": "eth0",
    "c": Character(ord("x")),
    "state": Enumerator.of("OPEN", 7),
    "skb->dev->id": 42,
    "row": [1, 2],
    "row[1]": 2,
    "ratio": 0.5,
    "gone": GONE,
}


def condition(text: str) -> Condition:
    parsed = parse_condition(text)
    parsed.settle({"len", "n", "flag", "p", "name", "c", "state", "skb", "row", "ratio", "gone"})
    return parsed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("len > 4096", True),
        ("len>4096 and n == -3", True),
        ("len == 0x1388", True),
        ("4096 < len", True),
        ("len <= 5000 && n != -3", False),
        ("len < 1 or n < 0", True),
        ("len < 1 or n < 0 and flag == 0", False),
        ("(len < 1 or n < 0) and flag == 1", True),
        ("not len < 1", True),
        ("!(len > 1 && n < 0)", False),
        ("not not flag", True),
        ("flag", True),
        ("p == 0xffff888000000000", True),
        ('name == "eth0"', True),
        ("name != 'eth0'", False),
        ("name < 'f'", True),
        ("c == 'x'", True),
        ("c == 120", True),
        ("state == OPEN", True),
        ("state != OPEN", False),
        ("state == SHUT", False),
        ("state >= 7", True),
        ("skb->dev->id == 42", True),
        ("skb -> dev -> id == 42", True),
        ("row[1] == 2", True),
        ("ratio >= 0.5", True),
        ("len & 8", True),
        ("len & 0x1000 == 0x1000", True),
        ("n == len", False),
        # what is unavailable is neither true nor false
        ("gone == 1", False),
        ("gone != 1", False),
        ("not gone == 1", False),
        ("gone", False),
        ("gone & 1", False),
        ("gone == 1 or len > 1", True),
        ("gone == 1 and len > 1", False),
        ("not (gone == 1 and len < 1)", True),
        # things that cannot be compared
        ("name == 4", False),
        ("not name == 4", False),
        ("row == 1", False),
    ],
)
def test_conditions(text: str, expected: bool) -> None:
    assert condition(text).holds(VALUES) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "len >",
        "> 4",
        "(len > 1",
        "len > 1)",
        "len 4",
        "len > 1 n",
        "5",
        "'text'",
        "len & n",
        "len & 1.5",
        "len ==",
        "not",
        "len $ 4",
        "and",
        "01x == len",
        "()",
        f"len == {'1' * 5000}",
        f"len & {'1' * 5000}",
        f"len[{'1' * 5000}]",
    ],
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(UsageError, match=r"--where|no index") as caught:
        condition(text)
    assert len(str(caught.value)) < 400


def test_a_filter_needs_a_parameter() -> None:
    with pytest.raises(UsageError, match="none of its names"):
        condition("OPEN == 1")


def test_the_fields_to_fetch() -> None:
    labels = [reference.label for reference in condition("skb->dev->id == 42 and state == OPEN").references]
    assert labels == ["skb->dev->id", "state"]


def test_brackets_without_end_cost_no_stack() -> None:
    assert condition("(" * 200 + "len > 1" + ")" * 200).holds(VALUES)
    with pytest.raises(UsageError, match="too long"):
        parse_condition("(" * 100_000)


@given(st.text(max_size=60))
def test_anything_parses_or_says_why(text: str) -> None:
    with suppress(UsageError):
        parse_condition(text)


def test_parameters_of_one_name_have_numbers() -> None:
    """A parameter pack of C++."""
    assert [(found.label, found.parameter) for found in parse_condition("v#2->a == v").references] == [
        ("v#2->a", "v#2"),
        ("v", "v"),
    ]
