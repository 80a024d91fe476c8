from array import array

from inlinetrace.generate._graph import Graph

class Emitter:
    """Writes the types, functions and variables of a graph."""

    graph: Graph
    first_id: int
    next_id: int
    string_offset: int
    def __init__(
        self, graph: Graph, *, swap: bool = False, first_id: int = 1, first_string: int = 0
    ) -> None: ...
    def write_types(self) -> None: ...
    def write_functions(
        self, symbols: memoryview, strings: memoryview, wide: bool, swap: bool, optimized: bool
    ) -> None: ...
    def inline_functions(self, origins: array[int]) -> array[int]: ...
    def take(self) -> tuple[bytearray, bytearray]: ...
