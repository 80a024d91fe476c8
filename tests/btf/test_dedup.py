"""Deduplication, case by case, and beside libbpf."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.btf.builder import Builder
from inlinetrace.btf.dedup import Deduplicated, Rules, dedup
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import Rule, validate
from inlinetrace.errors import FormatError
from tests.btf import libbpf
from tests.btf.dedup_cases import CASES, DIFFERENT
from tests.btf.notation import parse, show
from tests.btf.random_btf import random_btf
from tests.btf.samples import everything

# One struct of these is in the other's graph, which is not compared with itself before it has changed.
NOT_FINAL = {"a struct that contains itself in different depths"}


def read(name: str, byte_order: str = "little") -> tuple[Btf, str]:
    """The input of a case on its base, and the lines of its result."""
    given_lines, _, expected = CASES[name].partition("->")
    below, split, own = given_lines.partition("base\n")
    base = Btf(parse(below, byte_order=byte_order)) if split else None
    return Btf(parse(own if split else given_lines, base, byte_order=byte_order), base), expected.strip()


def shown(result: Deduplicated, btf: Btf) -> str:
    return show(Btf(result.data, btf.base))


def by_libbpf(btf: Btf) -> bytes:
    return libbpf.dedup(*(bytes(layer.data) for layer in [btf, *btf.chain[:-1]]))


def test_there_are_many_cases() -> None:
    assert len(CASES) > 80
    assert DIFFERENT.keys() <= CASES.keys()


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, byte_order: str) -> None:
    btf, expected = read(name, byte_order)
    result = dedup(btf)
    assert shown(result, btf) == expected
    after = Btf(result.data, btf.base)
    assert after.byte_order == byte_order
    assert result.kept == after.end_id - after.start_id
    if name not in NOT_FINAL:
        assert shown(dedup(after), after) == expected


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("name", CASES)
def test_case_as_libbpf_has_it(name: str, byte_order: str) -> None:
    btf, expected = read(name, byte_order)
    if any(kind >= Kind.LOC_PARAM for layer in btf.chain for kind in layer.index.count_kinds()):
        # No release of libbpf knows these kinds. That its way of counting candidates goes on is all that can be shown.
        assert shown(dedup(btf, rules=Rules.LIBBPF_1_1), btf) == expected
    elif DIFFERENT.get(name) == "refers to itself":
        with pytest.raises(FormatError, match="refers to itself"):
            dedup(btf, rules=Rules.LIBBPF_1_1)
        with pytest.raises(libbpf.LibbpfError):
            by_libbpf(btf)
    else:
        result = dedup(btf, rules=Rules.LIBBPF_1_1)
        assert shown(result, btf) == DIFFERENT.get(name, expected).strip()
        assert result.data == by_libbpf(btf)


@given(st.integers(0, 1 << 32), st.booleans())
@settings(max_examples=400, deadline=None)
def test_random_objects_are_what_libbpf_makes_of_them(seed: int, split: bool) -> None:
    source = random.Random(seed)
    base = Btf(random_btf(source)) if split else None
    if base is not None and source.random() < 0.7:
        base = Btf(dedup(base).data)
    btf = Btf(random_btf(source, base), base)
    result = dedup(btf, rules=Rules.LIBBPF_1_1)
    assert result.data == by_libbpf(btf)
    newest = Btf(dedup(btf).data, base)
    assert newest.end_id <= Btf(result.data, base).end_id
    assert not {Rule.TYPE_ID, Rule.NAME_OFFSET, Rule.STRING_END} & {fault.rule for fault in validate(newest)}


@given(st.integers(0, 1 << 32))
@settings(max_examples=100, deadline=None)
def test_new_ids_lead_to_equal_types(seed: int) -> None:
    btf = Btf(random_btf(random.Random(seed)))
    result = dedup(btf)
    after = Btf(result.data)
    assert len(result.ids) == btf.end_id - 1
    assert result.new_id(0) == 0
    assert set(result.ids) == set(range(1, after.end_id))
    for type_id in range(1, btf.end_id):
        before, now = btf.type(type_id), after.type(result.new_id(type_id))
        assert before.name == now.name
        if before.kind != Kind.FWD and (before.vlen or before.kind not in (Kind.ENUM, Kind.ENUM64)):
            assert (before.kind, before.vlen) == (now.kind, now.vlen)


def test_only_names_that_are_used_stay_in_the_order_of_their_use() -> None:
    builder = Builder(classic=True, strings=b"\0unused\0int\0int\0b\0")
    # the second "int" by its offset
    builder._known[b"int"] = 12
    builder.add_int("int", 4)
    builder._known[b"int"] = 8
    builder.add_int("int", 4)
    builder.add_struct("b", 0, [])
    data = builder.to_bytes()
    btf = Btf(data)
    assert dedup(btf).data == libbpf.dedup(data)
    assert Btf(dedup(btf).data).strings == b"\0int\0b\0"


def test_names_of_a_base_of_a_base() -> None:
    outer = Btf(parse("[1] int int 4"))
    middle = Btf(parse("[2] int long 8\n[3] struct s 0", outer), outer)
    builder = Builder(middle, classic=True)
    # names that the bases have, stored once more
    builder._known = {b"": 0}
    for name in ("long", "int", "s", "other"):
        builder.add_struct(name, 4, [])
    btf = Btf(builder.to_bytes(), middle)
    result = dedup(btf)
    after = Btf(result.data, middle)
    assert after.strings == b"other\0"
    assert show(after) == "[4] struct long 4\n[5] struct int 4\n[6] struct s 4\n[7] struct other 4"


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("form", ["classic", "new", "layout"])
def test_everything_twice(dialect: Dialect, byte_order: str, form: str) -> None:
    once = everything(byte_order=byte_order, classic=form == "classic", layout=form == "layout", dialect=dialect)
    assert dedup(Btf(once)).data == once
    builder = Builder(byte_order=byte_order, classic=form == "classic", layout=form == "layout", dialect=dialect)
    btf = Btf(once)
    for record in btf.types():
        builder.add(record)
    # the copy's references lead to the original, so that all of it is equal but for what is never deduplicated
    for record in btf.types():
        builder.add(record)
    twice = Btf(builder.to_bytes())
    result = dedup(twice)
    after = Btf(result.data)
    assert after.dialect is dialect
    assert after.layout == btf.layout
    assert after.header.length == btf.header.length
    assert bytes(after.data[after.header.type_at :]).startswith(once[btf.header.type_at :][: btf.header.type_len])
    added = [Kind(after.kind(type_id)) for type_id in range(btf.end_id, after.end_id)]
    assert added == [Kind.VAR, Kind.DATASEC, Kind.LOCSEC]


def test_the_base_may_have_the_other_byte_order() -> None:
    name = "all of it is in the base"
    given_lines = CASES[name].partition("->")[0]
    below, _, own = given_lines.partition("base\n")
    base = Btf(parse(below, byte_order="big"))
    btf = Btf(parse(own, base, byte_order="little"), base)
    assert shown(dedup(btf), btf) == CASES[name].partition("->")[2].strip()


def test_the_seed_of_the_hashes_does_not_show() -> None:
    btf = Btf(random_btf(random.Random(7)))
    assert len({dedup(btf).data for _ in range(20)}) == 1
