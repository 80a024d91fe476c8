from __future__ import annotations

import io
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile as OtherReader

from inlinetrace.elf import ElfFile, _relocate, relocations
from inlinetrace.errors import FormatError, UnsupportedError
from tests.elf.elfwriter import Code, Rel, Sec, Sym, elf_file

SYMBOLS = [Sym("one", 0x10, 4, ".text"), Sym("two", 0x234, 4, ".text.two"), Sym("nowhere", 0, 0, 0)]


def relocated(
    entries: list[Rel], contents: bytes = bytes(16), *, target: str = ".debug_info", **kwargs: object
) -> ElfFile:
    sections = [Code(".text", bytes(64)), Code(".text.two", bytes(0x300)), Sec(".debug_info", contents)]
    options = {"type": 1, "machine": 62} | kwargs
    return ElfFile.from_bytes(elf_file(sections, symbols=SYMBOLS, relocations={target: entries}, **options))  # type: ignore[arg-type]


def test_the_compiled_operations_are_those_of_the_tables() -> None:
    for name, number in _relocate.OPERATIONS.items():
        assert getattr(relocations, name) == number


def test_symbol_plus_addend() -> None:
    elf = relocated([Rel(0, 1, "one", 5), Rel(8, 10, "two", -4), Rel(12, 2, "two", 0)])
    assert bytes(elf.data(".debug_info")) == (
        (0x15).to_bytes(8, "little") + (0x230).to_bytes(4, "little") + (0x234 - 12).to_bytes(4, "little")
    )


def test_big_endian() -> None:
    elf = relocated([Rel(0, 22, "one", 5), Rel(8, 4, "two", 0)], machine=22, little=False)
    assert bytes(elf.data(".debug_info"))[:12] == (0x15).to_bytes(8, "big") + (0x234).to_bytes(4, "big")


@pytest.mark.parametrize(("machine", "kind"), [(3, 1), (40, 2)])
def test_addends_in_place(machine: int, kind: int) -> None:
    contents = (7).to_bytes(4, "little") + (0xFFFFFFFE).to_bytes(4, "little")
    elf = relocated([Rel(0, kind, "one"), Rel(4, kind, "two")], contents, machine=machine, bits=32, with_addends=False)
    assert bytes(elf.data(".debug_info")) == (0x17).to_bytes(4, "little") + (0x232).to_bytes(4, "little")


def test_riscv_pairs() -> None:
    contents = bytes(4) + b"\x80\x00" + b"\xc5"
    entries = [
        Rel(0, 35, "two", 1),
        Rel(0, 39, "one", 0),
        Rel(4, 60, "two", 0),
        Rel(4, 61, "one", 0),
        Rel(6, 53, "two", 0),
        Rel(6, 52, "one", 0),
    ]
    elf = relocated(entries, contents, machine=243)
    difference = 0x234 - 0x10
    expected = (difference + 1).to_bytes(4, "little")
    expected += bytes([0x80 | difference & 0x7F, difference >> 7, 0xC0 | difference & 0x3F])
    assert bytes(elf.data(".debug_info")) == expected


@pytest.mark.parametrize(("machine", "kind", "bias"), [(62, 17, 0), (243, 9, 0x800), (21, 78, 0x8000)])
def test_thread_local_offsets(machine: int, kind: int, bias: int) -> None:
    elf = relocated([Rel(0, kind, "one", bias)], machine=machine)
    assert bytes(elf.data(".debug_info"))[:8] == (0x10).to_bytes(8, "little")


def test_linked_files_keep_what_they_have() -> None:
    for kind in (2, 3):
        elf = relocated([Rel(0, 1, "one", 5)], b"\xee" * 16, type=kind)
        assert bytes(elf.data(".debug_info")) == b"\xee" * 16
        assert len(elf.relocation_targets(".debug_info")) == 0


def test_targets_tell_sections_apart() -> None:
    elf = relocated([Rel(8, 1, "two", 5), Rel(0, 1, "one", 0), Rel(4, 2, "one", 0), Rel(12, 10, "nowhere", 0)])
    targets = elf.relocation_targets(".debug_info")
    assert list(targets.offsets) == [0, 8]
    assert [elf.sections[n].name for n in targets.sections] == [".text", ".text.two"]
    assert (targets.get(8), targets.get(0), targets.get(1), targets.get(12)) == (2, 1, None, None)
    assert len(elf.relocation_targets(".text")) == 0
    assert len(elf.relocation_targets(".nothing")) == 0


