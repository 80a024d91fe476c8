"""Which shapes are doubtful."""

from __future__ import annotations

from pathlib import Path

import pytest

from inlinetrace.sites.doubt import shape_doubt
from inlinetrace.sites.reasons import Compiler, Doubt
from tests.dwarf.expression_writer import number, op, sleb, uleb
from tests.sites.test_resolve import F64, RAX, S32, S64, SEXT, located, value

ZEXT = op("const4u", b"\xff\xff\xff\xff") + op("and")
REGISTER = op("breg0", sleb(0))
OTHER = op("breg1", sleb(0))
TOP = op("const1u", b"\x20") + op("shl")


def doubt(data: bytes, size: int = 4, compiler: Compiler = Compiler.GCC, *, single: bool = False) -> Doubt | None:
    return shape_doubt(located(data, size), compiler=compiler, single_expression=single, inlined=True, stack_pointer=7)


def out_of_line(data: bytes, compiler: Compiler = Compiler.GCC, *, single: bool = True) -> Doubt | None:
    return shape_doubt(located(data, 8), compiler=compiler, single_expression=single, inlined=False)


@pytest.mark.parametrize(
    "data",
    [
        op("reg0"),
        op("breg0", sleb(8)),
        value(op("breg0", sleb(8))),
        value(op("lit3")),
        value(op("addr", number(0x1000, 8))),
        value(op("fbreg", sleb(8))),
        value(REGISTER, OTHER, op("plus")),
        value(REGISTER, ZEXT),
        value(REGISTER, op("lit3"), op("shl")),
        # Extended first, then divided, shifted or compared.
        value(REGISTER, ZEXT, op("lit3"), op("shr")),
        value(REGISTER, op("const1u", b"\x20"), op("shl"), op("const1u", b"\x22"), op("shra")),
        value(REGISTER, SEXT, op("abs")),
        value(REGISTER, TOP, OTHER, TOP, op("lt")),
        value(REGISTER, TOP, op("const8u", number(5 << 32, 8)), op("ge")),
        value(op("breg0", sleb(0)), op("deref_size", b"\x04"), op("lit3"), op("shr")),
        value(op("breg0", sleb(0)), op("deref_size", b"\x02"), op("lit3"), op("div")),
        value(op("breg0", sleb(0)), op("deref_size", b"\x02"), op("lit3"), op("mod")),
        # What is left of an extended value is extended, and so is what was masked.
        value(REGISTER, SEXT, op("lit4"), op("shra"), op("lit3"), op("shra")),
        value(REGISTER, op("const1u", b"\x7f"), op("and"), op("lit3"), op("mul"), op("lit8"), op("div")),
        value(REGISTER, op("const1u", b"\x7f"), op("and"), op("neg"), op("abs")),
        # gcc compares in 64 bits what it neither masks nor shifts.
        value(REGISTER, op("lit0"), op("lt")),
        value(REGISTER, OTHER, op("ne")),
        # A count that cannot leave the register, and the complement of what is no bool.
        value(REGISTER, ZEXT, OTHER, op("const1u", b"\x1f"), op("and"), op("shr")),
        value(REGISTER, OTHER, op("const1u", b"\x3f"), op("and"), op("shl")),
        value(REGISTER, op("not"), op("const2u", b"\xff\xff"), op("and")),
        value(op("regval_type", uleb(RAX), uleb(S32)), op("const_type", uleb(S32), b"\x04", number(8, 4)), op("div")),
        value(
            REGISTER, op("convert", uleb(S32)), op("convert", uleb(S64)), op("convert", uleb(0)), op("lit3"), op("shra")
        ),
        value(REGISTER, ZEXT, op("lit0"), op("eq"), op("lit1"), op("shr")),
        value(REGISTER, ZEXT, op("plus_uconst", uleb(1 << 63)), op("const1s", b"\x05"), op("gt")),
    ],
)
def test_trusted_of_gcc(data: bytes) -> None:
    assert doubt(data) is None


