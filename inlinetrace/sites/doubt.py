"""Which locations may show another value than the one that was passed, by their shape.

A debugger asks what a variable holds at an address; a tracer wants the argument of the call that begins there. The
rules say where compilers are known to let the two differ. They are about the expression alone (``shape_doubt``), or
about the register in which a function gets its argument (``entry_doubt``); what the list, the site or the copy tell
(``Doubt.JUMP_TARGET``, ``NO_ENTRY``, ``NO_VIEW``, ``COPY_CONSTANT``) is for their reader to see.
"""

from __future__ import annotations

from typing import NamedTuple

from inlinetrace.sites.location import Frame, Location, Shape
from inlinetrace.sites.nodes import COMPARISONS, BaseType, Node, Op, to_signed
from inlinetrace.sites.reasons import Compiler, Doubt

_PLAIN_SHAPES = (Shape.REGISTER, Shape.CONSTANT, Shape.ADDRESS, Shape.VALUE)
_SHIFTS = (Op.SHL, Op.SHR, Op.SHRA)
_WIDTH_DEPENDENT = (Op.DIV, Op.MOD, Op.ABS, *_SHIFTS)
_BYTE = 0xFF
_FAR = 1 << 31


def shape_doubt(
    location: Location,
    *,
    compiler: Compiler,
    single_expression: bool,
    inlined: bool,
    stack_pointer: int = -1,
) -> Doubt | None:
    """Return the rule by which ``location`` is doubtful, None if there is none.

    ``single_expression``: DW_AT_location is an expression, not a list; ``inlined``: the parameter is that of an inlined
    instance; ``stack_pointer``: its DWARF register number, -1 if unknown.
    """
    if compiler != Compiler.GCC and not _is_trusted_plain(location, stack_pointer):
        return Doubt.COMPILER
    if compiler == Compiler.CLANG:
        return None
    if single_expression and inlined and location.shape == Shape.REGISTER:
        return Doubt.SINGLE_REGISTER
    if single_expression and not inlined and location.shape in (Shape.CONSTANT, Shape.ADDRESS):
        return Doubt.COPY_CONSTANT
    if location.frame == Frame.MEMORY:
        return Doubt.UNSTORED_SLOT
    if location.pieces and _is_mixed(location):
        return Doubt.MIXED_PIECES
    if _depends_on_width(location):
        return Doubt.WIDTH
    if _compares_constant(location):
        return Doubt.STALE_OPERAND
    return None


def entry_doubt(
    location: Location, *, single_expression: bool, untracked: bool, passed_in: int | None, arguments: tuple[int, ...]
) -> Doubt | None:
    """Return the rule by which what gcc describes at the entry of a function is doubtful, None if there is none.

    There a parameter is where it was passed, whatever it is moved to later. ``passed_in`` is the register that the ABI
    passes it in, None if that is not known, ``arguments`` those of all parameters. ``single_expression``:
    DW_AT_location is an expression, else it is a list without views; ``untracked``: the unit was compiled without
    -fvar-tracking, and what it says of a register holds somewhere in the function.
    """
    if not single_expression:
        passed = location.shape == Shape.REGISTER and location.base == (passed_in, 0)
        return None if passed else Doubt.NO_VIEW
    if location.frame != Frame.NONE:
        return None
    registers = {node.a for node in location.nodes if node.op == Op.REGISTER}
    trusted = set(arguments) if passed_in is None else {passed_in}
    if registers and (untracked or (arguments and not registers <= trusted)):
        return Doubt.SINGLE_REGISTER
    return None


def _is_trusted_plain(location: Location, stack_pointer: int) -> bool:
    """Tell whether clang can be believed: a register, a constant, an address, or a register plus a constant.

    An address within the frame is not one of them: clang leaves out the load and the address stands for the value.
    """
    if not location.plain or location.shape not in _PLAIN_SHAPES or location.frame != Frame.NONE:
        return False
    if location.shape not in (Shape.REGISTER, Shape.VALUE):
        return True
    number, offset = location.base
    # Without the mask that belongs to it, a constant of 64 bits is no sum that the program makes.
    return number != stack_pointer and -_FAR <= offset < _FAR


