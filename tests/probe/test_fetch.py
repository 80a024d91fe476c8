"""Fetch arguments of locations, and values out of what was fetched."""

from __future__ import annotations

import pytest

from inlinetrace.elf.machine import AARCH64, I386, RISCV64, X86_64
from inlinetrace.probe.fetch import (
    Argument,
    Evaluator,
    Field,
    Place,
    Recipe,
    dereference,
    make_recipe,
    member_in_memory,
    string_at,
)
from inlinetrace.probe.registers import register_text
from inlinetrace.sites.location import Location
from inlinetrace.sites.nodes import Node, Op
from inlinetrace.sites.reasons import Reason, Unavailable

RSP, RDI, XMM0 = 7, 5, 17
PLACE = Place(X86_64, lambda address, relocated: f"@+{address}" if relocated else f"@{address:#x}")

PROGRAM = PLACE._replace(in_kernel=False)


def recipe(location: Location, string: bool = False) -> Recipe:
    made = make_recipe(location, PLACE, string=string)
    assert isinstance(made, Recipe)
    return made


def evaluate(made: Recipe, fetched: dict[str, Field], bias: int = 0) -> bytes | Unavailable:
    """The value, with the fields given by ``text:type``."""
    arguments = list(dict.fromkeys(made.arguments()))
    fields = [fetched[f"{argument.text}:{argument.type}"] for argument in arguments]
    return Evaluator(made, {argument: number for number, argument in enumerate(arguments)}).value(fields, bias)


def test_a_register_is_fetched_whole_and_cut() -> None:
    made = recipe(Location.register(RDI, size=4))
    assert list(made.arguments()) == [Argument("%di", "u64")]
    assert evaluate(made, {"%di:u64": 0x1122334455667788}) == bytes.fromhex("88776655")


def test_constants_take_no_fetch() -> None:
    made = recipe(Location.constant(-2, size=4))
    assert list(made.arguments()) == []
    assert evaluate(made, {}) == b"\xfe\xff\xff\xff"
    made = recipe(Location.link_address(0x4010, size=8))
    assert evaluate(made, {}, bias=0x555555550000) == (0x555555554010).to_bytes(8, "little")


def test_memory_is_proved_by_its_last_byte() -> None:
    made = recipe(Location.memory(RSP, -8, size=4))
    assert list(made.arguments()) == [
        Argument("%sp", "u64"),
        Argument("-8(%sp)", "u32"),
        Argument("-5(%sp)", "string"),
    ]
    words: dict[str, Field] = {"%sp:u64": 0x7000, "-8(%sp):u32": 7, "-5(%sp):string": True}
    assert evaluate(made, words) == b"\7\0\0\0"
    fault = evaluate(made, words | {"-5(%sp):string": None})
    assert isinstance(fault, Unavailable)
    assert fault.reason is Reason.FAULT


def test_a_read_across_a_page_is_not_believed() -> None:
    made = recipe(Location.memory(RSP, 0, size=8))
    for stack, believed in ((0x7FF8, True), (0x7FF9, False), (0x7FFF, False), (0x8000, True)):
        value = evaluate(made, {"%sp:u64": stack, "+0(%sp):u64": 1, "+7(%sp):string": True})
        assert isinstance(value, bytes) == believed
    # what is larger than a word has a guard at each end
    made = recipe(Location.memory(RSP, 0, size=16))
    words: dict[str, Field] = {"%sp:u64": 0x7FF9, "+0(%sp):x8[16]": bytes(16), "+15(%sp):string": True}
    assert evaluate(made, words | {"+0(%sp):string": True}) == bytes(16)
    assert isinstance(evaluate(made, words | {"+0(%sp):string": None}), Unavailable)


def evaluate_in_program(location: Location, fetched: dict[str, Field]) -> bytes | Reason:
    made = make_recipe(location, PROGRAM)
    assert isinstance(made, Recipe)
    value = evaluate(made, fetched)
    return value.reason if isinstance(value, Unavailable) else value


