"""The expressions that nearly all locations are, resolved without the GIL (compiled)."""

from inlinetrace.dwarf._frames import FrameTable

REASONS: tuple[str, ...]
DOUBTS: tuple[str, ...]

class Frames:
    """The frame tables of a file, in the order in which they are asked (CallFrames)."""

    def __init__(self, tables: tuple[FrameTable, ...]) -> None: ...
