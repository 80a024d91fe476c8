from __future__ import annotations

import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inlinetrace.elf import ElfFile
from inlinetrace.elf.constants import SHN_ABS, STB_GLOBAL, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_NOTYPE, STT_SECTION
from inlinetrace.elf.symbols import SymbolTable
from tests.elf.elfwriter import Code, Sec, Sym, elf_file

LAYOUTS = [(64, True), (64, False), (32, True), (32, False)]


def table(*symbols: Sym, bits: int = 64, little: bool = True, machine: int = 62, type: int = 2) -> SymbolTable:  # noqa: A002
    sections = [Code(".text", bytes(0x1000), 0x1000), Code(".text.two", bytes(0x100), 0x4000), Sec(".data", bytes(8))]
    data = elf_file(sections, symbols=symbols, bits=bits, little=little, machine=machine, type=type)
    return ElfFile.from_bytes(data).symbols()


def at(symbols: SymbolTable, address: int) -> str | None:
    found = symbols.lookup(address)
    return None if found is None else f"{found[0].name}+{found[1]:#x}"


def text(name: str, address: int, size: int = 0, *, type: int = STT_FUNC, binding: int = STB_GLOBAL) -> Sym:  # noqa: A002
    return Sym(name, address, size, ".text", type, binding)


@pytest.mark.parametrize(("bits", "little"), LAYOUTS)
def test_functions_contain_their_addresses(bits: int, little: bool) -> None:
    symbols = table(text("b", 0x1100, 0x10), text("a", 0x1000, 0x20), bits=bits, little=little)
    assert at(symbols, 0xFFF) is None
    assert at(symbols, 0x1000) == "a+0x0"
    assert at(symbols, 0x101F) == "a+0x1f"
    assert at(symbols, 0x1020) is None
    assert at(symbols, 0x110F) == "b+0xf"
    assert at(symbols, 0x1110) is None
    assert at(symbols, -1) is None
    assert at(symbols, 1 << 70) is None


def test_fields() -> None:
    (symbol,) = table(text("f", 0x1000, 0x20)).named("f")
    assert (symbol.name, symbol.address, symbol.size, symbol.section_index) == ("f", 0x1000, 0x20, 1)
    assert (symbol.type, symbol.binding, symbol.is_function) == (STT_FUNC, STB_GLOBAL, True)
    (absolute,) = table(Sym("crc", 5, 0, 0xFFF1, STT_NOTYPE)).named("crc")
    assert absolute.section_index == SHN_ABS


def test_unsized_symbols_reach_to_the_next_or_to_the_end_of_the_section() -> None:
    symbols = table(text("a", 0x1000, type=STT_NOTYPE), text("b", 0x1100), text("c", 0x1200, 0x10), text("d", 0x1F00))
    assert at(symbols, 0x10FF) == "a+0xff"
    assert at(symbols, 0x11FF) == "b+0xff"
    assert at(symbols, 0x1210) is None
    assert at(symbols, 0x1FFF) == "d+0xff"
    assert at(symbols, 0x2000) is None


def test_the_best_of_one_address() -> None:
    label = text("label", 0x1000, 0x20, type=STT_NOTYPE)
    local = text("local", 0x1000, 0x20, binding=STB_LOCAL)
    unsized = text("unsized", 0x1000)
    best = text("best", 0x1000, 0x20)
    assert at(table(label, local, unsized, best), 0x1004) == "best+0x4"
    assert at(table(label, local, unsized), 0x1004) == "local+0x4"
    assert at(table(label, unsized), 0x1004) == "unsized+0x4"
    assert at(table(label), 0x1004) == "label+0x4"
    assert at(table(text("i", 0x1000, 8, type=STT_GNU_IFUNC), label), 0x1000) == "i+0x0"


def test_labels_inside_functions_are_part_of_them() -> None:
    symbols = table(
        text("f", 0x1000, 0x100), text("inside", 0x1040, type=STT_NOTYPE), text("after", 0x1100, type=STT_NOTYPE)
    )
    assert at(symbols, 0x1050) == "f+0x50"
    assert at(symbols, 0x1100) == "after+0x0"


def test_nested_functions() -> None:
    symbols = table(text("outer", 0x1000, 0x100), text("inner", 0x1020, 0x20), text("unsized", 0x1080))
    assert at(symbols, 0x1021) == "inner+0x1"
    assert at(symbols, 0x1040) == "outer+0x40"
    assert at(symbols, 0x10FF) == "unsized+0x7f"
    assert at(symbols, 0x1100) is None


def test_what_is_no_function() -> None:
    symbols = table(
        Sym("object", 0x1000, 8, ".text", 1),
        Sym("", 0x1000, 0, ".text", STT_SECTION, 0),
        text("$x", 0x1000, type=STT_NOTYPE),
        text("$d.1", 0x1000, type=STT_NOTYPE),
        text(".L0 ", 0x1000, type=STT_NOTYPE),
        Sym("data", 0, 8, ".data", STT_NOTYPE),
        Sym("undefined", 0, 0, 0, STT_FUNC),
    )
    assert list(symbols.functions()) == []
    assert at(symbols, 0x1000) is None


