"""Units, their roots, and every form."""

from __future__ import annotations

from typing import Any

import pytest

from inlinetrace.dwarf._dies import DieReader
from inlinetrace.errors import FormatError, UnsupportedError
from tests.dwarf.expression_writer import uleb
from tests.dwarf.writer import Address, Expression, Form, Unit, die, make_info, write

SHAPES = [
    (version, wide, little)
    for version in (2, 3, 4, 5)
    for wide in (False, True)
    for little in (True, False)
    if not (wide and version == 2)
]


@pytest.mark.parametrize(("version", "wide", "little"), SHAPES)
def test_headers_of_all_versions(version: int, wide: bool, little: bool) -> None:
    offset_form = "sec_offset" if version >= 4 else "data8" if wide else "data4"
    root = die(
        "compile_unit",
        name="a.c",
        comp_dir=Form("strp", "/src"),
        producer="GNU C17",
        language=0x1D,
        low_pc=Address(0x1000),
        stmt_list=Form(offset_form, 0x55),
    )
    info = make_info([Unit(root, version=version, wide=wide), Unit(root, version=version, wide=wide)], little=little)
    assert info.count == 2
    for index in range(2):
        header = info.header(index)
        assert header["version"] == version
        assert header["offset_size"] == (8 if wide else 4)
        assert header["unit_type"] == "compile"
        assert (header["name"], header["comp_dir"], header["producer"]) == ("a.c", "/src", "GNU C17")
        assert (header["low_pc"], header["stmt_list"], header["language"]) == (0x1000, 0x55, 0x1D)
    assert info.header(1)["offset"] == info.header(0)["end"]


@pytest.mark.parametrize("address_size", [2, 4, 8])
def test_addresses_of_every_size(address_size: int) -> None:
    info = make_info([Unit(die("compile_unit", low_pc=Address(0x1234)), address_size=address_size)])
    assert info.header(0)["low_pc"] == 0x1234
    assert info.header(0)["address_size"] == address_size


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("partial", "partial"),
        ("skeleton", "skeleton"),
        ("type", "type"),
        ("split_compile", "split compile"),
        ("split_type", "split type"),
    ],
)
def test_unit_types_of_version_5(kind: str, text: str) -> None:
    root = die("compile_unit", die("base_type", label="t", name="int"), name="a.c")
    info = make_info([Unit(root, kind=kind, signature=0x1122334455667788, type_label="t")])
    assert info.header(0)["unit_type"] == text
    if kind != "partial":
        assert info.header(0)["signature"] == 0x1122334455667788
    if kind.endswith("type"):
        assert info.signature_offset(0x1122334455667788) == write([Unit(root, kind=kind)])["t"]


def test_type_units_of_version_4_stand_in_their_own_section() -> None:
    root = die("type_unit", die("structure_type", label="t", name="s", byte_size=8))
    written = write([Unit(root, version=4, kind="type", signature=7, type_label="t", types_section=True)])
    info = make_info(written, section=".debug_types")
    assert info.header(0)["unit_type"] == "type"
    assert info.signature_offset(7) == written["t"]
    assert info.signature_offset(8) is None


FORMS: list[tuple[Form, tuple[str, Any]]] = [
    (Form("addr", 0x1122334455667788), ("address", 0x1122334455667788)),
    (Form("data1", 0xFE), ("uint", 0xFE)),
    (Form("data2", 0xFEDC), ("uint", 0xFEDC)),
    (Form("data4", 0xFEDCBA98), ("uint", 0xFEDCBA98)),
    (Form("data8", 0xFEDCBA9876543210), ("uint", 0xFEDCBA9876543210)),
    (Form("data16", bytes(range(16))), ("block", bytes(range(16)))),
    (Form("udata", 1 << 63), ("uint", 1 << 63)),
    (Form("sdata", -(1 << 63)), ("sint", -(1 << 63))),
    (Form("implicit_const", -77), ("sint", -77)),
    (Form("block", b"abc"), ("block", b"abc")),
    (Form("block1", b""), ("block", b"")),
    (Form("block2", b"ab" * 200), ("block", b"ab" * 200)),
    (Form("block4", b"z"), ("block", b"z")),
    (Form("exprloc", b"\x50"), ("block", b"\x50")),
    (Form("flag", 1), ("flag", 1)),
    (Form("flag", 0), ("flag", 0)),
    (Form("flag_present", True), ("flag", 1)),
    (Form("string", "text"), ("string", "text")),
    (Form("strp", "in .debug_str"), ("string", "in .debug_str")),
    (Form("line_strp", "in .debug_line_str"), ("string", "in .debug_line_str")),
    (Form("strx", "indexed"), ("string", "indexed")),
    (Form("strx1", "indexed"), ("string", "indexed")),
    (Form("strx2", "indexed"), ("string", "indexed")),
    (Form("strx3", "indexed"), ("string", "indexed")),
    (Form("strx4", "indexed"), ("string", "indexed")),
    (Form("GNU_str_index", "indexed"), ("string", "indexed")),
    (Form("addrx", 0x4000), ("address", 0x4000)),
    (Form("addrx1", 0x4000), ("address", 0x4000)),
    (Form("addrx2", 0x4000), ("address", 0x4000)),
    (Form("addrx3", 0x4000), ("address", 0x4000)),
    (Form("addrx4", 0x4000), ("address", 0x4000)),
    (Form("GNU_addr_index", 0x4000), ("address", 0x4000)),
    (Form("sec_offset", 0x123456), ("offset", 0x123456)),
    (Form("loclistx", 3), ("index", 3)),
    (Form("rnglistx", 300), ("index", 300)),
    (Form("ref1", "target"), ("ref", "target")),
    (Form("ref2", "target"), ("ref", "target")),
    (Form("ref4", "target"), ("ref", "target")),
    (Form("ref8", "target"), ("ref", "target")),
    (Form("ref_udata", "target"), ("ref", "target")),
    (Form("ref_addr", "target"), ("ref", "target")),
]


