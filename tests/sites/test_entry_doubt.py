"""What gcc says of arguments where it does not follow variables, or not from state to state of one address."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from inlinetrace.elf.machine import X86_64
from inlinetrace.sites.doubt import entry_doubt
from inlinetrace.sites.location import Location
from inlinetrace.sites.reasons import Doubt
from inlinetrace.target import open_image
from tests.dwarf.expression_writer import op, sleb, uleb
from tests.sites.programs import build
from tests.sites.test_resolve import located, value

RDI, RSI, RBX = 5, 4, 3

SOURCE = r"""
volatile int sink;
static inline int scaled(int k, int m) { k -= m; sink = k; k *= 3; sink = k; return k; }
__attribute__((noipa)) int identity(int x) { return x; }
__attribute__((noipa)) int around(int a, int b) { int r = identity(1); return a + b + r; }
__attribute__((noipa)) int replaced(int q, int z) { z = q; q = 3; sink = q + z; return sink; }
__attribute__((noipa)) int changed(int q, int z) { q += z; sink = q; return q * z; }
__attribute__((noipa)) int twice(int a, int b) { return scaled(a + b, b) + scaled(a << 1, 4); }
struct large { long words[5]; };
__attribute__((noipa)) struct large returned(int a, int b)
{ struct large r = { { identity(a), b } }; a = b; sink = a; return r; }
int main(void) { return around(1, 2) + replaced(3, 4) + changed(5, 6) + twice(7, 8) + returned(9, 10).words[0]; }
"""


def doubt(
    data: bytes, passed_in: int | None, *, single: bool, untracked: bool = False, arguments: Sequence[int] | None = None
) -> Doubt | None:
    location = located(data, 8)
    assert isinstance(location, Location)
    return entry_doubt(
        location,
        single_expression=single,
        untracked=untracked,
        passed_in=passed_in,
        arguments=X86_64.arguments if arguments is None else tuple(arguments),
    )


def test_a_list_without_views_is_trusted_with_the_register_that_the_argument_is_passed_in() -> None:
    assert doubt(op("reg5"), RDI, single=False) is None
    assert doubt(op("reg5"), RSI, single=False) == Doubt.NO_VIEW
    assert doubt(op("reg5"), None, single=False) == Doubt.NO_VIEW
    assert doubt(value(op("lit3")), RDI, single=False) == Doubt.NO_VIEW
    assert doubt(value(op("breg5", sleb(1))), RDI, single=False) == Doubt.NO_VIEW
    assert doubt(op("breg5", sleb(0)), RDI, single=False) == Doubt.NO_VIEW


def test_a_single_register_is_trusted_if_the_argument_can_be_in_it() -> None:
    pair = op("reg5") + op("piece", uleb(4)) + op("reg3") + op("piece", uleb(4))
    assert doubt(op("reg5"), RDI, single=True) is None
    assert doubt(op("reg5"), None, single=True) is None
    assert doubt(op("reg5"), RSI, single=True) == Doubt.SINGLE_REGISTER
    assert doubt(op("reg3"), None, single=True) == Doubt.SINGLE_REGISTER
    assert doubt(op("breg3", sleb(0)), None, single=True) == Doubt.SINGLE_REGISTER
    assert doubt(pair, None, single=True) == Doubt.SINGLE_REGISTER
    # passed on the stack
    assert doubt(op("reg5"), -1, single=True) == Doubt.SINGLE_REGISTER
    # a machine whose registers are not known
    assert doubt(op("reg3"), None, single=True, arguments=()) is None


def test_no_register_is_trusted_where_variables_are_not_followed() -> None:
    assert doubt(op("reg5"), RDI, single=True, untracked=True) == Doubt.SINGLE_REGISTER
    assert doubt(op("reg3"), None, single=True, untracked=True, arguments=()) == Doubt.SINGLE_REGISTER
    assert doubt(value(op("lit3")), RDI, single=True, untracked=True) is None


def doubts(path: Path) -> dict[str, list[Doubt | None]]:
    return {
        site.function: [parameter.doubt for parameter in site.parameters]
        for site in open_image(path).sites()
        if not site.inlined and site.parameters
    }


@pytest.mark.compiled
def test_without_tracking_no_register_at_an_entry_is_trusted(tmp_path: Path) -> None:
    path = build(tmp_path, "gcc", ["-O2", "-fno-var-tracking"], sources={"one.c": SOURCE})
    assert {d for found in doubts(path).values() for d in found} == {Doubt.SINGLE_REGISTER}


@pytest.mark.compiled
def test_a_variable_that_stays_in_a_register_without_optimisation(tmp_path: Path) -> None:
    source = "int f(register int a) { return a + 1; } int main(void) { return f(3); }"
    path = build(tmp_path, "gcc", ["-O0"], sources={"one.c": source})
    assert doubts(path)["f"] == [Doubt.SINGLE_REGISTER]


@pytest.mark.compiled
@pytest.mark.parametrize("option", ["-gno-variable-location-views", "-gno-as-locview-support", "-gno-as-loc-support"])
def test_without_views(option: str, tmp_path: Path) -> None:
    path = build(tmp_path, "gcc", ["-O2", option], sources={"one.c": SOURCE})
    found = doubts(path)
    assert found["replaced"] == [Doubt.NO_VIEW, Doubt.NO_VIEW]
    assert found["changed"][1] is None
    # the address for what is returned comes first
    assert found["returned"][0] == Doubt.NO_VIEW
    inlined = [p for site in open_image(path).sites() if site.inlined for p in site.parameters if p.available]
    assert inlined
    assert all(parameter.doubt is not None for parameter in inlined)
