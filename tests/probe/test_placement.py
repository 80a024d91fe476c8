"""Probes in modules: addressed by section, whether the kernel shows or hides where these are."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace.cli.probe import _require_loaded, module_watch
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import MismatchError, NotFoundError
from inlinetrace.probe import emit
from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.events import Decoder
from inlinetrace.probe.placement import KernelPlacement, settle
from inlinetrace.probe.plan import Plan, Probe, Refusal, definition
from inlinetrace.probe.target import plan_image
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Encoding, Parameter, Site, TypeName
from inlinetrace.sites.nodes import Node, Op
from inlinetrace.sites.reasons import Reason, Unavailable
from inlinetrace.target import open_image
from inlinetrace.target.image import Image
from inlinetrace.target.loaded import LoadedKernel, LoadedModule
from tests.target.machine import BUILD_ID, LINKED_AT, OTHER_BUILD_ID, Machine, elf

pytestmark = pytest.mark.compiled

# work() is there twice, as a static function may be; the cold part of late() is in a section of its own.
SOURCE = """
volatile long sink;
static long numbers[4] = {1, 2, 3, 4};
static __attribute__((section(".other"))) long others[4];
static inline __attribute__((always_inline)) void take(const long *p, long n) { sink += n; asm volatile("" :: "r"(p)); }
__attribute__((noinline)) void early(long n) { take(numbers, n); }
__attribute__((noinline, section(".text.unlikely"))) void late(long n) { take(others, n); take(0, n + 1); }
"""
TWICE = 'static __attribute__((noinline, used)) void work(long n) { asm volatile("" :: "r"(n)); }\n'
TEXT, UNLIKELY, DATA = 0xFFFFFFFFC0301000, 0xFFFFFFFFC0305000, 0xFFFFFFFFC0309000


@pytest.fixture
def module(compiler: Callable[..., Path], tmp_path: Path) -> Path:
    flags = ("-O2", "-c", "-mcmodel=kernel", "-fno-pic", "-fcf-protection=branch")
    one = compiler(SOURCE + TWICE, *flags, name="one.o")
    two = compiler(TWICE, *flags, name="two.o")
    path = tmp_path / "shapes.ko"
    subprocess.run(["ld", "-r", one, two, "-o", path], check=True)
    return path


def plan_module(
    path: Path, functions: tuple[str, ...], sections: dict[str, int] | None
) -> tuple[Plan, DwarfTypes, Image]:
    image = open_image(str(path), module="shapes")
    if sections is not None:
        image.loaded = LoadedModule(sections)
    types = DwarfTypes(image.dwarf.dies, image.debug.machine)
    return plan_image(image, image.sites(functions), types, kernel=True, everything=True), types, image


def of(plan: Plan, caller: str) -> list[Probe]:
    return [probe for probe in plan.probes if probe.hits[0].site.symbol == caller]


def values(probe: Probe) -> dict[str, Location | Unavailable]:
    return {
        item.label: item.recipe if isinstance(item.recipe, Unavailable) else item.recipe.location
        for item in probe.hits[0].items
    }


def disassembled(path: Path, function: str) -> int:
    """Where objdump has a function in its section."""
    text = subprocess.run(["objdump", "-t", path], capture_output=True, text=True, check=True).stdout
    (address,) = [int(line.split()[0], 16) for line in text.splitlines() if line.endswith(f" {function}")]
    return address


KNOWN = {".text": TEXT, ".text.unlikely": UNLIKELY, ".data": DATA, ".other": DATA + 0x800}


@pytest.mark.parametrize("sections", [KNOWN, None])
def test_probes_of_a_module_count_from_a_symbol_of_their_section(module: Path, sections: dict[str, int] | None) -> None:
    plan, _, _ = plan_module(module, ("take",), sections)
    assert plan.module == "shapes"
    assert plan.refused == []
    lines = [definition(plan, event, probe, "g") for event in plan.events for probe in event.probes]
    assert {re.findall(r" (shapes:\w+)\+0x[0-9a-f]+ ", line)[0] for line in lines} == {"shapes:early", "shapes:late"}
    for caller in ("early", "late"):
        for probe in of(plan, caller):
            assert probe.anchor == f"shapes:{caller}"
            assert probe.offset == probe.hits[0].site.symbol_offset
    assert "kprobe:shapes:early+" in "\n".join(
        emit.bpftrace_program(plan, open_image(str(module)).machine, _types(module))
    )


def _types(path: Path) -> DwarfTypes:
    image = open_image(str(path))
    return DwarfTypes(image.dwarf.dies, image.debug.machine)


def test_a_name_that_is_there_twice_is_no_anchor(module: Path) -> None:
    plan, _, _ = plan_module(module, ("work",), KNOWN)
    assert len(plan.probes) == 2
    assert {probe.anchor for probe in plan.probes} == {"shapes:early"}
    text = subprocess.run(["nm", module], capture_output=True, text=True, check=True).stdout
    starts = sorted(int(line.split()[0], 16) for line in text.splitlines() if line.endswith(" work"))
    early = disassembled(module, "early")
    assert sorted(probe.offset + early for probe in plan.probes) == starts


def test_a_section_without_a_usable_symbol_is_refused(compiler: Callable[..., Path]) -> None:
    path = compiler(TWICE + TWICE.replace("work", "other"), "-O2", "-c", name="plain.o")
    image = open_image(str(path), module="plain")
    types = DwarfTypes(image.dwarf.dies, image.debug.machine)
    sites = list(image.sites(["work"]))
    assert plan_image(image, sites, types, kernel=True).refused == []
    stripped = path.with_name("renamed.o")
    renames = ["--redefine-sym", "work=a+b", "--redefine-sym", "other=a:b"]
    subprocess.run(["objcopy", *renames, path, stripped], check=True)
    image = open_image(str(stripped), module="plain")
    (refused,) = plan_image(image, list(image.sites(["work"])), types, kernel=True).refused
    assert refused.refusal is Refusal.NO_SYMBOL


def test_addresses_in_other_sections_are_those_of_these_sections(module: Path) -> None:
    plan, _, _ = plan_module(module, ("take",), KNOWN)
    (probe,) = of(plan, "early")
    location = values(probe)["p"]
    assert isinstance(location, Location)
    data = subprocess.run(["nm", module], capture_output=True, text=True, check=True).stdout
    (numbers,) = [int(line.split()[0], 16) for line in data.splitlines() if line.endswith(" numbers")]
    # whatever the load bias of the code is
    assert location.evaluate([], load_bias=0x1234) == (DATA + numbers).to_bytes(8, "little")
    hidden, _, _ = plan_module(module, ("take",), None)
    missing = values(of(hidden, "early")[0])["p"]
    assert isinstance(missing, Unavailable)
    assert missing.reason is Reason.HIDDEN_ADDRESS
    assert missing.detail == "where .data of shapes is, is not known"


def test_hits_of_a_module_that_was_loaded_elsewhere_are_dropped(module: Path) -> None:
    plan, types, image = plan_module(module, ("take",), KNOWN)
    decoder = Decoder(plan, types)
    (probe,) = of(plan, "early")
    section = image.program.section(".text")
    assert section is not None
    runtime = TEXT + probe.address - section.address
    fields = tuple(7 for _ in probe.arguments)
    (hit,) = decoder.hits((1, 0, 4242, probe.number, runtime, (*fields, b"x")))
    assert hit.site.address + hit.load_bias == runtime
    assert decoder.hits((1, 0, 4242, probe.number, runtime + 0x1000, (*fields, b"x"))) == []


def test_a_probe_on_endbr_is_moved_behind_it(module: Path) -> None:
    plan, types, _ = plan_module(module, ("early",), KNOWN)
    (probe,) = plan.probes
    assert probe.shift == 4
    (hit,) = Decoder(plan, types).hits(
        (1, 0, 4242, probe.number, TEXT + disassembled(module, "early") + 4, (7,) * len(probe.arguments) + (b"x",))
    )
    assert hit.site.address + hit.load_bias == TEXT + disassembled(module, "early")


def test_addresses_of_a_location_are_replaced_one_by_one() -> None:
    location = Location((Node(Op.ADDRESS, 0x10), Node(Op.ADDRESS, 0x20), Node(Op.SUB, 0, 1)), 8)
    moved = location.with_addresses(lambda address: 0x1000 if address == 0x10 else None)
    assert isinstance(moved, Location)
    assert moved.evaluate([], load_bias=0x100) == (0x1000 - 0x120).to_bytes(8, "little")
    nothing = Unavailable(Reason.HIDDEN_ADDRESS)
    assert location.with_addresses(lambda address: nothing) is nothing
    plain = Location.register(3, size=8)
    assert plain.with_addresses(lambda address: nothing) is plain


def test_per_cpu_variables_of_a_kernel_are_not_moved_and_not_read() -> None:
    image = _image(elf(BUILD_ID))
    image.loaded = LoadedKernel("_stext", LINKED_AT, LINKED_AT + 0x1200000)
    placement = KernelPlacement(image)
    offset, text, data = Node(Op.ADDRESS, 0x10), Node(Op.ADDRESS, LINKED_AT + 4), Node(Op.ADDRESS, 0x7000)

    def settled(*nodes: Node) -> Location | Unavailable:
        name = TypeName("long", 8, Encoding.SIGNED, True, 0)
        site = Site("f", True, LINKED_AT, ".text", 0, None, None, "void", (Parameter("p", name, Location(nodes, 8)),))
        return settle(site, placement).parameters[0].location

    bias = image.load_bias
    assert bias == 0x1200000
    location = settled(offset)
    assert isinstance(location, Location)
    assert location.evaluate([], load_bias=bias) == (0x10).to_bytes(8, "little")
    location = settled(text)
    assert isinstance(location, Location)
    assert location.evaluate([], load_bias=bias) == (LINKED_AT + 4 + bias).to_bytes(8, "little")
    read = settled(offset, Node(Op.LOAD, 0, 8))
    assert isinstance(read, Unavailable)
    assert "per-CPU" in read.detail
    nowhere = settled(data)
    assert isinstance(nowhere, Unavailable)
    assert nowhere.reason is Reason.UNDEFINED_SYMBOL


def _image(data: bytes) -> Image:
    file = ElfFile.from_bytes(data)
    return Image("vmlinux", file, file, None, (), None)


def _folder(path: Path) -> Path:
    folder = path / "machine"
    folder.mkdir()
    return folder


def with_build_id(path: Path) -> Path:
    """What the kernel's build does: a module with the build id of its link."""
    linked = path.with_name("identified.ko")
    subprocess.run(["ld", "-r", f"--build-id=0x{BUILD_ID.hex()}", path, "-o", linked], check=True)
    return linked.rename(path)


