"""Types of the compiled scan over entries."""

from inlinetrace.dwarf._units import Info

class Chunk:
    """The records of the units ``first_unit`` up to, not including, ``last_unit``."""

    first_unit: int
    last_unit: int
    entries: int

    @property
    def sites_found(self) -> int: ...
    @property
    def functions_found(self) -> int: ...

def unread(first: int, last: int) -> Chunk: ...
def scan(info: Info, first: int, last: int, into: Chunk | None = None) -> Chunk: ...
