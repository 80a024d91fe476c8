"""The arithmetic of a location: nodes over registers, constants and memory, and what each computes.

A location's computation is a tuple of nodes in which every node names only earlier ones by index, so it can be
evaluated, printed or compiled (eBPF) in one loop without recursion, and what is used twice is there once.

A value is always the bit pattern of its type as a non-negative integer. ``type`` None is DWARF's generic type: an
integer of the size of an address, of unspecified signedness (DWARF 5 section 2.5.1).
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

# DW_ATE_* (DWARF 5 section 7.8).
ATE_ADDRESS, ATE_BOOLEAN, ATE_COMPLEX_FLOAT, ATE_FLOAT, ATE_SIGNED, ATE_SIGNED_CHAR = 1, 2, 3, 4, 5, 6
ATE_UNSIGNED, ATE_UNSIGNED_CHAR, ATE_UTF = 7, 8, 0x10
_SIGNED = (ATE_SIGNED, ATE_SIGNED_CHAR)
_INTEGRAL = (ATE_ADDRESS, ATE_BOOLEAN, ATE_SIGNED, ATE_SIGNED_CHAR, ATE_UNSIGNED, ATE_UNSIGNED_CHAR, ATE_UTF)
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


class BaseType(NamedTuple):
    """A base type of the typed stack: DW_ATE_* encoding and size in bytes."""

    encoding: int
    size: int

    @property
    def supported(self) -> bool:
        """True if values of the type can be computed with: integers up to 16 bytes; floats of 2, 4 and 8."""
        if self.encoding == ATE_FLOAT:
            return self.size in _FLOATS
        return self.encoding in _INTEGRAL and 1 <= self.size <= 16

    @property
    def signed(self) -> bool:
        """True for signed integers."""
        return self.encoding in _SIGNED

    @property
    def is_float(self) -> bool:
        """True for floating-point types."""
        return self.encoding == ATE_FLOAT


class Op(enum.IntEnum):
    """What a node computes; ``a``, ``b``, ``c`` are its fields, nodes unless said otherwise."""

    REGISTER = 0
    """The whole DWARF register numbered ``a``, or with a type its low-order bytes."""
    CONSTANT = 1
    """The number ``a``."""
    ADDRESS = 2
    """The link-time address ``a``, to which the load bias is added."""
    LOAD = 3
    """``b`` (a number) bytes of memory at node ``a``, zero-extended."""
    OFFSET = 4
    """Node ``a`` plus the signed number ``b``, generic type."""
    ADD = 5
    SUB = 6
    MUL = 7
    DIV = 8
    MOD = 9
    AND = 10
    OR = 11
    XOR = 12
    SHL = 13
    SHR = 14
    SHRA = 15
    EQ = 16
    NE = 17
    LT = 18
    LE = 19
    GT = 20
    GE = 21
    """From ADD on: ``a`` op ``b``. Comparisons give generic 0 or 1."""
    NEG = 22
    NOT = 23
    ABS = 24
    CONVERT = 25
    """The value of ``a`` in the node's type."""
    REINTERPRET = 26
    """The bits of ``a`` in the node's type."""
    SELECT = 27
    """``b`` if ``a`` is not 0, else ``c``."""


COMPARISONS = frozenset((Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE))


class Node(NamedTuple):
    """One step of a computation (see :class:`Op`). ``type`` is that of the result, None for the generic type."""

    op: Op
    a: int = 0
    b: int = 0
    c: int = 0
    type: BaseType | None = None


def operands(node: Node) -> tuple[int, ...]:
    """Return the indexes of the nodes that ``node`` uses."""
    op = node.op
    if op <= Op.ADDRESS:
        return ()
    if op <= Op.OFFSET or Op.NEG <= op <= Op.REINTERPRET:
        return (node.a,)
    if op == Op.SELECT:
        return (node.a, node.b, node.c)
    return (node.a, node.b)


def width(type_: BaseType | None, address_size: int) -> int:
    """Return the number of bits of a type."""
    return 8 * (type_.size if type_ else address_size)


def to_signed(value: int, bits: int) -> int:
    """Return the two's complement reading of the ``bits``-bit pattern ``value``."""
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def to_float(value: int, size: int) -> float:
    """Return the IEEE number of the bit pattern ``value`` (2, 4 or 8 bytes)."""
    (number,) = struct.unpack(_FLOATS[size], value.to_bytes(size, "little"))
    assert isinstance(number, float)
    return number


