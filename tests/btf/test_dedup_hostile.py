"""Deduplication of whatever bytes: a result or one error of this package, in bounded time and memory."""

from __future__ import annotations

import struct
import time

import pytest

from inlinetrace.btf._types import Enumerator, Member
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.dedup import Rules, dedup
from inlinetrace.btf.kinds import LAYOUT, LAYOUT_HEADER, Kind, info_word
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, UnsupportedError
from tests.btf.notation import parse, show
from tests.btf.test_hostile import CHAINS, DEEP, INT, chain, words

SECONDS = 8.0


def in_time(data: bytes) -> Btf:
    """Deduplicate; the result has to be there soon."""
    btf = Btf(data)
    began = time.process_time()
    result = dedup(btf)
    assert time.process_time() - began < SECONDS
    return Btf(result.data)


def refused_in_time(data: bytes, match: str) -> None:
    btf = Btf(data)
    began = time.process_time()
    with pytest.raises(FormatError, match=match):
        dedup(btf)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("kind", [kind for kind in CHAINS if kind is not Kind.TYPEDEF])
def test_deep_chains(kind: Kind) -> None:
    assert in_time(chain(kind)).end_id == DEEP + 2


def test_a_deep_chain_of_typedefs_of_one_name() -> None:
    """Each is compared with all before it, and differs from them only far inside."""
    refused_in_time(chain(Kind.TYPEDEF), "resemble each other too much")
    assert dedup(Btf(chain(Kind.TYPEDEF)), rules=Rules.LIBBPF_1_1).kept == DEEP + 1


def test_deep_chains_twice() -> None:
    half = DEEP // 2
    once = [(0, info_word(Kind.PTR), n) for n in range(1, half + 1)]
    again = [(0, info_word(Kind.PTR), 1), *[(0, info_word(Kind.PTR), half + n) for n in range(2, half + 1)]]
    assert in_time(words(INT, *once, *again)).end_id == half + 2


def test_deep_graphs_are_compared() -> None:
    depth = 50_000
    records = [(5, info_word(Kind.STRUCT, 1), n, 0, n + 2, 0) for n in range(depth)]
    again = [(5, info_word(Kind.STRUCT, 1), n, 0, depth + n + 3, 0) for n in range(depth)]
    assert in_time(words(*records, INT, *again, INT)).end_id == depth + 2


@pytest.mark.parametrize(
    "lines",
    [
        "[1] ptr 1",
        "[1] const 2\n[2] volatile 1",
        "[1] array 1 4",
        "[1] proto 0: a=2\n[2] ptr 1",
        "[1] func f 1",
        "[1] decl_tag t 2\n[2] type_tag u 1",
    ],
)
def test_loops_that_nothing_can_name(lines: str) -> None:
    with pytest.raises(FormatError, match="refers to itself") as caught:
        dedup(Btf(parse(lines)))
    assert caught.value.type_id is not None
    assert caught.value.offset is not None


def test_a_loop_of_typedefs_is_one_of_libbpf_1_1() -> None:
    btf = Btf(parse("[1] typedef t 2\n[2] typedef t 1"))
    with pytest.raises(FormatError, match="refers to itself"):
        dedup(btf, rules=Rules.LIBBPF_1_1)
    assert show(Btf(dedup(btf).data)) == "[1] typedef t 1"


@pytest.mark.parametrize(
    "lines",
    [
        "[1] ptr 2",
        "[1] struct s 4: a=7@0",
        "[1] proto 0: a=4294967295",
        "[1] array 9 4",
        "[1] array 0 4 9",
        "[1] datasec .data 4: 3@0+4",
        "[1] loc_proto: 5",
        "[1] locsec .text: 1/9@0",
        "[1] var v 2",
        "[1] decl_tag t 2",
    ],
)
def test_ids_that_do_not_exist(lines: str) -> None:
    with pytest.raises(FormatError, match="does not exist") as caught:
        dedup(Btf(parse(lines)))
    assert caught.value.type_id == 1


