"""Whatever the bytes, the only way out besides a result is an error of this package."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.elf import ElfFile
from inlinetrace.errors import FormatError, InlineTraceError
from tests.elf.elfwriter import Code, Rel, Sec, Seg, Sym, elf_file
from tests.elf.test_file import NOTE, compressed_section


def sample(bits: int, little: bool) -> bytes:
    return elf_file(
        [
            Code(".text", bytes(32)),
            Code(".text.two", bytes(8)),
            Sec(".note.gnu.build-id", NOTE, type=7, alignment=4),
            Sec(".debug_info", bytes(24)),
            Sec(".debug_str", compressed_section(b"\x78\x9c\x03\x00\x00\x00\x00\x01", 1, 0, bits, little), flags=0x800),
            Sec(".gnu_debuglink", b"a.debug\0\1\2\3\4"),
            Sec(".gnu_debugaltlink", b"b.debug\0\1\2\3\4"),
        ],
        symbols=[Sym("a", 0, 8, ".text"), Sym("b", 4, 0, ".text.two"), Sym("a.cold", 8, 8, ".text", 0)],
        relocations={".debug_info": [Rel(0, 1, "a"), Rel(8, 1, "b", 3)], ".text": [Rel(4, 2, "b")]},
        bits=bits,
        little=little,
        machine=62 if bits == 64 else 3,
        type=1,
        segments=[Seg(0, 0, 64, 64)],
    )


SAMPLES = [sample(bits, little) for bits in (64, 32) for little in (True, False)]


def use_everything(data: bytes) -> None:
    try:
        elf = ElfFile.from_bytes(data)
    except InlineTraceError:
        return
    attempts: list[Callable[[], object]] = [
        lambda: [elf.data(section) for section in elf.sections],
        lambda: [elf.relocations(section) for section in elf.sections],
        lambda: elf.build_id,
        lambda: elf.debug_link,
        lambda: elf.debug_alt_link,
        lambda: [elf.file_offset(a) for a in (0, 8, 1 << 63)] + [elf.address_of(a) for a in (0, 8, 1 << 63)],
        lambda: [elf.section_at(a) for a in (0, 8, 1 << 63)],
        lambda: list(elf.symbols()),
        lambda: list(elf.symbols().functions()),
        lambda: [elf.symbols().lookup(a) for a in (0, 5, 9, 0x100005, 1 << 63, (1 << 64) - 1)],
        lambda: elf.symbols().named("a") + elf.symbols().names_starting_with("a."),
    ]
    for attempt in attempts:
        try:
            attempt()
        except InlineTraceError as error:
            if not str(error).startswith("<memory>") or "\n" in str(error):
                raise AssertionError(f"a poor message: {error}") from error


@pytest.mark.parametrize("data", SAMPLES)
def test_truncated_at_every_byte(data: bytes) -> None:
    use_everything(data)
    for size in range(len(data)):
        use_everything(data[:size])


@pytest.mark.parametrize("data", SAMPLES)
@pytest.mark.parametrize("value", [0, 1, 0x7F, 0xFF])
def test_every_byte_changed(data: bytes, value: int) -> None:
    for at in range(4, len(data)):
        if data[at] != value:
            use_everything(data[:at] + bytes([value]) + data[at + 1 :])


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 2000), st.binary(min_size=1, max_size=8)), max_size=6)
)
def test_mutated(data: bytes, changes: list[tuple[int, bytes]]) -> None:
    changed = bytearray(data)
    for at, new in changes:
        at %= len(data)
        changed[at : at + len(new)] = new
    use_everything(bytes(changed))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_nonsense_behind_a_magic_number(rest: bytes) -> None:
    for magic in (b"\x7fELF\2\1", b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"):
        use_everything(magic + rest)


def test_a_string_table_that_links_to_itself_and_a_symbol_table_as_its_own_strings() -> None:
    strings = Sec(".strtab", b"\0a\0", type=3, link=".strtab")
    symbols = Sec(
        ".symtab", bytes(24) + struct.pack("<IBBHQQ", 1, 2, 0, 1, 0, 8), type=2, link=".symtab", entry_size=24
    )
    use_everything(elf_file([Code(".text", bytes(8)), strings, symbols]))


def test_more_sections_than_the_file_can_hold() -> None:
    data = bytearray(elf_file([]))
    (table,) = struct.unpack_from("<Q", data, 40)
    data[60:62] = bytes(2)
    struct.pack_into("<Q", data, table + 32, 1 << 60)
    with pytest.raises(FormatError, match="do not fit") as caught:
        _ = ElfFile.from_bytes(bytes(data)).sections
    assert caught.value.offset == table


def test_long_overlapping_names_do_not_take_for_ever() -> None:
    count = 4000
    size = 1 << 20
    symbols = b"".join(struct.pack("<IBBHQQ", i, 2, 0, 1, i, 8) for i in range(count))
    strings = Sec(".strtab", b"\0" + b"a" * size + b"\0", type=3)
    data = elf_file([Code(".text", bytes(8)), strings, Sec(".symtab", symbols, type=2, link=".strtab", entry_size=24)])
    table = ElfFile.from_bytes(data).symbols()
    for _ in range(5):  # after a few searches names are hashed
        assert table.named("a" * 300) == []


def test_messages_are_one_line_whatever_the_section_is_called() -> None:
    elf = ElfFile.from_bytes(elf_file([Sec(".a\nb\x1b[31m" + "x" * 9000, b"abc", size=1 << 60)]))
    with pytest.raises(FormatError) as caught:
        elf.data(elf.sections[1])
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_very_many_equal_names_do_not_take_for_ever() -> None:
    count = 400_000
    symbols = struct.pack("<IBBHQQ", 1, 2, 0, 1, 0, 8) * count
    strings = Sec(".strtab", b"\0a\0", type=3)
    data = elf_file([Code(".text", bytes(8)), strings, Sec(".symtab", symbols, type=2, link=".strtab", entry_size=24)])
    table = ElfFile.from_bytes(data).symbols()
    for _ in range(5):
        assert table.named("b") == []
    assert table.lookup(0) is not None
