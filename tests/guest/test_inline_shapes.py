"""The test module tells the truth about what it passed."""

from __future__ import annotations

import pytest

from tests.guest.testmodule import NAME, Call, InlineShapes, kallsyms

TOP = 2**64


@pytest.mark.guest
@pytest.mark.parametrize(
    ("shape", "argument", "passed"),
    [
        ("take_s8", -5, "-5"),
        ("take_s8", 0x1FF, "-1"),
        ("take_u8", 0x1FF, "255"),
        ("take_s16", -30000, "-30000"),
        ("take_u16", 65535, "65535"),
        ("take_s32", -(2**31), str(-(2**31))),
        ("take_u32", 2**32 - 1, str(2**32 - 1)),
        ("take_s64", -(2**63), str(-(2**63))),
        ("take_u64", TOP - 1, str(TOP - 1)),
        ("take_bool", 2, "1"),
        ("take_bool", 0, "0"),
        ("take_enum", 7, "7"),
        ("take_signed_enum", -40, "-40"),
    ],
)
def test_integers_are_cut_to_their_type(inline_shapes: InlineShapes, shape: str, argument: int, passed: str) -> None:
    assert inline_shapes.call(shape, argument) == [Call(shape, {"value": passed})]


@pytest.mark.guest
@pytest.mark.parametrize(
    ("shape", "arguments", "calls"),
    [
        ("take_u128", (3, 4), [Call("take_u128", {"value.high": "3", "value.low": "4"})]),
        ("take_string", ("hello",), [Call("take_string", {"text": '"hello"', "length": "5"})]),
        ("take_null", (9,), [Call("take_null", {"nothing": "0x0", "number": "9"})]),
        (
            "take_one_register",
            (1, 2, -3),
            [Call("take_one_register", {"value.id": "1", "value.kind": "2", "value.delta": "-3"})],
        ),
        ("take_two_registers", (8, -9), [Call("take_two_registers", {"value.first": "8", "value.second": "-9"})]),
        ("take_on_stack", (1, 2, 3, 4, 5, 6), [Call("take_on_stack", {"value.words": "1,2,3,4,5,6"})]),
        ("take_constant", (), [Call("take_constant", {"first": "42", "second": "-7", "third": "255"})]),
        (
            "take_constant_and_register",
            (77,),
            [Call("take_constant_and_register", {"constant": "3", "value": "77"})],
        ),
        ("take_sum", (1,), [Call("take_sum", {"sum": "301"})]),
        ("take_masked", (0xFD,), [Call("take_masked", {"bits": "5"})]),
        ("take_member", (-4, "label"), [Call("take_member", {"number": "-4", "label": '"label"'})]),
        ("take_literal", (), [Call("take_literal", {"text": '"inline"'})]),
        (
            "take_many",
            tuple(range(10, 20)),
            [Call("take_many", {name: str(10 + i) for i, name in enumerate("abcdefghij")})],
        ),
        (
            "nest",
            (10,),
            [
                Call("nest_one", {"first": "10"}),
                Call("nest_two", {"second": "11"}),
                Call("nest_three", {"third": "22"}),
                Call("nest_four", {"innermost": "19"}),
            ],
        ),
        ("same", (6,), [Call("same_outer", {"outer": "6"}), Call("same_inner", {"inner": "6"})]),
        ("take_reassigned", (5,), [Call("take_reassigned", {"value": "5"})]),
        ("take_unused", (1, 2), [Call("take_unused", {"used": "1", "unused": "2"})]),
        ("take_in_loop", (2, 9), [Call("take_in_loop", {"round": str(i), "value": "9"}) for i in range(2)]),
        ("take_twice", (1, 2), [Call("take_twice", {"value": "1"}), Call("take_twice", {"value": "2"})]),
        ("take_either", (1,), [Call("take_either", {"value": "1"}), Call("take_either", {"value": "2"})]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_shapes_log_what_they_passed(
    inline_shapes: InlineShapes, shape: str, arguments: tuple[int | str, ...], calls: list[Call]
) -> None:
    assert inline_shapes.call(shape, *arguments) == calls


@pytest.mark.guest(kaslr=(True, False))
def test_addresses_in_the_log_are_the_kernels(inline_shapes: InlineShapes) -> None:
    (function,) = inline_shapes.call("take_function", 1)
    assert int(function.values["function"], 16) == kallsyms("opaque", NAME)
    (counter,) = inline_shapes.call("take_global")
    assert int(counter.values["counter"], 16) == kallsyms("global_counter", NAME)
    (pointer,) = inline_shapes.call("take_pointer", -1, 2)
    assert pointer.values["record.number"] == "-1"
    assert int(pointer.values["record"], 16) >> 56 == 0xFF
    (local,) = inline_shapes.call("take_local", 3)
    assert local.values["*local"] == "3"


@pytest.mark.guest
def test_an_unknown_shape_is_an_error(inline_shapes: InlineShapes) -> None:
    with pytest.raises(FileNotFoundError):
        inline_shapes.call("take_nothing_known")
