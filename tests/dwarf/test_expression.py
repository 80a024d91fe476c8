"""Decoding of DWARF expressions, held against pyelftools and against values computed by hand."""

from __future__ import annotations

import pytest
from elftools.common.exceptions import ELFParseError
from elftools.dwarf.dwarf_expr import DW_OP_name2opcode, DWARFExprParser
from elftools.dwarf.structs import DWARFStructs
from hypothesis import given
from hypothesis import strategies as st

from inlinetrace.dwarf import expression as dw
from inlinetrace.dwarf.expression import Operation, decode, name, text
from inlinetrace.elf.machine import S390X, X86_64
from inlinetrace.errors import FormatError
from tests.dwarf.expression_writer import block, number, op, sleb, uleb


def decode64(data: bytes, *, little_endian: bool = True, version: int = 5) -> tuple[Operation, ...]:
    return decode(data, address_size=8, offset_size=4, little_endian=little_endian, version=version)


def test_names_and_numbers_are_those_of_pyelftools() -> None:
    aliases = {"DW_OP_lo_user", "DW_OP_hi_user", "DW_OP_hi_reg"}
    theirs = {number: known for known, number in DW_OP_name2opcode.items() if known not in aliases}
    for opcode, known in theirs.items():
        if dw.is_known(opcode) and not known.startswith("DW_OP_WASM"):
            assert name(opcode).lower().replace("_gnu_", "_gnu_") == known.lower(), hex(opcode)
    unknown = {known for opcode, known in theirs.items() if not dw.is_known(opcode)}
    assert all("WASM" in known or known == "DW_OP_GNU_encoded_addr" for known in unknown), unknown


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (op("addr", number(0xFFFFFFFF81000000, 8)), (dw.ADDR, (0xFFFFFFFF81000000,))),
        (op("const1u", b"\xff"), (dw.CONST1U, (255,))),
        (op("const1s", b"\xff"), (dw.CONST1S, (-1,))),
        (op("const2u", b"\x00\x80"), (dw.CONST2U, (0x8000,))),
        (op("const2s", b"\x00\x80"), (dw.CONST2S, (-0x8000,))),
        (op("const4u", b"\xfe\xff\xff\xff"), (dw.CONST4U, (0xFFFFFFFE,))),
        (op("const4s", b"\xfe\xff\xff\xff"), (dw.CONST4S, (-2,))),
        (op("const8u", b"\xff" * 8), (dw.CONST8U, (2**64 - 1,))),
        (op("const8s", b"\xff" * 8), (dw.CONST8S, (-1,))),
        (op("constu", b"\xe5\x8e\x26"), (dw.CONSTU, (624485,))),
        (op("consts", b"\xc0\xbb\x78"), (dw.CONSTS, (-123456,))),
        (op("breg7", b"\x78"), (dw.BREG0 + 7, (-8,))),
        (op("bregx", b"\x21", b"\x04"), (dw.BREGX, (33, 4))),
        (op("fbreg", b"\x90\x7f"), (dw.FBREG, (-112,))),
        (op("pick", b"\x02"), (dw.PICK, (2,))),
        (op("bit_piece", b"\x03", b"\x05"), (dw.BIT_PIECE, (3, 5))),
        (op("implicit_value", b"\x02\xaa\xbb"), (dw.IMPLICIT_VALUE, (b"\xaa\xbb",))),
        (op("implicit_pointer", b"\x10\x00\x00\x00\x7f"), (dw.IMPLICIT_POINTER, (0x10, -1))),
        (op("const_type", b"\x2a\x02\x34\x12"), (dw.CONST_TYPE, (0x2A, b"\x34\x12"))),
        (op("GNU_regval_type", b"\x03", b"\xe0\x01"), (dw.GNU_REGVAL_TYPE, (3, 0xE0))),
        (op("deref_type", b"\x04", b"\x2a"), (dw.DEREF_TYPE, (4, 0x2A))),
        (op("GNU_parameter_ref", b"\x10\x20\x00\x00"), (dw.GNU_PARAMETER_REF, (0x2010,))),
    ],
)
def test_operands(data: bytes, expected: tuple[int, tuple[object, ...]]) -> None:
    (operation,) = decode64(data)
    assert (operation.opcode, operation.operands) == expected


def test_big_endian_operands() -> None:
    assert decode64(op("const2u", b"\x12\x34"), little_endian=False)[0].operands == (0x1234,)
    assert decode64(op("const4s", b"\xff\xff\xff\xfe"), little_endian=False)[0].operands == (-2,)


def test_references_have_the_size_of_an_address_in_version_2() -> None:
    data = op("GNU_implicit_pointer", number(0x10, 8), sleb(4))
    assert decode64(data, version=2)[0].operands == (0x10, 4)
    wide = decode(data, address_size=8, offset_size=8, little_endian=True, version=4)
    assert wide[0].operands == (0x10, 4)