@pytest.mark.parametrize(("form", "expected"), FORMS, ids=[str(form.name) for form, _ in FORMS])
@pytest.mark.parametrize(("wide", "little"), [(False, True), (True, False)])
@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "indirect"])
def test_every_form(form: Form, expected: tuple[str, Any], wide: bool, little: bool, hidden: bool) -> None:
    if hidden and form.name == "implicit_const":
        return
    marked = die("variable", more={0x2FFF: Form(form.name, form.value, hidden), "decl_line": 99}, label="marked")
    root = die("compile_unit", die("base_type", name="a", label="target"), marked, die("label", name="after"))
    written = write([Unit(root, wide=wide)], little=little)
    dies = DieReader([make_info(written, little=little)])
    tag, attributes, child = dies.die(written["marked"])
    assert tag == 0x34
    assert child is None
    wanted = ("ref", written["target"]) if expected[0] == "ref" else expected
    assert attributes[0x2FFF] == wanted
    assert attributes[0x3B] == ("uint", 99)
    following = dies.children(24 if wide else 12)[2]
    assert dies.die(following)[1][0x03] == ("string", "after")


def test_references_to_other_files_lead_to_the_supplementary_one() -> None:
    other = write([Unit(die("partial_unit", die("base_type", name="int", label="t")))])
    supplement = make_info(other)
    root = die("compile_unit", die("variable", label="v", type=Form("ref_sup4", other["t"])))
    written = write([Unit(root)])
    info = make_info(written, alternate=supplement)
    assert DieReader([info, supplement]).die(written["v"])[1][0x49] == ("ref", 1 << 44 | other["t"])
    assert DieReader([make_info(written)]).die(written["v"])[1][0x49] == ("ref", (1 << 64) - 1)


def test_units_that_share_one_abbreviation_table() -> None:
    units = [Unit(die("compile_unit", die("variable", name=name), name=name), table="shared") for name in "abc"]
    written = write(units)
    info = make_info(written)
    assert [info.header(index)["name"] for index in range(3)] == ["a", "b", "c"]
    assert len(written.sections[".debug_abbrev"]) < 30


def test_sparse_abbreviation_codes() -> None:
    root = die("compile_unit", die("variable", name="far", code=1 << 40, label="v"), name="a.c", code=1 << 20)
    written = write([Unit(root)])
    info = make_info(written)
    assert info.header(0)["name"] == "a.c"
    assert DieReader([info]).die(written["v"])[1][0x03] == ("string", "far")


def test_empty_sections_and_units() -> None:
    assert make_info([Unit(None)]).count == 1
    assert make_info([Unit(None)]).header(0)["name"] is None
    assert make_info([Unit(die("compile_unit", name="a.c"), padding=bytes(5))]).header(0)["name"] == "a.c"
    assert make_info([]).count == 0


def test_unit_around_an_offset() -> None:
    unit = Unit(die("compile_unit", name="a.c"))
    info = make_info([unit, Unit(die("compile_unit", name="b.c"))])
    second = info.header(1)["offset"]
    assert info.find_unit(second - 1) == 0
    assert info.find_unit(second + 12) == 1
    assert info.find_unit(second + 3) == -1
    assert info.find_unit(1 << 60) == -1


# What cannot be


@pytest.mark.parametrize(
    ("unit", "message", "offset"),
    [
        (Unit(die("compile_unit"), version=6), "DWARF version 6", 0),
        (Unit(die("compile_unit"), address_size=3), "addresses of 3 bytes", 0),
        (Unit(die("compile_unit"), length=1 << 20), "longer than its section", 0),
        (Unit(die("compile_unit"), length=0xFFFFFFF5), "reserved length", 0),
        (Unit(die("compile_unit"), length=1), "data end", 4),
        (Unit(die("compile_unit"), kind="type"), "type of a type unit lies outside", 0),
        (Unit(die("compile_unit", name=Form(0x2D, b""))), "form that DWARF does not define", None),
        (Unit(die("compile_unit", name=Form("strx", 500))), "outside of .debug_str_offsets", 13),
        (Unit(die("compile_unit", name=Form(0x16, uleb(0x16)))), "DW_FORM_indirect", 14),
    ],
)
def test_headers_that_cannot_be(unit: Unit, message: str, offset: int | None) -> None:
    with pytest.raises((FormatError, UnsupportedError), match=message) as caught:
        make_info([unit])
    assert caught.value.section is not None
    assert caught.value.path == "test"
    if offset is not None:
        assert caught.value.offset == offset


def test_strings_outside_of_their_section() -> None:
    written = write([Unit(die("compile_unit", name=Form("strp", "a.c")))])
    written.sections[".debug_str"] = b""
    with pytest.raises(FormatError, match="outside of its section") as caught:
        make_info(written).header(0)
    assert caught.value.section == ".debug_str"


def test_names_that_are_too_long_to_be_names() -> None:
    with pytest.raises(FormatError, match="is no name"):
        make_info([Unit(die("compile_unit", name="x" * 70_000))]).header(0)


def test_unused_argument_forms_stay_bytes() -> None:
    written = write([Unit(die("compile_unit", die("variable", label="v", location=Expression(b"\x91\x10"))))])
    assert DieReader([make_info(written)]).die(written["v"])[1][0x02] == ("block", b"\x91\x10")
