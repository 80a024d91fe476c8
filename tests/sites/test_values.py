"""Bytes to typed values."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

import pytest

from inlinetrace.sites.floats import FloatFormat, decode_float, float_format
from inlinetrace.sites.model import Encoding, TypeName, Unavailable
from inlinetrace.sites.reasons import Reason
from inlinetrace.sites.values import decode_value


def named(encoding: Encoding, size: int, *, signed: bool = False) -> TypeName:
    return TypeName("type", size, encoding, signed, 0)


@pytest.mark.parametrize(
    ("raw", "type_", "little", "big"),
    [
        ("fffe", named(Encoding.SIGNED, 2, signed=True), -257, -2),
        ("fffe", named(Encoding.UNSIGNED, 2), 0xFEFF, 0xFFFE),
        ("01000080", named(Encoding.SIGNED, 4, signed=True), -2147483647, 0x01000080),
        ("ff", named(Encoding.CHAR, 1, signed=True), -1, -1),
        ("ff", named(Encoding.CHAR, 1, signed=False), 255, 255),
        ("ff", named(Encoding.UCHAR, 1), 255, 255),
        ("00f0ffffffffffff", named(Encoding.POINTER, 8), 0xFFFFFFFFFFFFF000, 0x00F0FFFFFFFFFFFF),
        ("feffffff", named(Encoding.ENUM, 4, signed=True), -2, 0xFEFFFFFF - 2**32),
        ("feffffff", named(Encoding.ENUM, 4), 0xFFFFFFFE, 0xFEFFFFFF),
        ("ff" * 16, named(Encoding.SIGNED, 16, signed=True), -1, -1),
        ("ff" * 16, named(Encoding.UNSIGNED, 16), 2**128 - 1, 2**128 - 1),
    ],
)
def test_integers(raw: str, type_: TypeName, little: int, big: int) -> None:
    assert decode_value(bytes.fromhex(raw), type_) == little
    assert decode_value(bytes.fromhex(raw), type_, little_endian=False) == big


def test_bool() -> None:
    assert decode_value(b"\x00", named(Encoding.BOOL, 1)) is False
    assert decode_value(b"\x01", named(Encoding.BOOL, 1)) is True
    assert decode_value(b"\x00\x00\x00\x01", named(Encoding.BOOL, 4), little_endian=False) is True
    assert decode_value(b"\xff", named(Encoding.BOOL, 1)) == Unavailable(Reason.BAD_BOOL, "0xff in a bool")


@pytest.mark.parametrize(("code", "size", "name"), [("e", 2, "_Float16"), ("f", 4, "float"), ("d", 8, "real(kind=8)")])
def test_floats(code: str, size: int, name: str) -> None:
    type_ = named(Encoding.FLOAT, size)._replace(text=name)
    assert decode_value(struct.pack("<" + code, -1.5), type_) == -1.5
    assert decode_value(struct.pack(">" + code, 0.25), type_, little_endian=False) == 0.25


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("0000000000000080ff3f", 1.0),
        ("00000000000000c000c0", -3.0),
        ("00000000000000000000", 0.0),
        ("00000000000000000080", -0.0),
        ("0000000000000080ff7f", math.inf),
        ("0000000000000080ffff", -math.inf),
    ],
)
@pytest.mark.parametrize("size", [10, 12, 16])
def test_x87(raw: str, value: float, size: int) -> None:
    padded = bytes.fromhex(raw).ljust(size, b"\xaa")
    result = decode_float(padded, FloatFormat.X87, little_endian=True)
    assert result == value
    assert isinstance(result, float)
    assert math.copysign(1, result) == math.copysign(1, value)


def test_x87_that_is_none() -> None:
    assert math.isnan(decode_float(bytes.fromhex("00000000000000c0ff7f"), FloatFormat.X87, little_endian=True))  # type: ignore[arg-type]
    unnormal = decode_float(bytes.fromhex("0000000000000000ff3f"), FloatFormat.X87, little_endian=True)
    assert isinstance(unnormal, Unavailable)


@pytest.mark.parametrize(
    ("raw", "format_", "digits"),
    [
        # 2 ** 53 + 1, LDBL_MAX, 0.1L, the smallest
        ("00040000000000803440", FloatFormat.X87, "9007199254740993"),
        ("ff" * 8 + "fe7f", FloatFormat.X87, "1.189731495357231765E+4932"),
        ("cdccccccccccccccfb3f", FloatFormat.X87, "0.1"),
        ("01" + "00" * 9, FloatFormat.X87, "4E-4951"),
        ("9a" + "99" * 13 + "fb3f", FloatFormat.BINARY128, "0.1"),
    ],
)
def test_numbers_that_no_double_is_have_all_their_digits(raw: str, format_: FloatFormat, digits: str) -> None:
    result = decode_float(bytes.fromhex(raw), format_, little_endian=True)
    assert isinstance(result, Decimal)
    assert str(result.normalize()) == digits
    swapped = bytes.fromhex(raw)[::-1]
    assert decode_float(swapped, format_, little_endian=False) == result


@pytest.mark.parametrize(
    ("name", "size", "machine", "raw", "value"),
    [
        ("__float128", 16, "x86_64", "00" * 14 + "ff3f", 1.0),
        ("_Float128", 16, "x86_64", "00" * 13 + "4000c0", -2.5),
        ("long double", 16, "aarch64", "00" * 14 + "ff3f", 1.0),
        ("long double", 12, "i686", "0000000000000080ff3fabcd", 1.0),
        ("__bf16", 2, "x86_64", "c03f", 1.5),
        ("_Float16", 2, "x86_64", "003e", 1.5),
        ("__fp16", 2, "aarch64", "0080", -0.0),
        ("_Float16", 2, "x86_64", "0100", 2.0**-24),
    ],
)
def test_a_format_is_told_by_name_and_machine(name: str, size: int, machine: str, raw: str, value: float) -> None:
    format_ = float_format(name, size, machine)
    assert format_ is not None
    result = decode_float(bytes.fromhex(raw), format_, little_endian=True)
    assert result == value
    assert str(result) == str(value)


def test_a_format_that_is_not_known_is_not_guessed() -> None:
    assert decode_value(b"\x00" * 16, named(Encoding.FLOAT, 16)) == Unavailable(
        Reason.UNSUPPORTED, "floating-point number of 16 bytes"
    )
    assert float_format("long double", 16, "ppc64") is None
    assert float_format("strange", 2, "x86_64") is None
    # 1.0 of 128 bits, read as 80, is 0.0 with its padding used
    either = float_format("long double", 16, "x86_64")
    assert either is FloatFormat.X87_OR_BINARY128
    assert isinstance(decode_float(bytes(14) + b"\xff\x3f", either, little_endian=True), Unavailable)
    assert decode_float(bytes.fromhex("0000000000000080ff3f") + bytes(6), either, little_endian=True) == 1.0


def test_aggregates_stay_bytes() -> None:
    assert decode_value(b"abcdef", named(Encoding.AGGREGATE, 4)) == b"abcd"


def test_too_few_bytes() -> None:
    assert decode_value(b"\x01\x02", named(Encoding.SIGNED, 4, signed=True)) == Unavailable(
        Reason.PARTLY, "2 of 4 bytes"
    )
    assert isinstance(decode_value(b"", named(Encoding.AGGREGATE, 0)), Unavailable)