def test_entry_value_holds_decoded_operations() -> None:
    (operation,) = decode64(op("entry_value", block(op("reg1"))))
    assert operation.operands == ((Operation(dw.REG0 + 1),),)
    assert text((operation,), X86_64) == "DW_OP_entry_value(rdx)"


def test_entry_values_nested_too_deep_are_refused() -> None:
    data = op("reg1")
    for _ in range(dw.MAXIMUM_NESTING):
        data = op("entry_value", block(data))
    assert decode64(data)
    for _ in range(10_000):
        data = op("entry_value", block(data))
    with pytest.raises(FormatError, match="nested"):
        decode64(data)


def test_branches_know_the_operation_they_go_to() -> None:
    data = (
        op("breg0", sleb(0)) + op("bra", number(2, 2)) + op("lit0") + op("lit1") + op("lit2") + op("skip", number(0, 2))
    )
    operations = decode64(data)
    assert operations[1].operands == (2, 4)
    assert operations[5].operands == (0, 6)
    backwards = decode64(op("lit0") + op("skip", number(-4, 2)))
    assert backwards[1].operands == (-4, 0)


@pytest.mark.parametrize("distance", [1, -2, 100, -100])
def test_branches_into_the_middle_or_outside_are_refused(distance: int) -> None:
    with pytest.raises(FormatError, match="no operation starts"):
        decode64(op("bra", number(distance, 2)) + op("const2u", b"\x00\x00"))


@pytest.mark.parametrize(
    "data",
    [
        op("addr", b"\x00" * 7),
        op("const8u", b"\x00" * 7),
        op("constu", b"\x80"),
        op("constu", b"\x80" * 30 + b"\x00"),
        op("breg5"),
        op("implicit_value", b"\x05abc"),
        op("implicit_value", b"\xff\xff\xff\xff\x7f"),
        op("const_type", b"\x05"),
        op("entry_value", b"\x02\x51"),
        op("entry_value", block(b"\x0b\x00")),
    ],
)
def test_malformed_expressions(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode64(op("lit1") + data)
    assert "\n" not in str(caught.value)


def test_the_error_says_where() -> None:
    with pytest.raises(FormatError) as caught:
        decode64(op("lit1") + op("lit2") + op("const4u", b"\x00"))
    assert caught.value.offset == 2


def test_a_vendor_operation_keeps_the_rest() -> None:
    operations = decode64(op("lit1") + b"\xed\x03\x01\x02")
    assert operations == (Operation(dw.LIT0 + 1), Operation(0xED, (b"\x03\x01\x02",)))
    assert text(operations, X86_64) == "DW_OP_lit1; DW_OP_<0xed>(0x030102)"


def test_text() -> None:
    data = op("breg7", sleb(8)) + op("deref") + op("plus_uconst", uleb(300)) + op("stack_value")
    assert text(decode64(data), X86_64) == "DW_OP_breg7(rsp+8); DW_OP_deref; DW_OP_plus_uconst(300); DW_OP_stack_value"
    assert text(decode64(op("regx", uleb(3))), S390X) == "DW_OP_regx(r3)"
    assert text(decode64(op("implicit_pointer", number(0x1F, 4), sleb(0))), X86_64) == "DW_OP_implicit_pointer(0x1f, 0)"


@given(st.binary(max_size=40), st.booleans(), st.sampled_from([2, 4, 5]), st.sampled_from([4, 8]))
def test_any_bytes_decode_or_raise_format_error(data: bytes, little_endian: bool, version: int, size: int) -> None:
    try:
        operations = decode(data, address_size=size, offset_size=4, little_endian=little_endian, version=version)
    except FormatError:
        return
    assert "\n" not in text(operations, X86_64)


@given(st.binary(min_size=1, max_size=12))
def test_decoding_agrees_with_pyelftools(data: bytes) -> None:
    try:
        ours = decode64(data)
    except FormatError:
        return
    # pyelftools reads a LEB128 number after GNU_variable_value; gcc and binutils a reference to .debug_info.
    if any(not dw.is_known(operation.opcode) or operation.opcode == dw.GNU_VARIABLE_VALUE for operation in ours):
        return
    structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8, dwarf_version=5)
    try:
        theirs = DWARFExprParser(structs).parse_expr(list(data))
    except (KeyError, IndexError, TypeError, ELFParseError):
        return
    assert [operation.opcode for operation in ours] == [operation.op for operation in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        if mine.opcode in (dw.BRA, dw.SKIP):
            assert mine.operands[0] == other.args[0]
        elif mine.opcode in (dw.DEREF_SIZE, dw.XDEREF_SIZE):
            # DWARF 5 section 2.5.1.3: an unsigned byte; pyelftools reads a signed one
            assert list(mine.operands) == [other.args[0] & 0xFF]
        elif all(isinstance(operand, int) for operand in mine.operands):
            assert list(mine.operands) == other.args
