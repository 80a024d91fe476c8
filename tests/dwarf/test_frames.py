"""Call frame tables, from small ones written here."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.dwarf.frames import CallFrames, FrameTable, RegisterRule, RuleKind
from inlinetrace.errors import FormatError
from tests.dwarf.writers_frames import (
    NOP,
    REMEMBER,
    RESTORE,
    FrameWriter,
    advance,
    def_cfa,
    def_cfa_expression,
    def_cfa_offset,
    def_cfa_offset_sf,
    def_cfa_register,
    def_cfa_sf,
    offset,
    restore,
    sleb,
    uleb,
)

RSP, RBP, RBX, RA = 7, 6, 3, 16
ENTRY = def_cfa(RSP, 8) + offset(RA, 1)


def debug_frame(writer: FrameWriter) -> FrameTable:
    return FrameTable(
        writer.data,
        eh=False,
        section=".debug_frame",
        address_size=writer.address_size,
        little_endian=writer.order == "little",
    )


def eh_frame(writer: FrameWriter, text_address: int | None = None, data_address: int | None = None) -> FrameTable:
    return FrameTable(
        writer.data,
        eh=True,
        section=".eh_frame",
        address=writer.address,
        text_address=text_address,
        data_address=data_address,
    )


def one_function(program: bytes, entry: bytes = ENTRY) -> FrameTable:
    writer = FrameWriter(eh=False)
    writer.fde(writer.cie(entry), 0x1000, 0x100, program)
    return debug_frame(writer)


def test_a_row_begins_at_its_location_and_ends_before_the_next() -> None:
    table = one_function(
        advance(1)
        + def_cfa_offset(16)
        + offset(RBP, 2)
        + advance(3)
        + def_cfa_register(RBP)
        + advance(40)
        + def_cfa(RSP, 8)
    )
    assert [table.cfa(pc) for pc in (0x1000, 0x1001, 0x1003, 0x1004, 0x102B, 0x102C, 0x10FF)] == [
        (RSP, 8),
        (RSP, 16),
        (RSP, 16),
        (RBP, 16),
        (RBP, 16),
        (RSP, 8),
        (RSP, 8),
    ]


def test_nothing_covers_an_address_outside_of_all_functions() -> None:
    frames = CallFrames([one_function(b"")])
    for pc in (0, 0xFFF, 0x1100, 2**64 - 1):
        assert frames.cfa(pc) is None
        assert frames.register_rule(pc, RBP) is None
        assert frames.function_range(pc) is None
        assert frames.return_register(pc) is None
    assert frames.function_range(0x10FF) == (0x1000, 0x1100)
    assert frames.return_register(0x10FF) == RA


def test_an_empty_section_has_no_functions() -> None:
    table = FrameTable(b"", eh=False, section=".debug_frame")
    assert len(table) == 0
    assert table.cfa(0) is None


def test_a_function_without_a_cfa_rule_has_none() -> None:
    assert one_function(NOP, entry=b"").cfa(0x1000) is None


def test_the_forms_that_advance() -> None:
    table = one_function(
        b"\x02"
        + bytes([2])
        + def_cfa_offset(1)
        + b"\x03"
        + struct.pack("<H", 4)
        + def_cfa_offset(2)
        + b"\x04"
        + struct.pack("<I", 8)
        + def_cfa_offset(3)
        + b"\x1d"
        + struct.pack("<Q", 16)
        + def_cfa_offset(4)
        + b"\x01"
        + struct.pack("<Q", 0x1040)
        + def_cfa_offset(5)
    )
    starts = (0x1000, 0x1002, 0x1006, 0x100E, 0x101E, 0x1040)
    assert [table.cfa(pc) for pc in starts] == [(RSP, n) for n in (8, 1, 2, 3, 4, 5)]
    assert [table.cfa(pc - 1) for pc in starts[1:]] == [(RSP, n) for n in (8, 1, 2, 3, 4)]


def test_code_and_data_alignment_are_factors() -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY, code_alignment=4, data_alignment=-4)
    writer.fde(cie, 0x1000, 0x100, advance(2) + def_cfa_offset_sf(-3) + advance(1) + def_cfa_sf(31, -8) + offset(19, 5))
    table = debug_frame(writer)
    assert table.cfa(0x1007) == (RSP, 8)
    assert table.cfa(0x1008) == (RSP, 12)
    assert table.cfa(0x100C) == (31, 32)
    assert table.register_rule(0x100C, 19) == (RuleKind.OFFSET, -20)


def test_remembered_states_nest() -> None:
    table = one_function(
        advance(1)
        + def_cfa_offset(16)
        + offset(RBX, 2)
        + REMEMBER
        + advance(1)
        + def_cfa_offset(24)
        + REMEMBER
        + advance(1)
        + def_cfa_offset(32)
        + restore(RBX)
        + advance(1)
        + RESTORE
        + advance(1)
        + RESTORE
    )
    assert [table.cfa(pc) for pc in range(0x1000, 0x1006)] == [(RSP, n) for n in (8, 16, 24, 32, 24, 16)]
    frames = CallFrames([table])
    assert [frames.register_rule(pc, RBX) for pc in range(0x1002, 0x1006)] == [
        RegisterRule(RuleKind.OFFSET, -16),
        RegisterRule(RuleKind.UNSPECIFIED),
        RegisterRule(RuleKind.OFFSET, -16),
        RegisterRule(RuleKind.OFFSET, -16),
    ]


@pytest.mark.parametrize(
    ("instruction", "rule"),
    [
        (b"\x05" + uleb(200) + uleb(3), RegisterRule(RuleKind.OFFSET, -24)),
        (b"\x11" + uleb(200) + sleb(-3), RegisterRule(RuleKind.OFFSET, 24)),
        (b"\x2f" + uleb(200) + uleb(3), RegisterRule(RuleKind.OFFSET, 24)),
        (b"\x14" + uleb(200) + uleb(3), RegisterRule(RuleKind.VAL_OFFSET, -24)),
        (b"\x15" + uleb(200) + sleb(-3), RegisterRule(RuleKind.VAL_OFFSET, 24)),
        (b"\x07" + uleb(200), RegisterRule(RuleKind.UNDEFINED)),
        (b"\x08" + uleb(200), RegisterRule(RuleKind.SAME_VALUE)),
        (b"\x09" + uleb(200) + uleb(5), RegisterRule(RuleKind.REGISTER, 5)),
        (b"\x10" + uleb(200) + b"\x02\x77\x08", RegisterRule(RuleKind.EXPRESSION, b"\x77\x08")),
        (b"\x16" + uleb(200) + b"\x02\x77\x08", RegisterRule(RuleKind.VAL_EXPRESSION, b"\x77\x08")),
        (b"\x08" + uleb(200) + b"\x06" + uleb(200), RegisterRule(RuleKind.UNSPECIFIED)),
        (b"\x08" + uleb(201), RegisterRule(RuleKind.UNSPECIFIED)),
        (b"\x10" + uleb(201) + b"\x02\x77\x08", RegisterRule(RuleKind.UNSPECIFIED)),
        (b"\x2e" + uleb(300), RegisterRule(RuleKind.UNSPECIFIED)),
        (b"\x2d", RegisterRule(RuleKind.UNSPECIFIED)),
    ],
)
def test_register_rules_and_that_each_instruction_has_its_length(instruction: bytes, rule: RegisterRule) -> None:
    frames = CallFrames([one_function(advance(1) + instruction + def_cfa_offset(48))])
    assert frames.register_rule(0x1000, 200) == RegisterRule(RuleKind.UNSPECIFIED)
    assert frames.register_rule(0x1001, 200) == rule
    assert frames.cfa(0x1001) == (RSP, 48)


def test_a_cfa_may_be_an_expression() -> None:
    table = one_function(advance(4) + def_cfa_expression(b"\x76\x78\x06") + advance(4) + def_cfa(RSP, 8))
    assert table.cfa(0x1004) == b"\x76\x78\x06"
    assert table.cfa(0x1008) == (RSP, 8)


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("address_size", [4, 8])
def test_versions_widths_and_byte_orders(version: int, wide: bool, little_endian: bool, address_size: int) -> None:
    writer = FrameWriter(eh=False, little_endian=little_endian, address_size=address_size)
    cie = writer.cie(ENTRY, version=version, wide=wide)
    writer.fde(cie, 0xC0001000, 0x100, advance(1) + def_cfa_offset(16), wide=wide)
    table = debug_frame(writer)
    assert table.function_range(0xC0001010) == (0xC0001000, 0xC0001100)
    assert table.cfa(0xC0001001) == (RSP, 16)


def test_an_entry_of_version_4_has_its_own_address_and_segment_size() -> None:
    writer = FrameWriter(eh=False)
    writer.fde(writer.cie(ENTRY, version=4, address_size=4, segment_size=2), 0x1000, 0x10)
    assert debug_frame(writer).function_range(0x1008) == (0x1000, 0x1010)


@pytest.mark.parametrize("encoding", [0x00, 0x01, 0x02, 0x03, 0x04, 0x09, 0x0A, 0x0B, 0x0C, 0x1B, 0x1C, 0x10])
def test_pointer_encodings_of_eh_frame(encoding: int) -> None:
    writer = FrameWriter(eh=True, address=0x3000)
    cie = writer.cie(ENTRY, augmentation=b"zR", augmentation_data=bytes([encoding]), encoding=encoding)
    writer.fde(cie, 0x1000, 0x100, advance(1) + def_cfa_offset(16))
    writer.terminator()
    table = eh_frame(writer)
    assert table.function_range(0x1080) == (0x1000, 0x1100)
    assert table.cfa(0x1001) == (RSP, 16)


@pytest.mark.parametrize(("encoding", "base"), [(0x2B, "text_address"), (0x3B, "data_address")])
def test_relative_encodings_need_their_base(encoding: int, base: str) -> None:
    writer = FrameWriter(eh=True)
    writer.fde(writer.cie(ENTRY, augmentation=b"zR", augmentation_data=bytes([encoding]), encoding=0x0B), 0x10, 0x10)
    assert eh_frame(writer, **{base: 0x4000}).function_range(0x4018) == (0x4010, 0x4020)
    without = eh_frame(writer)
    assert len(without) == 0
    assert without.skipped == 1


@pytest.mark.parametrize(
    "change", [{"encoding": 0x80}, {"augmentation": b"zX"}, {"augmentation": b"q"}, {"version": 2}]
)
def test_functions_that_cannot_be_read_reliably_are_left_out(change: dict[str, object]) -> None:
    writer = FrameWriter(eh=True)
    augmentation = change.get("augmentation", b"zR")
    encoding = change.get("encoding", 0)
    version = change.get("version", 1)
    assert isinstance(augmentation, bytes)
    assert isinstance(encoding, int)
    assert isinstance(version, int)
    cie = writer.cie(ENTRY, version=version, augmentation=augmentation, augmentation_data=bytes([encoding]))
    writer.fde(cie, 0x1000, 0x10)
    writer.fde(writer.cie(ENTRY), 0x2000, 0x10)
    table = eh_frame(writer)
    assert table.functions() == [(0x2000, 0x2010)]
    assert table.skipped == 1


def test_augmentations_of_c_plus_plus_and_signal_handlers() -> None:
    writer = FrameWriter(eh=True, address=0x8000)
    data = bytes([0x9B]) + bytes(4) + bytes([0x1B, 0x1B])
    cie = writer.cie(ENTRY, augmentation=b"zPLR", augmentation_data=data, encoding=0x1B)
    writer.fde(cie, 0x1000, 0x10, advance(1) + def_cfa_offset(16), augmentation_data=bytes(4))
    writer.fde(writer.cie(ENTRY, augmentation=b"zRSB", augmentation_data=b"\x1b", encoding=0x1B), 0x2000, 0x10)
    table = eh_frame(writer)
    assert table.cfa(0x1001) == (RSP, 16)
    assert not table.is_signal_frame(0x1001)
    assert table.is_signal_frame(0x2000)


def test_a_personality_pointer_may_be_aligned() -> None:
    writer = FrameWriter(eh=True)
    pad = -(4 + 4 + 1 + 4 + 1 + 1 + 1 + 1 + 1) % 8
    data = bytes([0x50]) + bytes(pad) + bytes(8) + bytes([0x03])
    writer.fde(writer.cie(ENTRY, augmentation=b"zPR", augmentation_data=data, encoding=0x03), 0x1000, 0x10)
    assert eh_frame(writer).function_range(0x1000) == (0x1000, 0x1010)


def test_functions_after_a_terminator_count() -> None:
    writer = FrameWriter(eh=True)
    cie = writer.cie(ENTRY)
    writer.fde(cie, 0x1000, 0x10)
    writer.terminator()
    writer.fde(cie, 0x2000, 0x10)
    assert len(eh_frame(writer)) == 2


def test_of_overlapping_functions_the_greatest_start_counts() -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY)
    writer.fde(cie, 0x1000, 0x10, def_cfa_offset(24))
    writer.fde(cie, 0, 0x5000, def_cfa_offset(16))
    table = debug_frame(writer)
    assert [table.cfa(pc) for pc in (0xFFF, 0x1000, 0x100F, 0x1010)] == [(RSP, n) for n in (16, 24, 24, 16)]


def test_many_addresses_give_what_single_ones_give() -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY)
    for start in (0x3000, 0x1000, 0x2000):
        writer.fde(cie, start, 0x40, advance(4) + def_cfa_offset(16) + advance(4) + def_cfa_expression(b"\x77\x08"))
    writer.fde(writer.cie(), 0x4000, 0x10)
    table = debug_frame(writer)
    pcs = array("Q", [*range(0xFF0, 0x4020, 3), 0x1008, 0x1000])
    kinds, registers, offsets = table.cfa_many(pcs)
    assert set(kinds) == {0, 1, 2}
    for pc, kind, register, distance in zip(pcs, kinds, registers, offsets, strict=True):
        cfa = table.cfa(pc)
        if kind == 0:
            assert cfa is None
        elif kind == 1:
            assert cfa == (register, distance)
        else:
            assert cfa == writer.data[distance : distance + register]


def test_the_second_table_answers_where_the_first_has_no_function() -> None:
    first, second = FrameWriter(eh=False), FrameWriter(eh=True)
    first.fde(first.cie(ENTRY), 0x1000, 0x10)
    second.fde(second.cie(def_cfa(RSP, 16)), 0x1000, 0x20)
    frames = CallFrames([debug_frame(first), eh_frame(second)])
    assert frames.cfa(0x1008) == (RSP, 8)
    assert frames.cfa(0x1018) == (RSP, 16)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (b"\x3f", "unknown call frame instruction"),
        (RESTORE, "without DW_CFA_remember_state"),
        (REMEMBER * 65, "more than 64 remembered"),
        (b"\x01" + struct.pack("<Q", 0x900), "backwards"),
        (b"\x1d" + b"\xff" * 8, "past the end of the address space"),
        (def_cfa_expression(b"") + def_cfa_offset(8), "not register and offset"),
        (def_cfa_expression(b"") + def_cfa_register(8), "not register and offset"),
        (b"\x04\x01", "truncated"),
        (b"\x0f\x20\x01", "truncated"),
        (b"\x0e" + b"\x80" * 12 + b"\x01", "more than 64 bits"),
    ],
)
def test_a_malformed_program_is_reported_where_it_is_asked_for(program: bytes, message: str) -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY)
    writer.fde(cie, 0x2000, 0x10)
    at = writer.fde(cie, 0x1000, 0x10, program)
    table = FrameTable(writer.data, eh=False, section=".debug_frame", path="vmlinux")
    assert table.cfa(0x2000) == (RSP, 8)
    for ask in (lambda: table.cfa(0x1000), lambda: table.cfa_many(array("Q", [0x1000]))):
        with pytest.raises(FormatError, match=message) as caught:
            ask()
        assert caught.value.path == "vmlinux"
        assert caught.value.section == ".debug_frame"
        assert caught.value.offset is not None
        assert at < caught.value.offset < len(writer.data)


def test_a_common_entry_must_not_move() -> None:
    with pytest.raises(FormatError, match="moves the location"):
        one_function(b"", entry=advance(1)).cfa(0x1000)


def test_a_function_must_have_its_common_entry() -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY)
    at = writer.fde(cie, 0x1000, 0x10)
    data = bytearray(writer.data)
    data[at + 4] = 1
    with pytest.raises(FormatError, match="no common information entry") as caught:
        FrameTable(data, eh=False, section=".debug_frame").cfa(0)
    assert caught.value.offset == at


def error_of(ask: Callable[[], object]) -> FormatError | None:
    """The error that a question ends with, if any; every other exception goes through."""
    try:
        ask()
    except FormatError as error:
        return error
    return None


def sample() -> bytes:
    writer = FrameWriter(eh=True)
    data = bytes([0x9B]) + bytes(4) + bytes([0x1B, 0x1B])
    cie = writer.cie(ENTRY, augmentation=b"zPLR", augmentation_data=data, encoding=0x1B)
    body = (
        advance(1) + def_cfa_offset(16) + REMEMBER + advance(2) + def_cfa_expression(b"\x77\x08") + advance(1) + RESTORE
    )
    writer.fde(cie, 0x1000, 0x40, body, augmentation_data=bytes(4))
    writer.fde(writer.cie(ENTRY, version=3), 0x1080, 0x40, body)
    return writer.data


def test_every_truncation_is_an_error_or_a_shorter_table() -> None:
    whole = sample()
    for size in range(len(whole)):
        table = FrameTable(whole[:size], eh=True, section=".eh_frame")
        error = error_of(table.functions)
        if error is None:
            assert len(table) < 2
        else:
            assert error.offset is not None
            assert error.offset <= size


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), min_size=1, max_size=6), st.booleans())
def test_damaged_tables_never_do_worse_than_a_format_error(changes: list[tuple[int, int]], eh: bool) -> None:
    data = bytearray(sample())
    for at, value in changes:
        data[at % len(data)] = value
    table = FrameTable(data, eh=eh, section="x")
    for pc in (0x1000, 0x1003, 0x1081, 0x10BF):
        error = error_of(partial(table.cfa, pc)) or error_of(partial(table.register_rule, pc, RBX))
        assert error is None or (error.offset is not None and error.offset <= len(data))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=120))
def test_any_program_ends(program: bytes) -> None:
    table = one_function(program)
    for pc in (0x1000, 0x10FF):
        error = error_of(partial(table.cfa, pc))
        assert error is None or error.section == ".debug_frame"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30)), max_size=12))
def test_overlapping_functions_are_as_if_all_were_tried(functions: list[tuple[int, int]]) -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY)
    for start, size in functions:
        writer.fde(cie, start, size)
    table = debug_frame(writer)
    for pc in range(75):
        covering = [(start, start + size) for start, size in functions if start <= pc < start + size]
        latest = max((start for start, _ in covering), default=None)
        last = [function for function in covering if function[0] == latest][-1:]
        assert table.function_range(pc) == (last[0] if last else None)


def test_many_overlaps_cost_no_time() -> None:
    writer = FrameWriter(eh=False)
    cie = writer.cie(ENTRY)
    writer.fde(cie, 0, 0x1000000)
    for start in range(30_000):
        writer.fde(cie, start, 1)
    table = debug_frame(writer)
    kinds, _, _ = table.cfa_many(array("Q", range(0x800000, 0x800000 + 300_000)))
    assert kinds.count(1) == 300_000