def test_thumb_functions_have_even_addresses() -> None:
    symbols = table(text("thumb", 0x1001, 0x10), bits=32, machine=40)
    assert at(symbols, 0x1000) == "thumb+0x0"


def test_symbols_of_a_relocatable_file_are_relative_to_their_sections() -> None:
    sections = [Code(".text", bytes(0x100)), Code(".text.two", bytes(0x40))]
    given = [text("a", 0, 0x10), text("long", 0xF0, 0x4000)]
    given += [Sym("b", 0, 0x20, ".text.two"), Sym("c", 0x30, 0, ".text.two")]
    elf = ElfFile.from_bytes(elf_file(sections, symbols=given, type=1))
    symbols = elf.symbols()
    first, second = elf.sections[1].address, elf.sections[2].address
    assert at(symbols, first + 4) == "a+0x4"
    assert at(symbols, second + 4) == "b+0x4"
    assert at(symbols, second + 0x3F) == "c+0xf"
    for nowhere in (0, 4, first - 1, first + 0x18, first + 0x100, second - 1, second + 0x20, second + 0x40):
        assert at(symbols, nowhere) is None
    assert [symbol.address for symbol in symbols.named("c")] == [second + 0x30]
    assert list(symbols.function_starts(2)) == [second, second + 0x30]


def test_names() -> None:
    names = ["foo", "foo.isra.0", "foo.cold", "foobar", "bar.part.0"]
    symbols = table(*(text(name, 0x1000 + 16 * i, 16) for i, name in enumerate(names)), text("foo", 0x1F00, 1))
    assert [s.name for s in symbols.names_starting_with("foo.")] == ["foo.isra.0", "foo.cold"]
    assert [s.address for s in symbols.named("foo")] == [0x1000, 0x1F00]
    assert symbols.named("fo") == []
    assert symbols.named("") == []
    assert [s.name for s in symbols.functions()] == [*names, "foo"]


def test_a_file_without_symbols() -> None:
    symbols = ElfFile.from_bytes(elf_file([])).symbols()
    assert len(symbols) == 0
    assert list(symbols) == []
    assert symbols.lookup(0) is None
    assert symbols.named("x") == []
    assert symbols.names_starting_with("") == []


@given(
    st.lists(
        st.tuples(
            st.integers(0x1000, 0x1040),
            st.integers(0, 0x20),
            st.sampled_from([STT_NOTYPE, STT_FUNC]),
            st.sampled_from([STB_LOCAL, STB_GLOBAL]),
        ),
        max_size=12,
    )
)
def test_sized_functions_are_found_as_a_plain_search_finds_them(entries: list[tuple[int, int, int, int]]) -> None:
    symbols = table(*(text(f"s{i}", a, size, type=t, binding=b) for i, (a, size, t, b) in enumerate(entries)))
    for address in range(0x1000, 0x1064):
        found = symbols.lookup(address)
        sized = [a for a, size, _, _ in entries if size and a <= address < a + size]
        if found is None:
            assert not sized
        else:
            assert found[0].address + found[1] == address
            if found[0].size:
                assert found[0].address == max(sized)


@pytest.mark.parametrize("path", [sys.executable, "/lib/x86_64-linux-gnu/libc.so.6"])
def test_agrees_with_readelf(path: str) -> None:
    symbols = ElfFile.open(path).symbols()
    lines = subprocess.run(["readelf", "-sW", path], capture_output=True, text=True, check=True).stdout.splitlines()
    name = symbols.section.name if symbols.section else ""
    start = next(i for i, line in enumerate(lines) if f"'{name}'" in line)
    rows = [line.split() for line in lines[start + 2 : start + 2 + len(symbols)]]
    assert len(rows) == len(symbols) > 1
    for row, symbol in zip(rows[1:], symbols, strict=True):
        assert int(row[1], 16) == symbol.address
        assert int(row[2], 0) == symbol.size
        if len(row) > 7 and symbol.type != STT_SECTION:
            assert row[7].split("@")[0] == symbol.name.split("@")[0]


def test_names_are_found_alike_by_few_searches_and_by_many() -> None:
    """At first all names are gone over, then they are hashed."""
    rnd = random.Random(20263)
    for _ in range(50):
        names = ["".join(rnd.choices("ab", k=rnd.choice((1, 2, 3, 255, 256, 257)))) for _ in range(40)]
        symbols = [Sym(name, 0x1000 + number, 1, ".text") for number, name in enumerate(names)]
        for asked in (*rnd.sample(names, 5), "a" * 300, "b" * 256, "c"):
            found = table(*symbols)
            first = found.named(asked)
            for _ in range(6):
                assert found.named(asked) == first
            assert {symbol.address - 0x1000 for symbol in first} == {
                number for number, name in enumerate(names) if name == asked
            }
