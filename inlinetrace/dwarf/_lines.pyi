"""Line number programs: .debug_line of DWARF 2 to 5 (DWARF 5, section 6.2).

Use :class:`inlinetrace.dwarf.lines.LineTable` to get at the programs of a file.
"""

from array import array

from typing_extensions import Buffer

class LineProgram:
    """The line table of the unit at ``offset`` of .debug_line (what DW_AT_stmt_list says).

    ``address_size`` counts for versions before 5. ``line_str``, ``strings`` and ``string_offsets`` are the sections
    .debug_line_str, .debug_str and .debug_str_offsets, needed for the names of version 5.

    The header is read at once: FormatError, or UnsupportedError for an unknown version. Rows are decoded at the first
    query or by ``decode``, without the GIL; a malformed program raises FormatError then.

    Views count the rows of one address as GNU as and readelf do: 0 after the address has moved and after
    DW_LNE_set_address, one more with each row; DW_LNS_fixed_advance_pc moves the address but lets the views go on.

    Sequences at address 0 or -1, which linkers leave of dropped functions, stay in the table. They are harmless: where
    sequences overlap, ``find`` takes the one with the greatest start. Rows that are out of order within a sequence
    split it in two, and sequences without instructions are left out of every query.
    """

    section: str
    path: str | None
    comp_dir: str | None
    offset: int
    end: int
    version: int
    address_size: int
    offset_size: int

    def __init__(
        self,
        data: Buffer,
        offset: int,
        *,
        section: str = ".debug_line",
        path: str | None = None,
        little_endian: bool = True,
        address_size: int = 8,
        comp_dir: str | None = None,
        line_str: Buffer | None = None,
        strings: Buffer | None = None,
        string_offsets: Buffer | None = None,
        string_offsets_base: int = 0,
    ) -> None: ...
    def decode(self) -> None:
        """Decode the rows now, for a thread that wants to do so; does nothing the second time."""
    def has_row(self, address: int, view: int = 0) -> bool:
        """Whether there is a row with this address and view; the row that ends a sequence is none."""
    def next_row(self, address: int) -> int | None:
        """Address of the first row after ``address``, within the sequence that ``find`` takes.

        None if no sequence contains ``address``, or only the end of the sequence follows.
        """
    def first_row_at_or_after(self, address: int) -> int | None:
        """Address of the first row at or after ``address``, in any sequence; None if there is none."""
    def find(self, address: int) -> tuple[int, int, int] | None:
        """(file number, line, column) of the instruction at ``address``; None outside of all sequences."""
    @property
    def rows(self) -> tuple[array[int], array[int], array[int], array[int], array[int], array[int]]:
        """A copy of all rows in the order of the program, as columns.

        address ("Q"), view, line, column, file number ("I" each) and flags ("B"; RowFlag of the module lines).
        """
    @property
    def sequences(self) -> list[tuple[int, int]]:
        """(first address, last address) of every stretch of ascending rows, in this order."""
    def file_name(self, index: int) -> str | None:
        """Path of a file by its number: from 0 in version 5, from 1 before; None if there is no such file.

        Relative to ``comp_dir`` if it lies inside of it or was written as relative, without "." parts; ".." stays.
        """
    def directory_name(self, index: int) -> str | None:
        """Path of a directory by its number, relative as file names are; 0 is the compilation directory."""
    @property
    def file_count(self) -> int:
        """Number of entries of the file table; the first has number 0 in version 5 and 1 before."""
    @property
    def files(self) -> list[str | None]:
        """The paths of all files, starting with number 0 (version 5) or 1."""
    def __len__(self) -> int: ...
