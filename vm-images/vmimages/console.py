"""What a kernel prints when something is wrong with it."""

from __future__ import annotations

import re

TROUBLE = re.compile(
    r"\bWARNING:|\bBUG:|\bBUG at |\bOops\b|\bCall Trace:|general protection fault|Kernel panic|unable to handle"
    r"|list_(?:add|del) corruption|kernel NULL pointer|double fault|stack segment|invalid opcode"
    r"|possible (?:circular|recursive|irq lock inversion)|inconsistent lock state|suspicious RCU usage|lockdep"
    r"|rcu: INFO|detected (?:expedited )?stall|soft lockup|hard LOCKUP|blocked for more than"
    r"|KASAN|UBSAN|KFENCE|refcount_t:|scheduling while atomic|sleeping function called|bad page state"
    r"|Out of memory|traps: |segfault at|Tainted: \S* ?[^ ]*W\b"
)
"""Any of these in the kernel's log fails the test it appears in."""

_HARMLESS = re.compile(
    r"Spectre V2 : WARNING: |MDS CPU bug|MMIO Stale Data CPU bug|L1TF CPU bug|SRBDS: |RETBleed: WARNING: Spectre v2"
)


def troubles(log: str) -> list[str]:
    """The lines of a kernel log that tell of trouble, in order."""
    return [line.rstrip() for line in log.splitlines() if TROUBLE.search(line) and not _HARMLESS.search(line)]
