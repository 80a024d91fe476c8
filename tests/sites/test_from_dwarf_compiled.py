"""Sites of compiled programs, held against pyelftools and llvm-dwarfdump.

Containers of the same code in other shapes (split, packed, compressed, stripped) must give the same sites.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inlinetrace.sites.model import Site
from inlinetrace.target import open_image
from tests.sites.oracle import counted_sites, differences
from tests.sites.programs import CXX, RUST, build, run

pytestmark = pytest.mark.compiled

CLANGS = ("clang-13", "clang-14", "clang-15", "clang-16", "clang-19", "clang-22")
BARE = ("-nostdlib", "-Wl,-e,main")
CROSS = ("aarch64-linux-gnu-gcc", "s390x-linux-gnu-gcc", "riscv64-linux-gnu-gcc", "powerpc64le-linux-gnu-gcc",
         "arm-linux-gnueabihf-gcc")  # fmt: skip


def same(path: Path) -> list[Any]:
    """What must be equal for two files with the same code. Types' offsets differ, their texts do not."""
    return sorted(
        (
            site.function,
            site.inlined,
            site.address,
            site.symbol or "",
            site.section or "",
            repr(site.call),
            repr(site.chain),
            site.container or "",
            repr(site.marks),
            repr([(p.name, p.type.text, p.type.size, p.location, p.doubt) for p in site.parameters]),
        )
        for site in open_image(path).sites()
    )


def check(path: Path, *, at_least: int = 5) -> None:
    count, found = differences(path)
    assert found == []
    assert count == counted_sites(path)
    assert count >= at_least


@pytest.mark.parametrize("level", ["-O1", "-O2", "-O3", "-Os", "-Og"])
def test_gcc_at_every_level(level: str, tmp_path: Path) -> None:
    check(build(tmp_path, "gcc", [level]))


@pytest.mark.parametrize("compiler", CLANGS)
def test_every_clang(compiler: str, tmp_path: Path) -> None:
    check(build(tmp_path, compiler, ["-O2"]))


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("version", [2, 3, 4])
def test_older_versions(compiler: str, version: int, tmp_path: Path) -> None:
    check(build(tmp_path, compiler, ["-O2", f"-gdwarf-{version}"]))


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc", ["-gdwarf64"]),
        ("gcc", ["-fno-var-tracking"]),
        ("gcc", ["-g1"]),
        ("gcc", ["-gz=zlib"]),
        ("gcc", ["-fdebug-types-section"]),
        ("gcc", ["-gdwarf-4", "-fdebug-types-section"]),
        ("gcc", ["-flto"]),
        ("gcc", ["-no-pie", "-Wl,--emit-relocs"]),
        ("gcc", ["-gdwarf-2", "-gstrict-dwarf"]),
        ("gcc", ["-m32", *BARE]),
        ("clang-19", ["-flto", "-fuse-ld=lld"]),
        ("clang-19", ["-gdwarf-5", "-gdwarf64"]),
    ],
    ids=" ".join,
)
def test_options_that_change_the_dwarf(compiler: str, flags: list[str], tmp_path: Path) -> None:
    check(build(tmp_path, compiler, ["-O2", *flags]))


@pytest.mark.parametrize("compiler", CROSS)
@pytest.mark.parametrize("version", [4, 5])
def test_other_machines(compiler: str, version: int, tmp_path: Path) -> None:
    check(build(tmp_path, compiler, ["-O2", f"-gdwarf-{version}", *BARE]))


@pytest.mark.parametrize("compiler", ["g++", "clang++-19"])
@pytest.mark.parametrize("flags", [[], ["-gdwarf-4", "-fdebug-types-section"]], ids=["plain", "type-units"])
def test_functions_of_classes(compiler: str, flags: list[str], tmp_path: Path) -> None:
    check(build(tmp_path, compiler, ["-O2", *flags, "-shared", "-fPIC"], sources={"a.cc": CXX}))


def test_rust(tmp_path: Path) -> None:
    (tmp_path / "a.rs").write_text(RUST)
    run("rustc", "-g", "-O", "--emit=obj", "-C", "panic=abort", "a.rs", "-o", "a.o", directory=tmp_path)
    run("ld.lld-19", "-shared", "--unresolved-symbols=ignore-all", "a.o", "-o", "a.so", directory=tmp_path)
    check(tmp_path / "a.so", at_least=3)


def test_dwz(tmp_path: Path) -> None:
    program = build(tmp_path, "gcc", ["-O2"])
    before = same(program)
    run("dwz", "program", directory=tmp_path)
    check(program)
    assert same(program) == before


def test_dwz_with_a_supplementary_file(tmp_path: Path) -> None:
    program = build(tmp_path, "gcc", ["-O2"])
    before = same(program)
    (tmp_path / "other").write_bytes(program.read_bytes())
    run("dwz", "-m", "common.debug", "program", "other", directory=tmp_path)
    assert same(program) == before
    assert counted_sites(program) == sum(bool(site.inlined) for site in open_image(program).sites())

    (tmp_path / "common.debug").unlink()
    image = open_image(program)
    assert "common.debug" in image.warnings()[0]
    assert {site.address for site in image.sites() if site.inlined} == {
        entry[2] for entry in before if isinstance(entry, tuple) and entry[1]
    }


