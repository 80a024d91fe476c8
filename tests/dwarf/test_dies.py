"""Single entries: the C text of types, their shapes, prototypes, children."""

from __future__ import annotations

from typing import Any

import pytest

from inlinetrace.dwarf._dies import DieReader
from inlinetrace.errors import FormatError
from tests.dwarf.writer import Die, Form, Unit, die, make_info, write

INT = die("base_type", label="int", name="int", byte_size=4, encoding=5)
CHAR = die("base_type", label="char", name="char", byte_size=1, encoding=6)


def read(*entries: Die) -> tuple[DieReader, dict[str, int]]:
    written = write([Unit(die("compile_unit", INT, CHAR, *entries, name="a.c", language=0x1D))])
    return DieReader([make_info(written)]), written.offsets


def pointer(label: str, type_: str | None = None, **more: Any) -> Die:
    if type_ is not None:
        more["type"] = type_
    return die("pointer_type", label=label, byte_size=8, **more)


def parameter(type_: str, **more: Any) -> Die:
    return die("formal_parameter", type=type_, **more)


TYPES = [
    ("void *", [pointer("t")]),
    ("int *", [pointer("t", "int")]),
    ("int **", [pointer("p", "int"), pointer("t", "p")]),
    ("const char *", [die("const_type", label="c", type="char"), pointer("t", "c")]),
    ("char *const", [pointer("p", "char"), die("const_type", label="t", type="p")]),
    ("const void *", [die("const_type", label="c"), pointer("t", "c")]),
    ("volatile int", [die("volatile_type", label="t", type="int")]),
    ("int *restrict", [pointer("p", "int"), die("restrict_type", label="t", type="p")]),
    ("struct file *", [die("structure_type", label="s", name="file", declaration=True), pointer("t", "s")]),
    ("union u", [die("union_type", label="t", name="u", byte_size=4)]),
    ("enum e", [die("enumeration_type", label="t", name="e", byte_size=4)]),
    ("class c &", [die("class_type", label="c", name="c"), die("reference_type", label="t", type="c")]),
    ("struct {...}", [die("structure_type", label="t", byte_size=4)]),
    ("size_t", [die("typedef", label="t", name="size_t", type="int")]),
    ("int[3]", [die("array_type", die("subrange_type", upper_bound=2), label="t", type="int")]),
    (
        "int[2][4]",
        [die("array_type", die("subrange_type", count=2), die("subrange_type", count=4), label="t", type="int")],
    ),
    ("int[]", [die("array_type", die("subrange_type"), label="t", type="int")]),
    ("int (*)[3]", [die("array_type", die("subrange_type", count=3), label="a", type="int"), pointer("t", "a")]),
    ("int *[3]", [pointer("p", "int"), die("array_type", die("subrange_type", count=3), label="t", type="p")]),
    (
        "int (*)(char)",
        [die("subroutine_type", parameter("char"), label="f", type="int", prototyped=True), pointer("t", "f")],
    ),
    ("void (*)(void)", [die("subroutine_type", label="f"), pointer("t", "f")]),
    (
        "int (**)(char, ...)",
        [
            die("subroutine_type", parameter("char"), die("unspecified_parameters"), label="f", type="int"),
            pointer("p", "f"),
            pointer("t", "p"),
        ],
    ),
    (
        "int *(*)(int (*)(char))",
        [
            die("subroutine_type", parameter("char"), label="f", type="int"),
            pointer("pf", "f"),
            pointer("pi", "int"),
            die("subroutine_type", parameter("pf"), label="g", type="pi"),
            pointer("t", "g"),
        ],
    ),
]


@pytest.mark.parametrize(("text", "entries"), TYPES, ids=[text for text, _ in TYPES])
def test_c_text_of_types(text: str, entries: list[Die]) -> None:
    dies, at = read(*entries)
    assert dies.type_text(at["t"]) == text


def test_void_and_types_of_files_that_are_not_there() -> None:
    dies, _ = read()
    assert dies.type_text(0) == "void"
    assert dies.type_text((1 << 64) - 1) == "<type in another file>"
    assert dies.type_shape(0) == (0, "other", False)


SHAPES = [
    ((4, "signed", True), []),
    ((8, "pointer", False), [pointer("t", "int")]),
    ((4, "signed", True), [die("typedef", label="d", name="d", type="int"), die("const_type", label="t", type="d")]),
    ((1, "bool", False), [die("base_type", label="t", name="_Bool", byte_size=1, encoding=2)]),
    ((8, "float", False), [die("base_type", label="t", name="double", byte_size=8, encoding=4)]),
    ((1, "uchar", False), [die("base_type", label="t", name="u8", byte_size=1, encoding=8)]),
    ((24, "aggregate", False), [die("structure_type", label="t", name="s", byte_size=24)]),
    (
        (24, "aggregate", False),
        [die("array_type", die("subrange_type", count=2), die("subrange_type", upper_bound=2), label="t", type="int")],
    ),
    (
        (4, "enum", True),
        [die("enumeration_type", die("enumerator", name="A", const_value=-1), label="t", byte_size=4)],
    ),
    (
        (4, "enum", False),
        [die("enumeration_type", die("enumerator", name="A", const_value=1), label="t", byte_size=4)],
    ),
    ((4, "enum", True), [die("enumeration_type", label="t", type="int")]),
]


