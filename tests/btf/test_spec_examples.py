"""The format's worked examples decode to what they say, and encode to the same bytes."""

from __future__ import annotations

import struct

import pytest

from inlinetrace.btf._text import location_text, render
from inlinetrace.btf._types import InlineSite, LocParam, LocProto, Locsec, RfcInlineSite, RfcLocParam, RfcLocsec
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.encode import reencode
from inlinetrace.btf.kinds import INT_SIGNED, Dialect, LocFlag
from inlinetrace.btf.reader import Btf, chain_of
from inlinetrace.btf.validate import validate
from inlinetrace.errors import UnsupportedError
from tests.btf import examples


def with_records(records: bytes, byte_order: str = "<") -> bytes:
    """A classic object around location records (nothing refers to them)."""
    return struct.pack(byte_order + "HBBI4I", 0xEB9F, 1, 0, 24, 0, len(records), len(records), 1) + records + b"\0"


def test_rfc_object() -> None:
    btf = Btf(examples.RFC_OBJECT)
    assert btf.dialect is Dialect.RFC
    register, constant, proto, section = (btf.type(n) for n in range(3, 7))
    assert isinstance(register, RfcLocParam)
    assert (register.register, register.flags, register.offset, register.size) == (5, 0, 0, 8)
    assert isinstance(constant, RfcLocParam)
    assert (constant.is_constant, constant.size, constant.value) == (True, -4, (1 << 64) - 1)
    assert isinstance(proto, LocProto)
    assert proto.loc_param_ids == (3, 4)
    assert isinstance(section, RfcLocsec)
    assert section.name == "inline"
    assert section.sites == (RfcInlineSite("add", 2, 5, 0x40),)
    assert validate(btf, strict=True) == []
    assert reencode(btf) == examples.RFC_OBJECT


def test_rfc_object_from_the_builder() -> None:
    builder = Builder(classic=True, dialect=Dialect.RFC)
    integer = builder.add_int("int", 4, INT_SIGNED)
    prototype = builder.add_func_proto(integer, [("a", integer), ("b", integer)])
    params = [builder.add_rfc_register(8, 5), builder.add_rfc_constant(-4, -1)]
    proto = builder.add_loc_proto(params)
    builder.string("add")
    builder.add_rfc_locsec("inline", [RfcInlineSite("add", prototype, proto, 0x40)])
    assert builder.to_bytes() == examples.RFC_OBJECT


def test_newest_object() -> None:
    btf = Btf(examples.NEW_OBJECT)
    assert btf.dialect is Dialect.NEW
    assert btf.layout is not None
    assert (len(btf.layout), btf.layout[20], btf.layout[22]) == (23, (4, 4), (0, 12))
    register, constant, proto, section = (btf.type(n) for n in range(4, 8))
    assert isinstance(register, LocParam)
    assert (register.size, register.flags, register.values) == (4, LocFlag.REG, (5,))
    assert isinstance(constant, LocParam)
    assert (constant.flags, constant.values) == (LocFlag.CONST | LocFlag.SIGNED, (0xFFFFFFFF,))
    assert isinstance(proto, LocProto)
    assert proto.loc_param_ids == (4, 5)
    assert isinstance(section, Locsec)
    assert section.sites == (InlineSite(3, 6, 0x40),)
    assert validate(btf, strict=True) == []
    assert reencode(btf) == examples.NEW_OBJECT


def test_newest_object_from_the_builder() -> None:
    builder = Builder(layout=True)
    integer = builder.add_int("int", 4, INT_SIGNED)
    prototype = builder.add_func_proto(integer, [("a", integer), ("b", integer)])
    function = builder.add_func("add", prototype)
    params = [
        builder.add_loc_param(4, LocFlag.REG, [5]),
        builder.add_loc_param(4, LocFlag.CONST | LocFlag.SIGNED, [0xFFFFFFFF]),
    ]
    proto = builder.add_loc_proto(params)
    builder.add_locsec("inline.text", [InlineSite(function, proto, 0x40)])
    assert builder.to_bytes() == examples.NEW_OBJECT


def test_section_named_as_in_elf_is_v2() -> None:
    assert examples.NEW_OBJECT.count(b"inline.text\0") == 1
    at = examples.NEW_OBJECT.index(b"inline.text\0")
    renamed = bytearray(examples.NEW_OBJECT)
    renamed[at : at + 12] = b".text\0\0\0\0\0\0\0"
    assert Btf(bytes(renamed)).dialect is Dialect.V2


def test_split_pair() -> None:
    inline = chain_of([examples.SPLIT_MAIN, examples.SPLIT_INLINE])
    assert inline.base is not None
    assert (inline.start_id, inline.end_id) == (4, 8)
    assert inline.dialect is Dialect.V2
    section = inline.type(7)
    assert isinstance(section, Locsec)
    assert section.name == ".text"
    assert [(inline.name(site.func_id), site.offset) for site in section.sites] == [("add", 0x10), ("helper", 0x30)]
    assert section.sites[0].func_id < inline.start_id <= section.sites[1].func_id
    assert validate(inline, strict=True) == []
    assert validate(inline.base, strict=True) == []
    assert reencode(inline) == examples.SPLIT_INLINE
    assert reencode(inline.base) == examples.SPLIT_MAIN


