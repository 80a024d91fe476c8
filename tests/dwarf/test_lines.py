"""Line programs, from small ones written here."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.dwarf.lines import LineProgram, LineRows, LineTable, Position, RowFlag, position
from inlinetrace.errors import FormatError, UnsupportedError
from tests.dwarf.writers_frames import uleb
from tests.dwarf.writers_lines import LineWriter


def rows_of(program: LineProgram) -> list[tuple[int, int, int]]:
    rows = LineRows(*program.rows)
    return list(zip(rows.address, rows.view, rows.line, strict=True))


def simple(writer: LineWriter | None = None) -> LineWriter:
    """Rows at 0x1000 (two), 0x1004, 0x100c; the sequence ends at 0x1010."""
    writer = writer or LineWriter()
    writer.set_address(0x1000)
    writer.advance_line(9)
    writer.set_column(3)
    writer.copy()
    writer.row(line=1)
    writer.row(advance=4, line=1)
    writer.row(advance=8, line=-2)
    writer.end(advance=4)
    return writer


def test_rows_of_a_sequence() -> None:
    program = LineProgram(simple().data, 0)
    rows = LineRows(*program.rows)
    assert rows_of(program) == [(0x1000, 0, 10), (0x1000, 1, 11), (0x1004, 0, 12), (0x100C, 0, 10), (0x1010, 0, 10)]
    assert list(rows.column) == [3] * 5
    assert list(rows.flags) == [RowFlag.IS_STMT] * 4 + [RowFlag.IS_STMT | RowFlag.END_SEQUENCE]
    assert program.sequences == [(0x1000, 0x1010)]
    assert len(program) == 5


@pytest.mark.parametrize("version", [2, 3, 4, 5])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("address_size", [4, 8])
def test_versions_widths_and_byte_orders(version: int, wide: bool, little_endian: bool, address_size: int) -> None:
    writer = simple(LineWriter(version=version, wide=wide, little_endian=little_endian, address_size=address_size))
    data = bytes(7) + writer.data
    program = LineProgram(data, 7, little_endian=little_endian, address_size=address_size)
    assert rows_of(program)[2:4] == [(0x1004, 0, 12), (0x100C, 0, 10)]
    assert (program.version, program.address_size, program.end) == (version, address_size, len(data))
    assert program.offset_size == (8 if wide else 4)


def test_find_takes_the_last_of_the_rows_at_one_address() -> None:
    program = LineProgram(simple().data, 0)
    assert program.find(0xFFF) is None
    assert program.find(0x1000) == (1, 11, 3)
    assert program.find(0x1003) == (1, 11, 3)
    assert program.find(0x1004) == (1, 12, 3)
    assert program.find(0x100F) == (1, 10, 3)
    assert program.find(0x1010) is None


def test_has_row_asks_for_address_and_view() -> None:
    program = LineProgram(simple().data, 0)
    asked = [(0x1000, 0), (0x1000, 1), (0x1000, 2), (0x1002, 0), (0x100C, 0), (0x1010, 0), (0x1000, 2**40)]
    assert [program.has_row(*pair) for pair in asked] == [True, True, False, False, True, False, False]


def test_next_row_stays_in_the_sequence() -> None:
    writer = simple()
    writer.set_address(0x1010)
    writer.copy()
    writer.end(advance=4)
    program = LineProgram(writer.data, 0)
    asked = [0xFFF, 0x1000, 0x1001, 0x1004, 0x100C, 0x1010, 0x1014]
    assert [program.next_row(address) for address in asked] == [None, 0x1004, 0x1004, 0x100C, None, None, None]


def test_first_row_at_or_after_looks_into_the_next_sequence() -> None:
    writer = simple()
    writer.set_address(0x2000)
    writer.copy()
    writer.end(advance=4)
    program = LineProgram(writer.data, 0)
    asked = [0, 0x1000, 0x1001, 0x100C, 0x100D, 0x1010, 0x2000, 0x2001]
    expected = [0x1000, 0x1000, 0x1004, 0x100C, 0x2000, 0x2000, 0x2000, None]
    assert [program.first_row_at_or_after(address) for address in asked] == expected


def test_views_restart_when_the_address_moves_and_at_set_address() -> None:
    writer = LineWriter()
    writer.set_address(0x1000)
    writer.copy()
    writer.copy()
    writer.advance_pc(0)
    writer.copy()
    writer.advance_pc(1)
    writer.copy()
    writer.copy()
    writer.const_add_pc()
    writer.copy()
    writer.copy()
    writer.set_address(0x1012)
    writer.copy()
    writer.end()
    assert rows_of(LineProgram(writer.data, 0)) == [
        (0x1000, 0, 1),
        (0x1000, 1, 1),
        (0x1000, 2, 1),
        (0x1001, 0, 1),
        (0x1001, 1, 1),
        (0x1012, 0, 1),
        (0x1012, 1, 1),
        (0x1012, 0, 1),
        (0x1012, 1, 1),
    ]


def test_views_go_on_over_fixed_advance_pc() -> None:
    writer = LineWriter()
    writer.set_address(0x1000)
    writer.copy()
    writer.fixed_advance_pc(0)
    writer.copy()
    writer.fixed_advance_pc(6)
    writer.copy()
    writer.end()
    program = LineProgram(writer.data, 0)
    assert [row[:2] for row in rows_of(program)] == [(0x1000, 0), (0x1000, 1), (0x1006, 2), (0x1006, 3)]
    assert program.has_row(0x1006, 2)
    assert not program.has_row(0x1006, 0)


def test_instruction_length_is_a_factor() -> None:
    writer = simple(LineWriter(min_instruction_length=4))
    assert [row[0] for row in rows_of(LineProgram(writer.data, 0))] == [0x1000, 0x1000, 0x1010, 0x1030, 0x1040]


def test_operations_of_a_vliw_machine() -> None:
    writer = LineWriter(min_instruction_length=16, max_operations=3)
    writer.set_address(0x1000)
    for _ in range(4):
        writer.row(advance=2)
    writer.advance_pc(4)
    writer.copy()
    writer.end()
    assert [row[:2] for row in rows_of(LineProgram(writer.data, 0))] == [
        (0x1000, 0),
        (0x1010, 0),
        (0x1020, 0),
        (0x1020, 1),
        (0x1040, 0),
        (0x1040, 1),
    ]


def test_flags_last_for_one_row_but_is_stmt_stays() -> None:
    writer = LineWriter(default_is_stmt=False)
    writer.set_address(0x1000)
    writer.basic_block()
    writer.raw(b"\x0a\x0b\x0c\x05")
    writer.copy()
    writer.negate_stmt()
    writer.row(advance=1)
    writer.row(advance=1)
    writer.end()
    flags = LineRows(*LineProgram(writer.data, 0).rows).flags
    first = RowFlag.BASIC_BLOCK | RowFlag.PROLOGUE_END | RowFlag.EPILOGUE_BEGIN
    statement = RowFlag.IS_STMT
    assert list(flags) == [first, statement, statement, statement | RowFlag.END_SEQUENCE]


def test_unknown_instructions_are_skipped_by_their_length() -> None:
    writer = LineWriter(extra_operands=bytes([2]))
    writer.set_address(0x1000)
    writer.raw(b"\x0d" + uleb(1000) + uleb(1))
    writer.extended(4, uleb(700))
    writer.extended(0x80, b"\x01\x02\x03")
    writer.extended(0xFF)
    writer.raw(b"\0\0")
    writer.copy()
    writer.end()
    assert rows_of(LineProgram(writer.data, 0)) == [(0x1000, 0, 1), (0x1000, 1, 1)]


def test_registers_start_afresh_with_each_sequence() -> None:
    writer = simple()
    writer.set_address(0x2000)
    writer.set_file(7)
    writer.copy()
    writer.end()
    program = LineProgram(writer.data, 0)
    assert rows_of(program)[-2] == (0x2000, 0, 1)
    assert list(LineRows(*program.rows).file) == [1] * 5 + [7, 7]
    assert list(LineRows(*program.rows).column)[-2:] == [0, 0]


def test_rows_out_of_order_are_still_found() -> None:
    writer = LineWriter()
    for address, line in ((0x2000, 1), (0x1000, 2), (0x1008, 3)):
        writer.set_address(address)
        writer.advance_line(line)
        writer.copy()
        writer.row(advance=4)
    writer.end(advance=4)
    program = LineProgram(writer.data, 0)
    assert program.has_row(0x2000)
    assert program.has_row(0x1000)
    assert program.find(0x2000) == (1, 2, 0)
    assert program.find(0x1005) == (1, 4, 0)
    assert program.find(0x100D) == (1, 7, 0)
    assert program.sequences == [(0x1000, 0x1010), (0x2000, 0x2004)]


@pytest.mark.parametrize("dead", [0, 2**64 - 1])
def test_what_a_linker_dropped_does_not_hide_what_it_kept(dead: int) -> None:
    writer = LineWriter()
    writer.set_address(dead)
    writer.advance_line(500)
    writer.copy()
    writer.row(advance=1)
    writer.end(advance=0x4000)
    program = LineProgram(simple(writer).data, 0)
    assert program.find(0x1004) == (1, 12, 3)
    assert program.has_row(0x1000, 1)
    assert program.next_row(0x1000) == 0x1004


def test_a_program_without_rows() -> None:
    program = LineProgram(LineWriter().data, 0)
    assert len(program) == 0
    assert program.find(0) is None
    assert program.next_row(0) is None
    assert program.first_row_at_or_after(0) is None
    assert not program.has_row(0)


def test_file_names_of_version_4() -> None:
    writer = LineWriter(
        version=4,
        directories=["include", "/usr/include", "./arch//x86/.", "/src/lib"],
        files=[("main.c", 0), ("a.h", 1), ("stdio.h", 2), ("b.h", 3), ("/abs/c.h", 1), ("d.c", 4), ("../e.c", 0)],
    )
    program = LineProgram(writer.data, 0, comp_dir="/src")
    assert program.file_name(0) is None
    assert program.files == [
        "main.c",
        "include/a.h",
        "/usr/include/stdio.h",
        "arch/x86/b.h",
        "/abs/c.h",
        "lib/d.c",
        "../e.c",
    ]
    assert program.file_name(8) is None
    assert program.directory_name(2) == "/usr/include"
    assert program.directory_name(5) is None


def test_file_names_of_version_5() -> None:
    writer = LineWriter(
        directories=["/src", "include", "/usr/include", "/src/lib"],
        files=[("main.c", 0), ("main.c", 0), ("a.h", 1), ("stdio.h", 2), ("./x/d.c", 3)],
    )
    inside = LineProgram(writer.data, 0, comp_dir="/src")
    assert inside.files == ["main.c", "main.c", "include/a.h", "/usr/include/stdio.h", "lib/x/d.c"]
    assert inside.file_count == 5
    assert LineProgram(writer.data, 0).files[:3] == ["/src/main.c", "/src/main.c", "include/a.h"]
    elsewhere = LineProgram(writer.data, 0, comp_dir="/other")
    assert elsewhere.file_name(0) == "/src/main.c"


def test_files_that_the_program_defines() -> None:
    writer = LineWriter(version=3, files=[("a.c", 1)])
    writer.extended(3, b"late.c\0" + uleb(1) + b"\0\0")
    writer.extended(3, b"later.c\0" + uleb(0) + b"\0\0")
    program = LineProgram(writer.data, 0, comp_dir="/src")
    assert program.files == ["a.c", "late.c", "later.c"]


def test_every_form_of_version_5() -> None:
    directories = bytes([1, 1, 0x1F]) + uleb(1) + (5).to_bytes(4, "little")
    formats = [(1, 0x0E), (2, 0x0F), (5, 0x1E), (3, 0x06), (4, 0x09), (0x2001, 0x08)]
    files = bytes([len(formats)]) + b"".join(uleb(content) + uleb(form) for content, form in formats) + uleb(1)
    files += (3).to_bytes(4, "little") + uleb(0) + bytes(16) + bytes(4) + b"\x02ab" + b"int x;\0"
    writer = simple(LineWriter(tables=directories + files))
    program = LineProgram(writer.data, 0, line_str=b"junk\0/src\0", strings=b"ab\0x.c\0", comp_dir="/src")
    assert program.files == ["x.c"]
    assert rows_of(program)[0] == (0x1000, 0, 10)


@pytest.mark.parametrize(("form", "size"), [(0x1A, 1), (0x25, 1), (0x26, 2), (0x27, 3), (0x28, 4)])
def test_names_by_index(form: int, size: int) -> None:
    tables = (
        bytes([1, 1, 0x08]) + uleb(1) + b"/src\0" + bytes([1, 1]) + uleb(form) + uleb(1) + (1).to_bytes(size, "little")
    )
    offsets = bytes(8) + (0).to_bytes(4, "little") + (3).to_bytes(4, "little")
    data = LineWriter(tables=tables).data
    program = LineProgram(data, 0, strings=b"ab\0x.c\0", string_offsets=offsets, string_offsets_base=8)
    assert program.files == ["/src/x.c"]
    missing = LineProgram(data, 0, strings=b"ab\0x.c\0", string_offsets=offsets, string_offsets_base=12)
    with pytest.raises(FormatError, match="index 1"):
        missing.file_name(0)


def test_positions_name_the_file() -> None:
    program = LineProgram(simple(LineWriter(version=4, files=[("a.c", 0)])).data, 0)
    assert position(program, 0x1004) == Position("a.c", 12, 3)
    assert position(program, 0x1010) is None


def test_a_section_has_several_programs() -> None:
    first, second = simple().data, simple(LineWriter(version=3)).data
    table = LineTable(first + second, path="vmlinux")
    assert [(program.offset, program.version) for program in table.programs()] == [(0, 5), (len(first), 3)]
    assert table.program(len(first), "/src").file_name(1) == "a.c"


def test_threads_may_share_a_program() -> None:
    writer = LineWriter()
    writer.set_address(0x1000)
    for _ in range(100_000):
        writer.row(advance=1)
    writer.end()
    program = LineProgram(writer.data, 0)
    found: list[tuple[int, int, int] | None] = []
    threads = [threading.Thread(target=lambda: found.append(program.find(0x2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(1, 1, 0)] * 4


@pytest.mark.parametrize("version", [0, 1, 6, 0xFFFF])
def test_an_unknown_version_is_named(version: int) -> None:
    data = bytearray(LineWriter().data)
    data[4:6] = version.to_bytes(2, "little")
    with pytest.raises(UnsupportedError, match=f"version {version}"):
        LineProgram(data, 0)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (bytes([0]) + uleb(5), "without content"),
        (bytes([1, 1, 0x0F]) + uleb(1) + b"\x01", "form that is not allowed"),
        (bytes([1, 1, 0x19]) + uleb(1), "form that is not allowed"),
        (bytes([1, 1, 0x08]) + uleb(2**60) + b"/src\0", "truncated|no end"),
        (bytes([1, 1, 0x08]) + uleb(1) + b"/src", "no end"),
    ],
)
def test_malformed_name_tables_leave_the_rows_alone(tables: bytes, message: str) -> None:
    program = LineProgram(simple(LineWriter(tables=tables)).data, 0, path="a.out")
    with pytest.raises(FormatError, match=message) as caught:
        program.file_name(1)
    assert (caught.value.path, caught.value.section) == ("a.out", ".debug_line")
    assert program.find(0x1004) == (1, 12, 3)


def test_a_name_outside_of_its_section() -> None:
    tables = bytes([1, 1, 0x1F]) + uleb(1) + (500).to_bytes(4, "little") + bytes([1, 1, 0x08]) + uleb(1) + b"a.c\0"
    data = LineWriter(tables=tables).data
    for line_str in (None, b"", b"short\0"):
        with pytest.raises(FormatError, match="outside") as caught:
            LineProgram(data, 0, line_str=line_str).file_name(0)
        assert (caught.value.section, caught.value.offset) == (".debug_line_str", 500)
    with pytest.raises(FormatError, match="no end"):
        LineProgram(data, 0, line_str=bytes(500) + b"endless").file_name(0)


def test_a_file_in_a_directory_that_is_not_there() -> None:
    program = LineProgram(LineWriter(files=[("a.c", 9)]).data, 0)
    with pytest.raises(FormatError, match="directory 9"):
        program.file_name(0)


@pytest.mark.parametrize(
    "program", [b"\x00\x09\x02\x00", b"\x00\x01\x02", b"\x00\x0a\x02" + bytes(9), b"\x02\x80", b"\x09\x01"]
)
def test_malformed_programs(program: bytes) -> None:
    writer = LineWriter()
    writer.raw(program)
    table = LineProgram(writer.data, 0, path="a.out")
    with pytest.raises(FormatError) as caught:
        table.find(0)
    assert caught.value.path == "a.out"
    assert caught.value.offset is not None
    assert caught.value.offset <= len(writer.data)


@pytest.mark.parametrize("field", [4, 5, 8, 9, 10])
def test_headers_that_cannot_be(field: int) -> None:
    """Line range 0, opcode base 0, no operations per instruction; header lengths beyond the unit."""
    data = bytearray(LineWriter().data)
    start = 4 + 2 + 2 + 4
    if field == 9:
        data[8:12] = b"\xff\xff\xff\xff"
    elif field == 10:
        data[8:12] = bytes(4)
    else:
        data[start + {4: 4, 5: 5, 8: 1}[field]] = 0
    with pytest.raises(FormatError) as caught:
        LineProgram(data, 0)
    assert caught.value.section == ".debug_line"


def test_every_truncation_is_an_error() -> None:
    whole = simple().data
    for size in range(len(whole)):
        with pytest.raises(FormatError):
            LineProgram(whole[:size], 0)
    with pytest.raises(FormatError):
        LineProgram(whole, len(whole) + 50)


def exercise(data: bytes | bytearray) -> None:
    """Ask everything; only the package's errors may come out, and each row must be found again."""
    try:
        program = LineProgram(data, 0, line_str=b"/src\0", strings=b"a.c\0", comp_dir="/src")
    except (FormatError, UnsupportedError):
        return
    for ask in (lambda: program.find(0x1004), lambda: program.files, lambda: program.rows):
        try:
            ask()
        except FormatError:
            continue
    try:
        rows = LineRows(*program.rows)
    except FormatError:
        return
    for address, view, flags in zip(rows.address, rows.view, rows.flags, strict=True):
        assert flags & RowFlag.END_SEQUENCE or program.has_row(address, view)
        following = program.next_row(address)
        assert following is None or following > address
        if not flags & RowFlag.END_SEQUENCE:
            assert program.first_row_at_or_after(address) == address


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=6), st.sampled_from([2, 4, 5])
)
def test_damaged_tables_never_do_worse_than_a_format_error(changes: list[tuple[int, int]], version: int) -> None:
    data = bytearray(simple(LineWriter(version=version)).data)
    for at, value in changes:
        data[at % len(data)] = value
    exercise(data)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=150))
