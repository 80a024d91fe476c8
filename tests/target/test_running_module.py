"""Modules by name, on a machine that is a directory."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from inlinetrace.elf.debugfile import Attempt
from inlinetrace.errors import FormatError, MismatchError, NotFoundError, UnsupportedError
from inlinetrace.target.image import Image, open_image
from inlinetrace.target.loaded import AddressKind
from inlinetrace.target.modules import (
    find_module_file,
    is_module_file,
    loaded_modules,
    module_build_id,
    module_name,
    section_addresses,
)
from inlinetrace.target.running import open_running_module, resolve_running
from tests.target.machine import BUILD_ID, OTHER_BUILD_ID, RELEASE, Machine, elf

TOP = f"/lib/modules/{RELEASE}"
KO = f"{TOP}/kernel/net/nf-nat.ko"
DEBUG = f"/usr/lib/debug{KO}"
TEXT = 0xFFFFFFFFC0301000
MODULE = elf(BUILD_ID, relocatable=True)
STRIPPED = elf(BUILD_ID, relocatable=True, dwarf=False)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.kernel()
    machine.write(KO, STRIPPED)
    machine.write(DEBUG, MODULE)
    machine.write(f"{TOP}/modules.dep", "kernel/fs/a.ko:\nkernel/net/nf-nat.ko: kernel/fs/a.ko\n")
    machine.module("nf_nat", text=TEXT, sections={".data": TEXT + 0x2000, ".init.text": TEXT + 0x8000})
    return machine


def start(image: Image, section: str) -> int:
    """Where the file has a section."""
    found = image.debug.section(section)
    assert found is not None
    return found.address


@pytest.mark.parametrize("name", ["nf_nat", "nf-nat"])
def test_a_loaded_module_by_name(machine: Machine, name: str) -> None:
    image = open_running_module(machine.host, name)
    assert image.module == "nf_nat"
    assert image.program.path == str(machine.path(KO))
    assert image.debug.path == str(machine.path(DEBUG))
    text = start(image, ".text")
    assert image.known_as(text + 0x14) == TEXT + 0x14
    assert image.symbol(text + 0x14) == ("work", 4)
    assert image.name_address(start(image, ".data") + 8) == hex(TEXT + 0x2008)
    assert image.address_kind(".text") is AddressKind.RUN_TIME
    assert image.notices == []


def test_sections_freed_after_initialisation_have_no_address(machine: Machine) -> None:
    image = open_running_module(machine.host, "nf_nat")
    assert image.known_as(start(image, ".init.text") + 4) == 4
    assert image.address_kind(".init.text") is AddressKind.SECTION_OFFSET


def test_they_have_one_while_the_module_is_loading(machine: Machine) -> None:
    machine.write("/sys/module/nf_nat/initstate", "coming\n")
    image = open_running_module(machine.host, "nf_nat")
    assert image.known_as(start(image, ".init.text") + 4) == TEXT + 0x8004


def test_loaded_again_elsewhere(machine: Machine) -> None:
    machine.unload("nf_nat")
    machine.module("nf_nat", text=TEXT + 0x10000)
    image = open_running_module(machine.host, "nf_nat")
    assert image.known_as(start(image, ".text")) == TEXT + 0x10000


def test_a_module_that_is_not_loaded_has_offsets(machine: Machine) -> None:
    machine.unload("nf_nat")
    image = open_running_module(machine.host, "nf_nat")
    assert image.known_as(start(image, ".text") + 0x14) == 0x14
    assert image.address_kind(".text") is AddressKind.SECTION_OFFSET
    (notice,) = image.notices
    assert "nf_nat is not loaded" in notice


def test_hidden_addresses_leave_the_offsets(machine: Machine) -> None:
    machine.module("nf_nat", text=0)
    image = open_running_module(machine.host, "nf_nat")
    assert image.known_as(start(image, ".text") + 0x14) == 0x14
    (notice,) = image.notices
    assert "kernel.kptr_restrict" in notice


@pytest.mark.parametrize("suffix", [".xz", ".gz", ".zst"])
def test_compressed_modules(machine: Machine, suffix: str) -> None:
    import zstandard

    compressed = {
        ".xz": lzma.compress(STRIPPED),
        ".gz": gzip.compress(STRIPPED),
        ".zst": zstandard.ZstdCompressor().compress(STRIPPED),
    }[suffix]
    machine.path(KO).unlink()
    machine.write(KO + suffix, compressed)
    machine.write(f"{TOP}/modules.dep", f"kernel/net/nf-nat.ko{suffix}:\n")
    image = open_running_module(machine.host, "nf_nat")
    assert image.program.path == str(machine.path(KO + suffix))
    assert image.debug.path == str(machine.path(DEBUG))


@pytest.mark.parametrize(
    "place",
    [
        KO,
        KO + ".debug",
        f"/usr/lib/debug/usr{KO}.debug",
        f"/usr/lib/debug/.build-id/{BUILD_ID.hex()[:2]}/{BUILD_ID.hex()[2:]}.debug",
        f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo",
    ],
)
def test_places_of_the_debug_file(machine: Machine, place: str) -> None:
    machine.path(DEBUG).unlink()
    machine.write(place, MODULE)
    assert open_running_module(machine.host, "nf_nat").debug.path == str(machine.path(place))


def test_a_module_without_its_file_is_found_by_build_id(machine: Machine) -> None:
    machine.path(KO).unlink()
    place = machine.write(f"/usr/lib/debug/.build-id/{BUILD_ID.hex()[:2]}/{BUILD_ID.hex()[2:]}.debug", MODULE)
    assert open_running_module(machine.host, "nf_nat").debug.path == str(place)


def test_the_cache_does_not_hide_the_instructions(machine: Machine) -> None:
    machine.path(DEBUG).unlink()
    place = machine.write(
        f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo", elf(BUILD_ID, relocatable=True, code=False)
    )
    for _ in range(2):
        image = open_running_module(machine.host, "nf_nat")
        assert image.debug.path == str(place)
        assert image.program.path == str(machine.path(KO))
    assert machine.path(f"/root/.cache/inlinetrace/{BUILD_ID.hex()}/debug-file.json").exists()


def test_files_of_another_build_are_refused(machine: Machine) -> None:
    machine.module("nf_nat", OTHER_BUILD_ID)
    with pytest.raises(MismatchError, match=f"{BUILD_ID.hex()}, the loaded module nf_nat has {OTHER_BUILD_ID.hex()}"):
        open_running_module(machine.host, "nf_nat")


def test_a_kernel_that_tells_no_build_id(machine: Machine) -> None:
    machine.path("/sys/module/nf_nat/notes/.note.gnu.build-id").unlink()
    with pytest.raises(UnsupportedError, match="-m FILE"):
        open_running_module(machine.host, "nf_nat")


def test_unknown_modules(machine: Machine) -> None:
    with pytest.raises(NotFoundError, match=f"no module nothing is loaded or below /lib/modules/{RELEASE}"):
        open_running_module(machine.host, "nothing")


def test_built_in_modules(machine: Machine) -> None:
    machine.write(f"{TOP}/modules.builtin", "kernel/fs/ext4/ext4.ko\n")
    with pytest.raises(NotFoundError, match="ext4 is built into the kernel"):
        open_running_module(machine.host, "ext4")


def test_what_to_install(machine: Machine) -> None:
    machine.path(DEBUG).unlink()
    machine.write("/etc/os-release", "ID=debian\n")
    tried: list[Attempt] = []
    with pytest.raises(NotFoundError, match=f"no DWARF for module nf_nat .*apt install linux-image-{RELEASE}-dbg"):
        open_running_module(machine.host, "nf_nat", report=tried.append)
    assert tried[0] == Attempt(KO, "it has no .debug_info")
    assert Attempt(DEBUG, "no such file") in tried


def test_a_module_of_ones_own_is_not_in_any_package(machine: Machine) -> None:
    machine.write(f"{TOP}/extra/own.ko", STRIPPED)
    machine.module("own")
    with pytest.raises(NotFoundError, match="build it with -g"):
        open_running_module(machine.host, "own")
    machine.module("elsewhere")
    with pytest.raises(NotFoundError, match="name it with -m FILE"):
        open_running_module(machine.host, "elsewhere")


class TestAFileThatIsLoaded:
    """--loaded: run-time addresses for a module that was named as a file."""

    def test_its_addresses_are_run_time_ones(self, machine: Machine) -> None:
        image = open_image(machine.write("/srv/nf-nat.ko", MODULE), module="nf_nat")
        resolve_running(image, machine.host)
        assert image.known_as(start(image, ".text") + 1) == TEXT + 1

    def test_another_build_is_refused(self, machine: Machine) -> None:
        image = open_image(machine.write("/srv/nf-nat.ko", elf(OTHER_BUILD_ID, relocatable=True)), module="nf_nat")
        with pytest.raises(MismatchError, match=rf"{OTHER_BUILD_ID.hex()}.*{BUILD_ID.hex()}"):
            resolve_running(image, machine.host)

    def test_it_must_be_loaded(self, machine: Machine) -> None:
        machine.unload("nf_nat")
        image = open_image(machine.write("/srv/nf-nat.ko", MODULE), module="nf_nat")
        with pytest.raises(NotFoundError, match="nf_nat is not loaded"):
            resolve_running(image, machine.host)


class TestModuleLists:
    """/proc/modules, /sys/module and /lib/modules."""

    def test_loaded_modules(self, machine: Machine) -> None:
        machine.write(
            "/proc/modules",
            "xfs 2097152 1 - Live 0xffffffffc0500000\nmy 16384 0 a,b, Loading 0x0000000000000000 (OE+)\n",
        )
        found = loaded_modules(machine.host)
        assert found["xfs"] == ("xfs", 2097152, "Live", 0xFFFFFFFFC0500000)
        assert found["my"] == ("my", 16384, "Loading", None)

    @pytest.mark.parametrize("line", ["xfs\n", "xfs big 1 - Live 0x0\n", "xfs 1 1 - Live here\n"])
    def test_malformed_lines(self, machine: Machine, line: str) -> None:
        machine.write("/proc/modules", line)
        with pytest.raises(FormatError, match="line 1"):
            loaded_modules(machine.host)

    def test_a_kernel_without_modules(self, tmp_path: Path) -> None:
        assert loaded_modules(Machine(tmp_path).host) == {}

    def test_sections(self, machine: Machine) -> None:
        assert section_addresses(machine.host, "nf-nat") == {".text": TEXT, ".data": TEXT + 0x2000}
        assert section_addresses(machine.host, "nothing") is None
        machine.write("/sys/module/nf_nat/sections/.text", "nowhere\n")
        with pytest.raises(FormatError, match="no address"):
            section_addresses(machine.host, "nf_nat")

    def test_build_ids(self, machine: Machine) -> None:
        assert module_build_id(machine.host, "nf-nat") == BUILD_ID
        assert module_build_id(machine.host, "nothing") is None
        machine.write("/sys/module/nf_nat/notes/.note.gnu.build-id", b"\4\0\0\0\xff\xff\0\0\3\0\0\0GNU\0")
        with pytest.raises(FormatError):
            module_build_id(machine.host, "nf_nat")

    def test_files_without_modules_dep(self, machine: Machine) -> None:
        machine.path(f"{TOP}/modules.dep").unlink()
        assert find_module_file(machine.host, "nf_nat", RELEASE) == KO
        machine.write(f"{TOP}/updates/dkms/nf_nat.ko.zst", b"")
        assert find_module_file(machine.host, "nf-nat", RELEASE) == f"{TOP}/updates/dkms/nf_nat.ko.zst"
        assert find_module_file(machine.host, "nothing", RELEASE) is None

    def test_a_stale_modules_dep(self, machine: Machine) -> None:
        machine.write(f"{TOP}/modules.dep", "kernel/net/gone/nf-nat.ko:\n")
        assert find_module_file(machine.host, "nf_nat", RELEASE) == KO

    def test_names(self) -> None:
        assert module_name("/lib/modules/kernel/nf-nat.ko.xz") == "nf_nat"
        assert [is_module_file(text) for text in ("nf_nat", "nf-nat", "./nf-nat", "a.ko", "a.ko.xz", "a.o")] == [
            False, False, True, True, True, True,
        ]  # fmt: skip
