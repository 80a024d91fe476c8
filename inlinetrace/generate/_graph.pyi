from inlinetrace.generate._collect import Collector

class Graph:
    """The types of all units as one graph."""

    node_count: int
    def prepare(self, collectors: list[Collector]) -> None: ...
    def ambiguous_tags(self) -> list[str]: ...
