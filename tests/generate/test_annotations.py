"""gcc's btf_decl_tag and btf_type_tag: annotations stand beside what they annotate, in chains that entries share."""

from __future__ import annotations

from typing import Any

import pytest

from inlinetrace.errors import FormatError, UnsupportedError
from inlinetrace.generate.features import Features
from tests.dwarf.writer import Address, Die, Expression, Form, Unit, die
from tests.elf.elfwriter import Sec, Sym
from tests.generate.test_functions import onto
from tests.generate.writing import INT, btf, lines, read, text, unit

ANNOTATION, ANNOTATED = 0x6001, 0x2139
"""DW_TAG_GNU_annotation, DW_AT_GNU_annotation."""
DATA = Sec(".data", bytes(64), flags=3, address=0x4000)


def chain(label: str) -> dict[str | int, Any]:
    """The attribute that refers to the first annotation of a chain."""
    return {ANNOTATED: Form("ref4", label)}


def note(label: str, kind: str, value: str, after: str | None = None) -> Die:
    more = chain(after) if after is not None else None
    return die(ANNOTATION, label=label, name=kind, const_value=value, more=more)


def declared(label: str, value: str, after: str | None = None) -> Die:
    return note(label, "btf_decl_tag", value, after)


def typed(label: str, value: str, after: str | None = None) -> Die:
    return note(label, "btf_type_tag", value, after)


def tags(result: list[str]) -> list[str]:
    return [line.split("] ", 1)[1] for line in result if "_TAG" in line]


def test_pointers() -> None:
    """``int * one two p;`` is p -> pointer -> two -> one -> int; gcc's chain begins with the last."""
    notes = (typed("two", "two", "one"), typed("one", "one"))
    pointer = die("pointer_type", type="int", more=chain("two"))
    expected = ["[2] TYPE_TAG 'one' type_id=1", "[3] TYPE_TAG 'two' type_id=2", "[4] PTR '(anon)' type_id=3"]
    assert lines(INT, *notes, pointer)[1:] == expected
    assert lines(INT, pointer, *reversed(notes))[1:] == expected
    assert lines(INT, *notes, pointer, features=Features(type_tag=False))[1:] == ["[2] PTR '(anon)' type_id=1"]


def test_the_same_pointer_as_clang_writes_it() -> None:
    children = [die(0x6000, name="btf_type_tag", const_value=value) for value in ("one", "two")]
    clang = unit(INT, die("pointer_type", *children, type="int"))
    gcc = unit(INT, typed("two", "two", "one"), typed("one", "one"), die("pointer_type", type="int", more=chain("two")))
    assert text(btf(clang, gcc)) == text(btf(clang)) == text(btf(gcc))


def test_entries_share_chains() -> None:
    notes = (typed("two", "two", "one"), typed("one", "one"))
    first = die("pointer_type", type="int", more=chain("two"), label="p")
    second = die("pointer_type", type="p", more=chain("one"))
    assert tags(lines(INT, *notes, first, second)) == [
        "TYPE_TAG 'one' type_id=1",
        "TYPE_TAG 'two' type_id=2",
        "TYPE_TAG 'one' type_id=4",
    ]


@pytest.mark.parametrize("kind", ["structure_type", "union_type"])
def test_structs_and_their_members(kind: str) -> None:
    members = [
        die("member", name="x", type="int", data_member_location=0),
        die("member", declared("b", "b"), name="y", type="int", data_member_location=0, more=chain("b")),
        # where gcc puts an annotation says nothing of what it is for
        declared("unused", "unused"),
    ]
    struct = die(kind, *members, name="s", byte_size=4, more=chain("two"))
    result = lines(INT, declared("one", "one"), struct, declared("two", "two", "one"))
    assert tags(result) == [
        "DECL_TAG 'one' type_id=2 component_idx=-1",
        "DECL_TAG 'two' type_id=2 component_idx=-1",
        "DECL_TAG 'b' type_id=2 component_idx=1",
    ]
    without = Features(decl_tag=False)
    assert tags(lines(INT, declared("one", "one"), struct, declared("two", "two", "one"), features=without)) == []


