"""Location lists and range lists: every kind of entry, base addresses, views."""

from __future__ import annotations

from typing import Any

import pytest

from inlinetrace.dwarf._lists import location_list
from inlinetrace.dwarf._records import Records
from inlinetrace.dwarf._scan import scan
from inlinetrace.errors import FormatError
from tests.dwarf.writer import Address, Die, Form, Locations, Ranges, Unit, die, make_info, write

RAX, RBX = b"\x50", b"\x53"
LARGEST = (1 << 64) - 1


def root(*children: Die) -> Die:
    return die("compile_unit", *children, name="a.c", language=0x1D, low_pc=Address(0x1000))


def lists_of(locations: Locations, *, version: int = 5, wide: bool = False, little: bool = True) -> list[Any]:
    function = die("subprogram", die("formal_parameter", location=locations), low_pc=Address(0x1000), high_pc=9)
    info = make_info([Unit(root(function), version=version, wide=wide)], little=little)
    records = Records(info, [scan(info, 0, 1)])
    return [entry for _, entries in records.location_lists(records.copies()[0], False) for entry in entries]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("offset_pair", 4, 8, RAX)], (0x1004, 0x1008, RAX)),
        ([("base_address", 0x5000), ("offset_pair", 4, 8, RAX)], (0x5004, 0x5008, RAX)),
        ([("start_end", 0x2000, 0x2004, RAX)], (0x2000, 0x2004, RAX)),
        ([("start_length", 0x2000, 0x10, RAX)], (0x2000, 0x2010, RAX)),
        ([("default_location", RBX)], (0, LARGEST, RBX)),
        ([("base_addressx", 1), ("offset_pair", 4, 8, RAX)], (0x4004, 0x4008, RAX)),
        ([("startx_endx", 0, 1, RAX)], (0x3000, 0x4000, RAX)),
        ([("startx_length", 1, 0x20, RAX)], (0x4000, 0x4020, RAX)),
        ([("start_end", 0x2000, 0x2000, b"")], (0x2000, 0x2000, b"")),
    ],
    ids=lambda value: value[0][0] if isinstance(value, list) else "",
)
@pytest.mark.parametrize(("wide", "little"), [(False, True), (True, False)])
def test_every_kind_of_location(
    entries: list[tuple[Any, ...]], expected: tuple[int, int, bytes], wide: bool, little: bool
) -> None:
    function = die("subprogram", die("formal_parameter", location=Locations(entries)), low_pc=Address(1), high_pc=9)
    written = write([Unit(root(function), wide=wide)], little=little, addresses=[0x3000, 0x4000])
    info = make_info(written, little=little)
    records = Records(info, [scan(info, 0, 1)])
    ((_, found),) = records.location_lists(records.copies()[0], False)
    assert [(begin, end, expression) for begin, _, end, _, expression in found] == [expected]


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize("little", [True, False])
def test_lists_before_version_5(version: int, little: bool) -> None:
    entries = [(4, 8, RAX), (LARGEST, 0x7000), (1, 2, RBX)]
    found = lists_of(Locations(entries), version=version, little=little)
    assert found == [(0x1004, 0, 0x1008, 0, RAX), (0x7001, 0, 0x7002, 0, RBX)]


@pytest.mark.parametrize("version", [4, 5])
def test_view_pairs_before_a_list(version: int) -> None:
    entries = [("start_end", 0x10, 0x10, RAX), ("start_end", 0x10, 0x20, RBX)]
    plain = [(0x10, 0x10, RAX), (0x10, 0x20, RBX)]
    views = [(0, 3), (300, 0)]
    locations = Locations(entries if version == 5 else [(a - 0x1000, b - 0x1000, c) for a, b, c in plain], views=views)
    assert lists_of(locations, version=version) == [(0x10, 0, 0x10, 3, RAX), (0x10, 300, 0x20, 0, RBX)]


def test_view_pairs_inside_of_a_list() -> None:
    entries = [("view_pair", 1, 2), ("start_end", 0x10, 0x10, RAX), ("start_end", 0x20, 0x30, RBX)]
    assert lists_of(Locations(entries)) == [(0x10, 1, 0x10, 2, RAX), (0x20, 0, 0x30, 0, RBX)]


def live(locations: Locations, pc: int, view: int = 0, *, version: int = 5) -> tuple[int, object, bool]:
    function = die("subprogram", die("formal_parameter", location=locations), low_pc=Address(0x1000), high_pc=9)
    info = make_info([Unit(root(function), version=version)])
    records = Records(info, [scan(info, 0, 1)])
    ((_, kind, value, empty),) = records.parameters(records.copies()[0], False, pc, view)
    return kind, value, empty


def test_which_entry_is_live() -> None:
    plain = Locations([("start_end", 0x10, 0x20, RAX), ("start_end", 0x20, 0x30, RBX)])
    assert live(plain, 0x0F) == (3, None, False)
    assert live(plain, 0x10) == (2, RAX, False)
    assert live(plain, 0x1F) == (2, RAX, False)
    assert live(plain, 0x20) == (2, RBX, False)
    assert live(plain, 0x30) == (3, None, False)
    assert live(Locations([]), 0x10) == (3, None, False)


