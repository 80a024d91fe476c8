"""Types of the compiled x86-64 decoder."""

from array import array

OTHER: int
JUMP: int
CALL: int
INDIRECT_JUMP: int

class Sweep:
    """What a linear sweep found; all positions are addresses."""

    address: int
    size: int
    instruction_count: int
    sources: array[int]
    ends: array[int]
    targets: array[int]
    indirect: array[int]
    undecoded: array[int]

    def starts(self, offset: int) -> bool: ...
    def previous(self, offset: int) -> int: ...
    def following(self, offset: int) -> int: ...
    def boundaries(self) -> array[int]: ...

def decode(code: memoryview, offset: int) -> tuple[int, int, int]: ...
def sweep(code: memoryview, address: int, known: array[int]) -> Sweep: ...
def sort_by_target(sources: array[int], targets: array[int]) -> tuple[array[int], array[int]]: ...
def patch_jumps(
    sources: array[int],
    ends: array[int],
    targets: array[int],
    bases: array[int],
    places: array[int],
    values: array[int],
    inside: array[int],
) -> tuple[array[int], array[int]]: ...
