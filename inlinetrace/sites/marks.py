"""How the hits of a site can differ from the calls of its function, as far as the instructions tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inlinetrace.code import _flow
from inlinetrace.sites.reasons import Mark

if TYPE_CHECKING:
    from inlinetrace.code.file import FileCode


def flow_marks(code: FileCode, address: int, ranges: list[tuple[int, int]]) -> tuple[Mark, ...]:
    """Marks of a site at ``address`` with these ``ranges``; empty ranges among them count as places, not as code."""
    filled = [item for item in ranges if item[0] < item[1]]
    marks: tuple[Mark, ...] = ()
    by_source, by_target = code.jumps_by_source, code.jumps
    if _flow.is_met_again(by_source.sources, by_source.targets, filled, address):
        marks = (Mark.REENTERED,)
    if len(filled) < len(ranges) and not any(begin <= address < end for begin, end in filled):
        if any(begin == address for begin, end in ranges if begin == end) and code.is_jump_target(address):
            marks += (Mark.SHARED_ADDRESS,)
    if len(filled) > 1 and _flow.entered_ranges(by_target.targets, by_target.sources, filled, address):
        marks += (Mark.COPIES,)
    return marks
