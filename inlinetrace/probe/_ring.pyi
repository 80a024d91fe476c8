from collections.abc import Sequence

Record = tuple[int, int, int, int, int, tuple[int | bytes | None, ...]]

class Layout:
    def __init__(
        self, fields: Sequence[tuple[int, int, str]], number_offset: int, ip_offset: int, ip_size: int
    ) -> None: ...

def decode_page(
    page: memoryview | bytes | bytearray,
    layouts: dict[int, Layout],
    cpu: int,
    out: list[Record],
    commit_offset: int,
    commit_size: int,
    data_offset: int,
) -> int: ...
