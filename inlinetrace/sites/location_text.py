"""Locations as text: the words of pfunct for the plain shapes, C-like expressions for all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from inlinetrace.sites.nodes import ATE_ADDRESS, ATE_BOOLEAN, COMPARISONS, BaseType, Node, Op, to_signed

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine
    from inlinetrace.sites.location import Location, Piece

_LIMIT = 600
"""Shared nodes can make a text grow exponentially; a part longer than this is left out."""

# C's operators with their precedences, higher binds tighter.
_BINARY = {
    Op.ADD: ("+", 9),
    Op.SUB: ("-", 9),
    Op.MUL: ("*", 10),
    Op.DIV: ("/", 10),
    Op.MOD: ("%", 10),
    Op.AND: ("&", 5),
    Op.OR: ("|", 3),
    Op.XOR: ("^", 4),
    Op.SHL: ("<<", 8),
    Op.SHR: (">>", 8),
    Op.SHRA: (">>", 8),
    Op.EQ: ("==", 6),
    Op.NE: ("!=", 6),
    Op.LT: ("<", 7),
    Op.LE: ("<=", 7),
    Op.GT: (">", 7),
    Op.GE: (">=", 7),
}
_BITWISE = (Op.AND, Op.OR, Op.XOR)
_UNARY, _POSTFIX, _TERNARY = 11, 12, 1


def location_text(
    location: Location, machine: Machine, signed: bool | None, name_address: Callable[[int], str] = hex
) -> str:
    """Return ``location`` as text (see ``Location.text``)."""
    size = location.size or location.address_size
    if not location.pieces:
        return _whole(location, _node_texts(location, machine, name_address), location.nodes[-1], 8 * size, signed)
    texts = _node_texts(location, machine, name_address)
    if _are_registers(location):
        return ", ".join(texts[piece.node][0] for piece in location.pieces)
    parts, position = [], 0
    for piece in location.pieces:
        parts.append(f"{_range(position, piece.bits)}: {_piece(location, texts, piece)}")
        position += piece.bits
    return "{" + ", ".join(parts) + "}"


def _are_registers(location: Location) -> bool:
    return all(
        location.nodes[piece.node].op == Op.REGISTER
        and location.nodes[piece.node].type is None
        and piece.bits == 8 * location.address_size
        and not piece.shift
        for piece in location.pieces
    )


def _range(position: int, bits: int) -> str:
    if position % 8 or bits % 8:
        last = position + bits - 1
        return f"bit {position}" if bits == 1 else f"bits {position}-{last}"
    first, last = position // 8, (position + bits) // 8 - 1
    return f"byte {first}" if first == last else f"bytes {first}-{last}"


def _piece(location: Location, texts: list[tuple[str, int]], piece: Piece) -> str:
    node = location.nodes[piece.node]
    if piece.shift:
        return f"{_wrapped(texts[piece.node], 9)} >> {piece.shift}"
    if node.op == Op.LOAD and 8 * node.b == piece.bits:
        return f"*({_bare(location, texts, node.a)})"
    return _whole(location, texts, node, piece.bits, None, texts[piece.node][0])


def _whole(
    location: Location,
    texts: list[tuple[str, int]],
    node: Node,
    bits: int,
    signed: bool | None,
    otherwise: str | None = None,
) -> str:
    if node.op == Op.CONSTANT:
        value = node.a & ((1 << bits) - 1)
        if signed and to_signed(value, bits) < 0:
            return f"const {to_signed(value, bits)}"
        return f"const {value:#x}"
    if node.op == Op.ADDRESS:
        return f"addr {texts[-1][0] if otherwise is None else otherwise}"
    if node.op == Op.LOAD and 8 * node.b == bits and node.type is None:
        return f"*({_bare(location, texts, node.a)})"
    return texts[-1][0] if otherwise is None else otherwise


def _bare(location: Location, texts: list[tuple[str, int]], index: int) -> str:
    """Return the text of an address; a constant one in hexadecimal."""
    node = location.nodes[index]
    return f"{node.a:#x}" if node.op == Op.CONSTANT else texts[index][0]


def _wrapped(part: tuple[str, int], precedence: int) -> str:
    return part[0] if part[1] >= precedence else f"({part[0]})"


def _number(value: int, bits: int) -> str:
    number = to_signed(value, bits) if value >> bits == 0 else value
    return str(number) if -4096 < number < 1024 else hex(value)


def _type_name(type_: BaseType | None, address_size: int) -> str:
    if type_ is None:
        return f"u{8 * address_size}"
    if type_.is_float:
        return {4: "float", 8: "double"}.get(type_.size, f"f{8 * type_.size}")
    if type_.encoding == ATE_BOOLEAN:
        return "bool" if type_.size == 1 else f"bool{8 * type_.size}"
    if type_.encoding == ATE_ADDRESS:
        return f"u{8 * type_.size}"
    return f"{'s' if type_.signed else 'u'}{8 * type_.size}"


def _node_texts(location: Location, machine: Machine, name_address: Callable[[int], str]) -> list[tuple[str, int]]:
    """Return the text of each node with the precedence of its outermost operator."""
    texts: list[tuple[str, int]] = []
    for node in location.nodes:
        if node.op == Op.ADDRESS:
            texts.append((name_address(node.a), _POSTFIX))
            continue
        text, precedence = _node_text(location, node, texts, machine)
        texts.append((text, precedence) if len(text) <= _LIMIT else ("...", _POSTFIX))
    return texts


def _node_text(location: Location, node: Node, texts: list[tuple[str, int]], machine: Machine) -> tuple[str, int]:
    op, bits = node.op, 8 * location.address_size
    if op == Op.REGISTER:
        name = machine.register_name(node.a)
        return (f"({_type_name(node.type, 0)}){name}", _UNARY) if node.type else (name, _POSTFIX)
    if op == Op.CONSTANT:
        return _number(node.a, 8 * node.type.size if node.type else bits), _POSTFIX
    if op == Op.OFFSET:
        return f"{_wrapped(texts[node.a], 9)}{node.b:+d}", 9
    if op == Op.LOAD:
        address = _bare(location, texts, node.a)
        if node.type is None and node.b == location.address_size:
            return f"*({address})", _UNARY
        return f"*({_type_name(node.type, 0) if node.type else f'u{8 * node.b}'} *)({address})", _UNARY
    if op == Op.NEG:
        return f"-{_wrapped(texts[node.a], _POSTFIX)}", _UNARY
    if op == Op.NOT:
        return f"~{_wrapped(texts[node.a], _UNARY)}", _UNARY
    if op == Op.ABS:
        return f"abs({texts[node.a][0]})", _POSTFIX
    if op == Op.CONVERT:
        return f"({_type_name(node.type, location.address_size)}){_wrapped(texts[node.a], _UNARY)}", _UNARY
    if op == Op.REINTERPRET:
        return f"reinterpret({_type_name(node.type, location.address_size)}, {texts[node.a][0]})", _POSTFIX
    if op == Op.SELECT:
        parts = [_wrapped(texts[index], _TERNARY + 1) for index in (node.a, node.b, node.c)]
        return f"{parts[0]} ? {parts[1]} : {parts[2]}", _TERNARY
    extension = _extension(location, node, texts)
    if extension is not None:
        return extension
    symbol, precedence = _BINARY[op]
    unsigned = _unsigned_sides(location, node, texts) if op in COMPARISONS else None
    if unsigned is not None:
        return f"(u{bits}){unsigned[0]} {symbol} {unsigned[1]}", precedence
    left = _wrapped(texts[node.a], precedence)
    if op == Op.SHRA and location.nodes[node.a].type is None:
        left = f"(s{bits}){_wrapped(texts[node.a], _UNARY)}"
    right = _wrapped(texts[node.b], precedence + 1)
    if op in _BITWISE and location.nodes[node.b].op == Op.CONSTANT:
        right = hex(location.nodes[node.b].a)
    return f"{left} {symbol} {right}", precedence


def _unsigned_sides(location: Location, node: Node, texts: list[tuple[str, int]]) -> tuple[str, str] | None:
    """Return both sides of a comparison that compilers make unsigned by turning over the sign bits, else None."""
    sign = 1 << (8 * location.address_size - 1)
    sides, turned = [], 0
    for side in (location.nodes[node.a], location.nodes[node.b]):
        if side.type is None and side.op == Op.OFFSET and side.b == -sign:
            sides.append(_wrapped(texts[side.a], _UNARY))
            turned += 1
        elif side.type is None and side.op == Op.CONSTANT:
            sides.append(_number(side.a ^ sign, 8 * location.address_size))
        else:
            return None
    return (sides[0], sides[1]) if turned else None


def _extension(location: Location, node: Node, texts: list[tuple[str, int]]) -> tuple[str, int] | None:
    """Return the text of a shift left that a shift right undoes: ``(s32)rax``, ``(s32)rax >> 2``."""
    nodes, bits = location.nodes, 8 * location.address_size
    if node.op not in (Op.SHR, Op.SHRA) or node.type is not None:
        return None
    inner, right = nodes[node.a], nodes[node.b]
    if inner.op != Op.SHL or inner.type is not None or right.op != Op.CONSTANT:
        return None
    left = nodes[inner.b]
    if left.op != Op.CONSTANT or bits - left.a not in (8, 16, 32) or not left.a <= right.a < bits:
        return None
    cast = f"({'s' if node.op == Op.SHRA else 'u'}{bits - left.a}){_wrapped(texts[inner.a], _UNARY)}"
    return (cast, _UNARY) if left.a == right.a else (f"{cast} >> {right.a - left.a}", 8)
