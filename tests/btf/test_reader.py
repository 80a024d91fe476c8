"""Reading: chains, look-up, forms of the header, unknown kinds."""

from __future__ import annotations

import gc
import struct

import pytest

from inlinetrace.btf._text import render
from inlinetrace.btf._types import Enum, Enum64, FuncProto, InlineSite, Int, Member, Ptr, RfcLocParam, Struct, Unknown
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.encode import reencode
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.reader import Btf, chain_of
from inlinetrace.btf.validate import validate
from inlinetrace.errors import FormatError, NotFoundError, UnsupportedError
from tests.btf import examples
from tests.btf.samples import everything

FORMS = [(order, classic, layout) for order in ("little", "big") for classic, layout in ((1, 0), (0, 0), (0, 1))]


@pytest.mark.parametrize(("order", "classic", "layout"), FORMS)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_form_reads_and_encodes_to_itself(order: str, classic: bool, layout: bool, dialect: Dialect) -> None:
    data = everything(byte_order=order, classic=classic, layout=layout, dialect=dialect)
    btf = Btf(data)
    assert btf.dialect is dialect
    assert btf.byte_order == order
    assert btf.header.length == (24 if classic else 32)
    assert validate(btf, strict=True) == []
    assert reencode(btf) == data


@pytest.mark.parametrize("dialect", list(Dialect))
def test_byte_orders_hold_the_same_types(dialect: Dialect) -> None:
    little, big = (Btf(everything(byte_order=order, dialect=dialect)) for order in ("little", "big"))
    assert [t for t in little.types() if not isinstance(t, RfcLocParam)] == [
        t for t in big.types() if not isinstance(t, RfcLocParam)
    ]
    ids = range(1, little.end_id)
    assert render(little.index, ids, False, True) == render(big.index, ids, False, True)


def test_types_have_what_their_records_say() -> None:
    btf = Btf(everything())
    integer = btf.get("int", Kind.INT)
    assert isinstance(integer, Int)
    assert (integer.size, integer.bits, integer.signed) == (4, 32, True)
    node = btf.get("node", Kind.STRUCT)
    assert isinstance(node, Struct)
    assert node.members[2] == Member("low", btf.find("unsigned int")[0], 72, 3)
    assert "low" in repr(node.members[2])
    color, wide = btf.get("color"), btf.get("wide")
    assert isinstance(color, Enum)
    assert [(e.name, e.value) for e in color.enumerators] == [("RED", 0), ("GREEN", -1)]
    assert isinstance(wide, Enum64)
    assert [e.value for e in wide.enumerators] == [1 << 40, 1]
    with pytest.raises(AttributeError):
        integer.bits = 3  # type: ignore[misc]
    assert integer == btf.type(integer.id)
    assert integer != btf.type(node.id)
    assert btf.type(0).name == "void"


def test_look_up_by_name_and_kind() -> None:
    builder = Builder()
    first = builder.add_struct("same", 0, [])
    second = builder.add_typedef("same", first)
    third = builder.add_func("same", builder.add_func_proto(0, []))
    btf = Btf(builder.to_bytes())
    assert btf.find("same") == [first, second, third]
    assert btf.find("same", Kind.TYPEDEF, Kind.FUNC) == [second, third]
    assert btf.find("sam") == btf.find("") == btf.find("x" * 5000) == []
    assert btf.of_kind(Kind.STRUCT) == [first]
    with pytest.raises(NotFoundError, match="no union 'same'"):
        btf.get("same", Kind.UNION)
    with pytest.raises(FormatError, match="no such type"):
        btf.type(99)
    with pytest.raises(FormatError, match="no such type"):
        btf.type(-1)


def test_chain_of_three() -> None:
    base = Builder()
    integer = base.add_int("int", 4)
    vmlinux = Btf(base.to_bytes())
    middle = Builder(vmlinux)
    pointer = middle.add_ptr(integer)
    middle.add_struct("module", 8, [Member("int", pointer, 0)])
    module = Btf(middle.to_bytes(), vmlinux)
    top = Builder(module)
    function = top.add_func("module", top.add_func_proto(integer, [("int", pointer)]))
    inline = Btf(top.to_bytes(), module)
    assert inline.header.string_len == 0
    assert (vmlinux.end_id, module.end_id, inline.end_id) == (2, 4, 6)
    assert inline.find("module") == [3, function]
    assert inline.find("int") == [1]
    prototype = inline.type(inline.end_id - 2)
    assert isinstance(prototype, FuncProto)
    assert prototype.params[0].name == "int"
    assert isinstance(inline.type(pointer), Ptr)
    assert inline.chain == [vmlinux, module, inline]
    assert chain_of([vmlinux.data, module.data, inline.data]).end_id == 6
    assert validate(inline, strict=True) == []


def test_split_object_without_its_base_says_so() -> None:
    builder = Builder(Btf(everything()))
    builder.add_typedef("fresh", 1)
    with pytest.raises(FormatError, match="split from a base"):
        Btf(builder.to_bytes())


def test_bases_of_the_other_byte_order() -> None:
    base = Btf(everything(byte_order="big"))
    builder = Builder(base, byte_order="little")
    builder.add_ptr(base.find("node")[0])
    split = Btf(builder.to_bytes(), base)
    assert split.size_of(split.end_id - 1) == 8
    assert split.find("node") == base.find("node")


