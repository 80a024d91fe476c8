"""A value's bytes as a Python value of its type."""

from __future__ import annotations

from decimal import Decimal

from inlinetrace.sites.floats import FloatFormat, decode_float, float_format
from inlinetrace.sites.model import Encoding, TypeName
from inlinetrace.sites.reasons import Reason, Unavailable

Value = int | bool | float | Decimal | bytes


def decode_value(
    raw: bytes, type_: TypeName, *, little_endian: bool = True, floating: FloatFormat | None = None
) -> Value | Unavailable:
    """Return ``raw``, a value's bytes in the target's order, as a value of ``type_``.

    Integers, enums, characters and pointers are ints, extended by the type's sign; bool is True or False, and
    unavailable if it is neither 0 nor 1 (the location was wrong then); floating-point numbers are of the format
    ``floating``, by default what the type's name says on any machine; structures, unions and what is not known stay
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
        format_ = floating or float_format(type_.text, size, "")
        if format_ is None:
            return Unavailable(Reason.UNSUPPORTED, f"floating-point number of {size} bytes")
        return decode_float(raw, format_, little_endian=little_endian)
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
