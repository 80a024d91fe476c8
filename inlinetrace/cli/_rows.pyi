"""What a listing does for every row: count it, and write it as JSON (compiled)."""

from collections.abc import Callable

from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Site, TypeName

class Counts:
    """How many copies of a function were listed: ``addresses`` are those of inlined sites, each counted once."""

    out_of_line: int
    inlined: int
    addresses: int
    parameters: int
    available: int
    doubtful: int

class Tally:
    """Counts the Sites of a listing, which come in the order of their addresses: all of them, and by function."""

    total: Counts
    functions: dict[str, Counts]
    shown: int
    not_gcc: int

    def add(self, site: Site) -> None:
        """Count a Site that is listed."""

class JsonLines:
    """Sites as JSON objects of one line.

    ``text_of(location, type_name)`` gives the text of a Location, ``kind_of(section)`` the word for what the addresses
    in a section are.
    """

    def __init__(self, text_of: Callable[[Location, TypeName], str], kind_of: Callable[[str | None], str]) -> None: ...
    def line(self, site: Site) -> str:
        """The JSON object of a Site, without a line end."""
