"""Location info that ``inlinetrace generate`` made, instead of DWARF: the same sites, and values as right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.guest.faults import run
from tests.guest.host import from_host
from tests.guest.test_values import check_system_calls
from tests.guest.tracing import VMLINUX
from tests.kernels import Kernel

BASE = "/sys/kernel/btf/vmlinux"


@from_host
def location_info(kernel: Kernel) -> Path:
    """The location info of the kernel, for the types that it has itself."""
    from vmimages import package
    from vmimages.cache import built, cache_directory

    def generate(directory: Path) -> None:
        command = [sys.executable, "-m", "inlinetrace", "generate", str(kernel.vmlinux), "--inline-only", "--no-cache"]
        subprocess.run([*command, "-q", "-o", str(directory)], check=True, stdin=subprocess.DEVNULL)

    # what is installed in guests has a key of its content as its name
    directory = built(cache_directory() / "generated" / f"{kernel.release}-{package.site().name}", generate)
    (file,) = directory.iterdir()
    return file


def listed(*arguments: str) -> list[dict[str, Any]]:
    """The inlined sites that ``inlinetrace list`` has of some functions."""
    done = run("inlinetrace", "list", "vfs_llseek", "find_process_by_pid", "-k", VMLINUX, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [row for row in rows if row["inlined"]]


def sites(rows: list[dict[str, Any]]) -> set[tuple[str, str, str, int]]:
    """What both sources say of a site."""
    return {(row["function"], row["address"], row["symbol"], row["symbol_offset"]) for row in rows}


@pytest.mark.guest(timeout=300)
def test_the_sites_are_those_of_the_dwarf() -> None:
    of_btf = listed("--btf", str(location_info()), "-B", BASE)
    assert {row["source"] for row in of_btf} == {"btf"}
    assert sites(of_btf) == sites(listed("--source", "dwarf"))


@pytest.mark.guest(timeout=400)
def test_values_are_those_that_were_passed(tmp_path: Path) -> None:
    check_system_calls(tmp_path, "--btf", str(location_info()), "-B", BASE, missing=0.15)
