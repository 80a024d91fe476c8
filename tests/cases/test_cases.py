"""What has to come out of each small program, whatever the compiler and its options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inlinetrace.sites.model import Encoding, Site
from inlinetrace.sites.reasons import Mark
from inlinetrace.target import open_image
from tests.cases.runner import CASES, MANY, CaseRun, build_case, contradictions, run_case
from tests.oracle.compilers import DWARF_VERSIONS, LEVELS, Configuration, detect, run_compiler, toolchain

pytestmark = pytest.mark.compiled


def matrix() -> Iterator[Configuration]:
    """gcc in every way; each clang at one level, as it is used most."""
    for tool in detect():
        if tool.family == "gcc":
            for level in LEVELS:
                for dwarf in DWARF_VERSIONS:
                    yield Configuration(tool, level, dwarf, pie=True)
                yield Configuration(tool, level, 5, pie=False)
        else:
            yield Configuration(tool, "-O2", 5)


def run_gcc(
    name: str, folder: Path, level: str = "-O2", dwarf: int = 5, lto: bool = False, pie: bool = True
) -> CaseRun:
    return run_case(build_case(name, Configuration(toolchain("gcc"), level, dwarf, lto, pie), folder))


def shown(run: CaseRun, function: str) -> list[dict[str, object]]:
    """The values of each hit of a function, in order."""
    return [dict(hit.values) for hit in run.hits if hit.site.function == function]


def inlined(sites: list[Site]) -> list[Site]:
    return [site for site in sites if site.inlined and Mark.TRANSPARENT not in site.marks]


@pytest.mark.parametrize("configuration", list(matrix()), ids=str)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("two_units", "many")])
def test_what_is_shown_is_what_was_passed(name: str, configuration: Configuration, tmp_path: Path) -> None:
    run = run_case(build_case(name, configuration, tmp_path))
    assert run.printed
    assert contradictions(run) == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_register_plus_a_constant_is_the_sum(level: str, tmp_path: Path) -> None:
    assert shown(run_gcc("reg_plus_const", tmp_path, level), "record") == [{"unit": 3, "quantity": 77 + 4096}]


@pytest.mark.parametrize("dwarf", DWARF_VERSIONS)
@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3"])
def test_bindings_between_two_views_of_one_address_are_found(level: str, dwarf: int, tmp_path: Path) -> None:
    run = run_gcc("view_only", tmp_path, level, dwarf)
    assert sorted(map(str, shown(run, "widen"))) == sorted(
        map(str, ({"length": 31, "margin": 8}, {"length": 8, "margin": 40}))
    )
    assert sorted(map(str, shown(run, "stretch"))) == sorted(
        map(str, ({"length": 31, "times": 4}, {"length": 8, "times": 4}))
    )


def test_parameters_come_in_the_order_of_the_prototype_with_their_types(tmp_path: Path) -> None:
    run = run_gcc("order", tmp_path)
    (paint,) = [site for site in run.sites if site.function == "paint" and site.inlined]
    assert [p.name for p in paint.parameters] == ["shade", "x", "label", "flags"]
    assert [p.type.size for p in paint.parameters] == [1, 4, 8, 8]
    assert [p.type.encoding for p in paint.parameters][1:] == [Encoding.SIGNED, Encoding.POINTER, Encoding.UNSIGNED]
    (values,) = shown(run, "paint")
    assert values["shade"] == 7
    assert values["x"] == -5
    assert values["flags"] == 0xFFFFFFFFFFFFF000
    assert str(values["label"]).endswith("/order")


@pytest.mark.parametrize("pie", [True, False])
def test_the_address_of_a_global_is_its_address_at_run_time(pie: bool, tmp_path: Path) -> None:
    run = run_gcc("address", tmp_path, pie=pie)
    (values,) = shown(run, "reset")
    assert values == {"m": int(run.printed[0][1]["m"], 16), "keep": 1}


def test_structures_are_whole_or_say_what_is_missing(tmp_path: Path) -> None:
    run = run_gcc("aggregates", tmp_path)
    assert shown(run, "cut") == [{"from": 1, "to": 101}]
    for hit in run.hits:
        for parameter in hit.site.parameters:
            assert parameter.available or parameter.location.reason.value  # type: ignore[union-attr]


@pytest.mark.parametrize("level", LEVELS)
def test_functions_entered_at_one_address_hit_outermost_first(level: str, tmp_path: Path) -> None:
    run = run_gcc("same_address", tmp_path, level)
    assert [hit.site.function for hit in run.hits] == ["outer", "middle", "inner"]
    assert len({hit.site.address for hit in run.hits}) == 1
    assert [dict(hit.values) for hit in run.hits] == [{"depth": -6}] * 3


@pytest.mark.parametrize("level", LEVELS)
def test_a_reassigned_parameter_is_never_the_new_value(level: str, tmp_path: Path) -> None:
    run = run_gcc("reassigned", tmp_path, level)
    for values in shown(run, "fold"):
        assert values.get("key", 0xDEADBEEF) == 0xDEADBEEF
    for values in shown(run, "clamp"):
        assert values.get("v", -12) == -12


@pytest.mark.parametrize("dwarf", DWARF_VERSIONS)
def test_a_function_of_another_unit_has_its_name_and_types_under_lto(dwarf: int, tmp_path: Path) -> None:
    run = run_gcc("two_units", tmp_path, dwarf=dwarf, lto=True)
    (volume,) = [site for site in run.sites if site.function == "volume" and site.inlined]
    assert [(p.name, p.type.text) for p in volume.parameters] == [("side", "long int"), ("scale", "int")]
    assert volume.return_type == "long int"
    assert contradictions(run) == []
    (values,) = shown(run, "volume")
    assert values["side"] == 41


@pytest.mark.parametrize("name", [tool.name for tool in detect()])
def test_every_site_is_found_however_many_there_are(name: str, tmp_path: Path) -> None:
    run = run_case(build_case("many", Configuration(toolchain(name), "-O2", 5), tmp_path))
    assert len({site.address for site in inlined(list(run.sites)) if site.function == "tick"}) == MANY
    assert len(run.hits) == MANY
    assert contradictions(run) == []


@pytest.mark.parametrize("dwarf", DWARF_VERSIONS)
def test_an_object_file_lists_the_same_sites_as_the_program(dwarf: int, tmp_path: Path) -> None:
    configuration = Configuration(toolchain("gcc"), "-O2", dwarf)
    binary = build_case("view_only", configuration, tmp_path)
    run_compiler(["gcc", *configuration.flags, "-c", "view_only.c", "-o", "view_only.o"], tmp_path)

    def rows(path: Path) -> list[tuple[object, ...]]:
        return sorted(
            (
                s.function,
                s.container,
                s.symbol,
                s.symbol_offset,
                [(p.name, str(p.location), str(p.doubt)) for p in s.parameters],
            )
            for s in inlined(list(open_image(str(path)).sites()))
        )

    assert rows(tmp_path / "view_only.o") == rows(binary)