def test_split_pair_from_the_builder() -> None:
    main = Btf(examples.SPLIT_MAIN)
    builder = Builder(main, classic=True)
    helper = builder.add_func("helper", 2)
    proto_params = [builder.add_loc_param(4, LocFlag.REG, [5])]
    proto = builder.add_loc_proto(proto_params)
    builder.add_locsec(".text", [InlineSite(3, proto, 0x10), InlineSite(helper, proto, 0x30)])
    assert builder.to_bytes() == examples.SPLIT_INLINE


def test_april_blob_is_named() -> None:
    with pytest.raises(UnsupportedError, match="April-2025"):
        Btf(examples.APRIL_BLOB)


def test_compact_april_blob_is_named() -> None:
    instances = struct.pack("<QIH2I", 0xFFFFFFFF81000123, 7, 2, 1, 3)
    locations = bytes.fromhex("00 09 05 0a 05 20 00 00 00")
    header = struct.pack("<HBBI4I", 0xEB9F, 1, 0, 24, 0, len(instances), len(instances), len(locations))
    with pytest.raises(UnsupportedError, match=r"April-2025.*compact"):
        Btf(header + instances + locations)


@pytest.mark.parametrize("elements", [1, 2, 5])
def test_funcsec_sketch_is_named(elements: int) -> None:
    record = struct.pack("<3I", 1, 0x14000000 | elements, 0)
    record += b"".join(struct.pack("<3I", 9, 0x40 * n, 4) for n in range(elements))
    data = struct.pack("<HBBI4I", 0xEB9F, 1, 0, 24, 0, len(record), len(record), 3) + record + b"\0a\0"
    with pytest.raises(UnsupportedError, match="FUNCSEC"):
        Btf(data)


RFC_TEXTS = {
    "reg 5, size 8": "size=8 reg=5 flags=0x0 offset=0",
    "*(reg 6 + 0x18), size 8, DEREF": "size=8 reg=6 flags=0x1 offset=24",
    "*(fbreg - 0x20) i.e. pseudo-register 33": "size=8 reg=33 flags=0x1 offset=-32",
    "reg 5 CONTINUE (first of pair), size 8": "size=8 reg=5 flags=0x2 offset=0",
    "const 2, size 1": "size=1 value=2",
    "const -1, size -4": "size=-4 value=-1",
    "address 0x1234 past .text, size 8": "size=8 value=4660",
}


@pytest.mark.parametrize("what", examples.RFC_LOC_PARAMS)
def test_rfc_loc_params(what: str) -> None:
    btf = Btf(with_records(examples.RFC_LOC_PARAMS[what]), dialect=Dialect.RFC)
    assert render(btf.index, [1], False, True).decode() == f"[1] LOC_PARAM '(anon)' {RFC_TEXTS[what]}\n"
    assert reencode(btf) == bytes(btf.data)
    assert Btf(btf.data).dialect is Dialect.RFC


NEW_TEXTS = {
    "reg1, size 4": "reg1",
    "*(reg2 + 0x10), size 8": "*(reg2 + 0x10)",
    "fbreg - 0x10, size 8": "fbreg - 0x10",
    "0x123456789abcdef0 (addr), size 8": "0x123456789abcdef0 (addr)",
    "0xdeadbeeffeedface, size 8": "0xdeadbeeffeedface",
    "*(fbreg - 0x20), size 8": "*(fbreg - 0x20)",
    "*(reg3), no offset, size 8": "*(reg3)",
    "reg5 : reg4 pair, size 16": "reg5, reg4",
    "const -1, size 4, signed": "-1",
    "const -1, size 8, signed": "-1",
    "const 2, size 1, unsigned": "0x2",
    "*(reg7 - 2^32), 64-bit offset, size 8": "*(reg7 - 0x100000000)",
    "reg1, size 4, BIG ENDIAN": "reg1",
}


@pytest.mark.parametrize("what", examples.NEW_LOC_PARAMS)
def test_newest_loc_params(what: str) -> None:
    record = examples.NEW_LOC_PARAMS[what]
    btf = Btf(with_records(record, ">" if "BIG" in what else "<"))
    assert btf.dialect is Dialect.NEW
    assert location_text(btf.index, 1) == NEW_TEXTS[what]
    assert validate(btf, strict=True) == []
    assert reencode(btf) == bytes(btf.data)


def test_pieces() -> None:
    proto = bytes.fromhex("00000000 03000015 00000000 04000000 00000000 05000000")
    empty = bytes.fromhex("00000000 00000015 00000000")
    btf = Btf(with_records(proto + empty))
    first, second = btf.type(1), btf.type(2)
    assert isinstance(first, LocProto)
    assert first.loc_param_ids == (4, 0, 5)
    assert isinstance(second, LocProto)
    assert second.loc_param_ids == ()
