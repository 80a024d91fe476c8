"""Floating-point numbers: which format a type has, and the number that bytes are in it.

>>> decode_float(raw, float_format("long double", 16, "x86_64"), little_endian=True)
1.5

A size alone tells no format: two bytes are binary16 or bfloat16, sixteen are x87 extended, binary128, or two doubles.
The name tells, and for ``long double`` the machine; on x86 compilers have an option for it.
"""

from __future__ import annotations

import enum
import struct
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from inlinetrace.sites.reasons import Reason, Unavailable

_HALF = ("_Float16", "__fp16", "half", "f16", "std::float16_t")
_BFLOAT = ("__bf16", "std::bfloat16_t")
_QUAD = ("_Float128", "__float128", "f128", "__ieee128", "std::float128_t", "real(kind=16)")
_EXTENDED = ("real(kind=10)",)
_X86 = ("x86_64", "i686")
# Machines whose long double of 16 bytes is nothing else.
_QUAD_MACHINES = ("aarch64", "riscv64", "s390x")


class FloatFormat(enum.Enum):
    """A format of floating-point numbers: the bits of its exponent, and of its significand."""

    BINARY16 = (5, 10)
    BFLOAT16 = (8, 7)
    BINARY32 = (8, 23)
    BINARY64 = (11, 52)
    BINARY128 = (15, 112)
    X87 = (15, 63)
    """80 bits, with an explicit integer bit; padded to 12 or 16 bytes."""
    X87_OR_BINARY128 = (15, 0)
    """One or the other: what the bytes themselves have to prove."""


def float_format(name: str, size: int, machine: str, *, long_double_is_x87: bool = False) -> FloatFormat | None:
    """The format of the base type ``name`` on a machine; None where it is not known.

    ``long_double_is_x87``: it is known how the program was compiled.
    """
    if size == 2:
        return FloatFormat.BINARY16 if name in _HALF else FloatFormat.BFLOAT16 if name in _BFLOAT else None
    if size == 4:
        return FloatFormat.BINARY32
    if size == 8:
        return FloatFormat.BINARY64
    if machine in _X86 and size in (10, 12):
        return FloatFormat.X87
    if size != 16:
        return None
    if name in _QUAD or machine in _QUAD_MACHINES:
        return FloatFormat.BINARY128
    if machine in _X86:
        return FloatFormat.X87 if long_double_is_x87 or name in _EXTENDED else FloatFormat.X87_OR_BINARY128
    return None


def decode_float(raw: bytes, format_: FloatFormat, *, little_endian: bool) -> float | Decimal | Unavailable:
    """The number: a float where that is the very number, else a Decimal of as many digits as tell it from others."""
    if format_ is FloatFormat.BINARY32 or format_ is FloatFormat.BINARY64:
        (number,) = struct.unpack(("<" if little_endian else ">") + "fd"[format_ is FloatFormat.BINARY64], raw)
        assert isinstance(number, float)
        return number
    if format_ is FloatFormat.X87_OR_BINARY128:
        if any(raw[10:]):
            return Unavailable(
                Reason.UNSUPPORTED, "a long double of which it is not known whether it has 80 or 128 bits"
            )
        format_ = FloatFormat.X87
    exponent_bits, fraction_bits = format_.value
    bits = int.from_bytes(raw, "little" if little_endian else "big")
    x87 = format_ is FloatFormat.X87
    stored_bits = fraction_bits + x87
    significand = bits & ((1 << stored_bits) - 1)
    exponent = bits >> stored_bits & ((1 << exponent_bits) - 1)
    negative = bits >> (stored_bits + exponent_bits) & 1
    if x87 and exponent and not significand >> fraction_bits:
        return Unavailable(Reason.UNSUPPORTED, "not a valid x87 number")
    fraction = significand & ((1 << fraction_bits) - 1)
    if exponent == (1 << exponent_bits) - 1:
        return float("nan") if fraction else float("-inf" if negative else "inf")
    if exponent and not x87:
        significand |= 1 << fraction_bits
    if not significand:
        return -0.0 if negative else 0.0
    scale = max(exponent, 1) - (1 << (exponent_bits - 1)) + 1 - fraction_bits
    return _number(-significand if negative else significand, scale)


def _number(significand: int, scale: int) -> float | Decimal:
    """``significand`` times 2 to the ``scale``."""
    exact = Fraction(significand) * Fraction(2) ** scale
    try:
        near = float(exact)
    except OverflowError:
        near = 0.0
    if near == exact:
        return near
    # the fewest digits that are nearer to this number than to its neighbours
    unit = Fraction(2) ** scale
    digits = 17 if significand.bit_length() > 53 else 1
    while True:
        context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
        shown = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
        if 2 * abs(Fraction(shown) - exact) < unit:
            return shown
        digits += 1
