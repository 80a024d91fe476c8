"""BTF objects for tests, made with the builder."""

from __future__ import annotations

from inlinetrace.btf._types import Enumerator, InlineSite, Member, RfcInlineSite, SectionVariable
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import FRAME_BASE, INT_BOOL, INT_SIGNED, RFC_CONTINUE, RFC_DEREF, Dialect, Kind, LocFlag


def fill(builder: Builder) -> Builder:
    """Add one of everything of kinds 1 to 19 that C source can be made of."""
    integer = builder.add_int("int", 4, INT_SIGNED)
    unsigned = builder.add_int("unsigned int", 4)
    character = builder.add_int("char", 1, INT_SIGNED)
    boolean = builder.add_int("_Bool", 1, INT_BOOL)
    long = builder.add_int("long unsigned int", 8)
    double = builder.add_float("double", 8)
    constant = builder.add_reference(Kind.CONST, character)
    text = builder.add_ptr(constant)
    volatile = builder.add_reference(Kind.VOLATILE, integer)
    restrict = builder.add_reference(Kind.RESTRICT, text)
    array = builder.add_array(character, unsigned, 16)
    color = builder.add_enum("color", 4, [Enumerator("RED", 0), Enumerator("GREEN", -1)], signed=True)
    wide = builder.add_enum64("wide", 8, [Enumerator("BIG", 1 << 40), Enumerator("SMALL", 1)])
    forward = builder.add_fwd("later")
    pointer = builder.add_ptr(forward)
    inner = builder.add_union("", 8, [Member("number", long, 0), Member("pointer", pointer, 0)])
    node = builder.end_id
    builder.add_struct(
        "node",
        64,
        [
            Member("next", node + 1, 0),
            Member("flag", boolean, 64),
            Member("low", unsigned, 72, 3),
            Member("high", unsigned, 75, 5),
            Member("", inner, 128),
            Member("name", array, 192),
            Member("weight", double, 320),
            Member("handler", node + 3, 384),
            Member("state", volatile, 448),
        ],
    )
    builder.add_ptr(node)
    prototype = builder.add_func_proto(
        integer, [("self", node + 1), ("format", restrict), ("color", color)], variadic=True
    )
    builder.add_ptr(prototype)
    alias = builder.add_typedef("node_t", node)
    builder.add_typedef("wide_t", wide)
    function = builder.add_func("handle", prototype, 1)
    variable = builder.add_var("counter", integer, 1)
    builder.add_datasec(".data", 8, [SectionVariable(variable, 0, 4)])
    builder.add_decl_tag("kfunc", function)
    builder.add_decl_tag("guarded", node, 1)
    tag = builder.add_reference(Kind.TYPE_TAG, alias, "user")
    builder.add_ptr(tag)
    return builder


def add_locations(builder: Builder, function: int, section: str = "inline.text") -> Builder:
    """Add location kinds of v2 or newest: every legal form, for a function of two parameters."""
    forms = [
        (4, LocFlag.REG, [5]),
        (16, LocFlag.REG, [5, 4]),
        (8, LocFlag.REG | LocFlag.DEREF, [3]),
        (8, LocFlag.REG | LocFlag.OFFSET | LocFlag.SIGNED, [FRAME_BASE, 0xFFFFFFF0]),
        (8, LocFlag.REG | LocFlag.DEREF | LocFlag.OFFSET, [7, 0x10]),
        (8, LocFlag.REG | LocFlag.DEREF | LocFlag.OFFSET | LocFlag.SIGNED, [7, 0, 0xFFFFFFFF]),
        (1, LocFlag.CONST, [2]),
        (4, LocFlag.CONST | LocFlag.SIGNED, [0xFFFFFFFF]),
        (8, LocFlag.CONST | LocFlag.ADDR, [0x1234, 1]),
    ]
    params = [builder.add_loc_param(size, int(flags), values) for size, flags, values in forms]
    protos = [builder.add_loc_proto([first, second]) for first, second in zip([0, *params], params, strict=False)]
    builder.add_locsec(section, [InlineSite(function, proto, 16 * at) for at, proto in enumerate(protos)])
    return builder


def add_rfc_locations(builder: Builder, prototype: int) -> Builder:
    """Add location kinds of the RFC."""
    params = [
        builder.add_rfc_register(8, 5),
        builder.add_rfc_register(8, 6, RFC_DEREF, 0x18),
        builder.add_rfc_register(8, 33, RFC_DEREF, -0x20),
        builder.add_rfc_register(8, 5, RFC_CONTINUE),
        builder.add_rfc_constant(1, 2),
        builder.add_rfc_constant(-4, -1),
    ]
    proto = builder.add_loc_proto(params[:2])
    other = builder.add_loc_proto([0, params[5]])
    builder.add_rfc_locsec(
        "inline", [RfcInlineSite("handle", prototype, proto, 0x40), RfcInlineSite("helper", prototype, other, 0x80)]
    )
    return builder


def everything(
    *, byte_order: str = "little", classic: bool = False, layout: bool = False, dialect: Dialect = Dialect.NEW
) -> bytes:
    """One object with every kind, 1 to 22."""
    builder = fill(Builder(byte_order=byte_order, classic=classic, layout=layout, dialect=dialect))
    integer = 1
    prototype = builder.add_func_proto(integer, [("a", integer), ("b", integer)])
    function = builder.add_func("helper", prototype)
    if dialect is Dialect.RFC:
        add_rfc_locations(builder, prototype)
    else:
        add_locations(builder, function, ".text" if dialect is Dialect.V2 else "inline.text")
    return builder.to_bytes()
