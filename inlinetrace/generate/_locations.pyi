"""Sites with the forms of their parameters, collected from the records of DWARF without the GIL (compiled)."""

from contextlib import AbstractContextManager
from typing import Any

from inlinetrace.btf.kinds import Dialect
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.generate._expressions import Frames
from inlinetrace.generate.forms import Form
from inlinetrace.sites._functions import Functions
from inlinetrace.sites.from_dwarf import Surroundings
from inlinetrace.sites.locate import Locator

class Settings:
    """What all collectors of one file share."""

    def __init__(
        self,
        dwarf: DebugInfo,
        surroundings: Surroundings,
        *,
        locator: Locator,
        functions: Functions,
        lock: AbstractContextManager[Any],
        frames: Frames,
        dialect: Dialect,
        image_base: int | None,
        low: bool,
        doubtful: bool,
        excluded: frozenset[int],
    ) -> None: ...

class Collected:
    """The sites of some units: an opaque part of what ``Assembly`` puts together."""

    transparent: int
    without_address: int
    of_other_languages: int
    parameters: int
    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """How many parameters have no form, by Reason, and how many a doubt, by Doubt (whether kept or not)."""
    def questions_asked(self) -> set[int]:
        """Addresses of sites with parameters that are right unless a jump goes there; ``answer`` settles them."""
    def answer(self, targets: dict[int, bool | None], doubtful: bool) -> None:
        """Settle them: whether each of the addresses is jumped to, and whether doubtful locations are kept."""
    def __len__(self) -> int: ...
    def rows(self) -> list[tuple[int, int, list[Form | None]]]:
        """(address, key of the origin, form of each parameter) of every site, for tests."""

class Collector:
    """Collects the sites of units of Info ``number``. One for each thread."""

    def __init__(self, settings: Settings, number: int) -> None: ...
    def collect(self, first: int, last: int) -> Collected:
        """Collect the sites of the units ``first`` up to, not including, ``last``. Raises FormatError."""