def test_names_that_dwz_moved_to_the_supplementary_file(tmp_path: Path) -> None:
    """The function's entry stays in the program, and its name goes, as another program has that, too."""
    program = build(tmp_path, "gcc", ["-O2"])
    (tmp_path / "two").mkdir()
    other = build(tmp_path / "two", "gcc", ["-O1"])
    run("dwz", "-m", "common.debug", program.name, str(other.relative_to(tmp_path)), directory=tmp_path)
    names = sorted(set(open_image(program).function_names()))
    assert "main" in names
    for name in names:
        exact, glob = open_image(program), open_image(program)
        assert list(exact.sites([name])) == list(glob.sites([f"[{name[0]}]{name[1:]}"])), name
        assert exact.unknown([name]) == []


@pytest.mark.parametrize("compiler", ["gcc", "clang-14", "clang-19"])
@pytest.mark.parametrize("version", [4, 5])
def test_split_units_beside_the_program(compiler: str, version: int, tmp_path: Path) -> None:
    whole, split = tmp_path / "whole", tmp_path / "split"
    whole.mkdir()
    split.mkdir()
    flags = ["-O2", f"-gdwarf-{version}"]
    if compiler != "gcc":
        # clang converts with other operations in split units of version 5
        flags += ["-mllvm", "-dwarf-op-convert=Disable"]
    expected = same(build(whole, compiler, [*flags, f"-ffile-prefix-map={whole}=."]))
    program = build(split, compiler, [*flags, "-gsplit-dwarf", f"-ffile-prefix-map={split}=."])
    assert same(program) == expected
    # gcc's units of version 5 make llvm-dwp run forever
    if (compiler, version) != ("gcc", 5):
        run("llvm-dwp-19", "-e", "program", "-o", "program.dwp", directory=split)
        for file in split.glob("*.dwo"):
            file.unlink()
        assert same(program) == expected
        (split / "program.dwp").unlink()
    for file in split.glob("*.dwo"):
        file.unlink()
    image = open_image(program)
    assert list(image.sites()) == []
    assert "one.dwo" in image.warnings()[0]
    assert "1 more" in image.warnings()[0]


def test_compressed_sections(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    expected = same(build(plain, "clang-19", ["-O2", f"-ffile-prefix-map={plain}=."]))
    program = build(packed, "clang-19", ["-O2", "-gz=zstd", f"-ffile-prefix-map={packed}=."])
    assert same(program) == expected
    assert len(expected) >= 5


def test_view_pairs_inside_of_lists(tmp_path: Path) -> None:
    plain, inside = tmp_path / "plain", tmp_path / "inside"
    plain.mkdir()
    inside.mkdir()
    expected = same(build(plain, "gcc", ["-O2", f"-ffile-prefix-map={plain}=."]))
    flags = ["-O2", "-gvariable-location-views=incompat5", f"-ffile-prefix-map={inside}=."]
    assert same(build(inside, "gcc", flags)) == expected


def test_separate_debug_file(tmp_path: Path) -> None:
    program = build(tmp_path, "gcc", ["-O2", "-Wl,--build-id"])
    before = same(program)
    run("objcopy", "--only-keep-debug", "program", "program.debug", directory=tmp_path)
    run("objcopy", "--strip-debug", "--add-gnu-debuglink=program.debug", "program", directory=tmp_path)
    assert same(program) == before


def test_sites_of_objects_have_section_and_symbol(tmp_path: Path) -> None:
    linked, objects = tmp_path / "linked", tmp_path / "objects"
    linked.mkdir()
    objects.mkdir()
    flags = ["-O2", "-ffunction-sections"]

    def where(sites: list[Site]) -> list[Any]:
        return sorted((s.function, s.inlined, s.symbol, s.symbol_offset, len(s.parameters)) for s in sites)

    program = build(linked, "gcc", flags)
    everything = where(list(open_image(program).sites()))
    build(objects, "gcc", flags)
    parts = [site for name in ("one.o", "two.o") for site in open_image(objects / name).sites()]
    assert where(parts) == everything
    for site in parts:
        assert site.section is not None
        # .text.first, .text.startup.main, .text.partly.constprop.0
        assert (site.symbol or "").split(".")[0] in site.section.split(".")
        assert site.section_offset == site.symbol_offset


@pytest.mark.parametrize("linker", ["bfd", "gold"])
def test_sections_that_the_linker_left_out_have_no_sites(linker: str, tmp_path: Path) -> None:
    unused = """
        extern volatile int s;
        static inline __attribute__((always_inline)) void gone(int z) { s += z; }
        void unused(int a, int b) { gone(a); gone(a * b); gone(b); }
    """
    used = "volatile int s; int main(int c, char **v) { for (int i = 0; i < c; i++) s += i * s; return s; }"
    flags = ["-O2", "-ffunction-sections", f"-fuse-ld={linker}", "-Wl,--gc-sections"]
    path = build(tmp_path, "gcc", flags, sources={"used.c": used, "unused.c": unused})
    assert [site.function for site in open_image(path).sites()] == ["main"]
