"""Types of the compiled reader of unit headers."""

from typing import TypedDict

from typing_extensions import Buffer

UNIT_TYPES: dict[int, str]

class Header(TypedDict):
    """What Info.header returns: offsets in bytes, None where absent."""

    offset: int
    end: int
    version: int
    address_size: int
    offset_size: int
    unit_type: str
    language: int
    low_pc: int | None
    stmt_list: int | None
    signature: int
    name: str | None
    comp_dir: str | None
    producer: str | None
    dwo_name: str | None
    addr_base: int
    str_offsets_base: int
    ranges_base: int
    rnglists_base: int
    loclists_base: int

class Info:
    """One section of units with the sections that it refers to."""

    path: str | None
    section: str
    swap: bool
    discards_at_zero: bool
    is_dwo: bool
    alternate: Info | None
    count: int

    def __init__(
        self,
        info: Buffer,
        *,
        abbrev: Buffer,
        strings: Buffer,
        line_strings: Buffer,
        str_offsets: Buffer,
        addresses: Buffer,
        rnglists: Buffer,
        loclists: Buffer,
        ranges: Buffer,
        locations: Buffer,
        swap: bool = False,
        path: str | None = None,
        section: str = ".debug_info",
        is_dwo: bool = False,
        skeletons: dict[int, tuple[int, int, int, bool]] | None = None,
        alternate: Info | None = None,
        discards_at_zero: bool = False,
    ) -> None: ...
    def string(self, packed_reference: int) -> str | None: ...
    def has_dwo(self, index: int) -> bool: ...
    def unit_size(self, index: int) -> int: ...
    def find_unit(self, offset: int) -> int: ...
    def signature_offset(self, signature: int) -> int | None: ...
    def header(self, index: int) -> Header: ...
    def address(self, index: int, number: int) -> int: ...
