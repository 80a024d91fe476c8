"""What happens where stdout and stderr cannot be written, or are closed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inlinetrace.btf.builder import Builder
from tests.dwarf.writer import Address, Unit, die, make_program
from tests.elf.elfwriter import Sym

FULL = "inlinetrace: the output cannot be written: no space left on device\n"


def shell(command: str, *arguments: str) -> tuple[int, str, str]:
    """Run ``command``, in which ``inlinetrace`` is this one, by a shell."""
    script = f'inlinetrace() {{ "{sys.executable}" -m inlinetrace "$@"; }}; {command}'
    done = subprocess.run(["bash", "-c", script, "bash", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def types(tmp_path: Path) -> str:
    builder = Builder()
    integer = builder.add_int("int", 4)
    builder.add_typedef("number", integer)
    path = tmp_path / "types.btf"
    path.write_bytes(builder.to_bytes())
    return str(path)


@pytest.fixture
def program(tmp_path: Path) -> str:
    """``f()`` inlined into main."""
    f = die("subprogram", label="f", name="f", inline=1, prototyped=True)
    site = die("inlined_subroutine", abstract_origin="f", entry_pc=Address(0x1010))
    main = die("subprogram", site, name="main", low_pc=Address(0x1000), high_pc=0x100)
    unit = die("compile_unit", f, main, name="a.c", language=0x1D, low_pc=Address(0), producer="GNU C17 12")
    path = tmp_path / "program"
    path.write_bytes(make_program([Unit(unit)], symbols=[Sym("main", 0x1000, 0x100, ".text")]))
    return str(path)


def one_function(name: str, *parameters: str) -> bytes:
    """A program with one function that is not inlined."""
    integer = die("base_type", name="int", byte_size=4, encoding=5, label="int")
    formals = [die("formal_parameter", name=parameter, type="int") for parameter in parameters]
    main = die("subprogram", *formals, name=name, prototyped=True, low_pc=Address(0x1000), high_pc=0x100)
    unit = die("compile_unit", integer, main, name="a.c", language=0x1D, low_pc=Address(0), producer="GNU C17 12")
    return make_program([Unit(unit)], symbols=[Sym("main", 0x1000, 0x100, ".text")])


@pytest.mark.parametrize("options", ["", "--c", "--json"])
def test_a_full_disk_is_one_line(options: str, types: str) -> None:
    assert shell(f'inlinetrace dump "$1" {options} > /dev/full', types) == (1, "", FULL)


def test_a_listing_on_a_full_disk(program: str) -> None:
    assert shell("inlinetrace list '*' -x \"$1\" > /dev/full", program) == (1, "", FULL)


def test_the_plan_in_a_file_on_a_full_disk(program: str) -> None:
    code, out, err = shell('inlinetrace probe f -x "$1" --dry-run -o /dev/full', program)
    assert (code, out) == (1, "")
    assert err == "inlinetrace: /dev/full: cannot be written: no space left on device\n"


def test_closed_streams_are_nothing_but_silent(program: str) -> None:
    """Nothing of stderr comes on stdout, where a program reads it."""
    code, out, err = shell('inlinetrace list f -x "$1"', program)
    assert code == 0
    assert out
    assert err
    assert shell('inlinetrace list f -x "$1" >&-', program) == (0, "", err)
    assert shell('inlinetrace list f -x "$1" 2>&-', program) == (0, out, "")
    assert shell('inlinetrace list f -x "$1" <&- >&- 2>&-', program) == (0, "", "")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_is_json_in_every_locale(encoding: str, tmp_path: Path) -> None:
    """Names of other letters, and of bytes that are no UTF-8."""
    path = tmp_path / "program"
    path.write_bytes(one_function("\xe9\u20ac\udcff"))
    commands = [
        'inlinetrace list "*" -x "$1" --json',
        'inlinetrace probe "*" -x "$1" --dry-run --json',
        'inlinetrace probe "*" -x "$1" --dry-run --json -o "$1.out" && cat "$1.out"',
    ]
    for command in commands:
        script = command.replace("inlinetrace", f'"{sys.executable}" -m inlinetrace')
        environment = {**os.environ, "PYTHONIOENCODING": encoding}
        done = subprocess.run(["bash", "-c", script, "bash", path], capture_output=True, check=True, env=environment)
        (line, *_) = done.stdout.decode("utf-8").splitlines()
        row = json.loads(line)
        assert row.get("function") or row["hits"][0]["function"] == "\xe9\u20ac\udcff"


def test_parameters_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """A parameter pack of C++ gives all of its parameters one name."""
    path = tmp_path / "program"
    path.write_bytes(one_function("f", "v", "v", "w", "v"))
    code, out, _ = shell('inlinetrace list f -x "$1" --json', str(path))
    assert code == 0
    assert [parameter["name"] for parameter in json.loads(out)["parameters"]] == ["v", "v#2", "w", "v#3"]
