"""The plain rule: the location whose range holds the site's address, ``start <= pc < end``.

This is what gdb, perf and pahole do, and the figure the product is measured against. It is written on pyelftools alone
and shares nothing with the product, so that it also serves as an independent reader of where the sites are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from elftools.dwarf.callframe import FDE
from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.dwarf.locationlists import LocationParser
from elftools.dwarf.ranges import BaseAddressEntry as RangeBase
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.oracle.reader import Memory, Read, TracedParameter, TracedSite

_MASK = (1 << 64) - 1
_TRANSPARENT_TYPES = {
    "DW_TAG_typedef",
    "DW_TAG_const_type",
    "DW_TAG_volatile_type",
    "DW_TAG_restrict_type",
}


class Refused(Exception):
    """The expression gives no value; the text says why."""


def read(path: Path) -> list[TracedSite]:
    """Every inlined and out-of-line copy in a linked x86-64 program, with its parameters by the plain rule."""
    with path.open("rb") as stream:
        elf = ELFFile(stream)
        if not elf.has_dwarf_info():
            return []
        return list(_Reader(elf).sites())


class _Reader:
    def __init__(self, elf: ELFFile) -> None:
        self.dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        self.lists = self.dwarf.location_lists()
        self.ranges: Any = self.dwarf.range_lists()
        self.locations = LocationParser(self.lists)
        table = elf.get_section_by_name(".symtab")
        self.symbols = {
            s["st_value"]: s.name
            for s in (table.iter_symbols() if isinstance(table, SymbolTableSection) else ())
            if s["st_info"]["type"] == "STT_FUNC"
        }
        self.frames = [e for e in self.dwarf.EH_CFI_entries() if isinstance(e, FDE)]

    def sites(self) -> Iterator[TracedSite]:
        for unit in self.dwarf.iter_CUs():
            top = unit.get_top_DIE()
            base = top.attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in top.attributes else 0
            self.parser = DWARFExprParser(unit.structs)
            for function in top.iter_children():
                if function.tag == "DW_TAG_subprogram":
                    yield from self.function(unit, function, base)

    def function(self, unit: Any, function: Any, base: int) -> Iterator[TracedSite]:
        """The out-of-line copy and everything inlined into it."""
        address = self.entry(unit, function, base)
        if address is None:
            return
        frame_base = function.attributes.get("DW_AT_frame_base")
        name = self.name(function)
        parameters = tuple(self.parameters(unit, function, address, base, frame_base))
        yield TracedSite(name, False, address, (), parameters, copy=self.symbols.get(address, name))
        todo: list[tuple[Any, tuple[tuple[str, int], ...]]] = [(function, ((name, 0),))]
        while todo:
            scope, chain = todo.pop()
            for die in scope.iter_children():
                if die.tag == "DW_TAG_lexical_block":
                    todo.append((die, chain))
                if die.tag != "DW_TAG_inlined_subroutine":
                    continue
                name = self.name(die)
                if name == chain[0][0]:
                    todo.append((die, chain))
                    continue
                line = die.attributes["DW_AT_call_line"].value if "DW_AT_call_line" in die.attributes else 0
                inner = ((name, line), *chain)
                todo.append((die, inner))
                address = self.entry(unit, die, base)
                if address is not None:
                    parameters = tuple(self.parameters(unit, die, address, base, frame_base))
                    yield TracedSite(name, True, address, tuple(n for _, n in inner[:-1]), parameters)

    def attribute(self, die: Any, name: str) -> Any:
        """The DIE that has the attribute, following the origins, or None."""
        for _ in range(8):
            if name in die.attributes:
                return die
            for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
                if link in die.attributes:
                    die = die.get_DIE_from_attribute(link)
                    break
            else:
                return None
        return None

    def name(self, die: Any) -> str:
        named = self.attribute(die, "DW_AT_name")
        return named.attributes["DW_AT_name"].value.decode() if named is not None else ""

    def size(self, die: Any) -> int:
        typed = self.attribute(die, "DW_AT_type")
        for _ in range(16):
            if typed is None or "DW_AT_type" not in typed.attributes:
                break
            typed = typed.get_DIE_from_attribute("DW_AT_type")
            if typed.tag not in _TRANSPARENT_TYPES:
                size = typed.attributes.get("DW_AT_byte_size")
                return size.value if size else 8 if typed.tag == "DW_TAG_pointer_type" else 0
        return 0

    def entry(self, unit: Any, die: Any, base: int) -> int | None:
        attributes = die.attributes
        if "DW_AT_entry_pc" in attributes:
            entry = attributes["DW_AT_entry_pc"]
            if entry.form.startswith("DW_FORM_addr"):
                return int(entry.value)
            start = self.first(unit, die, base)
            return None if start is None else start + int(entry.value)
        return self.first(unit, die, base)

    def first(self, unit: Any, die: Any, base: int) -> int | None:
        if "DW_AT_low_pc" in die.attributes:
            return int(die.attributes["DW_AT_low_pc"].value)
        if "DW_AT_ranges" not in die.attributes:
            return None
        ranges = self.ranges.get_range_list_at_offset(die.attributes["DW_AT_ranges"].value, cu=unit)
        spans = []
        for entry in ranges:
            if isinstance(entry, RangeBase):
                base = entry.base_address
            else:
                start = 0 if entry.is_absolute else base
                spans.append((start + entry.begin_offset, start + entry.end_offset))
        full = [start for start, end in spans if end > start] or [start for start, _ in spans]
        return full[0] if full else None

    def parameters(self, unit: Any, scope: Any, pc: int, base: int, frame_base: Any) -> Iterator[TracedParameter]:
        for die in scope.iter_children():
            if die.tag != "DW_TAG_formal_parameter":
                continue
            name, size = self.name(die), self.size(die)
            attribute = die.attributes.get("DW_AT_location")
            constant = die.attributes.get("DW_AT_const_value")
            if constant is not None:
                yield TracedParameter(name, size, f"const {constant.value}", _constant(constant.value, size))
                continue
            expression, why = None, "no-location"
            if attribute is not None:
                expression, why = self.expression(unit, attribute, pc, base)
            if expression is None:
                yield TracedParameter(name, size, "", None, why)
                continue
            try:
                operations = self.parser.parse_expr(expression)
            except KeyError:
                # pyelftools does not know all of the GNU operations.
                yield TracedParameter(name, size, "", None, "unsupported-expression")
                continue
            text = " ".join(op.op_name.removeprefix("DW_OP_") + str(op.args or "") for op in operations)
            yield TracedParameter(name, size, text, self.evaluator(operations, size, pc, frame_base))

    def expression(self, unit: Any, attribute: Any, pc: int, base: int) -> tuple[Any, str]:
        if attribute.form == "DW_FORM_exprloc" or attribute.form.startswith("DW_FORM_block"):
            return attribute.value, ""
        entries = self.locations.parse_from_attribute(attribute, unit["version"], die=unit.get_top_DIE())
        for entry in cast("list[Any]", entries):
            if "base_address" in type(entry)._fields:
                base = entry.base_address
                continue
            start = 0 if entry.is_absolute else base
            if start + entry.begin_offset <= pc < start + entry.end_offset:
                return entry.loc_expr, ""
        return None, "not-live"

    def evaluator(self, operations: Any, size: int, pc: int, frame_base: Any) -> Read:
        frame = self.parser.parse_expr(frame_base.value) if frame_base is not None else None
        cfa = self.cfa(pc)

        def evaluate(registers: Mapping[int, int], memory: Memory, bias: int) -> bytes | str:
            try:
                return _Machine(registers, memory, bias, frame, cfa).value(operations, size)
            except Refused as refusal:
                return str(refusal)
            except (IndexError, KeyError):
                return "vector-register"

        return evaluate

    def cfa(self, pc: int) -> tuple[int, int] | None:
        for fde in self.frames:
            start = fde["initial_location"]
            if start <= pc < start + fde["address_range"]:
                rule = None
                for row in fde.get_decoded().table:
                    if row["pc"] <= pc:
                        rule = row["cfa"]
                return (rule.reg, rule.offset) if rule is not None and rule.reg is not None else None
        return None


def _constant(value: Any, size: int) -> Read:
    if isinstance(value, int):
        raw = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    else:
        raw = bytes(value)[:size]
    return lambda registers, memory, bias: raw


class _Machine:
    """Evaluates one DWARF expression (DWARF 5, section 2.5) to the bytes of a value."""

    def __init__(self, registers: Mapping[int, int], memory: Memory, bias: int, frame: Any, cfa: Any) -> None:
        self.registers, self.memory, self.bias, self.frame, self.cfa = registers, memory, bias, frame, cfa

    def value(self, operations: Any, size: int) -> bytes:
        pieces = b""
        simple: list[Any] = []
        for op in operations:
            if op.op_name == "DW_OP_piece":
                if not simple:
                    raise Refused("partly-described")
                pieces += self.simple(simple, op.args[0])
                simple = []
            elif op.op_name == "DW_OP_bit_piece":
                raise Refused("unsupported-expression")
            else:
                simple.append(op)
        if pieces and len(pieces) < size:
            raise Refused("partly-described")
        return pieces[:size] if pieces else self.simple(simple, size)

    def simple(self, operations: Any, size: int) -> bytes:
        if not operations:
            raise Refused("no-location")
        name, args = operations[0].op_name, operations[0].args
        if name == "DW_OP_regx" or (name[9:].isdigit() and name.startswith("DW_OP_reg")):
            number = args[0] if name == "DW_OP_regx" else int(name[9:])
            if size > 8:
                raise Refused("vector-register" if number > 16 else "partly-described")
            return self.registers[number].to_bytes(8, "little")[:size]
        if name == "DW_OP_implicit_value":
            return bytes(args[-1])[:size]
        if name in ("DW_OP_implicit_pointer", "DW_OP_GNU_implicit_pointer"):
            raise Refused("implicit-pointer")
        top, is_value = self.stack(operations)
        if is_value:
            if size > 8:
                raise Refused("unsupported-expression")
            return top.to_bytes(8, "little")[:size]
        raw = self.memory(top, size)
        if raw is None:
            raise Refused("fault")
        return raw

    def stack(self, operations: Any) -> tuple[int, bool]:
        stack: list[int] = []
        for op in operations:
            name, args = op.op_name.removeprefix("DW_OP_"), op.args
            if name == "stack_value":
                return stack[-1] & _MASK, True
            self.step(name, args, stack)
            stack[-1] &= _MASK
        return stack[-1], False

    def step(self, name: str, args: Any, stack: list[int]) -> None:
        if name[4:].isdigit() and name.startswith("breg"):
            stack.append(self.registers[int(name[4:])] + args[0])
        elif name == "bregx":
            stack.append(self.registers[args[0]] + args[1])
        elif name.startswith("lit"):
            stack.append(int(name[3:]))
        elif name in ("addr", "addrx"):
            stack.append(args[0] + self.bias)
        elif name.startswith("const") and len(name) < 8:
            stack.append(args[0])
        elif name == "fbreg":
            stack.append(self.frame_base() + args[0])
        elif name == "call_frame_cfa":
            stack.append(self.call_frame())
        elif name in ("deref", "deref_size"):
            size = 8 if name == "deref" else args[0]
            raw = self.memory(stack.pop(), size)
            if raw is None:
                raise Refused("fault")
            stack.append(int.from_bytes(raw, "little"))
        elif name == "plus_uconst":
            stack.append(stack.pop() + args[0])
        elif name == "dup":
            stack.append(stack[-1])
        elif name == "over":
            stack.append(stack[-2])
        elif name == "pick":
            stack.append(stack[-1 - args[0]])
        elif name == "swap":
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif name == "rot":
            stack[-1], stack[-2], stack[-3] = stack[-2], stack[-3], stack[-1]
        elif name == "drop":
            stack.pop()
        elif name in ("neg", "not", "abs"):
            top = _signed(stack.pop())
            stack.append({"neg": -top, "not": ~top, "abs": abs(top)}[name])
        elif name == "nop":
            pass
        elif "entry_value" in name:
            raise Refused("entry-value")
        else:
            right, left = stack.pop(), stack.pop()
            stack.append(_binary(name, left, right))

    def frame_base(self) -> int:
        if not self.frame:
            raise Refused("no-frame-base")
        name = self.frame[0].op_name
        if name.startswith("DW_OP_reg"):
            return self.registers[int(name[9:])]
        return self.stack(self.frame)[0]

    def call_frame(self) -> int:
        if self.cfa is None:
            raise Refused("no-frame-base")
        return self.registers[int(self.cfa[0])] + int(self.cfa[1])


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _binary(name: str, left: int, right: int) -> int:
    a, b = _signed(left), _signed(right)
    if name in ("plus", "minus", "mul", "and", "or", "xor"):
        return {
            "plus": left + right,
            "minus": left - right,
            "mul": left * right,
            "and": left & right,
            "or": left | right,
            "xor": left ^ right,
        }[name]
    if name == "div" and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if name == "mod" and right:
        return left % right
    if name in ("shl", "shr", "shra"):
        if right > 63:
            return -1 if name == "shra" and a < 0 else 0
        return {"shl": left << right, "shr": left >> right, "shra": a >> right}[name]
    if name in ("eq", "ne", "lt", "le", "gt", "ge"):
        return int({"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name])
    raise Refused("unsupported-expression")
