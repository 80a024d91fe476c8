"""From a DWARF expression to a Location.

::

    context = Context(machine, address_size=8, offset_size=4, little_endian=True, version=5, size=4, ...)
    location = resolve(block, context)              # Location or Unavailable
    result, depends = resolve_traced(block, context)  # also what of the context beyond the unit went into it

The operations are run once, symbolically: the stack holds nodes (:mod:`inlinetrace.sites.nodes`) in place of numbers,
and everything that is known beforehand (the frame base, the address table, constants) is put in. What is left has only
registers, constants, memory and arithmetic. Meanings are those of DWARF 5 sections 2.5 and 2.6.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from inlinetrace.dwarf import expression as dw
from inlinetrace.dwarf.expression import Operation
from inlinetrace.elf.machine import Machine
from inlinetrace.sites.location import Frame, Location, Piece
from inlinetrace.sites.nodes import COMPARISONS, BaseType, Node, Op, binary, convert, operands, unary, width
from inlinetrace.sites.reasons import Reason, Unavailable

MAXIMUM_NODES = 512
MAXIMUM_STEPS = 4096
MAXIMUM_BRANCHES = 8
MAXIMUM_PIECES = 64
MAXIMUM_SIZE = 1 << 20
"""Bytes of a value; a parameter larger than this is a malformed type."""
MAXIMUM_PIECE_BITS = 1 << 23


class Dependence(enum.IntFlag):
    """What a resolved location depends on besides the bytes of the expression and the size of the parameter.

    A caller that caches by expression and size must add the frame base, the site being the function's entry, or the
    unit (its address table, base types and implicit pointers) to the key of those that depend on it.
    """

    NONE = 0
    FRAME = 1
    ENTRY = 2
    UNIT = 4


def _nothing(*_: int) -> None:
    return None


class Context(NamedTuple):
    """What an expression is resolved in.

    ``size`` is the parameter's in bytes, 0 if unknown. ``frame_base`` gives the operations of DW_AT_frame_base at the
    site, ``cfa`` the CFA there as register and offset; None where there is none. ``address_at`` gives the entry of the
    unit's address table (.debug_addr), ``base_type`` the DW_ATE encoding and the size of a base type at an offset in
    the unit, ``implicit_pointer_text`` says what is known of the value an implicit pointer points at (offset of the DIE
    in .debug_info, byte offset). ``at_entry``: the site is the very entry of the containing function, where a register
    still has its entry value. ``relocated`` is False if the file has relocations that were not applied: addresses in
    expressions mean nothing then.
    """

    machine: Machine
    address_size: int
    offset_size: int
    little_endian: bool
    version: int
    size: int = 0
    frame_base: Callable[[], Sequence[Operation] | None] = _nothing
    cfa: Callable[[], tuple[int, int] | None] = _nothing
    address_at: Callable[[int], int | None] = _nothing
    base_type: Callable[[int], tuple[int, int] | None] = _nothing
    at_entry: bool = False
    implicit_pointer_text: Callable[[int, int], str | None] = _nothing
    relocated: bool = True


def resolve(expression: bytes, context: Context) -> Location | Unavailable:
    """Return the location that ``expression`` describes, or why it has none.

    Raises FormatError for bytes that are no sequence of operations; operations that make no sense together (an empty
    stack, a register in the middle) are Unavailable with Reason.UNSUPPORTED.
    """
    return resolve_traced(expression, context)[0]


def resolve_traced(expression: bytes, context: Context) -> tuple[Location | Unavailable, Dependence]:
    """Return the same as ``resolve`` and what the result depends on."""
    if not expression:
        return Unavailable(Reason.NO_LOCATION, "empty expression"), Dependence.NONE
    if context.size > MAXIMUM_SIZE:
        return _too_large(context.size), Dependence.NONE
    if len(expression) == 1 and dw.REG0 <= expression[0] < dw.BREG0:
        return _register(expression[0] - dw.REG0, context), Dependence.NONE
    operations = dw.decode(
        expression,
        address_size=context.address_size,
        offset_size=context.offset_size,
        little_endian=context.little_endian,
        version=context.version,
    )
    return resolve_operations(operations, context)


def resolve_operations(operations: Sequence[Operation], context: Context) -> tuple[Location | Unavailable, Dependence]:
    """Return what ``resolve_traced`` does, for an expression that is decoded already."""
    if not operations:
        return Unavailable(Reason.NO_LOCATION, "empty expression"), Dependence.NONE
    if context.size > MAXIMUM_SIZE:
        return _too_large(context.size), Dependence.NONE
    resolver = _Resolver(tuple(operations), context)
    try:
        return resolver.location(), resolver.depends
    except _UnavailableError as stop:
        return stop.unavailable, resolver.depends


def constant(value: int | bytes, size: int, *, address_size: int, little_endian: bool) -> Location | Unavailable:
    """Return the location of a DW_AT_const_value: a number, or the value's bytes in the target's order."""
    if size > MAXIMUM_SIZE:
        return _too_large(size)
    if isinstance(value, int):
        return Location.constant(value, size=size, address_size=address_size, little_endian=little_endian)
    size = size or len(value)
    if not size or len(value) < size:
        return Unavailable(Reason.PARTLY, f"a constant of {len(value)} bytes for a value of {size}")
    number = int.from_bytes(value[:size], "little" if little_endian else "big")
    return Location.constant(number, size=size, address_size=address_size, little_endian=little_endian)


class _UnavailableError(Exception):
    """The location is unavailable."""

    def __init__(self, unavailable: Unavailable) -> None:
        self.unavailable = unavailable


class _Kind(enum.Enum):
    """What the end of a (simple) location description says."""

    MEMORY = 0
    REGISTER = 1
    VALUE = 2


def _register(number: int, context: Context) -> Location | Unavailable:
    if context.machine.is_vector(number):
        return Unavailable(Reason.VECTOR_REGISTER, context.machine.register_name(number))
    if context.size > context.address_size:
        return Unavailable(Reason.PARTLY, _partly(context.machine.register_name(number), context))
    return Location.register(
        number, size=context.size, address_size=context.address_size, little_endian=context.little_endian
    )


def _too_large(size: int) -> Unavailable:
    return Unavailable(Reason.UNSUPPORTED, f"a value of {size} bytes")


def _partly(what: str, context: Context) -> str:
    return f"{what} holds {context.address_size} of {context.size} bytes"


_BINARY = {
    dw.AND: Op.AND,
    dw.DIV: Op.DIV,
    dw.MINUS: Op.SUB,
    dw.MOD: Op.MOD,
    dw.MUL: Op.MUL,
    dw.OR: Op.OR,
    dw.PLUS: Op.ADD,
    dw.SHL: Op.SHL,
    dw.SHR: Op.SHR,
    dw.SHRA: Op.SHRA,
    dw.XOR: Op.XOR,
    dw.EQ: Op.EQ,
    dw.GE: Op.GE,
    dw.GT: Op.GT,
    dw.LE: Op.LE,
    dw.LT: Op.LT,
    dw.NE: Op.NE,
}
_UNARY = {dw.ABS: Op.ABS, dw.NEG: Op.NEG, dw.NOT: Op.NOT}
_SHIFTS = (Op.SHL, Op.SHR, Op.SHRA)
_PLAIN_STARTS = frozenset((dw.ADDR, dw.ADDRX, dw.GNU_ADDR_INDEX, dw.CONSTX, dw.GNU_CONST_INDEX, dw.REGX, dw.BREGX))


_NOT_IN_CHOICE = frozenset((dw.BRA, dw.SKIP, dw.STACK_VALUE, dw.IMPLICIT_VALUE, dw.REGX, *range(dw.REG0, dw.BREG0)))


class _Resolver:
    """Runs one expression."""

    def __init__(self, operations: tuple[Operation, ...], context: Context) -> None:
        self.operations = operations
        self.context = context
        self.depends = Dependence.NONE
        self.nodes: list[Node] = []
        self.index: dict[Node, int] = {}
        self.framed: set[int] = set()
        self.frame_node: int | None = None
        self.in_frame_base = False
        self.mask = (1 << 8 * context.address_size) - 1
        self.steps = MAXIMUM_STEPS
        self.branches = MAXIMUM_BRANCHES

    # The result

    def location(self) -> Location:
        operations = self.operations
        if any(operation.opcode in (dw.PIECE, dw.BIT_PIECE) for operation in operations):
            return self._pieces()
        kind, node = self._run(operations)
        context, size = self.context, self.context.size
        if kind == _Kind.MEMORY:
            node = self._load(node, size or context.address_size)
        elif operations[-1].opcode == dw.IMPLICIT_VALUE:
            size = size or self._block_size(operations[-1])
        elif size > self._bytes(node):
            detail = f"{self._text()} gives {self._bytes(node)} of {size} bytes"
            raise _UnavailableError(Unavailable(Reason.PARTLY, detail))
        elif self.nodes[node].type is not None:
            size = size or self._bytes(node)
        return self._finish(node, (), size)

    def _finish(self, node: int, pieces: tuple[Piece, ...], size: int) -> Location:
        """Leave out the nodes that constant folding made superfluous."""
        wanted = [False] * len(self.nodes)
        for index in [piece.node for piece in pieces] or [node]:
            wanted[index] = True
        for index in range(len(self.nodes) - 1, -1, -1):
            if wanted[index]:
                for operand in operands(self.nodes[index]):
                    wanted[operand] = True
        frame = Frame.NONE
        if self.framed:
            for index, known in enumerate(self.nodes):
                if wanted[index] and known.op == Op.LOAD and known.a in self.framed:
                    frame = Frame.MEMORY
                elif wanted[index] and index in self.framed:
                    frame = max(frame, Frame.ADDRESS)
        nodes = self.nodes
        if not all(wanted[: node + 1]) or len(nodes) != node + 1:
            nodes, moved = [], {}
            for index, old in enumerate(self.nodes):
                if wanted[index]:
                    moved[index] = len(nodes)
                    nodes.append(_renumbered(old, moved))
            pieces = tuple(Piece(piece.bits, moved[piece.node], piece.shift) for piece in pieces)
        context = self.context
        return Location(
            tuple(nodes), size, context.address_size, context.little_endian, pieces, frame, self._is_plain()
        )

    def _is_plain(self) -> bool:
        """Tell whether the expression has no operation but one that gives a register, constant or address."""
        first = self.operations[0].opcode
        literal = dw.CONST1U <= first <= dw.CONSTS or dw.LIT0 <= first < dw.REG0
        if first == dw.IMPLICIT_VALUE or dw.REG0 <= first < dw.BREG0 or first == dw.REGX:
            return len(self.operations) == 1
        based = dw.BREG0 <= first < dw.REGX or first in _PLAIN_STARTS or first == dw.FBREG
        rest = [o.opcode for o in self.operations[1:]]
        # What is added to a constant was added by the program: clang describes the parameter's next value.
        return (rest == [dw.STACK_VALUE] and (literal or based)) or (rest == [dw.PLUS_UCONST, dw.STACK_VALUE] and based)

    def _pieces(self) -> Location:
        """Resolve a composite location description (DWARF 5 section 2.6.1.2)."""
        pieces: list[Piece] = []
        described: list[str] = []
        missing = False
        position, start = 0, 0
        for index, operation in enumerate(self.operations):
            if operation.opcode not in (dw.PIECE, dw.BIT_PIECE):
                continue
            if len(described) >= MAXIMUM_PIECES:
                raise self._unsupported("too many pieces")
            part = self.operations[start:index]
            start = index + 1
            bits, offset = _number(operation, 0), 0
            if operation.opcode == dw.PIECE:
                bits *= 8
            else:
                offset = _number(operation, 1)
            if self.context.size:
                remaining = 8 * self.context.size - position
                if remaining <= 0:
                    continue
                if self.context.little_endian:
                    bits = min(bits, remaining)
            if bits > MAXIMUM_PIECE_BITS or offset > MAXIMUM_PIECE_BITS:
                raise self._unsupported("a piece larger than any value")
            where = _span(position, bits)
            position += bits
            try:
                if not part:
                    raise _UnavailableError(Unavailable(Reason.PARTLY, "not described"))
                pieces.append(self._piece(part, bits, offset))
                described.append(f"{where}: {dw.text(part, self.context.machine)}")
            except _UnavailableError as stop:
                missing = True
                described.append(f"{where}: {stop.unavailable.detail if not part else self._missing(stop, part)}")
        if start != len(self.operations):
            raise self._unsupported("operations after the last piece")
        size = self.context.size or (position + 7) // 8
        if position < 8 * size:
            missing = True
            described.append(f"{_span(position, 8 * size - position)}: not described")
        if missing:
            raise _UnavailableError(Unavailable(Reason.PARTLY, ", ".join(described)))
        if not position:
            raise _UnavailableError(Unavailable(Reason.NO_LOCATION, "pieces of no size"))
        if len(pieces) == 1 and pieces[0].bits == 8 * size and not pieces[0].shift:
            return self._finish(pieces[0].node, (), size)
        return self._finish(len(self.nodes) - 1, tuple(pieces), size)

    def _missing(self, stop: _UnavailableError, part: tuple[Operation, ...]) -> str:
        return f"{stop.unavailable.reason.value} {dw.text(part, self.context.machine)}"

    def _piece(self, part: tuple[Operation, ...], bits: int, offset: int) -> Piece:
        kind, node = self._run(part)
        if kind == _Kind.MEMORY:
            node = self._offset(node, offset // 8)
            first = offset % 8
            size = (first + bits + 7) // 8
            shift = first if self.context.little_endian else 8 * size - first - bits
            return Piece(bits, self._load(node, max(size, 1)), shift)
        available = 8 * self._block_size(part[-1]) if part[-1].opcode == dw.IMPLICIT_VALUE else 8 * self._bytes(node)
        if offset + bits > available:
            raise _UnavailableError(Unavailable(Reason.PARTLY, "fewer bytes than the piece has"))
        if part[-1].opcode == dw.IMPLICIT_VALUE and not self.context.little_endian:
            offset = available - offset - bits
        return Piece(bits, node, offset)

    # The run

    def _run(self, operations: tuple[Operation, ...]) -> tuple[_Kind, int]:
        return self._run_from(operations, 0, [])

    def _run_from(self, operations: tuple[Operation, ...], position: int, stack: list[int]) -> tuple[_Kind, int]:
        """Run to the end; at a branch run both ways and select. Nests MAXIMUM_BRANCHES deep at most."""
        end = len(operations)
        while position < end:
            self.steps -= 1
            if self.steps < 0:
                raise self._unsupported("too many operations")
            operation = operations[position]
            opcode = operation.opcode
            position += 1
            if opcode == dw.STACK_VALUE:
                return self._last(operations, position, _Kind.VALUE, _pop(self, stack))
            if dw.REG0 <= opcode < dw.BREG0 or opcode == dw.REGX:
                number = _number(operation, 0) if opcode == dw.REGX else opcode - dw.REG0
                return self._last(operations, position, _Kind.REGISTER, self._register(number))
            if opcode == dw.IMPLICIT_VALUE:
                return self._last(operations, position, _Kind.VALUE, self._block(operation))
            if opcode == dw.SKIP:
                position = _number(operation, 1)
            elif opcode == dw.BRA:
                target = _number(operation, 1)
                condition = _pop(self, stack)
                if self.nodes[condition].op == Op.CONSTANT:
                    position = target if self.nodes[condition].a else position
                    continue
                if self._choose(operations[position:target], condition, stack):
                    position = target
                    continue
                self.branches -= 1
                if self.branches < 0:
                    raise self._unsupported("too many branches")
                kind, taken = self._run_from(operations, target, list(stack))
                other_kind, other = self._run_from(operations, position, list(stack))
                if kind != other_kind or self.nodes[taken].type != self.nodes[other].type:
                    raise self._unsupported("branches that end in different kinds of location")
                node = Node(Op.SELECT, condition, taken, other, self.nodes[taken].type)
                return kind, taken if taken == other else self._add(node)
            else:
                self._step(operation, stack)
        return _Kind.MEMORY, _pop(self, stack)

    def _choose(self, skipped: tuple[Operation, ...], condition: int, stack: list[int]) -> bool:
        """Run the operations that a branch skips and merge the two stacks, as a minimum or an absolute value needs it.

        Returns False, with the stack as it was, where the operations do more than change the stack.
        """
        if not skipped or any(operation.opcode in _NOT_IN_CHOICE for operation in skipped):
            return False
        other = list(stack)
        for operation in skipped:
            self._step(operation, other)
        types = [self.nodes[index].type for index in stack]
        if types != [self.nodes[index].type for index in other]:
            return False
        for slot, (taken, passed) in enumerate(zip(stack, other, strict=True)):
            if taken != passed:
                stack[slot] = self._add(Node(Op.SELECT, condition, taken, passed, types[slot]))
        return True

    def _last(self, operations: tuple[Operation, ...], position: int, kind: _Kind, node: int) -> tuple[_Kind, int]:
        """Check that nothing follows an operation that ends a location description."""
        for operation in operations[position:]:
            if operation.opcode == dw.GNU_UNINIT:
                raise _UnavailableError(Unavailable(Reason.UNSUPPORTED, f"may not be initialised: {self._text()}"))
            if operation.opcode != dw.NOP:
                raise self._unsupported(f"operations after {dw.name(operations[position - 1].opcode)}")
        return kind, node

    def _step(self, operation: Operation, stack: list[int]) -> None:
        opcode = operation.opcode
        if dw.BREG0 <= opcode < dw.REGX:
            stack.append(self._offset(self._register(opcode - dw.BREG0), _number(operation, 0)))
        elif dw.LIT0 <= opcode < dw.REG0:
            stack.append(self._constant(opcode - dw.LIT0))
        elif dw.CONST1U <= opcode <= dw.CONSTS:
            stack.append(self._constant(_number(operation, 0)))
        elif opcode in _BINARY:
            right, left = _pop(self, stack), _pop(self, stack)
            stack.append(self._binary(_BINARY[opcode], left, right))
        elif opcode in _UNARY:
            stack.append(self._unary(_UNARY[opcode], _pop(self, stack)))
        elif opcode == dw.PLUS_UCONST:
            stack.append(self._plus(_pop(self, stack), _number(operation, 0)))
        elif opcode in _HANDLERS:
            _HANDLERS[opcode](self, operation, stack)
        elif opcode != dw.NOP:
            raise self._unsupported("")

    # Nodes

    def _add(self, node: Node) -> int:
        known = self.index.get(node)
        if known is not None:
            return known
        if len(self.nodes) >= MAXIMUM_NODES:
            raise self._unsupported("too many operations")
        index = self.index[node] = len(self.nodes)
        self.nodes.append(node)
        # Whatever is computed from the frame base belongs to the frame; what is read from there does not.
        if self.framed and node.op != Op.LOAD and any(operand in self.framed for operand in operands(node)):
            self.framed.add(index)
        return index

    def _constant(self, value: int, type_: BaseType | None = None) -> int:
        bits = width(type_, self.context.address_size)
        return self._add(Node(Op.CONSTANT, value & ((1 << bits) - 1), type=type_))

    def _register(self, number: int) -> int:
        if self.context.machine.is_vector(number):
            raise _UnavailableError(Unavailable(Reason.VECTOR_REGISTER, self.context.machine.register_name(number)))
        return self._add(Node(Op.REGISTER, number))

    def _offset(self, index: int, offset: int) -> int:
        framed = index in self.framed
        node = self.nodes[index]
        if node.op == Op.CONSTANT:
            return self._constant(node.a + offset)
        if node.op == Op.ADDRESS:
            return self._add(Node(Op.ADDRESS, (node.a + offset) & self.mask))
        if node.op == Op.OFFSET:
            index, offset = node.a, node.b + offset
        offset &= self.mask
        if offset > self.mask >> 1:
            offset -= self.mask + 1
        result = self._add(Node(Op.OFFSET, index, offset)) if offset else index
        if framed:
            self.framed.add(result)
        return result

    def _plus(self, index: int, value: int) -> int:
        type_ = self.nodes[index].type
        if type_ is None:
            return self._offset(index, value)
        return self._binary(Op.ADD, index, self._constant(value, type_))

    def _load(self, index: int, size: int, type_: BaseType | None = None) -> int:
        if self.nodes[index].type is not None:
            index = self._convert(index, None)
        return self._add(Node(Op.LOAD, index, size, type=type_))

    def _unary(self, op: Op, index: int) -> int:
        node = self.nodes[index]
        if node.op == Op.CONSTANT:
            value = unary(op, node.a, node.type, self.context.address_size)
            if value is not None:
                return self._constant(value, node.type)
        return self._add(Node(op, index, type=node.type))

    def _binary(self, op: Op, left: int, right: int) -> int:
        first, second = self.nodes[left], self.nodes[right]
        if first.type != second.type and op not in _SHIFTS:
            raise self._unsupported("operands of different types")
        if any(node.type is not None and node.type.is_float for node in (first, second)) and op in _SHIFTS:
            raise self._unsupported("a shift of a floating-point number")
        if first.type is None and second.type is None:
            if op in (Op.ADD, Op.SUB) and second.op == Op.CONSTANT:
                return self._offset(left, second.a if op == Op.ADD else -second.a)
            if op == Op.ADD and first.op == Op.CONSTANT:
                return self._offset(right, first.a)
            if op == Op.AND and second.op == Op.CONSTANT:
                return self._masked(left, second.a)
            if op == Op.AND and first.op == Op.CONSTANT:
                return self._masked(right, first.a)
        result = None if op in COMPARISONS else first.type
        if first.op == Op.CONSTANT and second.op == Op.CONSTANT:
            value = binary(op, first.a, second.a, first.type, self.context.address_size)
            if value is not None:
                return self._constant(value, result)
        return self._add(Node(op, left, right, type=result))

    def _masked(self, index: int, mask: int) -> int:
        """Return a generic node and a mask; masks that take nothing away are left out."""
        node = self.nodes[index]
        if node.op == Op.CONSTANT:
            return self._constant(node.a & mask)
        if node.op == Op.LOAD and ((1 << 8 * node.b) - 1) & ~mask == 0:
            return index
        if node.op == Op.AND and self.nodes[node.b].op == Op.CONSTANT:
            index, mask = node.a, mask & self.nodes[node.b].a
        return self._add(Node(Op.AND, index, self._constant(mask)))

    def _convert(self, index: int, type_: BaseType | None) -> int:
        node = self.nodes[index]
        if node.type == type_:
            return index
        if node.op == Op.CONSTANT:
            value = convert(node.a, node.type, type_, self.context.address_size)
            if value is not None:
                return self._constant(value, type_)
        return self._add(Node(Op.CONVERT, index, type=type_))

    def _bytes(self, index: int) -> int:
        type_ = self.nodes[index].type
        return type_.size if type_ else self.context.address_size

    # Single operations

    def type_at(self, offset: int) -> BaseType | None:
        """Return the base type at an offset in the unit; 0 is the generic type."""
        if not offset:
            return None
        self.depends |= Dependence.UNIT
        found = self.context.base_type(offset)
        if found is None:
            raise self._unsupported(f"no base type at {offset:#x}")
        type_ = BaseType(*found)
        if not type_.supported:
            raise self._unsupported(f"base type of encoding {type_.encoding} and {type_.size} bytes")
        return type_

    def _block(self, operation: Operation) -> int:
        block = operation.operands[0]
        assert isinstance(block, bytes)
        size = self.context.size if len(self.operations) == 1 and self.context.size else len(block)
        if not block or len(block) < size:
            raise _UnavailableError(
                Unavailable(Reason.PARTLY, f"a constant of {len(block)} bytes for a value of {size}")
            )
        return self._add(Node(Op.CONSTANT, int.from_bytes(block[:size], self._order())))

    def _order(self) -> dw.ByteOrder:
        return "little" if self.context.little_endian else "big"

    def _block_size(self, operation: Operation) -> int:
        block = operation.operands[0]
        assert isinstance(block, bytes)
        return len(block)

    def _frame_base(self) -> int:
        self.depends |= Dependence.FRAME
        if self.frame_node is None:
            base = self.context.frame_base()
            if not base:
                raise _UnavailableError(Unavailable(Reason.NO_FRAME, self._text()))
            if self.in_frame_base:
                raise self._unsupported("a frame base that refers to itself")
            self.in_frame_base = True
            # A register as the frame base stands for its value, a memory description for the address it computes.
            _, self.frame_node = self._run(tuple(base))
            self.framed.add(self.frame_node)
        return self.frame_node

    def _cfa(self) -> int:
        self.depends |= Dependence.FRAME
        found = self.context.cfa()
        if found is None:
            raise _UnavailableError(Unavailable(Reason.NO_FRAME, self._text()))
        node = self._offset(self._register(found[0]), found[1])
        self.framed.add(node)
        return node

    def on_addr(self, operation: Operation, stack: list[int]) -> None:
        if not self.context.relocated:
            raise self._unsupported("an address whose relocation was not applied")
        stack.append(self._add(Node(Op.ADDRESS, _number(operation, 0) & self.mask)))

    def on_index(self, operation: Operation, stack: list[int]) -> None:
        self.depends |= Dependence.UNIT
        value = self.context.address_at(_number(operation, 0))
        if value is None:
            raise self._unsupported("no such entry in the address table")
        if operation.opcode in (dw.CONSTX, dw.GNU_CONST_INDEX):
            stack.append(self._constant(value))
        else:
            if not self.context.relocated:
                raise self._unsupported("an address whose relocation was not applied")
            stack.append(self._add(Node(Op.ADDRESS, value & self.mask)))

    def on_bregx(self, operation: Operation, stack: list[int]) -> None:
        stack.append(self._offset(self._register(_number(operation, 0)), _number(operation, 1)))

    def on_fbreg(self, operation: Operation, stack: list[int]) -> None:
        stack.append(self._offset(self._frame_base(), _number(operation, 0)))

    def on_cfa(self, _operation: Operation, stack: list[int]) -> None:
        stack.append(self._cfa())

    def on_deref(self, _operation: Operation, stack: list[int]) -> None:
        stack.append(self._load(_pop(self, stack), self.context.address_size))

    def on_deref_size(self, operation: Operation, stack: list[int]) -> None:
        size = _number(operation, 0)
        if not 1 <= size <= self.context.address_size:
            raise self._unsupported(f"a dereference of {size} bytes")
        stack.append(self._load(_pop(self, stack), size))

    def on_deref_type(self, operation: Operation, stack: list[int]) -> None:
        size, type_ = _number(operation, 0), self.type_at(_number(operation, 1))
        if type_ is None or size != type_.size:
            raise self._unsupported("a dereference of another size than its type")
        stack.append(self._load(_pop(self, stack), size, type_))

    def on_regval_type(self, operation: Operation, stack: list[int]) -> None:
        type_ = self.type_at(_number(operation, 1))
        node = self._register(_number(operation, 0))
        if type_ is None:
            stack.append(node)
            return
        if type_.size > self.context.address_size:
            raise self._unsupported("a register narrower than its type")
        stack.append(self._add(self.nodes[node]._replace(type=type_)))

    def on_const_type(self, operation: Operation, stack: list[int]) -> None:
        type_, block = self.type_at(_number(operation, 0)), operation.operands[1]
        assert isinstance(block, bytes)
        if len(block) != (type_.size if type_ else self.context.address_size):
            raise self._unsupported("a constant of another size than its type")
        stack.append(self._constant(int.from_bytes(block, self._order()), type_))

    def on_convert(self, operation: Operation, stack: list[int]) -> None:
        stack.append(self._convert(_pop(self, stack), self.type_at(_number(operation, 0))))

    def on_reinterpret(self, operation: Operation, stack: list[int]) -> None:
        index, type_ = _pop(self, stack), self.type_at(_number(operation, 0))
        node = self.nodes[index]
        if self._bytes(index) != (type_.size if type_ else self.context.address_size):
            raise self._unsupported("a reinterpretation as a type of another size")
        if node.type == type_:
            stack.append(index)
        elif node.op == Op.CONSTANT:
            stack.append(self._constant(node.a, type_))
        else:
            stack.append(self._add(Node(Op.REINTERPRET, index, type=type_)))

    def on_stack(self, operation: Operation, stack: list[int]) -> None:
        opcode = operation.opcode
        depth = {dw.DUP: 1, dw.DROP: 1, dw.OVER: 2, dw.SWAP: 2, dw.ROT: 3}.get(opcode)
        if depth is None:
            depth = _number(operation, 0) + 1
        if len(stack) < depth:
            raise self._unsupported("an empty stack")
        if opcode == dw.DROP:
            stack.pop()
        elif opcode == dw.SWAP:
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif opcode == dw.ROT:
            stack[-3:] = [stack[-1], stack[-3], stack[-2]]
        else:
            stack.append(stack[-depth])

    def on_entry_value(self, operation: Operation, stack: list[int]) -> None:
        self.depends |= Dependence.ENTRY
        nested = operation.operands[0]
        assert isinstance(nested, tuple)
        if not self.context.at_entry:
            raise _UnavailableError(Unavailable(Reason.ENTRY_VALUE, self._text()))
        _, node = self._run(nested)
        stack.append(node)

    def on_implicit_pointer(self, operation: Operation, _stack: list[int]) -> None:
        self.depends |= Dependence.UNIT
        die, offset = _number(operation, 0), _number(operation, 1)
        known = self.context.implicit_pointer_text(die, offset)
        raise _UnavailableError(Unavailable(Reason.IMPLICIT_POINTER, known or self._text()))

    def on_uninit(self, _operation: Operation, _stack: list[int]) -> None:
        raise _UnavailableError(Unavailable(Reason.UNSUPPORTED, f"may not be initialised: {self._text()}"))

    def _text(self) -> str:
        return dw.text(self.operations, self.context.machine)

    def _unsupported(self, why: str) -> _UnavailableError:
        return _UnavailableError(Unavailable(Reason.UNSUPPORTED, f"{why}: {self._text()}" if why else self._text()))


def _number(operation: Operation, index: int) -> int:
    value = operation.operands[index]
    assert isinstance(value, int)
    return value


def _pop(resolver: _Resolver, stack: list[int]) -> int:
    if not stack:
        raise resolver._unsupported("an empty stack")
    return stack.pop()


def _renumbered(node: Node, moved: dict[int, int]) -> Node:
    fields = [moved[operand] for operand in operands(node)]
    fields += (node.a, node.b, node.c)[len(fields) :]
    return Node(node.op, fields[0], fields[1], fields[2], node.type)


def _span(position: int, bits: int) -> str:
    if position % 8 or bits % 8:
        return f"bits {position}-{position + bits - 1}"
    return f"bytes {position // 8}-{(position + bits) // 8 - 1}"


_HANDLERS: dict[int, Callable[[_Resolver, Operation, list[int]], None]] = {
    dw.ADDR: _Resolver.on_addr,
    dw.ADDRX: _Resolver.on_index,
    dw.CONSTX: _Resolver.on_index,
    dw.GNU_ADDR_INDEX: _Resolver.on_index,
    dw.GNU_CONST_INDEX: _Resolver.on_index,
    dw.BREGX: _Resolver.on_bregx,
    dw.FBREG: _Resolver.on_fbreg,
    dw.CALL_FRAME_CFA: _Resolver.on_cfa,
    dw.DEREF: _Resolver.on_deref,
    dw.DEREF_SIZE: _Resolver.on_deref_size,
    dw.DEREF_TYPE: _Resolver.on_deref_type,
    dw.GNU_DEREF_TYPE: _Resolver.on_deref_type,
    dw.REGVAL_TYPE: _Resolver.on_regval_type,
    dw.GNU_REGVAL_TYPE: _Resolver.on_regval_type,
    dw.CONST_TYPE: _Resolver.on_const_type,
    dw.GNU_CONST_TYPE: _Resolver.on_const_type,
    dw.CONVERT: _Resolver.on_convert,
    dw.GNU_CONVERT: _Resolver.on_convert,
    dw.REINTERPRET: _Resolver.on_reinterpret,
    dw.GNU_REINTERPRET: _Resolver.on_reinterpret,
    dw.DUP: _Resolver.on_stack,
    dw.DROP: _Resolver.on_stack,
    dw.OVER: _Resolver.on_stack,
    dw.PICK: _Resolver.on_stack,
    dw.SWAP: _Resolver.on_stack,
    dw.ROT: _Resolver.on_stack,
    dw.ENTRY_VALUE: _Resolver.on_entry_value,
    dw.GNU_ENTRY_VALUE: _Resolver.on_entry_value,
    dw.IMPLICIT_POINTER: _Resolver.on_implicit_pointer,
    dw.GNU_IMPLICIT_POINTER: _Resolver.on_implicit_pointer,
    dw.GNU_UNINIT: _Resolver.on_uninit,
}
