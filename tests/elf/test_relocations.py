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


def bases(elf: ElfFile) -> tuple[int, int]:
    """The addresses of the two code sections."""
    return elf.sections[1].address, elf.sections[2].address


def test_symbol_plus_addend() -> None:
    elf = relocated([Rel(0, 1, "one", 5), Rel(8, 10, "two", -4), Rel(12, 2, "two", 0)])
    first, second = bases(elf)
    assert bytes(elf.data(".debug_info")) == (
        (first + 0x15).to_bytes(8, "little")
        + (second + 0x230).to_bytes(4, "little")
        + (second + 0x234 - 12).to_bytes(4, "little")
    )


def test_relative_to_the_address_of_the_patched_section() -> None:
    elf = relocated([Rel(8, 2, "two", -4)], target=".text")
    first, second = bases(elf)
    assert bytes(elf.data(".text"))[8:12] == (second + 0x230 - first - 8).to_bytes(4, "little")


def test_common_and_undefined_symbols_have_no_address() -> None:
    symbols = [Sym("common", 8, 4, 0xFFF2, 1), Sym("nowhere", 0, 0, 0)]
    entries = {".debug_info": [Rel(0, 1, "common"), Rel(8, 1, "nowhere", 3)]}
    sections = [Code(".text", bytes(4)), Sec(".debug_info", bytes(16))]
    elf = ElfFile.from_bytes(elf_file(sections, symbols=symbols, relocations=entries, type=1))
    assert bytes(elf.data(".debug_info")) == bytes(8) + (3).to_bytes(8, "little")


def test_big_endian() -> None:
    elf = relocated([Rel(0, 22, "one", 5), Rel(8, 4, "two", 0)], machine=22, little=False)
    first, second = bases(elf)
    expected = (first + 0x15).to_bytes(8, "big") + (second + 0x234).to_bytes(4, "big")
    assert bytes(elf.data(".debug_info"))[:12] == expected


@pytest.mark.parametrize(("machine", "kind"), [(3, 1), (40, 2)])
def test_addends_in_place(machine: int, kind: int) -> None:
    contents = (7).to_bytes(4, "little") + (0xFFFFFFFE).to_bytes(4, "little")
    elf = relocated([Rel(0, kind, "one"), Rel(4, kind, "two")], contents, machine=machine, bits=32, with_addends=False)
    first, second = bases(elf)
    assert bytes(elf.data(".debug_info")) == struct.pack("<II", first + 0x17, second + 0x232)


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
    first, second = bases(elf)
    difference = second + 0x234 - first - 0x10
    expected = (difference + 1).to_bytes(4, "little")
    expected += bytes([0x80 | difference & 0x7F, difference >> 7, 0xC0 | difference & 0x3F])
    assert bytes(elf.data(".debug_info")) == expected


@pytest.mark.parametrize(("machine", "kind", "bias"), [(62, 17, 0), (243, 9, 0x800), (21, 78, 0x8000)])
def test_thread_local_offsets(machine: int, kind: int, bias: int) -> None:
    sections = [Code(".text", bytes(4)), Sec(".tdata", bytes(64), flags=0x403), Sec(".debug_info", bytes(8))]
    entries = {".debug_info": [Rel(0, kind, "variable", bias)]}
    symbols = [Sym("variable", 0x10, 4, ".tdata", 6)]
    elf = ElfFile.from_bytes(elf_file(sections, symbols=symbols, relocations=entries, machine=machine, type=1))
    assert bytes(elf.data(".debug_info")) == (0x10).to_bytes(8, "little")


def test_linked_files_keep_what_they_have() -> None:
    for kind in (2, 3):
        elf = relocated([Rel(0, 1, "one", 5)], b"\xee" * 16, type=kind)
        assert bytes(elf.data(".debug_info")) == b"\xee" * 16
        assert elf.relocations(elf.sections[3]) == []


def test_relocations_as_a_list() -> None:
    elf = relocated([Rel(8, 200, "two", 5), Rel(0, 1, "one", -1), Rel(4, 2, "nowhere", 3)], target=".text")
    first, second = bases(elf)
    assert elf.relocations(elf.sections[1]) == [
        (first, first + 0xF, 1),
        (first + 4, 3, 0),
        (first + 8, second + 0x239, 2),
    ]
    assert elf.relocations(elf.sections[2]) == []


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


def moved(elf: ElfFile, data: bytearray) -> bytearray:
    """``data``, the bytes of ``elf``, with every symbol's value moved by the address of its section.

    What applies relocations without knowing of addresses of sections comes to the addresses that we have.
    """
    result = bytearray(data)
    table = elf.symbols().section
    assert table is not None
    order = "<>"[not elf.little_endian]
    step, value_at, section_at, value = (24, 8, 6, "Q") if elf.address_size == 8 else (16, 4, 14, "I")
    for at in range(table.offset, table.offset + table.size, step):
        (section,) = struct.unpack_from(order + "H", data, at + section_at)
        if section < len(elf.sections):
            (old,) = struct.unpack_from(order + value, data, at + value_at)
            struct.pack_into(order + value, result, at + value_at, old + elf.sections[section].address)
    return result


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
    (tmp_path / "a.o").write_bytes(moved(elf, bytearray((tmp_path / "a.o").read_bytes())))
    before = debug_dump(tmp_path / "a.o")
    assert "DW_TAG_inlined_subroutine" in before
    assert debug_dump(tmp_path / "b.o") == before


@pytest.mark.compiled
def test_debug_info_of_an_object_agrees_with_pyelftools(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(SOURCE.replace("__thread", ""))
    subprocess.run(["gcc", "-g", "-O2", "-c", "a.c"], cwd=tmp_path, check=True)
    elf = ElfFile.open(tmp_path / "a.o")
    other = OtherReader(io.BytesIO(moved(elf, bytearray((tmp_path / "a.o").read_bytes())))).get_dwarf_info()
    for name, theirs in ((".debug_info", other.debug_info_sec), (".debug_line", other.debug_line_sec)):
        assert theirs is not None
        theirs.stream.seek(0)
        assert bytes(elf.data(name)) == theirs.stream.read()
