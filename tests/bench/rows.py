"""The rows of the table: a command of ours and, where there is one, what a peer does for the same question.

To add one, write a function from a kernel to a Row and put it into ROWS.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

from tests.kernels import Kernel

FUNCTION = "vfs_llseek"


@dataclass(frozen=True, slots=True)
class Row:
    """``name`` is what the user asks for; ``limit`` the CPU seconds that ours may take, None without a promise."""

    name: str
    ours: tuple[str, ...]
    peer: tuple[str, ...] | None = None
    limit: float | None = None


def inlinetrace(*arguments: str) -> tuple[str, ...]:
    """The command line of inlinetrace as it is in this tree."""
    return (sys.executable, "-m", "inlinetrace", *arguments)


def list_function(kernel: Kernel) -> Row:
    """One function, from DWARF."""
    vmlinux = str(kernel.vmlinux)
    return Row(
        f"list {FUNCTION}",
        inlinetrace("list", FUNCTION, "-k", vmlinux),
        ("pfunct", "-F", "dwarf", "-f", FUNCTION, vmlinux),
        limit=1.0,
    )


def list_all(kernel: Kernel) -> Row:
    """Every site; the peer visits every entry too and counts them."""
    vmlinux = str(kernel.vmlinux)
    return Row(
        "list '*' --json",
        inlinetrace("list", "*", "--json", "-k", vmlinux),
        ("llvm-dwarfdump", "--statistics", vmlinux),
        limit=6.0 if kernel.series == "6.1" else None,
    )


ROWS: tuple[Callable[[Kernel], Row], ...] = (list_function, list_all)
