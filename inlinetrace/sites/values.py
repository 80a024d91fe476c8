"""A value's bytes as a Python value of its type."""

from __future__ import annotations

import math
import struct

from inlinetrace.sites.model import Encoding, TypeName
from inlinetrace.sites.reasons import Reason, Unavailable

Value = int | bool | float | bytes

_FLOATS = {2: "e", 4: "f", 8: "d"}
_X87_SIZES = (10, 12, 16)


def decode_value(raw: bytes, type_: TypeName, *, little_endian: bool = True, x87: bool = False) -> Value | Unavailable:
    """Return ``raw``, a value's bytes in the target's order, as a value of ``type_``.

    Integers, enums, characters and pointers are ints, extended by the type's sign; bool is True or False, and
    unavailable if it is neither 0 nor 1 (the location was wrong then); floating-point numbers of 2, 4 and 8 bytes are
    floats, and with ``x87`` (the target is x86) those of 10, 12 and 16; structures, unions and what is not known stay
    bytes. ``raw`` may be longer than the type (its first bytes count), never shorter.
    """
    size = type_.size or len(raw)
    if not raw or len(raw) < size:
        return Unavailable(Reason.PARTLY, f"{len(raw)} of {size} bytes")
    raw = bytes(raw[:size])
    encoding = type_.encoding
    if encoding in (Encoding.AGGREGATE, Encoding.OTHER):
        return raw
    if encoding == Encoding.FLOAT:
        return _decode_float(raw, little_endian, x87)
    signed = encoding in (Encoding.SIGNED, Encoding.CHAR) or (encoding == Encoding.ENUM and type_.signed)
    if encoding == Encoding.CHAR:
        # Plain char is unsigned on Arm, Power and z; the type says which.
        signed = type_.signed
    number = int.from_bytes(raw, "little" if little_endian else "big", signed=signed)
    if encoding != Encoding.BOOL:
        return number
    if number not in (0, 1):
        return Unavailable(Reason.BAD_BOOL, f"{number:#x} in a bool")
    return bool(number)


def _decode_float(raw: bytes, little_endian: bool, x87: bool) -> float | Unavailable:
    size = len(raw)
    if size in _FLOATS:
        (number,) = struct.unpack(("<" if little_endian else ">") + _FLOATS[size], raw)
        assert isinstance(number, float)
        return number
    if x87 and size in _X87_SIZES:
        return _decode_x87(raw)
    return Unavailable(Reason.UNSUPPORTED, f"floating-point number of {size} bytes")


def _decode_x87(raw: bytes) -> float | Unavailable:
    """Return an x87 extended number: 64 bits of significand with the integer bit, 15 of exponent, the sign."""
    significand = int.from_bytes(raw[:8], "little")
    exponent = int.from_bytes(raw[8:10], "little")
    sign = -1.0 if exponent & 0x8000 else 1.0
    exponent &= 0x7FFF
    if exponent == 0:
        # Denormals are less than the smallest double by far.
        return sign * 0.0
    if not significand >> 63:
        return Unavailable(Reason.UNSUPPORTED, "not a valid x87 number")
    if exponent == 0x7FFF:
        return sign * float("inf") if significand == 1 << 63 else float("nan")
    try:
        return sign * math.ldexp(float(significand), exponent - 16383 - 63)
    except OverflowError:
        return Unavailable(Reason.UNSUPPORTED, "floating-point number beyond the range of a double")
