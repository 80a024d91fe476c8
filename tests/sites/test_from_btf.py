"""Sites from BTF location info, in all dialects: the same model as from DWARF."""

from __future__ import annotations

import pytest

from inlinetrace.btf._types import InlineSite, RfcInlineSite
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import FRAME_BASE, INT_SIGNED, RFC_CONTINUE, RFC_DEREF, Dialect, Kind, LocFlag
from inlinetrace.btf.reader import Btf, chain_of
from inlinetrace.elf.file import ElfFile
from inlinetrace.elf.machine import AARCH64, X86_64
from inlinetrace.errors import FormatError, MismatchError, NotFoundError
from inlinetrace.sites.from_btf import BtfSites, Copy, ElfSurroundings, OffsetBase, SectionAddress, section_of
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Encoding, Parameter, Site
from inlinetrace.sites.reasons import Doubt, Reason, Unavailable
from tests.btf import examples
from tests.btf.samples import everything
from tests.elf.elfwriter import Code, Sym, elf_file

TEXT = 0xFFFFFFFF81000000
SECTIONS = {".text": SectionAddress(TEXT, 0x100000), ".init.text": SectionAddress(TEXT + 0x200000, 0x1000)}


class Around:
    """Sections, and functions as (name, address, size)."""

    def __init__(self, *functions: tuple[str, int, int]) -> None:
        self.sections = SECTIONS
        self.image_base = TEXT
        self._functions = functions

    def symbol(self, address: int) -> tuple[str, int] | None:
        for name, start, size in self._functions:
            if start <= address < start + size:
                return name, address - start
        return None

    def copies(self, name: str) -> list[Copy]:
        return [Copy(n, ".text", start) for n, start, _ in self._functions if n.split(".")[0] == name]


def listed(sites: BtfSites, *patterns: str) -> list[Site]:
    return list(sites.build(sites.select(patterns or ("*",))))


def shown(parameter: Parameter) -> str:
    if isinstance(parameter.location, Unavailable):
        return parameter.location.reason.value
    return parameter.location.text(X86_64, signed=parameter.type.signed)


def test_the_newest_example() -> None:
    (site,) = listed(BtfSites(Btf(examples.NEW_OBJECT), X86_64, surroundings=Around()))
    assert (site.function, site.inlined, site.address, site.section, site.section_offset) == (
        "add", True, TEXT + 0x40, ".text", 0x40,
    )  # fmt: skip
    assert [(p.name, p.type.text, shown(p)) for p in site.parameters] == [("a", "int", "rdi"), ("b", "int", "const -1")]
    assert (site.return_type, site.source, site.symbol) == ("int", "btf", None)


def test_the_rfc_example_is_doubtful() -> None:
    (site,) = listed(BtfSites(Btf(examples.RFC_OBJECT), X86_64, surroundings=Around()), "add")
    assert site.address == TEXT + 0x40
    assert [(shown(p), p.doubt) for p in site.parameters] == [("rdi", Doubt.COMPILER), ("const -1", None)]


def test_the_split_example() -> None:
    inline = chain_of([examples.SPLIT_MAIN, examples.SPLIT_INLINE])
    sites = BtfSites(inline, X86_64, surroundings=Around())
    rows = sites.select(["*"])
    assert [sites.fully_inlined(row.function) for row in rows] == [False, True]
    assert [site.function for site in sites.build(rows)] == ["add", "helper"]
    assert sites.function_names() == {"add", "helper"}
    assert [site.address for site in listed(sites, "help*")] == [TEXT + 0x30]
    assert listed(sites, "nothing") == listed(sites, "n*") == []
    assert sites.unknown(["add", "nothing", "help*", "n*"]) == ["nothing", "n*"]


def test_without_addresses_the_offset_is_shown() -> None:
    (site,) = listed(BtfSites(Btf(examples.NEW_OBJECT), X86_64))
    assert (site.address, site.section, site.section_offset) == (0x40, ".text", 0x40)


