"""What ruff does not look at: names that compiled modules import and do not use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "inlinetrace"
_IMPORT = re.compile(r"^from [\w.]+ c?import (\([^)]*\)|[^\n(]+)", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.p[yx][xd]")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_imported_name_is_used(path: Path) -> None:
    text = path.read_text()
    names = [name for found in _IMPORT.finditer(text) for name in re.findall(r"\w+", found[1]) if name != "as"]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2] == []


def test_starting_is_cheap() -> None:
    """These cost more time than what they would save in code: 15 ms for each run of a command."""
    dear = "'ast', 'concurrent.futures', 'dataclasses', 'inspect', 'logging'"
    parts = "list, probe, generate, clean, dump, inputs, render"
    program = f"import sys; from inlinetrace.cli import {parts}; print(sorted({{{dear}}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
