from array import array

from inlinetrace.generate._graph import Graph

class Emitter:
    """Writes the types, functions and variables of a graph."""

    graph: Graph
    first_id: int
    next_id: int
    string_offset: int
    def __init__(self, graph: Graph, *, swap: bool = False, first_id: int = 1, first_string: int = 0) -> None: ...
    def know_strings(self, strings: bytes, at: int) -> None: ...
    def write_types(self) -> None: ...
    def write_functions(
        self,
        symbols: memoryview,
        strings: memoryview,
        bases: array[int],
        wide: bool,
        swap: bool,
        optimized: bool,
        consistent: bool,
    ) -> dict[str, int]: ...
    def tag_functions(self, tags: dict[bytes, list[bytes]]) -> list[bytes]: ...
    def write_variables(self, sections: list[tuple[bytes, int, int]]) -> None: ...
    def inline_functions(self, origins: array[int]) -> array[int]: ...
    def take(self) -> tuple[bytearray, bytearray]: ...
