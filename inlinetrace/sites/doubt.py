"""Which locations may show another value than the one that was passed, by their shape.

A debugger asks what a variable holds at an address; a tracer wants the argument of the call that begins there. The
rules say where compilers are known to let the two differ. They are about the expression alone; that an entry is an
empty range at a jump target (``Doubt.JUMP_TARGET``) is for the reader of the location list to see.
"""

from __future__ import annotations

from inlinetrace.sites.location import Frame, Location, Shape
from inlinetrace.sites.nodes import COMPARISONS, Node, Op
from inlinetrace.sites.reasons import Compiler, Doubt

_PLAIN_SHAPES = (Shape.REGISTER, Shape.CONSTANT, Shape.ADDRESS, Shape.VALUE)
_WIDTH_DEPENDENT = frozenset((Op.DIV, Op.MOD, Op.SHR, Op.SHRA, Op.ABS)) | COMPARISONS
_LOW_WORD = 0xFFFFFFFF


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
    instance; ``stack_pointer``: its DWARF register number, -1 if unknown. A constant of DW_AT_const_value is ``plain``
    and never doubtful.
    """
    if compiler != Compiler.GCC and not _is_trusted_plain(location, stack_pointer):
        return Doubt.COMPILER
    if compiler == Compiler.CLANG:
        return None
    if single_expression and inlined and location.shape == Shape.REGISTER:
        return Doubt.SINGLE_REGISTER
    if location.frame == Frame.MEMORY:
        return Doubt.UNSTORED_SLOT
    if location.pieces and _is_mixed(location):
        return Doubt.MIXED_PIECES
    if _depends_on_width(location):
        return Doubt.WIDTH
    return None


def _is_trusted_plain(location: Location, stack_pointer: int) -> bool:
    """Tell whether clang can be believed: a register, a constant, an address, or a register plus a constant.

    An address within the frame is not one of them: clang leaves out the load and the address stands for the value.
    """
    if not location.plain or location.shape not in _PLAIN_SHAPES or location.frame != Frame.NONE:
        return False
    if location.shape not in (Shape.REGISTER, Shape.VALUE):
        return True
    return location.base[0] != stack_pointer


def _is_mixed(location: Location) -> bool:
    """Tell whether some pieces are read from memory and others held in registers."""
    operations = {location.nodes[piece.node].op for piece in location.pieces}
    return Op.LOAD in operations and not operations <= {Op.LOAD, Op.CONSTANT, Op.ADDRESS}


def _depends_on_width(location: Location) -> bool:
    """Tell whether arithmetic that depends on width has an operand that is not known to be extended.

    The generic type is as wide as an address, the compiler's arithmetic may have been narrower, and above a narrow
    value a register holds anything.
    """
    nodes = location.nodes
    if all(node.op not in _WIDTH_DEPENDENT for node in nodes):
        return False
    proof = _Extension(nodes, location.address_size)
    return not all(proof.fits(node) for node in nodes if node.op in _WIDTH_DEPENDENT)


class _Extension:
    """Which nodes are known to be the same in the whole width as in the width that the compiler computed in.

    Memory is read in its size and zero-extended. A mask of at most 32 bits and a shift left that a shift right undoes
    are how compilers extend a register. A type given with a register or in a conversion says the width. Sums,
    products and complements of such values may carry into what is above, a bare register may have anything there.
    """

    def __init__(self, nodes: tuple[Node, ...], address_size: int) -> None:
        self.nodes = nodes
        self.address_size = address_size
        self.known: list[bool] = []
        for node in nodes:
            self.known.append(self._is_extended(node))

    def fits(self, node: Node) -> bool:
        """Tell whether the operands of a width-dependent operation are extended."""
        known, left = self.known, self.nodes[node.a]
        if node.op == Op.ABS:
            return known[node.a]
        if node.op in (Op.SHR, Op.SHRA):
            return known[node.a] or (left.type is None and self._aligned(node.a) > 0)
        if node.op in COMPARISONS and left.type is None:
            # Values that are both shifted up to the sign bit compare as the narrow ones do.
            shifts = {self._aligned(side) for side in (node.a, node.b) if self.nodes[side].op != Op.CONSTANT}
            if len(shifts) == 1 and shifts != {0}:
                return True
        return known[node.a] and known[node.b]

    def _aligned(self, index: int) -> int:
        """Return by how many bits a node shifts a value of 1, 2 or 4 bytes up to the sign bit, 0 if it does not."""
        node, bits = self.nodes[index], 8 * self.address_size
        if node.op != Op.SHL or node.type is not None or self.nodes[node.b].op != Op.CONSTANT:
            return 0
        shift = self.nodes[node.b].a
        return shift if bits - shift in (8, 16, 32) and shift > 0 else 0

    def _is_extended(self, node: Node) -> bool:
        op, nodes, known = node.op, self.nodes, self.known
        if op in (Op.CONVERT, Op.REINTERPRET):
            sizes = [type_.size for type_ in (nodes[node.a].type, node.type) if type_ is not None]
            return known[node.a] or any(size < self.address_size for size in sizes)
        if node.type is not None or op in (Op.CONSTANT, Op.ADDRESS, Op.LOAD) or op in COMPARISONS:
            return True
        if op == Op.AND and any(
            nodes[side].op == Op.CONSTANT and nodes[side].a <= _LOW_WORD for side in (node.a, node.b)
        ):
            return True
        if op in (Op.SHR, Op.SHRA):
            return self.fits(node)
        if op in (Op.AND, Op.OR, Op.XOR, Op.DIV, Op.MOD):
            return known[node.a] and known[node.b]
        if op == Op.OFFSET:
            # Turning the sign bit over is how compilers write an unsigned comparison.
            return known[node.a] and node.b == -(1 << (8 * self.address_size - 1))
        return op == Op.SELECT and known[node.b] and known[node.c]
