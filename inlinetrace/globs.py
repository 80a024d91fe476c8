"""Names as people ask for them: exact ones, and shell globs (``*``, ``?``, ``[...]``).

>>> exact, matches = divide(["vfs_llseek", "tcp_*"])
>>> "vfs_llseek" in exact, bool(matches and matches("tcp_hdr"))
(True, True)
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable


def is_glob(pattern: str) -> bool:
    """Whether a pattern may stand for more than one name."""
    return any(character in pattern for character in "*?[")


def divide(patterns: Iterable[str]) -> tuple[list[str], Callable[[str], object] | None]:
    """The exact names among ``patterns``, and what tells whether a name matches a glob; None where there are none."""
    exact: list[str] = []
    globs: list[str] = []
    for pattern in patterns:
        (globs if is_glob(pattern) else exact).append(pattern)
    return exact, re.compile("|".join(map(fnmatch.translate, globs))).match if globs else None
