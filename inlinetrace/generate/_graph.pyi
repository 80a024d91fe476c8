from inlinetrace.generate._collect import Collector

class Graph:
    """The types of all units as one graph."""

    node_count: int
    def prepare(self, collectors: list[Collector]) -> None: ...
    def units_to_read(self, collectors: list[Collector]) -> set[tuple[int, int]]: ...
