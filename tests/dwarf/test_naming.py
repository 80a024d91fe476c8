"""Which units can have a function of some name: never one too few, and where it can be told few too many."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.dwarf._naming import Naming
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf import ElfFile
from inlinetrace.errors import FormatError
from tests.dwarf.writer import Address, Die, Form, Unit, die, make_info, make_program, write

C = 0x1D
# Before all other strings, so that their offsets are like nothing else in a unit.
FAR = "far" * 0x5678


def unit(number: int, *children: Die, version: int = 5, wide: bool = False) -> Unit:
    """A unit with other entries before and behind ``children``."""
    root = die(
        "compile_unit",
        die("variable", name=Form("strp", FAR)),
        *children,
        die("variable", name="v"),
        name=f"{number}.c",
        language=C,
    )
    return Unit(root, version=version, wide=wide)


def named(name: Any, form: str = "strp", **more: Any) -> Die:
    """A function with code."""
    return die("subprogram", **more, name=Form(form, name), low_pc=Address(0x1000), high_pc=16)


def units_with(units: list[Unit], *names: str, little: bool = True) -> list[int] | None:
    info = make_info(write(units, little=little), little=little)
    return Naming(info, [name.encode() for name in names]).units(0, info.count)


@pytest.mark.parametrize(
    ("version", "wide"), [(2, False), (3, False), (3, True), (4, False), (4, True), (5, False), (5, True)]
)
@pytest.mark.parametrize("little", [False, True])
@pytest.mark.parametrize("shift", range(9))
def test_the_offset_of_the_name_is_found_wherever_it_stands(version: int, wide: bool, little: bool, shift: int) -> None:
    bytes_before = die("variable", const_value=Form("block1", bytes(shift)))
    units = [unit(number, bytes_before, named(name), version=version, wide=wide) for number, name in enumerate("abc")]
    assert [units_with(units, name, little=little) for name in "abc"] == [[0], [1], [2]]
    assert units_with(units, "a", "c", little=little) == [0, 2]
    assert units_with(units, "d", little=little) == []


def test_a_name_may_be_the_end_of_a_longer_one() -> None:
    written = write([unit(0, named("get_file"))])
    at = written.sections[".debug_str"].index(b"get_file\0")
    units = [unit(0, named("get_file")), unit(1, named(at + 4)), unit(2, named(at + 3))]
    assert units_with(units, "file") == [1]
    assert units_with(units, "_file") == [2]


def test_a_name_may_stand_in_the_entry_itself() -> None:
    units = [unit(0, named("up", "string")), unit(1, named("shut_up", "string")), unit(2, named("down", "string"))]
    # a text that ends like it cannot be told from it
    assert units_with(units, "up") == [0, 1]
    assert units_with(units, "down", "shut_up") == [1, 2]


@pytest.mark.parametrize("form", ["line_strp", "strx1", "strx"])
def test_other_ways_to_name_functions_may_hide_any_name(form: str) -> None:
    units = [unit(0, named("f")), unit(1, named("g", form)), unit(2, named("h"))]
    assert units_with(units, "f") == [0, 1]
    assert units_with(units, "unheard_of") == [1]


def test_references_to_other_units_make_it_useless() -> None:
    site = die("inlined_subroutine", abstract_origin=Form("ref_addr", "f"), entry_pc=Address(0x1004))
    definition = die("subprogram", label="f", name=Form("strp", "f"), inline=1)
    units = [unit(0, definition), unit(1, die("subprogram", site, name=Form("strp", "g"), low_pc=Address(0x1000)))]
    assert units_with(units, "f") is None
    parameter = die("formal_parameter", type=Form("ref_addr", "int"))
    local = die("subprogram", parameter, name=Form("strp", "f"))
    assert units_with([unit(0, die("base_type", label="int", name="int")), unit(1, local)], "f") == [1]


def test_a_name_that_ends_too_many_strings_is_of_no_use() -> None:
    units = [unit(0, *(named(f"{number}_x") for number in range(1100)))]
    info = make_info(write(units))
    assert not Naming(info, [b"x"]).useful
    assert Naming(info, [b"7_x"]).useful
    assert not Naming(info, [b""]).useful


def test_damaged_abbreviations_are_told() -> None:
    written = write([unit(0, named("f"))])
    # of the root, which is read first, the rest is left
    abbreviations = written.sections[".debug_abbrev"]
    written.sections[".debug_abbrev"] = abbreviations[: abbreviations.index(b"\0\0") + 4]
    naming = Naming(make_info(written), [b"f"])
    with pytest.raises(FormatError, match="debug_abbrev"):
        naming.units(0, 1)
    with pytest.raises(IndexError):
        naming.units(0, 2)


def program(tmp_path: Path, units: list[Unit], little: bool = True) -> DebugInfo:
    path = tmp_path / "program"
    path.write_bytes(make_program(units))
    return DebugInfo(ElfFile.open(path))


def sites_and_copies(dwarf: DebugInfo, name: str, *, narrow: bool) -> list[Any]:
    (records,) = dwarf.records_naming([name]) if narrow else dwarf.records
    functions = records.functions_named(records.references_to(name.encode()))
    sites = [records.site(id_) for id_ in records.sites_of(functions)]
    copies = [records.function(id_) for id_ in records.copies(functions)]
    return [
        list(functions),
        [(site.die, site.address) for site in sites],
        [(copy.die, copy.address) for copy in copies],
    ]


def random_units(rnd: random.Random, count: int) -> list[Unit]:
    """Units with functions and sites, of names that are alike."""
    units = []
    for number in range(count):
        children = []
        for index in range(rnd.randrange(4)):
            label, name = f"{number}.{index}", rnd.choice("abcdef") * rnd.choice((1, 2, 30))
            form = rnd.choice(("strp", "strp", "strp", "string", "line_strp"))
            children.append(die("subprogram", label=label, name=Form(form, name), inline=1))
            place = Address(0x1000 + rnd.randrange(256))
            site = die("inlined_subroutine", abstract_origin=label, entry_pc=place)
            children.append(die("subprogram", site, name=Form("strp", f"caller_{name}"), low_pc=place, high_pc=9))
        units.append(unit(number, *children, version=rnd.choice((4, 5)), wide=rnd.random() < 0.2))
    return units


def test_of_random_programs_the_same_is_found_as_in_all_records(tmp_path: Path) -> None:
    rnd = random.Random(2026)
    for _ in range(20):
        units = random_units(rnd, 100)
        whole = program(tmp_path, units)
        for name in ("a", "bb", "c" * 30, "caller_d", "e" * 29, "nobody"):
            narrow = program(tmp_path, units)
            assert sites_and_copies(narrow, name, narrow=True) == sites_and_copies(whole, name, narrow=False)


def test_only_what_is_needed_is_scanned_and_ids_stay(tmp_path: Path) -> None:
    units = [unit(number, named(f"f{number % 50}")) for number in range(100)]
    dwarf = program(tmp_path, units)
    (records,) = dwarf.records_naming(["f7"])
    assert [chunk.functions_found for chunk in records.chunks].count(1) == 2
    (first, second) = records.copies()
    before = [records.function(id_).die for id_ in (first, second)]
    assert dwarf.records_naming(["f7", "f8"])[0] is records
    assert len(records.copies()) == 4
    assert dwarf.records[0] is records
    assert len(records.copies()) == 100
    assert [records.function(id_).die for id_ in (first, second)] == before
    assert dwarf.records_naming(["f9"])[0] is records


def test_few_units_are_scanned_whole(tmp_path: Path) -> None:
    dwarf = program(tmp_path, [unit(number, named(f"f{number}")) for number in range(3)])
    (records,) = dwarf.records_naming(["f1"])
    assert len(records.copies()) == 3


def test_what_cannot_be_read_whole_is_not_taken_for_read(tmp_path: Path) -> None:
    """Nor is a name taken for unknown after that, whichever was asked for first."""
    broken = die("subprogram", name=Form("strp", "broken"), abstract_origin=Form("ref8", 1 << 60))
    units = [unit(number, named(f"f{number}")) for number in range(100)] + [unit(100, broken)]
    dwarf = program(tmp_path, units)
    dwarf.bytes_to_scan(["f7"])
    with pytest.raises(FormatError, match="leads to no entry"):
        _ = dwarf.records
    with pytest.raises(FormatError, match="leads to no entry"):
        dwarf.records_naming(["f7"])
    dwarf = program(tmp_path, units)
    for name in ("f7", "f8"):
        (records,) = dwarf.records_naming([name])
        assert len(records.references_to(name.encode())) == 1
        with pytest.raises(FormatError, match="leads to no entry"):
            _ = dwarf.records


@pytest.mark.parametrize("form", ["ref1", "ref2", "ref4", "ref8", "ref_udata"])
def test_references_that_leave_their_unit_are_told(form: str, tmp_path: Path) -> None:
    site = die("inlined_subroutine", abstract_origin=Form(form, 200), entry_pc=Address(0x1004))
    caller = die("subprogram", site, name=Form("strp", "g"), low_pc=Address(0x1000), high_pc=9)
    units = [unit(0, caller), *(unit(number, named("f")) for number in range(1, 9))]
    dwarf = program(tmp_path, units)
    assert dwarf.infos[0].unit_size(0) < 200 < sum(map(dwarf.infos[0].unit_size, range(9)))
    with pytest.raises(FormatError, match="leads to no entry"):
        _ = dwarf.records
