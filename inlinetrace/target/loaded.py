"""Where a file is in memory: from the addresses of the file to those of the running kernel.

A kernel is moved as a whole (KASLR), a module section by section. What is not known is None, never a guess.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from inlinetrace.elf.sections import Section


class AddressKind(enum.Enum):
    """What the address of a site is; the values are words of the JSON output."""

    RUN_TIME = "run-time"
    LINK_TIME = "link-time"
    SECTION_OFFSET = "section-offset"


class Loaded(Protocol):
    """Where a file is loaded."""

    @property
    def bias(self) -> int | None:
        """How far all of it was moved; None if its sections were moved each by itself."""

    def runtime_address(self, section: Section | None, address: int) -> int | None:
        """Where ``address`` of the file, which lies in ``section``, is; None if that is not known."""

    def knows(self, section: str | None) -> bool:
        """Whether the run-time addresses of code in a section are known."""


class LoadedKernel:
    """A kernel that was moved by ``bias`` bytes, possibly none.

    ``anchor`` is the symbol that it was found by (``_stext``), ``anchor_link`` and ``anchor_runtime`` its link-time and
    run-time addresses: a probe at ``_stext+0x2c2b4`` needs no address at all.
    """

    def __init__(self, anchor: str, anchor_link: int, anchor_runtime: int) -> None:
        self.anchor = anchor
        self.anchor_link = anchor_link
        self.anchor_runtime = anchor_runtime

    @property
    def bias(self) -> int:
        """How far the kernel was moved (KASLR)."""
        return self.anchor_runtime - self.anchor_link

    def runtime_address(self, section: Section | None, address: int) -> int | None:
        """``address`` plus the bias. Per-CPU offsets of x86, linked at 0, stay; other small numbers are unknown."""
        if address < self.anchor_link:
            if section is None:
                return None
            if section.name == ".data..percpu":
                return address
        moved = address + self.bias
        return moved if 0 <= moved < 1 << 64 else None

    def knows(self, section: str | None) -> bool:
        """Always."""
        return True


class LoadedModule:
    """A module with the run-time addresses of its sections, as far as they are known and still there."""

    def __init__(self, sections: Mapping[str, int]) -> None:
        self.sections = dict(sections)

    @property
    def bias(self) -> None:
        """There is none for all of a module."""
        return None

    def runtime_address(self, section: Section | None, address: int) -> int | None:
        """The section's address and the offset in it."""
        start = None if section is None else self.sections.get(section.name)
        return None if start is None or section is None else start + address - section.address

    def knows(self, section: str | None) -> bool:
        """Whether the section is there."""
        return section in self.sections
