"""Types of the compiled symbol index."""

class Index:
    """The symbols of one table, and its functions sorted by section and address."""

    count: int
    function_count: int

    def __init__(
        self,
        symbols: memoryview,
        strings: memoryview,
        extended: memoryview,
        limits: memoryview,
        *,
        address_size: int,
        little_endian: bool,
        by_section: bool,
        thumb: bool,
    ) -> None: ...
    def fields(self, number: int) -> tuple[int, int, int, int, int, int]: ...
    def lookup(self, address: int, section: int) -> int: ...
    def functions(self) -> memoryview: ...
    def with_prefix(self, prefix: bytes) -> list[int]: ...
    def named(self, name: bytes) -> list[int]: ...
