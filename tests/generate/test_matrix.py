"""Types from DWARF beside pahole's, for every compiler, form of DWARF and machine: bpftool reads the same from both.

Beyond that the object is valid, libbpf's deduplication finds nothing to do, and the running kernel accepts it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.generate.features import Features
from inlinetrace.generate.types import types_from_dwarf
from tests.btf import libbpf
from tests.btf.conftest import modules_of, output, tool
from tests.generate.described import described
from tests.generate.kernel import load_into_kernel
from tests.generate.sources import ANNOTATED, ASSEMBLER, CPLUSPLUS, UNITS
from tests.kernels import SERIES, kernel
from tests.oracle.compilers import Toolchain, detect

# What pahole 1.24 does without being asked for more.
PAHOLE = Features(optimized_func=False, consistent_func=False, decl_tag_kfuncs=False)
ALL = tuple(f"{name}.c" for name in UNITS)
MACHINES = (
    "aarch64-linux-gnu-gcc", "s390x-linux-gnu-gcc", "riscv64-linux-gnu-gcc", "powerpc64le-linux-gnu-gcc",
    "arm-linux-gnueabihf-gcc",
)  # fmt: skip
TOOLCHAINS = detect()
# clang makes base types for the operations of its expressions. clang 13 says that DW_ATE_unsigned_1 has no bytes.
BASE_TYPES_OF_EXPRESSIONS = ("INT __SANITIZED_FAKE_INT__",)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the sources."""
    for name, text in UNITS.items():
        (tmp_path / f"{name}.c").write_text(text)
    (tmp_path / "annotated.c").write_text(ANNOTATED)
    (tmp_path / "assembler.S").write_text(ASSEMBLER)
    (tmp_path / "cplusplus.cc").write_text(CPLUSPLUS)
    return tmp_path


def compiled(folder: Path, command: str, *arguments: str) -> Path:
    """Run a compiler in the directory of the sources; the path of what it makes."""
    subprocess.run([command, "-w", *arguments, "-o", "made"], cwd=folder, check=True, capture_output=True)
    return folder / "made"


def ours(elf: Path, base: Btf | None = None) -> bytes:
    return types_from_dwarf(DebugInfo(ElfFile.open(str(elf))), features=PAHOLE, base=base).encode()


def paholes(elf: Path, place: Path, base: Path | None = None) -> Path:
    """Have pahole make BTF of a file."""
    options = [f"--btf_base={base}"] if base is not None else []
    output(tool("pahole"), "-J", "--btf_gen_floats", *options, f"--btf_encode_detached={place}", str(elf))
    return place


def check(elf: Path, *, unlike: Sequence[str] = (), loads: bool = True) -> set[str]:
    """Compare our types of a file with pahole's; ``unlike`` are beginnings of lines that only pahole has.

    Gives the lines. ``loads`` is whether the running kernel knows such a machine.
    """
    data = ours(elf)
    place = elf.with_suffix(".ours")
    place.write_bytes(data)
    lines = described(place)
    expected = described(paholes(elf, elf.with_suffix(".pahole")))
    assert lines == {line for line in expected if not line.startswith(tuple(unlike))}
    # the second one has all that the kernel's build asks for
    for made in (data, types_from_dwarf(DebugInfo(ElfFile.open(str(elf)))).encode()):
        assert validate(Btf(made), strict=True) == []
        assert libbpf.dedup(made) == made
        if loads:
            assert load_into_kernel(made) == ""
    return lines


def names(items: Sequence[Toolchain]) -> list[str]:
    return [item.name for item in items]


WAYS = [(t, way) for t in TOOLCHAINS for way in ("-O0", "-O2", "-flto") if way != "-flto" or t.lto() is not None]


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
@pytest.mark.parametrize(("toolchain", "way"), WAYS, ids=[f"{t.name} {way}" for t, way in WAYS])
def test_programs(toolchain: Toolchain, way: str, dwarf: int, folder: Path) -> None:
    flags = ("-O2", *(toolchain.lto() or ())) if way == "-flto" else (way,)
    lines = check(
        compiled(folder, toolchain.command, *flags, f"-gdwarf-{dwarf}", *ALL), unlike=BASE_TYPES_OF_EXPRESSIONS
    )
    assert "STRUCT node 24 {next: ptr struct node @0; value: int @64; later: ptr struct later @128}" in lines
    assert "FUNC main static (argc: int, argv: ptr ptr char) -> int" in lines
    if way != "-flto":
        assert any(line.startswith("STRUCT bits ") and "@9:7" in line for line in lines)
        assert any(line.startswith("FUNC shapes_main ") for line in lines)


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
@pytest.mark.parametrize("toolchain", TOOLCHAINS, ids=names(TOOLCHAINS))
def test_objects(toolchain: Toolchain, dwarf: int, folder: Path) -> None:
    elf = compiled(folder, toolchain.command, "-O2", f"-gdwarf-{dwarf}", "-c", "shapes.c")
    lines = check(elf, unlike=BASE_TYPES_OF_EXPRESSIONS)
    assert "FUNC shapes_sum static (count: int, (anon): void) -> int" in lines


