"""From the records of DWARF to Sites (compiled)."""

from collections.abc import Iterator

from inlinetrace.dwarf._records import Records
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.sites._functions import Functions
from inlinetrace.sites.from_dwarf import Surroundings
from inlinetrace.sites.locate import Locator
from inlinetrace.sites.model import Site

class Rows:
    """Sites and out-of-line copies before they are built: (number of the Info, id of the record, inlined)."""

    def extend(self, info: int, ids: list[int], inlined: bool) -> None:
        """Append records of one Info by their ids."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[tuple[int, int, bool]]: ...
    @property
    def inlined(self) -> int:
        """How many rows are inlined sites."""
    def by_address(self, records: list[Records]) -> Rows:
        """These rows ordered by address, see DwarfSites.by_address; ``records`` has the Records of each Info."""

class Builder:
    """Makes Sites of rows. ``surroundings`` and ``locator`` as in DwarfSites."""

    functions: Functions

    def __init__(self, dwarf: DebugInfo, surroundings: Surroundings, locator: Locator, module: str | None) -> None: ...
    def build(self, rows: Rows) -> Iterator[Site]:
        """Yield the Sites of ``rows`` in their order, without those that have no address."""
