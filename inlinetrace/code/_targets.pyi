"""Which of a few addresses of x86-64 code are jumped to, without decoding all of it (compiled)."""

from array import array

class Candidates:
    """The stretches of code that can hold a jump to one of a few addresses, decoded.

    ``found``: those of the addresses that direct jumps go to. ``indirect``: the stretches with jumps that may use a
    table, as offsets: (first, behind the last, the jumps).
    """

    found: list[int]
    indirect: list[tuple[int, int, list[int]]]

def candidates(code: memoryview, address: int, starts: array[int], wanted: array[int]) -> Candidates:
    """Look for jumps to the addresses ``wanted``, ascending, in ``code``, which is loaded at ``address``.

    ``starts``: ascending addresses where an instruction is known to start. What is found is what ``_x86.sweep`` finds.
    """
