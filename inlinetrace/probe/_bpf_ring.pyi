from collections.abc import Sequence

from inlinetrace.probe._ring import Record

class RecordLayout:
    def __init__(
        self, fields: Sequence[tuple[str, int, int, int]], text_offset: int, texts: int, longest: int
    ) -> None: ...

def decode_ring(
    consumer: bytearray | memoryview,
    producer: bytes | memoryview,
    page_size: int,
    layouts: Sequence[RecordLayout | None],
    processes: dict[int, int],
    out: list[Record],
    limit: int,
) -> bool: ...
