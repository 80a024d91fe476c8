"""What ruff does not look at: names that compiled modules import and do not use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "inlinetrace"
_IMPORT = re.compile(r"^from [\w.]+ c?import (\([^)]*\)|[^\n(]+)", re.MULTILINE)


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.pyx")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_imported_name_is_used(path: Path) -> None:
    text = path.read_text()
    names = [name for found in _IMPORT.finditer(text) for name in re.findall(r"\w+", found[1]) if name != "as"]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", text)) < 2] == []
