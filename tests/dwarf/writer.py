"""A declarative writer of DWARF units for tests.

::

    f = die("subprogram", die("formal_parameter", name="x", type="int"), label="f", name="f", inline=1)
    unit = Unit(die("compile_unit", die("base_type", label="int", name="int", byte_size=4, encoding=5), f,
                    die("subprogram", die("inlined_subroutine", abstract_origin="f", entry_pc=Address(0x1004)),
                        name="main", low_pc=Address(0x1000), high_pc=0x20), name="a.c", language=0x1D))
    info = make_info([unit])            # the compiled reader of .debug_info
    data = make_program([unit])         # an ELF file with the unit in it

References are labels of other entries. A value chooses its own form; ``Form("strx1", "text")`` forces one. The names of
tags, attributes and forms are pyelftools', without their prefix. Sections are written in both byte orders, 32- and
64-bit offsets and versions 2 to 5; a split unit (``dwo``) goes to the .dwo sections.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from elftools.dwarf.enums import ENUM_DW_AT, ENUM_DW_FORM, ENUM_DW_TAG

from inlinetrace.dwarf._units import Info
from tests.dwarf.expression_writer import sleb, uleb
from tests.elf.elfwriter import Code, Sec, Sym, elf_file

REFERENCES = ("type", "abstract_origin", "specification", "import", "containing_type", "object_pointer", "call_origin")
UNIT_TYPES = {"compile": 1, "type": 2, "partial": 3, "skeleton": 4, "split_compile": 5, "split_type": 6}
RLE = ("end_of_list", "base_addressx", "startx_endx", "startx_length", "offset_pair", "base_address", "start_end",
       "start_length")  # fmt: skip
LLE = (*RLE[:5], "default_location", *RLE[5:], "view_pair")
INDEXED_OPERANDS = {"base_addressx": "x", "startx_endx": "xx", "startx_length": "xu", "offset_pair": "uu",
                    "default_location": "", "base_address": "a", "start_end": "aa", "start_length": "au",
                    "view_pair": "uu", "end_of_list": ""}  # fmt: skip


@dataclass(frozen=True)
class Address:
    """A link-time address."""

    value: int


@dataclass(frozen=True)
class Form:
    """``value`` in this form; ``hidden`` writes it through DW_FORM_indirect."""

    name: str | int
    value: Any
    hidden: bool = False


@dataclass(frozen=True)
class Expression:
    """Operations as they stand in the section."""

    operations: bytes


@dataclass(eq=False)
class Locations:
    """A location list: entries (kind, operands..., expression) in DWARF 5, (begin, end, expression) before.

    ``views`` are gcc's pairs, written before the list (DW_AT_GNU_locviews is added to the entry). Without ``end`` the
    list has no end.
    """

    entries: Sequence[tuple[Any, ...]]
    views: Sequence[tuple[int, int]] = ()
    end: bool = True


@dataclass(eq=False)
class Ranges:
    """A range list, as Locations without expressions."""

    entries: Sequence[tuple[Any, ...]]
    end: bool = True


@dataclass(eq=False)
class Die:
    """One entry. ``sibling`` adds DW_AT_sibling; ``code`` chooses the abbreviation code."""

    tag: str | int
    children: tuple[Die, ...]
    attributes: dict[str | int, Any]
    label: str | None = None
    sibling: bool = False
    code: int | None = None


def die(
    tag: str | int,
    *children: Die,
    label: str | None = None,
    sibling: bool = False,
    code: int | None = None,
    more: dict[str | int, Any] | None = None,
    **attributes: Any,
) -> Die:
    """An entry with its children; ``more`` are attributes whose names cannot be written as arguments."""
    everything: dict[str | int, Any] = {}
    everything.update(attributes)
    everything.update(more or {})
    return Die(tag, children, everything, label, sibling, code)


@dataclass(eq=False)
class Unit:
    """One unit. ``table`` names its abbreviation table: units with the same name share one, in order."""

    root: Die | None
    version: int = 5
    wide: bool = False
    address_size: int = 8
    kind: str = "compile"
    signature: int = 0
    type_label: str | None = None
    table: str | None = None
    types_section: bool = False
    padding: bytes = b""
    length: int | None = None


@dataclass
class _Node:
    die: Die | None  # None: the null entry that ends siblings
    code: int = 0
    values: list[tuple[int, int, Any, bool]] = field(default_factory=list)
    end: _Node | None = None
    offset: int = 0


@dataclass
class _Table:
    data: bytearray = field(default_factory=bytearray)
    codes: dict[tuple[Any, ...], int] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)
    offset: int = 0


class _Pool:
    def __init__(self) -> None:
        self.data = bytearray()
        self.at: dict[bytes, int] = {}

    def add(self, text: str | bytes) -> int:
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        if raw not in self.at:
            self.at[raw] = len(self.data)
            self.data += raw + b"\0"
        return self.at[raw]


class _Writer:
    def __init__(self, units: Sequence[Unit], little: bool, dwo: bool, addresses: Sequence[int] | None) -> None:
        self.units = units
        self.order = "<" if little else ">"
        self.dwo = dwo
        self.strings, self.line_strings = _Pool(), _Pool()
        self._texts: list[str] = []
        self._location_lists: list[Locations] = []
        self._range_lists: list[Ranges] = []
        # the first string of a section is not what a missing one would read
        self.strings.add("<start of .debug_str>")
        self.line_strings.add("<start of .debug_line_str>")
        self.addresses: list[int] = list(addresses or ())
        self.tables: dict[str, _Table] = {}
        self.labels: dict[str, tuple[Unit, _Node]] = {}
        self.loclists, self.rnglists, self.loc, self.ranges = bytearray(), bytearray(), bytearray(), bytearray()
        self.str_offsets = bytearray()
        self.places: dict[int, int] = {}
        self.view_places: dict[int, int] = {}

    def write(self) -> dict[str, bytes]:
        prepared = [(unit, self._unit(unit, number)) for number, unit in enumerate(self.units)]
        abbreviations = bytearray()
        for table in self.tables.values():
            table.offset = len(abbreviations)
            abbreviations += table.data + b"\0"
        sections: dict[str, bytes] = {}
        for name in (".debug_info", ".debug_types"):
            chosen = [(unit, nodes) for unit, nodes in prepared if unit.types_section == (name == ".debug_types")]
            self._place(chosen)
            if chosen:
                sections[name] = b"".join(self._emit(unit, nodes) for unit, nodes in chosen)
        addresses = bytearray()
        if self.addresses:
            first = self.units[0]
            body = b"".join(self._number(value, first.address_size) for value in self.addresses)
            if first.version >= 5:
                addresses += self._length(len(body) + 4, first.wide)
                addresses += self._number(5, 2) + bytes([first.address_size, 0])
            addresses += body
        contents = {
            ".debug_abbrev": abbreviations,
            ".debug_str": self.strings.data,
            ".debug_line_str": self.line_strings.data,
            ".debug_str_offsets": self.str_offsets,
            ".debug_addr": addresses,
            ".debug_loclists": self.loclists,
            ".debug_rnglists": self.rnglists,
            ".debug_loc": self.loc,
            ".debug_ranges": self.ranges,
        }
        sections.update((name, bytes(data)) for name, data in contents.items() if data)
        return {name + ".dwo" if self.dwo else name: data for name, data in sections.items()}

    # numbers

    def _number(self, value: int, size: int) -> bytes:
        return (value & ((1 << 8 * size) - 1)).to_bytes(size, "little" if self.order == "<" else "big")

    def _length(self, value: int, wide: bool) -> bytes:
        return b"\xff\xff\xff\xff" + self._number(value, 8) if wide else self._number(value, 4)

    # first pass: forms, abbreviations, strings and lists; nothing depends on where entries stand

    def _unit(self, unit: Unit, number: int) -> list[_Node]:
        table = self.tables.setdefault(unit.table if unit.table is not None else f"#{number}", _Table())
        self._texts, self._location_lists, self._range_lists = [], [], []
        nodes: list[_Node] = []
        pending: list[tuple[Die | None, _Node | None]] = [(unit.root, None)] if unit.root else []
        while pending:
            entry, parent = pending.pop()
            if entry is None:
                nodes.append(_Node(None))
                assert parent is not None
                parent.end = nodes[-1]
                continue
            node = _Node(entry)
            nodes.append(node)
            if entry.label is not None:
                assert entry.label not in self.labels, f"two entries have the label {entry.label}"
                self.labels[entry.label] = (unit, node)
            attributes: dict[str | int, Any] = {"sibling": node} if entry.sibling else {}
            for name, value in entry.attributes.items():
                attributes[name] = value
                inner = value.value if isinstance(value, Form) else value
                if isinstance(inner, Locations) and inner.views:
                    attributes["GNU_locviews"] = Form("sec_offset" if unit.version >= 4 else "data4", ("views", inner))
            for name, value in attributes.items():
                attribute = name if isinstance(name, int) else ENUM_DW_AT[f"DW_AT_{name}"]
                form = value if isinstance(value, Form) else self._automatic(unit, name, value)
                code = form.name if isinstance(form.name, int) else ENUM_DW_FORM[f"DW_FORM_{form.name}"]
                node.values.append((attribute, code, self._payload(unit, code, form.value), form.hidden))
            node.code = self._declare(table, node, entry)
            if entry.children:
                pending.append((None, node))
                pending += [(child, node) for child in reversed(entry.children)]
        if unit.root is not None:
            self._contributions(unit, nodes[0], table)
        return nodes

    def _contributions(self, unit: Unit, root: _Node, table: _Table) -> None:
        """Lists and strings that this unit reaches by index, and the attributes of its root that say where they are."""
        bases: list[tuple[str, int]] = []
        header = 4 if not unit.wide else 12
        if self._texts:
            texts = b"".join(self._number(self.strings.add(text), 8 if unit.wide else 4) for text in self._texts)
            if unit.version >= 5:
                self.str_offsets += self._length(len(texts) + 4, unit.wide) + self._number(5, 2) + bytes(2)
                bases.append(("str_offsets_base", len(self.str_offsets)))
            self.str_offsets += texts
        kinds: tuple[tuple[str, bytearray, Sequence[Locations | Ranges]], ...] = (
            ("loclists_base", self.loclists, self._location_lists),
            ("rnglists_base", self.rnglists, self._range_lists),
        )
        for attribute, section, lists in kinds:
            if not lists or unit.version < 5:
                continue
            start = len(section)
            table_size = len(lists) * (8 if unit.wide else 4)
            body = bytearray(table_size)
            base = start + header + 8
            offsets = b""
            for item in lists:
                self._list(unit, item, body, base)
                offsets += self._number(self.places[id(item)] - base, 8 if unit.wide else 4)
            body[:table_size] = offsets
            section += self._length(len(body) + 8, unit.wide) + self._number(5, 2)
            section += bytes([unit.address_size, 0]) + self._number(len(lists), 4) + body
            bases.append((attribute, base))
        if unit.version < 5:
            for locations in self._location_lists:
                self._list(unit, locations, self.loc, 0)
            for ranges in self._range_lists:
                self._list(unit, ranges, self.ranges, 0)
        if self.addresses and unit.version >= 5 and not self.dwo:
            bases.append(("addr_base", header + 4))
        if self.dwo:
            return
        for name, value in bases:
            number = ENUM_DW_AT[f"DW_AT_{name}"]
            if all(attribute != number for attribute, *_ in root.values):
                root.values.append((number, 0x17, value, False))
        assert root.die is not None
        root.code = self._declare(table, root, root.die)

    def _list(self, unit: Unit, item: Locations | Ranges, out: bytearray, base: int) -> None:
        is_locations = isinstance(item, Locations)
        if isinstance(item, Locations):
            self.view_places[id(item)] = base + len(out)
            for begin, end in item.views:
                out += uleb(begin) + uleb(end)
        self.places[id(item)] = base + len(out)
        kinds = LLE if is_locations else RLE
        entries: list[tuple[Any, ...]] = list(item.entries)
        if item.end:
            entries.append(("end_of_list",) if unit.version >= 5 else (0, 0))
        for entry in entries:
            if isinstance(entry[0], int) and (unit.version < 5):
                out += self._number(entry[0], unit.address_size) + self._number(entry[1], unit.address_size)
                if len(entry) > 2:
                    out += self._number(len(entry[2]), 2) + entry[2]
                continue
            if isinstance(entry[0], int):
                out += bytes([entry[0]])
                continue
            out.append(kinds.index(entry[0]))
            operands = INDEXED_OPERANDS[entry[0]]
            for letter, operand in zip(operands, entry[1:], strict=False):
                out += self._number(operand, unit.address_size) if letter == "a" else uleb(operand)
            if is_locations and entry[0] not in ("end_of_list", "base_addressx", "base_address", "view_pair"):
                out += uleb(len(entry[-1])) + entry[-1]

    def _declare(self, table: _Table, node: _Node, entry: Die) -> int:
        tag = entry.tag if isinstance(entry.tag, int) else ENUM_DW_TAG[f"DW_TAG_{entry.tag}"]
        described = []
        for attribute, form, payload, hidden in node.values:
            described.append((attribute, 0x16 if hidden else form, payload if form == 0x21 and not hidden else None))
        key = (tag, bool(entry.children), tuple(described), entry.code)
        code = table.codes.get(key)
        if code is None:
            code = entry.code if entry.code is not None else max(table.used, default=0) + 1
            table.used.add(code)
            table.codes[key] = code
            table.data += uleb(code) + uleb(tag) + bytes([bool(entry.children)])
            for attribute, form, implicit in described:
                table.data += uleb(attribute) + uleb(form) + (sleb(int(implicit or 0)) if form == 0x21 else b"")
            table.data += b"\0\0"
        return code

    def _automatic(self, unit: Unit, name: str | int, value: Any) -> Form:
        """The form that a compiler would choose."""
        old = unit.version < 4
        if isinstance(value, bool):
            return Form("flag" if old else "flag_present", value)
        if isinstance(value, int):
            if value < 0:
                return Form("sdata", value)
            size = next(size for size in (1, 2, 4, 8) if value < 1 << 8 * size)
            return Form(f"data{size}", value)
        if isinstance(value, Address):
            return Form("addr", value)
        if isinstance(value, str):
            return Form("ref4" if name in REFERENCES else "string", value)
        if isinstance(value, Expression):
            return Form("block1" if old else "exprloc", value.operations)
        if isinstance(value, bytes):
            return Form("block1", value)
        if isinstance(value, Locations | Ranges):
            return Form("data4" if old else "sec_offset", value)
        if isinstance(value, _Node):
            return Form("ref4", value)
        raise TypeError(f"no form for {value!r}")

    def _payload(self, unit: Unit, form: int, value: Any) -> Any:
        """What the second pass writes: numbers, bytes, labels or lists."""
        if isinstance(value, Address):
            value = value.value
        if isinstance(value, Locations) and form != 0x21:
            if value not in self._location_lists and id(value) not in self.places:
                self._location_lists.append(value)
            return self._location_lists.index(value) if form == 0x22 else ("list", value)
        if isinstance(value, Ranges):
            if value not in self._range_lists and id(value) not in self.places:
                self._range_lists.append(value)
            return self._range_lists.index(value) if form == 0x23 else ("list", value)
        if isinstance(value, str):
            if form in (0x0E, 0x1D, 0x1F21):
                return self.strings.add(value)
            if form == 0x1F:
                return self.line_strings.add(value)
            if form in (0x1A, 0x25, 0x26, 0x27, 0x28, 0x1F02):
                if value not in self._texts:
                    self._texts.append(value)
                return self._texts.index(value)
            if form == 0x08:
                return value.encode("utf-8", "surrogateescape") + b"\0"
        if form in (0x1B, 0x29, 0x2A, 0x2B, 0x2C, 0x1F01) and not self.dwo:
            if value not in self.addresses:
                self.addresses.append(value)
            return self.addresses.index(value)
        return value

    # second pass

    def _header_size(self, unit: Unit) -> int:
        size = (12 if unit.wide else 4) + 2 + (8 if unit.wide else 4) + 1
        if unit.version >= 5:
            size += 1
            if unit.kind in ("skeleton", "split_compile"):
                size += 8
        if unit.kind in ("type", "split_type"):
            size += 8 + (8 if unit.wide else 4)
        return size

    def _place(self, chosen: Iterable[tuple[Unit, list[_Node]]]) -> None:
        self._starts: dict[int, int] = {}
        at = 0
        for unit, nodes in chosen:
            self._starts[id(unit)] = at
            at += self._header_size(unit)
            for node in nodes:
                node.offset = at
                at += len(self._entry(unit, node))
            at += len(unit.padding)

    def _emit(self, unit: Unit, nodes: list[_Node]) -> bytes:
        body = b"".join(self._entry(unit, node) for node in nodes) + unit.padding
        offset_size = 8 if unit.wide else 4
        table = list(self.tables.values())
        names = list(self.tables)
        number = self.units.index(unit)
        offset = table[names.index(unit.table if unit.table is not None else f"#{number}")].offset
        header = self._number(unit.version, 2)
        if unit.version >= 5:
            header += bytes([UNIT_TYPES.get(unit.kind, 0x7F), unit.address_size]) + self._number(offset, offset_size)
            if unit.kind in ("skeleton", "split_compile"):
                header += self._number(unit.signature, 8)
        else:
            header += self._number(offset, offset_size) + bytes([unit.address_size])
        if unit.kind in ("type", "split_type"):
            header += self._number(unit.signature, 8)
            relative = self.labels[unit.type_label][1].offset - self._starts[id(unit)] if unit.type_label else 0
            header += self._number(relative, offset_size)
        length = len(header) + len(body) if unit.length is None else unit.length
        return self._length(length, unit.wide) + header + body

    def _entry(self, unit: Unit, node: _Node) -> bytes:
        if node.die is None:
            return b"\0"
        out = bytearray(uleb(node.code))
        for _, form, payload, hidden in node.values:
            if hidden:
                out += uleb(form)
            out += self._value(unit, form, payload)
        return bytes(out)

    def _value(self, unit: Unit, form: int, value: Any) -> bytes:
        offset_size = 8 if unit.wide else 4
        if isinstance(value, tuple):
            kind, item = value
            value = self.places[id(item)] if kind == "list" else self.view_places[id(item)]
        if isinstance(value, _Node):
            end = value.end
            value = (end.offset + 1 if end is not None else 0) - self._starts.get(id(unit), 0)
        elif isinstance(value, str):
            owner, node = self.labels[value]
            value = node.offset
            if form not in (0x10, 0x1C, 0x24, 0x1F20):
                assert owner is unit, f"{value} stands in another unit"
                value -= self._starts.get(id(unit), 0)
        fixed = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x20: 8, 0x1C: 4, 0x24: 8,
                 0x0C: 1, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
                 0x01: unit.address_size, 0x0E: offset_size, 0x1F: offset_size, 0x17: offset_size, 0x1D: offset_size,
                 0x1F20: offset_size, 0x1F21: offset_size,
                 0x10: unit.address_size if unit.version < 3 else offset_size}  # fmt: skip
        if form in fixed:
            return self._number(int(value), fixed[form])
        if form == 0x15:
            padded = bytearray((value >> 7 * i & 0x7F) | 0x80 for i in range(4))
            return bytes(padded) + bytes([value >> 28 & 0x7F])
        if form == 0x0D:
            return sleb(value)
        if form in (0x0F, 0x1A, 0x1B, 0x22, 0x23, 0x1F01, 0x1F02):
            return uleb(value)
        if form == 0x08:
            return bytes(value)
        if form == 0x1E:
            assert len(value) == 16
            return bytes(value)
        blocks = {0x0A: 1, 0x03: 2, 0x04: 4}
        if form in blocks:
            return self._number(len(value), blocks[form]) + bytes(value)
        if form in (0x09, 0x18):
            return uleb(len(value)) + bytes(value)
        if form in (0x19, 0x21):
            return b""
        return bytes(value)


@dataclass
class Written:
    """What was written: sections by name, and where the labelled entries stand in theirs."""

    sections: dict[str, bytes]
    offsets: dict[str, int]

    def __getitem__(self, label: str) -> int:
        return self.offsets[label]


def write(
    units: Sequence[Unit], *, little: bool = True, dwo: bool = False, addresses: Sequence[int] | None = None
) -> Written:
    """Write ``units``. ``addresses`` are put into .debug_addr first, in this order."""
    writer = _Writer(units, little, dwo, addresses)
    sections = writer.write()
    return Written(sections, {label: node.offset for label, (_, node) in writer.labels.items()})


def make_info(written: Written | Sequence[Unit], *, little: bool = True, dwo: bool = False, **options: Any) -> Info:
    """The compiled reader of the units."""
    if not isinstance(written, Written):
        written = write(written, little=little, dwo=dwo)
    suffix = ".dwo" if dwo else ""

    def data(name: str) -> bytes:
        return written.sections.get(name + suffix, b"")

    section = options.pop("section", ".debug_info")
    return Info(
        data(section),
        abbrev=data(".debug_abbrev"),
        strings=data(".debug_str"),
        line_strings=data(".debug_line_str"),
        str_offsets=data(".debug_str_offsets"),
        addresses=options.pop("addresses", data(".debug_addr")),
        rnglists=data(".debug_rnglists"),
        loclists=data(".debug_loclists"),
        ranges=data(".debug_ranges"),
        locations=data(".debug_loc"),
        swap=little != (struct.pack("=H", 1) == b"\1\0"),
        path="test",
        section=section + suffix,
        is_dwo=dwo,
        **options,
    )


def make_program(
    written: Written | Sequence[Unit],
    *,
    little: bool = True,
    bits: int = 64,
    machine: int = 62,
    code: bytes = bytes(0x1000),
    address: int = 0x1000,
    symbols: Sequence[Sym] = (),
    more: Sequence[Sec] = (),
) -> bytes:
    """An executable with code at ``address`` and the units as its DWARF."""
    if not isinstance(written, Written):
        written = write(written, little=little)
    sections = [Code(".text", code, address), *(Sec(name, data) for name, data in written.sections.items()), *more]
    return elf_file(sections, symbols=symbols, little=little, bits=bits, machine=machine)
