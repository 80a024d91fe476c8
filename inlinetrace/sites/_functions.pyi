"""Prototypes and source positions (compiled)."""

from inlinetrace.dwarf._lines import LineProgram
from inlinetrace.dwarf.info import DebugInfo, Unit
from inlinetrace.sites.model import CallSite, TypeName

class Source:
    """The line table of one unit, and the names of its files."""

    unit: Unit
    lines: LineProgram | None

    def __init__(self, unit: Unit, lines: LineProgram | None) -> None: ...
    def position(self, file: int, line: int, column: int) -> CallSite | None:
        """A CallSite by the numbers that an entry of the unit has for it; None where the line is unknown."""

class Sources:
    """The Source of each unit of ``dwarf``, made once."""

    dwarf: DebugInfo

    def __init__(self, dwarf: DebugInfo) -> None: ...
    def forget(self) -> int:
        """Let go of all line tables."""
    def of_unit(self, info: int, index: int) -> Source:
        """The Source of unit ``index`` of Info number ``info``."""

class Function:
    """A function as its prototype says it: ``parameters`` has a name and a TypeName for each.

    ``key`` is that of the entry at the end of the chain, the same for all copies that are of one definition.
    ``missing`` tells that the entry stands in a file that is not there.
    """

    key: int
    name: str
    return_type: str
    parameters: tuple[tuple[str, TypeName], ...]
    variadic: bool
    declared: CallSite | None
    missing: bool

    def index_of(self, key: int) -> int:
        """Position of the parameter that the entry ``key`` describes, -1 if it describes none."""

class Functions:
    """Makes Functions and TypeNames from keys of entries; each is made once."""

    sources: Sources

    def __init__(self, dwarf: DebugInfo, sources: Sources) -> None: ...
    def function(self, key: int) -> Function:
        """The Function that the entry ``key`` belongs to. Raises FormatError for an entry that cannot be read."""
    def type_name(self, key: int) -> TypeName:
        """The TypeName of the type entry ``key``; key 0 is void."""
    def forget(self) -> None:
        """Drop what was read: the next units have other entries."""
    @property
    def known(self) -> int:
        """How many functions and types are kept."""