@pytest.mark.compiled
@pytest.mark.parametrize("toolchain", [t for t in TOOLCHAINS if t.family == "clang"])
def test_annotations(toolchain: Toolchain, folder: Path) -> None:
    lines = check(compiled(folder, toolchain.command, "-O2", "-g", "-c", "annotated.c"))
    if int(toolchain.name.partition("-")[2]) >= 14:
        assert "DECL_TAG whole -1 of STRUCT tagged_struct" in lines
        assert "DECL_TAG member 0 of STRUCT tagged_struct" in lines
        assert "DECL_TAG alias -1 of TYPEDEF tagged_type" in lines


@pytest.mark.compiled
@pytest.mark.parametrize("linked", [True, False], ids=["linked", "object"])
@pytest.mark.parametrize("dwarf", [4, 5])
@pytest.mark.parametrize("command", MACHINES)
def test_other_machines(command: str, dwarf: int, linked: bool, folder: Path) -> None:
    # 32 bits have no __int128
    units = [unit for unit in ALL if unit != "wide.c" or "arm-" not in command]
    way = ("-shared", "-fPIC", *units) if linked else ("-c", "shapes.c")
    elf = compiled(folder, command, "-O2", f"-gdwarf-{dwarf}", *way)
    # The kernel takes its own byte order and size of pointers.
    check(elf, loads=command.startswith(("aarch64", "riscv64", "powerpc64le")))
    assert Btf(ours(elf)).byte_order == ("big" if "s390x" in command else "little")


FORMS = {
    "compressed sections": ("-gz",),
    "DWARF 2": ("-gdwarf-2",),
    "DWARF 3": ("-gdwarf-3",),
    "64-bit DWARF": ("-gdwarf64",),
    "strict": ("-gstrict-dwarf",),
    "macros": ("-g3",),
    "lines only": ("-g1",),
    "a library": ("-shared", "-fPIC"),
    "objects in one": ("-r",),
    "sections of their own": ("-ffunction-sections", "-fdata-sections"),
    "objects with code and bytecode": ("-flto", "-ffat-lto-objects", "-fno-use-linker-plugin"),
    "profiled": ("-pg",),
}


@pytest.mark.compiled
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_dwarf(form: str, folder: Path) -> None:
    check(compiled(folder, "gcc", "-O2", "-g", *FORMS[form], *ALL))


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
def test_partial_units(dwarf: int, folder: Path) -> None:
    elf = compiled(folder, "gcc", "-O2", f"-gdwarf-{dwarf}", *ALL)
    before = ours(elf)
    output(tool("dwz"), str(elf))
    check(elf)
    place = folder / "before"
    place.write_bytes(before)
    assert described(place) == described(elf.with_suffix(".ours"))


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
def test_type_units(dwarf: int, folder: Path) -> None:
    """pahole 1.24 loses types here; the same program without type units is what ours has to equal."""
    expected = folder / "expected"
    expected.write_bytes(ours(compiled(folder, "gcc", "-O2", f"-gdwarf-{dwarf}", *ALL)))
    data = ours(compiled(folder, "gcc", "-O2", f"-gdwarf-{dwarf}", "-fdebug-types-section", *ALL))
    found = folder / "found"
    found.write_bytes(data)
    assert described(found) == described(expected)
    assert libbpf.dedup(data) == data
    assert load_into_kernel(data) == ""


@pytest.mark.compiled
@pytest.mark.parametrize("command", ["gcc", "clang-19"])
def test_split_dwarf(command: str, folder: Path) -> None:
    """pahole 1.24 does not read the files beside the program; the same program in one is what ours has to equal."""
    expected = folder / "expected"
    expected.write_bytes(ours(compiled(folder, command, "-O2", "-g", *ALL)))
    data = ours(compiled(folder, command, "-O2", "-g", "-gsplit-dwarf", *ALL))
    found = folder / "found"
    found.write_bytes(data)
    # base types of expressions are not in the files beside the program
    assert described(found) == {line for line in described(expected) if not line.startswith("INT DW_ATE_")}
    assert libbpf.dedup(data) == data


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
def test_assembler_only(dwarf: int, folder: Path) -> None:
    lines = check(compiled(folder, "gcc", f"-gdwarf-{dwarf}", "-c", "assembler.S"))
    assert not any(line.startswith("STRUCT") for line in lines)


