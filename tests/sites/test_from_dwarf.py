"""Sites from DWARF that tests write: order of parameters, reasons, chains, marks, copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Compiler, Doubt, Mark, Reason, Unavailable
from inlinetrace.target import open_image
from tests.dwarf.expression_writer import block, op, sleb
from tests.dwarf.writer import Address, Die, Expression, Locations, Unit, die, make_program
from tests.elf.elfwriter import Sym

GCC = "GNU C17 12.2.0"
INT = die("base_type", label="int", name="int", byte_size=4, encoding=5)
RDI, RSI = b"\x55", b"\x54"
# main at 0x1000 to 0x1100, its part for cold code under another symbol
SYMBOLS = [Sym("main", 0x1000, 0x100, ".text"), Sym("f.isra.0", 0x1200, 0x40, ".text")]


def sites_of(tmp_path: Path, *children: Die, producer: str | None = GCC) -> list[Site]:
    more: dict[str, Any] = {"producer": producer} if producer else {}
    unit = die("compile_unit", INT, *children, name="a.c", language=0x1D, low_pc=Address(0), **more)
    code = b"\x90" * 0x1000
    (tmp_path / "program").write_bytes(make_program([Unit(unit)], symbols=SYMBOLS, code=code))
    return list(open_image(tmp_path / "program").sites())


def f(*names: str, label: str = "f", **more: Any) -> Die:
    parameters = [die("formal_parameter", label=f"{label}.{name}", name=name, type="int") for name in names]
    return die("subprogram", *parameters, label=label, name=label, inline=1, **more)


def main(*children: Die) -> Die:
    return die("subprogram", *children, name="main", low_pc=Address(0x1000), high_pc=0x100)


def inlined(*children: Die, origin: str = "f", entry: int = 0x1010, **more: Any) -> Die:
    return die("inlined_subroutine", *children, abstract_origin=origin, entry_pc=Address(entry), **more)


def given(name: str, location: Any = None, **more: Any) -> Die:
    if location is not None:
        more["location"] = location
    return die("formal_parameter", abstract_origin=f"f.{name}", **more)


def always(operations: bytes) -> Locations:
    return Locations([("start_end", 0x1000, 0x1100, operations)], views=[(0, 0)])


def one(tmp_path: Path, description: Die, **more: Any) -> tuple[Any, Doubt | None]:
    sites = sites_of(tmp_path, f("x"), main(inlined(description)), **more)
    (parameter,) = next(site for site in sites if site.inlined).parameters
    return parameter.location, parameter.doubt


def test_parameters_come_in_the_order_of_the_prototype(tmp_path: Path) -> None:
    sites = sites_of(tmp_path, f("a", "b", "c"), main(inlined(given("c", always(RSI)), given("a", always(RDI)))))
    site = next(site for site in sites if site.inlined)
    assert [parameter.name for parameter in site.parameters] == ["a", "b", "c"]
    assert [parameter.available for parameter in site.parameters] == [True, False, True]
    assert site.parameters[1].location == Unavailable(Reason.NO_LOCATION)


def test_chain_and_container(tmp_path: Path) -> None:
    deep = inlined(origin="h", entry=0x1030)
    tree = inlined(inlined(deep, origin="g", entry=0x1020))
    sites = sites_of(tmp_path, f(), f(label="g"), f(label="h"), main(tree))
    site = next(site for site in sites if site.function == "h" and site.inlined)
    assert [frame.function for frame in site.chain] == ["g", "f"]
    assert (site.container, site.symbol, site.symbol_offset) == ("main", "main", 0x30)
    assert (site.section, site.section_offset) == (".text", 0x30)


def test_a_function_inlined_into_itself_is_transparent(tmp_path: Path) -> None:
    sites = sites_of(tmp_path, f(), main(inlined(inlined(entry=0x1020))))
    marks = {site.address: Mark.TRANSPARENT in site.marks for site in sites if site.inlined}
    assert marks == {0x1010: False, 0x1020: True}


def test_gcc_site_without_entry_is_marked(tmp_path: Path) -> None:
    site = die("inlined_subroutine", abstract_origin="f", low_pc=Address(0x1040), high_pc=4)
    for producer, marked in ((GCC, True), ("clang version 19", False)):
        sites = [site for site in sites_of(tmp_path, f(), main(site), producer=producer) if site.inlined]
        assert (Mark.HOISTED in sites[0].marks) is marked


def test_copies_have_their_suffix(tmp_path: Path) -> None:
    copy = die("subprogram", given("x", always(RDI)), abstract_origin="f", low_pc=Address(0x1200), high_pc=0x40)
    (site,) = [site for site in sites_of(tmp_path, f("x"), copy) if not site.inlined]
    assert (site.function, site.copy, site.symbol) == ("f", "f.isra.0", "f.isra.0")
    assert [parameter.name for parameter in site.parameters] == ["x"]


def test_entry_value_counts_at_the_very_entry_only(tmp_path: Path) -> None:
    value = always(op("entry_value", block(RDI)) + op("stack_value"))
    for entry, available in ((0x1000, True), (0x1010, False)):
        sites = sites_of(tmp_path, f("x"), main(inlined(given("x", value), entry=entry)))
        (parameter,) = next(site for site in sites if site.inlined).parameters
        assert parameter.available is available
        if not available:
            assert isinstance(parameter.location, Unavailable)
            assert parameter.location.reason is Reason.ENTRY_VALUE


@pytest.mark.parametrize(
    ("description", "reason"),
    [
        (given("x"), Reason.NO_LOCATION),
        (given("x", Expression(b"")), Reason.NO_LOCATION),
        (given("x", Locations([("start_end", 0x1020, 0x1030, RDI)])), Reason.NOT_LIVE),
        (given("x", always(b"\x61")), Reason.VECTOR_REGISTER),
        (given("x", Expression(op("fbreg", sleb(-8)))), Reason.NO_FRAME),
        (given("x", always(RDI + op("piece", b"\x02"))), Reason.PARTLY),
    ],
)
def test_reasons(description: Die, reason: Reason, tmp_path: Path) -> None:
    location, _ = one(tmp_path, description)
    assert isinstance(location, Unavailable)
    assert location.reason is reason


def test_doubts(tmp_path: Path) -> None:
    assert one(tmp_path, given("x", always(RDI)))[1] is None
    assert one(tmp_path, given("x", Expression(RDI)))[1] is Doubt.SINGLE_REGISTER
    computed = always(op("breg5", sleb(0)) + op("lit3") + op("mul") + op("stack_value"))
    assert one(tmp_path, given("x", computed), producer="clang version 19")[1] is Doubt.COMPILER
    assert one(tmp_path, given("x", const_value=5), producer="clang version 19")[1] is Doubt.COMPILER


@pytest.mark.parametrize("tombstone", [0, (1 << 64) - 1, (1 << 64) - 2])
def test_what_the_linker_left_out_has_no_address(tombstone: int, tmp_path: Path) -> None:
    inner = inlined(given("x", always(RDI)), origin="f", entry=0x1030)
    block = die("lexical_block", inlined(given("x", always(RDI)), inner, entry=0x1020))
    discarded = die("subprogram", block, name="unused", low_pc=Address(tombstone), high_pc=0x100)
    sites = sites_of(tmp_path, f("x"), discarded, main(inlined(given("x", always(RDI)))))
    assert [(site.function, site.address) for site in sites] == [("f", 0x1010), ("main", 0x1000)]


def test_lists_without_views_are_doubtful_with_gcc(tmp_path: Path) -> None:
    viewless = Locations([("start_end", 0x1000, 0x1100, RDI)])
    assert one(tmp_path, given("x", viewless))[1] is Doubt.NO_VIEW
    assert one(tmp_path, given("x", viewless), producer="clang version 19")[1] is None


def test_parameters_of_a_site_without_entry_are_doubtful(tmp_path: Path) -> None:
    parameters = [given("a", always(RDI)), given("b", const_value=5), given("c", Expression(RSI)), given("d")]
    site = die("inlined_subroutine", *parameters, abstract_origin="f", low_pc=Address(0x1040), high_pc=4)
    for producer, doubt in ((GCC, Doubt.NO_ENTRY), ("clang version 19", None)):
        constant = doubt or Doubt.COMPILER
        sites = sites_of(tmp_path, f("a", "b", "c", "d"), main(site), producer=producer)
        (found,) = [site for site in sites if site.inlined]
        a, b, c, d = found.parameters
        assert (a.doubt, b.doubt, d.doubt) == (doubt, constant, None)
        assert c.doubt is (Doubt.SINGLE_REGISTER if doubt else None)


def test_constants_of_copies_are_doubtful_with_gcc(tmp_path: Path) -> None:
    parameters = [given("x", const_value=5), given("y", always(RDI)), given("z", const_value=b"")]
    copy = die("subprogram", *parameters, abstract_origin="f", low_pc=Address(0x1200), high_pc=0x40)
    (site,) = [site for site in sites_of(tmp_path, f("x", "y", "z"), copy) if not site.inlined]
    assert [parameter.doubt for parameter in site.parameters] == [Doubt.COPY_CONSTANT, None, None]
    assert one(tmp_path, given("x", const_value=5))[1] is None


def test_constants_that_clang_gives_one_stretch_of_several_are_doubtful(tmp_path: Path) -> None:
    five = op("lit5") + op("stack_value")
    stretches = [("start_end", 0x1000, 0x1020, five), ("start_end", 0x1020, 0x1100, RDI)]
    several = Locations(stretches, views=[(0, 0), (0, 0)])
    for producer, doubt in (("clang version 19", Doubt.COMPILER), (GCC, None)):
        assert one(tmp_path, given("x", several), producer=producer)[1] is doubt
        assert one(tmp_path, given("x", always(five)), producer=producer)[1] is None
    several = Locations([("start_end", 0x1000, 0x1020, RDI), ("start_end", 0x1020, 0x1100, five)])
    assert one(tmp_path, given("x", several), producer="clang version 19")[1] is None


def test_constants_are_locations(tmp_path: Path) -> None:
    location, doubt = one(tmp_path, given("x", const_value=-3))
    assert isinstance(location, Location)
    assert doubt is None


def test_compilers(tmp_path: Path) -> None:
    for producer, compiler in ((GCC, Compiler.GCC), ("clang version 19", Compiler.CLANG), (None, Compiler.OTHER)):
        sites = sites_of(tmp_path, f(), main(inlined()), producer=producer)
        assert {site.compiler for site in sites} == {compiler}


def test_views_choose_the_entry(tmp_path: Path) -> None:
    entries = [("start_end", 0x1010, 0x1010, RSI), ("start_end", 0x1010, 0x1020, RDI)]
    for view, register in ((1, 4), (2, 5)):
        locations = Locations(entries, views=[(1, 2), (2, 0)])
        site = inlined(given("x", locations), more={"GNU_entry_view": view})
        sites = sites_of(tmp_path, f("x"), main(site))
        location = next(site for site in sites if site.inlined).parameters[0].location
        assert isinstance(location, Location)
        assert location.nodes[0].a == register