def test_sizes() -> None:
    btf = Btf(everything())
    assert btf.size_of(btf.find("node_t")[0]) == 64
    assert btf.size_of(btf.get("node").members[5].type_id) == 16  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match="no size"):
        btf.size_of(btf.find("later")[0])


def unknown_kind(layout: bytes, kind: int = 40) -> bytes:
    """INT, a record of an unknown kind with 8 fixed bytes and two elements of 4, and a typedef behind it."""
    strings = b"\0int\0new\0"
    types = struct.pack("<4I", 1, 1 << 24, 4, 0x01000020)
    types += struct.pack("<7I", 5, kind << 24 | 2, 77, 1, 2, 3, 4)
    types += struct.pack("<3I", 1, 8 << 24, 1)
    fields = (0, len(types), len(types) + len(layout), len(strings), len(types), len(layout))
    return struct.pack("<HBBI6I", 0xEB9F, 1, 0, 32, *fields) + types + layout + strings


def test_unknown_kinds_are_skipped_by_the_layout_section() -> None:
    data = unknown_kind(bytes(160) + bytes((8, 4, 0, 0)))
    btf = Btf(data)
    assert btf.end_id == 4
    found = btf.type(2)
    assert isinstance(found, Unknown)
    assert (found.kind, found.name, found.vlen, found.size_or_type, found.words) == (40, "new", 2, 77, (1, 2, 3, 4))
    assert btf.name(3) == "int"
    assert reencode(btf) == data
    text = render(btf.index, [2], False, True).decode()
    assert text == "[2] UNKNOWN(40) 'new' kind_flag=0 vlen=2 size_or_type=77 words=0x1,0x2,0x3,0x4\n"
    assert validate(btf, strict=True) == []


def test_unknown_kinds_without_layout_stop_the_walk() -> None:
    with pytest.raises(FormatError, match="kind 40, which is unknown") as caught:
        Btf(unknown_kind(b""))
    assert caught.value.offset == 32 + 16


def test_layout_of_the_immediate_base_counts() -> None:
    base = Btf(unknown_kind(bytes(160) + bytes((8, 4, 0, 0))))
    record = struct.pack("<7I", 0, 40 << 24 | 2, 0, 1, 2, 3, 4)
    data = struct.pack("<HBBI4I", 0xEB9F, 1, 0, 24, 0, len(record), len(record), 0) + record
    split = Btf(data, base)
    assert split.end_id == 5
    with pytest.raises(FormatError, match="unknown"):
        Btf(data, split)


def test_layout_that_contradicts_the_location_kinds_makes_them_unknown() -> None:
    btf = Btf(unknown_kind(bytes(80) + bytes((8, 4, 0, 0)) + bytes(8), kind=20))
    assert btf.dialect is None
    assert isinstance(btf.type(2), Unknown)


@pytest.mark.parametrize(
    ("change", "message", "offset"),
    [
        ({0: 0x00}, "magic", 0),
        ({2: 9}, "version 9", 2),
        ({4: 12}, "header says", 4),
        ({8: 2}, "multiple of 4", 8),
        ({24: 1}, "multiples of 4", 24),
        ({28: 255}, "multiples of 4", 24),
    ],
)
def test_header_faults_have_their_place(change: dict[int, int], message: str, offset: int) -> None:
    data = bytearray(everything(layout=True))
    for at, value in change.items():
        data[at] = value
    with pytest.raises((FormatError, UnsupportedError), match=message) as caught:
        Btf(bytes(data), path="a.btf")
    assert caught.value.offset == offset
    assert str(caught.value).startswith("a.btf, offset")


def test_longer_headers_are_legal() -> None:
    data = everything(layout=True)
    longer = data[:4] + struct.pack("<I", 40) + data[8:32] + bytes(8) + data[32:]
    btf = Btf(longer)
    assert btf.dialect is Dialect.NEW
    assert reencode(btf) == longer


def test_names_that_are_no_utf8_survive() -> None:
    builder = Builder(strings=b"\0caf\xe9\0")
    builder.record(Kind.TYPEDEF, "caf\udce9")
    btf = Btf(builder.to_bytes())
    assert btf.type(1).name == "caf\udce9"
    assert btf.find("caf\udce9") == [1]
    assert b"'caf\xe9'" in render(btf.index, [1], False, True)
    assert b'"name":"caf\\udce9"' in render(btf.index, [1], True, True)


def test_pointer_size_follows_long() -> None:
    builder = Builder()
    builder.add_int("long unsigned int", 4)
    assert Btf(builder.to_bytes()).pointer_size == 4
    assert Btf(everything()).pointer_size == 8


def test_an_object_in_a_cycle_gives_its_buffer_back() -> None:
    view = memoryview(bytearray(examples.NEW_OBJECT))
    index = Btf(view).index
    cycle: list[object] = [index]
    cycle.append(cycle)
    del index, cycle
    gc.collect()
    view.release()


def test_sites_are_thinned_out_evenly() -> None:
    builder = Builder()
    function = builder.add_func("f", builder.add_func_proto(0, []))
    slots = builder.add_loc_proto([])
    section = builder.add_locsec(".text", [InlineSite(function, slots, offset) for offset in range(10)])
    index = Btf(builder.to_bytes()).index
    assert [offset for _, _, offset, _ in index.sites(section, None, None, 3)] == [0, 3, 6, 9]
    assert [offset for _, _, offset, _ in index.sites(section, None, None, 10)] == list(range(10))
    assert len(index.sites(section, None, None)) == 10
