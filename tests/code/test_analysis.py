from __future__ import annotations

import re
import shutil
import subprocess
from array import array
from itertools import pairwise
from pathlib import Path

import pytest

from inlinetrace.code import Code, FileCode, Relocations
from inlinetrace.elf import ElfFile
from inlinetrace.elf.machine import AARCH64, X86_64, Machine
from inlinetrace.errors import UnsupportedError
from tests.elf.elfwriter import Code as Code_
from tests.elf.elfwriter import elf_file


def x86(text: str, address: int = 0x1000, **options: object) -> Code:
    return Code(X86_64, bytes.fromhex(text), address, **options)  # type: ignore[arg-type]


def test_boundaries_and_jumps() -> None:
    code = x86("f30f1efa 7402 90 eb02 e8f2ffffff c3")
    assert list(code.boundaries()) == [0x1000, 0x1004, 0x1006, 0x1007, 0x1009, 0x100E]
    assert code.is_boundary(0x1004) is True
    assert code.is_boundary(0x1005) is False
    assert code.is_boundary(0xFFF) is False
    assert code.is_boundary(0x100F) is False
    assert code.undecoded == ()
    assert 0x1000 in code
    assert 0x100F not in code


def test_jumps_are_sorted_by_target_and_calls_are_none() -> None:
    code = x86("7404 7502 eb00 90 e8f4ffffff ebf2")
    assert list(code.jumps()) == [(0x100C, 0x1000), (0x1000, 0x1006), (0x1002, 0x1006), (0x1004, 0x1006)]
    assert list(code.jump_sources(0x1006)) == [0x1000, 0x1002, 0x1004]
    assert list(code.jump_sources(0x1007)) == []
    assert code.is_jump_target(0x1006)
    assert not code.is_jump_target(0x1007)
    assert len(code.jumps()) == 4


def test_undecodable_bytes_make_the_boundaries_around_them_uncertain() -> None:
    code = x86("90" * 200 + "06" + "90" * 200, address=0)
    assert code.undecoded == ((200, 201),)
    assert code.is_boundary(100) is True
    assert code.is_boundary(199) is None
    assert code.is_boundary(200) is None
    assert code.is_boundary(220) is None
    assert code.is_boundary(300) is True


def test_functions_confine_the_uncertainty() -> None:
    code = x86("90" * 200 + "06" + "90" * 200, address=0, starts=[0, 190, 210])
    assert code.is_boundary(189) is True
    assert code.is_boundary(190) is True
    assert code.is_boundary(195) is None
    assert code.is_boundary(209) is None
    assert code.is_boundary(210) is True
    assert code.is_boundary(211) is True


def test_a_jump_over_a_prefix_makes_the_inside_of_an_instruction_uncertain() -> None:
    code = x86("7401 f0 480fb10f c3")
    assert code.is_boundary(0x1002) is True
    assert code.is_boundary(0x1003) is None
    assert code.is_boundary(0x1004) is False


def test_relocated_jumps() -> None:
    relocations = Relocations(array("Q", [1, 6, 12]), array("Q", [0x20 - 4, 0x40 - 4, 0x60]), array("B", [1, 0, 1]))
    code = x86("e900000000 e900000000 eb00 05 00000000", address=0, relocations=relocations)
    assert list(code.jumps()) == [(10, 12), (0, 0x20)]


def test_an_unknown_machine() -> None:
    with pytest.raises(UnsupportedError, match="instructions of PDP"):
        Code(Machine("PDP", 1, 8, ()), b"abcd")


def test_undecodable_words_of_a_fixed_size() -> None:
    code = Code(AARCH64, bytes.fromhex("1f2003d5 ffffffff 1f2003d5"), 0)
    assert code.undecoded == ((4, 8),)
    assert [code.is_boundary(a) for a in (0, 2, 4, 8, 10)] == [True, False, None, True, False]


SOURCE = """
extern int g(int), h(int, int);
int loop(int n) { int s = 0; for (int i = 0; i < n; i++) { if (g(i)) s += h(i, s); else s -= 3; } return s; }
int pick(int n, int (*f)(int)) { return n > 5 ? f(n) : g(n); }
static __attribute__((noinline)) int tail(int n) { return n ? h(n, 1) : 7; }
int both(int n) { while (n > 10) { n = tail(n); if (n == 12) break; } return tail(n + 1); }
int table(int n, int m) {
    switch (n) {
    case 0: return g(m); case 1: return h(m, n); case 2: return m * 3; case 3: return g(m + 1) + 1;
    case 4: return m ^ 77;
    case 5: return h(n, 3); case 6: return m - 9; case 7: return g(m * n); case 8: return -m; case 9: return h(2, m);
    }
    return 0;
}
int main(int argc, char **argv) { return loop(argc) + pick(argc, g) + both(argc) + table(argc, 3); }
"""
OTHER_SOURCE = "int g(int a) { return a & 1; } int h(int a, int b) { return a * b; }"