def test_typedefs() -> None:
    typedef = die("typedef", name="t", type="int", more=chain("two"))
    result = lines(INT, declared("one", "one"), declared("two", "two", "one"), typedef)
    assert tags(result) == ["DECL_TAG 'one' type_id=2 component_idx=-1", "DECL_TAG 'two' type_id=2 component_idx=-1"]


def test_functions_and_their_parameters() -> None:
    parameters = [
        die("formal_parameter", name="a", type="int"),
        die("formal_parameter", name="b", type="int", more=chain("one")),
    ]
    f = die("subprogram", *parameters, name="f", low_pc=Address(0x1000), high_pc=4, external=True, more=chain("two"))
    entries = (INT, declared("two", "two", "one"), f, declared("one", "one"))
    assert text(btf(unit(*entries), symbols=[Sym("f", 0x1000, 4, ".text")]))[4:] == [
        "[3] FUNC 'f' type_id=2 linkage=static",
        "[4] DECL_TAG 'one' type_id=3 component_idx=-1",
        "[5] DECL_TAG 'two' type_id=3 component_idx=-1",
        "[6] DECL_TAG 'one' type_id=3 component_idx=1",
    ]


@pytest.mark.parametrize("tag", [ANNOTATION, 0x6000])
def test_functions_that_are_inlined_and_have_code(tag: int) -> None:
    """The abstract function has the annotations, the concrete one the address."""
    if tag == ANNOTATION:
        abstract = die("formal_parameter", name="a", type="int", label="a", more=chain("t"))
    else:
        abstract = die(
            "formal_parameter", die(tag, name="btf_decl_tag", const_value="t"), name="a", type="int", label="a"
        )
    f = die("subprogram", abstract, name="f", inline=1, external=True, label="f")
    copy = die("subprogram", die("formal_parameter", abstract_origin="a"), abstract_origin="f", low_pc=Address(0x1000))
    for entries in ((INT, declared("t", "t"), f, copy), (copy, f, declared("t", "t"), INT)):
        result = text(btf(unit(*entries), symbols=[Sym("f", 0x1000, 4, ".text")]))
        assert tags(result) == ["DECL_TAG 't' type_id=3 component_idx=0"]


def test_variables() -> None:
    """gcc describes ``extern int v one; int v two;`` by a declaration with one, a definition with two and one."""
    declaration = die("variable", name="v", type="int", declaration=True, external=True, label="v", more=chain("one"))
    place = Expression(b"\x03" + (0x4000).to_bytes(8, "little"))
    definition = die("variable", specification="v", location=place, more=chain("two"))
    entries = (INT, declared("one", "one"), declaration, declared("two", "two", "one"), definition)
    result = text(
        btf(unit(*entries), features=Features(global_var=True), symbols=[Sym("v", 0x4000, 4, ".data", 1)], more=[DATA])
    )
    assert tags(result) == ["DECL_TAG 'one' type_id=2 component_idx=-1", "DECL_TAG 'two' type_id=2 component_idx=-1"]


def test_both_kinds_in_one_chain() -> None:
    """Type tags are for pointers, declaration tags for declarations; other annotations are passed over."""
    notes = (typed("c", "type", "b"), note("b", "other", "x", "a"), declared("a", "declaration"))
    struct = die("structure_type", name="s", byte_size=4, more=chain("c"))
    pointer = die("pointer_type", type="int", more=chain("c"))
    assert tags(lines(INT, *notes, struct, pointer)) == [
        "TYPE_TAG 'type' type_id=1",
        "DECL_TAG 'declaration' type_id=2 component_idx=-1",
    ]


@pytest.mark.parametrize("little", [True, False])
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_forms(version: int, little: bool) -> None:
    notes = die(ANNOTATION, label="n", name=Form("strp", "btf_type_tag"), const_value=Form("strp", "tag"))
    for form in ("ref4", "ref8", "ref_addr"):
        pointer = die("pointer_type", type="int", more={ANNOTATED: Form(form, "n")})
        result = text(btf(unit(INT, notes, pointer, version=version), little=little))
        assert result[1:] == ["[2] TYPE_TAG 'tag' type_id=1", "[3] PTR '(anon)' type_id=2"]


