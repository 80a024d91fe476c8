"""Types of the compiled reader of single entries."""

from typing import Any

from inlinetrace.dwarf._units import Info

class Prototype:
    """Name and parameters of a function's entry."""

    name: str | None
    linkage_name: str | None
    return_type: int
    origin: int
    decl_file: int
    decl_line: int
    variadic: bool
    external: bool
    parameters: tuple[tuple[int, str | None, int, int], ...]

class DieReader:
    """Reads single entries of several sections of units."""

    infos: list[Info]

    def __init__(self, infos: list[Info]) -> None: ...
    def forget(self) -> None: ...
    def die(self, key: int) -> tuple[int, dict[int, tuple[str, Any]], int | None]: ...
    def unit_entry(self, key: int) -> int: ...
    def children(self, key: int) -> list[int]: ...
    def prototype(self, key: int) -> Prototype: ...
    def type_text(self, key: int) -> str: ...
    def type_shape(self, key: int) -> tuple[int, str, bool]: ...
