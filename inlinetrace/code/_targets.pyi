"""The jumps of x86-64 code that a few places need to know, without decoding all of it (compiled)."""

from array import array

class Candidates:
    """What was found in the stretches of code that had to be decoded.

    ``sources`` and ``targets``: the direct jumps to one of the wanted addresses, and all those of the stretches that
    were asked for whole. ``indirect``: the stretches with jumps that may use a table, as offsets: (first, behind the
    last, the jumps).
    """

    sources: array[int]
    targets: array[int]
    indirect: list[tuple[int, int, list[int]]]

def candidates(
    code: memoryview,
    address: int,
    starts: array[int],
    wanted: array[int],
    begins: array[int] | None = None,
    ends: array[int] | None = None,
) -> Candidates:
    """Look for jumps to the addresses ``wanted``, ascending, in ``code``, which is loaded at ``address``.

    ``starts``: ascending addresses where an instruction is known to start. What is found is what ``_x86.sweep`` finds.
    With ``begins`` and ``ends`` also for all jumps of the stretches, from one start to the next, that touch one of the
    spans between them.
    """