def test_any_program_can_be_asked(program: bytes) -> None:
    writer = LineWriter()
    writer.raw(program)
    exercise(writer.data)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.lists(st.integers(0, 3), min_size=1, max_size=5)), max_size=6))
def test_overlapping_sequences_are_as_if_all_were_tried(sequences: list[tuple[int, list[int]]]) -> None:
    writer = LineWriter()
    for start, steps in sequences:
        writer.set_address(start)
        for step in steps:
            writer.row(advance=step, line=1)
        writer.end(advance=2)
    program = LineProgram(writer.data, 0)
    rows = LineRows(*program.rows)
    ends = [bool(flags & RowFlag.END_SEQUENCE) for flags in rows.flags]
    real = {(address, view) for address, view, end in zip(rows.address, rows.view, ends, strict=True) if not end}
    for address in range(35):
        assert [program.has_row(address, view) for view in range(6)] == [(address, view) in real for view in range(6)]
        later = [at for at, _ in real if at >= address]
        assert program.first_row_at_or_after(address) == min(later, default=None)
        covering: list[tuple[int, int, int, int]] = []
        first = 0
        for index, end in enumerate(ends):
            if not end:
                continue
            for row in range(first, index):
                if rows.address[row] <= address < rows.address[row + 1]:
                    covering.append((rows.address[first], first, row, index))
            first = index + 1
        if not covering:
            assert program.find(address) is None
            assert program.next_row(address) is None
            continue
        _, _, row, last = max(covering)
        assert program.find(address) == (rows.file[row], rows.line[row], rows.column[row])
        assert program.next_row(address) == (rows.address[row + 1] if row + 1 < last else None)


def test_many_overlaps_cost_no_time() -> None:
    writer = LineWriter()
    writer.set_address(0)
    writer.copy()
    writer.end(advance=0x1000000)
    for _ in range(30_000):
        writer.set_address(0x10)
        writer.copy()
        writer.end(advance=1)
    program = LineProgram(writer.data, 0)
    for address in range(0x10, 30_000):
        assert program.has_row(address, 0) == (address == 0x10)
        assert program.find(address) == (1, 1, 0)
        assert program.next_row(address) is None
