"""Expressions to locations: shapes, rules and text; evaluation against a plain stack machine."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.dwarf import expression as dw
from inlinetrace.dwarf.expression import Operation
from inlinetrace.elf.machine import I386, S390X, X86_64, Machine
from inlinetrace.errors import FormatError
from inlinetrace.sites.location import Fetch, Frame, Location, Shape
from inlinetrace.sites.model import Unavailable
from inlinetrace.sites.reasons import Reason
from inlinetrace.sites.resolve import Context, Dependence, constant, resolve, resolve_traced
from tests.dwarf.expression_writer import block, number, op, sleb, uleb
from tests.sites import stack_machine

RAX, RDX, RCX, RBX, RSI, RDI, RBP, RSP = range(8)
S32, U32, S64, F64, U8, F32, S128 = 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80
TYPES = {S32: (5, 4), U32: (7, 4), S64: (5, 8), F64: (4, 8), U8: (8, 1), F32: (4, 4), S128: (5, 16)}


def context(machine: Machine = X86_64, size: int = 8, **more: object) -> Context:
    settings: dict[str, object] = {
        "machine": machine,
        "address_size": machine.address_size,
        "offset_size": 4,
        "little_endian": machine is not S390X,
        "version": 5,
        "size": size,
        "frame_base": lambda: (Operation(dw.CALL_FRAME_CFA),),
        "cfa": lambda: (RSP, 16),
        "base_type": TYPES.get,
    }
    return Context(**(settings | more))  # type: ignore[arg-type]


def located(data: bytes, size: int = 8, machine: Machine = X86_64, **more: object) -> Location:
    location = resolve(data, context(machine, size, **more))
    assert isinstance(location, Location), location
    return location


def refused(data: bytes, size: int = 8, **more: object) -> Unavailable:
    result = resolve(data, context(X86_64, size, **more))
    assert isinstance(result, Unavailable), result
    return result


def value(*parts: bytes) -> bytes:
    return b"".join(parts) + op("stack_value")


SEXT = op("const1u", b"\x20") + op("shl") + op("const1u", b"\x20") + op("shra")


@pytest.mark.parametrize(
    ("data", "size", "shape", "text"),
    [
        (op("reg0"), 4, Shape.REGISTER, "rax"),
        (op("regx", uleb(6)), 8, Shape.REGISTER, "rbp"),
        (value(op("breg5", sleb(0))), 4, Shape.REGISTER, "rdi"),
        (value(op("breg5", sleb(300))), 8, Shape.VALUE, "rdi+300"),
        (value(op("breg5", sleb(8)), op("plus_uconst", uleb(292))), 8, Shape.VALUE, "rdi+300"),
        (value(op("breg5", sleb(8)), op("const1u", b"\x09"), op("minus")), 8, Shape.VALUE, "rdi-1"),
        (op("breg7", sleb(8)), 4, Shape.MEMORY, "*(rsp+8)"),
        (op("bregx", uleb(3), sleb(0)), 8, Shape.MEMORY, "*(rbx)"),
        (value(op("breg7", sleb(8)), op("deref")), 8, Shape.MEMORY, "*(rsp+8)"),
        (value(op("lit2")), 4, Shape.CONSTANT, "const 0x2"),
        (value(op("const1s", b"\xff")), 4, Shape.CONSTANT, "const -1"),
        (value(op("const4u", b"\xff\xff\xff\xff")), 8, Shape.CONSTANT, "const 0xffffffff"),
        (value(op("lit6"), op("lit7"), op("mul")), 4, Shape.CONSTANT, "const 0x2a"),
        (op("implicit_value", block(b"\x01\x02\x03\x04")), 4, Shape.CONSTANT, "const 0x4030201"),
        (value(op("addr", number(0xFFFFFFFF81000000, 8))), 8, Shape.ADDRESS, "addr 0xffffffff81000000"),
        (value(op("addr", number(0x1000, 8)), op("plus_uconst", uleb(16))), 8, Shape.ADDRESS, "addr 0x1010"),
        (op("addr", number(0x1000, 8)), 4, Shape.STATIC, "*(0x1000)"),
        (op("fbreg", sleb(-24)), 4, Shape.MEMORY, "*(rsp-8)"),
        (value(op("fbreg", sleb(-8))), 8, Shape.VALUE, "rsp+8"),
        (op("reg5") + op("piece", uleb(8)) + op("reg4") + op("piece", uleb(8)), 16, Shape.PIECES, "rdi, rsi"),
        (
            op("reg5") + op("piece", uleb(4)) + op("breg7", sleb(8)) + op("piece", uleb(4)),
            8,
            Shape.PIECES,
            "{bytes 0-3: rdi, bytes 4-7: *(rsp+8)}",
        ),
        (
            op("reg5") + op("bit_piece", uleb(3), uleb(4)) + value(op("lit1")) + op("bit_piece", uleb(5), uleb(0)),
            1,
            Shape.PIECES,
            "{bits 0-2: rdi >> 4, bits 3-7: const 0x1}",
        ),
        (
            value(op("breg3", sleb(16)), op("deref_size", b"\x01"), op("lit7"), op("and")),
            4,
            Shape.EXPRESSION,
            "*(u8 *)(rbx+16) & 0x7",
        ),
        (value(op("breg0", sleb(0)), SEXT), 4, Shape.EXPRESSION, "(s32)rax"),
        (
            value(op("breg0", sleb(0)), op("const1u", b"\x20"), op("shl"), op("const1u", b"\x22"), op("shra")),
            4,
            Shape.EXPRESSION,
            "(s32)rax >> 2",
        ),
        (
            value(op("breg5", sleb(8)), op("deref"), op("plus_uconst", uleb(16)), op("deref")),
            8,
            Shape.EXPRESSION,
            "*(*(rdi+8)+16)",
        ),
        (
            value(op("breg0", sleb(0)), op("breg1", sleb(0)), op("plus"), op("lit3"), op("mul")),
            8,
            Shape.EXPRESSION,
            "(rax + rdx) * 3",
        ),
        (value(op("breg0", sleb(0)), op("neg"), op("not")), 8, Shape.EXPRESSION, "~-rax"),
        (
            value(op("breg0", sleb(0)), op("convert", uleb(S32)), op("convert", uleb(F64))),
            8,
            Shape.EXPRESSION,
            "(double)(s32)rax",
        ),
        (value(op("regval_type", uleb(0), uleb(U8))), 1, Shape.EXPRESSION, "(u8)rax"),
        (value(op("breg3", sleb(0)), op("deref_type", b"\x04", uleb(S32))), 4, Shape.EXPRESSION, "*(s32 *)(rbx)"),
    ],
)
def test_shape_and_text(data: bytes, size: int, shape: Shape, text: str) -> None:
    location = located(data, size)
    assert location.text(X86_64, signed="-" in text) == text
    assert location.shape == shape


def test_minimum_is_a_choice() -> None:
    # min(rax, 5): both, over over, lt, bra +1, swap, drop.
    data = value(
        op("breg0", sleb(0)),
        op("lit5"),
        op("over"),
        op("over"),
        op("lt"),
        op("bra", number(1, 2)),
        op("swap"),
        op("drop"),
    )
    location = located(data)
    assert location.text(X86_64) == "rax < 5 ? rax : 5"
    assert location.evaluate([3]) == number(3, 8)
    assert location.evaluate([9]) == number(5, 8)
    assert location.evaluate([2**64 - 1]) == b"\xff" * 8


def test_unsigned_comparison_reads_as_one() -> None:
    bias = op("plus_uconst", uleb(1 << 63))
    data = value(op("breg0", sleb(0)), bias, op("breg1", sleb(0)), bias, op("gt"))
    location = located(data)
    assert location.text(X86_64) == "(u64)rax > rdx"
    assert location.evaluate([2**64 - 1, 1]) == number(1, 8)


def test_a_loop_of_known_length_runs() -> None:
    # rax shifted left by one, three times.
    data = value(
        op("breg0", sleb(0)),
        op("lit3"),
        op("swap"), op("lit1"), op("shl"), op("swap"), op("lit1"), op("minus"),
        op("dup"), op("bra", number(-10, 2)),
        op("drop"),
    )  # fmt: skip
    assert located(data).evaluate([5]) == number(40, 8)


def test_an_endless_loop_is_refused() -> None:
    result = refused(op("lit1") + op("skip", number(-3, 2)) + op("stack_value"))
    assert result.reason == Reason.UNSUPPORTED
    assert result.detail.startswith("too many operations")


# Rules for what is unavailable


def test_entry_value() -> None:
    data = value(op("entry_value", block(op("reg1"))))
    assert refused(data) == Unavailable(Reason.ENTRY_VALUE, "DW_OP_entry_value(rdx); DW_OP_stack_value")
    assert located(data, at_entry=True).text(X86_64) == "rdx"
    assert resolve_traced(data, context())[1] == Dependence.ENTRY


def test_entry_value_of_memory_at_the_entry() -> None:
    data = value(op("GNU_entry_value", block(op("breg7", sleb(8)) + op("deref"))), op("plus_uconst", uleb(1)))
    assert located(data, at_entry=True).text(X86_64) == "*(rsp+8)+1"


def test_implicit_pointer() -> None:
    data = op("implicit_pointer", number(0x10, 4), sleb(4))
    assert refused(data) == Unavailable(Reason.IMPLICIT_POINTER, "DW_OP_implicit_pointer(0x10, 4)")
    known = refused(data, implicit_pointer_text=lambda die, offset: f"{die:#x} plus {offset}")
    assert known == Unavailable(Reason.IMPLICIT_POINTER, "0x10 plus 4")


def test_empty_expression() -> None:
    assert refused(b"").reason == Reason.NO_LOCATION


def test_vector_registers_are_named() -> None:
    assert refused(op("reg17")) == Unavailable(Reason.VECTOR_REGISTER, "xmm0")
    assert refused(value(op("breg18", sleb(0)))) == Unavailable(Reason.VECTOR_REGISTER, "xmm1")
    assert refused(value(op("regval_type", uleb(17), uleb(F64)))).reason == Reason.VECTOR_REGISTER


def test_missing_pieces_are_told() -> None:
    data = op("reg5") + op("piece", uleb(8)) + op("piece", uleb(8))
    assert refused(data, 16) == Unavailable(Reason.PARTLY, "bytes 0-7: DW_OP_reg5(rdi), bytes 8-15: not described")
    assert (
        refused(op("reg5") + op("piece", uleb(8)), 24).detail == "bytes 0-7: DW_OP_reg5(rdi), bytes 8-23: not described"
    )
    vector = op("reg17") + op("piece", uleb(8)) + op("reg5") + op("piece", uleb(8))
    assert refused(vector, 16).detail == "bytes 0-7: vector-register DW_OP_reg17(xmm0), bytes 8-15: DW_OP_reg5(rdi)"


def test_a_register_is_too_small() -> None:
    assert refused(op("reg0"), 16).reason == Reason.PARTLY
    assert refused(value(op("lit0")), 16).reason == Reason.PARTLY


def test_a_piece_that_is_the_whole_value() -> None:
    memory = op("breg1", sleb(8)) + op("piece", uleb(8))
    assert located(memory, 8) == Location.memory(1, 8, size=8)
    assert located(memory, 4) == Location.memory(1, 8, size=4)
    assert located(op("reg5") + op("piece", uleb(8)), 4).shape == Shape.REGISTER


def test_no_frame() -> None:
    assert refused(op("fbreg", sleb(0)), cfa=lambda: None).reason == Reason.NO_FRAME
    assert refused(op("fbreg", sleb(0)), frame_base=lambda: None).reason == Reason.NO_FRAME


@pytest.mark.parametrize(
    "data",
    [
        op("GNU_parameter_ref", number(0x10, 4)) + op("stack_value"),
        op("call4", number(0x10, 4)) + op("stack_value"),
        op("const8u", number(8, 8)) + op("form_tls_address"),
        op("GNU_variable_value", number(0x10, 4)),
        op("push_object_address"),
        b"\xed\x01\x02",
        b"\xb8\x01\x02",
        b"\x00",
        op("reg5") + op("GNU_uninit"),
        op("plus"),
        op("reg5") + op("reg4"),
        op("lit1") + op("deref_size", b"\x09"),
        op("reg5") + op("piece", uleb(8)) + op("reg4"),
        value(op("breg0", sleb(0)), op("convert", uleb(0x999))),
        value(op("breg0", sleb(0)), op("convert", uleb(S32)), op("lit1"), op("plus")),
        value(op("lit1"), op("pick", b"\xff")),
    ],
)
def test_unsupported_says_what(data: bytes) -> None:
    result = refused(data)
    assert result.reason == Reason.UNSUPPORTED
    assert "DW_OP_" in result.detail
    assert "\n" not in result.detail


def test_malformed_bytes_raise() -> None:
    with pytest.raises(FormatError):
        resolve(op("addr", b"\x00"), context())


def test_hostile_sizes_are_refused() -> None:
    assert refused(op("reg0"), 1 << 40) == Unavailable(Reason.UNSUPPORTED, f"a value of {1 << 40} bytes")
    assert isinstance(constant(1, 1 << 40, address_size=8, little_endian=True), Unavailable)
    assert refused(op("breg0", sleb(0)) + op("piece", uleb(1 << 60)), 0).reason == Reason.UNSUPPORTED
    assert len(refused(op("lit1") * 60_000).detail) < 2000
    with pytest.raises(FormatError, match="operations"):
        resolve(op("nop") * 100_000, context())


def test_unrelocated_addresses_mean_nothing() -> None:
    assert refused(value(op("addr", number(0, 8))), relocated=False).reason == Reason.UNSUPPORTED


# Frames


@pytest.mark.parametrize(
    ("base", "text"),
    [
        ((Operation(dw.CALL_FRAME_CFA),), "*(rsp+20)"),
        ((Operation(dw.REG0 + 6),), "*(rbp+4)"),
        ((Operation(dw.BREG0 + 6, (16,)),), "*(rbp+20)"),
        ((Operation(dw.BREG0 + 6, (16,)), Operation(dw.DEREF)), "*(*(rbp+16)+4)"),
    ],
)
def test_frame_bases(base: tuple[Operation, ...], text: str) -> None:
    location, depends = resolve_traced(op("fbreg", sleb(4)), context(frame_base=lambda: base))
    assert isinstance(location, Location)
    assert location.text(X86_64) == text
    assert location.frame == Frame.MEMORY
    assert depends == Dependence.FRAME


def test_frame_address_and_plain_stack() -> None:
    assert located(value(op("fbreg", sleb(4)))).frame == Frame.ADDRESS
    assert located(value(op("call_frame_cfa"), op("lit8"), op("minus"))).frame == Frame.ADDRESS
    assert located(value(op("call_frame_cfa"), op("lit8"), op("minus"), op("deref"))).frame == Frame.MEMORY
    assert located(value(op("fbreg", sleb(4)), op("deref"), op("deref"))).frame == Frame.MEMORY
    assert located(op("breg7", sleb(4))).frame == Frame.NONE


def test_a_frame_base_that_needs_itself_is_refused() -> None:
    nested = (Operation(dw.ENTRY_VALUE, ((Operation(dw.FBREG, (0,)),),)),)
    for base in ((Operation(dw.FBREG, (0,)),), nested):
        assert (
            refused(op("fbreg", sleb(0)), frame_base=lambda base=base: base, at_entry=True).reason == Reason.UNSUPPORTED
        )


def test_address_table() -> None:
    location, depends = resolve_traced(value(op("addrx", uleb(3))), context(address_at={3: 0x4000}.get))
    assert isinstance(location, Location)
    assert location.text(X86_64) == "addr 0x4000"
    assert location.evaluate([], load_bias=0x1000) == number(0x5000, 8)
    assert depends == Dependence.UNIT
    thread = located(value(op("constx", uleb(3))), address_at={3: 0x4000}.get)
    assert thread.evaluate([], load_bias=0x1000) == number(0x4000, 8)
    assert refused(value(op("addrx", uleb(4))), address_at={3: 0x4000}.get).reason == Reason.UNSUPPORTED


# What has to be fetched


@pytest.mark.parametrize(
    ("data", "fetch", "depth"),
    [
        (value(op("lit1")), Fetch.NOTHING, 0),
        (op("reg0"), Fetch.REGISTERS, 0),
        (value(op("breg0", sleb(0)), op("breg1", sleb(0)), op("mul")), Fetch.REGISTERS, 0),
        (op("breg7", sleb(8)), Fetch.MEMORY, 1),
        (op("addr", number(0x1000, 8)), Fetch.MEMORY, 1),
        (value(op("breg7", sleb(8)), op("deref"), op("deref")), Fetch.MEMORY, 2),
        (value(op("breg7", sleb(8)), *[op("deref")] * 14), Fetch.MEMORY, 14),
        (value(op("breg7", sleb(8)), *[op("deref")] * 15), Fetch.ARITHMETIC, 15),
        (value(op("breg7", sleb(8)), op("deref_size", b"\x04"), op("deref")), Fetch.ARITHMETIC, 2),
        (value(op("breg0", sleb(0)), op("breg1", sleb(0)), op("plus"), op("deref")), Fetch.ARITHMETIC, 1),
    ],
)
def test_fetch(data: bytes, fetch: Fetch, depth: int) -> None:
    location = located(data)
    assert (location.fetch, location.depth) == (fetch, depth)


# Typed arithmetic, by hand


def test_typed_arithmetic() -> None:
    # (y + z) / 8 of two ints in registers with garbage above: -9 + -7 = -16, / 8 = -2.
    data = value(
        op("regval_type", uleb(RAX), uleb(S32)),
        op("regval_type", uleb(RDX), uleb(S32)),
        op("plus"),
        op("const_type", uleb(S32), b"\x04", number(8, 4)),
        op("div"),
        op("convert", uleb(0)),
    )
    words = [0xDEAD0000FFFFFFF7, 0xBEEF0000FFFFFFF9]
    assert located(data, 4).evaluate(words) == struct.pack("<i", -2)


@pytest.mark.parametrize(
    ("parts", "word", "size", "expected"),
    [
        ([op("convert", uleb(S32)), op("convert", uleb(S64))], 0xFFFFFFFE, 8, struct.pack("<q", -2)),
        ([op("convert", uleb(U32)), op("convert", uleb(S64))], 0xFFFFFFFE, 8, struct.pack("<q", 0xFFFFFFFE)),
        ([op("convert", uleb(S64)), op("convert", uleb(F64))], 2**64 - 3, 8, struct.pack("<d", -3.0)),
        ([op("reinterpret", uleb(F64)), op("convert", uleb(S32))], 0xC004000000000000, 4, struct.pack("<i", -2)),
        ([op("reinterpret", uleb(F64)), op("neg")], 0x3FF0000000000000, 8, struct.pack("<d", -1.0)),
        ([op("reinterpret", uleb(F64)), op("convert", uleb(F32))], 0x3FF8000000000000, 4, struct.pack("<f", 1.5)),
        ([op("convert", uleb(S64)), op("convert", uleb(S128))], 2**64 - 1, 16, b"\xff" * 16),
        ([op("convert", uleb(S32)), op("abs")], 0x1FFFFFFFF, 4, struct.pack("<i", 1)),
        ([op("convert", uleb(U32)), op("abs")], 0x1FFFFFFFF, 4, b"\xff" * 4),
        ([op("convert", uleb(S32)), op("lit1"), op("shr")], 0xFFFFFFFE, 4, struct.pack("<I", 0x7FFFFFFF)),
        ([op("convert", uleb(U32)), op("lit1"), op("shra")], 0xFFFFFFFE, 4, struct.pack("<i", -1)),
    ],
)
def test_conversions(parts: list[bytes], word: int, size: int, expected: bytes) -> None:
    assert located(value(op("breg0", sleb(0)), *parts), size).evaluate([word]) == expected


@pytest.mark.parametrize(
    ("operation", "left", "right", "expected"),
    [
        ("div", -7, 2, -3),
        ("div", 7, -2, -3),
        ("mod", -1, 10, (2**64 - 1) % 10),
        ("shr", -1, 60, 15),
        ("shra", -8, 1, -4),
        ("shra", -8, 200, -1),
        ("shl", 1, 64, 0),
        ("lt", -1, 1, 1),
        ("gt", -1, 1, 0),
        ("minus", 1, 2, -1),
        ("mul", 2**63, 2, 0),
    ],
)
def test_generic_arithmetic(operation: str, left: int, right: int, expected: int) -> None:
    data = value(op("breg0", sleb(0)), op("breg1", sleb(0)), op(operation))
    words = [left & (2**64 - 1), right & (2**64 - 1)]
    assert located(data).evaluate(words) == number(expected, 8)
    folded = value(op("consts", sleb(left)), op("consts", sleb(right)), op(operation))
    assert located(folded).evaluate([]) == number(expected, 8)


def test_division_by_zero_has_no_value() -> None:
    data = value(op("breg0", sleb(0)), op("breg1", sleb(0)), op("div"))
    result = located(data).evaluate([1, 0])
    assert isinstance(result, Unavailable)
    assert result.reason == Reason.UNSUPPORTED


def test_arithmetic_of_a_32_bit_machine_wraps_at_32() -> None:
    data = value(op("breg0", sleb(0)), op("const1s", b"\xff"), op("plus"), op("lit1"), op("shr"))
    assert located(data, 4, I386).evaluate([0]) == struct.pack("<I", 0x7FFFFFFF)


# Big-endian


def test_big_endian_values_are_the_low_order_bytes() -> None:
    assert located(op("reg2"), 2, S390X).evaluate([0x1122334455667788]) == b"\x77\x88"
    assert located(op("breg15", sleb(8)), 2, S390X).evaluate([0, b"\xaa\xbb"]) == b"\xaa\xbb"
    # An eight-byte load as a value of two bytes: the last two, not those at the address.
    loaded = located(value(op("breg15", sleb(8)), op("deref")), 2, S390X)
    assert loaded.evaluate([0, bytes(range(1, 9))]) == b"\x07\x08"


def test_big_endian_pieces() -> None:
    pair = op("reg2") + op("piece", uleb(4)) + op("reg3") + op("piece", uleb(4))
    assert located(pair, 8, S390X).evaluate([0x11223344, 0xFF55667788]) == bytes.fromhex("1122334455667788")
    # Three bits from the top of a byte in memory, then five from a register: 101 and 00011.
    bits = op("breg15", sleb(0)) + op("bit_piece", uleb(3), uleb(0)) + op("reg2") + op("bit_piece", uleb(5), uleb(0))
    assert located(bits, 1, S390X).evaluate([0, b"\xbf", 0xE3]) == b"\xa3"


def test_little_endian_bit_pieces() -> None:
    bits = op("breg7", sleb(1)) + op("bit_piece", uleb(3), uleb(9)) + op("reg2") + op("bit_piece", uleb(5), uleb(0))
    location = located(bits, 1)
    # Bit 9 from rsp+1 on is bit 1 of the byte at rsp+2.
    assert location.read(
        {7: 100, 2: 0b11101}, lambda address, size: bytes([0b1010]) if (address, size) == (102, 1) else None
    ) == bytes([0b11101101])


# Constants


def test_constants() -> None:
    negative = constant(-1, 4, address_size=8, little_endian=True)
    assert isinstance(negative, Location)
    assert negative.text(X86_64, signed=True) == "const -1"
    assert negative.text(X86_64, signed=False) == "const 0xffffffff"
    assert negative.evaluate([]) == b"\xff" * 4
    wide = constant(-2, 16, address_size=8, little_endian=False)
    assert isinstance(wide, Location)
    assert wide.evaluate([]) == b"\xff" * 15 + b"\xfe"
    structure = constant(b"\x01\x02\x03", 3, address_size=8, little_endian=False)
    assert isinstance(structure, Location)
    assert structure.evaluate([]) == b"\x01\x02\x03"
    assert isinstance(constant(b"\x01", 4, address_size=8, little_endian=True), Unavailable)


# Against a plain stack machine

_LEAVES = st.sampled_from(
    [op(f"breg{i}", sleb(offset)) for i in (0, 5) for offset in (0, 8, -1)]
    + [op(f"lit{i}") for i in (0, 1, 3, 31)]
    + [op("const1s", b"\xff"), op("const4u", b"\xff" * 4), op("fbreg", sleb(-8)), op("addr", number(0x1000, 8))]
)
_OPERATORS = st.sampled_from(
    [op(known) for known in ("and", "or", "xor", "plus", "minus", "mul", "div", "mod", "shl", "shr", "shra")]
    + [op(known) for known in ("eq", "ne", "lt", "le", "gt", "ge", "swap", "over", "dup", "drop", "rot", "neg", "not")]
    + [op("abs"), op("deref"), op("deref_size", b"\x02"), op("plus_uconst", uleb(5)), op("pick", b"\x01")]
    + [op("bra", number(1, 2)), op("bra", number(3, 2)), op("skip", number(1, 2)), op("nop")]
)


def made_up_memory(address: int, size: int) -> bytes:
    """Memory in which every byte is there and differs from its neighbours."""
    return bytes((address + i) * 0x9E3779B97F4A7C15 >> 56 & 0xFF for i in range(size))


@settings(max_examples=600)
@given(
    st.lists(_LEAVES, min_size=2, max_size=5),
    st.lists(st.one_of(_OPERATORS, _LEAVES), max_size=12),
    st.booleans(),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([X86_64, S390X]),
    st.integers(0, 2**32),
)
def test_evaluation_agrees_with_a_stack_machine(
    leaves: list[bytes], operators: list[bytes], as_value: bool, size: int, machine: Machine, seed: int
) -> None:
    if machine is S390X:
        leaves = [leaf for leaf in leaves if leaf[0] != dw.ADDR and leaf[0] != dw.CONST4U] or [op("lit1")]
        operators = [o for o in operators if o[0] not in (dw.ADDR, dw.CONST4U, dw.BRA, dw.SKIP)]
    data = b"".join(leaves) + b"".join(operators) + (op("stack_value") if as_value else b"")
    order = "big" if machine is S390X else "little"
    chance = random.Random(seed)
    registers = {n: chance.choice([0, 1, 2**64 - 1, 2**63, chance.getrandbits(64)]) for n in range(16)}
    try:
        operations = dw.decode(data, address_size=8, offset_size=4, little_endian=order == "little", version=5)
        expected = stack_machine.run(
            operations,
            registers,
            made_up_memory,
            size=size,
            frame=(registers[7] + 16) & stack_machine.MASK,
            bias=0x500000,
            order=order,
        )
    except (FormatError, ValueError):
        return
    location = resolve(data, context(machine, size))
    if isinstance(location, Unavailable):
        assert location.reason == Reason.UNSUPPORTED
        assert location.detail.startswith(("too many", "branches", "an empty stack", "operations after"))
        return
    assert location.read(registers, made_up_memory, 0x500000) == expected
    text = location.text(machine)
    assert text
    assert "\n" not in text


@settings(max_examples=500)
@given(st.lists(st.one_of(_LEAVES, _OPERATORS, st.binary(max_size=3)), max_size=14), st.data())
def test_nothing_raises_but_format_error(parts: list[bytes], data: st.DataObject) -> None:
    machine = data.draw(st.sampled_from([X86_64, S390X, I386]))
    try:
        location = resolve(b"".join(parts), context(machine, data.draw(st.sampled_from([0, 1, 3, 8, 16, 40]))))
    except FormatError:
        return
    if isinstance(location, Unavailable):
        return
    word = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.binary(max_size=20))
    words = data.draw(st.lists(word, max_size=8))
    result = location.evaluate(words)
    assert isinstance(result, Unavailable) or len(result) == (location.size or location.address_size)
    assert location.text(machine)
    assert hash(location) == hash(
        resolve(b"".join(parts), context(machine, location.size)) if location.size else location
    )
