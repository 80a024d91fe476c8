"""Text and JSON are those of bpftool, byte for byte and value for value."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inlinetrace.btf._text import render
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.encode import reencode
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.errors import FormatError
from tests.btf.conftest import modules_of, output, tool
from tests.btf.samples import everything, fill
from tests.kernels import Kernel


def raw(btf: Btf) -> bytes:
    return render(btf.index, range(btf.start_id, btf.end_id), False, True)


def data_of(btf: Btf) -> list[Any]:
    return list(json.loads(b"[" + render(btf.index, range(btf.start_id, btf.end_id), True, True) + b"]"))


def from_bpftool(*arguments: str) -> list[Any]:
    """bpftool's JSON. Version 7.1 sign-extends unsigned 32-bit enumerators above 2^31 to 64 bits: put right here."""
    types = json.loads(output(tool("bpftool"), "-j", *arguments))["types"]
    for entry in types:
        if entry["kind"] == "ENUM" and entry["encoding"] == "UNSIGNED":
            for value in entry["values"]:
                value["val"] &= 0xFFFFFFFF
    return list(types)


@pytest.mark.parametrize("order", ["little", "big"])
def test_every_kind(order: str, saved: Callable[[bytes], str]) -> None:
    data = fill(Builder(byte_order=order, classic=True)).to_bytes()
    path = saved(data)
    assert raw(Btf(data)) == output(tool("bpftool"), "btf", "dump", "file", path)
    assert data_of(Btf(data)) == from_bpftool("btf", "dump", "file", path)


def test_odd_values(saved: Callable[[bytes], str]) -> None:
    builder = Builder(classic=True)
    integer = builder.add_int("odd", 4, 4, bits=3, bit_offset=5)
    builder.record(Kind.FWD, "u", kind_flag=True)
    builder.record(Kind.VAR, "v", size_or_type=integer, words=[2])
    builder.record(Kind.ENUM, "e", 2, True, 4, [0, 0xFFFFFFFF, builder.string("x"), 5])
    builder.record(Kind.ENUM64, "f", 1, True, 8, [builder.string("y"), 0, 0x80000000])
    builder.add_decl_tag('a "quote"', integer, 7)
    data = builder.to_bytes()
    path = saved(data)
    assert raw(Btf(data)) == output(tool("bpftool"), "btf", "dump", "file", path)
    assert data_of(Btf(data)) == from_bpftool("btf", "dump", "file", path)


class TestRunningKernel:
    def test_raw(self, running_btf: str) -> None:
        btf = load(running_btf)
        assert raw(btf) == output(tool("bpftool"), "btf", "dump", "file", running_btf)

    def test_json(self, running_btf: str) -> None:
        assert data_of(load(running_btf)) == from_bpftool("btf", "dump", "file", running_btf)

    def test_it_is_valid_and_encodes_to_itself(self, running_btf: str) -> None:
        btf = load(running_btf)
        assert validate(btf, strict=True) == []
        assert reencode(btf) == btf.data


@pytest.mark.kernel
def test_kernels_and_their_modules(distribution_kernel: Kernel) -> None:
    image = distribution_kernel.vmlinux
    base = load(str(image))
    assert raw(base) == output(tool("bpftool"), "btf", "dump", "file", str(image))
    assert data_of(base) == from_bpftool("btf", "dump", "file", str(image))
    assert reencode(base) == base.data
    modules = modules_of(image, 20)
    assert len(modules) == 20
    for path in modules:
        module = load(str(path), [str(image)])
        command = ("-B", str(image), "btf", "dump", "file", str(path))
        assert raw(module) == output(tool("bpftool"), *command), path
        assert data_of(module) == from_bpftool(*command), path
        assert validate(module, strict=True) == []
        assert reencode(module) == module.data


NEW_TAIL = """\
[41] LOC_PROTO '(anon)' vlen=2
	type_id=0 value='unavailable'
	type_id=32 value='reg5'
"""


def test_location_kinds_of_the_newest_dialect() -> None:
    btf = Btf(everything())
    text = raw(btf).decode()
    assert NEW_TAIL in text
    assert "[33] LOC_PARAM '(anon)' size=16 flags=0x8 vlen=2 values='reg5, reg4'\n" in text
    assert "[50] LOCSEC 'inline.text' vlen=9\n\tname='helper' func_type_id=31 loc_proto_type_id=41 offset=0\n" in text
    types = {entry["id"]: entry for entry in data_of(btf)}
    assert types[36] == {
        "id": 36, "kind": "LOC_PARAM", "name": "(anon)", "size": 8, "flags": 0x38, "vlen": 2, "values": [7, 16],
        "value": "*(reg7 + 0x10)",
    }  # fmt: skip
    assert types[41]["params"] == [{"type_id": 0, "value": "unavailable"}, {"type_id": 32, "value": "reg5"}]
    assert types[50]["locs"][1] == {"name": "helper", "func_type_id": 31, "loc_proto_type_id": 42, "offset": 16}


def test_location_kinds_of_the_rfc() -> None:
    btf = Btf(everything(dialect=Dialect.RFC))
    text = raw(btf).decode()
    assert "[33] LOC_PARAM '(anon)' size=8 reg=6 flags=0x1 offset=24\n" in text
    assert "[37] LOC_PARAM '(anon)' size=-4 value=-1\n" in text
    assert "[38] LOC_PROTO '(anon)' vlen=2\n\t type_id=32\n\t type_id=33\n" in text
    assert "\n\t 'helper' func_proto_type_id=30 loc_proto_type_id=39 offset=128\n" in text
    types = {entry["id"]: entry for entry in data_of(btf)}
    assert types[34]["offset"] == -32
    assert types[40]["locs"][0] == {"name": "handle", "func_proto_type_id": 30, "loc_proto_type_id": 38, "offset": 64}


def test_location_of_the_wrong_kind_is_invalid() -> None:
    builder = Builder()
    integer = builder.add_int("int", 4)
    builder.add_loc_param(4, 0x40, [7, 8])
    builder.add_loc_proto([integer, 99, 2])
    text = raw(Btf(builder.to_bytes())).decode()
    assert "values='? 0x7 0x8'" in text
    assert text.count("value='(invalid)'") == 2
    assert "type_id=2 value='? 0x7 0x8'" in text


def test_ids_that_do_not_exist() -> None:
    btf = Btf(everything())
    with pytest.raises(FormatError, match="no such type"):
        render(btf.index, [0], False, True)
    with pytest.raises(FormatError, match="no such type"):
        render(btf.index, range(1, btf.end_id + 1), False, True)


def test_portions_make_one_list() -> None:
    btf = Btf(everything())
    parts = render(btf.index, range(1, 10), True, True) + render(btf.index, range(10, btf.end_id), True, False)
    assert json.loads(b"[" + parts + b"]") == data_of(btf)
