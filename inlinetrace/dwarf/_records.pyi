"""Types of the compiled questions about records."""

from array import array

from inlinetrace.dwarf._lines import LineProgram
from inlinetrace.dwarf._scan import Chunk
from inlinetrace.dwarf._units import Info

class SiteEntry:
    """One DW_TAG_inlined_subroutine."""

    die: int
    origin: int
    address: int
    unit: int
    view: int
    call_file: int
    call_line: int
    call_column: int
    parent_site: int
    parent_function: int
    has_entry: bool
    has_address: bool
    alternate_origin: bool

class FunctionEntry:
    """One DW_TAG_subprogram."""

    id: int
    die: int
    origin: int
    address: int
    unit: int
    has_address: bool
    alternate_origin: bool
    declaration: bool
    abstract: bool
    external: bool
    name: str | None
    linkage_name: str | None
    frame_base: bytes

class Records:
    """The chunks of one Info, in the order of its units; those that are not scanned yet are empty."""

    info: Info
    chunks: list[Chunk]

    def __init__(self, info: Info, chunks: list[Chunk]) -> None: ...
    def put(self, number: int, chunk: Chunk) -> None: ...
    @property
    def site_count(self) -> int: ...
    def name_references(self) -> array[int]: ...
    def references_to(self, name: bytes) -> array[int]: ...
    def functions_named(self, references: array[int]) -> array[int]: ...
    def with_alternate_origins(self, origins: array[int]) -> array[int]: ...
    def sites_of(self, functions: array[int], alternate: bool = False) -> list[int]: ...
    def sites_inside(self, functions: array[int]) -> list[int]: ...
    def all_sites(self) -> list[int]: ...
    def copies(self, functions: array[int] | None = None) -> list[int]: ...
    def addresses(self, ids: list[int], of_sites: bool) -> array[int]: ...
    def ranges(self, id_: int, of_site: bool) -> list[tuple[int, int]]: ...
    def site(self, id_: int) -> SiteEntry: ...
    def root(self, id_: int) -> int: ...
    def function(self, id_: int) -> FunctionEntry: ...
    def parameters(
        self, id_: int, of_site: bool, pc: int, view: int, lines: LineProgram | None = None
    ) -> list[tuple[int, int, int | bytes | None, bool]]: ...
    def location_lists(self, id_: int, of_site: bool) -> list[tuple[int, list[tuple[int, int, int, int, bytes]]]]: ...
