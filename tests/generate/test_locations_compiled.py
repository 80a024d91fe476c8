"""Location info of compiled programs: the same sites as from DWARF, and the values that its expressions give."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from inlinetrace.btf.kinds import Dialect
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.dwarf.expression import decode
from inlinetrace.generate.forms import form_of
from inlinetrace.generate.locsec import LocsecSettings
from inlinetrace.generate.pipeline import Settings, generate, image_base
from inlinetrace.sites.from_btf import BtfSites, ElfSurroundings
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Reason, Unavailable
from inlinetrace.target import open_image
from inlinetrace.target.image import Image
from tests.generate.ordinary import differences, kept_sites
from tests.sites import stack_machine
from tests.sites.oracle import OtherReader
from tests.sites.programs import build

pytestmark = pytest.mark.compiled

BARE = ("-nostdlib", "-Wl,-e,main")
PROGRAMS = [
    ("gcc", ("-O2",), True),
    ("gcc", ("-O1", "-gdwarf-4"), True),
    ("gcc", ("-O3", "-fno-pie", "-no-pie"), True),
    ("gcc", ("-Os", "-flto"), True),
    ("gcc", ("-O2",), False),
    ("gcc", ("-O2", "-gsplit-dwarf"), True),
    ("gcc", ("-O2", "-gno-variable-location-views"), True),
    ("gcc", ("-O2", "-fno-var-tracking"), True),
    ("gcc", ("-O2", "-m32", *BARE), False),
    ("clang-14", ("-O2",), True),
    ("clang-16", ("-O2", "-gdwarf-4"), True),
    ("clang-19", ("-O2",), True),
    ("clang-19", ("-O2",), False),
    ("clang-22", ("-O3",), True),
    ("aarch64-linux-gnu-gcc", ("-O2", *BARE), True),
    ("aarch64-linux-gnu-gcc", ("-O2",), False),
    ("s390x-linux-gnu-gcc", ("-O2", *BARE), True),
    ("s390x-linux-gnu-gcc", ("-O2",), False),
    ("arm-linux-gnueabihf-gcc", ("-O2", *BARE), True),
]
NAMES = ["-".join((compiler, *flags[:2], "program" if link else "object")) for compiler, flags, link in PROGRAMS]


@pytest.fixture(params=PROGRAMS, ids=NAMES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    compiler, flags, link = request.param
    return build(tmp_path, compiler, flags, link=link)


def made_sites(path: Path, settings: Settings | None = None) -> tuple[list[Site], Image]:
    """The sites of the generated BTF, read back."""
    image = open_image(path)
    made = generate(image, settings)
    assert made.base is not None
    assert made.inline is not None
    main = Btf(made.base)
    inline = Btf(made.inline, main)
    assert validate(main, strict=True) == []
    assert validate(inline, strict=True) == []
    reader = BtfSites(inline, image.machine, surroundings=ElfSurroundings(image.program))
    return list(reader.build(reader.select(["*"]))), image


def test_the_compiled_path_says_what_the_ordinary_one_says(program: Path) -> None:
    for dialect, doubtful in ((Dialect.NEW, False), (Dialect.RFC, True)):
        assert differences(open_image(program), dialect=dialect, doubtful=doubtful) == []


@pytest.mark.parametrize("doubtful", [False, True])
def test_sites_from_btf_are_those_from_dwarf(program: Path, doubtful: bool) -> None:
    sites, image = made_sites(program, Settings(doubtful=doubtful))
    base = image_base(image)
    wanted: Counter[object] = Counter()
    for address, _, site in kept_sites(image):
        parameters = []
        for parameter in site.parameters:
            location: Location | Unavailable = parameter.location
            said = isinstance(location, Location) and (
                form_of(location, Dialect.NEW, signed=parameter.type.signed, image_base=base) is not None
            )
            shown = said and (doubtful or parameter.doubt is None)
            text = location.text(image.machine, signed=parameter.type.signed) if shown else "-"  # type: ignore[union-attr]
            parameters.append((parameter.name, parameter.type.size, text))
        wanted[site.function, address, site.section, site.variadic, tuple(parameters)] += 1
    got: Counter[object] = Counter(
        (
            site.function,
            site.address,
            site.section,
            site.variadic,
            tuple(
                (p.name, p.type.size, p.location.text(image.machine, signed=p.type.signed))
                if isinstance(p.location, Location)
                else (p.name, p.type.size, "-")
                for p in site.parameters
            ),
        )
        for site in sites
    )
    assert sum(wanted.values()) >= 5
    assert got - wanted == Counter()
    assert wanted - got == Counter()
    reasons = {p.location.reason for s in sites for p in s.parameters if isinstance(p.location, Unavailable)}
    assert reasons <= {Reason.NO_FORM}


def test_the_bytes_do_not_depend_on_threads(program: Path) -> None:
    one, many = (generate(open_image(program), jobs=jobs) for jobs in (1, 5))
    assert (one.base, one.inline) == (many.base, many.inline)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_every_dialect_is_recognised(program: Path, dialect: Dialect) -> None:
    made = generate(open_image(program), Settings(locsec=LocsecSettings(dialect)))
    assert made.base is not None
    assert made.inline is not None
    inline = Btf(made.inline, Btf(made.base))
    assert inline.dialect is dialect
    assert validate(inline, strict=True) == []
    assert made.report is not None
    assert made.report.located + made.report.reasons.total() + made.report.doubts.total() == made.report.parameters


def frame_registers(path: Path) -> dict[str, tuple[int, int]]:
    """Functions whose DW_AT_frame_base is a register, as clang has it, with its number and 0."""
    with path.open("rb") as file:
        found = {}
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            for entry in unit.iter_DIEs():
                base = entry.attributes.get("DW_AT_frame_base")
                if base is not None and len(base.value) == 1 and 0x50 <= base.value[0] < 0x70:
                    found[entry.attributes["DW_AT_name"].value.decode()] = base.value[0] - 0x50, 0
        return found


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc", ("-O2", "-no-pie")),
        ("gcc", ("-O3", "-gdwarf-4", "-no-pie")),
        ("clang-19", ("-O2", "-no-pie")),
        ("aarch64-linux-gnu-gcc", ("-O2", *BARE)),
        ("s390x-linux-gnu-gcc", ("-O2", *BARE)),
    ],
)  # fmt: skip
def test_values_are_those_of_the_expressions(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Each LOC_PARAM under random registers and memory, against a plain stack machine on pyelftools' expressions."""
    path = build(tmp_path, compiler, list(flags))
    sites, image = made_sites(path, Settings(doubtful=True))
    order = "little" if image.program.little_endian else "big"
    by_place = {(other.function, other.address): other for other in OtherReader(path).sites()}
    frames = frame_registers(path)
    seen = 0
    rng = random.Random(7)
    for site in sites:
        other = by_place.get((site.function, site.address))
        assert other is not None
        if sum(1 for same in sites if (same.function, same.address) == (site.function, site.address)) > 1:
            continue
        for parameter in site.parameters:
            expression = other.expressions.get(parameter.name)
            if not isinstance(parameter.location, Location) or expression is None:
                continue
            operations = decode(expression, address_size=8, offset_size=4, little_endian=order == "little", version=5)
            cfa = image.dwarf.cfa(site.address)
            for _ in range(5):
                registers = {number: rng.getrandbits(64) for number in range(70)}
                seed = rng.getrandbits(32)

                def memory(address: int, size: int, seed: int = seed) -> bytes:
                    return bytes(
                        random.Random((address + i & (1 << 64) - 1) ^ seed).getrandbits(8) for i in range(size)
                    )

                number, offset = frames.get(other.parents[-1], cfa or (0, 0))
                frame = (registers[number] + offset) & (1 << 64) - 1
                right = stack_machine.run(
                    operations, registers, memory, size=parameter.type.size, frame=frame, order=order
                )
                assert parameter.location.read(registers, memory) == right, (site, parameter)
                seen += 1
    assert seen >= 25


@pytest.mark.parametrize("source", ["assembler", "nothing"])
def test_files_with_nothing_to_say(source: str, tmp_path: Path) -> None:
    if source == "assembler":
        path = build(tmp_path, "gcc", ["-x", "assembler"], link=False, sources={"a.s": ".text\nf: nop\n ret\n"})
    else:
        path = build(tmp_path, "gcc", ["-O2"], link=False, sources={"a.c": "int f(int a) { return a + 1; }"})
    made = generate(open_image(path))
    assert made.base is not None
    assert made.inline is not None
    inline = Btf(made.inline, Btf(made.base))
    assert (inline.end_id - inline.start_id, made.report and made.report.sites) == (0, 0)