@pytest.mark.compiled
def test_assembler_beside_c(folder: Path) -> None:
    check(compiled(folder, "gcc", "-O2", "-g", "-shared", "-fPIC", "assembler.S", "first.c", "second.c"))


@pytest.mark.compiled
def test_units_of_other_languages_are_left_out(folder: Path) -> None:
    compiled(folder, "gcc", "-O2", "-g", "-c", "first.c").rename(folder / "first.o")
    alone = folder / "alone"
    alone.write_bytes(ours(folder / "first.o"))
    both = folder / "both"
    both.write_bytes(ours(compiled(folder, "g++", "-O2", "-g", "-r", "-nostdlib", "cplusplus.cc", "first.o")))
    assert described(both) == described(alone)


@pytest.mark.compiled
def test_without_dwarf_there_is_one_line_and_no_file(folder: Path) -> None:
    elf = compiled(folder, "gcc", "-c", "first.c")
    place = folder / "out"
    command = [sys.executable, "-m", "inlinetrace", "generate", str(elf), "-o", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"inlinetrace: {elf}: no DWARF here")
    assert done.stderr.count("\n") == 1
    assert not place.exists() or not list(place.iterdir())


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
def test_split_from_a_base(dwarf: int, folder: Path) -> None:
    base_file = folder / "base.btf"
    base_file.write_bytes(ours(compiled(folder, "gcc", "-O2", f"-gdwarf-{dwarf}", "-c", "shapes.c")))
    base = Btf(base_file.read_bytes())
    (folder / "module.c").write_text(
        UNITS["shapes"].replace("shapes_", "module_") + "struct own { struct node *n; } own;"
    )
    elf = compiled(folder, "gcc", "-O2", f"-gdwarf-{dwarf}", "-c", "module.c")
    data = ours(elf, base)
    place = folder / "module.btf"
    place.write_bytes(data)
    expected = paholes(elf, folder / "module.pahole", base_file)
    lines = described(place, "-B", str(base_file))
    assert lines == described(expected, "-B", str(base_file))
    assert {line.split()[1] for line in lines if line.startswith("STRUCT")} == {"own"}
    assert libbpf.dedup(data, base_file.read_bytes()) == data
    assert validate(Btf(data, base), strict=True) == []


@pytest.mark.kernel
@pytest.mark.parametrize("series", SERIES)
def test_modules_split_from_their_kernel(series: str, tmp_path: Path) -> None:
    vmlinux = kernel(series).vmlinux
    data = ours(vmlinux)
    base_file = tmp_path / "vmlinux.btf"
    base_file.write_bytes(data)
    assert libbpf.dedup(data) == data
    assert load_into_kernel(data) == ""
    base = Btf(data)
    for number, module in enumerate(modules_of(vmlinux, 5)):
        place = tmp_path / f"{number}.btf"
        place.write_bytes(ours(module, base))
        expected = paholes(module, tmp_path / f"{number}.pahole", base_file)
        # one pass leaves duplicates now and then, for which pahole would need a second one
        expected.write_bytes(libbpf.dedup(expected.read_bytes(), data))
        assert described(place, "-B", str(base_file)) == described(expected, "-B", str(base_file)), module
        assert libbpf.dedup(place.read_bytes(), data) == place.read_bytes(), module


# A variable at address 0, which pahole takes for one without an address.
AT_ZERO = ("VAR fixed_percpu_data ", "DATASEC .data..percpu ")


@pytest.mark.kernel
def test_a_kernel(tmp_path: Path) -> None:
    vmlinux = kernel("6.1").vmlinux
    place = tmp_path / "vmlinux.btf"
    place.write_bytes(ours(vmlinux))
    lines = described(place)
    expected = described(paholes(vmlinux, tmp_path / "vmlinux.pahole"))
    mine = {line for line in lines - expected if not line.startswith(AT_ZERO)}
    other = {line for line in expected - lines if not line.startswith(AT_ZERO)}
    # What is left are functions of one name and different prototypes. pahole takes the first, ours is the one that the
    # symbol is of: not the weak one of kernel/sys_ni.c but the system call, not the inline wrapper but lib/string.c's.
    assert {line.split()[0] for line in mine | other} == {"FUNC"}
    assert {line.split()[1] for line in mine} == {line.split()[1] for line in other}
    assert len(mine) == len(other) < 500
    assert "FUNC strcpy static (dest: ptr char, src: ptr const char) -> ptr char" in mine
    assert "FUNC __ia32_compat_sys_io_setup static (regs: ptr const struct pt_regs) -> long int" in mine
