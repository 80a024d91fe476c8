"""Objects and modules: what is listed must be what a linked copy of the same file says, with sections moved apart."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from inlinetrace.cli.render import Renderer
from inlinetrace.code import FileCode
from inlinetrace.elf import ElfFile
from inlinetrace.sites.location import Location
from inlinetrace.sites.reasons import Reason, Unavailable
from inlinetrace.target.image import Image, open_image
from tests.kernels import Kernel

SOURCE = """
static int local; int *pointer; extern int other(int);
static inline __attribute__((always_inline)) int twice(int x, int *p) { return other(x) + other(x + *p); }
static inline __attribute__((always_inline)) int choose(int a)
{
    switch (a) {
    case 0: return other(3); case 1: return other(9); case 2: return other(77);
    case 3: return other(5); case 4: return other(1); case 5: return other(12);
    default: return 0;
    }
}
extern void bad(int) __attribute__((cold));
int first(int a)
{
    local = a;
    for (int i = 0; i < a; i++) {
        if (local == 77) { bad(i); local += twice(3, pointer); }
        local += twice(i, &local);
    }
    return local;
}
__attribute__((section(".text.second"))) int second(int a, int b)
{
    return a > b ? twice(a, &local) : first(b) + choose(a);
}
__attribute__((section(".init.text"))) int third(int a) { return choose(a) + twice(a + 1, pointer); }
int fourth(int a) { return choose(a * 2); }
"""

TOOLS = [
    ("gcc", "ld"),
    ("clang-14", "ld"),
    ("clang-19", "ld"),
    ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-ld"),
    ("riscv64-linux-gnu-gcc", "riscv64-linux-gnu-ld"),
    ("s390x-linux-gnu-gcc", "s390x-linux-gnu-ld"),
    ("powerpc64le-linux-gnu-gcc", "powerpc64le-linux-gnu-ld"),
    ("arm-linux-gnueabihf-gcc", "arm-linux-gnueabihf-ld"),
]


def compile_object(folder: Path, compiler: str, *options: str) -> Path:
    (folder / "a.c").write_text(SOURCE)
    subprocess.run([compiler, "-g", "-O2", *options, "-c", "a.c", "-o", "a.o"], cwd=folder, check=True)
    return folder / "a.o"


def link(path: Path, linker: str, output: Path) -> Path:
    """Link ``path`` with every section at an address of its own, the last section first."""
    names = dict.fromkeys(s.name for s in reversed(ElfFile.open(path).sections) if s.allocated and s.size)
    lines = [f'"{name}" {0x20000000 + 0x100000 * n:#x} : {{ KEEP(*("{name}")) }}' for n, name in enumerate(names)]
    script = output.with_suffix(".ld")
    # Branches to what is not defined would go to the next instruction on some machines.
    # The odd address makes it Thumb code on Arm, which is reached without glue.
    elsewhere = 0x20F00001 if linker.startswith("arm-") else 0x20F00000
    defined = f"other = {elsewhere:#x};\nbad = {elsewhere:#x};\n"
    script.write_text(defined + "SECTIONS {\n" + "\n".join(lines) + "\n}\n")
    options = ["--no-relax"] if "riscv" in linker else []
    options += ["-static", "--unresolved-symbols=ignore-all", "--noinhibit-exec", "-e", "0"]
    command = [linker, *options, "-T", str(script), "-o", str(output), str(path)]
    subprocess.run(command, check=False, capture_output=True)
    return output


def listing(image: Image) -> Counter[str]:
    """All rows as JSON; what is an address in them as section and offset, strings (which linkers merge) as section."""

    def name_address(match: re.Match[str]) -> str:
        section = image.debug.section_at(int(match[0], 16))
        if section is None:
            return match[0]
        return f"{section.name}+{int(match[0], 16) - section.address:#x}"

    renderer = Renderer(image.debug.machine, image.name_address)
    rows: Counter[str] = Counter()
    for site in image.reader.build(image.reader.by_address(image.select().rows)):
        row = json.loads(renderer.json(site))
        address = int(row.pop("address"), 16)
        if image.program.relocatable:
            assert address == row["section_offset"]
        else:
            section = image.program.section(row["section"])
            assert section is not None
            assert address == section.address + row["section_offset"]
        for parameter in row["parameters"]:
            for key in ("location", "detail"):
                if key in parameter and not image.program.relocatable:
                    parameter[key] = re.sub(r"0x2[0-9a-f]{7}\b", name_address, parameter[key])
                if key in parameter:
                    parameter[key] = re.sub(r"(\.rodata[.\w]*\.str[\w.]*)\+0x[0-9a-f]+", r"\1", parameter[key])
        rows[json.dumps(row, sort_keys=True)] += 1
    return rows


@pytest.mark.compiled
@pytest.mark.parametrize(
    "options", [("-gdwarf-4",), ("-gdwarf-5",), ("-gdwarf-5", "-ffunction-sections")], ids=" ".join
)
@pytest.mark.parametrize(("compiler", "linker"), TOOLS)
def test_an_object_is_listed_as_the_linked_program(
    compiler: str, linker: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    path = compile_object(tmp_path, compiler, *options)
    ours, linked = open_image(path), open_image(link(path, linker, tmp_path / "linked"))
    rows = listing(ours)
    assert rows == listing(linked)
    assert sum(rows.values()) == 11
    assert len({json.loads(row)["section"] for row in rows}) >= 3
    assert any(".bss+" in row for row in rows) or compiler.startswith("clang")
    for section in ours.program.sections:
        if section.executable and section.size:
            assert ours.is_jump_target(section.address) is not None


@pytest.mark.compiled
@pytest.mark.parametrize("swapped", [False, True])
def test_the_files_of_a_pair_are_one_image(tmp_path: Path, swapped: bool) -> None:
    """The debug file may be given, or the stripped one; their section numbers differ, the rows do not."""
    whole = tmp_path / "whole.ko"
    options = ["-nostdlib", "-r", "-Wl,--build-id"]
    compile_object(tmp_path, "gcc", "-ffunction-sections")
    subprocess.run(["gcc", *options, "a.o", "-o", str(whole)], cwd=tmp_path, check=True)
    expected = listing(open_image(whole))
    program, debug = tmp_path / "lib/modules/1/x.ko", tmp_path / "usr/lib/debug/lib/modules/1/x.ko"
    for path in (program, debug):
        path.parent.mkdir(parents=True)
    subprocess.run(["objcopy", "--only-keep-debug", whole, debug], check=True)
    empty = tmp_path / "empty"
    empty.write_bytes(b"x")
    added = [f"--add-section=.one={empty}", f"--add-section=.two={empty}", "--set-section-flags=.one=alloc"]
    subprocess.run(["objcopy", "--strip-debug", *added, whole, program], check=True)
    roots = [str(tmp_path / "usr/lib/debug")]
    image = open_image(debug if swapped else program, roots=roots)
    assert os.path.samefile(image.program.path, program)
    assert os.path.samefile(image.debug.path, debug)
    assert image.path == str(debug if swapped else program)
    assert listing(image) == expected
    (first,) = image.program.symbols().named("first")
    assert image.is_jump_target(first.address) is not None
    program.unlink()
    alone = open_image(debug, roots=roots)
    assert alone.is_jump_target(first.address) is None
    assert sum(listing(alone).values()) == sum(expected.values())


@pytest.mark.compiled
def test_a_cold_part_jumps_back_into_its_function(tmp_path: Path) -> None:
    image = open_image(compile_object(tmp_path, "gcc"))
    cold, text = image.program.section(".text.unlikely"), image.program.section(".text")
    assert cold is not None
    assert text is not None
    code = FileCode(image.program).code(cold)
    back = {target for _, target in code.jumps() if text.address <= target < text.address + text.size}
    assert back
    assert all(image.is_jump_target(target) for target in back)
    assert image.region(cold.address)[:3] == (".text.unlikely", cold.address, cold.address + cold.size)


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["fs/nfs/nfs", "crypto/cryptd", "drivers/leds/leds-ss4200", "arch/x86/kvm/kvm-amd"])
def test_modules_are_listed_as_linked_programs(distribution_kernel: Kernel, name: str, tmp_path: Path) -> None:
    debug = distribution_kernel.debug_modules / f"kernel/{name}.ko"
    linked = listing(open_image(link(debug, "ld", tmp_path / "linked")))
    assert listing(open_image(debug)) == linked
    (stripped,) = (distribution_kernel.modules / "kernel").glob(f"{name}.ko*")
    root = distribution_kernel.vmlinux.parent.parent
    assert listing(open_image(stripped, roots=[str(root)])) == linked


@pytest.mark.compiled
def test_the_address_of_what_another_file_defines_is_not_shown_as_a_number(tmp_path: Path) -> None:
    source = tmp_path / "one.c"
    source.write_text(
        "struct pair { long a, b; } there, here;\nlong *volatile last;\n"
        "static inline void add(long *p) { last = p; }\n"
        "void one(void) { add(&there.b); }\nvoid two(void) { add(&here.b); }\n"
    )
    assembler = subprocess.run(
        ["gcc", "-O2", "-g", "-S", source, "-o", "-"], check=True, capture_output=True, text=True
    ).stdout
    # the definition goes, what refers to it stays
    without = re.sub(r"\t\.globl\tthere\n.*?\nthere:\n\t\.zero\t16\n", "", assembler, flags=re.DOTALL)
    assert without != assembler
    (tmp_path / "one.s").write_text(without)
    subprocess.run(["gcc", "-c", tmp_path / "one.s", "-o", tmp_path / "one.o"], check=True)
    sites = open_image(tmp_path / "one.o").sites(["add"])
    locations = {site.symbol: site.parameters[0].location for site in sites if site.inlined}
    elsewhere = Unavailable(Reason.UNDEFINED_SYMBOL, "the address of a symbol that another file defines")
    assert locations["one"] == elsewhere
    assert isinstance(locations["two"], Location)