FORMS = [
    (4, LocFlag.REG, [5], "rdi"),
    (8, LocFlag.REG | LocFlag.DEREF, [3], "*(rbx)"),
    (8, LocFlag.REG | LocFlag.OFFSET, [5, 300], "rdi+300"),
    (8, LocFlag.REG | LocFlag.OFFSET, [7, 0xFFFFFFF0], "rsp-16"),
    (8, LocFlag.REG | LocFlag.DEREF | LocFlag.OFFSET | LocFlag.SIGNED, [7, 0xFFFFFFF8], "*(rsp-8)"),
    (8, LocFlag.REG | LocFlag.DEREF | LocFlag.OFFSET | LocFlag.SIGNED, [7, 0, 0xFFFFFFFF], "*(rsp-4294967296)"),
    (1, LocFlag.CONST, [2], "const 0x2"),
    (4, LocFlag.CONST | LocFlag.SIGNED, [0xFFFFFFFF], "const -1"),
    (1, LocFlag.CONST | LocFlag.SIGNED, [0xFF], "const -1"),
    (8, LocFlag.CONST, [1, 1], "const 0x100000001"),
    (8, LocFlag.CONST | LocFlag.ADDR, [0x1234, 0], f"addr {TEXT + 0x1234:#x}"),
    (8, LocFlag.REG, [FRAME_BASE], "no-frame-base"),
    (8, LocFlag.REG | LocFlag.DEREF | LocFlag.OFFSET, [FRAME_BASE, 8], "no-frame-base"),
    (8, LocFlag.REG, [17], "vector-register"),
    (8, LocFlag.REG | LocFlag.CONST, [17], "unsupported-expression"),
    (8, 0x40, [17], "unsupported-expression"),
]


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(("size", "flags", "values", "text"), FORMS)
def test_forms(order: str, size: int, flags: int, values: list[int], text: str) -> None:
    builder = Builder(byte_order=order)
    kind = builder.add_int("long int" if size == 8 else "int", size, INT_SIGNED if flags & LocFlag.SIGNED else 0)
    function = builder.add_func("f", builder.add_func_proto(0, [("a", kind)]))
    proto = builder.add_loc_proto([builder.add_loc_param(size, int(flags), values)])
    builder.add_locsec(".text", [InlineSite(function, proto, 0x10)])
    (site,) = listed(BtfSites(Btf(builder.to_bytes(), dialect=Dialect.NEW), X86_64, surroundings=Around()))
    assert shown(site.parameters[0]) == text
    assert site.return_type == "void"


@pytest.mark.parametrize(
    ("order", "expected"), [("little", b"\1" + bytes(7) + b"\2"), ("big", bytes(7) + b"\2" + bytes(7) + b"\1")]
)
def test_pairs_hold_the_low_part_first(order: str, expected: bytes) -> None:
    builder = Builder(byte_order=order)
    wide = builder.add_int("__int128", 16, INT_SIGNED)
    function = builder.add_func("f", builder.add_func_proto(0, [("a", wide)]))
    proto = builder.add_loc_proto([builder.add_loc_param(16, LocFlag.REG, [5, 4])])
    builder.add_locsec(".text", [InlineSite(function, proto, 0)])
    (site,) = listed(BtfSites(Btf(builder.to_bytes()), AARCH64))
    location = site.parameters[0].location
    assert isinstance(location, Location)
    value = location.evaluate([1, 2] if order == "little" else [2, 1])
    assert isinstance(value, bytes)
    assert value.startswith(expected)


def test_slots_and_prototype_need_not_agree() -> None:
    builder = Builder()
    integer = builder.add_int("int", 4, INT_SIGNED)
    function = builder.add_func("f", builder.add_func_proto(integer, [("a", integer), ("b", integer)], variadic=True))
    param = builder.add_loc_param(4, LocFlag.REG, [5])
    short, long = builder.add_loc_proto([param]), builder.add_loc_proto([0, param, 0, param, param])
    builder.add_locsec(".text", [InlineSite(function, short, 0), InlineSite(function, long, 8)])
    builder.add_locsec(".text", [InlineSite(function, short, 16)])
    first, second, third = listed(BtfSites(Btf(builder.to_bytes()), X86_64), "f")
    assert [shown(p) for p in first.parameters] == ["rdi", "no-form"]
    assert [shown(p) for p in second.parameters] == ["no-form", "rdi"]
    assert third.section_offset == 16
    assert first.variadic


def with_offset(offset: int, section: str) -> Btf:
    builder = Builder()
    function = builder.add_func("f", builder.add_func_proto(0, []))
    builder.add_locsec(section, [InlineSite(function, builder.add_loc_proto([]), offset)])
    return Btf(builder.to_bytes())


