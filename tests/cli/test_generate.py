"""``generate`` as a command: files, options, errors, and that ``list`` reads what it made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
    where = Locations([("start_end", 0x1000, 0x1100, b"\x55")], views=[(0, 0)])
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


CALLED = "extern int sink(int);"
CALLS = """
struct s { int a; }; extern int sink(int);
static inline int f(struct s *s, int a) { return sink(a) + s->a; }
int sink(int x) { __asm__ volatile (""); return x; }
int main(int c, char **v) { struct s s = { c }; return f(&s, c + 1); }
"""


def compiled(folder: Path, *options: str, source: str = CALLS, name: str = "a.o", compiler: str = "gcc") -> Path:
    suffix = ".cc" if compiler == "g++" else ".c"
    (folder / f"{name}{suffix}").write_text(source)
    subprocess.run([compiler, "-g", "-O2", *options, f"{name}{suffix}", "-o", name], cwd=folder, check=True)
    return folder / name


def with_types(program: Path, types: Path, name: str) -> Path:
    """A copy of an object with a section .BTF."""
    copy = program.with_name(name)
    subprocess.run(["objcopy", "--add-section", f".BTF={types}", program, copy], check=True)
    return copy


@pytest.mark.compiled
def test_types_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    """In a process of its own, whose end is part of it."""
    program = compiled(tmp_path, "-c")
    broken = tmp_path / "broken"
    assert run(["generate", str(program), "--base-only", "-q", "-o", str(tmp_path)]) == 0
    types = bytearray((tmp_path / "a.o.BTF").read_bytes())
    types[24:28] = b"\xff\xff\xff\x00"  # the name of the first type
    broken.write_bytes(types)
    bad = with_types(program, broken, "bad.o")
    command = [sys.executable, "-m", "inlinetrace", "generate", "--inline-only", "-o", str(tmp_path / "out")]
    alone = subprocess.run([*command, str(bad)], capture_output=True, text=True)
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1)
    assert "bad.o, .BTF, type [1]" in alone.stderr
    good = with_types(program, tmp_path / "a.o.BTF", "good.o")
    both = subprocess.run([*command, str(bad), str(good)], capture_output=True, text=True)
    assert both.returncode == 1
    assert "Traceback" not in both.stderr
    assert os.listdir(tmp_path / "out") == ["good.o.BTF.inline"]


@pytest.mark.compiled
def test_the_types_are_what_every_kernel_reads(tmp_path: Path) -> None:
    """The classic header, whether location info is made too or not; the newest one is a feature."""
    program = str(compiled(tmp_path, "-c"))
    made = {}
    for name, options in (("both", []), ("alone", ["--base-only"]), ("new", ["--btf_features", "default,layout"])):
        assert run(["generate", program, "-q", "-o", str(tmp_path / name), *options]) == 0
        made[name] = (tmp_path / name / "a.o.BTF").read_bytes()
    assert made["both"] == made["alone"]
    assert [made[name][4] for name in ("both", "new")] == [24, 32]


@pytest.mark.compiled
@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_split_dwarf_that_is_not_there(version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, "-gsplit-dwarf", version, "-c")
    assert run(["generate", str(program), "-q", "-o", str(tmp_path / "out")]) == 0
    (tmp_path / "a.dwo").unlink()
    assert run(["generate", str(program), "-o", str(tmp_path / "none")]) == 1
    err = capsys.readouterr().err
    assert "a.dwo not found" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.compiled
@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
@pytest.mark.parametrize("merged", [False, True])
def test_an_object_with_type_units(
    version: str, merged: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a section of units for each of them; DWARF 5 gives them all one name."""
    source = "enum e { LOW = -5, HIGH = 7 }; static inline long g(enum e e) { return sink(e) + e; } long h(int x) "
    source = CALLS + source + "{ return g(LOW) + g(x); }"
    program = compiled(tmp_path, "-fdebug-types-section", version, "-c", source=source)
    if merged:
        subprocess.run(["ld", "-r", "a.o", "-o", "b.o"], cwd=tmp_path, check=True)
        program = tmp_path / "b.o"
    plain = compiled(tmp_path, version, "-c", source=source, name="plain.o")
    texts = []
    for path in (program, plain):
        assert run(["generate", str(path), "-q", "-o", str(tmp_path)]) == 0
        capsys.readouterr()
        assert run(["list", "*", "-x", str(path)]) == 0
        texts.append(capsys.readouterr().out)
        assert run(["list", "*", "--btf", f"{tmp_path / path.name}.BTF.inline", "-x", str(path),
                    "-B", f"{tmp_path / path.name}.BTF", "--inline-only"]) == 0  # fmt: skip
        texts.append(capsys.readouterr().out)
    assert "long int g(enum e e [const -5])" in texts[0]
    assert "f(struct s *s [" in texts[0]
    assert texts[:2] == texts[2:]


