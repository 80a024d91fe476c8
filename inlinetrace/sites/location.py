"""Where a value is: a small expression over registers, constants and memory.

::

    location = Location.memory(7, 8, size=4)          # four bytes at rsp+8
    location.text(X86_64)                             # "*(rsp+8)"
    location.capture()                                # (RegisterCapture(7), MemoryCapture(Offset(0, 8), 4))
    location.evaluate([0x7ffe0000, 42])               # b"*\\0\\0\\0"
    location.read({7: 0x7ffe0000}, memory)            # both at once, where registers and memory can be read

Whatever the shape of the DWARF expression, a probe does two things: it fetches what ``capture`` lists, in that order,
and gives the words to ``evaluate``, which returns the value's bytes or the reason why there are none. One location
object is shared by all the parameters that have the same expression.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.sites.nodes import Node, Op, binary, convert, operands, unary
from inlinetrace.sites.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine

MAXIMUM_DEREFERENCE = 14
"""How deep a kprobe event may nest memory accesses (FETCH_INSN_MAX, kernel/trace/trace_probe.h)."""


class Shape(enum.Enum):
    """The form of a location, simplest first."""

    REGISTER = "register"
    CONSTANT = "constant"
    ADDRESS = "address"
    """A link-time address as the value."""
    VALUE = "value"
    """Register plus constant as the value."""
    MEMORY = "memory"
    """Memory at a register, or at a register plus a constant."""
    STATIC = "static"
    """Memory at a fixed address."""
    EXPRESSION = "expression"
    """Anything else that gives one value."""
    PIECES = "pieces"


class Frame(enum.IntEnum):
    """What a location does with the frame base."""

    NONE = 0
    ADDRESS = 1
    """Computes with it: the address of something in the frame."""
    MEMORY = 2
    """Reads memory there: a slot, which may not have been stored yet."""


class Fetch(enum.IntEnum):
    """What a probe must be able to do to fetch the captures of a location; each includes those before it."""

    NOTHING = 0
    REGISTERS = 1
    MEMORY = 2
    """Memory at a register or at a whole captured word, plus a constant, or at a fixed address."""
    ARITHMETIC = 3
    """Memory at an address that has to be computed, or dereferences nested deeper than a kprobe event allows."""


class Offset(NamedTuple):
    """An address: the captured word number ``base`` plus ``offset``, modulo the size of an address."""

    base: int
    offset: int


class Absolute(NamedTuple):
    """A fixed address; the load bias is to be added if ``relocated``."""

    address: int
    relocated: bool


class Computed(NamedTuple):
    """An address that is the node of this index; see :meth:`Location.address`."""

    node: int


Address = Offset | Absolute | Computed


class RegisterCapture(NamedTuple):
    """Fetch DWARF register ``number``, whole."""

    number: int


class MemoryCapture(NamedTuple):
    """Fetch ``size`` bytes at ``address``."""

    address: Address
    size: int


Capture = RegisterCapture | MemoryCapture
Word = int | bytes | None


class Piece(NamedTuple):
    """``bits`` bits of the value: those of node ``node`` from bit ``shift`` (0 is the least significant) on."""

    bits: int
    node: int
    shift: int = 0


class _Plan(NamedTuple):
    captures: tuple[Capture, ...]
    nodes: tuple[int, ...]
    fetch: Fetch
    depth: int


class Location:
    """Where a value of ``size`` bytes is.

    ``nodes`` is the computation, its last node the value; with ``pieces`` the value is put together from several
    nodes, lowest address first. A register is whole in the nodes, whatever the size of the value.

    ``plain`` tells that the compiler wrote it as one of the plain shapes: a register, a constant, an address, or a
    register plus a constant, with no other operation. ``frame`` tells whether the frame base is in it.
    """

    __slots__ = ("_plan", "address_size", "frame", "little_endian", "nodes", "pieces", "plain", "size")

    def __init__(
        self,
        nodes: tuple[Node, ...],
        size: int,
        address_size: int = 8,
        little_endian: bool = True,
        pieces: tuple[Piece, ...] = (),
        frame: Frame = Frame.NONE,
        plain: bool = False,
    ) -> None:
        self.nodes = nodes
        self.size = size
        self.address_size = address_size
        self.little_endian = little_endian
        self.pieces = pieces
        self.frame = frame
        self.plain = plain
        self._plan: _Plan | None = None

    def _key(self) -> tuple[object, ...]:
        return self.nodes, self.size, self.address_size, self.little_endian, self.pieces, self.frame, self.plain

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Location) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Location{self._key()!r}"

    @classmethod
    def register(cls, number: int, *, size: int, address_size: int = 8, little_endian: bool = True) -> Location:
        """Return the location of a value in a register."""
        return cls((Node(Op.REGISTER, number),), size, address_size, little_endian, plain=True)

    @classmethod
    def value(
        cls, number: int, offset: int, *, size: int, address_size: int = 8, little_endian: bool = True
    ) -> Location:
        """Return the location of a value that is a register plus ``offset``."""
        if not offset:
            return cls.register(number, size=size, address_size=address_size, little_endian=little_endian)
        nodes = (Node(Op.REGISTER, number), Node(Op.OFFSET, 0, offset))
        return cls(nodes, size, address_size, little_endian, plain=True)

    @classmethod
    def memory(
        cls, number: int, offset: int, *, size: int, address_size: int = 8, little_endian: bool = True
    ) -> Location:
        """Return the location of a value in memory at a register plus ``offset``."""
        first = Node(Op.REGISTER, number)
        if offset:
            nodes: tuple[Node, ...] = (first, Node(Op.OFFSET, 0, offset), Node(Op.LOAD, 1, size or address_size))
        else:
            nodes = (first, Node(Op.LOAD, 0, size or address_size))
        return cls(nodes, size, address_size, little_endian)

    @classmethod
    def constant(cls, number: int, *, size: int, address_size: int = 8, little_endian: bool = True) -> Location:
        """Return the location of a value that is ``number`` (negative or not) everywhere."""
        bits = 8 * max(size, address_size)
        return cls((Node(Op.CONSTANT, number & ((1 << bits) - 1)),), size, address_size, little_endian, plain=True)

    @classmethod
    def link_address(cls, address: int, *, size: int, address_size: int = 8, little_endian: bool = True) -> Location:
        """Return the location of a value that is a link-time address."""
        return cls((Node(Op.ADDRESS, address),), size, address_size, little_endian, plain=True)

    @classmethod
    def registers(
        cls, numbers: Sequence[int], *, size: int, address_size: int = 8, little_endian: bool = True
    ) -> Location:
        """Return the location of a value in several registers, the one with the value's lowest address first."""
        nodes = tuple(Node(Op.REGISTER, number) for number in numbers)
        pieces = []
        for index in range(len(nodes)):
            pieces.append(Piece(8 * min(address_size, size - index * address_size), index))
        return cls(nodes, size, address_size, little_endian, tuple(pieces))

    @property
    def shape(self) -> Shape:
        """The form of the location."""
        if self.pieces:
            return Shape.PIECES
        node = self.nodes[-1]
        if node.type is None:
            if node.op == Op.REGISTER:
                return Shape.REGISTER
            if node.op == Op.CONSTANT:
                return Shape.CONSTANT
            if node.op == Op.ADDRESS:
                return Shape.ADDRESS
            if node.op == Op.OFFSET and self.nodes[node.a].op == Op.REGISTER:
                return Shape.VALUE
            if node.op == Op.LOAD and node.b == (self.size or self.address_size):
                return self._memory_shape(self.nodes[node.a])
        return Shape.EXPRESSION

    def _memory_shape(self, address: Node) -> Shape:
        if address.op in (Op.ADDRESS, Op.CONSTANT):
            return Shape.STATIC
        if address.op == Op.OFFSET:
            address = self.nodes[address.a]
        return Shape.MEMORY if address.op == Op.REGISTER and address.type is None else Shape.EXPRESSION

    @property
    def base(self) -> tuple[int, int]:
        """Register number and offset of the shapes REGISTER, VALUE and MEMORY. Raises ValueError for others."""
        node = self.nodes[-1]
        if node.op == Op.LOAD and self.shape == Shape.MEMORY:
            node = self.nodes[node.a]
        elif self.shape not in (Shape.REGISTER, Shape.VALUE):
            raise ValueError(f"a location of shape {self.shape.value} has no base register")
        if node.op == Op.OFFSET:
            return self.nodes[node.a].a, node.b
        return node.a, 0

    def capture(self) -> tuple[Capture, ...]:
        """Return what a probe has to fetch, in order; an address refers only to words before it."""
        return self._planned().captures

    @property
    def fetch(self) -> Fetch:
        """What a probe must be able to do for that."""
        return self._planned().fetch

    @property
    def depth(self) -> int:
        """How deep memory accesses are nested: 0 for none, 1 for memory at a register plus a constant."""
        return self._planned().depth

    def needed(self) -> tuple[bool, ...]:
        """Tell for each capture whether ``evaluate`` reads its word; the others only serve to address memory."""
        nodes, wanted = self.nodes, [False] * len(self.nodes)
        for index in [piece.node for piece in self.pieces] or [len(nodes) - 1]:
            wanted[index] = True
        for index in range(len(nodes) - 1, -1, -1):
            if wanted[index] and nodes[index].op != Op.LOAD:
                for operand in operands(nodes[index]):
                    wanted[operand] = True
        return tuple(wanted[index] for index in self._planned().nodes)

    def _planned(self) -> _Plan:
        if self._plan is None:
            self._plan = self._make_plan()
        return self._plan

    def _make_plan(self) -> _Plan:
        captures: list[Capture] = []
        positions: list[int] = []
        capture_of: dict[int, int] = {}
        depths: list[int] = []
        fetch = Fetch.NOTHING
        for index, node in enumerate(self.nodes):
            depth = max((depths[operand] for operand in operands(node)), default=0)
            if node.op == Op.REGISTER:
                capture_of[index] = len(captures)
                captures.append(RegisterCapture(node.a))
                positions.append(index)
                fetch = max(fetch, Fetch.REGISTERS)
            elif node.op == Op.LOAD:
                depth += 1
                address, needs = self._address(node.a, capture_of)
                fetch = max(fetch, needs, Fetch.ARITHMETIC if depth > MAXIMUM_DEREFERENCE else Fetch.MEMORY)
                capture_of[index] = len(captures)
                captures.append(MemoryCapture(address, node.b))
                positions.append(index)
            depths.append(depth)
        return _Plan(tuple(captures), tuple(positions), fetch, max(depths, default=0))

    def _address(self, index: int, capture_of: dict[int, int]) -> tuple[Address, Fetch]:
        node = base = self.nodes[index]
        base_index, offset = index, 0
        if node.op in (Op.ADDRESS, Op.CONSTANT):
            return Absolute(node.a, node.op == Op.ADDRESS), Fetch.MEMORY
        if node.op == Op.OFFSET:
            base_index, offset = node.a, node.b
            base = self.nodes[base_index]
        if base.type is None and base.op in (Op.REGISTER, Op.LOAD):
            whole = base.op == Op.REGISTER or base.b == self.address_size
            return Offset(capture_of[base_index], offset), Fetch.MEMORY if whole else Fetch.ARITHMETIC
        return Computed(index), Fetch.ARITHMETIC

    def address(self, capture: MemoryCapture, words: Sequence[Word], *, load_bias: int = 0) -> int | Unavailable:
        """Return the address a memory capture reads, from the words fetched before it."""
        mask = (1 << 8 * self.address_size) - 1
        where = capture.address
        if isinstance(where, Absolute):
            return (where.address + (load_bias if where.relocated else 0)) & mask
        if isinstance(where, Offset):
            plan = self._planned()
            word = self._word(words, where.base, self.nodes[plan.nodes[where.base]])
            return word if isinstance(word, Unavailable) else (word + where.offset) & mask
        value = self._values(words, load_bias, where.node + 1)[where.node]
        return value if isinstance(value, Unavailable) else value & mask

    def with_addresses(self, resolve: Callable[[int], int | Unavailable | None]) -> Location | Unavailable:
        """Return the location with link-time addresses replaced that one load bias is not enough for.

        ``resolve`` says what an address is at run time, None if the load bias is added to it as to any other.
        """
        if not any(node.op == Op.ADDRESS for node in self.nodes):
            return self
        nodes = list(self.nodes)
        for index, node in enumerate(nodes):
            if node.op != Op.ADDRESS:
                continue
            address = resolve(node.a)
            if isinstance(address, Unavailable):
                return address
            if address is not None:
                nodes[index] = Node(Op.CONSTANT, address, type=node.type)
        return Location(
            tuple(nodes), self.size, self.address_size, self.little_endian, self.pieces, self.frame, self.plain
        )

    def evaluate(self, words: Sequence[Word], *, load_bias: int = 0) -> bytes | Unavailable:
        """Return the value's bytes in the target's order, or why there is none.

        ``words`` are the fetched words in the order of ``capture``: a register as a number; memory as bytes or as the
        number it holds in the target's byte order; None for what could not be read. ``load_bias`` is how far the
        code is from its link-time address. Whatever the words are, nothing is raised.
        """
        size = self.size or self.address_size
        if self.pieces:
            return self._assemble(self._values(words, load_bias, len(self.nodes)), size)
        node = self.nodes[-1]
        if node.op == Op.LOAD and node.b == size and len(self._planned().captures) == len(words):
            word = words[-1]
            if isinstance(word, bytes) and len(word) == size:
                return word
        value = self._values(words, load_bias, len(self.nodes))[-1]
        if isinstance(value, Unavailable):
            return value
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little" if self.little_endian else "big")

    def _assemble(self, values: list[int | Unavailable], size: int) -> bytes | Unavailable:
        total = bits = 0
        for piece in self.pieces:
            value = values[piece.node]
            if isinstance(value, Unavailable):
                return value
            part = value >> piece.shift & ((1 << piece.bits) - 1)
            # Bits are numbered from the lowest address: on big-endian machines that is the most significant end.
            total = total | part << bits if self.little_endian else total << piece.bits | part
            bits += piece.bits
        if bits < 8 * size:
            return Unavailable(Reason.PARTLY, f"{bits} of {8 * size} bits are described")
        if self.little_endian:
            return (total & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        return (total >> (bits - 8 * size)).to_bytes(size, "big")

    def _word(self, words: Sequence[Word], index: int, node: Node) -> int | Unavailable:
        word = words[index] if index < len(words) else None
        size = node.b if node.op == Op.LOAD else self.address_size
        if isinstance(word, (bytes, bytearray, memoryview)):
            if len(word) < size:
                return _FAULT
            word = int.from_bytes(word[:size], "little" if self.little_endian else "big")
        if not isinstance(word, int):
            return _FAULT
        if node.type is not None:
            size = min(size, node.type.size)
        return word & ((1 << 8 * size) - 1)

    def _values(self, words: Sequence[Word], load_bias: int, count: int) -> list[int | Unavailable]:
        """Return the values of the first ``count`` nodes."""
        address_size = self.address_size
        mask = (1 << 8 * address_size) - 1
        values: list[int | Unavailable] = []
        captured = 0
        for node in self.nodes[:count]:
            op = node.op
            if op in (Op.REGISTER, Op.LOAD):
                values.append(self._word(words, captured, node))
                captured += 1
                continue
            if op == Op.CONSTANT:
                values.append(node.a)
                continue
            if op == Op.ADDRESS:
                values.append((node.a + load_bias) & mask)
                continue
            left = values[node.a]
            if isinstance(left, Unavailable):
                values.append(left)
            elif op == Op.OFFSET:
                values.append((left + node.b) & mask)
            elif op == Op.SELECT:
                values.append(values[node.b] if left else values[node.c])
            else:
                values.append(self._compute(node, left, values))
        return values

    def _compute(self, node: Node, left: int, values: list[int | Unavailable]) -> int | Unavailable:
        op, source = node.op, self.nodes[node.a].type
        result: int | None
        if op == Op.CONVERT:
            result = convert(left, source, node.type, self.address_size)
        elif op == Op.REINTERPRET:
            result = left
        elif op in (Op.NEG, Op.NOT, Op.ABS):
            result = unary(op, left, source, self.address_size)
        else:
            right = values[node.b]
            if isinstance(right, Unavailable):
                return right
            result = binary(op, left, right, source, self.address_size)
        return _UNDEFINED if result is None else result

    def read(
        self, registers: Mapping[int, int], memory: Callable[[int, int], bytes | None], load_bias: int = 0
    ) -> bytes | Unavailable:
        """Fetch the captures and evaluate them.

        ``registers`` maps DWARF numbers to values; ``memory(address, size)`` returns the bytes there, or None.
        """
        words: list[Word] = []
        for capture in self.capture():
            if isinstance(capture, RegisterCapture):
                words.append(registers.get(capture.number))
                continue
            address = self.address(capture, words, load_bias=load_bias)
            words.append(None if isinstance(address, Unavailable) else memory(address, capture.size))
        return self.evaluate(words, load_bias=load_bias)

    def text(self, machine: Machine, *, signed: bool | None = None, name_address: Callable[[int], str] = hex) -> str:
        """Return the location in the words of pfunct, or as a C-like expression.

        ``rax``; ``*(rsp+8)``; ``rdi+300``; ``const 0x2``, ``const -1``; ``addr 0xffffffff81000000``; ``rdi, rsi``.
        ``signed`` is the signedness of the parameter's type: it decides how a constant is printed.
        ``name_address`` says what people call an address of the program's data.
        """
        from inlinetrace.sites.location_text import location_text

        return location_text(self, machine, signed, name_address)


_FAULT = Unavailable(Reason.FAULT, "the memory or register could not be read")
_UNDEFINED = Unavailable(Reason.UNSUPPORTED, "the operation has no result: division by zero or not a number")
