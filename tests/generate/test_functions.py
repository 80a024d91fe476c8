"""Which functions and variables get into BTF, and as what."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest

from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.generate._emit import Emitter
from inlinetrace.generate._graph import Graph
from inlinetrace.generate.features import Features
from inlinetrace.generate.types import Types, functions_onto_base
from tests.dwarf.writer import Address, Die, Expression, Form, Locations, Ranges, Unit, die, make_program, write
from tests.elf.elfwriter import Sec, Sym
from tests.generate.writing import CHAR, INT, btf, read, text, unit

ASSEMBLER = 0x8001


def parameter(name: str | None, type_: str = "int", **more: Any) -> Die:
    named: dict[str, Any] = {"name": name} if name else {}
    return die("formal_parameter", type=type_, **named, **more)


def function(name: str, *children: Die, at: int | None = 0x1000, **more: Any) -> Die:
    place: dict[str, Any] = {} if at is None else {"low_pc": Address(at), "high_pc": 4}
    return die("subprogram", *children, name=name, label=name, **place, **more)


def symbol(name: str, at: int = 0x1000, type_: int = 2) -> Sym:
    return Sym(name, at, 4, ".text", type_)


def functions(*units: Unit, symbols: list[Sym] | None = None, **options: Any) -> dict[str, str]:
    """Prototypes by name of function."""
    result = btf(*units, symbols=symbols or [], **options)
    return {result.name(id_): prototype(result, id_) for id_ in result.of_kind(Kind.FUNC)}


def prototype(result: Btf, function_id: int) -> str:
    record = result.index.record(result.index.record(function_id)[2])

    def name(type_id: int) -> str:
        return (result.name(type_id) or "*") if type_id else "void"

    parameters = [
        f"{name(record[at + 1])} {result.index.string(record[at]).decode()}" for at in range(3, len(record), 2)
    ]
    return f"{name(record[2])}({', '.join(parameters)})"


def test_a_function_with_code_and_a_symbol() -> None:
    entries = [
        INT,
        function("f", parameter("a"), parameter("b"), type="int"),
        function("no_symbol", at=0x1010),
        function("declared", at=None, declaration=True),
        function("nameless", parameter(None), at=0x1020),
        function("variadic", parameter("a"), die("unspecified_parameters"), at=0x1030),
        function("ranges", at=None, ranges=Ranges([("start_length", 0x1040, 4)])),
    ]
    symbols = [symbol("f"), *(symbol(name, 0x1020) for name in ("declared", "nameless")), symbol("variadic", 0x1030),
               symbol("ranges", 0x1040)]  # fmt: skip
    assert functions(unit(*entries), symbols=symbols) == {
        "f": "int(int a, int b)",
        "variadic": "void(int a, void )",
        "ranges": "void()",
    }


def test_the_abstract_function_describes_the_concrete_one() -> None:
    abstract = die("subprogram", parameter("a", label="a"), type="int", name="f", inline=1, label="abstract")
    concrete = die(
        "subprogram", die("formal_parameter", abstract_origin="a"), abstract_origin="abstract", low_pc=Address(0x1000)
    )
    assert functions(unit(INT, abstract, concrete), symbols=[symbol("f")]) == {"f": "int(int a)"}


def test_without_a_symbol_table_external_functions_count() -> None:
    entries = [function("f", external=True), function("g", at=0x1010)]
    assert functions(unit(*entries)) == {"f": "void()"}


def test_code_goes_before_an_inlined_function_of_the_same_name() -> None:
    inlined = unit(INT, function("f", parameter("a"), at=None, inline=1))
    assert functions(inlined, unit(CHAR, function("f", parameter("c", "char"))), symbols=[symbol("f")]) == {
        "f": "void(char c)"
    }


def test_a_function_that_was_folded_into_an_equal_one() -> None:
    assert functions(unit(INT, function("twin", parameter("a"), at=None)), symbols=[symbol("twin")]) == {
        "twin": "void(int a)"
    }


def test_assembler_knows_no_prototypes() -> None:
    assembler = Unit(die("compile_unit", function("f"), function("g"), name="a.S", language=ASSEMBLER))
    c = unit(INT, function("f", parameter("a"), at=None, inline=1))
    assert functions(assembler, c, symbols=[symbol("f"), symbol("g")]) == {"f": "void(int a)", "g": "void()"}


def test_suffixes() -> None:
    entries = (INT, function("f", parameter("a")), function("g", at=0x1010), function("h", at=0x1020))
    symbols = [symbol("f.isra.0"), symbol("g.constprop.0", 0x1010), symbol("h.cold", 0x1020)]
    assert sorted(functions(unit(*entries), symbols=symbols)) == ["f", "g"]
    assert functions(unit(*entries), symbols=symbols, features=Features(optimized_func=False)) == {}


def test_functions_of_one_name_that_differ() -> None:
    one, two = unit(INT, function("f", parameter("a"))), unit(CHAR, function("f", parameter("a", "char")))
    symbols = [symbol("f")]
    assert functions(one, two, symbols=symbols) == {}
    assert functions(one, two, symbols=symbols, features=Features(consistent_func=False)) == {"f": "void(int a)"}
    assert read(one, two, symbols=symbols).counts == {"inconsistent prototypes": 1}
    const = unit(INT, die("const_type", type="int", label="ci"), function("f", parameter("other_name", "ci")))
    assert functions(one, const, symbols=symbols) == {"f": "void(int a)"}


def test_structs_of_one_name_are_the_same_to_a_caller() -> None:
    def one(size: int) -> Unit:
        struct = die("structure_type", name="s", byte_size=size, label="s")
        return unit(struct, die("pointer_type", type="s", label="p"), function("f", parameter("a", "p")))

    assert functions(one(4), one(8), symbols=[symbol("f")]) == {"f": "void(* a)"}


def test_several_addresses() -> None:
    entries = (function("f"), function("f2", at=0x1010))
    symbols = [symbol("f"), symbol("f", 0x1020), symbol("f2", 0x1010), symbol("f2.cold", 0x1030)]
    assert sorted(functions(unit(*entries), symbols=symbols)) == ["f2"]
    assert read(unit(*entries), symbols=symbols).counts == {"several addresses": 1}


def test_parameters_in_another_order() -> None:
    abstract = die(
        "subprogram", parameter("a", label="a"), parameter("b", label="b"), name="f", inline=1, label="abstract"
    )
    swapped = [die("formal_parameter", abstract_origin=label) for label in ("b", "a")]
    concrete = die("subprogram", *swapped, abstract_origin="abstract", low_pc=Address(0x1000))
    types = read(unit(INT, abstract, concrete), symbols=[symbol("f.isra.0")])
    assert types.counts == {"parameters reordered": 1}


RDI, RSI, R12 = 5, 4, 12


def register(number: int) -> Expression:
    return Expression(bytes([0x50 + number]))


def entry_value(number: int) -> bytes:
    return bytes([0xA3, 1, 0x50 + number, 0x9F])


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([register(RDI), register(RSI)], True),
        ([register(RSI), register(RDI)], False),
        ([register(RDI), Locations([("offset_pair", 0, 4, b"\x55"), ("offset_pair", 4, 8, b"\x5c")])], False),
        ([register(RDI), Locations([("offset_pair", 0, 4, b"\x54"), ("offset_pair", 4, 8, b"\x5c")])], True),
        ([register(RDI), Locations([("offset_pair", 0, 4, b"\x5c"), ("offset_pair", 4, 8, entry_value(RSI))])], True),
        ([register(RDI), Form("loclistx", Locations([("offset_pair", 0, 4, b"\x5c")]))], False),
        ([register(RDI), Expression(b"\x91\x10")], True),
        ([register(RDI), Expression(b"\x31\x9f")], True),
    ],
)
def test_parameters_where_no_caller_puts_them(places: list[Any], expected: bool) -> None:
    parameters = [parameter(f"p{number}", location=place) for number, place in enumerate(places)]
    types = read(unit(INT, function("f", *parameters)), symbols=[symbol("f")])
    assert types.counts == ({} if expected else {"parameters not where a caller puts them": 1})


def test_parameters_in_several_registers_or_of_another_class_say_nothing() -> None:
    wide = die("structure_type", name="wide", byte_size=16, label="wide")
    double = die("base_type", name="double", byte_size=8, encoding=4, label="double")
    first, second = register(17), register(R12)
    for type_, extra in (("wide", wide), ("double", double)):
        f = function("f", parameter("a", type_, location=first), parameter("b", location=second))
        assert read(unit(INT, extra, f), symbols=[symbol("f")]).counts == {}


def test_functions_and_their_tags() -> None:
    def tag(value: str) -> Die:
        return die(0x6000, name="btf_decl_tag", const_value=value)

    f = function("f", die("formal_parameter", tag("of_a"), name="a", type="int"), tag("of_f"))
    assert text(btf(unit(INT, f), symbols=[symbol("f")]))[3:] == [
        "[3] FUNC 'f' type_id=2 linkage=static",
        "[4] DECL_TAG 'of_a' type_id=3 component_idx=0",
        "[5] DECL_TAG 'of_f' type_id=3 component_idx=-1",
    ]


def test_kernel_functions() -> None:
    """Sets of .BTF_ids: a count, flags, pairs of id and flags; only those marked as sets of kfuncs count."""
    data = struct.pack("<10I", 1, 1, 0, 1 << 12, 1, 0, 0, 0, 0, 0)
    ids = Sec(".BTF_ids", data, flags=2, address=0x5000)
    in_ids = [
        ("set8__kfuncs", 0x5000, 16),
        ("func__callable__7", 0x5008, 8),
        ("set8__others", 0x5010, 16),
        ("func__other__8", 0x5018, 8),
    ]
    symbols = [symbol("callable"), symbol("other", 0x1010)]
    symbols += [Sym(f"__BTF_ID__{name}", at, size, ".BTF_ids", 1) for name, at, size in in_ids]
    entries = (function("callable"), function("other"))
    result = text(btf(unit(*entries), symbols=symbols, more=[ids]))
    assert result == [
        "[1] FUNC_PROTO '(anon)' ret_type_id=0 vlen=0",
        "[2] FUNC 'callable' type_id=1 linkage=static",
        "[3] FUNC 'other' type_id=1 linkage=static",
        "[4] DECL_TAG 'bpf_kfunc' type_id=2 component_idx=-1",
        "[5] DECL_TAG 'bpf_fastcall' type_id=2 component_idx=-1",
    ]
    # whatever annotations there are
    alone = Features.none()._replace(decl_tag_kfuncs=True)
    assert text(btf(unit(*entries), symbols=symbols, more=[ids], features=alone)) == result
    without = Features(decl_tag_kfuncs=False)
    assert len(text(btf(unit(*entries), symbols=symbols, more=[ids], features=without))) == 3


def test_functions_of_the_base() -> None:
    entries = (INT, function("f", parameter("a")))
    base = btf(unit(*entries), symbols=[symbol("f")])
    assert btf(unit(*entries), symbols=[symbol("f")], base=base).end_id == base.end_id
    other = unit(CHAR, function("f", parameter("a", "char")))
    result = btf(other, symbols=[symbol("f")], base=base)
    assert [Kind(result.kind(id_)).name for id_ in range(result.start_id, result.end_id)] == [
        "INT",
        "FUNC_PROTO",
        "FUNC",
    ]


# Variables


def variable(name: str, at: int, type_: str = "int", **more: Any) -> Die:
    place = Expression(b"\x03" + struct.pack("<Q", at))
    return die("variable", name=name, type=type_, location=place, **more)


PER_CPU = Sec(".data..percpu", bytes(64), flags=3, address=0x8000)


def test_per_cpu_variables() -> None:
    entries = [
        INT,
        variable("second", 0x8008, external=True),
        variable("first", 0x8000),
        variable("elsewhere", 0x1000),
        variable("discarded", 0x8000),
        variable("__UNIQUE_ID_x", 0x8010),
        die("variable", name="declared", type="int", declaration=True),
        die("array_type", die("subrange_type", count=3), type="int", label="array"),
        variable("third", 0x8020, "array"),
    ]
    symbols = [Sym(name, at, 4, ".data..percpu", 1) for name, at in (("first", 0x8000), ("second", 0x8008),
               ("__UNIQUE_ID_x", 0x8010), ("third", 0x8020))]  # fmt: skip
    expected = [
        "[3] VAR 'first' type_id=1, linkage=static",
        "[4] VAR 'second' type_id=1, linkage=global",
        "[5] VAR 'third' type_id=2, linkage=static",
        "[6] DATASEC '.data..percpu' size=44 vlen=3",
        "type_id=3 offset=0 size=4",
        "type_id=4 offset=8 size=4",
        "type_id=5 offset=32 size=12",
    ]
    found = text(btf(unit(*entries), symbols=symbols, more=[PER_CPU]))
    assert [line.split(" (")[0] for line in found[2:]] == expected
    assert len(text(btf(unit(*entries), symbols=symbols, more=[PER_CPU], features=Features(var=False)))) == 2


def test_a_definition_takes_its_name_from_the_declaration() -> None:
    declared = die("variable", name="v", type="int", external=True, declaration=True, label="v")
    place = Expression(b"\x03" + struct.pack("<Q", 0x8000))
    defined = die("variable", specification="v", location=place)
    found = text(btf(unit(INT, declared, defined), symbols=[Sym("v", 0x8000, 4, ".data..percpu", 1)], more=[PER_CPU]))
    assert found[1] == "[2] VAR 'v' type_id=1, linkage=global"


def test_global_variables() -> None:
    data = Sec(".data", bytes(64), flags=3, address=0x9000)
    symbols = [Sym("v", 0x9004, 4, ".data", 1)]
    features = Features(global_var=True)
    found = text(btf(unit(INT, variable("v", 0x9004)), symbols=symbols, more=[data], features=features))
    assert [line.split(" (")[0] for line in found[1:]] == [
        "[2] VAR 'v' type_id=1, linkage=static",
        "[3] DATASEC '.data' size=8 vlen=1",
        "type_id=2 offset=4 size=4",
    ]


# On top of a base alone


def onto(base: Btf, units: list[Unit], *labels: str) -> tuple[Btf, list[int]]:
    """The object that functions_onto_base makes for the entries with these labels, and their FUNCs."""
    written = write(units)
    debug = DebugInfo(ElfFile.from_bytes(make_program(written)))
    result = functions_onto_base(debug, array("Q", [written[label] for label in labels]), base)
    types = Types(Emitter(Graph()), "little", result.types, result.strings, {})
    made = Btf(types.encode(), base)
    assert validate(made, strict=True) == []
    assert (made.start_id, made.end_id) == (result.first_id, result.next_id)
    return made, list(result.func_ids)


def holder(*members: Die) -> tuple[Die, Die]:
    struct = die("structure_type", *members, name="holder", byte_size=8, label="holder")
    return struct, die("pointer_type", type="holder", label="p")


def test_functions_onto_a_base() -> None:
    x = die("member", name="x", type="int", data_member_location=0)
    base = btf(unit(INT, *holder(x), function("known", parameter("a", "p"))), symbols=[symbol("known")])
    local = die("structure_type", name="local", byte_size=4, label="local")
    variable = die("variable", name="v", type="local")
    program = unit(
        INT,
        *holder(x),
        function("known", parameter("a", "p")),
        function("fresh", parameter("a", "p"), parameter("b"), variable, at=None, inline=1),
        local,
    )
    made, ids = onto(base, [program], "known", "fresh")
    assert [base.name(ids[0]), made.name(ids[1])] == ["known", "fresh"]
    # the type of the variable is of no interest
    assert [Kind(made.kind(id_)).name for id_ in range(made.start_id, made.end_id)] == ["FUNC_PROTO", "FUNC"]
    assert prototype(made, ids[1]) == "void(* a, int b)"


def test_units_with_names_that_the_base_does_not_settle_are_read_whole() -> None:
    x = die("member", name="x", type="int", data_member_location=0)
    base = btf(unit(INT, *holder(x)))
    other = die("structure_type", x, name="unknown", byte_size=4, label="unknown")
    program = unit(INT, other, function("f", parameter("a", "unknown"), at=None, inline=1))
    made, ids = onto(base, [program], "f")
    assert [made.name(id_) for id_ in range(made.start_id, made.end_id)] == ["", "unknown", "f"]
    assert made.name(ids[0]) == "f"


def test_a_unit_read_whole_may_say_what_an_enum_is_that_functions_only_declare() -> None:
    base = btf(unit(INT))
    declared = die("enumeration_type", name="e", declaration=True, label="declared")
    one = unit(declared, function("f", parameter("a", "declared"), at=None, inline=1))
    defined = die("enumeration_type", die("enumerator", name="A", const_value=1), name="e", byte_size=4, label="e")
    member = die("member", name="x", type="e", data_member_location=0)
    other = die("structure_type", member, name="unknown", byte_size=4, label="unknown")
    two = unit(other, defined, function("g", parameter("a", "unknown"), at=None, inline=1))
    made, ids = onto(base, [one, two], "f", "g")
    assert [prototype(made, id_) for id_ in ids] == ["void(e a)", "void(unknown a)"]
    assert [made.type(id_).vlen for id_ in made.of_kind(Kind.ENUM)] == [1]


def test_units_that_lead_to_each_other_onto_a_base() -> None:
    base = btf(unit(INT))
    many = [die("structure_type", name=f"s{number}", byte_size=number) for number in range(1, 9)]
    far = unit(*many, die("structure_type", name="far", byte_size=4, label="far"))
    member = die("member", name="x", type=Form("ref_addr", "far"), data_member_location=0)
    other = die("structure_type", name="unknown", byte_size=4, label="unknown")
    # which the function does not need
    aside = die("structure_type", member, name="aside", byte_size=4)
    near = unit(other, aside, function("f", parameter("a", "unknown"), at=None, inline=1))
    more = unit(INT, function("g", parameter("b"), at=None, inline=1))
    made, ids = onto(base, [far, near, more], "f", "g")
    assert [prototype(made, id_) for id_ in ids] == ["void(unknown a)", "void(int b)"]
    assert [made.name(id_) for id_ in made.of_kind(Kind.STRUCT)] == ["unknown"]
