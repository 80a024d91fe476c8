"""Where inlined functions and their parameters are, as LOC_PARAM, LOC_PROTO and LOCSEC.

::

    settings = LocationSettings(dialect=Dialect.NEW)
    parts = collect(image.dwarf, image, settings, image_base=base)     # all sites, with all processors
    answer(parts, image, doubtful=False)                               # with the code around a few
    reasons, doubts = counts(parts)                                    # what could not be said, and why

A site is that of a listing (inlinetrace.sites): at its entry address, with the location that is live at its address and
view, without those that are parts of a function joined to it again. What the dialect has no form for and, unless
``doubtful``, what may show another value than the one passed become "not available" (slot 0), and are counted.
"""

from __future__ import annotations

import enum
import threading
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace._threads import spread
from inlinetrace.btf.kinds import Dialect
from inlinetrace.generate._expressions import Frames
from inlinetrace.generate._locations import Collected, Collector, Settings
from inlinetrace.sites._functions import Functions, Sources
from inlinetrace.sites.locate import Locator

if TYPE_CHECKING:
    from inlinetrace.dwarf.info import DebugInfo
    from inlinetrace.sites.from_dwarf import Surroundings


class SiteAddress(enum.Enum):
    """Which address stands for a site."""

    ENTRY = "entry"
    """DW_AT_entry_pc, where the call's arguments are described."""
    LOW = "low"
    """DW_AT_low_pc, else the start of the first range, as pahole takes it."""


class LocationSettings(NamedTuple):
    """What location info is to be like.

    ``doubtful`` keeps the locations that may show another value; units of the ``excluded`` languages (DW_LANG numbers)
    are left out.
    """

    dialect: Dialect = Dialect.NEW
    site_address: SiteAddress = SiteAddress.ENTRY
    doubtful: bool = False
    excluded: frozenset[int] = frozenset()


def collect(
    dwarf: DebugInfo,
    surroundings: Surroundings,
    settings: LocationSettings,
    *,
    image_base: int | None,
    jobs: int | None = None,
) -> list[Collected]:
    """The sites of every portion of the units, in order, whatever the number of threads.

    ``image_base`` is what addresses count from, None where they have no form (relocatable files). Raises FormatError.
    """
    lock = threading.RLock()
    shared = Settings(
        dwarf,
        surroundings,
        locator=Locator(dwarf),
        functions=Functions(dwarf, Sources(dwarf)),
        lock=lock,
        frames=Frames(dwarf.frames.tables),
        dialect=settings.dialect,
        image_base=image_base,
        low=settings.site_address is SiteAddress.LOW,
        doubtful=settings.doubtful,
        excluded=settings.excluded,
    )
    return spread([_Reader(shared).collect for _ in range(jobs or dwarf.jobs)], dwarf.portions)


class _Reader:
    """Reads units in one thread: a portion into the memory of the one before."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._collectors: dict[int, Collector] = {}

    def collect(self, portion: tuple[int, int, int]) -> Collected:
        number, first, last = portion
        collector = self._collectors.get(number)
        if collector is None:
            collector = self._collectors[number] = Collector(self._settings, number)
        return collector.collect(first, last)


def answer(parts: list[Collected], surroundings: Surroundings, doubtful: bool) -> None:
    """Settle the locations that are right only where nothing jumps to; before that they are not available.

    All at once: to decode the code of a kernel for each would cost more than everything else here.
    """
    questions = set[int]().union(*(part.questions_asked() for part in parts))
    if questions:
        targets = surroundings.jump_targets(questions)
        for part in parts:
            part.answer(targets, doubtful)


def counts(parts: list[Collected]) -> tuple[Counter[str], Counter[str]]:
    """How many parameters have no form, by Reason, and how many are doubtful, by Doubt."""
    reasons: Counter[str] = Counter()
    doubts: Counter[str] = Counter()
    for part in parts:
        for total, found in zip((reasons, doubts), part.counts(), strict=True):
            total.update(found)
    return reasons, doubts
