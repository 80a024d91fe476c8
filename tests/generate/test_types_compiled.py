"""Programs of real compilers: the same graph as pahole's, for every compiler, version of DWARF and machine.

pahole 1.24 is told to leave nothing out that it knows; what newer ones leave out (``optimized_func``,
``consistent_func``) is off. Where pahole cannot read a form, the same program in another form is the oracle.
"""

from __future__ import annotations

import shutil
import subprocess
from array import array
from pathlib import Path

import pytest

from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.dwarf.info import KEY_SHIFT, DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import UnsupportedError
from inlinetrace.generate.features import Features
from inlinetrace.generate.types import Types, functions_onto_base, types_from_dwarf
from tests.generate.graphs import colour, differences

pytestmark = pytest.mark.compiled

PROGRAMS = Path(__file__).with_name("programs")
SOURCES = [PROGRAMS / name for name in ("kinds.c", "more.c", "third.c")]
LIKE_OLD_PAHOLE = Features(optimized_func=False, consistent_func=False, decl_tag_kfuncs=False)


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def compiled(directory: Path, *command: str, name: str = "program") -> Path:
    result = directory / name
    run(*command, "-g", *SOURCES, "-o", result)
    return result


def ours(program: Path, *, alternate: Path | None = None, base: Btf | None = None) -> Btf:
    supplement = None if alternate is None else ElfFile.open(alternate)
    debug = DebugInfo(ElfFile.open(program), alternate=supplement)
    result = Btf(types_from_dwarf(debug, features=LIKE_OLD_PAHOLE, base=base).encode(), base)
    assert validate(result, strict=True) == []
    return result


def pahole(program: Path, base: Path | None = None) -> Btf:
    """What pahole makes of a copy of ``program``."""
    copy, result = program.with_suffix(".copy"), program.with_suffix(".btf")
    shutil.copy(program, copy)
    result.unlink(missing_ok=True)
    options = [] if base is None else [f"--btf_base={base}"]
    run("pahole", "-J", "--btf_gen_floats", *options, f"--btf_encode_detached={result}", copy)
    return Btf(result.read_bytes(), None if base is None else Btf(base.read_bytes()))


def assert_equal(one: Btf, other: Btf) -> None:
    left, right = differences(one, other)
    assert [(Kind(one.kind(id_)).name, one.name(id_)) for id_ in left] == []
    assert [(Kind(other.kind(id_)).name, other.name(id_)) for id_ in right] == []


@pytest.mark.parametrize(
    "command",
    [
        "gcc -O2",
        "gcc -O0",
        "gcc -O2 -gdwarf-4",
        "gcc -O2 -gdwarf-4 -gstrict-dwarf",
        "gcc -O2 -gdwarf-3 -gstrict-dwarf",
        "gcc -O2 -gdwarf64",
        "gcc -O2 -flto",
        "gcc -O2 -gz=zlib",
        "clang-13 -O2",
        "clang-14 -O2 -gdwarf-4",
        "clang-16 -O2 -gdwarf-5",
        "clang-19 -O2",
        "clang-22 -O2",
        "aarch64-linux-gnu-gcc -O2",
        "s390x-linux-gnu-gcc -O2",
        "s390x-linux-gnu-gcc -O2 -gdwarf-4 -gstrict-dwarf",
        "arm-linux-gnueabihf-gcc -O2",
    ],
)
def test_the_same_graph_as_pahole(command: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, *command.split())
    result = ours(program)
    theirs = pahole(program)
    if "-gdwarf-3" in command:
        # without DW_AT_type on enums pahole takes one with negative values for unsigned
        assert result.type(result.find("wide_signed", Kind.ENUM64)[0]).kind_flag
        return
    assert_equal(result, theirs)
    assert result.end_id <= theirs.end_id
    assert len(result.data) <= len(theirs.data)


@pytest.mark.parametrize("option", ["-fdebug-types-section", "-fdebug-types-section -gdwarf-4", "-gsplit-dwarf"])
def test_other_places_for_types(option: str, tmp_path: Path) -> None:
    plain = ours(compiled(tmp_path, "gcc", "-O2"))
    other = ours(compiled(tmp_path, "gcc", "-O2", *option.split(), name="other"))
    lost, new = differences(plain, other)
    assert new == []
    # the signature of a type has the names of structs in it, not what they are: gcc itself makes two of them one
    assert {plain.name(id_) for id_ in lost} <= ({"uses_clash", ""} if "types" in option else set())


