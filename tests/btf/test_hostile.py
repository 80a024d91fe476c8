"""Whatever the bytes: an error of this package or a result, in little time and memory, and no recursion."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.btf._text import render
from inlinetrace.btf._types import Member
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.c_source import c_source, declaration
from inlinetrace.btf.kinds import Kind, info_word
from inlinetrace.btf.layout import layout_text
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import Rule, validate
from inlinetrace.errors import FormatError, InlineTraceError, NotFoundError
from tests.btf.mutants import SECONDS, use
from tests.btf.samples import everything
from tests.elf.elfwriter import Sec, elf_file

DEEP = 200_000


@pytest.mark.parametrize("first", [0, 5000])
def test_ten_thousand_mutants(first: int) -> None:
    command = [sys.executable, "-m", "tests.btf.mutants", str(first), "5000"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@given(st.binary(max_size=200))
@settings(max_examples=300, deadline=None)
def test_random_bytes(data: bytes) -> None:
    use(data, None)
    use(b"\x9f\xeb\x01\x00\x18\x00\x00\x00" + data, None)


@given(st.integers(0, 100_000))
@settings(max_examples=200, deadline=None)
def test_truncation_anywhere_is_an_error_with_its_place(at: int) -> None:
    data = everything(layout=True)
    with pytest.raises(InlineTraceError) as caught:
        Btf(data[: at % len(data)])
    assert caught.value.offset is not None


def words(*records: tuple[int, ...], strings: bytes = b"\0int\0node\0") -> bytes:
    """A classic object from the words of its records."""
    types = b"".join(struct.pack(f"<{len(record)}I", *record) for record in records)
    return struct.pack("<HBBI4I", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings)) + types + strings


INT = (1, info_word(Kind.INT), 4, 0x01000020)


def chain(kind: Kind, depth: int = DEEP) -> bytes:
    """INT and ``depth`` records of one kind, each referring to the one before."""
    if kind is Kind.ARRAY:
        return words(INT, *[(0, info_word(kind), 0, n, 1, 1) for n in range(1, depth + 1)])
    name = 1 if kind in (Kind.TYPEDEF, Kind.TYPE_TAG) else 0
    return words(INT, *[(name, info_word(kind), n) for n in range(1, depth + 1)])


CHAINS = [Kind.PTR, Kind.CONST, Kind.VOLATILE, Kind.TYPEDEF, Kind.TYPE_TAG, Kind.ARRAY]


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize(
    "action",
    [
        lambda btf: validate(btf, strict=True),
        lambda btf: render(btf.index, range(1, btf.end_id), True, True),
        lambda btf: btf.size_of(btf.end_id - 1),
        lambda btf: declaration(btf, btf.end_id - 1, "deep"),
        lambda btf: sum(map(len, c_source(btf, [btf.end_id - 1]))),
    ],
    ids=["validate", "render", "size", "declaration", "source"],
)
def test_deep_chains_are_walked(kind: Kind, action: Callable[[Btf], object]) -> None:
    begin = time.process_time()
    action(Btf(chain(kind)))
    assert time.process_time() - begin < SECONDS * 1.5


def test_deep_pointer_is_spelled() -> None:
    assert declaration(Btf(chain(Kind.PTR)), DEEP + 1, "deep") == "int " + "*" * DEEP + "deep"


def test_deep_function_pointers() -> None:
    depth = 20_000
    records = [
        record
        for n in range(depth)
        for record in ((0, info_word(Kind.FUNC_PROTO, 1), 0, 0, 2 * n + 1), (0, info_word(Kind.PTR), 2 * n + 2))
    ]
    btf = Btf(words(INT, *records))
    assert declaration(btf, btf.end_id - 1, "f").startswith("void (*f)(void (*)(void (*)(")
    assert validate(btf) == []


def test_deep_anonymous_structs() -> None:
    depth = 3000
    records = [(0, info_word(Kind.STRUCT, 1), 4, 0, n + 1, 0) for n in range(depth)]
    btf = Btf(words(INT, *records, (5, info_word(Kind.STRUCT, 1), 4, 0, depth + 1, 0)))
    assert validate(btf) == []
    assert "".join(c_source(btf, [btf.end_id - 1])).count("struct {") == depth
    assert layout_text(btf, "node").count("struct {") == depth


@pytest.mark.parametrize(
    ("records", "rule"),
    [
        ([(1, info_word(Kind.TYPEDEF), 1)], Rule.CONTAINS_ITSELF),
        ([(1, info_word(Kind.TYPEDEF), 2), (0, info_word(Kind.CONST), 1)], Rule.CONTAINS_ITSELF),
        ([(0, info_word(Kind.PTR), 1)], Rule.ENDLESS),
        ([(0, info_word(Kind.FUNC_PROTO, 1), 0, 0, 2), (0, info_word(Kind.PTR), 1)], Rule.ENDLESS),
        ([(5, info_word(Kind.STRUCT, 1), 8, 0, 1, 0)], Rule.CONTAINS_ITSELF),
        ([(5, info_word(Kind.STRUCT, 1), 8, 0, 2, 0), (0, info_word(Kind.ARRAY), 0, 1, 1, 2)], Rule.CONTAINS_ITSELF),
        ([(0, info_word(Kind.STRUCT, 1), 8, 0, 2, 0), (0, info_word(Kind.PTR), 1)], Rule.ENDLESS),
        ([(0, info_word(Kind.ARRAY), 0, 1, 1, 3)], Rule.CONTAINS_ITSELF),
    ],
)
def test_loops_are_found_and_refused(records: list[tuple[int, ...]], rule: Rule) -> None:
    btf = Btf(words(*records))
    assert rule in {fault.rule for fault in validate(btf)}
    with pytest.raises(FormatError):
        "".join(c_source(btf, [1]))


def test_the_layout_of_an_anonymous_struct_inside_of_itself() -> None:
    union = (0, info_word(Kind.UNION, 1), 8, 0, 2, 0)
    btf = Btf(words(union, (0, info_word(Kind.STRUCT, 1), 8, 0, 1, 0), (5, info_word(Kind.STRUCT, 1), 8, 0, 2, 0)))
    with pytest.raises(FormatError, match="contains itself"):
        layout_text(btf, "node")


def test_pointer_to_itself_through_a_named_struct_is_fine() -> None:
    btf = Btf(words((5, info_word(Kind.STRUCT, 1), 8, 0, 2, 0), (0, info_word(Kind.PTR), 1)))
    assert validate(btf) == []
    assert "".join(c_source(btf, [1])) == "struct node {\n\tstruct node *;\n};\n\n"


def test_expansion_without_measure_is_refused() -> None:
    depth = 60
    records = [(0, info_word(Kind.STRUCT, 2), 0, 0, n + 1, 0, 0, n + 1, 0) for n in range(depth)]
    btf = Btf(words(INT, *records, (5, info_word(Kind.STRUCT, 1), 0, 0, depth + 1, 0)))
    begin = time.process_time()
    with pytest.raises(FormatError, match="larger than is sensible"):
        "".join(c_source(btf))
    with pytest.raises(FormatError, match="larger than is sensible"):
        layout_text(btf, "node")
    assert time.process_time() - begin < 2 * SECONDS


def test_array_sizes_do_not_overflow() -> None:
    huge = [(0, info_word(Kind.ARRAY), 0, n, 1, 0xFFFFFFFF) for n in range(1, 40)]
    btf = Btf(words(INT, *huge, (5, info_word(Kind.STRUCT, 1), 8, 0, 40, 0)))
    assert [fault.rule for fault in validate(btf)] == [Rule.MEMBER_BOUNDS]
    with pytest.raises(FormatError, match="address space"):
        btf.size_of(40)


@pytest.mark.parametrize("size", [0, 1, 2, 23, 24, 31, 32])
def test_tiny_objects(size: int) -> None:
    data = everything(layout=True)[:size]
    with pytest.raises(InlineTraceError):
        Btf(data)


def test_vlen_that_runs_past_the_end() -> None:
    with pytest.raises(FormatError, match="ends inside a record") as caught:
        Btf(words(INT, (5, info_word(Kind.STRUCT, 0xFFFFFF), 8, 0, 1, 0)))
    assert caught.value.offset == 24 + 16


@pytest.mark.parametrize("at", range(4, 32, 4))
@pytest.mark.parametrize("value", [0xFFFFFFFF, 0x80000000, 0x7FFFFFFC, 0xFFFFFFE8])
def test_header_fields_that_overflow(at: int, value: int) -> None:
    data = bytearray(everything(layout=True))
    struct.pack_into("<I", data, at, value)
    with pytest.raises(InlineTraceError):
        Btf(bytes(data))


def test_string_without_end_is_shown_as_invalid() -> None:
    btf = Btf(words(INT, strings=b"\0int"))
    assert b"INT '(invalid)'" in render(btf.index, [1], False, True)
    assert {fault.rule for fault in validate(btf)} == {Rule.NAME_OFFSET, Rule.STRING_END}
    with pytest.raises(FormatError, match="leads to no string"):
        btf.type(1)


def test_names_of_a_megabyte_do_not_multiply() -> None:
    many = 20_000
    data = words(*[(1 + n, info_word(Kind.TYPEDEF), 0) for n in range(many)], strings=b"\0" + b"a" * (1 << 20) + b"\0")
    begin = time.process_time()
    btf = Btf(data)
    btf.find("a")
    validate(btf)
    assert len(render(btf.index, range(1, btf.end_id), False, True)) < 100 * many
    assert time.process_time() - begin < SECONDS


def test_holes_of_gigabytes_are_small_in_c() -> None:
    btf = Btf(words(INT, (5, info_word(Kind.STRUCT, 2), 0x20000000, 1, 1, 0, 5, 1, 0xFFFFFFE0)))
    text = "".join(c_source(btf, [2]))
    assert len(text) < 500
    assert "char __hole_4[" in text


def test_a_section_without_contents(tmp_path: object) -> None:
    path = f"{tmp_path}/vmlinux.debug"
    with open(path, "wb") as file:
        file.write(elf_file([Sec(".BTF", type=8, size=4096)]))
    with pytest.raises(NotFoundError, match="no contents"):
        load(path)


def test_many_bases() -> None:
    builder = Builder()
    builder.add_int("int", 4)
    btf = Btf(builder.to_bytes())
    for _ in range(3000):
        above = Builder(classic=True, strings=b"x\0")
        above.start_id = btf.end_id
        above.record(Kind.PTR, size_or_type=btf.end_id - 1)
        btf = Btf(above.to_bytes(), btf)
    assert btf.end_id == 3002
    assert declaration(btf, 3001) == "int " + "*" * 3000
    assert btf.find("int") == [1]
    assert validate(btf) == []


def test_member_of_a_type_without_size_has_no_layout() -> None:
    builder = Builder()
    forward = builder.add_fwd("later")
    builder.add_struct("node", 8, [Member("a", forward, 0)])
    btf = Btf(builder.to_bytes())
    with pytest.raises(FormatError, match="no size"):
        layout_text(btf, "node")
    with pytest.raises(FormatError, match="no size"):
        "".join(c_source(btf, [2]))