def test_a_module_has_to_be_the_one_that_is_loaded(
    module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(_folder(tmp_path))
    machine.kernel()
    image = open_image(str(with_build_id(module)), module="shapes")
    with pytest.raises(NotFoundError, match=r"shapes\.ko: module shapes is not loaded: its code cannot be traced"):
        _require_loaded(machine.host, image, from_file=True)
    machine.module("shapes", OTHER_BUILD_ID, text=TEXT)
    with pytest.raises(MismatchError, match=BUILD_ID.hex()):
        _require_loaded(machine.host, image, from_file=True)
    machine.module("shapes", BUILD_ID, text=TEXT, sections={".data": DATA})
    _require_loaded(machine.host, image, from_file=True)
    section = image.program.section(".data")
    assert section is not None
    assert image.runtime_address(section.address + 8) == DATA + 8
    assert capsys.readouterr().err == ""


def test_a_module_whose_addresses_are_hidden_says_so(
    module: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(_folder(tmp_path))
    machine.kernel(stext=0)
    machine.write("/proc/sys/kernel/kptr_restrict", "2\n")
    machine.module("shapes", BUILD_ID, text=0)
    image = open_image(str(with_build_id(module)), module="shapes")
    _require_loaded(machine.host, image, from_file=True)
    assert image.loaded is None
    (line,) = capsys.readouterr().err.splitlines()
    assert "those of module shapes are hidden (kernel.kptr_restrict is 2" in line


def test_a_module_is_watched(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.module("shapes", BUILD_ID, text=TEXT)
    watch = module_watch(machine.host, "shapes")
    assert watch() is None
    place = machine.path("/sys/module/shapes")
    place.rename(machine.path("/sys/module/gone"))
    assert watch() == "module shapes was unloaded: the trace ends"
    machine.module("shapes", BUILD_ID, text=TEXT)
    assert watch() == "module shapes was loaded again: the trace ends"
