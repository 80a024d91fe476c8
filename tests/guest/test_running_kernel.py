"""The running kernel as input, on real kernels: held against llvm-dwarfdump on the host and /proc/kallsyms here.

Reading a whole vmlinux takes a while under emulation, so each look at it serves several checks.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.errors import NotPermittedError
from inlinetrace.target.host import Host
from inlinetrace.target.kallsyms import Kallsyms
from inlinetrace.target.requirements import lockdown, require_kprobes, require_uprobes
from tests.guest import oracle
from tests.guest.faults import LOCKDOWN, Run, run
from tests.guest.host import from_host
from tests.guest.testmodule import FILE, NAME, InlineShapes, kallsyms
from tests.kernels import Kernel

MODULE = "tcp_bbr"


@from_host
def llseek_in_ksys_lseek(kernel: Kernel) -> list[dict[str, Any]]:
    """The inlined copies of vfs_llseek in ksys_lseek."""
    return oracle.inlined(kernel.vmlinux, caller="ksys_lseek", function="vfs_llseek")


def listed(*arguments: str) -> tuple[list[dict[str, Any]], str]:
    """The rows of ``inlinetrace list --json``, and what was said on stderr."""
    done = run("inlinetrace", "list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what tells a run-time address from one of the file."""
    return [{key: value for key, value in row.items() if key not in ("address", "address_kind")} for row in rows]


def address(row: dict[str, Any]) -> int:
    """The address of a row."""
    return int(row["address"], 16)


def vmlinux() -> str:
    """The debug file of the kernel that runs."""
    return f"/usr/lib/debug/boot/vmlinux-{os.uname().release}"


@pytest.mark.guest(kaslr=(True, False), timeout=300)
def test_the_running_kernel_and_its_file_have_the_same_sites() -> None:
    running, said = listed("vfs_llseek", "-v")
    assert f"{vmlinux()}: found" in said
    stext = kallsyms("_stext")
    found = {address(row) - stext for row in running if row["inlined"] and row["symbol"] == "ksys_lseek"}
    assert found == {site["offset"] for site in llseek_in_ksys_lseek()}
    table = Kallsyms.read(Host())
    symbols = {name: kallsyms(name) for name in {row["symbol"] for row in running}}
    for row in running:
        assert row["address_kind"] == "run-time"
        assert address(row) == symbols[row["symbol"]] + row["symbol_offset"]
        around = table.lookup(address(row))
        assert around is not None
        assert (around[0].address, around[0].module) == (symbols[row["symbol"]], None)
    by_file, _ = listed("vfs_llseek", "-k", vmlinux())
    assert {row["address_kind"] for row in by_file} == {"link-time"}
    assert alike(by_file) == alike(running)
    (slide,) = {address(a) - address(b) for a, b in zip(running, by_file, strict=True)}
    assert ("nokaslr" in Path("/proc/cmdline").read_text()) == (slide == 0)
    assert slide % 4096 == 0


@pytest.mark.guest(timeout=300)
def test_hidden_addresses_leave_the_link_time_ones(as_nobody: Run) -> None:
    knob = Path("/proc/sys/kernel/kptr_restrict")
    before = knob.read_text()
    knob.write_text("1\n")
    done = as_nobody("inlinetrace", "list", "--json", "vfs_llseek")
    knob.write_text(before)
    assert done.returncode == 0, done.stderr
    assert "only root may see them" in done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["address_kind"] for row in rows} == {"link-time"}


def load(name: str) -> None:
    """Load a module of the distribution."""
    subprocess.run(["modprobe", name], check=True, capture_output=True, text=True)


def unload(name: str) -> None:
    """Remove it."""
    subprocess.run(["rmmod", name], check=True, capture_output=True, text=True)


def named_once(rows: list[dict[str, Any]], module: str) -> list[tuple[dict[str, Any], int]]:
    """The rows whose symbol is the only one of its name in the module, with its address."""
    addresses: dict[str, list[int]] = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        if line.endswith(f"\t[{module}]"):
            address, _, name = line.removesuffix(f"\t[{module}]").split()
            addresses.setdefault(name, []).append(int(address, 16))
    once = {name: found[0] for name, found in addresses.items() if len(found) == 1}
    return [(row, once[row["symbol"]]) for row in rows if row["symbol"] in once]


@pytest.mark.guest(kaslr=(True, False), timeout=300)
def test_a_module_loaded_unloaded_and_loaded_again() -> None:
    file = next(Path(f"/usr/lib/debug/lib/modules/{os.uname().release}").rglob(f"{MODULE}.ko"))
    by_file, _ = listed("bbr_*", "-m", str(file))
    assert {row["address_kind"] for row in by_file} == {"section-offset"}
    for _ in range(2):
        load(MODULE)
        rows, _ = listed("bbr_*", "-m", MODULE.replace("_", "-"))
        there = [row for row in rows if not row["section"].startswith(".init")]
        assert {row["address_kind"] for row in there} == {"run-time"}
        assert {row["address_kind"] for row in rows if row not in there} <= {"section-offset"}
        known = named_once(there, MODULE)
        assert len(known) > 10
        for row, symbol in known:
            assert address(row) == symbol + row["symbol_offset"]
        assert alike(rows) == alike(by_file)
        unload(MODULE)
    rows, said = listed("bbr_*", "-m", MODULE)
    assert rows == by_file
    assert f"module {MODULE} is not loaded" in said


@pytest.mark.guest
def test_a_module_of_ones_own(inline_shapes: InlineShapes, tmp_path: Path) -> None:
    rows, _ = listed("take_*", "-m", str(FILE), "--loaded")
    known = named_once(rows, NAME)
    assert len(known) > 10
    for row, symbol in known:
        assert row["address_kind"] == "run-time"
        assert address(row) == symbol + row["symbol_offset"]
    # By name there is no file below /lib/modules: only its build id leads to it.
    build_id = Path(f"/sys/module/{NAME}/notes/.note.gnu.build-id").read_bytes()[16:].hex()
    place = tmp_path / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    place.symlink_to(FILE)
    by_name, _ = listed("take_*", "-m", NAME.replace("_", "-"), "--debug-root", str(tmp_path))
    assert by_name == rows


@pytest.mark.guest
def test_a_kernel_that_lacks_nothing(as_nobody: Run) -> None:
    assert require_kprobes(Host()) == "/sys/kernel/tracing"
    assert require_uprobes(Host()) == "/sys/kernel/tracing"
    program = "from inlinetrace.target.host import Host; from inlinetrace.target.requirements import *; "
    done = as_nobody("python3", "-c", program + "require_kprobes(Host())")
    assert "needs root" in done.stderr.splitlines()[-1]


@pytest.mark.guest
def test_no_tracefs_is_told(no_tracefs: None) -> None:
    with pytest.raises(NotPermittedError, match="mount -t tracefs"):
        require_kprobes(Host())


@pytest.mark.guest(cmdline=LOCKDOWN)
def test_lockdown_is_told() -> None:
    assert lockdown(Host()) == "confidentiality"
    with pytest.raises(NotPermittedError, match="locked down"):
        require_kprobes(Host())
