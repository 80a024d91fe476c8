"""Each rule of the format, broken once: the fault names rule, type and byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from inlinetrace.btf._types import InlineSite, Member
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import FRAME_BASE, Dialect, Kind, LocFlag, legal_location
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import STRICT_ONLY, Rule, validate
from tests.btf.samples import everything

HEADER = 32


def base() -> Builder:
    """[1] int, [2] struct node of 8 bytes, [3] void (*)(int a), [4] FUNC f, strings with x at 5."""
    builder = Builder()
    integer = builder.add_int("int", 4)
    builder.string("x")
    builder.add_struct("node", 8, [Member("a", integer, 0), Member("b", integer, 32)])
    builder.add_func("f", builder.add_func_proto(0, [("a", integer)]))
    return builder


def record(*arguments: object, **options: object) -> Callable[[Builder], object]:
    return lambda builder: builder.record(*arguments, **options)  # type: ignore[arg-type]


BROKEN: Sequence[tuple[Rule, int, Callable[[Builder], object]]] = [
    (Rule.NAME_MISSING, 0, record(Kind.TYPEDEF, size_or_type=1)),
    (Rule.NAME_MISSING, 0, record(Kind.FUNC, size_or_type=3)),
    (Rule.NAME_MISSING, 12, record(Kind.ENUM, "e", 1, size_or_type=4, words=[0, 1])),
    (Rule.NAME_SURPLUS, 0, record(Kind.PTR, "x", size_or_type=1)),
    (Rule.NAME_SURPLUS, 0, record(Kind.FUNC_PROTO, "x")),
    (Rule.NAME_OFFSET, 12, record(Kind.STRUCT, "s", 1, size_or_type=4, words=[0xFFFF, 1, 0])),
    (Rule.NAME_IDENTIFIER, 0, record(Kind.TYPEDEF, "a b", size_or_type=1)),
    (Rule.KIND_FLAG, 4, record(Kind.PTR, kind_flag=True, size_or_type=1)),
    (Rule.VLEN, 4, record(Kind.CONST, vlen=3, size_or_type=1)),
    (Rule.LINKAGE, 4, record(Kind.FUNC, "x", 3, size_or_type=3)),
    (Rule.LINKAGE, 12, record(Kind.VAR, "x", size_or_type=1, words=[3])),
    (Rule.THIRD_WORD, 8, record(Kind.ARRAY, size_or_type=5, words=[1, 1, 1])),
    (Rule.THIRD_WORD, 8, record(Kind.FWD, "x", size_or_type=5)),
    (Rule.INT_SIZE, 8, record(Kind.INT, "x", size_or_type=3, words=[24])),
    (Rule.INT_SIZE, 8, record(Kind.INT, "x", size_or_type=32, words=[8])),
    (Rule.INT_BITS, 12, record(Kind.INT, "x", size_or_type=4, words=[33])),
    (Rule.INT_BITS, 12, record(Kind.INT, "x", size_or_type=4, words=[0x00100020])),
    (Rule.INT_ENCODING, 12, record(Kind.INT, "x", size_or_type=4, words=[0x03000020])),
    (Rule.FLOAT_SIZE, 8, record(Kind.FLOAT, "x", size_or_type=5)),
    (Rule.TYPE_ID, 8, record(Kind.PTR, size_or_type=99)),
    (Rule.TYPE_KIND, 8, record(Kind.PTR, size_or_type=4)),
    (Rule.TYPE_KIND, 8, record(Kind.FUNC, "x", size_or_type=1)),
    (Rule.TYPE_KIND, 8, record(Kind.DECL_TAG, "x", size_or_type=1, words=[0xFFFFFFFF])),
    (Rule.ELEMENT_UNSIZED, 12, record(Kind.ARRAY, words=[3, 1, 1])),
    (Rule.INDEX_TYPE, 16, record(Kind.ARRAY, words=[1, 2, 1])),
    (Rule.MEMBER_UNSIZED, 16, record(Kind.STRUCT, "s", 1, size_or_type=4, words=[0, 3, 0])),
    (Rule.MEMBER_BOUNDS, 20, record(Kind.STRUCT, "s", 1, size_or_type=4, words=[0, 1, 8])),
    (Rule.MEMBER_ORDER, 32, record(Kind.STRUCT, "s", 2, size_or_type=8, words=[0, 1, 32, 0, 1, 0])),
    (Rule.MEMBER_ALIGNED, 20, record(Kind.STRUCT, "s", 1, True, 8, [0, 1, 3])),
    (Rule.UNION_OFFSET, 20, record(Kind.UNION, "s", 1, size_or_type=8, words=[0, 1, 32])),
    (Rule.BITFIELD, 20, record(Kind.STRUCT, "s", 1, True, 8, [0, 1, 33 << 24])),
    (Rule.ENUM_SIZE, 8, record(Kind.ENUM, "e", size_or_type=3)),
    (Rule.PARAM_VOID, 16, record(Kind.FUNC_PROTO, vlen=2, words=[0, 0, 0, 1])),
    (Rule.PARAM_VOID, 16, record(Kind.FUNC_PROTO, vlen=1, words=[5, 0])),
    (Rule.TAG_COMPONENT, 12, record(Kind.DECL_TAG, "x", size_or_type=2, words=[2])),
    (Rule.TAG_COMPONENT, 12, record(Kind.DECL_TAG, "x", size_or_type=4, words=[1])),
    (Rule.LOC_FLAGS, 12, record(Kind.LOC_PARAM, vlen=1, size_or_type=4, words=[0x40, 1])),
    (Rule.LOC_FLAGS, 12, record(Kind.LOC_PARAM, vlen=3, size_or_type=4, words=[LocFlag.REG, 1, 2, 3])),
    (Rule.LOC_SIZE, 8, record(Kind.LOC_PARAM, vlen=1, size_or_type=0, words=[LocFlag.REG, 1])),
    (Rule.LOC_SIZE, 8, record(Kind.LOC_PARAM, vlen=1, size_or_type=17, words=[LocFlag.REG, 1])),
    (Rule.LOC_CONSTANT, 8, record(Kind.LOC_PARAM, vlen=2, size_or_type=16, words=[LocFlag.CONST, 1, 2])),
    (Rule.LOC_CONSTANT, 8, record(Kind.LOC_PARAM, vlen=1, size_or_type=8, words=[LocFlag.CONST, 1])),
    (Rule.TYPE_KIND, 12, record(Kind.LOC_PROTO, vlen=1, words=[1])),
    (Rule.NAME_MISSING, 0, record(Kind.LOCSEC)),
    (Rule.LOCSEC_ID, 12, record(Kind.LOCSEC, "x", 1, words=[0, 1, 0])),
    (Rule.TYPE_KIND, 16, record(Kind.LOCSEC, "x", 1, words=[4, 1, 0])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "at", "breaking"), BROKEN, ids=[f"{n}-{rule.name}" for n, (rule, *_) in enumerate(BROKEN)]
)
def test_broken_rules(rule: Rule, at: int, breaking: Callable[[Builder], object]) -> None:
    builder = base()
    start = len(builder.to_bytes()) - len(builder._strings)
    breaking(builder)
    btf = Btf(builder.to_bytes(), path="a.btf")
    faults = validate(btf, strict=True)
    assert [(fault.rule, fault.count, fault.type_id, fault.offset) for fault in faults] == [(rule, 1, 5, start + at)]
    assert str(faults[0].error(btf)) == f"a.btf, offset {start + at:#x}, type [5]: {faults[0].text}"
    tolerant = validate(btf)
    assert [fault.rule for fault in tolerant] == ([] if rule in STRICT_ONLY else [rule])


def test_sections_have_their_variables_in_order() -> None:
    builder = base()
    variables = [builder.add_var(name, 1) for name in "pq"]
    builder.record(Kind.DATASEC, "s", 2, size_or_type=8, words=[variables[0], 4, 4, variables[1], 2, 4])
    builder.record(Kind.DATASEC, "t", 1, size_or_type=8, words=[variables[0], 6, 4])
    builder.record(Kind.DATASEC, "not filled in yet", 1, size_or_type=0, words=[variables[0], 6, 4])
    assert [f.rule for f in validate(Btf(builder.to_bytes()))] == [Rule.VARIABLE_ORDER, Rule.VARIABLE_BOUNDS]


def test_slots_are_counted() -> None:
    builder = base()
    param = builder.add_loc_param(4, LocFlag.REG, [5])
    proto = builder.add_loc_proto([param, 0])
    builder.add_locsec(".text", [InlineSite(4, proto, 0), InlineSite(4, proto, 8)])
    btf = Btf(builder.to_bytes())
    assert [(fault.rule, fault.count) for fault in validate(btf, strict=True)] == [(Rule.LOC_SLOTS, 2)]
    assert validate(btf) == []


def test_header_and_strings() -> None:
    data = bytearray(everything())
    data[3] = 1
    data[-1] = 65
    faults = {fault.rule for fault in validate(Btf(bytes(data)))}
    assert {Rule.HEADER_FLAGS, Rule.STRING_END} <= faults


def test_rfc_sizes() -> None:
    builder = Builder(dialect=Dialect.RFC)
    builder.add_rfc_constant(-4, -1)
    builder.add_rfc_constant(3, 1)
    assert [(f.rule, f.type_id) for f in validate(Btf(builder.to_bytes()))] == [(Rule.LOC_SIZE, 2)]


def test_bitfields_from_before_kind_flag_are_fine() -> None:
    builder = Builder(classic=True)
    three = builder.add_int("int", 4, bits=3, bit_offset=5)
    builder.add_struct("old", 4, [Member("a", three, 24)])
    assert validate(Btf(builder.to_bytes()), strict=True) == []


@pytest.mark.parametrize("flags", range(0x80))
@pytest.mark.parametrize("vlen", range(5))
def test_legal_flags_are_the_same_in_both_places(flags: int, vlen: int) -> None:
    builder = Builder()
    builder.add_loc_param(4, flags, [FRAME_BASE] * vlen)
    btf = Btf(builder.to_bytes(), dialect=Dialect.NEW)
    assert (Rule.LOC_FLAGS not in {fault.rule for fault in validate(btf)}) == legal_location(flags, vlen)