MACHINES = {
    "aarch64": ("aarch64-linux-gnu", r"(?:b|b\.\w+|cbn?z|tbn?z)\t(?:.*, )?([0-9a-f]+) <"),
    "arm": ("arm-linux-gnueabihf", r"b(?:eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?\t([0-9a-f]+) <"),
    "riscv64": ("riscv64-linux-gnu", r"(?:j|b\w+)\t(?:.*,)?([0-9a-f]+) <"),
    "ppc64": ("powerpc64le-linux-gnu", r"b(?:eq|ne|lt|gt|le|ge|so|ns|dnz|dz)?[+-]? +(?:cr\d,)?([0-9a-f]+) <"),
    "s390x": ("s390x-linux-gnu", r"(?:j(?!as)\w*|br(?:ct|xh|xle)\w*|c[gl]*[ri]j\w*)\t(?:.*,)?([0-9a-f]+) <"),
    "x86_64": ("", r"(?:notrack )?j\w+ +([0-9a-f]+) <"),
    "i686": ("-m32", r"(?:notrack )?j\w+ +([0-9a-f]+) <"),
}


def build(tmp_path: Path, compiler: list[str], *options: str) -> Path:
    (tmp_path / "a.c").write_text(SOURCE)
    (tmp_path / "b.c").write_text(OTHER_SOURCE)
    # There are cross compilers without a C library.
    command = [*compiler, "-nostdlib", "-Wl,--entry=main", "-O2", "-fno-inline", *options, "a.c", "b.c", "-o", "a"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path / "a"


@pytest.mark.compiled
@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_agrees_with_objdump(name: str, tmp_path: Path) -> None:
    prefix, pattern = MACHINES[name]
    option = prefix if prefix.startswith("-") else ""
    tools = "" if option or not prefix else prefix + "-"
    extra = ["-marm"] if name == "arm" else []
    path = build(tmp_path, [f"{tools}gcc", *([option] if option else [])], "-fno-jump-tables", "-g0", *extra)
    elf = ElfFile.open(path)
    assert elf.machine.name == name
    text = elf.section(".text")
    assert text is not None
    command = [f"{tools}objdump", "-d", "-w", "--no-show-raw-insn", "-j", ".text", str(path)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    code = Code.of_section(elf, text)
    expected = set()
    functions = {"loop", "pick", "tail", "both", "table", "g", "h"}
    function = ""
    checked = 0
    for line in listing.splitlines():
        if found := re.match(r"[0-9a-f]+ <([^>+]+)>:", line):
            function = found[1]
        found = re.match(r" *([0-9a-f]+):\t(.*)", line)
        if found is None or function not in functions or found[2].startswith(".long"):
            continue
        address = int(found[1], 16)
        assert code.is_boundary(address) is True, line
        checked += 1
        if jump := re.match(pattern, found[2]):
            expected.add((address, int(jump[1], 16)))
    spans = [(s.address, s.address + s.size) for n in functions for s in elf.symbols().named(n)]
    ours = {(s, t) for s, t in code.jumps() if any(a <= s < b for a, b in spans)}
    assert checked > 50
    assert ours == expected
    assert len(ours) >= 8


@pytest.mark.compiled
@pytest.mark.parametrize(
    "options", [["-fno-pie", "-no-pie"], ["-fpie", "-pie"], ["-fno-pie", "-no-pie", "-fcf-protection"]]
)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_jump_tables(compiler: str, options: list[str], tmp_path: Path) -> None:
    if compiler == "clang":
        compiler = next(name for name in ("clang", "clang-16", "clang-15", "clang-14") if shutil.which(name))
    elf = ElfFile.open(build(tmp_path, [compiler], *options))
    text = elf.section(".text")
    assert text is not None
    code = Code.of_section(elf, text)
    (table,) = elf.symbols().named("table")
    jumps = [j for j in code.indirect_jumps if table.address <= j.address < table.address + table.size]
    # Ten cases, some of which the compilers may turn into one; the default is reached by a direct jump.
    assert len(jumps) == 1
    assert 8 <= len(jumps[0].targets) <= 10
    for target in jumps[0].targets:
        assert table.address <= target < table.address + table.size
        assert code.is_boundary(target) is True
        assert jumps[0].address in code.jump_sources(target)
    assert not code.has_indirect_jump(table.address, table.address + table.size)
    blind = Code(elf.machine, elf.data(text), text.address)
    assert blind.has_indirect_jump(table.address, table.address + table.size)
    (pick,) = elf.symbols().named("pick")
    assert code.has_indirect_jump(pick.address, pick.address + pick.size)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "tools", ["", "aarch64-linux-gnu-", "riscv64-linux-gnu-", "powerpc64le-linux-gnu-", "s390x-linux-gnu-"]
)
def test_relocatable_objects_have_the_jumps_of_the_linked_program(tools: str, tmp_path: Path) -> None:
    path = build(tmp_path, [f"{tools}gcc"], "-fno-jump-tables", "-Wl,--no-relax")
    subprocess.run([f"{tools}gcc", "-O2", "-fno-inline", "-fno-jump-tables", "-c", "a.c"], cwd=tmp_path, check=True)
    linked, loose = ElfFile.open(path), ElfFile.open(tmp_path / "a.o")
    functions = ["loop", "pick", "tail", "both", "table"]

    def within(elf: ElfFile, name: str) -> set[tuple[int, int]]:
        (symbol,) = elf.symbols().named(name)
        code = Code.of_section(elf, elf.sections[symbol.section_index])
        span = range(symbol.address, symbol.address + symbol.size)
        return {(s - symbol.address, t - symbol.address) for s, t in code.jumps() if s in span and t in span}

    for name in functions:
        assert within(loose, name) == within(linked, name), name
    assert within(loose, "loop")


def test_jumps_from_another_section_of_a_linked_file() -> None:
    hot = Code_(".text", bytes.fromhex("90 90 90 c3"), 0x1000)
    cold = Code_(".text.cold", bytes.fromhex("90 e9faefffff"), 0x2000)
    elf = ElfFile.from_bytes(elf_file([hot, cold]))
    codes = FileCode(elf)
    text = codes.code(elf.sections[1])
    assert codes.is_jump_target(0x1000)
    assert not codes.is_jump_target(0x1001)
    assert not text.is_jump_target(0x1000)
    assert list(codes.jumps) == [(0x2001, 0x1000)]
    assert codes.code(elf.sections[1]) is text
    assert codes.holds(0x1003)
    assert not codes.holds(0x1004)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "tools", ["", "aarch64-linux-gnu-", "riscv64-linux-gnu-", "powerpc64le-linux-gnu-", "s390x-linux-gnu-"]
)
def test_cold_parts_jump_back(tools: str, tmp_path: Path) -> None:
    source = """
    extern int g(int); extern void cold(int) __attribute__((cold));
    int f(int n) {
        int s = g(n);
        for (int i = 0; i < n; i++) { if (s == 77) { cold(n); s = g(s); } s += g(i) * 3; }
        return s;
    }
    """
    (tmp_path / "a.c").write_text(source)
    options = ["-O2", "-freorder-blocks-and-partition", "-c", "a.c"]
    subprocess.run([f"{tools}gcc", *options], cwd=tmp_path, check=True)
    elf = ElfFile.open(tmp_path / "a.o")
    text, cold = elf.section(".text"), elf.section(".text.unlikely")
    assert text is not None
    assert cold is not None
    codes = FileCode(elf)
    (function,) = elf.symbols().named("f")
    (part,) = elf.symbols().names_starting_with("f.cold")
    hot = range(function.address, function.address + function.size)
    outside = range(cold.address, cold.address + cold.size)
    there = {target for source, target in codes.jumps if source in hot and target in outside}
    back = {target for source, target in codes.jumps if source in outside and target in hot}
    assert there == {part.address}
    assert len(back) >= 1
    for target in back:
        assert codes.code(text).is_boundary(target) is True
        assert codes.is_jump_target(target)


