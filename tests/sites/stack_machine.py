"""A DWARF stack machine over numbers, the plain way: what symbolic resolution is held against in tests.

Generic type only, little- or big-endian, with branches and pieces. Raises ValueError for what it cannot do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from inlinetrace.dwarf import expression as dw
from inlinetrace.dwarf.expression import Operation

BITS = 64
MASK = (1 << BITS) - 1


def signed(value: int) -> int:
    return value - (1 << BITS) if value >> (BITS - 1) else value


def truncate_division(left: int, right: int) -> int:
    if right == 0:
        raise ValueError("division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


BINARY: dict[int, Callable[[int, int], int]] = {
    dw.AND: lambda a, b: a & b,
    dw.OR: lambda a, b: a | b,
    dw.XOR: lambda a, b: a ^ b,
    dw.PLUS: lambda a, b: a + b,
    dw.MINUS: lambda a, b: a - b,
    dw.MUL: lambda a, b: a * b,
    dw.DIV: lambda a, b: truncate_division(signed(a), signed(b)),
    dw.MOD: lambda a, b: a - b * truncate_division(a, b),
    dw.SHL: lambda a, b: a << b if b < BITS else 0,
    dw.SHR: lambda a, b: a >> b if b < BITS else 0,
    dw.SHRA: lambda a, b: signed(a) >> min(b, BITS),
    dw.EQ: lambda a, b: a == b,
    dw.NE: lambda a, b: a != b,
    dw.LT: lambda a, b: signed(a) < signed(b),
    dw.LE: lambda a, b: signed(a) <= signed(b),
    dw.GT: lambda a, b: signed(a) > signed(b),
    dw.GE: lambda a, b: signed(a) >= signed(b),
}


def run(
    operations: Sequence[Operation],
    registers: Mapping[int, int],
    memory: Callable[[int, int], bytes],
    *,
    size: int,
    frame: int = 0,
    bias: int = 0,
    order: str = "little",
) -> bytes:
    """Return the value's bytes."""
    byteorder: Literal["little", "big"] = "big" if order == "big" else "little"
    end = len(operations)
    stack: list[int] = []
    position = steps = 0
    pieces: list[tuple[int, bytes]] = []
    register: int | None = None
    value = False
    while position < end:
        steps += 1
        if steps > 2000:
            raise ValueError("endless")
        operation = operations[position]
        opcode = operation.opcode
        arguments = [a for a in operation.operands if isinstance(a, int)]
        position += 1
        try:
            if opcode in BINARY:
                right, left = stack.pop(), stack.pop()
                stack.append(BINARY[opcode](left, right) & MASK)
            elif dw.LIT0 <= opcode < dw.REG0:
                stack.append(opcode - dw.LIT0)
            elif dw.CONST1U <= opcode <= dw.CONSTS:
                stack.append(arguments[0] & MASK)
            elif dw.BREG0 <= opcode < dw.REGX:
                stack.append((registers[opcode - dw.BREG0] + arguments[0]) & MASK)
            elif opcode == dw.FBREG:
                stack.append((frame + arguments[0]) & MASK)
            elif opcode == dw.ADDR:
                stack.append((arguments[0] + bias) & MASK)
            elif opcode == dw.PLUS_UCONST:
                stack.append((stack.pop() + arguments[0]) & MASK)
            elif opcode == dw.NEG:
                stack.append(-stack.pop() & MASK)
            elif opcode == dw.NOT:
                stack.append(~stack.pop() & MASK)
            elif opcode == dw.ABS:
                stack.append(abs(signed(stack.pop())) & MASK)
            elif opcode == dw.DEREF:
                stack.append(int.from_bytes(memory(stack.pop(), 8), byteorder))
            elif opcode == dw.DEREF_SIZE:
                stack.append(int.from_bytes(memory(stack.pop(), arguments[0]), byteorder))
            elif opcode == dw.DUP:
                stack.append(stack[-1])
            elif opcode == dw.DROP:
                stack.pop()
            elif opcode == dw.OVER:
                stack.append(stack[-2])
            elif opcode == dw.PICK:
                stack.append(stack[-1 - arguments[0]])
            elif opcode == dw.SWAP:
                stack[-1], stack[-2] = stack[-2], stack[-1]
            elif opcode == dw.ROT:
                top, second, third = stack.pop(), stack.pop(), stack.pop()
                stack += [top, third, second]
            elif opcode == dw.BRA:
                if stack.pop():
                    position = arguments[1]
            elif opcode == dw.SKIP:
                position = arguments[1]
            elif opcode == dw.STACK_VALUE:
                value = True
            elif dw.REG0 <= opcode < dw.BREG0:
                register = opcode - dw.REG0
            elif opcode == dw.PIECE:
                if register is None and not stack:
                    raise ValueError("empty piece")
                pieces.append((arguments[0], take(stack, registers, memory, register, value, arguments[0], byteorder)))
                stack, register, value = [], None, False
            elif opcode != dw.NOP:
                raise ValueError(dw.name(opcode))
        except IndexError:
            raise ValueError("empty stack") from None
    if not pieces:
        if register is None and not stack:
            raise ValueError("empty stack")
        return take(stack, registers, memory, register, value, size, byteorder)
    data = b"".join(part for _, part in pieces)
    if len(data) < size:
        raise ValueError("too few pieces")
    return data[:size]


def take(
    stack: list[int],
    registers: Mapping[int, int],
    memory: Callable[[int, int], bytes],
    register: int | None,
    value: bool,
    size: int,
    byteorder: str,
) -> bytes:
    if register is not None or value:
        word = registers[register] if register is not None else stack[-1]
        if size > BITS // 8:
            raise ValueError("too few bytes")
        return (word & ((1 << 8 * size) - 1)).to_bytes(size, "big" if byteorder == "big" else "little")
    return memory(stack[-1], size)
