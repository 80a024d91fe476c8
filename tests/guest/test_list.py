"""``inlinetrace list`` on the test module, from the installed wheel. The kernel itself: ``test_running_kernel.py``."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.guest.faults import run
from tests.guest.testmodule import FILE


def listed(*arguments: str) -> list[dict[str, Any]]:
    """The rows of ``inlinetrace list --json``."""
    done = run("inlinetrace", "list", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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
