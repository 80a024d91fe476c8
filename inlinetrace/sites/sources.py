"""Source positions and labels: what the line tables say, made once per unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from inlinetrace.sites.model import CallSite

if TYPE_CHECKING:
    from inlinetrace.dwarf.info import DebugInfo, Unit

# Alignment skips less than this: a row further on is no continuation of a label before padding.
PADDING = 16

Move = Callable[[int, int], int]


class Sources:
    """File names and label addresses of the units of one file."""

    def __init__(self, dwarf: DebugInfo) -> None:
        self._dwarf = dwarf
        self._files: dict[tuple[int, int, int], str | None] = {}

    def position(self, unit: Unit, file: int, line: int, column: int) -> CallSite | None:
        """A source position by the numbers that an entry of ``unit`` has for it; None where the line is unknown."""
        if not line:
            return None
        key = (unit.info, unit.index, file)
        if key not in self._files:
            lines = self._dwarf.lines(unit)
            # file number 0 means "no file" before DWARF 5
            named = lines is not None and (file or lines.version >= 5)
            self._files[key] = lines.file_name(file) if lines is not None and named else None
        return CallSite(self._files[key], line, column)

    def mover(self, unit: Unit) -> Move | None:
        """A function from a label's (address, view) to the address it belongs to; None without a line table.

        gcc reuses a label that stands before alignment padding for what follows the padding. The line table tells: if
        it has no row with this view at this address, the label is that of the next row, less than 16 bytes on.
        """
        if self._dwarf.lines(unit) is None:
            return None
        moved: dict[tuple[int, int], int] = {}

        def move(address: int, view: int) -> int:
            known = moved.get((address, view))
            if known is None:
                known = address
                # Asked for anew each time: only DebugInfo decides how many line tables stay in memory.
                lines = self._dwarf.lines(unit)
                if lines is not None and not lines.has_row(address, view):
                    following = lines.next_row(address)
                    if following is not None and following - address < PADDING:
                        known = following
                moved[address, view] = known
            return known

        return move
