"""Types from DWARF: what is no field, and what cannot be shown."""

from __future__ import annotations

from typing import Any

import pytest

from inlinetrace.dwarf._dies import DieReader
from inlinetrace.elf.machine import X86_64
from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.sites.reasons import Reason, Unavailable
from tests.dwarf.writer import Die, Form, Unit, die, make_info, write

INT = die("base_type", name="int", byte_size=4, encoding=5, label="int")


def types(*entries: Die, producer: str = "GNU C17 12.2.0", version: int = 4) -> tuple[DwarfTypes, Any]:
    """The types of one unit, and the keys of the labels."""
    written = write([Unit(die("compile_unit", *entries, name="a.c", producer=producer), version=version)])
    return DwarfTypes(DieReader([make_info(written)]), X86_64), written


def member(name: str, **attributes: Any) -> Die:
    return die("member", name=name, type="int", **attributes)


def test_static_members_are_no_fields() -> None:
    """Before DWARF 5 they are members too, without a place."""
    counter = member("counter", external=True, declaration=True)
    structure = die("structure_type", counter, member("a", data_member_location=0), name="s", byte_size=4, label="s")
    made, keys = types(INT, structure)
    assert made.decode(b"\x0a\0\0\0", keys["s"]) == {"a": 10}
    assert made.member(keys["s"], "counter") is None


@pytest.mark.parametrize("version", [2, 3])
def test_places_of_members_that_are_expressions(version: int) -> None:
    place = {"data_member_location": Form("block1", b"\x23\x84\x00")}
    odd = member("odd", data_member_location=Form("block1", b"\x12\x06"))
    structure = die("structure_type", member("a", **place), odd, name="s", byte_size=8, label="s")
    made, keys = types(INT, structure, version=version)
    assert made.decode(bytes(4) + b"\7\0\0\0", keys["s"]) == {"a": 7}


def test_types_with_variants_are_not_shown_without_them() -> None:
    variants = die("variant_part", die("variant", member("some", data_member_location=0)))
    structure = die("structure_type", variants, name="Option", byte_size=4, label="option")
    made, keys = types(INT, structure)
    assert made.decode(bytes(4), keys["option"]) == Unavailable(Reason.UNSUPPORTED, "struct Option has variants")


@pytest.mark.parametrize(
    ("producer", "value"),
    [
        ("GNU C17 12.2.0 -O2", 1.5),
        ("GNU C17 12.2.0 -mlong-double-128 -O2", None),
        ("clang version 22.0.0", None),
    ],
)
def test_a_long_double_is_what_the_unit_was_compiled_for(producer: str, value: float | None) -> None:
    base = die("base_type", name="long double", byte_size=16, encoding=4, label="base")
    made, keys = types(base, die("typedef", name="real", type="base", label="real"), producer=producer)
    padded = bytes.fromhex("00000000000000c0ff3f") + b"padded"
    decoded = made.decode(padded, keys["real"])
    assert decoded == value if value is not None else isinstance(decoded, Unavailable)
    assert made.decode(padded[:10] + bytes(6), keys["real"]) == 1.5
