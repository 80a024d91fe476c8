"""Types of the compiled symbol index."""

from array import array

from typing_extensions import Buffer

class Index:
    """The symbols of one table, and its functions sorted by address."""

    count: int
    function_count: int

    def __init__(
        self,
        symbols: memoryview,
        strings: memoryview,
        extended: memoryview,
        limits: memoryview,
        bases: array[int],
        *,
        address_size: int,
        little_endian: bool,
        thumb: bool,
    ) -> None: ...
    def fields(self, number: int) -> tuple[int, int, int, int, int, int]: ...
    def lookup(self, address: int) -> int: ...
    def functions(self) -> memoryview: ...
    def function_starts(self, section: int) -> array[int]: ...
    def kallsyms(self, code: Buffer) -> tuple[array[int], array[int]]: ...
    def with_prefix(self, prefix: bytes) -> list[int]: ...
    def named(self, name: bytes) -> list[int]: ...
