from collections.abc import Callable

from inlinetrace.generate._collect import Collector
from inlinetrace.generate._graph import Graph

def separate(g: Graph, read_again: Callable[[int, int], Collector]) -> None: ...