def test_the_base_of_offsets_is_decided_by_evidence() -> None:
    around = Around(("start", TEXT + 0x200100, 0x100))
    from_section = BtfSites(with_offset(0x110, ".init.text"), X86_64, surroundings=around)
    assert from_section.offset_base is OffsetBase.SECTION
    from_image = BtfSites(with_offset(0x200110, ".init.text"), X86_64, surroundings=around)
    assert from_image.offset_base is OffsetBase.IMAGE
    for sites in (from_section, from_image):
        (site,) = listed(sites)
        assert (site.address, site.symbol, site.symbol_offset) == (TEXT + 0x200110, "start", 0x10)
        assert (site.section, site.section_offset, site.container) == (".init.text", 0x110, "start")
    forced = BtfSites(with_offset(0x110, ".init.text"), X86_64, surroundings=around, offset_base=OffsetBase.IMAGE)
    assert [site.symbol for site in listed(forced)] == [None]


def test_rfc_pairs_frame_bases_and_negative_offsets() -> None:
    builder = Builder(dialect=Dialect.RFC)
    pointer = builder.add_ptr(0)
    wide = builder.add_int("__int128", 16)
    proto = builder.add_func_proto(0, [("a", wide), ("b", pointer), ("c", pointer), ("d", pointer)])
    slots = [
        builder.add_rfc_register(8, 5, RFC_CONTINUE),
        builder.add_rfc_register(8, 4),
        builder.add_rfc_register(8, 33, RFC_DEREF, -8),
        builder.add_rfc_register(8, 6, RFC_DEREF, 16),
        builder.add_rfc_constant(8, 0x1234),
    ]
    builder.add_rfc_locsec("inline", [RfcInlineSite("f", proto, builder.add_loc_proto(slots), 0xFFFFFF00)])
    (site,) = listed(BtfSites(Btf(builder.to_bytes()), X86_64, surroundings=Around()), "f")
    assert site.address == TEXT - 0x100
    assert [(shown(p), p.doubt) for p in site.parameters] == [
        ("rdi, rsi", Doubt.COMPILER),
        ("no-frame-base", None),
        ("*(rbp+16)", Doubt.COMPILER),
        ("const 0x1234", Doubt.COMPILER),
    ]


def test_types() -> None:
    builder = Builder()
    character = builder.add_int("char", 1, INT_SIGNED)
    boolean = builder.add_int("_Bool", 1, 4)
    double = builder.add_float("double", 8)
    state = builder.add_enum("state", 4, [], signed=True)
    opaque = builder.add_struct("big", 40, [])
    alias = builder.add_typedef("handle_t", builder.add_ptr(opaque))
    names = {"c": character, "b": boolean, "d": double, "e": state, "s": opaque, "h": alias}
    function = builder.add_func("f", builder.add_func_proto(alias, list(names.items())))
    builder.add_locsec(".text", [InlineSite(function, builder.add_loc_proto([]), 0)])
    (site,) = listed(BtfSites(Btf(builder.to_bytes()), X86_64))
    assert site.return_type == "handle_t"
    assert [(p.type.text, p.type.size, p.type.encoding, p.type.signed) for p in site.parameters] == [
        ("char", 1, Encoding.CHAR, True),
        ("_Bool", 1, Encoding.BOOL, False),
        ("double", 8, Encoding.FLOAT, False),
        ("enum state", 4, Encoding.ENUM, True),
        ("struct big", 40, Encoding.AGGREGATE, False),
        ("handle_t", 8, Encoding.POINTER, False),
    ]


def test_broken_references() -> None:
    with pytest.raises(NotFoundError, match="no location info"):
        BtfSites(Btf(examples.SPLIT_MAIN), X86_64)
    for function, proto in ((1, 3), (2, 1), (99, 3), (2, 99)):
        builder = Builder()
        integer = builder.add_func_proto(0, [])
        builder.add_func("f", integer)
        builder.add_loc_proto([integer])
        builder.add_locsec(".text", [InlineSite(function, proto, 0)])
        sites = BtfSites(Btf(builder.to_bytes(), dialect=Dialect.NEW), X86_64)
        with pytest.raises(FormatError):
            listed(sites)


