"""Where control can go inside of a set of ranges (compiled)."""

from typing_extensions import Buffer

class Flow:
    """The jumps of one stretch of code: ``sources`` and ``targets`` sorted by source, and again sorted by target.

    Questions about addresses that lie near each other are answered fastest. Not for several threads at once.
    """

    def __init__(self, sources: Buffer, targets: Buffer, sorted_targets: Buffer, their_sources: Buffer) -> None: ...
    def is_target(self, address: int) -> bool:
        """Whether a jump goes to ``address``."""
    def marks(self, ranges: list[tuple[int, int]], address: int) -> int:
        """How the hits at ``address`` can differ from the calls of a site with these (begin, end) ranges.

        A sum of 1 (the address is met again from inside of the ranges), 2 (only an empty range is at the address and it
        is jumped to) and 4 (a range that does not hold the address is entered from outside). Empty ranges count as
        places, not as code. Of more than 512 ranges only the last is said.
        """