def test_default_entry_is_live_where_no_other_is() -> None:
    locations = Locations([("default_location", RBX), ("start_end", 0x10, 0x20, RAX)])
    assert live(locations, 0x10) == (2, RAX, False)
    assert live(locations, 0x20) == (2, RBX, False)


def test_views_order_the_states_of_one_address() -> None:
    entries = [("start_end", 0x10, 0x10, RAX), ("start_end", 0x10, 0x20, RBX)]
    locations = Locations(entries, views=[(1, 3), (3, 0)])
    assert live(locations, 0x10, 0) == (3, None, False)
    assert live(locations, 0x10, 1) == (2, RAX, True)
    assert live(locations, 0x10, 2) == (2, RAX, True)
    assert live(locations, 0x10, 3) == (2, RBX, False)
    assert live(locations, 0x1F, 0) == (2, RBX, False)
    assert live(locations, 0x20, 0) == (3, None, False)


def test_empty_entry_without_views_is_never_live() -> None:
    assert live(Locations([("start_end", 0x10, 0x10, RAX)]), 0x10) == (3, None, False)


def test_lists_by_index() -> None:
    first, second = Locations([("start_end", 1, 2, RAX)]), Locations([("start_end", 3, 4, RBX)])
    function = die(
        "subprogram",
        die("formal_parameter", location=Form("loclistx", first)),
        die("formal_parameter", location=Form("loclistx", second)),
        low_pc=Address(1),
        high_pc=9,
    )
    info = make_info([Unit(root()), Unit(root(function), wide=True)])
    records = Records(info, [scan(info, 0, 2)])
    found = records.location_lists(records.copies()[0], False)
    assert [entries for _, entries in found] == [[(1, 0, 2, 0, RAX)], [(3, 0, 4, 0, RBX)]]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([("offset_pair", 4, 8), ("offset_pair", 9, 9)], [(0x1004, 0x1008), (0x1009, 0x1009)]),
        ([("base_address", 0x5000), ("offset_pair", 4, 8)], [(0x5004, 0x5008)]),
        ([("start_end", 0x2000, 0x2004)], [(0x2000, 0x2004)]),
        ([("start_length", 0x2000, 0x10)], [(0x2000, 0x2010)]),
        ([("base_addressx", 1), ("offset_pair", 4, 8)], [(0x4004, 0x4008)]),
        ([("startx_endx", 0, 1)], [(0x3000, 0x4000)]),
        ([("startx_length", 1, 0x20)], [(0x4000, 0x4020)]),
        ([], []),
    ],
)
@pytest.mark.parametrize("form", ["sec_offset", "rnglistx"])
def test_every_kind_of_range(entries: list[tuple[Any, ...]], expected: list[tuple[int, int]], form: str) -> None:
    function = die("subprogram", name="f", ranges=Form(form, Ranges(entries)))
    info = make_info(write([Unit(root(function))], addresses=[0x3000, 0x4000]))
    records = Records(info, [scan(info, 0, 1)])
    assert records.ranges(records.copies()[0], False) == expected


@pytest.mark.parametrize("version", [3, 4])
def test_ranges_before_version_5(version: int) -> None:
    ranges = Ranges([(0x10, 0x20), (LARGEST, 0), (0x9000, 0x9010)])
    info = make_info([Unit(root(die("subprogram", name="f", ranges=ranges)), version=version)])
    records = Records(info, [scan(info, 0, 1)])
    assert records.ranges(records.copies()[0], False) == [(0x1010, 0x1020), (0x9000, 0x9010)]


# What cannot be


@pytest.mark.parametrize(
    ("locations", "message"),
    [
        (Locations([(10,)]), "kind that DWARF does not define"),
        (Locations([("start_end", 1, 2, RAX)], end=False), "data end"),
        (Locations([("startx_endx", 500, 501, RAX)]), "outside of .debug_addr"),
        (Locations([("start_end", 1, 2, RAX)], views=[]), None),
    ],
)
def test_lists_that_cannot_be(locations: Locations, message: str | None) -> None:
    if message is None:
        assert lists_of(locations)
        return
    with pytest.raises(FormatError, match=message) as caught:
        lists_of(locations)
    assert caught.value.section == ".debug_loclists"
    assert caught.value.offset is not None


@pytest.mark.parametrize("offset", [1 << 20, 1 << 63, LARGEST])
@pytest.mark.parametrize("version", [4, 5])
def test_offsets_outside_of_the_section(offset: int, version: int) -> None:
    info = make_info([Unit(root(), version=version)])
    with pytest.raises(FormatError, match="data end") as caught:
        location_list(info, 0, offset)
    assert caught.value.section == (".debug_loclists" if version == 5 else ".debug_loc")
