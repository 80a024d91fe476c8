"""DWARF expressions: bytes to operations, and operations to text.

::

    operations = decode(block, address_size=8, offset_size=4, little_endian=True, version=5)
    text(operations, machine)       # "DW_OP_breg5(rdi+8); DW_OP_stack_value"

Covers DWARF 2 to 5 (DWARF 5 sections 2.5, 2.6 and 7.7.1) and the GNU extensions. Only the syntax is here: what the
operations mean is the matter of :mod:`inlinetrace.sites.resolve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Union

from inlinetrace.errors import FormatError

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine

ByteOrder = Literal["little", "big"]
Operand = Union[int, bytes, "tuple[Operation, ...]"]

MAXIMUM_NESTING = 4
"""Expressions within expressions (DW_OP_entry_value) deeper than this are refused; compilers nest once."""

MAXIMUM_OPERATIONS = 1 << 16
"""Longer expressions are refused; the longest of a kernel has some hundred operations."""

_TEXT_OPERATIONS = 64
"""So many operations are printed, the rest is an ellipsis."""

ADDR = 0x03
DEREF = 0x06
CONST1U, CONST1S, CONST2U, CONST2S, CONST4U, CONST4S, CONST8U, CONST8S, CONSTU, CONSTS = range(0x08, 0x12)
DUP, DROP, OVER, PICK, SWAP, ROT, XDEREF = range(0x12, 0x19)
ABS, AND, DIV, MINUS, MOD, MUL, NEG, NOT, OR, PLUS, PLUS_UCONST, SHL, SHR, SHRA, XOR = range(0x19, 0x28)
BRA, EQ, GE, GT, LE, LT, NE, SKIP = range(0x28, 0x30)
LIT0, REG0, BREG0 = 0x30, 0x50, 0x70
REGX, FBREG, BREGX, PIECE, DEREF_SIZE, XDEREF_SIZE, NOP, PUSH_OBJECT_ADDRESS = range(0x90, 0x98)
CALL2, CALL4, CALL_REF, FORM_TLS_ADDRESS, CALL_FRAME_CFA, BIT_PIECE = range(0x98, 0x9E)
IMPLICIT_VALUE, STACK_VALUE, IMPLICIT_POINTER, ADDRX, CONSTX, ENTRY_VALUE = range(0x9E, 0xA4)
CONST_TYPE, REGVAL_TYPE, DEREF_TYPE, XDEREF_TYPE, CONVERT, REINTERPRET = range(0xA4, 0xAA)
GNU_PUSH_TLS_ADDRESS = 0xE0
GNU_UNINIT, GNU_ENCODED_ADDR, GNU_IMPLICIT_POINTER, GNU_ENTRY_VALUE, GNU_CONST_TYPE = range(0xF0, 0xF5)
GNU_REGVAL_TYPE, GNU_DEREF_TYPE, GNU_CONVERT = range(0xF5, 0xF8)
GNU_REINTERPRET, GNU_PARAMETER_REF, GNU_ADDR_INDEX, GNU_CONST_INDEX, GNU_VARIABLE_VALUE = range(0xF9, 0xFE)

# Operands: A address; b h i q signed and B H I Q unsigned, 1 2 4 8 bytes; U S LEB128; O offset of the DWARF format;
# K and k blocks with a ULEB or one-byte length; E an expression with a ULEB length; J a branch.
_FORMATS: dict[int, tuple[str, str]] = {
    ADDR: ("addr", "A"),
    DEREF: ("deref", ""),
    CONST1U: ("const1u", "B"),
    CONST1S: ("const1s", "b"),
    CONST2U: ("const2u", "H"),
    CONST2S: ("const2s", "h"),
    CONST4U: ("const4u", "I"),
    CONST4S: ("const4s", "i"),
    CONST8U: ("const8u", "Q"),
    CONST8S: ("const8s", "q"),
    CONSTU: ("constu", "U"),
    CONSTS: ("consts", "S"),
    DUP: ("dup", ""),
    DROP: ("drop", ""),
    OVER: ("over", ""),
    PICK: ("pick", "B"),
    SWAP: ("swap", ""),
    ROT: ("rot", ""),
    XDEREF: ("xderef", ""),
    ABS: ("abs", ""),
    AND: ("and", ""),
    DIV: ("div", ""),
    MINUS: ("minus", ""),
    MOD: ("mod", ""),
    MUL: ("mul", ""),
    NEG: ("neg", ""),
    NOT: ("not", ""),
    OR: ("or", ""),
    PLUS: ("plus", ""),
    PLUS_UCONST: ("plus_uconst", "U"),
    SHL: ("shl", ""),
    SHR: ("shr", ""),
    SHRA: ("shra", ""),
    XOR: ("xor", ""),
    BRA: ("bra", "J"),
    EQ: ("eq", ""),
    GE: ("ge", ""),
    GT: ("gt", ""),
    LE: ("le", ""),
    LT: ("lt", ""),
    NE: ("ne", ""),
    SKIP: ("skip", "J"),
    REGX: ("regx", "U"),
    FBREG: ("fbreg", "S"),
    BREGX: ("bregx", "US"),
    PIECE: ("piece", "U"),
    DEREF_SIZE: ("deref_size", "B"),
    XDEREF_SIZE: ("xderef_size", "B"),
    NOP: ("nop", ""),
    PUSH_OBJECT_ADDRESS: ("push_object_address", ""),
    CALL2: ("call2", "H"),
    CALL4: ("call4", "I"),
    CALL_REF: ("call_ref", "O"),
    FORM_TLS_ADDRESS: ("form_tls_address", ""),
    CALL_FRAME_CFA: ("call_frame_cfa", ""),
    BIT_PIECE: ("bit_piece", "UU"),
    IMPLICIT_VALUE: ("implicit_value", "K"),
    STACK_VALUE: ("stack_value", ""),
    IMPLICIT_POINTER: ("implicit_pointer", "OS"),
    ADDRX: ("addrx", "U"),
    CONSTX: ("constx", "U"),
    ENTRY_VALUE: ("entry_value", "E"),
    CONST_TYPE: ("const_type", "Uk"),
    REGVAL_TYPE: ("regval_type", "UU"),
    DEREF_TYPE: ("deref_type", "BU"),
    XDEREF_TYPE: ("xderef_type", "BU"),
    CONVERT: ("convert", "U"),
    REINTERPRET: ("reinterpret", "U"),
    GNU_PUSH_TLS_ADDRESS: ("GNU_push_tls_address", ""),
    GNU_UNINIT: ("GNU_uninit", ""),
    GNU_IMPLICIT_POINTER: ("GNU_implicit_pointer", "OS"),
    GNU_ENTRY_VALUE: ("GNU_entry_value", "E"),
    GNU_CONST_TYPE: ("GNU_const_type", "Uk"),
    GNU_REGVAL_TYPE: ("GNU_regval_type", "UU"),
    GNU_DEREF_TYPE: ("GNU_deref_type", "BU"),
    GNU_CONVERT: ("GNU_convert", "U"),
    GNU_REINTERPRET: ("GNU_reinterpret", "U"),
    GNU_PARAMETER_REF: ("GNU_parameter_ref", "I"),
    GNU_ADDR_INDEX: ("GNU_addr_index", "U"),
    GNU_CONST_INDEX: ("GNU_const_index", "U"),
    GNU_VARIABLE_VALUE: ("GNU_variable_value", "O"),
    **{LIT0 + i: (f"lit{i}", "") for i in range(32)},
    **{REG0 + i: (f"reg{i}", "") for i in range(32)},
    **{BREG0 + i: (f"breg{i}", "S") for i in range(32)},
}
_FIXED = {"b": (1, True), "h": (2, True), "i": (4, True), "q": (8, True)}
_FIXED |= {"B": (1, False), "H": (2, False), "I": (4, False), "Q": (8, False)}


class Operation(NamedTuple):
    """One operation.

    Operands are integers, bytes (blocks), or operations (the expression of DW_OP_entry_value). A branch has two: the
    distance in bytes and the index of the operation it goes to (the number of operations for the end).
    An operation that is not known, a vendor's or one of a later DWARF, has one operand, the rest of the expression: its
    length cannot be told.
    """

    opcode: int
    operands: tuple[Operand, ...] = ()


def name(opcode: int) -> str:
    """Return the name (``DW_OP_plus``) of an opcode, or ``DW_OP_<0xnn>`` where there is none."""
    known = _FORMATS.get(opcode)
    return f"DW_OP_{known[0]}" if known else f"DW_OP_<{opcode:#04x}>"


def is_known(opcode: int) -> bool:
    """Tell whether the operands of ``opcode`` are known."""
    return opcode in _FORMATS


def decode(
    expression: bytes, *, address_size: int, offset_size: int, little_endian: bool, version: int
) -> tuple[Operation, ...]:
    """Return the operations of ``expression``.

    ``version`` is the unit's: in version 2 references to .debug_info have the size of an address. Raises FormatError
    for an expression that is truncated, or branches to where no operation starts; its
    ``offset`` counts from the start of the expression.
    """
    reference_size = address_size if version < 3 else offset_size
    return _decode(expression, address_size, reference_size, "little" if little_endian else "big", 0)


def _decode(
    expression: bytes, address_size: int, reference_size: int, order: ByteOrder, depth: int
) -> tuple[Operation, ...]:
    if depth > MAXIMUM_NESTING:
        raise FormatError(f"DWARF expressions nested more than {MAXIMUM_NESTING} deep")
    operations: list[Operation] = []
    starts: list[int] = []
    branches: list[int] = []
    position, end = 0, len(expression)
    while position < end:
        start = position
        if len(starts) >= MAXIMUM_OPERATIONS:
            raise FormatError(f"DWARF expression of more than {MAXIMUM_OPERATIONS} operations", offset=start)
        starts.append(start)
        opcode = expression[position]
        position += 1
        known = _FORMATS.get(opcode)
        if known is None:
            operations.append(Operation(opcode, (expression[position:],)))
            break
        codes = known[1]
        if not codes:
            operations.append(Operation(opcode))
            continue
        if codes == "S" or codes == "U":
            # Most operands are one small number; the loop below would do the same, slower.
            byte = expression[position] if position < end else 0x80
            if byte < 0x80:
                position += 1
                small = byte - 0x80 if codes == "S" and byte & 0x40 else byte
                operations.append(Operation(opcode, (small,)))
                continue
        operands: list[Operand] = []
        for code in codes:
            if code in "US":
                value, position = _leb128(expression, position, code == "S", start)
                operands.append(value)
                continue
            if code in "KE":
                size, position = _leb128(expression, position, False, start)
            elif code == "k":
                size = expression[position] if position < end else 0
                position += 1
            elif code == "A":
                size = address_size
            elif code == "O":
                size = reference_size
            else:
                size = 2 if code == "J" else _FIXED[code][0]
            if position + size > end:
                raise FormatError(f"{name(opcode)} reaches past the end of its DWARF expression", offset=start)
            block = expression[position : position + size]
            position += size
            if code in "Kk":
                operands.append(block)
            elif code == "E":
                operands.append(_decode(block, address_size, reference_size, order, depth + 1))
            elif code == "J":
                operands.append(int.from_bytes(block, order, signed=True))
                branches.append(len(operations))
            else:
                signed = code in _FIXED and _FIXED[code][1]
                operands.append(int.from_bytes(block, order, signed=signed))
        operations.append(Operation(opcode, tuple(operands)))
    if branches:
        _link(operations, branches, starts, end)
    return tuple(operations)


def _link(operations: list[Operation], branches: list[int], starts: list[int], end: int) -> None:
    """Give each branch the index of the operation it goes to."""
    index_at = {start: index for index, start in enumerate(starts)}
    index_at[end] = len(operations)
    for index in branches:
        operation = operations[index]
        distance = operation.operands[0]
        assert isinstance(distance, int)
        target = index_at.get(starts[index] + 3 + distance)
        if target is None:
            raise FormatError(f"{name(operation.opcode)} goes to where no operation starts", offset=starts[index])
        operations[index] = Operation(operation.opcode, (distance, target))


def _leb128(data: bytes, position: int, signed: bool, start: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data):
            raise FormatError("LEB128 number reaches past the end of its DWARF expression", offset=start)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
        if shift > 140:
            raise FormatError("LEB128 number of more than 20 bytes", offset=start)
    if signed and byte & 0x40:
        value -= 1 << shift
    return value, position


def text(operations: tuple[Operation, ...], machine: Machine) -> str:
    """Return the operations as one line, registers by name: ``DW_OP_entry_value(rdx)``, ``DW_OP_breg7(rsp+8)``."""
    shown = "; ".join(_text(operation, machine) for operation in operations[:_TEXT_OPERATIONS])
    return shown + "; ..." if len(operations) > _TEXT_OPERATIONS else shown


def _text(operation: Operation, machine: Machine) -> str:
    opcode, operands = operation.opcode, operation.operands
    if REG0 <= opcode < BREG0:
        return f"{name(opcode)}({machine.register_name(opcode - REG0)})"
    if not operands:
        return name(opcode)
    first, last = operands[0], operands[-1]
    if isinstance(first, int) and isinstance(last, int):
        if BREG0 <= opcode < REGX:
            return f"{name(opcode)}({machine.register_name(opcode - BREG0)}{first:+d})"
        if opcode == REGX:
            return f"{name(opcode)}({machine.register_name(first)})"
        if opcode == BREGX:
            return f"{name(opcode)}({machine.register_name(first)}{last:+d})"
        if opcode in (REGVAL_TYPE, GNU_REGVAL_TYPE):
            return f"{name(opcode)}({machine.register_name(first)}, {last:#x})"
        if opcode in (IMPLICIT_POINTER, GNU_IMPLICIT_POINTER):
            return f"{name(opcode)}({first:#x}, {last})"
        if opcode in (BRA, SKIP):
            return f"{name(opcode)}({first:+d})"
    return f"{name(opcode)}({', '.join(_operand(opcode, operand, machine) for operand in operands)})"


def _operand(opcode: int, operand: Operand, machine: Machine) -> str:
    if isinstance(operand, int):
        return hex(operand) if opcode in _HEXADECIMAL else str(operand)
    if isinstance(operand, bytes):
        return "0x" + operand[:64].hex() + ("..." if len(operand) > 64 else "")
    # A lone register needs no more than its name: DW_OP_entry_value(rdx) is how people write it.
    if len(operand) == 1 and REG0 <= operand[0].opcode < BREG0:
        return machine.register_name(operand[0].opcode - REG0)
    return text(operand, machine)


_HEXADECIMAL = frozenset(
    {ADDR, CALL2, CALL4, CALL_REF, GNU_PARAMETER_REF, GNU_VARIABLE_VALUE}
    | {CONVERT, GNU_CONVERT, REINTERPRET, GNU_REINTERPRET, CONST_TYPE, GNU_CONST_TYPE, DEREF_TYPE, GNU_DEREF_TYPE}
)
