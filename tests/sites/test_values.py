"""Bytes to typed values."""

from __future__ import annotations

import math
import struct

import pytest

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


@pytest.mark.parametrize(("code", "size"), [("e", 2), ("f", 4), ("d", 8)])
def test_floats(code: str, size: int) -> None:
    assert decode_value(struct.pack("<" + code, -1.5), named(Encoding.FLOAT, size)) == -1.5
    assert decode_value(struct.pack(">" + code, 0.25), named(Encoding.FLOAT, size), little_endian=False) == 0.25


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
    result = decode_value(padded, named(Encoding.FLOAT, size), x87=True)
    assert result == value
    assert isinstance(result, float)
    assert math.copysign(1, result) == math.copysign(1, value)


def test_x87_without_a_double() -> None:
    assert math.isnan(decode_value(bytes.fromhex("00000000000000c0ff7f"), named(Encoding.FLOAT, 10), x87=True))  # type: ignore[arg-type]
    huge = decode_value(bytes.fromhex("0000000000000080fe7f"), named(Encoding.FLOAT, 10), x87=True)
    assert isinstance(huge, Unavailable)
    unnormal = decode_value(bytes.fromhex("0000000000000000ff3f"), named(Encoding.FLOAT, 10), x87=True)
    assert isinstance(unnormal, Unavailable)


def test_a_long_double_elsewhere_is_not_guessed() -> None:
    assert decode_value(b"\x00" * 16, named(Encoding.FLOAT, 16)) == Unavailable(
        Reason.UNSUPPORTED, "floating-point number of 16 bytes"
    )


def test_aggregates_stay_bytes() -> None:
    assert decode_value(b"abcdef", named(Encoding.AGGREGATE, 4)) == b"abcd"


def test_too_few_bytes() -> None:
    assert decode_value(b"\x01\x02", named(Encoding.SIGNED, 4, signed=True)) == Unavailable(
        Reason.PARTLY, "2 of 4 bytes"
    )
    assert isinstance(decode_value(b"", named(Encoding.AGGREGATE, 0)), Unavailable)
