"""What the harness needs to know of a site, whichever reader found it.

A reader is a function ``read(path) -> list[TracedSite]``. There are two: the product's (:mod:`.product`) and the plain
rule's (:mod:`.plain`), which shares no code with the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Memory = Callable[[int, int], bytes | None]
Read = Callable[[Mapping[int, int], Memory, int], bytes | str]
"""(registers by DWARF number, memory, load bias) to the value's bytes, or why there are none."""


@dataclass(frozen=True, slots=True)
class TracedParameter:
    """One parameter at a site. ``reason`` says why there is no location (``read`` is None then)."""

    name: str
    size: int
    location: str
    read: Read | None
    reason: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class TracedSite:
    """One inlined or out-of-line copy of a function.

    ``lines`` are the lines of the calls, innermost first, for every level up to the function that contains the site;
    empty for out-of-line copies. ``marks`` are the marks that predict surplus or missing hits. ``copy`` is the symbol
    of an out-of-line copy.
    """

    function: str
    inlined: bool
    address: int
    lines: tuple[int, ...]
    parameters: tuple[TracedParameter, ...]
    marks: frozenset[str] = frozenset()
    copy: str = ""