@pytest.mark.parametrize(
    "data",
    [
        value(REGISTER, op("lit3"), op("shr")),
        value(REGISTER, op("lit3"), op("shra")),
        value(REGISTER, op("lit8"), op("div")),
        value(REGISTER, op("lit8"), op("mod")),
        value(REGISTER, op("abs")),
        value(REGISTER, ZEXT, OTHER, op("div")),
        # The sum of two extended values may carry.
        value(REGISTER, ZEXT, OTHER, ZEXT, op("plus"), op("lit8"), op("div")),
        value(REGISTER, ZEXT, op("not"), op("lit3"), op("shr")),
        # Shifts left by what is no extension.
        value(REGISTER, op("lit3"), op("shl"), op("lit3"), op("shr")),
        # The upper half of what is sign-extended comes down, the sign of what is zero-extended is lost.
        value(REGISTER, SEXT, op("lit3"), op("shr")),
        value(REGISTER, ZEXT, op("lit3"), op("shra")),
        value(op("breg0", sleb(0)), op("deref_size", b"\x04"), op("lit3"), op("div")),
        value(op("breg0", sleb(0)), op("deref"), op("lit3"), op("shr")),
        # What is sign-extended may be divided as an unsigned number.
        value(REGISTER, SEXT, op("lit3"), op("div")),
        # The remainder of generic numbers is one of unsigned numbers.
        value(REGISTER, SEXT, op("lit8"), op("mod")),
        value(REGISTER, ZEXT, op("lit8"), op("mod")),
        value(op("breg0", sleb(0)), op("deref_size", b"\x02"), op("const1s", b"\xfb"), op("mod")),
        # The machine shifts by the count modulo the width, and the description leaves the modulo out.
        value(REGISTER, ZEXT, OTHER, op("shr")),
        value(REGISTER, OTHER, op("shl")),
        # The complement of a bool is described as 0xfe and 0xff.
        value(REGISTER, op("not"), op("const1u", b"\xff"), op("and")),
        # A register in 64 bits is still a register.
        value(REGISTER, op("convert", uleb(S64)), op("convert", uleb(0)), op("lit3"), op("shra")),
        # The arithmetic is inside an address.
        op("breg0", sleb(0)) + op("lit3") + op("shr") + op("plus_uconst", uleb(8)),
    ],
)
def test_width_dependent(data: bytes) -> None:
    assert doubt(data) == Doubt.WIDTH


def test_a_constant_on_the_left_of_a_comparison() -> None:
    assert doubt(value(op("lit4"), TOP, REGISTER, TOP, op("ge"))) == Doubt.STALE_OPERAND
    assert doubt(value(REGISTER, TOP, op("lit4"), TOP, op("ge"))) is None


def test_frame_slots() -> None:
    assert doubt(op("fbreg", sleb(8))) == Doubt.UNSTORED_SLOT
    assert doubt(value(op("fbreg", sleb(8)), op("deref"), op("lit1"), op("plus"))) == Doubt.UNSTORED_SLOT
    assert doubt(value(op("call_frame_cfa"), op("lit8"), op("minus"), op("deref"))) == Doubt.UNSTORED_SLOT


def test_pieces() -> None:
    register, memory = op("reg5") + op("piece", uleb(4)), op("breg3", sleb(8)) + op("piece", uleb(4))
    literal = value(op("lit0")) + op("piece", uleb(4))
    assert doubt(register + memory, 8) == Doubt.MIXED_PIECES
    assert doubt(register + register, 8) is None
    assert doubt(register + literal, 8) is None
    assert doubt(memory + literal, 8) is None


def test_a_single_register_on_an_inlined_parameter() -> None:
    assert doubt(op("reg0"), single=True) == Doubt.SINGLE_REGISTER
    assert doubt(value(op("lit0")), single=True) is None
    assert out_of_line(op("reg0")) is None


def test_a_constant_without_list_on_an_out_of_line_copy() -> None:
    assert out_of_line(value(op("lit0"))) == Doubt.COPY_CONSTANT
    assert out_of_line(value(op("addr", number(0x1000, 8)))) == Doubt.COPY_CONSTANT
    assert out_of_line(value(op("lit0")), single=False) is None
    assert out_of_line(value(op("lit0")), Compiler.CLANG) is None


@pytest.mark.parametrize("compiler", [Compiler.CLANG, Compiler.OTHER])
def test_other_compilers_are_trusted_with_plain_shapes_only(compiler: Compiler) -> None:
    for plain in (
        op("reg0"),
        value(op("breg0", sleb(8))),
        value(op("lit0")),
        value(op("consts", sleb(-1))),
        value(op("addr", number(0x1000, 8))),
    ):
        assert doubt(plain, 8, compiler) is None
    for other in (
        op("breg0", sleb(8)),
        op("fbreg", sleb(8)),
        # The address of a slot in the frame: the load was left out.
        value(op("fbreg", sleb(8))),
        value(op("breg7", sleb(8))),
        value(op("breg0", sleb((1 << 62) - 3))),
        value(REGISTER, ZEXT),
        # Literals in arithmetic stand for operands that were lost.
        value(op("lit0"), op("lit1"), op("plus")),
        value(op("lit0"), REGISTER, op("plus")),
        value(op("lit4"), op("plus_uconst", uleb(1))),
        value(REGISTER, op("convert", uleb(S32)), op("convert", uleb(F64))),
        op("reg5") + op("piece", uleb(4)) + op("reg4") + op("piece", uleb(4)),
    ):
        assert doubt(other, 8, compiler) == Doubt.COMPILER


@pytest.mark.parametrize("page", ["truth.md", "list.md"])
def test_the_documentation_has_every_doubt(page: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    assert [rule.value for rule in Doubt if f"`{rule.value}`" not in text] == []
