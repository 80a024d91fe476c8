"""Hostile and damaged files through the whole chain: a listing or an error of this package, soon, in little memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inlinetrace.errors import FormatError, InlineTraceError
from tests.dwarf.expression_writer import op, uleb
from tests.dwarf.writer import Address, Die, Expression, Form, Locations, Ranges, Unit, die, make_program, write
from tests.sites.programs import build
from tests.target.hostile import bounded, chain

INT = die("base_type", label="int", name="int", byte_size=4, encoding=5)


def root(*children: Die) -> Unit:
    return Unit(
        die("compile_unit", INT, *children, name="a.c", language=0x1D, producer="GNU C17", low_pc=Address(0x1000))
    )


def inlined(*children: Die, **more: Any) -> Die:
    return die("inlined_subroutine", *children, **{"abstract_origin": "f", "entry_pc": Address(0x1004), **more})


def main(*children: Die, **more: Any) -> Die:
    return die("subprogram", *children, **{"name": "main", "low_pc": Address(0x1000), "high_pc": 0x100, **more})


def block(*children: Die) -> Die:
    return die("lexical_block", *children)


def structure(*children: Die) -> Die:
    return die("structure_type", *children)


def nested(levels: int, make: Callable[..., Die], innermost: Die | None = None) -> Die:
    entry = innermost if innermost is not None else make()
    for _ in range(levels):
        entry = make(entry)
    return entry


def f(*parameters: Die, **more: Any) -> Die:
    return die("subprogram", *parameters, label="f", **{"name": "f", "inline": 1, **more})


X = die("formal_parameter", label="x", name="x", type="int")


def x(**more: Any) -> Die:
    return die("formal_parameter", abstract_origin="x", **more)


def run(tmp_path: Path, *units: Unit) -> tuple[int, InlineTraceError | None]:
    (tmp_path / "program").write_bytes(make_program(list(units)))
    with bounded():
        return chain(tmp_path / "program")


def refused(tmp_path: Path, message: str, *units: Unit) -> None:
    _, error = run(tmp_path, *units)
    assert isinstance(error, FormatError)
    assert message in error.message
    assert error.section is not None


def test_two_hundred_thousand_blocks_inside_of_each_other(tmp_path: Path) -> None:
    shallow = root(f(), main(block(block(die("label")))))
    data = write([shallow])
    opened = data.sections[".debug_info"][-7:-5]
    assert opened[:1] == opened[1:2]
    shallow.padding = opened[:1] * 200_000
    lines, error = run(tmp_path, shallow)
    assert (lines, error) == (1, None)


def test_thousands_of_sites_inside_of_each_other(tmp_path: Path) -> None:
    refused(tmp_path, "nested deeper", root(f(), main(nested(10_000, inlined))))


def test_thousands_of_functions_inside_of_each_other(tmp_path: Path) -> None:
    refused(tmp_path, "nested deeper", root(f(), nested(10_000, main, inlined())))
    refused(tmp_path, "nested deeper", root(f(), nested(1_000, lambda *c: main(structure(*c)), inlined())))


def test_as_many_levels_as_compilers_make(tmp_path: Path) -> None:
    assert run(tmp_path, root(f(), main(nested(200, inlined)))) == (202, None)


def test_origins_that_go_round_in_a_circle(tmp_path: Path) -> None:
    refused(tmp_path, "circle", root(die("subprogram", label="f", abstract_origin="f"), main(inlined())))
    first, second = (die("subprogram", label=name, abstract_origin=other) for name, other in (("f", "g"), ("g", "f")))
    refused(tmp_path, "circle", root(first, second, main(inlined())))


@pytest.mark.parametrize(
    "origin",
    [Form("ref8", 1 << 63), Form("ref4", 0xFFFFFFFF), Form("data8", 5), Form("block1", b"x"), Form("string", "f")],
)
def test_origins_that_are_no_references(origin: Form, tmp_path: Path) -> None:
    refused(tmp_path, "leads to no entry", root(f(), main(inlined(abstract_origin=origin))))


@pytest.mark.parametrize("offset", [1 << 20, 1 << 44, 1 << 63, (1 << 64) - 1])
def test_expressions_that_refer_to_nothing(offset: int, tmp_path: Path) -> None:
    operations = op("breg0", b"\0") + op("convert", uleb(offset)) + op("stack_value")
    _, error = run(tmp_path, root(f(X), main(inlined(x(location=Expression(operations))))))
    assert isinstance(error, FormatError)


@pytest.mark.parametrize(
    "attributes",
    [
        {"abstract_origin": -1},
        {"abstract_origin": Form("block1", b"abc")},
        {"abstract_origin": Form("string", "abc")},
        {"abstract_origin": Form("data8", (1 << 64) - 1)},
        {"name": 5},
        {"name": Form("block1", b"q")},
        {"name": "v", "const_value": -1},
    ],
    ids=str,
)
def test_implicit_pointers_to_odd_entries(attributes: dict[str, Any], tmp_path: Path) -> None:
    variable = die("variable", label="v", **attributes)
    header = 12

    def unit(offset: int) -> Unit:
        operations = op("implicit_pointer", offset.to_bytes(4, "little"), b"\0")
        return root(variable, f(X), main(inlined(x(location=Expression(operations)))))

    at = write([unit(header)])["v"]
    lines, error = run(tmp_path, unit(at))
    assert (lines, error) == (2, None)


@pytest.mark.parametrize("size", [-4, 1 << 63, Form("block1", b"abc"), Form("string", "x")], ids=str)
def test_base_types_of_odd_size(size: Any, tmp_path: Path) -> None:
    type_ = die("base_type", label="odd", name="odd", byte_size=size, encoding=5)
    parameter = die("formal_parameter", label="x", name="x", type="odd")
    places: list[dict[str, Any]] = [{"location": Expression(b"\x50")}, {"const_value": -1}, {"const_value": b"abc"}, {}]
    lines, error = run(tmp_path, root(type_, f(parameter), main(*[inlined(x(**place)) for place in places])))
    assert (lines, error) == (5, None)


def test_numbers_that_are_too_large(tmp_path: Path) -> None:
    site = inlined(call_line=1 << 40, call_file=1 << 63, call_column=-5, entry_pc=Form("data8", (1 << 64) - 1))
    far = die("inlined_subroutine", abstract_origin="f", low_pc=Address((1 << 64) - 4), high_pc=1 << 63)
    lines, error = run(tmp_path, root(f(), main(site, far)))
    assert (lines, error) == (3, None)


@pytest.mark.parametrize("kind", ["enumeration_type", "array_type"])
def test_types_nested_without_end(kind: str, tmp_path: Path) -> None:
    types = [die(kind, label=f"t{i}", type=f"t{i - 1}" if i else "int") for i in range(2_000)]
    parameter = die("formal_parameter", label="x", name="x", type="t1999")
    refused(tmp_path, "nested too deep", root(*types, f(parameter), main(inlined(x()))))


def test_functions_with_absurdly_many_parameters(tmp_path: Path) -> None:
    parameters = [die("formal_parameter", name="x", type="int") for _ in range(10_000)]
    refused(tmp_path, "more than 4096", root(f(*parameters), main(*[inlined() for _ in range(300)])))


def test_names_as_long_as_a_book(tmp_path: Path) -> None:
    name = Form("strp", "n" * 3_000_000)
    refused(tmp_path, "is no name", root(f(name=name), main(*[inlined() for _ in range(1000)])))


def test_one_list_of_locations_for_thousands_of_parameters(tmp_path: Path) -> None:
    huge = Locations([("offset_pair", 1, 2, b"\x50")] * 100_000)
    refused(tmp_path, "shared", root(f(X), main(*[inlined(x(location=huge)) for _ in range(1500)])))


def test_one_list_of_ranges_for_thousands_of_sites(tmp_path: Path) -> None:
    huge = Ranges([("offset_pair", 1, 2)] * 100_000)
    refused(tmp_path, "shared", root(f(), main(*[inlined(ranges=huge) for _ in range(1500)])))


def test_thousands_of_sparse_abbreviation_codes(tmp_path: Path) -> None:
    sites = [inlined(code=(1 << 40) + number) for number in range(5_000)]
    assert run(tmp_path, root(f(), main(*sites))) == (5_001, None)


def test_thousands_of_units_with_one_huge_table(tmp_path: Path) -> None:
    large = [die("variable", more={0x4000 + number: 1}) for number in range(4_000)]
    unit = root(f(), *large)
    unit.table = "shared"
    units = [Unit(die("compile_unit", name="x", language=12), table="shared") for _ in range(2000)]
    assert run(tmp_path, unit, *units) == (0, None)


def test_split_units_that_name_a_device(tmp_path: Path) -> None:
    skeleton = die("skeleton_unit", dwo_name="/dev/zero", comp_dir="/")
    _, error = run(tmp_path, Unit(skeleton, kind="skeleton", signature=1))
    assert error is None or "not a regular file" in error.message


def test_names_that_are_no_text_are_printed_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(make_program([root(f(name="caf\udce9"), main(inlined()))]))
    for options in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "inlinetrace", "list", "*", "-x", str(tmp_path / "program"), *options],
            capture_output=True,
            env={"PYTHONUTF8": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert b"\\udce9" in done.stdout
        assert done.stdout.decode("utf-8")


SAMPLE = make_program(
    [
        root(
            f(X),
            main(
                inlined(x(location=Locations([("start_end", 0x1000, 0x1010, b"\x50")], views=[(0, 0)]))),
                inlined(ranges=Ranges([("offset_pair", 4, 8)]), call_line=3, call_file=1),
                frame_base=Expression(b"\x9c"),
            ),
        ),
        Unit(die("compile_unit", die("variable", name="v", type=Form("ref_addr", "int")), name="b.c"), version=4),
    ],
    code=bytes(64),
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return build(tmp_path_factory.mktemp("compiled"), "gcc", ["-O2"], link=False).read_bytes()


def mutate(data: bytes, changes: list[tuple[int, bytes]], cut: int | None) -> bytes:
    out = bytearray(data)
    for at, new in changes:
        out[at : at + len(new)] = new
    return bytes(out if cut is None else out[:cut])


def changes_of(size: int) -> st.SearchStrategy[list[tuple[int, bytes]]]:
    edges = [b"\0", b"\xff", b"\x80", b"\xff" * 4, b"\0" * 4, b"\xff" * 8, b"\0" * 7 + b"\x80", b"\x7f" + b"\xff" * 3]
    return st.lists(
        st.tuples(st.integers(0, size - 1), st.sampled_from(edges) | st.binary(min_size=1, max_size=6)), max_size=6
    )


@pytest.mark.parametrize("cut", range(0, len(SAMPLE), 97))
def test_truncated_anywhere(cut: int, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(SAMPLE[:cut])
    _, error = chain(tmp_path / "program")
    assert error is not None


@given(st.data())
@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_anywhere(tmp_path: Path, data: st.DataObject) -> None:
    changes = data.draw(changes_of(len(SAMPLE)))
    cut = data.draw(st.none() | st.integers(1, len(SAMPLE)))
    (tmp_path / "program").write_bytes(mutate(SAMPLE, changes, cut))
    chain(tmp_path / "program")


@pytest.mark.compiled
@given(st.data())
@settings(max_examples=150, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_object(compiled: bytes, tmp_path: Path, data: st.DataObject) -> None:
    changes = data.draw(changes_of(len(compiled)))
    cut = data.draw(st.none() | st.integers(1, len(compiled)))
    (tmp_path / "program").write_bytes(mutate(compiled, changes, cut))
    chain(tmp_path / "program")
