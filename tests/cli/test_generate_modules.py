"""``generate -m`` with the modules of a distribution kernel, below a root of the test's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.cli import run
from inlinetrace.sites.from_btf import BtfSites
from inlinetrace.target import open_image
from tests.generate.ordinary import kept_sites
from tests.kernels import Kernel
from tests.target.machine import Machine

pytestmark = pytest.mark.kernel

MADE = ("dummy", "loop", "tun", "veth")
STRIPPED = "overlay"
BROKEN = "xfs"


@pytest.fixture
def machine(distribution_kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a handful of modules: one whose DWARF is not installed, one whose DWARF is cut off."""
    machine = Machine(tmp_path, XDG_CACHE_HOME="/cache")
    machine.write("/proc/sys/kernel/osrelease", distribution_kernel.release + "\n")
    machine.kernel()
    for name in (*MADE, STRIPPED, BROKEN):
        for top, place in (
            (distribution_kernel.modules, "/lib/modules"), (distribution_kernel.debug_modules, "/debug/lib/modules")
        ):  # fmt: skip
            (path,) = (path for path in top.rglob(f"{name}.ko*") if path.name.split(".")[0] == name)
            if top == distribution_kernel.debug_modules and name == STRIPPED:
                continue
            target = machine.path(f"{place}/{distribution_kernel.release}") / path.relative_to(top)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            if top == distribution_kernel.debug_modules and name == BROKEN:
                _break(target)
    monkeypatch.setattr("inlinetrace.target.host.Host", lambda: machine.host)
    return machine


def _break(path: Path) -> None:
    """Overwrite the abbreviations, which nothing else in the file depends on."""
    elf = open_image(path).debug
    section = elf.section(".debug_abbrev")
    assert section is not None
    with path.open("r+b") as file:
        file.seek(section.offset)
        file.write(b"\xff" * section.size)


def generate(machine: Machine, kernel: Kernel, *modules: str) -> tuple[int, Path]:
    out = machine.path("/out")
    options = [option for module in modules for option in ("-m", module)]
    code = run(
        ["generate", *options, "-B", str(kernel.vmlinux), "--debug-root", "/debug", "-o", str(out), "--no-cache"]
    )
    return code, out


def _check(out: Path, name: str, kernel: Kernel) -> None:
    """What was made of a module says of its sites what its DWARF says."""
    base = load(str(kernel.vmlinux))
    types = Btf((out / f"{name}.BTF").read_bytes(), base)
    inline = Btf((out / f"{name}.BTF.inline").read_bytes(), types)
    assert validate(types, strict=True) == []
    assert validate(inline, strict=True) == []
    (path,) = (path for path in kernel.debug_modules.rglob(f"{name}.ko*") if path.name.split(".")[0] == name)
    image = open_image(path, module=name)
    reader = BtfSites(inline, image.machine)
    rows = reader.select(["*"])
    assert sorted(site.function for site in reader.build(rows)) == sorted(
        site.function for _, _, site in kept_sites(image)
    )


def test_one_module(machine: Machine, distribution_kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = generate(machine, distribution_kernel, "veth")
    assert code == 0
    assert sorted(os.listdir(out)) == ["veth.BTF", "veth.BTF.inline"]
    assert "parameters located" in capsys.readouterr().err
    _check(out, "veth", distribution_kernel)


def test_a_bad_one_does_not_lose_the_others(
    machine: Machine, distribution_kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = generate(machine, distribution_kernel, BROKEN, "no_such_module", "veth", STRIPPED, "tun")
    assert code == 1
    assert sorted(os.listdir(out)) == ["tun.BTF", "tun.BTF.inline", "veth.BTF", "veth.BTF.inline"]
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("inlinetrace: ")]
    assert len(errors) == 3
    assert ".debug_abbrev" in errors[0]
    assert "no module no_such_module" in errors[1]
    assert f"no DWARF for module {STRIPPED}" in errors[2]


def test_all_of_them(
    machine: Machine,
    distribution_kernel: Kernel,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads: list[str] = []

    def counted(path: str, bases: list[str]) -> Btf:
        loads.append(path)
        return load(path, bases)

    monkeypatch.setattr("inlinetrace.btf.load.load", counted)
    code, out = generate(machine, distribution_kernel, "all")
    assert code == 1
    assert loads == [str(distribution_kernel.vmlinux)]
    text = capsys.readouterr().err.splitlines()
    assert text[-1] == f"{len(MADE)} of {len(MADE) + 2} modules made, 1 without DWARF, 1 failed"
    assert sorted(os.listdir(out)) == sorted(f"{name}.BTF{ending}" for name in MADE for ending in ("", ".inline"))
    for name in MADE:
        _check(out, name, distribution_kernel)