@pytest.mark.compiled
def test_levels_that_are_all_named_are_taken_as_they_are(tmp_path: Path) -> None:
    """A module's own types stand on a single base; they are not put on themselves."""
    base = compiled(
        tmp_path, "-c", name="base.o", source="struct s { int a; }; struct s one; int two(int x) { return x; }"
    )
    program = compiled(tmp_path, "-c")
    assert run(["generate", str(base), "--base-only", "-q", "-o", str(tmp_path)]) == 0
    beneath, own = str(tmp_path / "base.o.BTF"), str(tmp_path / "a.o.BTF")
    assert run(["generate", str(program), "--base-only", "-q", "-o", str(tmp_path), "-B", beneath]) == 0
    module = with_types(program, Path(own), "mod.o")
    made = []
    for options in (["-B", beneath], ["-B", beneath, "-B", own]):
        assert run(["generate", str(module), "--inline-only", "-q", "-o", str(tmp_path), *options]) == 0
        made.append((tmp_path / "mod.o.BTF.inline").read_bytes())
    assert made[0] == made[1]
    assert run(["generate", str(program), "--base-only", "-q", "-o", str(tmp_path)]) == 0
    alone = with_types(program, Path(own), "alone.o")
    made = []
    for options in ([], ["-B", own]):
        assert run(["generate", str(alone), "--inline-only", "-q", "-o", str(tmp_path), *options]) == 0
        made.append((tmp_path / "alone.o.BTF.inline").read_bytes())
    assert made[0] == made[1]


@pytest.mark.compiled
def test_what_is_kept_is_not_read_with_other_types(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (f"static inline int {name}(int a) {{ return sink(a) + a; }}" for name in ("first", "second"))
    rest = 'int sink(int x) { __asm__ volatile (""); return x; } int main(int c, char **v) { return '
    build_id = "-Wl,--build-id=sha1"
    sources = [
        f"{more} {CALLED} {one} {other} {rest}first(c) + second(c); }}" for more in ("", "struct s { int a; } s;")
    ]
    first = compiled(tmp_path, build_id, source=sources[0], name="one")
    second = compiled(tmp_path, build_id, source=sources[1], name="two")
    types = tmp_path / "types"
    assert run(["generate", str(first), "--base-only", "-q", "-o", str(tmp_path)]) == 0
    (tmp_path / "one.BTF").rename(types)
    assert run(["generate", str(first), "--inline-only", "-q", "-o", str(tmp_path), "-B", str(types)]) == 0
    subprocess.run(["strip", "--strip-debug", first], check=True)
    listing = ["list", "first", "-x", str(first)]
    assert run(listing) == 0
    assert "int first(int a [" in capsys.readouterr().out
    assert run(["generate", str(second), "--base-only", "-q", "-o", str(tmp_path)]) == 0
    (tmp_path / "two.BTF").rename(types)
    assert run(listing) == 1
    types.unlink()
    assert run(listing) == 1
    err = capsys.readouterr().err
    assert err.count("no DWARF") == 2


@pytest.mark.compiled
@pytest.mark.parametrize("options", [["--doubtful"], ["--site-address", "low"], ["--dialect", "rfc"]])
def test_what_is_less_exact_is_not_kept(options: list[str], tmp_path: Path, own_cache: Path) -> None:
    program = compiled(tmp_path, "-Wl,--build-id=sha1")
    assert run(["generate", str(program), "-q", "-o", str(tmp_path), *options]) == 0
    assert list(own_cache.rglob("BTF.inline")) == []
    assert run(["generate", str(program), "-q", "-o", str(tmp_path)]) == 0
    assert len(list(own_cache.rglob("BTF.inline"))) == 1


@pytest.mark.compiled
def test_units_of_other_languages_are_counted_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "extern int sink(int); static inline int f(int a, int b) { return sink(a) + b; }"
    source += "int g(int c) { return f(c, 2); }"
    path = compiled(tmp_path, "-c", source=source, compiler="g++")
    assert run(["generate", str(path), "-o", str(tmp_path)]) == 0
    err = capsys.readouterr().err
    assert "0 sites of 0 functions, 0 of 0 parameters" in err
    assert "left out: 1 sites in units of other languages than C" in err
    assert run(["generate", str(path), "-o", str(tmp_path), "--lang_exclude", "rust"]) == 0
    assert "1 sites of 1 functions, 2 of 2 parameters" in capsys.readouterr().err
    assert run(["generate", str(path), "-o", str(tmp_path), "--lang_exclude", "klingon"]) == 2
    assert "no such language: klingon; there are ada, c, c++" in capsys.readouterr().err


def test_a_copy_and_the_files_appear_together(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    for place in (taken, taken / "below"):
        assert run(["generate", str(program), "--embed", str(tmp_path / "copy"), "-o", str(place)]) == 1
        assert "is not a directory" in capsys.readouterr().err
    assert not (tmp_path / "copy").exists()
    assert run(["generate", str(program), "--embed", str(tmp_path / "copy"), "-o", str(tmp_path / "out"), "-q"]) == 0
    assert sorted(os.listdir(tmp_path / "out")) == ["program.BTF", "program.BTF.inline"]
    assert (tmp_path / "copy").exists()