def from_float(number: float, size: int) -> int:
    """Return the bit pattern of ``number``; what is too large for the type becomes an infinity, as in hardware."""
    try:
        packed = struct.pack(_FLOATS[size], number)
    except OverflowError:
        packed = struct.pack(_FLOATS[size], float("inf") if number > 0 else float("-inf"))
    return int.from_bytes(packed, "little")


def convert(value: int, source: BaseType | None, target: BaseType | None, address_size: int) -> int | None:
    """Return ``value`` of type ``source`` in type ``target``; None if it has none (not-a-number to an integer).

    A generic value is taken as unsigned, as gdb does, unless the target is a signed type of its size or narrower,
    where it makes no difference.
    """
    target_bits = width(target, address_size)
    if source is not None and source.is_float:
        number = to_float(value, source.size)
        if target is not None and target.is_float:
            return from_float(number, target.size)
        if number != number or number in (float("inf"), float("-inf")):
            return None
        return int(number) & ((1 << target_bits) - 1)
    if source is not None and source.signed:
        value = to_signed(value, 8 * source.size)
    if target is not None and target.is_float:
        return from_float(float(value), target.size)
    return value & ((1 << target_bits) - 1)


def unary(op: Op, value: int, type_: BaseType | None, address_size: int) -> int | None:
    """Return NEG, NOT or ABS of ``value``; None if the operation is not defined for the type."""
    bits = width(type_, address_size)
    if type_ is not None and type_.is_float:
        sign = 1 << (bits - 1)
        if op == Op.NOT:
            return None
        return value ^ sign if op == Op.NEG else value & ~sign
    mask = (1 << bits) - 1
    if op == Op.NEG:
        return -value & mask
    if op == Op.NOT:
        return value ^ mask
    if type_ is not None and not type_.signed:
        return value
    return abs(to_signed(value, bits)) & mask


def binary(op: Op, left: int, right: int, type_: BaseType | None, address_size: int) -> int | None:
    """Return ``left op right``, both operands of ``type_``; None where it is undefined (division by 0, remainders
    of signed types with different signs).

    Generic operands: DIV, SHRA and the comparisons are signed, MOD and SHR unsigned (DWARF 5 section 2.5.1.4 and
    2.5.1.5). A shift by the width or more moves everything out.
    """
    if type_ is not None and type_.is_float:
        return _binary_float(op, to_float(left, type_.size), to_float(right, type_.size), type_.size)
    bits = width(type_, address_size)
    mask = (1 << bits) - 1
    if op == Op.ADD:
        return (left + right) & mask
    if op == Op.SUB:
        return (left - right) & mask
    if op == Op.MUL:
        return (left * right) & mask
    if op == Op.AND:
        return left & right
    if op == Op.OR:
        return left | right
    if op == Op.XOR:
        return left ^ right
    if op == Op.SHL:
        return (left << right) & mask if right < bits else 0
    if op == Op.SHR:
        return left >> right if right < bits else 0
    if op == Op.SHRA:
        return (to_signed(left, bits) >> min(right, bits)) & mask
    if op == Op.EQ:
        return int(left == right)
    if op == Op.NE:
        return int(left != right)
    signed = type_.signed if type_ is not None else op != Op.MOD
    if signed:
        left, right = to_signed(left, bits), to_signed(right, bits)
    if op in COMPARISONS:
        return _compare(op, left, right)
    if right == 0:
        return None
    quotient = abs(left) // abs(right)
    if (left < 0) != (right < 0):
        quotient = -quotient
    if op == Op.DIV:
        return quotient & mask
    if left % right != left - quotient * right:
        # DWARF does not say whose sign a remainder of signed numbers has; compilers and gdb disagree.
        return None
    return left % right & mask


def _binary_float(op: Op, left: float, right: float, size: int) -> int | None:
    if op in COMPARISONS:
        return _compare(op, left, right)
    if op == Op.ADD:
        return from_float(left + right, size)
    if op == Op.SUB:
        return from_float(left - right, size)
    if op == Op.MUL:
        return from_float(left * right, size)
    if op == Op.DIV and right != 0:
        return from_float(left / right, size)
    return None


def _compare(op: Op, left: float, right: float) -> int:
    if op == Op.LT:
        return int(left < right)
    if op == Op.LE:
        return int(left <= right)
    if op == Op.GT:
        return int(left > right)
    if op == Op.GE:
        return int(left >= right)
    return int((left == right) == (op == Op.EQ))