def test_annotations_of_another_unit() -> None:
    one = unit(typed("n", "tag"))
    two = unit(INT, die("pointer_type", type="int", more={ANNOTATED: Form("ref_addr", "n")}))
    assert text(btf(one, two))[1:] == ["[2] TYPE_TAG 'tag' type_id=1", "[3] PTR '(anon)' type_id=2"]


def test_structs_of_one_name_that_differ() -> None:
    def one(size: int, value: str) -> Unit:
        member = die("member", name="p", type="p", data_member_location=0, more=chain("d"))
        struct = die("structure_type", member, name="s", byte_size=size, label="s", more=chain("d"))
        pointer = die("pointer_type", type="s", label="p", more=chain("t"))
        return unit(struct, pointer, declared("d", value), typed("t", value))

    result = text(btf(one(8, "a"), one(16, "b"), one(8, "a")))
    structs = [line[1 : line.index("]")] for line in result if "STRUCT" in line]
    assert sorted(tags(result)) == sorted(
        line
        for struct, value in zip(structs, "ab", strict=True)
        for line in (
            f"TYPE_TAG '{value}' type_id={struct}",
            f"DECL_TAG '{value}' type_id={struct} component_idx=-1",
            f"DECL_TAG '{value}' type_id={struct} component_idx=0",
        )
    )


def test_functions_onto_a_base() -> None:
    """Only what parameters need is read: the chain too, wherever it stands."""
    entries = (
        typed("two", "two", "one"),
        INT,
        die("subprogram", die("formal_parameter", name="a", type="p"), name="f", inline=1, label="f"),
        die("pointer_type", type="int", label="p", more=chain("two")),
        typed("one", "one"),
    )
    made, functions = onto(btf(unit(INT)), [unit(*entries)], "f")
    assert text(made) == [
        "[2] FUNC_PROTO '(anon)' ret_type_id=0 vlen=1",
        "'a' type_id=3",
        "[3] PTR '(anon)' type_id=4",
        "[4] TYPE_TAG 'two' type_id=5",
        "[5] TYPE_TAG 'one' type_id=1",
        "[6] FUNC 'f' type_id=2 linkage=static",
    ]
    assert functions == [6]


@pytest.mark.parametrize("length", [1, 2, 300])
def test_circles(length: int) -> None:
    notes = [typed(f"n{number}", "x", f"n{(number + 1) % length}") for number in range(length)]
    for user in (
        die("pointer_type", type="int", more=chain("n0")),
        die("structure_type", name="s", byte_size=4, more=chain("n0")),
    ):
        assert "circle" in str(fault(INT, *notes, user))
    f = die("subprogram", die("formal_parameter", type="p"), name="f", inline=1, label="f")
    pointer = die("pointer_type", type="int", label="p", more=chain("n0"))
    with pytest.raises(FormatError, match="circle"):
        onto(btf(unit(INT)), [unit(INT, *notes, pointer, f)], "f")
    # nothing refers to this one
    assert tags(lines(INT, *notes)) == []


def test_references_to_what_is_no_annotation() -> None:
    for value in (3, 0x7FFFFFF0):
        assert "no annotation" in str(
            fault(INT, die("pointer_type", type="int", more={ANNOTATED: Form("ref4", value)}))
        )
    assert "no annotation" in str(fault(INT, die("pointer_type", type="int", more=chain("int"))))
    assert "no annotation" in str(fault(INT, typed("n", "x", "int"), die("pointer_type", type="int", more=chain("n"))))
    assert "no annotation" in str(fault(INT, die("pointer_type", type="int", more={ANNOTATED: Form("data4", 3)})))
    assert "no type" in str(fault(typed("n", "x"), die("pointer_type", type="n")))


def test_long_chains_that_many_share() -> None:
    notes = [note(f"n{number}", "other", "x", f"n{number + 1}") for number in range(3000)]
    users = [die("pointer_type", type="int", more=chain("n0")) for _ in range(2000)]
    with pytest.raises(UnsupportedError, match="than can be numbered"):
        read(unit(INT, *notes, note("n3000", "other", "x"), *users))


def fault(*entries: Die) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read(unit(*entries))
    assert caught.value.section == ".debug_info"
    assert caught.value.offset is not None
    return caught.value
