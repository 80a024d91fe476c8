"""Locations made directly: what they fetch, what they evaluate to, how they read."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inlinetrace.elf.machine import AARCH64, S390X, X86_64
from inlinetrace.sites.location import (
    Absolute,
    Computed,
    Fetch,
    Location,
    MemoryCapture,
    Offset,
    Piece,
    RegisterCapture,
    Shape,
)
from inlinetrace.sites.model import Unavailable
from inlinetrace.sites.nodes import Node, Op
from inlinetrace.sites.reasons import Reason


def memory_of(cells: dict[int, bytes]) -> dict[tuple[int, int], bytes]:
    return {(address, len(data)): data for address, data in cells.items()}


def test_register() -> None:
    location = Location.register(0, size=4)
    assert location.capture() == (RegisterCapture(0),)
    assert location.fetch == Fetch.REGISTERS
    assert location.text(X86_64) == "rax"
    assert location.base == (0, 0)
    # What is above the value in the register is not the value's.
    assert location.evaluate([0xDEADBEEF_FFFFFFFE]) == b"\xfe\xff\xff\xff"


def test_value() -> None:
    location = Location.value(5, 300, size=8)
    assert location.shape == Shape.VALUE
    assert location.base == (5, 300)
    assert location.text(X86_64) == "rdi+300"
    assert location.evaluate([2**64 - 300]) == b"\x00" * 8
    assert Location.value(5, -8, size=8).text(X86_64) == "rdi-8"
    assert Location.value(5, 0, size=8) == Location.register(5, size=8)


def test_memory() -> None:
    location = Location.memory(7, 8, size=4)
    assert location.capture() == (RegisterCapture(7), MemoryCapture(Offset(0, 8), 4))
    assert location.needed() == (False, True)
    assert location.base == (7, 8)
    assert location.text(X86_64) == "*(rsp+8)"
    assert location.text(AARCH64) == "*(x7+8)"
    assert location.evaluate([0x1000, b"\x01\x02\x03\x04"]) == b"\x01\x02\x03\x04"
    assert location.evaluate([0x1000, 0x04030201]) == b"\x01\x02\x03\x04"
    assert location.evaluate([None, 0x04030201]) == b"\x01\x02\x03\x04"
    cells = memory_of({0x1008: b"abcd"})
    assert location.read({7: 0x1000}, lambda *where: cells.get(where)) == b"abcd"


def test_memory_of_a_structure() -> None:
    location = Location.memory(7, 0, size=24)
    assert location.evaluate([0, bytes(range(24))]) == bytes(range(24))


def test_a_fault_is_unavailable() -> None:
    location = Location.memory(7, 8, size=4)
    short: list[list[int | bytes | None]] = [[0x1000, None], [0x1000], [], [0x1000, b"\x01"]]
    for words in short:
        result = location.evaluate(words)
        assert isinstance(result, Unavailable)
        assert result.reason == Reason.FAULT
    faulted = location.read({}, lambda *_: b"abcd")
    assert isinstance(faulted, Unavailable)


def test_constants_are_printed_by_the_sign_of_the_type() -> None:
    location = Location.constant(-1, size=4)
    assert location.capture() == ()
    assert location.fetch == Fetch.NOTHING
    assert location.text(X86_64, signed=True) == "const -1"
    assert location.text(X86_64, signed=False) == "const 0xffffffff"
    assert location.text(X86_64) == "const 0xffffffff"
    assert location.evaluate([]) == b"\xff" * 4
    assert Location.constant(2, size=1).text(X86_64, signed=True) == "const 0x2"


def test_an_address_moves_with_the_code() -> None:
    location = Location.link_address(0xFFFFFFFF81000000, size=8)
    assert location.text(X86_64) == "addr 0xffffffff81000000"
    assert location.evaluate([], load_bias=0x1000) == (0xFFFFFFFF81001000).to_bytes(8, "little")
    assert location.evaluate([], load_bias=-0x1000) == (0xFFFFFFFF80FFF000).to_bytes(8, "little")


def test_a_pair_of_registers() -> None:
    location = Location.registers([5, 4], size=16)
    assert location.text(X86_64) == "rdi, rsi"
    assert location.evaluate([1, 2]) == b"\x01" + b"\x00" * 7 + b"\x02" + b"\x00" * 7
    short = Location.registers([5, 4], size=12)
    assert short.evaluate([1, 0xFF00000002]) == b"\x01" + b"\x00" * 7 + b"\x02\x00\x00\x00"
    assert short.text(X86_64) == "{bytes 0-7: rdi, bytes 8-11: rsi}"


def test_static_memory() -> None:
    location = Location((Node(Op.ADDRESS, 0x1000), Node(Op.LOAD, 0, 4)), 4)
    (capture,) = location.capture()
    assert capture == MemoryCapture(Absolute(0x1000, True), 4)
    assert location.fetch == Fetch.MEMORY
    assert location.address(capture, [], load_bias=0x100) == 0x1100
    assert location.shape == Shape.STATIC


def test_a_chain_refers_to_earlier_words() -> None:
    nodes = (
        Node(Op.REGISTER, 5),
        Node(Op.OFFSET, 0, 8),
        Node(Op.LOAD, 1, 8),
        Node(Op.OFFSET, 2, 16),
        Node(Op.LOAD, 3, 4),
    )
    location = Location(nodes, 4)
    assert location.capture() == (
        RegisterCapture(5),
        MemoryCapture(Offset(0, 8), 8),
        MemoryCapture(Offset(1, 16), 4),
    )
    assert location.needed() == (False, False, True)
    assert location.depth == 2
    assert location.text(X86_64) == "*(*(rdi+8)+16)"
    cells = memory_of({0x108: (0x2000).to_bytes(8, "little"), 0x2010: b"abcd"})
    assert location.read({5: 0x100}, lambda *where: cells.get(where)) == b"abcd"
    # A fault on the way is a fault.
    assert isinstance(location.read({5: 0x200}, lambda *where: cells.get(where)), Unavailable)


def test_a_computed_address() -> None:
    nodes = (
        Node(Op.REGISTER, 0),
        Node(Op.REGISTER, 3),
        Node(Op.ADD, 0, 1),
        Node(Op.OFFSET, 2, -4),
        Node(Op.LOAD, 3, 2),
    )
    location = Location(nodes, 2)
    capture = location.capture()[-1]
    assert capture == MemoryCapture(Computed(3), 2)
    assert isinstance(capture, MemoryCapture)
    assert location.fetch == Fetch.ARITHMETIC
    assert location.address(capture, [0x100, 0x20]) == 0x11C
    assert isinstance(location.address(capture, [0x100, None]), Unavailable)
    assert location.text(X86_64) == "*(rax + rbx-4)"


def test_big_endian() -> None:
    register = Location.register(2, size=2, little_endian=False)
    assert register.evaluate([0x1122334455667788]) == b"\x77\x88"
    memory = Location.memory(15, 160, size=4, little_endian=False)
    assert memory.text(S390X) == "*(r15+160)"
    assert memory.evaluate([0, 0x01020304]) == b"\x01\x02\x03\x04"


def test_pieces_that_do_not_fill_the_value() -> None:
    location = Location((Node(Op.REGISTER, 5),), 16, pieces=(Piece(64, 0),))
    assert location.evaluate([1]) == Unavailable(Reason.PARTLY, "64 of 128 bits are described")


def test_unknown_size_is_a_word() -> None:
    assert Location.register(0, size=0).evaluate([1]) == b"\x01" + b"\x00" * 7
    assert Location.memory(7, 8, size=0).capture()[1] == MemoryCapture(Offset(0, 8), 8)


def test_locations_are_values() -> None:
    first, second = Location.memory(7, 8, size=4), Location.memory(7, 8, size=4)
    first.capture()
    assert first == second
    assert hash(first) == hash(second)
    assert len({first, second, Location.memory(7, 8, size=8)}) == 2
    copied = pickle.loads(pickle.dumps(first))
    assert copied == first
    assert copied.capture() == first.capture()


def test_shared_nodes_do_not_make_the_text_explode() -> None:
    nodes = [Node(Op.REGISTER, 0)]
    for index in range(200):
        nodes.append(Node(Op.MUL, index, index))
    location = Location(tuple(nodes), 8)
    assert len(location.text(X86_64)) < 2000
    assert location.evaluate([1]) == b"\x01" + b"\x00" * 7


def test_base_of_other_shapes() -> None:
    with pytest.raises(ValueError, match="constant"):
        _ = Location.constant(1, size=4).base


@given(st.lists(st.one_of(st.none(), st.integers(), st.binary(max_size=40)), max_size=6), st.integers())
def test_no_words_raise(words: list[int | bytes | None], bias: int) -> None:
    for location in (
        Location.register(0, size=4),
        Location.memory(7, 8, size=4),
        Location.link_address(1, size=8),
        Location.registers([5, 4], size=16),
    ):
        result = location.evaluate(words, load_bias=bias)
        assert isinstance(result, Unavailable) or len(result) == location.size