def _is_mixed(location: Location) -> bool:
    """Tell whether some pieces are read from memory and others held in registers."""
    operations = {location.nodes[piece.node].op for piece in location.pieces}
    return Op.LOAD in operations and not operations <= {Op.LOAD, Op.CONSTANT, Op.ADDRESS}


def _compares_constant(location: Location) -> bool:
    """Tell whether a constant is compared with something, and not something with a constant.

    Compilers write the constant on the right. On the left it was put in place of an operand by what gcc took its value
    to be, which was that of an earlier assignment where the operand is a member of a structure that was split up.
    """
    nodes = location.nodes
    return any(node.op in COMPARISONS and nodes[node.a].op == Op.CONSTANT for node in nodes)


def _depends_on_width(location: Location) -> bool:
    """Tell whether arithmetic may give something else in the width of an address than in the compiler's own.

    The generic type is as wide as an address, the compiler's arithmetic may have been narrower, and above a narrow
    value a register holds anything. What is the same in both widths is told from the interval of each operand.
    Comparisons are no matter of doubt: gcc masks or shifts the operands of those that it makes in a narrow width
    (scompare_loc_descriptor and ucompare_loc_descriptor in its dwarf2out.cc).
    """
    nodes = location.nodes
    if all(node.op not in _WIDTH_DEPENDENT and node.op != Op.NOT for node in nodes):
        return False
    intervals = Intervals(nodes, location.address_size)
    return any(intervals.depends(node) for node in nodes)


class Interval(NamedTuple):
    """Every number from ``low`` to ``high``."""

    low: int
    high: int

    def within(self, low: int, high: int) -> bool:
        """Tell whether all of it is in ``low <= n < high``."""
        return low <= self.low and self.high < high


