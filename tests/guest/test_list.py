"""``inlinetrace list`` in a guest, from the installed wheel, held against llvm-dwarfdump and the kernel's symbols."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.guest import oracle
from tests.guest.faults import run
from tests.guest.host import from_host
from tests.guest.testmodule import FILE, kallsyms
from tests.kernels import Kernel


@from_host
def llseek_in_ksys_lseek(kernel: Kernel) -> list[dict[str, Any]]:
    """The inlined copies of vfs_llseek in ksys_lseek."""
    return oracle.inlined(kernel.vmlinux, caller="ksys_lseek", function="vfs_llseek")


@from_host
def stext(kernel: Kernel) -> int:
    """Where the kernel was linked to begin."""
    (address,) = oracle.symbol_addresses(kernel.vmlinux, {"_stext"})["_stext"]
    return address


def listed(*arguments: str) -> list[dict[str, Any]]:
    """The rows of ``inlinetrace list --json``."""
    done = run("inlinetrace", "list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.guest(timeout=300)
def test_sites_of_the_running_kernels_file() -> None:
    rows = listed("vfs_llseek", "-k", f"/usr/lib/debug/boot/vmlinux-{os.uname().release}")
    inlined = [row for row in rows if row["inlined"]]
    found = {int(row["address"], 16) - stext() for row in inlined if row["symbol"] == "ksys_lseek"}
    assert found == {site["offset"] for site in llseek_in_ksys_lseek()}
    slide = kallsyms("_stext") - stext()
    assert inlined
    for row in inlined:
        assert kallsyms(row["symbol"]) + row["symbol_offset"] == int(row["address"], 16) + slide


@pytest.mark.guest
def test_shapes_of_the_test_module() -> None:
    rows = listed("take_*", "-m", str(FILE))
    assert {row["function"] for row in rows if row["inlined"]} >= {"take_s8", "take_many", "take_on_stack", "take_u128"}
    (constant,) = [row for row in rows if row["function"] == "take_constant"]
    assert {parameter["name"]: parameter.get("location") for parameter in constant["parameters"]} == {
        "first": "const 0x2a",
        "second": "const -7",
        "third": "const 0xff",
    }


@pytest.mark.guest
def test_sites_of_a_module_name_the_symbol_around_them() -> None:
    (row,) = listed("take_constant", "-m", str(FILE))
    assert row["symbol"] == "call_take_constant"
    assert row["section"] == ".text"