@pytest.mark.compiled
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_jump_tables_of_relocatable_objects(compiler: str, tmp_path: Path) -> None:
    if compiler == "clang":
        compiler = next(name for name in ("clang", "clang-16", "clang-15", "clang-14") if shutil.which(name))
    path = build(tmp_path, [compiler], "-r")
    elf = ElfFile.open(path)
    (table,) = elf.symbols().named("table")
    code = Code.of_section(elf, elf.sections[table.section_index])
    jumps = [j for j in code.indirect_jumps if table.address <= j.address < table.address + table.size]
    assert len(jumps) == 1
    assert 8 <= len(jumps[0].targets) <= 10
    for target in jumps[0].targets:
        assert table.address <= target < table.address + table.size
        assert code.is_boundary(target) is True


@pytest.mark.compiled
@pytest.mark.parametrize(("option", "size"), [("-marm", 4), ("-mthumb", 2)])
def test_mapping_symbols_tell_arm_from_thumb(option: str, size: int, tmp_path: Path) -> None:
    path = build(tmp_path, ["arm-linux-gnueabihf-gcc", option], "-r", "-fno-jump-tables")
    elf = ElfFile.open(path)
    (loop,) = elf.symbols().named("loop")
    code = Code.of_section(elf, elf.sections[loop.section_index])
    inside = [at for at in code.boundaries() if loop.address <= at < loop.address + loop.size]
    assert min(b - a for a, b in pairwise(inside)) == size
    assert any(loop.address <= s < loop.address + loop.size for s, _ in code.jumps())
    data = path.read_bytes().replace(b"\0$a\0", b"\0xa\0").replace(b"\0$t\0", b"\0xt\0")
    bare = ElfFile.from_bytes(data)
    with pytest.raises(UnsupportedError, match="no symbols that tell Arm from Thumb"):
        Code.of_section(bare, bare.sections[loop.section_index])