def test_names_that_do_not_exist() -> None:
    for at in (0, 12):
        record = [5, info_word(Kind.STRUCT, 1), 4, 1, 0, 0]
        record[at // 4] = 99
        with pytest.raises(FormatError, match="leads to no string"):
            dedup(Btf(words(tuple(record))))
    with pytest.raises(FormatError, match="leads to no string"):
        dedup(Btf(words((5, info_word(Kind.STRUCT, 0), 4), strings=b"\0int\0node")))


def test_a_name_of_the_base_that_does_not_exist() -> None:
    base = Btf(words(INT, strings=b"\0int\0without end"))
    builder = Builder(base, classic=True)
    builder.record(Kind.STRUCT)
    data = bytearray(builder.to_bytes())
    struct.pack_into("<I", data, 24, 7)
    with pytest.raises(FormatError, match="leads to no string"):
        dedup(Btf(bytes(data), base))


@pytest.mark.parametrize("lines", ["[1] ptr 4000000", "[1] struct s 8: a=4000000@0", "[1] proto 0: a=4000000000"])
def test_ids_of_the_base_that_do_not_exist(lines: str) -> None:
    base = Btf(parse(lines))
    own = lines.replace("[1]", "[2]").replace("4000000000", "2").replace("4000000", "2")
    with pytest.raises(FormatError, match="does not exist") as caught:
        dedup(Btf(parse(own, base), base))
    assert caught.value.type_id == 1


def test_kinds_that_cannot_stand_in_a_struct() -> None:
    lines = """
        [1] int int 4
        [2] var v 1
        [3] struct s 8: a=2@0
        [4] var v 1
        [5] struct s 8: a=4@0
    """
    with pytest.raises(FormatError, match="kind 14 stands where"):
        dedup(Btf(parse(lines)))


def test_a_kind_that_is_only_skipped() -> None:
    layout = [*LAYOUT, (4, 0)]
    entries = b"".join(struct.pack("<2BH", fixed, element, 0) for fixed, element in layout)
    types = struct.pack("<4I", 0, info_word(23), 0, 1)
    head = struct.pack("<HBBI6I", 0xEB9F, 1, 0, 32, 0, 16, 16 + len(entries), 1, 16, len(entries))
    with pytest.raises(UnsupportedError, match="kind 23 is not known"):
        dedup(Btf(head + types + entries + b"\0"))


def test_a_header_with_unknown_fields() -> None:
    data = bytearray(Builder().to_bytes())
    longer = bytes(data[:LAYOUT_HEADER]) + b"\0\0\0\0" + bytes(data[LAYOUT_HEADER:])
    longer = longer[:4] + struct.pack("<I", 36) + longer[8:]
    assert dedup(Btf(longer)).data == longer
    with pytest.raises(UnsupportedError, match="not known"):
        dedup(Btf(longer[:32] + b"\1" + longer[33:]))


def test_many_anonymous_enums() -> None:
    builder = Builder(classic=True)
    for n in range(60_000):
        builder.add_enum("", 4, [Enumerator("A", n)])
    assert in_time(builder.to_bytes()).end_id == 60_001


def test_many_declarations_of_one_name_in_a_base() -> None:
    base = Btf(words(*[(5, info_word(Kind.ENUM, 0), n) for n in range(40_000)]))
    builder = Builder(base, classic=True)
    for n in range(40_000):
        builder.add_enum("node", 4, [Enumerator("A", n)])
    with pytest.raises(FormatError, match="resemble each other too much"):
        dedup(Btf(builder.to_bytes(), base))


def test_structs_of_one_shape_that_differ_far_inside() -> None:
    builder = Builder(classic=True)
    count = 20_000
    for n in range(count):
        builder.add_struct("s", 8, [Member("a", count + n + 1, 0)])
    for n in range(count):
        builder.add_ptr(2 * count + n + 1)
    for n in range(count):
        builder.add_int(f"i{n}", 4)
    refused_in_time(builder.to_bytes(), "resemble each other too much")


def test_typedefs_of_one_name() -> None:
    builder = Builder(classic=True)
    count = 30_000
    for n in range(count):
        builder.add_typedef("t", count + n + 1)
    for n in range(count):
        builder.add_int(f"i{n}", 4)
    refused_in_time(builder.to_bytes(), "resemble each other too much")


def test_repeated_types_that_branch_at_every_level() -> None:
    """Comparing what was written twice by content would take 40 ** 15 steps."""
    records: list[tuple[int, ...]] = [INT]
    levels, width = 15, 40
    for level in range(levels):
        # two structs that are equal but for the id of what they contain
        below = [1, 1] if level == 0 else [2 * level, 2 * level + 1]
        for member in below:
            members = [word for n in range(width) for word in (0, member, 32 * n)]
            records.append((0, info_word(Kind.STRUCT, width), 4 * width + level, *members))
    top = 2 * levels
    records.append((5, info_word(Kind.STRUCT, 2), 8, 0, top, 0, 0, top, 32))
    records.append((5, info_word(Kind.STRUCT, 2), 8, 0, top, 0, 0, top + 1, 32))
    btf = Btf(words(*records))
    began = time.process_time()
    assert Btf(dedup(btf).data).end_id == levels + 3
    assert time.process_time() - began < SECONDS


def test_qualifiers_in_a_loop_that_was_written_twice() -> None:
    lines = """
        [1] int int 4
        [2] struct s 8: a=3@0, b=3@32
        [3] const 4
        [4] volatile 3
        [5] struct s 8: a=6@0, b=8@32
        [6] const 7
        [7] volatile 6
        [8] const 9
        [9] volatile 8
    """
    refused_in_time(parse(lines), "resemble each other too much|refers to itself")


def test_names_that_overlap() -> None:
    text = b"a" * 4000
    many = 4000
    strings = b"\0" + (text + b"\0") * 4
    records = [(1 + n, info_word(Kind.TYPEDEF), 0) for n in range(many)]
    refused_in_time(words(*records, strings=strings), "overlap each other")
    # a suffix here and there is fine: linkers store names so
    assert Btf(dedup(Btf(words(INT, (2, info_word(Kind.TYPEDEF), 1)))).data).strings == b"\0int\0nt\0"
