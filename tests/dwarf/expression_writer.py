"""Writes DWARF expressions for tests: ``op("breg7", sleb(8)) + op("deref") + op("stack_value")``.

The numbers of the operations are pyelftools', not ours.
"""

from __future__ import annotations

from elftools.dwarf.dwarf_expr import DW_OP_name2opcode


def uleb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def sleb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        done = value == (-1 if byte & 0x40 else 0)
        out.append(byte | (0 if done else 0x80))
        if done:
            return bytes(out)


def number(value: int, size: int, order: str = "little") -> bytes:
    return (value & ((1 << 8 * size) - 1)).to_bytes(size, "big" if order == "big" else "little")


def op(name: str, *operands: bytes) -> bytes:
    """One operation with its encoded operands."""
    return bytes([DW_OP_name2opcode[f"DW_OP_{name}"]]) + b"".join(operands)


def block(data: bytes) -> bytes:
    """A block with a ULEB length."""
    return uleb(len(data)) + data