def test_a_base_of_another_build_is_refused() -> None:
    """Its ids lead to something, so that one function alone would look as if it had no sites, or those of another."""
    function = Btf(examples.SPLIT_MAIN).find("add", Kind.FUNC)[0]
    builder = Builder(Btf(examples.SPLIT_MAIN))
    builder.add_locsec(".text", [InlineSite(function, builder.add_loc_proto([]), 0)])
    inline = builder.to_bytes()
    assert len(listed(BtfSites(chain_of([examples.SPLIT_MAIN, inline]), X86_64))) == 1
    other = Builder()
    integer = other.add_int("int", 4, INT_SIGNED)
    for number in range(Btf(examples.SPLIT_MAIN).end_id - 2):
        other.add_typedef(f"t{number}", integer)
    with pytest.raises(MismatchError, match="no function: the bases are not those that it was split from"):
        BtfSites(chain_of([other.to_bytes(), inline]), X86_64)


def test_every_sample_can_be_listed() -> None:
    for dialect in Dialect:
        sites = BtfSites(Btf(everything(dialect=dialect)), X86_64)
        assert len(listed(sites)) == (2 if dialect is Dialect.RFC else 9)
        reasons = {
            p.location.reason for s in listed(sites) for p in s.parameters if isinstance(p.location, Unavailable)
        }
        assert reasons <= {Reason.NO_FORM, Reason.NO_FRAME, Reason.UNSUPPORTED}


@pytest.mark.parametrize(
    ("name", "section"),
    [
        (".text", ".text"),
        ("inline.text", ".text"),
        ("inline", ".text"),
        ("inline.init.text", ".init.text"),
        ("inlinex", "inlinex"),
    ],
)
def test_names_of_sections(name: str, section: str) -> None:
    assert section_of(name) == section


def test_out_of_line_copies() -> None:
    inline = chain_of([examples.SPLIT_MAIN, examples.SPLIT_INLINE])
    around = Around(("add", TEXT + 0x500, 16), ("add.isra.0", TEXT + 0x600, 16))
    sites = BtfSites(inline, X86_64, surroundings=around)
    plain, changed = sites.copies(["add", "helper"])
    assert (plain.inlined, plain.address, plain.section_offset, plain.copy) == (False, TEXT + 0x500, 0x500, None)
    assert (changed.copy, changed.symbol, changed.symbol_offset) == ("add.isra.0", "add.isra.0", 0)
    assert [shown(p) for p in plain.parameters] == ["no-form"]
    assert list(BtfSites(inline, X86_64).copies(["*"])) == []


@pytest.mark.parametrize("type_", [1, 2])
def test_an_elf_file_gives_addresses_and_symbols(type_: int) -> None:
    address = 0 if type_ == 1 else TEXT
    elf = ElfFile.from_bytes(
        elf_file(
            [Code(".text", bytes(0x100), address), Code(".init.text", bytes(0x100), address and address + 0x1000)],
            symbols=[
                Sym("caller", address + 0x38, 16, ".text"),
                Sym("start", (address and address + 0x1000) + 0x38, 16, ".init.text"),
                Sym("f", address + 0x80, 16, ".text"),
                Sym("f.constprop.0", address + 0x90, 16, ".text"),
                Sym("f.cold", address + 0xA0, 16, ".text"),
            ],
            type=type_,
        )
    )
    builder = Builder()
    function = builder.add_func("f", builder.add_func_proto(0, []))
    proto = builder.add_loc_proto([])
    builder.add_locsec("inline.text", [InlineSite(function, proto, 0x40)])
    builder.add_locsec("inline.init.text", [InlineSite(function, proto, 0x40)])
    sites = BtfSites(Btf(builder.to_bytes()), elf.machine, surroundings=ElfSurroundings(elf))
    assert sites.offset_base is OffsetBase.SECTION
    assert [(s.symbol, s.symbol_offset, s.section, s.section_offset) for s in listed(sites)] == [
        ("caller", 8, ".text", 0x40),
        ("start", 8, ".init.text", 0x40),
    ]
    assert [(s.symbol, s.section_offset, s.copy) for s in sites.copies(["f"])] == [
        ("f", 0x80, None),
        ("f.constprop.0", 0x90, "f.constprop.0"),
    ]