class Intervals:
    """Where the value of each node lies, read as a signed number of the width of an address.

    Registers may hold anything. Memory is zero-extended, masks and types bound what they are applied to, sums and
    products are as large as their operands let them be; what may overflow may be anything.
    """

    def __init__(self, nodes: tuple[Node, ...], address_size: int) -> None:
        self.nodes = nodes
        self.bits = 8 * address_size
        # The width that is suspected: on a 64-bit machine most arithmetic is done in 32 bits.
        self.narrow = self.bits // 2
        self.all = Interval(-(1 << self.bits - 1), (1 << self.bits - 1) - 1)
        self.of: list[Interval] = []
        for node in nodes:
            self.of.append(self._interval(node))

    def depends(self, node: Node) -> bool:
        """Tell whether ``node`` computes what may be something else in the narrow width."""
        op, nodes, of = node.op, self.nodes, self.of
        if op == Op.AND:
            return self._is_complement_of_bool(node)
        if op not in _WIDTH_DEPENDENT:
            return False
        left = nodes[node.a]
        if op in _SHIFTS and nodes[node.b].op != Op.CONSTANT and not of[node.b].within(0, self.bits):
            # The count modulo the width is what the machine shifts by, and the compiler leaves the modulo out.
            return True
        if left.type is not None or op == Op.SHL:
            return False
        signed, half = (-(1 << self.narrow - 1), 1 << self.narrow - 1), 1 << self.narrow
        if op == Op.ABS:
            return not of[node.a].within(*signed)
        if op == Op.SHR:
            return not (of[node.a].within(0, half) or self._aligned(node.a))
        if op == Op.SHRA:
            return not (of[node.a].within(*signed) or self._aligned(node.a))
        # Quotients and remainders of signed and of unsigned numbers are described alike.
        return not (of[node.a].within(0, signed[1]) and of[node.b].within(0, signed[1]))

    def _is_complement_of_bool(self, node: Node) -> bool:
        """``~b & 0xff``: the compiler means the other bool and describes 0xfe and 0xff."""
        for side, other in ((node.a, node.b), (node.b, node.a)):
            mask = self.nodes[other]
            if self.nodes[side].op == Op.NOT and mask.op == Op.CONSTANT and mask.a == _BYTE:
                return True
        return False

    def _aligned(self, index: int) -> int:
        """Return by how many bits a node shifts a value of 1, 2 or 4 bytes up to the sign bit, 0 if it does not."""
        node = self.nodes[index]
        if node.op != Op.SHL or node.type is not None or self.nodes[node.b].op != Op.CONSTANT:
            return 0
        shift = self.nodes[node.b].a
        return shift if self.bits - shift in (8, 16, 32) and shift > 0 else 0

    def _count(self, index: int) -> int | None:
        """Return the number that a node shifts by, None if that is not constant or moves everything out."""
        node = self.nodes[index]
        return node.a if node.op == Op.CONSTANT and 0 <= node.a < self.bits else None

    def _clip(self, low: int, high: int) -> Interval:
        return Interval(low, high) if self.all.low <= low and high <= self.all.high else self.all

    def _interval(self, node: Node) -> Interval:
        op, nodes = node.op, self.nodes
        if node.type is not None:
            if op == Op.CONVERT:
                return self._converted(self.of[node.a], nodes[node.a].type, node.type)
            return self._of_type(node.type)
        if op == Op.CONSTANT:
            value = to_signed(node.a, self.bits)
            return Interval(value, value)
        if op == Op.LOAD:
            return self._clip(0, (1 << 8 * node.b) - 1)
        if op in COMPARISONS:
            return Interval(0, 1)
        if op == Op.SELECT:
            second, third = self.of[node.b], self.of[node.c]
            return Interval(min(second.low, third.low), max(second.high, third.high))
        if op in (Op.REGISTER, Op.ADDRESS):
            return self.all
        left = self.of[node.a]
        if op in (Op.CONVERT, Op.REINTERPRET):
            return self._converted(left, nodes[node.a].type, None)
        if op == Op.OFFSET:
            return self._clip(left.low + node.b, left.high + node.b)
        if op == Op.NEG:
            return self._clip(-left.high, -left.low)
        if op == Op.NOT:
            return Interval(~left.high, ~left.low)
        if op == Op.ABS:
            return self._clip(0 if left.low < 0 < left.high else min(abs(left.low), abs(left.high)), _largest(left))
        return self._of_binary(op, left, self.of[node.b], self._count(node.b))

    def _of_binary(self, op: Op, left: Interval, right: Interval, count: int | None) -> Interval:
        if op == Op.ADD:
            return self._clip(left.low + right.low, left.high + right.high)
        if op == Op.SUB:
            return self._clip(left.low - right.high, left.high - right.low)
        if op == Op.MUL:
            products = [a * b for a in left for b in right]
            return self._clip(min(products), max(products))
        if op == Op.AND:
            bounds = [side.high for side in (left, right) if side.low >= 0]
            return Interval(0, min(bounds)) if bounds else self.all
        if op in (Op.OR, Op.XOR):
            bits = max(number.bit_length() for number in (*left, *right))
            return self._clip(0 if left.low >= 0 and right.low >= 0 else -(1 << bits), (1 << bits) - 1)
        if op == Op.SHL and count is not None:
            return self._clip(left.low << count, left.high << count)
        if op == Op.SHR and left.low >= 0:
            return Interval(0, left.high >> (count or 0))
        if op == Op.SHR and count:
            return Interval(0, (1 << self.bits - count) - 1)
        if op == Op.SHRA and count is not None:
            return Interval(left.low >> count, left.high >> count)
        if op == Op.SHRA:
            return Interval(min(left.low, 0), max(left.high, 0))
        if op == Op.DIV:
            largest = _largest(left)
            return self._clip(-largest if min(left.low, right.low) < 0 else 0, largest)
        if op == Op.MOD and left.low >= 0 and right.low >= 0:
            return Interval(0, min(left.high, right.high))
        return self.all

    def _converted(self, interval: Interval, source: BaseType | None, target: BaseType | None) -> Interval:
        allowed = self._of_type(target)
        if source is not None and source.is_float:
            return allowed
        return interval if interval.within(allowed.low, allowed.high + 1) else allowed

    def _of_type(self, type_: BaseType | None) -> Interval:
        if type_ is None:
            return self.all
        bits = 8 * type_.size
        if type_.is_float or bits > self.bits:
            return self.all
        return self._clip(-(1 << bits - 1), (1 << bits - 1) - 1) if type_.signed else self._clip(0, (1 << bits) - 1)


def _largest(interval: Interval) -> int:
    return max(abs(interval.low), abs(interval.high))
