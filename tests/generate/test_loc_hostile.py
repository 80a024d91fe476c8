"""Location info of damaged files: sites or an error of this package, never anything else."""

from __future__ import annotations

import random
from array import array
from pathlib import Path

import pytest

from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import FormatError, InlineTraceError
from inlinetrace.generate.locations import LocationSettings, SiteAddress, answer, collect
from inlinetrace.generate.locsec import InlineSections, LocsecSettings, code_sections
from inlinetrace.generate.pipeline import image_base
from inlinetrace.target import open_image
from tests.dwarf.expression_writer import op
from tests.dwarf.writer import Address, Die, Form, Locations, Ranges, Unit, die, make_program
from tests.generate.test_locsec import Beginning, add, given, inlined, main
from tests.sites.programs import build
from tests.target.hostile import bounded

MUTATIONS = 150
DAMAGED = (".debug_info", ".debug_abbrev", ".debug_loclists", ".debug_rnglists", ".debug_line", ".debug_frame",
           ".eh_frame")  # fmt: skip


def write(path: Path) -> int:
    """Collect and encode everything; the number of sites."""
    image = open_image(path, roots=())
    settings = LocationSettings(site_address=random.Random(path.stat().st_size).choice(list(SiteAddress)))
    parts = collect(image.dwarf, image, settings, image_base=image_base(image), jobs=1)
    answer(parts, image, doubtful=False)
    found = InlineSections(
        parts, code_sections(image.program), image_base=image_base(image), address_size=image.program.address_size
    )
    start = Beginning(array("I", [1] * len(found.origins)), bytearray(), bytearray(), 2, 1)
    return found.encode(start, LocsecSettings(), byte_order="little")[1].sites


@pytest.mark.compiled
@pytest.mark.parametrize(("compiler", "link"), [("gcc", True), ("gcc", False), ("clang-19", True)])
def test_bytes_changed_at_random(compiler: str, link: bool, tmp_path: Path) -> None:
    path = build(tmp_path, compiler, ["-O2", "-g"], link=link)
    original = path.read_bytes()
    places = [section for section in ElfFile.from_bytes(original).sections if section.name in DAMAGED]
    rng = random.Random(len(original))
    errors = 0
    with bounded(30):
        for _ in range(MUTATIONS):
            data = bytearray(original)
            for _ in range(rng.choice((1, 1, 4))):
                section = rng.choice(places)
                data[section.offset + rng.randrange(section.size)] = rng.choice(
                    (0, 1, 0x7F, 0x80, 0xFF, rng.getrandbits(8))
                )
            path.write_bytes(bytes(data))
            try:
                write(path)
            except InlineTraceError:
                errors += 1
    assert errors >= MUTATIONS // 10


def program(tmp_path: Path, *children: Die) -> Path:
    integer = die("base_type", label="int", name="int", byte_size=4, encoding=5)
    root = die("compile_unit", integer, *children, name="a.c", language=0x1D, low_pc=Address(0), producer="GNU C17")
    path = tmp_path / "program"
    path.write_bytes(make_program([Unit(root)]))
    return path


def test_types_that_lead_in_a_circle(tmp_path: Path) -> None:
    loop = die("typedef", label="t", name="t", type="t")
    f = die("subprogram", die("formal_parameter", label="add.a", name="a", type="t"), label="add", name="add", inline=1)
    path = program(tmp_path, loop, f, main(inlined(given("a", b"\x55"))))
    with pytest.raises(FormatError, match="refers to itself"):
        write(path)


def test_a_function_that_is_its_own_origin(tmp_path: Path) -> None:
    f = die("subprogram", label="add", abstract_origin="add")
    with pytest.raises(FormatError, match="circle"):
        write(program(tmp_path, f, main(inlined())))


def test_expressions_without_sense(tmp_path: Path) -> None:
    for operations in (
        op("drop"), op("plus"), op("lit1") * 200, op("dup") * 3, b"\x55\x55", op("swap"), op("rot"), op("deref"),
        op("breg5", b"\x80" * 30 + b"\x01"), op("regx", b"\xff" * 4 + b"\x07"), op("pick", b"\xff"),
        op("piece", b"\x04"),
        op("implicit_value", b"\x00"), op("stack_value"), op("call_frame_cfa"), op("const8u", b"\xff" * 8),
        b"\x01", b"\xb8\x01",
    ):  # fmt: skip
        path = program(tmp_path, add("a"), main(inlined(given("a", operations))))
        with bounded():
            assert write(path) == 1
    for operations in (
        op("const8u", b"\xff"),
        op("breg5", b"\x80"),
        op("implicit_value", b"\x7f"),
        op("addr"),
    ):
        with pytest.raises(FormatError):
            write(program(tmp_path, add("a"), main(inlined(given("a", operations)))))


def test_lists_that_lead_nowhere(tmp_path: Path) -> None:
    far = die("formal_parameter", abstract_origin="add.a", location=Form("sec_offset", 0x7FFFFFFF))
    with pytest.raises(FormatError, match="debug_loclists"):
        write(program(tmp_path, add("a"), main(inlined(far))))
    ranges = die("inlined_subroutine", abstract_origin="add", ranges=Form("sec_offset", 0x7FFFFFFF))
    with pytest.raises(FormatError, match="debug_rnglists"):
        write(program(tmp_path, add("a"), main(ranges)))


def test_huge_lists_that_many_sites_share(tmp_path: Path) -> None:
    shared = Locations([("start_end", 0x1000 + i, 0x1001 + i, b"\x55") for i in range(256)] * 40)
    sites = [
        inlined(die("formal_parameter", abstract_origin="add.a", location=shared), entry=0x1000) for _ in range(300)
    ]
    with bounded(10):
        assert write(program(tmp_path, add("a"), main(*sites))) == 300


def test_a_site_with_many_ranges(tmp_path: Path) -> None:
    many = Ranges([("start_end", 0x1000 + 2 * i, 0x1001 + 2 * i) for i in range(5000)])
    site = die("inlined_subroutine", abstract_origin="add", ranges=many)
    with bounded():
        assert write(program(tmp_path, add("a"), main(site))) == 1