def test_types_that_dwz_shares(tmp_path: Path) -> None:
    first = compiled(tmp_path, "gcc", "-O2", name="first")
    plain = ours(first)
    alone = Path(shutil.copy(first, tmp_path / "alone"))
    second = Path(shutil.copy(first, tmp_path / "second"))
    run("dwz", "-L", "none", "-l", "none", alone)
    assert_equal(ours(alone), plain)
    common = tmp_path / "common.dwz"
    run("dwz", "-L", "none", "-l", "none", "-m", common, "-M", str(common), first, second)
    assert_equal(ours(first, alternate=common), plain)
    with pytest.raises(UnsupportedError, match="supplementary file"):
        ours(first)


def test_relocatable_files(tmp_path: Path) -> None:
    objects = []
    for source in SOURCES[:2]:
        objects.append(tmp_path / (source.stem + ".o"))
        run("gcc", "-O2", "-g", "-c", source, "-o", objects[-1])
    together = tmp_path / "together.o"
    run("ld", "-r", *objects, "-o", together)
    assert_equal(ours(together), pahole(together))
    assert_equal(ours(objects[0]), pahole(objects[0]))


def test_against_a_base(tmp_path: Path) -> None:
    program = compiled(tmp_path, "gcc", "-O2")
    base_file = tmp_path / "base.btf"
    base_file.write_bytes(ours(program).data)
    base = Btf(base_file.read_bytes())
    again = ours(program, base=base)
    assert again.end_id == again.start_id
    third = tmp_path / "third.o"
    run("gcc", "-O2", "-g", "-c", SOURCES[2], "-o", third)
    assert_equal(ours(third, base=base), pahole(third, base_file))


@pytest.mark.parametrize("command", ["gcc -O2", "gcc -O2 -flto", "clang-19 -O2", "gcc -O2 -fdebug-types-section"])
def test_functions_onto_a_base_are_those_of_the_whole(command: str, tmp_path: Path) -> None:
    debug = DebugInfo(ElfFile.open(compiled(tmp_path, *command.split())))
    origins = array("Q")
    for number, records in enumerate(debug.records):
        origins.extend(number << KEY_SHIFT | records.site(id_).origin for id_ in records.all_sites())
    types = types_from_dwarf(debug)
    base = Btf(types.encode())
    whole = types.inline_object(origins)
    alone = functions_onto_base(debug, origins, base)
    objects = []
    for made in (whole, alone):
        part = Types(types.emitter, types.byte_order, made.types, made.strings, {})
        objects.append(Btf(part.encode(), base))
    left, right = colour(*objects)
    assert [left.colours[id_] for id_ in whole.func_ids] == [right.colours[id_] for id_ in alone.func_ids]
    assert any(whole.func_ids)


def test_annotations_of_clang(tmp_path: Path) -> None:
    source = tmp_path / "tags.c"
    source.write_text(
        "#define t(x) __attribute__((btf_type_tag(#x)))\n#define d(x) __attribute__((btf_decl_tag(#x)))\n"
        "struct s { int t(one) t(two) *p; int x d(member); } d(whole);\n"
        "typedef int number d(named);\n"
        "int f(struct s *s, number n) d(function);\n"
        "int f(struct s *s d(argument), number n) { return *s->p + n; }\n"
        "int main(void) { return f(0, 0); }\n"
    )
    program = tmp_path / "tags"
    run("clang-16", "-O2", "-g", source, "-o", program)
    result = ours(program)
    assert len(result.of_kind(Kind.DECL_TAG)) == 5
    assert len(result.of_kind(Kind.TYPE_TAG)) == 2
    assert_equal(result, pahole(program))


def test_bpftool_and_the_kernel_agree(tmp_path: Path) -> None:
    program = compiled(tmp_path, "gcc", "-O2")
    file = tmp_path / "ours.btf"
    file.write_bytes(ours(program).data)
    assert "STRUCT 'outer'" in run("bpftool", "btf", "dump", "file", file)
    source = run("bpftool", "btf", "dump", "file", file, "format", "c")
    (tmp_path / "vmlinux.h").write_text(source)
    assert "struct squeezed {" in source
