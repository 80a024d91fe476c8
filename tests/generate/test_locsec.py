"""The inline object from DWARF that tests write: the format's worked examples, and what the settings change."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inlinetrace.btf._types import LocProto, Locsec
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import INT_SIGNED, Dialect
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.errors import FormatError, UsageError
from inlinetrace.generate.locations import LocationSettings, SiteAddress, collect, counts
from inlinetrace.generate.locsec import InlineSections, LocsecName, LocsecSettings, Order, Written, code_sections
from inlinetrace.generate.pipeline import image_base
from inlinetrace.sites.from_btf import OffsetBase
from inlinetrace.target import open_image
from tests.btf import examples
from tests.dwarf.expression_writer import op, sleb
from tests.dwarf.writer import Address, Die, Expression, Locations, Ranges, Unit, die, make_program
from tests.elf.elfwriter import Code, Sym
from tests.generate.ordinary import differences

X86_64, S390 = 62, 22
INT = die("base_type", label="int", name="int", byte_size=4, encoding=5)
RDI = b"\x55"
MASKED = op("breg5", sleb(4)) + op("deref_size", b"\x04")


class Beginning(NamedTuple):
    """Types of an inline object so far, as the types of a program give them."""

    func_ids: array[int]
    strings: bytearray
    types: bytearray
    next_id: int
    string_offset: int


def add(*names: str, label: str = "add", variadic: bool = False) -> Die:
    parameters = [die("formal_parameter", label=f"{label}.{name}", name=name, type="int") for name in names]
    more = [die("unspecified_parameters")] if variadic else []
    return die("subprogram", *parameters, *more, label=label, name=label, type="int", inline=1)


def main(*children: Die) -> Die:
    return die("subprogram", *children, name="main", low_pc=Address(0x1000), high_pc=0x100)


def inlined(*children: Die, origin: str = "add", entry: int = 0x1040, **more: Any) -> Die:
    return die("inlined_subroutine", *children, abstract_origin=origin, entry_pc=Address(entry), **more)


def given(name: str, operations: bytes, origin: str = "add") -> Die:
    where = Locations([("start_end", 0x1000, 0x1100, operations)], views=[(0, 0)])
    return die("formal_parameter", abstract_origin=f"{origin}.{name}", location=where)


A_IN_RDI = given("a", RDI)
B_IS_MINUS_ONE = die("formal_parameter", abstract_origin="add.b", const_value=-1)


def program(tmp_path: Path, *children: Die, **more: Any) -> Path:
    unit = die("compile_unit", INT, *children, name="a.c", language=0x1D, low_pc=Address(0), producer="GNU C17 12.2.0")
    path = tmp_path / "program"
    path.write_bytes(make_program([Unit(unit)], symbols=[Sym("main", 0x1000, 0x100, ".text")], **more))
    return path


def encoded(
    path: Path,
    beginning: Builder,
    func_ids: Sequence[int],
    settings: LocsecSettings,
    *,
    functions: tuple[array[int], array[int]] | None = None,
    locations: LocationSettings | None = None,
) -> tuple[bytes, Written]:
    image = open_image(path)
    parts = collect(
        image.dwarf, image, locations or LocationSettings(settings.dialect), image_base=image_base(image), jobs=1
    )
    found = InlineSections(parts, code_sections(image.program), image_base=image_base(image), address_size=8)
    plain = beginning.to_bytes()
    header = Btf(plain, beginning.base).header
    types = plain[header.type_at : header.type_at + header.type_len]
    strings = plain[header.string_at : header.string_at + header.string_len]
    base_strings = 0 if beginning.base is None else sum(len(layer.strings) for layer in beginning.base.chain)
    start = Beginning(
        array("I", func_ids), bytearray(strings), bytearray(types), beginning.end_id, base_strings + len(strings)
    )
    return found.encode(start, settings, byte_order="little", functions=functions)


def types_of_add(dialect: Dialect = Dialect.NEW) -> Builder:
    builder = Builder(dialect=dialect)
    integer = builder.add_int("int", 4, INT_SIGNED)
    prototype = builder.add_func_proto(integer, [("a", integer), ("b", integer)])
    if dialect is not Dialect.RFC:
        builder.add_func("add", prototype)
    else:
        builder.string("add")
    return builder


def test_the_newest_example_comes_out_byte_for_byte(tmp_path: Path) -> None:
    path = program(tmp_path, add("a", "b"), main(inlined(A_IN_RDI, B_IS_MINUS_ONE)))
    data, written = encoded(path, types_of_add(), [3], LocsecSettings())
    assert data == examples.NEW_OBJECT
    assert written == Written(1, 2, 1, 1, 0, 0, 0)


def test_the_example_of_v2_is_named_as_the_section(tmp_path: Path) -> None:
    path = program(tmp_path, add("a", "b"), main(inlined(A_IN_RDI, B_IS_MINUS_ONE)))
    data, _ = encoded(path, types_of_add(), [3], LocsecSettings(Dialect.V2))
    btf = Btf(data)
    assert btf.dialect is Dialect.V2
    assert btf.name(7) == ".text"
    assert validate(btf, strict=True) == []


def test_the_example_of_the_rfc_comes_out_byte_for_byte(tmp_path: Path) -> None:
    path = program(tmp_path, add("a", "b"), main(inlined(A_IN_RDI, B_IS_MINUS_ONE)))
    builder = types_of_add(Dialect.RFC)
    functions = array("I", [builder.string("add")]), array("I", [2])
    data, _ = encoded(path, builder, [1], LocsecSettings(Dialect.RFC), functions=functions)
    assert data == examples.RFC_OBJECT


def test_the_split_example_comes_out_but_for_header_and_layout(tmp_path: Path) -> None:
    helper = add("b", label="helper")
    sites = [inlined(A_IN_RDI, entry=0x1010), inlined(given("b", RDI, "helper"), origin="helper", entry=0x1030)]
    path = program(tmp_path, add("a"), helper, main(*sites))
    builder = Builder(Btf(examples.SPLIT_MAIN), classic=True)
    builder.add_func("helper", 2)
    data, _ = encoded(path, builder, [3, 4], LocsecSettings(Dialect.V2))
    main_object = Btf(examples.SPLIT_MAIN)
    wanted, got = Btf(examples.SPLIT_INLINE, main_object), Btf(data, main_object)
    assert list(map(repr, got.types())) == list(map(repr, wanted.types()))
    assert got.strings == wanted.strings


def sites_of(data: bytes, base: Btf | None = None) -> dict[str, tuple[tuple[int, int], ...]]:
    btf = Btf(data, base)
    found = {}
    for type_id in range(btf.start_id, btf.end_id):
        section = btf.type(type_id)
        if isinstance(section, Locsec):
            found[section.name] = tuple((site.func_id, site.offset) for site in section.sites)
    return found


def two_sections(tmp_path: Path) -> Path:
    cold = die("subprogram", inlined(A_IN_RDI, entry=0x3008), name="cold", low_pc=Address(0x3000), high_pc=0x10)
    first = main(inlined(entry=0x1080), inlined(origin="other", entry=0x1020), inlined(entry=0x1010))
    return program(
        tmp_path, add("a", "b"), add(label="other"), first, cold,
        more=[Code(".init.text", bytes(0x100), 0x3000)],
    )  # fmt: skip


def builder_of_two() -> Builder:
    builder = types_of_add()
    builder.add_func("other", builder.add_func_proto(1, []))
    return builder


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (
            LocsecSettings(),
            {"inline.text": ((3, 0x10), (3, 0x80), (5, 0x20)), "inline.init.text": ((3, 8),)},
        ),
        (
            LocsecSettings(order=Order.OFFSET, name=LocsecName.SECTION),
            {".text": ((3, 0x10), (5, 0x20), (3, 0x80)), ".init.text": ((3, 8),)},
        ),
        (
            LocsecSettings(Dialect.V2, offset_base=OffsetBase.IMAGE),
            {".text": ((3, 0x10), (3, 0x80), (5, 0x20)), ".init.text": ((3, 0x2008),)},
        ),
        (
            LocsecSettings(Dialect.V2, name=LocsecName.INLINE),
            {"inline.text": ((3, 0x10), (3, 0x80), (5, 0x20)), "inline.init.text": ((3, 8),)},
        ),
    ],
)
def test_settings(tmp_path: Path, settings: LocsecSettings, wanted: dict[str, Any]) -> None:
    data, written = encoded(two_sections(tmp_path), builder_of_two(), [3, 5], settings)
    assert sites_of(data) == wanted
    assert written.sites == 4
    assert validate(Btf(data), strict=True) == []


@pytest.mark.parametrize(
    "more", [{"name": LocsecName.SECTION}, {"offset_base": OffsetBase.SECTION}, {"order": Order.FUNCTION}]
)
def test_the_rfc_leaves_no_choice(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="leaves no choice"):
        LocsecSettings(Dialect.RFC, **more)


def test_a_function_without_func_loses_its_sites(tmp_path: Path) -> None:
    data, written = encoded(two_sections(tmp_path), builder_of_two(), [3, 0], LocsecSettings())
    assert (written.sites, written.without_function) == (3, 1)
    assert all(func_id == 3 for rows in sites_of(data).values() for func_id, _ in rows)


def test_a_site_outside_of_the_code_has_no_section(tmp_path: Path) -> None:
    path = program(tmp_path, add("a", "b"), main(inlined(entry=0x1040), inlined(entry=0x9000)))
    _, written = encoded(path, types_of_add(), [3], LocsecSettings())
    assert (written.sites, written.without_section) == (1, 1)


def test_a_variadic_function_has_a_slot_for_the_rest(tmp_path: Path) -> None:
    path = program(tmp_path, add("a", variadic=True), main(inlined(A_IN_RDI)))
    builder = Builder()
    integer = builder.add_int("int", 4, INT_SIGNED)
    builder.add_func("add", builder.add_func_proto(integer, [("a", integer)], variadic=True))
    data, _ = encoded(path, builder, [3], LocsecSettings())
    slots = Btf(data).type(5)
    assert isinstance(slots, LocProto)
    assert slots.loc_param_ids == (4, 0)
    assert validate(Btf(data), strict=True) == []


def test_equal_records_are_written_once(tmp_path: Path) -> None:
    sites = [inlined(A_IN_RDI, B_IS_MINUS_ONE, entry=0x1000 + 4 * i) for i in range(20)]
    path = program(tmp_path, add("a", "b"), main(*sites))
    _, written = encoded(path, types_of_add(), [3], LocsecSettings())
    assert (written.sites, written.loc_params, written.loc_protos, written.locsecs) == (20, 2, 1, 1)


def test_more_sites_than_a_locsec_of_the_rfc_takes(tmp_path: Path) -> None:
    address = 0x1000
    sites = [inlined(entry=address + i) for i in range(65540)]
    big = die("subprogram", *sites, name="main", low_pc=Address(address), high_pc=0x20000)
    path = program(tmp_path, add("a", "b"), big, code=bytes(0x20000))
    builder = types_of_add(Dialect.RFC)
    functions = array("I", [builder.string("add")]), array("I", [2])
    data, written = encoded(path, builder, [1], LocsecSettings(Dialect.RFC), functions=functions)
    btf = Btf(data)
    assert written.locsecs == 2
    assert [btf.type(type_id).vlen for type_id in (4, 5)] == [65535, 5]
    assert validate(btf, strict=True) == []
    assert written.loc_protos == 1


def test_more_types_than_the_format_numbers(tmp_path: Path) -> None:
    path = program(tmp_path, add("a", "b"), main(inlined(A_IN_RDI)))
    image = open_image(path)
    parts = collect(image.dwarf, image, LocationSettings(), image_base=0x1000)
    found = InlineSections(parts, code_sections(image.program), image_base=0x1000, address_size=8)
    start = Beginning(array("I", [3]), bytearray(), bytearray(), 0xFFFFE, 1)
    with pytest.raises(FormatError, match="ids up to"):
        found.encode(start, LocsecSettings(), byte_order="little")


def low(path: Path) -> list[int]:
    image = open_image(path)
    settings = LocationSettings(site_address=SiteAddress.LOW)
    parts = collect(image.dwarf, image, settings, image_base=0x1000)
    return [address for part in parts for address, _, _ in part.rows()]


def test_the_lowest_address_is_taken_as_pahole_does(tmp_path: Path) -> None:
    sites = [
        inlined(A_IN_RDI, entry=0x1040, low_pc=Address(0x1030), high_pc=0x20),
        inlined(A_IN_RDI, entry=0x1060, ranges=Ranges([("start_end", 0, 0), ("start_end", 0x1050, 0x1070)])),
        inlined(A_IN_RDI, entry=0x1080, low_pc=Address(0x1080), high_pc=4),
    ]
    path = program(tmp_path, add("a", "b"), main(*sites))
    assert low(path) == [0x1030, 0x1050, 0x1080]
    image = open_image(path)
    settings = LocationSettings(site_address=SiteAddress.LOW)
    parts = collect(image.dwarf, image, settings, image_base=0x1000)
    # away from the entry, nothing says that the argument is there already
    assert [forms[0] is None for part in parts for _, _, forms in part.rows()] == [True, True, False]
    assert counts(parts)[1] == {"no-entry": 2}


EXPRESSIONS = 400

# Every operation that the compiled path knows, and some that it leaves to the ordinary one.
OPERATIONS = (
    *[op(name) for name in (
        "reg5", "reg17", "lit0", "lit5", "lit31", "dup", "drop", "over", "swap", "rot", "deref", "abs", "and", "div",
        "minus", "mod", "mul", "neg", "not", "or", "plus", "shl", "shr", "shra", "xor", "eq", "ge", "gt", "le", "lt",
        "ne", "nop", "call_frame_cfa", "stack_value",
    )],
    *[op(name, sleb(number)) for name in ("breg3", "breg7", "breg17", "fbreg") for number in (0, 8, -16, 1 << 33)],
    op("addr", (0x1234).to_bytes(8, "little")), op("const1u", b"\xff"), op("const1s", b"\xff"),
    op("const2u", b"\xff\xff"), op("const4u", b"\xff" * 4), op("const8u", b"\xff" * 8), op("consts", sleb(-3)),
    op("deref_size", b"\x04"), op("pick", b"\x01"), op("plus_uconst", b"\x07"), op("regx", b"\x05"),
    op("bregx", b"\x05", sleb(4)), op("implicit_value", b"\x04\x01\x02\x03\x04"),
    op("entry_value", b"\x01\x55"), op("GNU_entry_value", b"\x01\x51"), op("entry_value", b"\x02\x75\x00"),
    op("implicit_pointer", bytes(4), b"\x00"), op("piece", b"\x02"), op("piece", b"\x04"), op("piece", b"\x08"),
    op("stack_value") + op("piece", b"\x04"), op("stack_value") + op("piece", b"\x08"),
    op("bit_piece", b"\x08\x00"), op("bit_piece", b"\x19\x05"), op("GNU_parameter_ref", bytes(4)),
)  # fmt: skip
ARITHMETIC = (
    *[op(name) for name in (
        "lit0", "lit1", "lit5", "lit31", "dup", "swap", "abs", "and", "minus", "mul", "neg", "not", "or", "plus", "shl",
        "shr", "shra", "xor", "eq", "ge", "gt", "le", "lt", "ne", "div", "mod",
    )],
    op("const1u", b"\x40"), op("const1s", b"\xff"), op("const4u", b"\xff" * 4), op("const8u", b"\xff" * 7 + b"\x7f"),
    op("const8u", bytes(7) + b"\x80"), op("consts", sleb(-3)), op("breg3", b"\x00"),
    op("breg5", b"\x08"),
)  # fmt: skip
PIECES = tuple(
    operation + piece
    for operation in (
        b"", op("reg5"), op("breg3", b"\x08"), op("fbreg", b"\x08"), op("lit1") + op("stack_value"),
        op("entry_value", b"\x01\x55"), op("nop"), op("drop"), op("implicit_value", b"\x02\x01\x02"),
    )
    for piece in (
        op("piece", b"\x00"), op("piece", b"\x02"), op("piece", b"\x04"), op("piece", b"\xff\xff\x7f"),
        op("bit_piece", b"\x08\x00"), op("bit_piece", b"\x03\x01"), op("bit_piece", b"\x08\x81\x80\x80\x04"),
    )
)  # fmt: skip


def minimum(little_endian: bool) -> bytes:
    branch = op("bra", (1).to_bytes(2, "little" if little_endian else "big"))
    return op("over") + op("over") + op("lt") + branch + op("swap") + op("drop")


def any_expression(draw: random.Random, little_endian: bool) -> bytes:
    some = draw.random()
    if some < 0.3:
        parts = (*ARITHMETIC, *[minimum(little_endian)] * 3)
        return b"".join(draw.choices(parts, k=draw.choice((3, 4, 5, 7)))) + op("stack_value")
    if some < 0.5:
        return b"".join(draw.choices(PIECES, k=draw.choice((2, 2, 3))))
    return b"".join(draw.choices(OPERATIONS, k=draw.choice((1, 1, 2, 2, 3, 4, 6))))


@pytest.mark.parametrize("size", [0, 1, 4, 8, 16])
@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("split", [False, True])
def test_any_expression_is_what_the_ordinary_path_says(
    tmp_path: Path, size: int, little_endian: bool, split: bool
) -> None:
    draw = random.Random(size + 100 * little_endian + 1000 * split)
    places = [any_expression(draw, little_endian) for _ in range(EXPRESSIONS)]
    # a function in several parts begins where the first range does
    where: dict[str, Any] = (
        {"ranges": Ranges([("start_end", 0x1000, 0x1080), ("start_end", 0x1080, 0x1100)])}
        if split
        else {"low_pc": Address(0x1000), "high_pc": 0x100}
    )
    sites = [
        inlined(
            die(
                "formal_parameter",
                abstract_origin="add.a",
                location=Expression(place)
                if draw.random() < 0.5
                else Locations(
                    [("start_end", 0x1000, 0x1100, place), ("start_end", 0x1100, 0x1110, RDI)],
                    views=[(0, 0)] * draw.choice((0, 2)),
                ),
            ),
            entry=draw.choice((0x1000, 0x1050)),
        )
        for place in places
    ]
    root = die(
        "compile_unit",
        die("base_type", label="int", name="int", byte_size=size, encoding=draw.choice((5, 7))),
        add("a"),
        die("subprogram", *sites, name="main", frame_base=Expression(b"\x56"), **where),
        name="a.c", language=0x1D, low_pc=Address(0), producer=draw.choice(("GNU C17 12.2.0", "clang version 19")),
    )  # fmt: skip
    path = tmp_path / "program"
    machine = X86_64 if little_endian else S390
    symbols = [Sym("main", 0x1000, 0x100, ".text")]
    path.write_bytes(make_program([Unit(root)], symbols=symbols, little=little_endian, machine=machine))
    assert differences(open_image(path)) == []
    assert differences(open_image(path), doubtful=True) == []


@pytest.mark.parametrize(
    ("operations", "size"),
    [
        (RDI, 4), (op("regx", b"\x05"), 4), (op("breg7", sleb(8)), 4), (op("breg7", sleb(8)) + op("stack_value"), 4),
        (op("lit5") + op("stack_value"), 4), (op("lit5"), 4), (op("const1s", b"\xff") + op("stack_value"), 4),
        (op("const2u", b"\xff\xff") + op("stack_value"), 4), (op("const4s", b"\xff" * 4) + op("stack_value"), 4),
        (op("const8u", b"\xff" * 8) + op("stack_value"), 4), (op("consts", sleb(-3)) + op("stack_value"), 4),
        (op("addr", (0x1234).to_bytes(8, "little")) + op("stack_value"), 4),
        (op("addr", (0x34).to_bytes(8, "little")) + op("stack_value"), 4),
        (op("addr", (0x1234).to_bytes(8, "little")), 4),
        (op("breg5", sleb(0)) + op("deref") + op("stack_value"), 4),
        (op("breg5", sleb(0)) + op("deref_size", b"\x04") + op("stack_value"), 4),
        (MASKED + op("const4u", b"\xff" * 4) + op("and") + op("stack_value"), 4),
        (op("breg5", sleb(4)) + op("deref_size", b"\x04") + op("lit3") + op("plus") + op("stack_value"), 4),
        (op("breg5", sleb(0)) + op("lit4") + op("plus") + op("stack_value"), 4),
        (op("breg5", sleb(0)) + op("lit4") + op("minus") + op("stack_value"), 4),
        (op("lit4") + op("breg5", sleb(0)) + op("plus") + op("stack_value"), 4),
        (op("lit4") + op("breg5", sleb(0)) + op("swap") + op("minus") + op("stack_value"), 4),
        (op("breg5", sleb(0)) + op("dup") + op("mul") + op("stack_value"), 4),
        (op("breg5", sleb(0)) + op("plus_uconst", b"\x07") + op("stack_value"), 4),
        (op("lit1") + op("plus_uconst", b"\x07") + op("stack_value"), 4),
        (op("lit1") + op("lit2") + op("shl") + op("stack_value"), 4),
        (RDI + op("piece", b"\x04") + op("piece", b"\x04"), 8),
        (op("GNU_parameter_ref", bytes(4)) + op("stack_value"), 4),
        (op("fbreg", sleb(-8)) + op("piece", b"\x04") + RDI + op("piece", b"\x02"), 8),
        (RDI + op("bit_piece", b"\x01\x00") + op("bit_piece", b"\x1f\x00"), 4),
        (op("breg5", sleb(0)) + op("not") + op("stack_value"), 4),
        (op("lit1") + op("lit2") + op("lit3") + op("rot") + op("drop") + op("stack_value"), 4),
        (op("lit1") + op("breg5", sleb(1)) + op("over") + op("drop") + op("stack_value"), 4),
        (op("lit1") + op("breg5", sleb(1)) + op("pick", b"\x01") + op("stack_value"), 4),
        (op("implicit_value", b"\x04\x01\x02\x03\x04"), 4), (op("implicit_value", b"\x02\x01\x02"), 4),
        (op("fbreg", sleb(-8)), 4), (op("fbreg", sleb(-8)) + op("stack_value"), 4), (op("call_frame_cfa"), 4),
        (op("entry_value", b"\x01\x55") + op("stack_value"), 4), (op("implicit_pointer", bytes(4), b"\x00"), 4),
        (op("reg17"), 4), (op("breg17", sleb(0)) + op("stack_value"), 4), (op("nop") + RDI, 4),
        (op("breg5", sleb(0)) + op("stack_value") + op("nop"), 4), (op("drop"), 4), (b"", 4), (op("stack_value"), 4),
        (RDI + op("piece", b"\x04"), 4), (RDI + op("piece", b"\x02"), 4), (op("breg6", sleb(-(1 << 40))), 4),
        (op("breg3", b"\0") + op("lit5") + minimum(True) + op("stack_value"), 4),
        (op("breg3", b"\0") + op("breg3", b"\0") + minimum(True) + op("stack_value"), 4),
        (op("breg3", b"\0") + op("lit5") + op("lit1") + op("bra", b"\x01\0") + op("swap") + op("stack_value"), 4),
        (op("breg3", b"\0") + op("lit5") + op("breg5", b"\0") + op("bra", b"\x01\0") + op("drop"), 4),
        (op("breg3", b"\0") + op("lit5") + op("breg5", b"\0") + op("bra", b"\x02\0") + op("swap"), 4),
        (op("breg5", sleb(1 << 33)) + op("stack_value"), 4), (op("lit0") + op("bra", b"\0\0") + op("lit1"), 4),
    ],
)  # fmt: skip
@pytest.mark.parametrize("producer", ["GNU C17 12.2.0", "clang version 19", "other"])
@pytest.mark.parametrize("frame", [b"\x9c", b"\x56", b""])
def test_every_shape_is_what_the_ordinary_path_says(
    tmp_path: Path, operations: bytes, size: int, producer: str, frame: bytes
) -> None:
    integer = die("base_type", label="int", name="int", byte_size=size, encoding=5)
    place = Locations(
        [("start_end", 0x1000, 0x1100, operations), ("start_end", 0x1100, 0x1110, RDI)], views=[(0, 0), (0, 0)]
    )
    sites = [
        inlined(die("formal_parameter", abstract_origin="add.a", location=place)),
        inlined(die("formal_parameter", abstract_origin="add.a", location=Expression(operations)), entry=0x1050),
        inlined(die("formal_parameter", abstract_origin="add.a", location=place), entry=0x1000),
    ]
    more: dict[str, Any] = {"frame_base": Expression(frame)} if frame else {}
    root = die(
        "compile_unit", integer, add("a"),
        die("subprogram", *sites, name="main", low_pc=Address(0x1000), high_pc=0x100, **more),
        name="a.c", language=0x1D, low_pc=Address(0), producer=producer,
    )  # fmt: skip
    path = tmp_path / "program"
    path.write_bytes(make_program([Unit(root)], symbols=[Sym("main", 0x1000, 0x100, ".text")]))
    for dialect in Dialect:
        try:
            assert differences(open_image(path), dialect=dialect) == []
            assert differences(open_image(path), dialect=dialect, doubtful=True) == []
        except FormatError as error:
            with pytest.raises(FormatError, match=str(error.message)[:20]):
                list(open_image(path).sites())
