"""Call frame tables of compilers, held against the tables that pyelftools decodes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from inlinetrace.dwarf.frames import CallFrames, FrameTable, RegisterRule, RuleKind
from tests.kernels import Kernel

SOURCE = """
void abort(void) { for (;;); }
void __aeabi_unwind_cpp_pr0(void) {}
__attribute__((noinline)) int use(char *b, int n, int r) { asm volatile("" :: "r"(b) : "memory"); return n * r; }
static inline int sum(int *p, int n)
{
    int s = 0;
    for (int i = 0; i < n; i++)
        s += p[i] > n ? p[i] * n : p[i] ^ i;
    return s;
}
__attribute__((cold, noinline)) void die(void) { abort(); }
int variable(int *p, int n)
{
    char buf[n + 1];
    if (n < 0)
        die();
    int r = sum(p, n);
    use(buf, n, r);
    if (r > 5) {
        use(buf, n + 1, r);
        return use(buf, r, n) + use(buf, 1, 2);
    }
    return buf[0] + r;
}
int early(int a, int b)
{
    char big[600];
    if (a == b)
        return 0;
    while (a-- > 0 && use(big, a, b))
        if (use(big, b, a) == 3)
            return use(big + 5, a, a) + use(big, b, b);
    return use(big, 1, 1) + b;
}
int main(int c, char **v)
{
    int x[4] __attribute__((aligned(64)));
    for (int i = 0; i < 4; i++)
        x[i] = c + i;
    return variable(x, 4) + early(c, x[c]) + sum(x, 3);
}
"""

RULES = {
    "UNDEFINED": RuleKind.UNDEFINED,
    "SAME_VALUE": RuleKind.SAME_VALUE,
    "OFFSET": RuleKind.OFFSET,
    "VAL_OFFSET": RuleKind.VAL_OFFSET,
    "REGISTER": RuleKind.REGISTER,
    "EXPRESSION": RuleKind.EXPRESSION,
    "VAL_EXPRESSION": RuleKind.VAL_EXPRESSION,
}

COMPILERS = [
    "gcc",
    "clang-14",
    "clang-19",
    "aarch64-linux-gnu-gcc",
    "s390x-linux-gnu-gcc",
    "riscv64-linux-gnu-gcc",
    "powerpc64le-linux-gnu-gcc",
    "arm-linux-gnueabihf-gcc",
]


def compile_program(directory: Path, compiler: str, options: list[str]) -> Path:
    path = shutil.which(compiler)
    assert path is not None, f"{compiler} is needed for this test"
    source = directory / "frames.c"
    source.write_text(SOURCE)
    common = ["-w", "-ffreestanding", "-fno-builtin", "-fno-stack-protector", "-nostdlib", "-static", "-Wl,-e,main"]
    output = directory / "frames"
    subprocess.run([path, "-g", *options, *common, str(source), "-o", str(output)], check=True, capture_output=True)
    return output


def tables(elf: Any) -> Iterator[tuple[FrameTable, list[Any]]]:
    """Our table and the other's entries, for each section with frames."""
    dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
    for name, entries in ((".debug_frame", dwarf.CFI_entries), (".eh_frame", dwarf.EH_CFI_entries)):
        section = elf.get_section_by_name(name)
        if section is not None:
            table = FrameTable(
                section.data(),
                eh=name == ".eh_frame",
                section=name,
                address=section["sh_addr"],
                address_size=elf.elfclass // 8,
                little_endian=elf.little_endian,
            )
            yield table, [entry for entry in entries() if isinstance(entry, FDE)]


def expected_rule(rule: Any) -> RegisterRule:
    kind = RULES[rule.type]
    if isinstance(rule.arg, list):
        return RegisterRule(kind, bytes(rule.arg))
    return RegisterRule(kind, rule.arg or 0)


def check_function(table: FrameTable, entry: Any) -> int:
    """Compare at the first and last address of every row; the number of addresses."""
    start = entry.header.initial_location
    end = start + entry.header.address_range
    frames = CallFrames([table])
    rows = entry.get_decoded().table
    checked = 0
    for row, following in zip(rows, [*rows[1:], {"pc": end}], strict=True):
        for pc in {max(row["pc"], start), following["pc"] - 1}:
            if not start <= pc < end or following["pc"] <= row["pc"]:
                continue
            cfa = row["cfa"]
            assert table.cfa(pc) == (bytes(cfa.expr) if cfa.expr is not None else (cfa.reg, cfa.offset)), hex(pc)
            for register, rule in row.items():
                if isinstance(register, int):
                    assert frames.register_rule(pc, register) == expected_rule(rule), (hex(pc), register)
            assert table.function_range(pc) == (start, end)
            checked += 1
    return checked


@pytest.mark.compiled
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("options", [["-O2"], ["-Os", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]])
def test_frames_of_a_compiler(tmp_path: Path, compiler: str, options: list[str]) -> None:
    with compile_program(tmp_path, compiler, options).open("rb") as file:
        checked = 0
        for table, entries in tables(ELFFile(file)):
            assert len(table) == len(entries)
            assert table.skipped == 0
            checked += sum(check_function(table, entry) for entry in entries)
        assert checked >= 10


@pytest.mark.kernel
def test_frames_of_a_kernel(distribution_kernel: Kernel) -> None:
    with distribution_kernel.vmlinux.open("rb") as file:
        ((table, entries),) = tables(ELFFile(file))
        assert len(table) == len(entries) > 40_000
        assert sum(check_function(table, entry) for entry in entries[::20]) > 20_000