@pytest.mark.parametrize(("shape", "entries"), SHAPES)
def test_shapes_of_types(shape: tuple[int, str, bool], entries: list[Die]) -> None:
    dies, at = read(*entries)
    assert dies.type_shape(at["t" if entries else "int"]) == shape


def test_structures_that_contain_pointers_to_themselves() -> None:
    dies, at = read(
        die("structure_type", die("member", name="next", type="t"), label="s", name="node"), pointer("t", "s")
    )
    assert dies.type_text(at["t"]) == "struct node *"


def test_types_by_signature() -> None:
    unit = die("type_unit", die("structure_type", label="s", name="far", byte_size=8))
    types = write([Unit(unit, version=4, kind="type", signature=0xABC, type_label="s", types_section=True)])
    main = write(
        [Unit(die("compile_unit", pointer("t"), die("pointer_type", label="p", type=Form("ref_sig8", 0xABC))))]
    )
    dies = DieReader([make_info(main), make_info(types, section=".debug_types")])
    assert dies.type_text(main["p"]) == "struct far *"
    assert DieReader([make_info(main)]).type_text(main["p"]) == "<type in another file> *"


def test_prototypes() -> None:
    dies, at = read(
        die(
            "subprogram",
            parameter("int", name="a", label="a"),
            die("structure_type", die("member", name="m", type="int"), name="local"),
            parameter("char", name="b", label="b"),
            die("unspecified_parameters"),
            die("lexical_block", parameter("int", name="not_mine")),
            label="f",
            name="f",
            type="int",
            decl_line=7,
            external=True,
        )
    )
    prototype = dies.prototype(at["f"])
    assert (prototype.name, prototype.return_type, prototype.origin) == ("f", at["int"], 0)
    assert [(key, name, type_) for key, name, type_, _ in prototype.parameters] == [
        (at["a"], "a", at["int"]),
        (at["b"], "b", at["char"]),
    ]
    assert prototype.variadic
    assert prototype.external
    assert prototype.decl_line == 7


@pytest.mark.parametrize("sibling", [False, True])
def test_children_with_and_without_siblings(sibling: bool) -> None:
    deep = die("lexical_block", die("lexical_block", die("variable", name="v"), sibling=sibling), sibling=sibling)
    dies, at = read(die("subprogram", deep, die("variable", label="last"), label="f"))
    children = dies.children(at["f"])
    assert len(children) == 2
    assert children[1] == at["last"]
    assert dies.children(at["last"]) == []


# What cannot be


@pytest.mark.parametrize(
    "entries",
    [
        [die("typedef", label="t", name="a", type="t")],
        [die("typedef", label="t", name="a", type="u"), die("typedef", label="u", name="b", type="t")],
        [die("enumeration_type", label="t", type="t")],
        [die("array_type", die("subrange_type", count=2), label="t", type="t")],
    ],
)
def test_types_that_go_round_in_a_circle(entries: list[Die]) -> None:
    dies, at = read(*entries)
    with pytest.raises(FormatError, match="refers to itself") as caught:
        dies.type_shape(at["t"])
    assert caught.value.section == ".debug_info"
    assert caught.value.offset == at["t"]


def test_qualifiers_that_go_round_in_a_circle() -> None:
    dies, at = read(die("const_type", label="t", type="t"))
    with pytest.raises(FormatError, match="refers to itself"):
        dies.type_text(at["t"])


def test_types_whose_text_doubles_at_every_level() -> None:
    entries = [pointer("p0", "int")]
    for level in range(1, 40):
        entries.append(die("subroutine_type", *[parameter(f"p{level - 1}") for _ in range(3)], label=f"f{level}"))
        entries.append(pointer(f"p{level}", f"f{level}"))
    dies, at = read(*entries)
    assert len(dies.type_text(at["p39"])) < 100_000


def test_arrays_of_absurd_size() -> None:
    array = die("array_type", *[die("subrange_type", count=1 << 62) for _ in range(5000)], label="t", type="int")
    dies, at = read(array)
    assert dies.type_shape(at["t"])[0] == 0
    assert len(dies.type_text(at["t"])) < 100_000


@pytest.mark.parametrize("target", [5, 1 << 43, 1 << 44, 1 << 63, (1 << 64) - 50])
def test_references_that_lead_nowhere(target: int) -> None:
    written = write([Unit(die("compile_unit", die("typedef", label="t", name="t", type=Form("ref8", target))))])
    dies = DieReader([make_info(written)])
    with pytest.raises(FormatError, match=r"no entry|abbreviation code|ends? inside"):
        dies.type_shape(written["t"])


def test_functions_with_absurdly_many_parameters() -> None:
    dies, at = read(die("subprogram", *[parameter("int") for _ in range(5000)], label="f"))
    with pytest.raises(FormatError, match="more than 4096 parameters"):
        dies.prototype(at["f"])