def test_memory_of_a_program_is_proved_by_a_word_that_overlaps_it() -> None:
    """Its proof is bounded: text may follow a value, but hardly ever its address."""
    made = make_recipe(Location.memory(RSP, -8, size=4), PROGRAM)
    assert isinstance(made, Recipe)
    assert list(made.arguments())[1:] == [Argument("-8(%sp)", "u32"), Argument("+0(-7(%sp))", "ustring")]
    made = make_recipe(Location.memory(RSP, 0, size=1), PROGRAM)
    assert isinstance(made, Recipe)
    assert list(made.arguments())[1:] == [Argument("+0(%sp)", "u8"), Argument("+0(+0(%sp))", "ustring")]
    made = make_recipe(Location.memory(RSP, 0, size=24), PROGRAM)
    assert isinstance(made, Recipe)
    assert [argument.text for argument in made.arguments()][2:] == ["+0(+1(%sp))", "+0(+15(%sp))"]


def test_a_word_of_a_program_proves_itself_if_it_is_not_0() -> None:
    location = Location.memory(RSP, 0, size=4)
    words: dict[str, Field] = {"%sp:u64": 0x7FFC, "+0(%sp):u32": 9, "+0(+1(%sp)):ustring": None}
    assert evaluate_in_program(location, words) == b"\x09\0\0\0"
    assert evaluate_in_program(location, words | {"+0(%sp):u32": 0}) is Reason.FAULT
    assert evaluate_in_program(location, words | {"+0(%sp):u32": 0, "+0(+1(%sp)):ustring": True}) == bytes(4)
    # read in part, it is no proof
    assert evaluate_in_program(location, words | {"%sp:u64": 0x7FFE}) is Reason.FAULT
    behind = dereference(Location.memory(RDI, 0, size=8), 8, 4)
    assert behind is not None
    stale: dict[str, Field] = {
        "%di:u64": 0x7000,
        "+0(%di):u64": 0,
        "+8(+0(%di)):u32": 7,
        "+0(+9(+0(%di))):ustring": None,
    }
    assert evaluate_in_program(behind, stale) is Reason.FAULT
    assert evaluate_in_program(behind, stale | {"+0(%di):u64": 0x8000}) == b"\x07\0\0\0"


def test_bytes_of_a_program_outside_of_their_proof_are_not_believed() -> None:
    location = Location.memory(RSP, 0, size=16)
    words: dict[str, Field] = {
        "+0(%sp):x8[16]": b"x" * 16,
        "+0(+1(%sp)):ustring": True,
        "+0(+7(%sp)):ustring": True,
    }
    for stack, believed in ((0x7FF8, True), (0x7FFF, False), (0x7FF1, False), (0x7FF0, True)):
        assert isinstance(evaluate_in_program(location, words | {"%sp:u64": stack}), bytes) == believed
    cut = words | {"%sp:u64": 0x7FF8, "+0(+7(%sp)):ustring": None}
    assert evaluate_in_program(location, cut) is Reason.FAULT


def test_a_chain_has_one_guard_for_all_its_reads() -> None:
    pointer = Location.register(RDI, size=8)
    inner = dereference(pointer, 16, 8)
    assert inner is not None
    outer = dereference(inner, -4, 2)
    assert outer is not None
    assert [f"{argument.text}:{argument.type}" for argument in recipe(outer).arguments()] == [
        "%di:u64",
        "+16(%di):u64",
        "-4(+16(%di)):u16",
        "-3(+16(%di)):string",
    ]


def test_fixed_addresses() -> None:
    static = Location((Node(Op.ADDRESS, 0x4000), Node(Op.LOAD, 0, 8)), 8)
    assert [argument.text for argument in recipe(static).arguments()] == ["@+16384", "@+16391"]
    absolute = Location((Node(Op.CONSTANT, 0xFF00), Node(Op.LOAD, 0, 1)), 1)
    assert [argument.text for argument in recipe(absolute).arguments()] == ["@0xff00", "@0xff00"]
    behind = dereference(static, 8, 4)
    assert behind is not None
    assert [argument.text for argument in recipe(behind).arguments()][1] == "+8(@+16384)"


