"""Which LOC_PARAM a location becomes."""

from __future__ import annotations

from typing import Any

import pytest

from inlinetrace.btf.kinds import Dialect, LocFlag, legal_location
from inlinetrace.generate.forms import Form, form_of
from inlinetrace.sites.location import Location, Piece
from inlinetrace.sites.nodes import Node, Op

REG, DEREF, OFFSET = LocFlag.REG, LocFlag.DEREF, LocFlag.OFFSET
CONST, SIGNED, ADDR = LocFlag.CONST, LocFlag.SIGNED, LocFlag.ADDR
BASE = 0xFFFFFFFF81000000


def form(location: Location, *, signed: bool = True, base: int | None = BASE, dialect: Dialect = Dialect.NEW) -> Any:
    return form_of(location, dialect, signed=signed, image_base=base)


@pytest.mark.parametrize(
    ("location", "wanted"),
    [
        (Location.register(5, size=4), Form(4, REG, (5,))),
        (Location.register(5, size=0), Form(8, REG, (5,))),
        (Location.value(5, 300, size=8), Form(8, REG | OFFSET, (5, 300))),
        (Location.value(7, -8, size=8), Form(8, REG | OFFSET | SIGNED, (7, 0xFFFFFFF8))),
        (Location.value(7, -(1 << 31), size=8), Form(8, REG | OFFSET | SIGNED, (7, 0x80000000))),
        (Location.value(7, 1 << 31, size=8), Form(8, REG | OFFSET, (7, 0x80000000, 0))),
        (Location.value(7, -(1 << 31) - 1, size=8), Form(8, REG | OFFSET | SIGNED, (7, 0x7FFFFFFF, 0xFFFFFFFF))),
        (Location.memory(3, 0, size=8), Form(8, REG | DEREF, (3,))),
        (Location.memory(2, 0x10, size=1), Form(1, REG | DEREF | OFFSET, (2, 0x10))),
        (Location.memory(2, 0x10, size=16), Form(16, REG | DEREF | OFFSET, (2, 0x10))),
        (Location.memory(2, 0x10, size=17), None),
        (Location.constant(2, size=1), Form(1, CONST, (2,))),
        (Location.constant(-1, size=4), Form(4, CONST | SIGNED, (0xFFFFFFFF,))),
        (Location.constant(-1, size=2), Form(2, CONST | SIGNED, (0xFFFFFFFF,))),
        (Location.constant(-2, size=8), Form(8, CONST | SIGNED, (0xFFFFFFFE, 0xFFFFFFFF))),
        (Location.constant(0x100000005, size=4), Form(4, CONST, (5,))),
        (Location.constant(5, size=5), Form(5, CONST, (5, 0))),
        (Location.constant(5, size=16), None),
        (Location.link_address(BASE + 0x1234, size=8), Form(8, CONST | ADDR, (0x1234, 0))),
        (Location.link_address(0x1A000, size=8), Form(8, CONST, (0x1A000, 0))),
        (Location.registers((5, 4), size=16), Form(16, REG, (5, 4))),
        (Location.registers((5, 4), size=12), Form(12, REG, (5, 4))),
    ],
)
def test_forms(location: Location, wanted: Form | None) -> None:
    got = form(location)
    assert got == wanted
    if wanted is not None:
        assert legal_location(wanted.flags, len(wanted.values))


def test_a_constant_of_an_unsigned_type_is_not_signed() -> None:
    assert form(Location.constant(-1, size=4), signed=False) == Form(4, CONST, (0xFFFFFFFF,))
    assert form(Location.constant(-1, size=8), signed=False) == Form(8, CONST, (0xFFFFFFFF, 0xFFFFFFFF))


def test_addresses_have_no_form_without_an_image() -> None:
    assert form(Location.link_address(0x1234, size=8), base=None) is None


def test_the_low_part_of_a_pair_comes_first_in_big_endian_too() -> None:
    big = Location.registers((2, 3), size=16, little_endian=False)
    assert form(big) == Form(16, REG, (3, 2))


@pytest.mark.parametrize(
    "location",
    [
        Location((Node(Op.REGISTER, 5), Node(Op.CONSTANT, 7), Node(Op.AND, 0, 1)), 8),
        Location((Node(Op.ADDRESS, BASE), Node(Op.LOAD, 0, 8)), 8),
        Location((Node(Op.REGISTER, 5), Node(Op.LOAD, 0, 4)), 8),
        Location((Node(Op.REGISTER, 5), Node(Op.CONSTANT, 7)), 16, pieces=(Piece(64, 0), Piece(64, 1))),
        Location((Node(Op.REGISTER, 5), Node(Op.REGISTER, 4)), 16, pieces=(Piece(32, 0), Piece(96, 1))),
        Location((Node(Op.REGISTER, 5), Node(Op.REGISTER, 4)), 16, pieces=(Piece(64, 0, 8), Piece(64, 1))),
        Location.registers((1, 2, 3), size=24),
    ],
)
def test_what_has_no_form(location: Location) -> None:
    assert form(location) is None


def test_what_the_rfc_cannot_say() -> None:
    for location, known in (
        (Location.register(5, size=4), True),
        (Location.register(33, size=8), False),
        (Location.register(70000, size=8), False),
        (Location.memory(5, 8, size=4), True),
        (Location.memory(5, 8, size=16), False),
        (Location.value(5, 1 << 40, size=8), False),
        (Location.constant(3, size=4), True),
        (Location.constant(3, size=3), False),
        (Location.link_address(BASE, size=8), False),
        (Location.registers((5, 4), size=16), True),
        (Location.registers((5, 33), size=16), False),
    ):
        assert (form(location, dialect=Dialect.RFC) is not None) is known
        assert (form(location, dialect=Dialect.V2) is not None) is (form(location) is not None)
