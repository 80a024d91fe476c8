"""Writing: byte-exact forms, limits, and acceptance by independent readers."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from inlinetrace.btf._types import Enumerator, InlineSite, Member, RfcInlineSite
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import LAYOUT, Dialect, Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, UsageError
from tests.btf.conftest import output, tool
from tests.btf.samples import everything, fill


@pytest.mark.parametrize("order", ["little", "big"])
def test_an_integer_byte_by_byte(order: str) -> None:
    mark = "<" if order == "little" else ">"
    builder = Builder(byte_order=order, classic=True)
    builder.add_int("int", 4, 1)
    record = struct.pack(mark + "4I", 1, 1 << 24, 4, 1 << 24 | 32)
    assert builder.to_bytes() == struct.pack(mark + "HBBI4I", 0xEB9F, 1, 0, 24, 0, 16, 16, 5) + record + b"\0int\0"


def test_the_newest_header_without_layout() -> None:
    assert struct.unpack_from("<HBBI6I", Builder().to_bytes()) == (0xEB9F, 1, 0, 32, 0, 0, 0, 1, 0, 0)


def test_the_layout_section() -> None:
    data = Builder(layout=True, byte_order="big").to_bytes()
    assert struct.unpack_from(">2I", data, 24) == (0, 92)
    assert data[32:124] == b"".join(struct.pack(">2BH", fixed, element, 0) for fixed, element in LAYOUT)


def test_copying_types_gives_an_equal_object() -> None:
    data = everything(layout=True)
    builder = Builder(layout=True)
    for record in Btf(data).types():
        assert builder.add(record) == record.id
    assert builder.to_bytes() == data


def test_names_of_the_base_are_reused() -> None:
    base = Btf(everything())
    builder = Builder(base)
    assert builder.string("node") < base.header.string_len
    assert builder.string("fresh") == base.header.string_len
    assert builder.string("fresh") == builder.string("fresh")


def test_classic_form_has_its_limits() -> None:
    builder = Builder(classic=True)
    many = [Enumerator("", n) for n in range(65536)]
    with pytest.raises(FormatError, match="65536 elements"):
        builder.add_enum("e", 4, many)
    assert Btf(_with_enum(many)).type(1).vlen == 65536
    with pytest.raises(UsageError, match="no layout"):
        Builder(classic=True, layout=True)


def _with_enum(enumerators: list[Enumerator]) -> bytes:
    builder = Builder()
    builder.add_enum("e", 4, enumerators)
    return builder.to_bytes()


@pytest.mark.parametrize(
    "action",
    [
        lambda b: b.add_int("a\0b", 4),
        lambda b: b.add_typedef("a" * 5000, 1),
        lambda b: b.add_ptr(1 << 32),
        lambda b: b.add_ptr(-1),
        lambda b: b.add_enum("e", 4, [Enumerator("a", 1 << 32)]),
        lambda b: b.add_struct("s", 1 << 23, [Member("a", 1, 1 << 24), Member("b", 1, 0, 3)]),
    ],
)
def test_what_does_not_fit_is_refused(action: Callable[[Builder], object]) -> None:
    with pytest.raises(FormatError):
        action(Builder())


def test_dialects_do_not_mix() -> None:
    with pytest.raises(UsageError, match="does not exist in dialect new"):
        Builder().add_rfc_locsec("inline", [RfcInlineSite("f", 1, 2, 3)])
    with pytest.raises(UsageError, match="does not exist in dialect rfc"):
        Builder(dialect=Dialect.RFC).add_locsec(".text", [InlineSite(1, 2, 3)])
    with pytest.raises(UsageError, match="byte order"):
        Builder(byte_order="middle")


@pytest.mark.parametrize("order", ["little", "big"])
def test_bpftool_reads_what_we_write(order: str, saved: Callable[[bytes], str]) -> None:
    data = fill(Builder(byte_order=order, classic=True)).to_bytes()
    text = output(tool("bpftool"), "btf", "dump", "file", saved(data)).decode()
    assert "[17] STRUCT 'node' size=64 vlen=9\n\t'next' type_id=18 bits_offset=0\n" in text
    assert "'low' type_id=2 bits_offset=72 bitfield_size=3" in text


def test_bpftool_reads_a_split_object(saved: Callable[[bytes], str]) -> None:
    base = fill(Builder(classic=True)).to_bytes()
    builder = Builder(Btf(base), classic=True)
    builder.add_typedef("fresh", Btf(base).find("node", Kind.STRUCT)[0])
    text = output(tool("bpftool"), "-B", saved(base), "btf", "dump", "file", saved(builder.to_bytes())).decode()
    assert text == f"[{Btf(base).end_id}] TYPEDEF 'fresh' type_id=17\n"