def test_constants_of_an_address_are_added_up() -> None:
    value = Location((Node(Op.REGISTER, RDI), Node(Op.OFFSET, 0, 300)), 8)
    there = dereference(value, -100, 4)
    assert there is not None
    assert [argument.text for argument in recipe(there).arguments()][1] == "+200(%di)"
    fixed = dereference(Location.link_address(0x4010, size=8), 8, 4)
    assert fixed is not None
    assert next(recipe(fixed).arguments()).text == f"@+{0x4018}"


def test_members_of_structures() -> None:
    structure = Location.memory(RSP, 8, size=40)
    member = member_in_memory(structure, 32, 8)
    assert member is not None
    assert [argument.text for argument in recipe(member).arguments()] == ["%sp", "+40(%sp)", "+47(%sp)"]
    assert member_in_memory(Location.registers([RDI, 4], size=16), 8, 8) is None
    assert dereference(Location.register(RDI, size=4), 0, 4) is None


def test_text() -> None:
    made = recipe(Location.register(RDI, size=8), string=True)
    assert made.string == Argument("+0(%di)", "string")
    field = string_at(Location.memory(RSP, 8, size=16), PLACE)
    assert isinstance(field, Recipe)
    assert list(field.arguments()) == [Argument("+8(%sp)", "string")]
    assert isinstance(string_at(Location.register(RDI, size=8), PLACE), Unavailable)


@pytest.mark.parametrize(
    ("location", "reason", "words"),
    [
        (Location.register(XMM0, size=8), Reason.VECTOR_REGISTER, "xmm0"),
        (Location.memory(RSP, 0, size=1000), Reason.UNSUPPORTED, "1000 bytes"),
        (
            Location((Node(Op.REGISTER, 0), Node(Op.REGISTER, 1), Node(Op.ADD, 0, 1), Node(Op.LOAD, 2, 4)), 4),
            Reason.UNSUPPORTED,
            "compute the address",
        ),
    ],
)
def test_what_an_event_cannot_fetch(location: Location, reason: Reason, words: str) -> None:
    made = make_recipe(location, PLACE)
    assert isinstance(made, Unavailable)
    assert made.reason is reason
    assert words in made.detail


def test_fourteen_nested_reads_are_the_limit() -> None:
    location = Location.register(RDI, size=8)
    for depth in range(1, 16):
        deeper = dereference(location, 8, 8)
        assert deeper is not None
        location = deeper
        assert isinstance(make_recipe(location, PLACE), Recipe) == (depth <= 14)
        assert isinstance(make_recipe(location, PROGRAM), Recipe) == (depth <= 13)
        assert isinstance(make_recipe(location, PROGRAM._replace(guarded=False)), Recipe) == (depth <= 14)


def test_arithmetic_is_done_after_the_fetch() -> None:
    total = Location((Node(Op.REGISTER, RDI), Node(Op.CONSTANT, 0xFF), Node(Op.AND, 0, 1)), 4)
    assert evaluate(recipe(total), {"%di:u64": 0x1234}) == b"\x34\0\0\0"


def test_registers_have_the_names_of_the_kernel() -> None:
    assert [register_text(X86_64, number) for number in (0, 5, 7, 8, 16, 17)] == [
        "%ax",
        "%di",
        "%sp",
        "%r8",
        "%ip",
        None,
    ]
    assert [register_text(AARCH64, number) for number in (0, 30, 31, 64)] == ["%x0", "%x30", "%sp", None]
    assert [register_text(RISCV64, number) for number in (0, 1, 10, 31, 32)] == [None, "%ra", "%a0", "%t6", None]


def test_a_register_that_an_event_has_no_name_for_is_no_vector_register() -> None:
    made = make_recipe(Location.register(4, size=4), PLACE._replace(machine=I386))
    assert made == Unavailable(Reason.UNSUPPORTED, "a probe event cannot fetch esp of a program for i686")


@pytest.mark.parametrize("offset", [1 << 31, -(1 << 31) - 1, 1 << 32])
def test_an_offset_that_an_event_would_cut_is_refused(offset: int) -> None:
    made = make_recipe(Location.memory(RSP, offset, size=4), PLACE)
    assert isinstance(made, Unavailable)
    assert made.reason is Reason.UNSUPPORTED