def test_an_unknown_type_is_named() -> None:
    elf = relocated([Rel(0, 1, "one"), Rel(0, 200, "one")])
    with pytest.raises(UnsupportedError, match="relocation type 200 of x86_64") as caught:
        elf.data(".debug_info")
    assert (caught.value.section, caught.value.offset) == (".rela.debug_info", 24)


def test_unknown_types_in_code_leave_the_instruction_alone() -> None:
    elf = relocated([Rel(0, 283, "two")], target=".text", machine=183)
    assert bytes(elf.data(".text")) == bytes(64)


@pytest.mark.parametrize("offset", [13, 16, 1 << 40, (1 << 64) - 4])
def test_places_outside_the_section(offset: int) -> None:
    with pytest.raises(FormatError, match="outside its section"):
        relocated([Rel(offset, 10, "one")]).data(".debug_info")


def test_a_symbol_that_does_not_exist() -> None:
    data = bytearray(
        elf_file(
            [Sec(".debug_info", bytes(8))],
            symbols=SYMBOLS[2:],
            relocations={".debug_info": [Rel(0, 1, "nowhere")]},
            type=1,
        )
    )
    place = data.index((1 << 32 | 1).to_bytes(8, "little"))
    data[place + 4 : place + 8] = b"\xff\xff\xff\x7f"
    with pytest.raises(FormatError, match="symbol 2147483647, which does not exist"):
        ElfFile.from_bytes(bytes(data)).data(".debug_info")


SOURCE = """
static __thread int local;
extern int other(int);
static inline __attribute__((always_inline)) int twice(int x) { return other(x) + other(x + 1); }
int first(int a) { local = a; for (int i = 0; i < a; i++) local += twice(i); return local; }
__attribute__((section(".text.second"))) int second(int a, int b) { return a > b ? twice(a) : first(b); }
"""

COMPILERS = [
    ["gcc", "-m64"],
    ["gcc", "-m32"],
    ["aarch64-linux-gnu-gcc"],
    ["riscv64-linux-gnu-gcc"],
    ["powerpc64le-linux-gnu-gcc"],
    ["s390x-linux-gnu-gcc"],
    ["arm-linux-gnueabihf-gcc"],
    ["clang"],
]


def debug_dump(path: Path) -> str:
    command = ["readelf", "-wiralR", "--wide", path.name]
    result = subprocess.run(command, cwd=path.parent, capture_output=True, text=True, check=True)
    return result.stdout.replace(path.name, "FILE")


@pytest.mark.compiled
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("compiler", COMPILERS, ids=" ".join)
def test_objects_of_every_machine_read_the_same_once_relocated(
    compiler: list[str], version: int, tmp_path: Path
) -> None:
    """Readelf, which applies relocations itself, must see no difference when ours have been applied in the file."""
    if compiler[0] == "clang":
        compiler = [next(name for name in ("clang", "clang-16", "clang-15", "clang-14") if shutil.which(name))]
    (tmp_path / "a.c").write_text(SOURCE)
    command = [*compiler, "-g", f"-gdwarf-{version}", "-O2", "-c", "a.c", "-o", "a.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    elf = ElfFile.open(tmp_path / "a.o")
    data = bytearray((tmp_path / "a.o").read_bytes())
    (table,) = struct.unpack_from(
        "<>"[not elf.little_endian] + "QI"[elf.address_size == 4], data, 40 if elf.address_size == 8 else 32
    )
    applied = 0
    for section in elf.sections:
        if section.name.startswith(".debug_"):
            data[section.offset : section.offset + section.size] = elf.data(section)
        elif section.name.startswith((".rela.debug_", ".rel.debug_")):
            applied += 1
            at = table + section.index * (64 if elf.address_size == 8 else 40)
            data[at + 4 : at + 8] = (1).to_bytes(4, "little" if elf.little_endian else "big")
    assert applied >= 3
    (tmp_path / "b.o").write_bytes(data)
    before = debug_dump(tmp_path / "a.o")
    assert "DW_TAG_inlined_subroutine" in before
    assert debug_dump(tmp_path / "b.o") == before
    assert elf.relocation_targets(".debug_info").sections


@pytest.mark.compiled
def test_debug_info_of_an_object_agrees_with_pyelftools(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(SOURCE.replace("__thread", ""))
    subprocess.run(["gcc", "-g", "-O2", "-c", "a.c"], cwd=tmp_path, check=True)
    elf = ElfFile.open(tmp_path / "a.o")
    other = OtherReader(io.BytesIO((tmp_path / "a.o").read_bytes())).get_dwarf_info()
    for name, theirs in ((".debug_info", other.debug_info_sec), (".debug_line", other.debug_line_sec)):
        assert theirs is not None
        theirs.stream.seek(0)
        assert bytes(elf.data(name)) == theirs.stream.read()
