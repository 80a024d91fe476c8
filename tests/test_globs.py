"""Names and shell globs."""

from __future__ import annotations

import pytest

from inlinetrace.globs import divide, is_glob


def test_exact_names_and_globs_are_told_apart() -> None:
    exact, matches = divide(["vfs_llseek", "tcp_*", "a?c", "x[12]", "vfs_llseek.isra.0"])
    assert exact == ["vfs_llseek", "vfs_llseek.isra.0"]
    assert matches is not None
    for name, matched in (("tcp_", True), ("abc", True), ("x2", True), ("x3", False), ("vfs_llseek", False)):
        assert bool(matches(name)) is matched, name


def test_without_globs_nothing_matches() -> None:
    assert divide(["f", "g"]) == (["f", "g"], None)
    assert divide([]) == ([], None)


@pytest.mark.parametrize(("pattern", "expected"), [("f", False), ("f.cold", False), ("*", True), ("[", True)])
def test_is_glob(pattern: str, expected: bool) -> None:
    assert is_glob(pattern) is expected
