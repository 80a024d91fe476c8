from array import array
from collections.abc import Container

from inlinetrace.dwarf._units import Info

class ForeignReferenceError(Exception): ...

class Collector:
    """The types of some units of ``infos``."""

    infos: list[Info]
    joint: bool
    entries: int

    def __init__(
        self,
        infos: list[Info],
        *,
        joint: bool = False,
        floats: bool = True,
        enum64s: bool = True,
        decl_tags: bool = True,
        type_tags: bool = True,
        registers: bytes = b"",
        excluded: frozenset[int] = ...,
    ) -> None: ...
    def collect(self, portion: tuple[int, int, int]) -> None: ...
    def collect_functions(self, functions: tuple[int, array[int]]) -> None: ...
    def forget_units(self, units: Container[tuple[int, int]]) -> None: ...
    def finish_joint(self) -> None: ...
    def forget(self) -> None: ...
