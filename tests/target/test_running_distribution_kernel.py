"""Distribution kernels as if they ran here: real files, the run-time facts made up, addresses held against nm's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from inlinetrace.cli import run
from inlinetrace.elf.file import ElfFile
from inlinetrace.sites.model import Site
from inlinetrace.target.image import open_image
from inlinetrace.target.running import open_running_kernel, open_running_module
from tests.kernels import Kernel
from tests.target.machine import Machine

pytestmark = pytest.mark.kernel

SLIDE = 0x2A00000
MODULE = "tcp_bbr"


def addresses(file: Path) -> dict[str, int]:
    """nm's word; names that occur more than once are left out."""
    found: dict[str, int] = {}
    repeated = set()
    for line in subprocess.run(["nm", str(file)], check=True, capture_output=True, text=True).stdout.splitlines():
        *value, _, name = line.split()
        if name in found:
            repeated.add(name)
        if value:
            found[name] = int(value[0], 16)
    return {name: address for name, address in found.items() if name not in repeated}


def build_id(file: Path) -> bytes:
    """readelf's word."""
    text = subprocess.run(["readelf", "-n", str(file)], check=True, capture_output=True, text=True).stdout
    return bytes.fromhex(text.partition("Build ID: ")[2].split()[0])


def machine_with(kernel: Kernel, root: Path) -> Machine:
    """A machine that runs a distribution kernel, moved by SLIDE."""
    machine = Machine(root)
    machine.write("/proc/sys/kernel/osrelease", kernel.release + "\n")
    symbols = addresses(kernel.vmlinux)
    machine.kernel(build_id(kernel.vmlinux), stext=symbols["_stext"] + SLIDE)
    for place, target in (
        (f"/usr/lib/debug/boot/vmlinux-{kernel.release}", kernel.vmlinux),
        (f"/usr/lib/debug/lib/modules/{kernel.release}", kernel.debug_modules),
        (f"/lib/modules/{kernel.release}", kernel.modules),
    ):
        machine.path(place).parent.mkdir(parents=True, exist_ok=True)
        machine.path(place).symlink_to(target)
    return machine


def without_address(sites: list[Site]) -> list[Site]:
    """Sites without what differs between a file and what was loaded of it."""
    return [site._replace(address=0) for site in sites]


def test_sites_of_the_running_kernel(distribution_kernel: Kernel, tmp_path: Path) -> None:
    machine = machine_with(distribution_kernel, tmp_path)
    image = open_running_kernel(machine.host)
    symbols = addresses(distribution_kernel.vmlinux)
    sites = list(image.sites(["vfs_llseek"]))
    assert sum(site.inlined for site in sites) >= 3
    for site in sites:
        assert site.symbol is not None
        assert site.symbol_offset is not None
        assert site.address == symbols[site.symbol] + SLIDE + site.symbol_offset
    by_file = list(open_image(distribution_kernel.vmlinux).sites(["vfs_llseek"]))
    assert without_address(by_file) == without_address(sites)
    assert {a.address - b.address for a, b in zip(sites, by_file, strict=True)} == {SLIDE}


def test_sites_of_a_loaded_module(distribution_kernel: Kernel, tmp_path: Path) -> None:
    machine = machine_with(distribution_kernel, tmp_path)
    debug = distribution_kernel.debug_module(MODULE)
    assert debug is not None
    text = 0xFFFFFFFFC0700000
    others = {
        section.name: text + 0x10000 * section.index
        for section in ElfFile.open(debug).sections
        if section.executable and section.name != ".text"
    }
    machine.module(MODULE, build_id(debug), text=text, sections=others)
    image = open_running_module(machine.host, MODULE.replace("_", "-"))
    sites = [site for site in image.sites() if site.section == ".text"]
    symbols = addresses(debug)
    assert len(sites) > 20
    named = [site for site in sites if site.symbol in symbols]
    assert len(named) > 20
    for site in named:
        # nm gives offsets in the section.
        assert site.address == text + symbols[site.symbol or ""] + (site.symbol_offset or 0)
    assert {site.module for site in sites} == {MODULE}
    by_file = list(open_image(debug, module=MODULE).sites())
    assert without_address(by_file) == without_address(list(image.sites()))


def test_freed_sections_are_told(
    distribution_kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = machine_with(distribution_kernel, tmp_path)
    debug = distribution_kernel.debug_module("xfs")
    assert debug is not None
    text, init = 0xFFFFFFFFC0700000, 0xFFFFFFFFC0F00000
    machine.module("xfs", build_id(debug), text=text, sections={".init.text": init})
    monkeypatch.setattr("inlinetrace.target.host.Host", lambda: machine.host)
    assert run(["list", "*", "--section", ".init.text", "--json", "-m", "xfs"]) == 0
    done = capsys.readouterr()
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert rows
    assert {row["address_kind"] for row in rows} == {"section-offset"}
    assert all(int(row["address"], 16) == row["section_offset"] for row in rows)
    assert f"{len(rows)} are in sections that are not in memory" in done.err
