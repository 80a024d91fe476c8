"""Types of the compiled relocator."""

from array import array

OPERATIONS: dict[str, int]

class Layout:
    """How the entries of one relocation section and of its symbol table are laid out.

    ``bases`` are the addresses of all sections, ``place`` is that of the section to be relocated.
    """

    def __init__(
        self,
        entries: memoryview,
        symbols: memoryview,
        extended: memoryview,
        kinds: bytes,
        bases: array[int],
        *,
        place: int,
        address_size: int,
        with_addends: bool,
        little_endian: bool,
        thread_local_bias: int,
        lenient: bool,
    ) -> None: ...

class RelocationError(Exception):
    """What is wrong, with ``kind`` (bounds, symbol or type), ``offset`` of the relocation entry and ``number``."""

    kind: str
    offset: int
    number: int

def apply(layout: Layout, data: bytearray) -> None: ...
def values(layout: Layout) -> tuple[array[int], array[int], array[int]]: ...
