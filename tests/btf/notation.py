"""A short notation for BTF, one type a line, so that inputs and results read alike:

::

    [1] int int 4
    [2] struct node 16: next=3@0, value=1@64
    [3] ptr 2

``_`` is no name. ``parse`` makes an object of such lines, ``show`` the lines of an object.

    int NAME SIZE [ENCODING]        float NAME SIZE             fwd struct|union NAME
    ptr|const|volatile|restrict ID  typedef|type_tag NAME ID    func NAME ID [LINKAGE]
    array ID LENGTH [INDEX]         struct|union NAME SIZE: NAME=ID@BIT, ...   (NAME=ID@BIT:WIDTH for bitfields)
    enum|enum64 NAME SIZE: NAME=VALUE, ...                      proto ID: NAME=ID, ...
    var NAME ID                     datasec NAME SIZE: ID@OFFSET+SIZE, ...
    decl_tag NAME ID [COMPONENT]    loc_param SIZE FLAGS: WORD, ...
    loc_proto: ID, ...              locsec NAME: FUNC/LOC_PROTO@OFFSET, ...
"""

from __future__ import annotations

import re

from inlinetrace.btf import _types as t
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf

_PLAIN = {"ptr": Kind.PTR, "const": Kind.CONST, "volatile": Kind.VOLATILE, "restrict": Kind.RESTRICT}
_NAMED = {"typedef": Kind.TYPEDEF, "type_tag": Kind.TYPE_TAG}


def parse(text: str, base: Btf | None = None, *, byte_order: str = "little", classic: bool = True) -> bytes:
    """The object that the lines describe."""
    builder = Builder(base, byte_order=byte_order, classic=classic)
    for line in text.strip().splitlines():
        number, _, rest = line.strip().partition("] ")
        assert number == f"[{builder.end_id}", f"{line.strip()!r} is type {builder.end_id}"
        head, _, tail = rest.partition(":")
        kind, *words = head.split()
        _add(builder, kind, [word if word != "_" else "" for word in words], tail.replace(",", " ").split())
    return builder.to_bytes()


def _add(builder: Builder, kind: str, words: list[str], elements: list[str]) -> None:
    numbers = [int(word) if word.lstrip("-").isdigit() else 0 for word in [*words, "0"]]
    pieces = [["" if piece == "_" else piece for piece in re.split("[=@:+/]", element)] for element in elements]
    if kind == "int":
        builder.add_int(words[0], numbers[1], numbers[2])
    elif kind == "float":
        builder.add_float(words[0], numbers[1])
    elif kind == "fwd":
        builder.add_fwd(words[1], words[0] == "union")
    elif kind in _PLAIN:
        builder.add_reference(_PLAIN[kind], numbers[0])
    elif kind in _NAMED:
        builder.add_reference(_NAMED[kind], numbers[1], words[0])
    elif kind == "func":
        builder.add_func(words[0], numbers[1], numbers[2])
    elif kind == "array":
        builder.add_array(numbers[0], numbers[2] if len(words) > 2 else 1, numbers[1])
    elif kind in ("struct", "union"):
        members = [t.Member(name, *map(int, rest)) for name, *rest in pieces]
        builder.add_composite(Kind[kind.upper()], words[0], numbers[1], members)
    elif kind in ("enum", "enum64"):
        add = builder.add_enum if kind == "enum" else builder.add_enum64
        values = [t.Enumerator(name, int(value)) for name, value in pieces]
        add(words[0], numbers[1], values, any(enumerator.value < 0 for enumerator in values))
    elif kind == "proto":
        builder.add_func_proto(numbers[0], [(name, int(type_id)) for name, type_id in pieces])
    elif kind == "var":
        builder.add_var(words[0], numbers[1])
    elif kind == "datasec":
        builder.add_datasec(words[0], numbers[1], [t.SectionVariable(*map(int, piece)) for piece in pieces])
    elif kind == "decl_tag":
        builder.add_decl_tag(words[0], numbers[1], numbers[2] if len(words) > 2 else -1)
    elif kind == "loc_param":
        builder.add_loc_param(numbers[0], numbers[1], [int(piece[0]) for piece in pieces])
    elif kind == "loc_proto":
        builder.add_loc_proto([int(piece[0]) for piece in pieces])
    else:
        assert kind == "locsec", kind
        builder.add_locsec(words[0], [t.InlineSite(*map(int, piece)) for piece in pieces])


def show(btf: Btf) -> str:
    """The own types of an object, one a line."""
    return "\n".join(f"[{record.id}] {_line(record)}" for record in btf.types())


def _line(record: t.Type) -> str:
    name = record.name or "_"
    kind = Kind(record.kind).name.lower()
    elements: list[str] = []
    if isinstance(record, t.Int):
        head = f"int {name} {record.size}" + (f" {record.encoding}" if record.encoding else "")
    elif isinstance(record, t.Float):
        head = f"float {name} {record.size}"
    elif isinstance(record, t.Fwd):
        head = f"fwd {'union' if record.is_union else 'struct'} {name}"
    elif isinstance(record, t.Array):
        index = "" if record.index_type_id == 1 else f" {record.index_type_id}"
        head = f"array {record.type_id} {record.length}{index}"
    elif isinstance(record, t.Composite):
        head = f"{kind} {name} {record.size}"
        elements = [
            f"{m.name or '_'}={m.type_id}@{m.bit_offset}" + (f":{m.bitfield_size}" if m.bitfield_size else "")
            for m in record.members
        ]
    elif isinstance(record, t.Enum):
        head, elements = f"{kind} {name} {record.size}", [f"{e.name}={e.value}" for e in record.enumerators]
    elif isinstance(record, t.FuncProto):
        head = f"proto {record.return_type_id}"
        elements = [f"{p.name or '_'}={p.type_id}" for p in record.params]
    elif isinstance(record, t.Datasec):
        head = f"datasec {name} {record.size}"
        elements = [f"{v.type_id}@{v.offset}+{v.size}" for v in record.variables]
    elif isinstance(record, t.DeclTag):
        head = f"decl_tag {name} {record.type_id}"
        head += "" if record.component_index == -1 else f" {record.component_index}"
    elif isinstance(record, t.Func):
        head = f"func {name} {record.type_id}" + (f" {record.linkage}" if record.linkage else "")
    elif isinstance(record, t.LocParam):
        head, elements = f"loc_param {record.size} {record.flags}", [str(value) for value in record.values]
    elif isinstance(record, t.LocProto):
        head, elements = "loc_proto", [str(type_id) for type_id in record.loc_param_ids]
    elif isinstance(record, t.Locsec):
        head = f"locsec {name}"
        elements = [f"{site.func_id}/{site.loc_proto_id}@{site.offset}" for site in record.sites]
    else:
        assert isinstance(record, (t.Reference, t.Var))
        head = f"{kind} {name} {record.type_id}" if kind in (*_NAMED, "var") else f"{kind} {record.type_id}"
    return f"{head}: {', '.join(elements)}" if elements else head
