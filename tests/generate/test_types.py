"""Types from DWARF, one construct at a time; the expected lines are bpftool's words for what the C means."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from inlinetrace.btf._types import Member
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import INT_SIGNED, Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import MismatchError, UnsupportedError
from inlinetrace.generate.features import Features
from inlinetrace.generate.types import types_from_dwarf
from tests.dwarf.writer import Address, Die, Expression, Form, Unit, die, make_program, write
from tests.elf.elfwriter import Sym
from tests.generate.graphs import differences
from tests.generate.writing import CHAR, INT, btf, lines, read, text, unit

INT_LINE = "[1] INT 'int' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED"


def base_type(name: str, size: int, encoding: int, **more: Any) -> Die:
    return die("base_type", label=name, name=name, byte_size=size, encoding=encoding, **more)


def member(name: str | None, type_: str, offset: int | None = 0, **more: Any) -> Die:
    attributes: dict[str, Any] = {"type": type_, **more}
    if name is not None:
        attributes["name"] = name
    if offset is not None:
        attributes["data_member_location"] = offset
    return die("member", **attributes)


@pytest.mark.parametrize(
    ("size", "encoding", "words"),
    [
        (4, 5, "INT 'x' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED"),
        (8, 7, "INT 'x' size=8 bits_offset=0 nr_bits=64 encoding=(none)"),
        (1, 2, "INT 'x' size=1 bits_offset=0 nr_bits=8 encoding=BOOL"),
        (1, 6, "INT 'x' size=1 bits_offset=0 nr_bits=8 encoding=SIGNED"),
        (1, 8, "INT 'x' size=1 bits_offset=0 nr_bits=8 encoding=(none)"),
        (16, 5, "INT 'x' size=16 bits_offset=0 nr_bits=128 encoding=SIGNED"),
        (8, 4, "FLOAT 'x' size=8"),
        (12, 4, "FLOAT 'x' size=12"),
        (32, 3, "STRUCT '(anon)' size=32 vlen=0"),
    ],
)
def test_base_types(size: int, encoding: int, words: str) -> None:
    assert lines(base_type("x", size, encoding)) == [f"[1] {words}"]


def test_an_integer_of_fewer_bits_than_its_bytes_have() -> None:
    """``_BitInt(7)``: the kernel takes no structure with a member of such an integer."""
    assert lines(base_type("x", 1, 7, bit_size=7)) == ["[1] INT 'x' size=1 bits_offset=0 nr_bits=8 encoding=(none)"]


def test_a_float_is_an_integer_without_the_feature() -> None:
    features = Features(floats=False)
    assert lines(base_type("double", 8, 4), features=features) == [
        "[1] INT 'double' size=8 bits_offset=0 nr_bits=64 encoding=(none)"
    ]


def test_an_integer_that_only_expressions_use_is_left_out() -> None:
    odd = base_type("DW_ATE_unsigned_24", 3, 7)
    assert lines(INT, odd) == [INT_LINE]
    assert lines(INT, odd, die("typedef", name="t", type="DW_ATE_unsigned_24"))[1:] == [
        "[2] STRUCT '(anon)' size=3 vlen=0",
        "[3] TYPEDEF 't' type_id=2",
    ]


def test_references() -> None:
    entries = [
        INT,
        die("pointer_type", type="int", label="pointer"),
        die("const_type", type="int", label="const"),
        die("volatile_type", type="const"),
        die("restrict_type", type="pointer"),
        die("typedef", name="number", type="const"),
        die("pointer_type"),
        die("const_type"),
    ]
    assert lines(*entries) == [
        INT_LINE,
        "[2] PTR '(anon)' type_id=1",
        "[3] CONST '(anon)' type_id=1",
        "[4] VOLATILE '(anon)' type_id=3",
        "[5] RESTRICT '(anon)' type_id=2",
        "[6] TYPEDEF 'number' type_id=3",
        "[7] PTR '(anon)' type_id=0",
        "[8] CONST '(anon)' type_id=0",
    ]


@pytest.mark.parametrize("tag", ["atomic_type", "packed_type", "immutable_type"])
def test_qualifiers_that_btf_lacks_are_passed_through(tag: str) -> None:
    assert lines(INT, die(tag, type="int", label="q"), die("typedef", name="t", type="q")) == [
        INT_LINE,
        "[2] TYPEDEF 't' type_id=1",
    ]


def test_an_unspecified_type_is_void() -> None:
    assert lines(die("unspecified_type", name="nothing", label="n"), die("pointer_type", type="n")) == [
        "[1] PTR '(anon)' type_id=0"
    ]


def test_a_struct_with_all_kinds_of_members() -> None:
    struct = die(
        "structure_type",
        member("next", "pointer"),
        member(None, "union", 8),
        member("tail", "flexible", 16),
        label="s",
        name="s",
        byte_size=16,
    )
    union = die("union_type", member("i", "int", None), member("p", "pointer", None), label="union", byte_size=8)
    flexible = die("array_type", die("subrange_type"), type="int", label="flexible")
    assert lines(INT, struct, union, flexible, die("pointer_type", type="s", label="pointer")) == [
        INT_LINE,
        "[2] ARRAY '(anon)' type_id=1 index_type_id=1 nr_elems=0",
        "[3] PTR '(anon)' type_id=5",
        "[4] UNION '(anon)' size=8 vlen=2",
        "'i' type_id=1 bits_offset=0",
        "'p' type_id=3 bits_offset=0",
        "[5] STRUCT 's' size=16 vlen=3",
        "'next' type_id=3 bits_offset=0",
        "'(anon)' type_id=4 bits_offset=64",
        "'tail' type_id=2 bits_offset=128",
    ]


def test_types_inside_of_a_struct_are_types_of_the_unit() -> None:
    inner = die("structure_type", member("x", "int"), label="inner", name="inner", byte_size=4)
    outer = die("structure_type", inner, member("first", "inner"), name="outer", byte_size=4)
    assert lines(INT, outer)[1:] == [
        "[2] STRUCT 'outer' size=4 vlen=1",
        "'first' type_id=3 bits_offset=0",
        "[3] STRUCT 'inner' size=4 vlen=1",
        "'x' type_id=1 bits_offset=0",
    ]


BITS = {"a": (0, 3), "b": (3, 5), "c": (8, 20)}


def bitfields(version: int, little: bool = True) -> list[str]:
    """A struct of bitfields in the words of DWARF 4 and before (``version`` below 5 or big-endian) or after."""
    members = []
    for name, (offset, size) in BITS.items():
        if version >= 5:
            members.append(die("member", name=name, type="int", bit_size=size, data_bit_offset=offset))
        else:
            from_top = 32 - offset - size if little else offset
            members.append(
                die("member", name=name, type="alias", byte_size=4, bit_size=size, bit_offset=from_top,
                    data_member_location=0)
            )  # fmt: skip
    alias = die("typedef", name="alias", type="int", label="alias")
    return lines(INT, alias, die("structure_type", *members, name="s", byte_size=4), version=version, little=little)


@pytest.mark.parametrize("little", [True, False])
@pytest.mark.parametrize("version", [3, 4, 5])
def test_bitfields(version: int, little: bool) -> None:
    found = bitfields(version, little)
    assert found[-4] == "[3] STRUCT 's' size=4 vlen=3"
    for line, (name, (offset, size)) in zip(found[-3:], BITS.items(), strict=True):
        assert line.startswith(f"'{name}' ")
        assert line.endswith(f"bits_offset={offset} bitfield_size={size}")


def test_a_bitfield_without_byte_size_has_the_size_of_its_type() -> None:
    field = die("member", name="a", type="alias", bit_size=3, bit_offset=20, data_member_location=4)
    struct = die("structure_type", field, name="s", byte_size=8)
    found = lines(struct, die("typedef", name="alias", type="int", label="alias"), INT)
    assert "'a' type_id=2 bits_offset=41 bitfield_size=3" in found


def test_a_member_whose_place_is_an_expression() -> None:
    place = Expression(bytes([0x23, 0x90, 0x01]))
    entry = die("member", name="a", type="int", data_member_location=place)
    struct = die("structure_type", entry, name="s", byte_size=200)
    assert "'a' type_id=1 bits_offset=1152" in lines(INT, struct, version=2)


def test_enums() -> None:
    small = die("enumeration_type", die("enumerator", name="A", const_value=1), name="e", byte_size=4)
    signed = die(
        "enumeration_type",
        die("enumerator", name="B", const_value=Form("sdata", -1)),
        die("enumerator", name="C", const_value=Form("implicit_const", 2)),
        byte_size=1,
    )
    wide = die("enumeration_type", die("enumerator", name="D", const_value=1 << 40), name="w", byte_size=8, type="long")
    assert lines(base_type("long", 8, 5), small, signed, wide)[1:] == [
        "[2] ENUM 'e' encoding=UNSIGNED size=4 vlen=1",
        "'A' val=1",
        "[3] ENUM '(anon)' encoding=SIGNED size=1 vlen=2",
        "'B' val=-1",
        "'C' val=2",
        "[4] ENUM64 'w' encoding=SIGNED size=8 vlen=1",
        "'D' val=1099511627776LL",
    ]


def test_enum64_needs_its_feature() -> None:
    wide = die("enumeration_type", die("enumerator", name="D", const_value=(1 << 40) + 5), name="w", byte_size=8)
    assert lines(wide, features=Features(enum64=False)) == [
        "[1] ENUM 'w' encoding=UNSIGNED size=8 vlen=1",
        "'D' val=5",
    ]


def test_a_declared_enum_is_its_definition() -> None:
    declared = unit(die("enumeration_type", name="e", declaration=True, label="e"), die("pointer_type", type="e"))
    defined = unit(die("enumeration_type", die("enumerator", name="A", const_value=1), name="e", byte_size=4))
    assert text(btf(declared, defined)) == [
        "[1] ENUM 'e' encoding=UNSIGNED size=4 vlen=1",
        "'A' val=1",
        "[2] PTR '(anon)' type_id=1",
    ]


def test_arrays() -> None:
    def array(*ranges: Die) -> str:
        return lines(INT, die("array_type", *ranges, type="int"))[-1].partition("nr_elems=")[2]

    assert array(die("subrange_type", upper_bound=6)) == "7"
    assert array(die("subrange_type", count=6)) == "6"
    assert array(die("subrange_type", upper_bound=1), die("subrange_type", upper_bound=2)) == "6"
    assert array(die("subrange_type")) == "0"
    assert array(die("subrange_type", upper_bound=Form("sdata", -1))) == "0"
    assert array(die("subrange_type", upper_bound=Expression(b"\x30"))) == "0"


def test_arrays_are_indexed_by_int_even_if_there_is_none() -> None:
    assert lines(CHAR, die("array_type", die("subrange_type", upper_bound=1), type="char")) == [
        "[1] INT 'char' size=1 bits_offset=0 nr_bits=8 encoding=SIGNED",
        "[2] ARRAY '(anon)' type_id=1 index_type_id=3 nr_elems=2",
        "[3] INT 'int' size=4 bits_offset=0 nr_bits=32 encoding=SIGNED",
    ]


def test_a_prototype() -> None:
    entries = [die("formal_parameter", type="int"), die("unspecified_parameters")]
    assert lines(INT, die("subroutine_type", *entries, type="int", prototyped=True))[1:] == [
        "[2] FUNC_PROTO '(anon)' ret_type_id=1 vlen=2",
        "'(anon)' type_id=1",
        "'(anon)' type_id=0",
    ]


def test_declarations_become_the_only_definition() -> None:
    declared = unit(
        die("structure_type", name="s", declaration=True, label="s"),
        die("pointer_type", type="s"),
        die("union_type", name="s", declaration=True),
    )
    defined = unit(INT, die("structure_type", member("x", "int"), name="s", byte_size=4))
    assert text(btf(declared, defined)) == [
        "[1] PTR '(anon)' type_id=4",
        "[2] FWD 's' fwd_kind=union",
        INT_LINE.replace("[1]", "[3]"),
        "[4] STRUCT 's' size=4 vlen=1",
        "'x' type_id=3 bits_offset=0",
    ]


def test_equal_types_of_two_units_are_one() -> None:
    node = die("structure_type", member("next", "p"), member("x", "int", 8), name="node", byte_size=16, label="n")
    entries = (node, die("pointer_type", type="n", label="p"), INT)
    assert len(text(btf(unit(*entries), unit(INT, *entries[:2]), unit(*reversed(entries))))) == 5


def clashing(size: int, *more: Die) -> Unit:
    """A unit where struct clash has ``size`` bytes, with what leads to it."""
    return unit(
        INT,
        die("structure_type", member("x", "int"), name="clash", byte_size=size, label="clash"),
        die("pointer_type", type="clash", label="p"),
        die("structure_type", member("clash", "p"), name="holder", byte_size=8, label="holder"),
        die("typedef", name="alias", type="holder"),
        *more,
    )


def test_definitions_that_differ_stay_apart_with_what_leads_to_them() -> None:
    result = btf(clashing(4), clashing(8), clashing(4))
    assert len(result.find("clash", Kind.STRUCT)) == 2
    assert len(result.find("holder", Kind.STRUCT)) == 2
    assert len(result.find("alias", Kind.TYPEDEF)) == 2
    assert len(result.of_kind(Kind.PTR)) == 2
    assert len(result.of_kind(Kind.INT)) == 1
    for holder in result.find("holder", Kind.STRUCT):
        pointer = result.index.record(holder)[4]
        clash = result.index.record(pointer)[2]
        assert result.name(clash) == "clash"


def test_a_unit_that_only_declares_means_the_first_definition() -> None:
    telling = unit(
        die("structure_type", name="clash", declaration=True, label="c"), die("pointer_type", type="c", label="p"),
        die("structure_type", member("told", "p"), name="teller", byte_size=8),
    )  # fmt: skip
    result = btf(clashing(4), clashing(8), telling)
    (teller,) = result.find("teller", Kind.STRUCT)
    clash = result.index.record(result.index.record(teller)[4])[2]
    assert result.size_of(clash) == 4
    assert len(result.of_kind(Kind.PTR)) == 2


def test_two_definitions_in_one_unit() -> None:
    def function(name: str, size: int) -> Die:
        struct = die("structure_type", member("x", "int"), name="local", byte_size=size, label=f"local{size}")
        return die("subprogram", struct, die("pointer_type", type=f"local{size}"), name=name, low_pc=Address(0x1000))

    result = btf(unit(INT, function("f", 4), function("g", 8)), unit(INT, function("h", 8)))
    assert [result.size_of(id_) for id_ in result.find("local", Kind.STRUCT)] == [4, 8]
    assert len(result.of_kind(Kind.PTR)) == 2


def test_the_bytes_do_not_depend_on_the_number_of_threads() -> None:
    units = [clashing(4 + 4 * (number % 3), base_type(f"t{number % 7}", 4, 5)) for number in range(80)]
    first = read(*units, threads=1).encode()
    assert all(read(*units, threads=count).encode() == first for count in (2, 3, 7))


def test_references_across_units_and_type_units() -> None:
    shared = unit(INT, die("structure_type", member("x", "int"), name="s", byte_size=4, label="s"))
    user = unit(die("pointer_type", type=Form("ref_addr", "s")))
    assert text(btf(shared, user))[-1] == "[3] PTR '(anon)' type_id=2"
    signed = Unit(
        die("type_unit", die("structure_type", name="t", byte_size=3, label="t"), language=0x1D),
        kind="type", signature=0x1122334455667788, type_label="t",
    )  # fmt: skip
    skeleton = die("structure_type", declaration=True, signature=Form("ref_sig8", 0x1122334455667788), label="d")
    assert text(btf(signed, unit(skeleton, die("pointer_type", type="d")))) == [
        "[1] STRUCT 't' size=3 vlen=0",
        "[2] PTR '(anon)' type_id=1",
    ]


def test_tags() -> None:
    def tag(kind: str, value: str) -> Die:
        return die(0x6000, name=kind, const_value=value)

    struct = die(
        "structure_type",
        die("member", tag("btf_decl_tag", "inside"), name="x", type="int", data_member_location=0),
        tag("btf_decl_tag", "whole"),
        name="s",
        byte_size=4,
    )
    pointer = die("pointer_type", tag("btf_type_tag", "one"), tag("btf_type_tag", "two"), type="int")
    entries = (INT, struct, pointer)
    assert lines(*entries)[3:] == [
        "[3] TYPE_TAG 'one' type_id=1",
        "[4] TYPE_TAG 'two' type_id=3",
        "[5] PTR '(anon)' type_id=4",
        "[6] DECL_TAG 'inside' type_id=2 component_idx=0",
        "[7] DECL_TAG 'whole' type_id=2 component_idx=-1",
    ]
    assert lines(*entries, features=Features(decl_tag=False, type_tag=False))[3:] == ["[3] PTR '(anon)' type_id=1"]


def test_static_members_are_no_members() -> None:
    """Before DWARF 5 they are member entries, without a place."""
    static = member("counter", "int", None, external=True, declaration=True)
    made = lines(INT, die("structure_type", static, member("a", "int"), name="s", byte_size=4), version=4)
    assert made == [INT_LINE, "[2] STRUCT 's' size=4 vlen=1", "'a' type_id=1 bits_offset=0"]


def test_other_languages_are_left_out() -> None:
    rust = Unit(die("compile_unit", base_type("u32", 4, 7), name="a.rs", language=0x1C))
    cpp = Unit(die("compile_unit", base_type("wchar_t", 4, 5), name="a.cc", language=0x21))
    assert text(btf(rust, unit(INT), cpp)) == [INT_LINE]
    assert len(text(btf(rust, unit(INT), cpp, excluded_languages=()))) == 3


def test_names_of_any_form_are_equal() -> None:
    def struct(form: str, name: str = "some_name") -> Die:
        return die("structure_type", name=Form(form, name), byte_size=4)

    units = [unit(struct(form)) for form in ("string", "strp", "line_strp", "strx", "strx1", "strx2", "strx3", "strx4")]
    assert text(btf(*units)) == ["[1] STRUCT 'some_name' size=4 vlen=0"]
    assert len(text(btf(unit(struct("string", "abc")), unit(struct("strp", "abc"))))) == 1


@pytest.mark.parametrize(
    ("version", "wide"), [(2, False), (3, False), (3, True), (4, False), (4, True), (5, False), (5, True)]
)
@pytest.mark.parametrize("little", [False, True])
def test_versions_and_layouts(version: int, wide: bool, little: bool) -> None:
    entries = (INT, die("structure_type", member("x", "int"), name=Form("strp", "s"), byte_size=4))
    one = Unit(die("compile_unit", *entries, name="a.c", language=0x1D), version=version, wide=wide)
    result = btf(one, little=little)
    assert result.byte_order == ("little" if little else "big")
    assert text(result) == [INT_LINE, "[2] STRUCT 's' size=4 vlen=1", "'x' type_id=1 bits_offset=0"]


def test_what_btf_cannot_say() -> None:
    with pytest.raises(UnsupportedError, match="cannot say"):
        read(unit(die("structure_type", name="s", byte_size=1 << 33)))
    with pytest.raises(UnsupportedError, match="cannot say"):
        read(unit(INT, die("array_type", die("subrange_type", count=1 << 33), type="int")))
    far = die("member", name="a", type="int", bit_size=3, data_bit_offset=1 << 25)
    with pytest.raises(UnsupportedError, match="cannot say"):
        read(unit(INT, die("structure_type", far, name="s", byte_size=1 << 24)))


def test_layout_section() -> None:
    types = read(unit(INT))
    assert len(types.encode(layout=True)) == len(types.encode()) + 8 + 4 * 23


# Against a base


def test_what_the_base_has_is_not_repeated() -> None:
    struct = die("structure_type", member("x", "int"), name="s", byte_size=4)
    base = btf(unit(INT, die("pointer_type", type="int"), struct))
    module = unit(
        INT,
        die("structure_type", member("x", "int"), name="s", byte_size=4, label="s"),
        die("pointer_type", type="int"),
        die("pointer_type", type="s"),
    )
    assert text(btf(module, base=base)) == ["[4] PTR '(anon)' type_id=3"]


def test_a_declaration_in_the_module_is_the_bases_definition() -> None:
    struct = die("structure_type", member("x", "int"), name="s", byte_size=4)
    enum = die("enumeration_type", die("enumerator", name="A", const_value=1), name="e", byte_size=4)
    base = btf(unit(INT, struct, enum))
    module = unit(
        die("structure_type", name="s", declaration=True, label="s"),
        die("pointer_type", type="s"),
        die("enumeration_type", name="e", declaration=True, label="e"),
        die("pointer_type", type="e"),
    )
    assert text(btf(module, base=base)) == ["[4] PTR '(anon)' type_id=2", "[5] PTR '(anon)' type_id=3"]


def test_a_definition_that_differs_from_the_bases() -> None:
    base = btf(clashing(4))
    result = btf(clashing(8), base=base)
    assert [result.name(id_) for id_ in range(result.start_id, result.end_id)] == ["clash", "", "holder", "alias"]
    assert btf(clashing(4), base=base).end_id == base.end_id


def test_what_the_base_only_declares() -> None:
    def entries(*definition: Die) -> Unit:
        return unit(
            *definition,
            die("pointer_type", type="s", label="p"),
            die("structure_type", member("s", "p"), name="holder", byte_size=8),
            die("subroutine_type", die("formal_parameter", type="p")),
        )

    declared = die("structure_type", name="s", declaration=True, label="s")
    base = btf(entries(declared))
    result = btf(entries(INT, die("structure_type", member("x", "int"), name="s", byte_size=4, label="s")), base=base)
    # the base's struct remains, pointers and prototypes of the module know more
    assert [Kind(result.kind(id_)).name for id_ in range(result.start_id, result.end_id)] == [
        "INT", "STRUCT", "PTR", "FUNC_PROTO",
    ]  # fmt: skip


def test_a_base_with_several_definitions() -> None:
    base = btf(clashing(4), clashing(8))
    assert btf(clashing(8), base=base).end_id == base.end_id
    assert btf(clashing(4), base=base).end_id == base.end_id
    assert btf(clashing(16), base=base).end_id == base.end_id + 4


def test_a_base_of_the_other_byte_order() -> None:
    base = btf(unit(INT), little=False)
    with pytest.raises(MismatchError, match="big-endian"):
        read(unit(INT), base=base)


def test_strings_of_the_base_are_used() -> None:
    base = btf(unit(die("structure_type", name="a_rather_long_name", byte_size=4)))
    types = read(unit(die("structure_type", name="a_rather_long_name", byte_size=8)), base=base)
    assert types.strings == b""
    result = btf(unit(die("structure_type", name="a_rather_long_name", byte_size=8)), base=base)
    assert differences(result, base)[0] != []


# Functions of the inline object


def test_functions_of_the_inline_object() -> None:
    inline = die("subprogram", die("formal_parameter", name="a", type="int"), label="f", name="f", inline=1, type="int")
    out = die("subprogram", label="g", name="g", low_pc=Address(0x1010), high_pc=4)
    declared = die("subprogram", label="d", name="d", declaration=True)
    one, two = unit(INT, inline, out, declared), unit(
        die("subprogram", die("formal_parameter", name="a", type="int2"), label="f2", name="f", inline=1, type="int2"),
        die("base_type", label="int2", name="int", byte_size=4, encoding=5),
    )  # fmt: skip
    written = write([one, two])
    data = make_program(written, symbols=[Sym("g", 0x1010, 4, ".text")])
    types = types_from_dwarf(DebugInfo(ElfFile.from_bytes(data)))
    base = Btf(types.encode())
    assert text(base)[-2:] == ["[2] FUNC_PROTO '(anon)' ret_type_id=0 vlen=0", "[3] FUNC 'g' type_id=2 linkage=static"]
    found = types.inline_object(array("Q", [written[label] for label in ("f", "g", "d", "f2")]))
    assert list(found.func_ids) == [5, 3, 0, 5]
    assert (found.first_id, found.next_id) == (4, 6)
    assert found.string_offset == len(types.strings) + len(found.strings)


def test_a_base_for_many_programs_is_one_for_a_single_one() -> None:
    """Whatever the order of its strings, and whether anything refers to them."""
    builder = Builder()
    builder.add_datasec("unused", 0, [])
    number = builder.add_int("int", 4, INT_SIGNED)
    inner = builder.add_struct("third", 4, [Member("second", number, 0)])
    builder.add_struct("first", 8, [Member("zeroth", builder.add_ptr(inner), 0)])
    base = Btf(builder.to_bytes())
    program = unit(
        INT,
        die("structure_type", member("unused", "int"), member("zeroth", "int", 4), name="own", byte_size=8),
        die("pointer_type", type="int"),
    )
    # btf() compares the two ways
    result = btf(program, base=base)
    assert result.end_id - result.start_id == 2
    assert result.strings == b"own\0"
