"""Line tables of a file: source positions of addresses, and the view numbers behind gcc's location lists.

::

    table = LineTable(debug_line, line_str=debug_line_str, strings=debug_str)
    program = table.program(stmt_list, comp_dir="/usr/src/linux")
    position(program, pc)            # Position(file="fs/read_write.c", line=301, column=12)
    program.has_row(pc, view)        # whether a label "pc, view" of a location list can be trusted
    LineRows(*program.rows).address  # all rows, as columns
"""

from __future__ import annotations

import enum
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.dwarf._lines import LineProgram

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["LineProgram", "LineRows", "LineTable", "Position", "RowFlag", "position"]


class RowFlag(enum.IntFlag):
    """Bits of the flags column."""

    IS_STMT = 1
    BASIC_BLOCK = 2
    END_SEQUENCE = 4
    PROLOGUE_END = 8
    EPILOGUE_BEGIN = 16


class LineRows(NamedTuple):
    """All rows of a program as columns of equal length."""

    address: array[int]
    view: array[int]
    line: array[int]
    column: array[int]
    file: array[int]
    flags: array[int]


class Position(NamedTuple):
    """A place in the source; column 0 means the whole line, line 0 that the code belongs to no line."""

    file: str | None
    line: int
    column: int


def position(program: LineProgram, address: int) -> Position | None:
    """Where the instruction at ``address`` comes from; None if the program does not cover it."""
    found = program.find(address)
    if found is None:
        return None
    file, line, column = found
    return Position(program.file_name(file), line, column)


class LineTable:
    """The sections that line programs are read from.

    ``data`` is .debug_line, the rest are the sections with the names of version 5.
    """

    def __init__(
        self,
        data: Buffer,
        *,
        path: str | None = None,
        little_endian: bool = True,
        address_size: int = 8,
        line_str: Buffer | None = None,
        strings: Buffer | None = None,
        string_offsets: Buffer | None = None,
    ) -> None:
        self._data = data
        self._path = path
        self._little_endian = little_endian
        self._address_size = address_size
        self._line_str = line_str
        self._strings = strings
        self._string_offsets = string_offsets

    def program(
        self, offset: int, comp_dir: str | None = None, *, section: str = ".debug_line", string_offsets_base: int = 0
    ) -> LineProgram:
        """The program at an offset (DW_AT_stmt_list); FormatError or UnsupportedError if its header is malformed.

        ``string_offsets_base`` is the unit's DW_AT_str_offsets_base, for names with DW_FORM_strx.
        """
        return LineProgram(
            self._data,
            offset,
            section=section,
            path=self._path,
            little_endian=self._little_endian,
            address_size=self._address_size,
            comp_dir=comp_dir,
            line_str=self._line_str,
            strings=self._strings,
            string_offsets=self._string_offsets,
            string_offsets_base=string_offsets_base,
        )

    def programs(self) -> Iterator[LineProgram]:
        """Every program of the section, in order."""
        offset = 0
        size = memoryview(self._data).nbytes
        while offset < size:
            program = self.program(offset)
            yield program
            offset = program.end
