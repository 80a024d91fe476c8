"""The scan over entries, and questions about its records."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from inlinetrace.dwarf._records import Records
from inlinetrace.dwarf._scan import scan
from inlinetrace.errors import FormatError
from tests.dwarf.writer import Address, Die, Form, Ranges, Unit, Written, die, make_info, write

INT = die("base_type", label="int", name="int", byte_size=4, encoding=5)
C, CPP = 0x1D, 0x21


def records_of(*children: Die, language: int = C, version: int = 5) -> tuple[Records, Written]:
    written = write([Unit(die("compile_unit", INT, *children, name="a.c", language=language), version=version)])
    info = make_info(written)
    return Records(info, [scan(info, 0, info.count)]), written


def function(label: str, *children: Die, **more: Any) -> Die:
    return die("subprogram", *children, label=label, **{"name": label, **more})


def body(label: str, *children: Die, low: int = 0x1000, **more: Any) -> Die:
    return function(label, *children, low_pc=Address(low), high_pc=0x100, **more)


def inlined(origin: str, *children: Die, label: str | None = None, **more: Any) -> Die:
    return die("inlined_subroutine", *children, label=label, **{"abstract_origin": origin, **more})


def parameter(origin: str | None = None, label: str | None = None, **more: Any) -> Die:
    if origin is not None:
        more["abstract_origin"] = origin
    return die("formal_parameter", label=label, **more)


def test_sites_know_their_parents() -> None:
    records, at = records_of(
        function("f", inline=1),
        body(
            "main",
            inlined("f", inlined("f", label="inner"), label="outer"),
            die("lexical_block", die("lexical_block", inlined("f", label="in_block"))),
            inlined("f", label="last"),
        ),
    )
    sites = {records.site(id_).die: records.site(id_) for id_ in records.all_sites()}
    ids = {records.site(id_).die: id_ for id_ in records.all_sites()}
    assert sorted(sites) == sorted(at[label] for label in ("outer", "inner", "in_block", "last"))
    assert sites[at["inner"]].parent_site == ids[at["outer"]]
    for label in ("outer", "in_block", "last"):
        assert sites[at[label]].parent_site == -1
        assert records.function(sites[at[label]].parent_function).name == "main"
    assert all(records.function(records.root(id_)).name == "main" for id_ in ids.values())


def test_parameters_belong_to_their_direct_parent() -> None:
    records, at = records_of(
        function("f", parameter(name="a", label="a"), parameter(name="b", label="b"), inline=1),
        body(
            "main",
            inlined(
                "f",
                parameter("a"),
                die("lexical_block", die("variable", name="v"), parameter(name="stray")),
                inlined("f", parameter("a")),
                parameter("b"),
            ),
        ),
    )
    outer, inner = records.all_sites()
    assert [item[0] for item in records.parameters(outer, True, 0, 0)] == [at["a"], at["b"]]
    assert [item[0] for item in records.parameters(inner, True, 0, 0)] == [at["a"]]


def test_address_is_the_entry_else_low_else_the_first_range_that_is_not_empty() -> None:
    ranges = Ranges([("start_end", 0x30, 0x30), ("start_end", 0x20, 0x28), ("start_end", 0x10, 0x18)])
    empty = Ranges([("start_end", 0x50, 0x50)])
    records, _ = records_of(
        function("f", inline=1),
        body(
            "main",
            inlined("f", entry_pc=Address(0x99), low_pc=Address(0x10), high_pc=4),
            inlined("f", low_pc=Address(0x10), high_pc=4),
            inlined("f", ranges=ranges),
            inlined("f", ranges=ranges, entry_pc=Address(0x99)),
            inlined("f", low_pc=Address(0x10), high_pc=4, entry_pc=2),
            inlined("f", ranges=empty),
            inlined("f"),
        ),
    )
    addresses = [records.site(id_) for id_ in records.all_sites()]
    assert [site.address for site in addresses[:6]] == [0x99, 0x10, 0x20, 0x99, 0x12, 0x50]
    assert [site.has_address for site in addresses] == [True] * 6 + [False]
    assert [site.has_entry for site in addresses] == [True, False, False, True, True, False, False]
    assert list(records.addresses(records.all_sites(), True)[:3]) == [0x99, 0x10, 0x20]


def test_names_are_found_by_every_kind_of_string() -> None:
    records, at = records_of(
        function("f", name=Form("strp", "wanted")),
        function("g", name=Form("line_strp", "wanted")),
        function("h", name=Form("string", "wanted")),
        function("i", name=Form("strx1", "wanted")),
        function("j", name="wanted_not"),
    )
    found = records.functions_named(records.references_to(b"wanted"))
    assert list(found) == sorted(at[label] for label in "fghi")
    assert list(records.references_to(b"want")) == []
    assert len(records.functions_named(array("Q"))) == 0


def test_functions_are_named_by_their_origins() -> None:
    records, at = records_of(
        function("declared", name="f", declaration=True),
        die("subprogram", label="abstract", specification="declared", inline=1),
        die("subprogram", label="copy", abstract_origin="abstract", low_pc=Address(1), high_pc=4),
        body("main", inlined("abstract", label="site")),
    )
    named = records.functions_named(records.references_to(b"f"))
    assert list(named) == sorted((at["declared"], at["abstract"], at["copy"]))
    assert [records.site(id_).die for id_ in records.sites_of(named)] == [at["site"]]
    assert [records.function(id_).die for id_ in records.copies(named)] == [at["copy"]]


def test_sites_inside_of_a_function_and_of_its_inlined_copies() -> None:
    records, at = records_of(
        function("f", inline=1),
        function("g", inline=1),
        body("main", inlined("g", inlined("f", label="deep"), label="g1")),
        body("other", inlined("f", label="elsewhere"), low=0x2000),
    )

    def inside(name: bytes) -> list[int]:
        functions = records.functions_named(records.references_to(name))
        return [records.site(id_).die for id_ in records.sites_inside(functions)]

    assert inside(b"main") == [at["g1"], at["deep"]]
    assert inside(b"g") == [at["deep"]]
    assert inside(b"other") == [at["elsewhere"]]
    assert inside(b"f") == []


@pytest.mark.parametrize("sibling", [False, True])
@pytest.mark.parametrize("language", [C, CPP])
def test_types_are_passed_over_but_for_functions_of_classes(sibling: bool, language: int) -> None:
    method = body("method", inlined("f", label="in_method"))
    records, at = records_of(
        function("f", inline=1),
        die("structure_type", die("member", name="m", type="int"), method, name="s", sibling=sibling),
        die("enumeration_type", die("enumerator", name="A", const_value=1), sibling=sibling),
        body("main", inlined("f", label="in_main")),
        language=language,
    )
    found = [records.site(id_).die for id_ in records.all_sites()]
    assert at["in_main"] in found
    if language == CPP or not sibling:
        assert at["in_method"] in found


def test_declarations_are_no_copies() -> None:
    records, _ = records_of(
        function("declared", declaration=True),
        function("abstract", inline=1),
        body("real"),
        function("split", ranges=Ranges([("start_end", 8, 16)])),
    )
    assert [records.function(id_).name for id_ in records.copies()] == ["real", "split"]
    entry = records.function(records.copies()[0])
    assert (entry.address, entry.declaration, entry.abstract) == (0x1000, False, False)


def test_units_in_several_chunks() -> None:
    units = [
        Unit(die("compile_unit", function(f"f{i}", inline=1), body(f"main{i}", inlined(f"f{i}")), language=C))
        for i in range(5)
    ]
    info = make_info(units)
    whole = Records(info, [scan(info, 0, 5)])
    parts = Records(info, [scan(info, 0, 2), scan(info, 2, 2), scan(info, 2, 5)])
    assert [parts.site(id_).die for id_ in parts.all_sites()] == [whole.site(id_).die for id_ in whole.all_sites()]
    with pytest.raises(ValueError, match="not those of all units"):
        Records(info, [scan(info, 0, 2), scan(info, 3, 5)])


def test_constants_instead_of_locations() -> None:
    records, _ = records_of(
        function("f", parameter(name="a", label="a"), inline=1),
        body("main", inlined("f", *[parameter("a", const_value=value) for value in (-1, 200, b"abc")])),
    )
    found = records.parameters(records.all_sites()[0], True, 0, 0)
    assert [(kind, value) for _, kind, value, _ in found] == [(5, -1), (4, 200), (6, b"abc")]


# What cannot be


@pytest.mark.parametrize(
    ("children", "message"),
    [
        ([inlined("f", entry_pc=Form("addrx", 7))], None),
        ([inlined("f", abstract_origin=Form("ref8", 1 << 60))], "leads to no entry"),
        ([inlined("f", low_pc=Form("data4", 7))], "not an address"),
        ([inlined("f", abstract_origin=5)], "leads to no entry"),
    ],
)
def test_sites_that_cannot_be(children: list[Die], message: str | None) -> None:
    if message is None:
        assert records_of(function("f", inline=1), body("main", *children))[0].site_count == 1
        return
    with pytest.raises(FormatError, match=message) as caught:
        records_of(function("f", inline=1), body("main", *children))
    assert caught.value.section == ".debug_info"
    assert caught.value.offset


def test_codes_that_the_table_does_not_have() -> None:
    written = write([Unit(die("compile_unit", body("main"), language=C), padding=b"\x63\x00")])
    info = make_info(written)
    with pytest.raises(FormatError, match="abbreviation code"):
        scan(info, 0, 1)


def test_siblings_that_lead_backwards() -> None:
    written = write([Unit(die("compile_unit", die("structure_type", die("member"), sibling=True), language=C))])
    data = bytearray(written.sections[".debug_info"])
    # 12 bytes of header, code and language of the root, code of the structure
    data[15:19] = bytes(4)
    written.sections[".debug_info"] = bytes(data)
    with pytest.raises(FormatError, match="DW_AT_sibling") as caught:
        scan(make_info(written), 0, 1)
    assert caught.value.offset == 14
