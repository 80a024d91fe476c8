"""``generate`` as a command: files, options, errors, and that ``list`` reads what it made."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from inlinetrace.btf.load import load
from inlinetrace.cli import run
from tests.dwarf.writer import Address, Locations, Unit, die, make_program
from tests.elf.elfwriter import Code, Sym, elf_file
from tests.sites.programs import build

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test's own."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """``f(int a)`` inlined into main, ``a`` in rdi."""
    integer = die("base_type", label="int", name="int", byte_size=4, encoding=5)
    where = Locations([("start_end", 0x1000, 0x1100, b"\x55")])
    a = die("formal_parameter", label="a", name="a", type="int")
    f = die("subprogram", a, label="f", name="f", type="int", inline=1, prototyped=True)
    site = die(
        "inlined_subroutine", die("formal_parameter", abstract_origin="a", location=where), abstract_origin="f",
        entry_pc=Address(0x1010),
    )  # fmt: skip
    main = die("subprogram", site, name="main", type="int", low_pc=Address(0x1000), high_pc=0x100)
    unit = die("compile_unit", integer, f, main, name="a.c", language=0x1D, low_pc=Address(0), producer="GNU C17 12")
    path = tmp_path / "program"
    path.write_bytes(make_program([Unit(unit)], symbols=[Sym("main", 0x1000, 0x100, ".text")]))
    return path


def test_both_files(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "out"
    assert run(["generate", str(program), "-o", str(out)]) == 0
    assert sorted(os.listdir(out)) == ["program.BTF", "program.BTF.inline"]
    text = capsys.readouterr()
    assert text.out == ""
    assert "1 sites of 1 functions, 1 of 1 parameters located (100 %)" in text.err
    assert run(
        ["list", "f", "--btf", str(out / "program.BTF.inline"), "-B", str(out / "program.BTF"), "-x", str(program)]
    ) == 0  # fmt: skip
    assert capsys.readouterr().out == "0x1010 [main+0x10, .text +0x10] int f(int a [rdi])\n"


def test_one_of_the_two(program: Path, tmp_path: Path) -> None:
    assert run(["generate", str(program), "-o", str(tmp_path / "a"), "--base-only", "-q"]) == 0
    assert os.listdir(tmp_path / "a") == ["program.BTF"]
    base = str(tmp_path / "a" / "program.BTF")
    assert run(["generate", str(program), "-o", str(tmp_path / "b"), "--inline-only", "-q", "-B", base]) == 0
    assert os.listdir(tmp_path / "b") == ["program.BTF.inline"]
    assert run(["dump", str(tmp_path / "b" / "program.BTF.inline"), "-B", base, "--strict"]) == 0


def test_location_info_needs_types(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", str(program), "-o", str(tmp_path), "--inline-only"]) == 2
    assert "name the types with -B" in capsys.readouterr().err


def test_quiet(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", str(program), "-o", str(tmp_path / "out"), "-q"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ([], 2, "name files"),
        (["nowhere"], 1, "no such file"),
        (["--dialect", "rfc", "--order", "function", "PROGRAM"], 2, "leaves no choice"),
        (["--embed", "x", "PROGRAM", "OTHER"], 2, "--embed goes with one FILE"),
        (["PROGRAM", "PROGRAM"], 2, "two inputs are called program"),
        (["PROGRAM", "-o", "PROGRAM"], 1, "is not a directory"),
        (["PROGRAM", "--btf-features", ""], 2, "empty list"),
        (["PROGRAM", "-B", "nowhere"], 1, "no such file"),
        (["-m", "no_such_module_here", "-B", "BASE"], 1, "no_such_module_here"),
    ],
)
def test_errors(
    options: list[str], code: int, text: str, program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.write_bytes(program.read_bytes())
    base = tmp_path / "base"
    base.mkdir()
    assert run(["generate", str(program), "--base-only", "-q", "-o", str(base)]) == 0
    places = {"PROGRAM": str(program), "OTHER": str(other), "BASE": str(base / "program.BTF")}
    assert run(["generate", *(places.get(option, option) for option in options)]) == code
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_a_file_without_dwarf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plain"
    path.write_bytes(elf_file([Code(".text", b"\x90" * 16, 0x1000)]))
    assert run(["generate", str(path), "-o", str(tmp_path)]) == 1
    assert "no DWARF" in capsys.readouterr().err


def test_options_that_argparse_refuses(program: Path) -> None:
    for options in (["--jobs", "0"], ["--jobs", "x"], ["--dialect", "v9"], ["--base-only", "--inline-only"]):
        with pytest.raises(SystemExit) as stop:
            run(["generate", str(program), *options])
        assert stop.value.code == 2


def test_embedded(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "embedded"
    program.chmod(0o750)
    assert run(["generate", str(program), "--embed", str(out), "-q"]) == 0
    assert not (tmp_path / "program.BTF").exists()
    assert out.stat().st_mode & 0o777 == 0o750 & ~os.umask(os.umask(0))
    assert load(str(out)).find("f") == []
    assert load(str(out), section=".BTF.inline").find("f") != []
    assert run(["list", "f", "--source", "btf", "-x", str(out), "--json"]) == 0
    site = json.loads(capsys.readouterr().out)
    assert (site["source"], site["parameters"][0]["location"]) == ("btf", "rdi")


def test_the_input_is_not_overwritten(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = program.read_bytes()
    assert run(["generate", str(program), "--embed", str(program)]) == 2
    assert "is the input itself" in capsys.readouterr().err
    assert program.read_bytes() == before


def test_a_pipe_gets_no_half_of_a_program(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is it opened, which would wait for somebody to read it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert run(["generate", str(program), "--embed", str(pipe)]) == 2
    assert capsys.readouterr().err == (
        f"inlinetrace: {pipe} is a pipe: --embed does not write from front to back, and needs a file\n"
    )


def test_the_name_of_a_file_cannot_write_to_the_terminal(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = program.rename(tmp_path / "a\n\x1b[2Jb")
    assert run(["generate", str(odd), "-o", str(tmp_path)]) == 0
    types = f"{odd}.BTF"
    assert run(["btf", "dedup", types, "-o", str(tmp_path / "out")]) == 0
    assert run(["dump", f"{odd}.BTF.inline", "-B", types]) == 0
    err = capsys.readouterr().err
    assert "\x1b" not in err
    assert [line for line in err.splitlines() if r"a\n\x1b[2Jb" not in line] == []


@pytest.mark.compiled
def test_the_result_is_found_again_by_its_build_id(
    tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.c").write_text(
        "extern int sink(int); static inline int f(int a) { return sink(a) + a; } "
        'int sink(int x) { __asm__ volatile (""); return x; } int main(int c, char **v) { return f(c); }'
    )
    subprocess.run(["gcc", "-g", "-O2", "-fno-ipa-icf", "a.c", "-o", "a"], cwd=tmp_path, check=True)
    assert run(["generate", str(tmp_path / "a"), "-o", str(tmp_path / "out"), "-q"]) == 0
    (kept,) = (own_cache / "inlinetrace").iterdir()
    assert {"BTF", "BTF.inline", "bases.json"} <= set(os.listdir(kept))
    subprocess.run(["strip", "--strip-debug", "a"], cwd=tmp_path, check=True)
    assert run(["list", "f", "-x", str(tmp_path / "a")]) == 0
    text = capsys.readouterr()
    assert "int f(int a [" in text.out
    assert "BTF.inline" in text.err
    assert run(["generate", str(tmp_path / "a"), "-o", str(tmp_path / "out")]) == 1


def listed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[tuple[object, ...]]:
    assert run(["list", "*", "--inline-only", "--json", *arguments]) == 0
    return sorted(
        (site["function"], site["address"], site["address_kind"], site["section"], site["section_offset"],
         site["symbol"], site["symbol_offset"], [(p["name"], p["type"]) for p in site["parameters"]])
        for site in map(json.loads, capsys.readouterr().out.splitlines())
    )  # fmt: skip


@pytest.mark.compiled
@pytest.mark.parametrize("link", [True, False])
def test_a_listing_of_the_result_is_that_of_the_program(
    link: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = build(tmp_path, "gcc", ["-O2"], link=link)
    assert run(["generate", str(path), "-o", str(tmp_path / "out"), "-q"]) == 0
    made = str(tmp_path / "out" / path.name)
    from_btf = listed(["--btf", f"{made}.BTF.inline", "-B", f"{made}.BTF", "-x", str(path)], capsys)
    assert len(from_btf) >= 10
    assert from_btf == listed(["-x", str(path)], capsys)


@pytest.mark.compiled
def test_bpftool_reads_the_types(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("struct s { int a; char *b; }; int f(struct s *s, int n) { return s->a + n; }")
    subprocess.run(["gcc", "-g", "-O2", "-c", "a.c"], cwd=tmp_path, check=True)
    assert run(["generate", str(tmp_path / "a.o"), "-o", str(tmp_path), "--base-only", "-q"]) == 0
    assert run(["generate", str(tmp_path / "a.o"), "--base-only", "--embed", str(tmp_path / "b.o"), "-q"]) == 0
    texts = [
        subprocess.run(
            ["bpftool", "btf", "dump", "file", str(tmp_path / name), "format", "c"],
            capture_output=True, text=True, check=True,
        ).stdout
        for name in ("a.o.BTF", "b.o")
    ]  # fmt: skip
    assert "struct s {" in texts[0]
    assert texts[0] == texts[1]
