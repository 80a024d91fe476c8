"""Records out of BPF ring buffers that are written here byte by byte."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from inlinetrace.errors import FormatError
from inlinetrace.probe import bpf_capture
from inlinetrace.probe._bpf_ring import RecordLayout, decode_ring

if TYPE_CHECKING:
    from inlinetrace.probe._ring import Record

PAGE = 64
BUSY, DISCARDED = 1 << 31, 1 << 30
HEADER = bpf_capture.HEADER_SIZE


class Ring:
    """A ring buffer of ``size`` bytes, with the data mapped twice as the kernel does it."""

    def __init__(self, size: int = 1024, position: int = 0) -> None:
        self.size = size
        self.consumer = bytearray(struct.pack("<Q", position).ljust(PAGE, b"\0"))
        self.data = bytearray(size)
        self.end = position

    def put(self, body: bytes, flags: int = 0, length: int | None = None) -> None:
        header = struct.pack("<II", (len(body) if length is None else length) | flags, 0)
        whole = header + body + bytes(-len(body) % 8)
        for index, byte in enumerate(whole):
            self.data[(self.end + index) % self.size] = byte
        self.end += len(whole)

    @property
    def position(self) -> int:
        return int(struct.unpack_from("<Q", self.consumer)[0])

    def read(self, layouts: list[RecordLayout | None], limit: int = 1000) -> tuple[list[Record], bool, dict[int, int]]:
        out: list[Record] = []
        processes: dict[int, int] = {}
        producer = struct.pack("<Q", self.end).ljust(PAGE, b"\0") + 2 * bytes(self.data)
        more = decode_ring(self.consumer, producer, PAGE, layouts, processes, out, limit)
        return out, more, processes


def body(behind: bytes = b"", *, time: int = 5, number: int = 0, faults: int = 0, thread: int = 43) -> bytes:
    low, high = faults & (1 << 64) - 1, faults >> 64
    return struct.pack("<QQIIII16sQQQ", time, 0x1234, thread, 42, number, 1, b"cat\0rest", low, high, 0) + behind


NUMBERS = RecordLayout([("number", HEADER, 8, 0), ("number", HEADER, 2, 1), ("bytes", HEADER + 8, 3, 1 << 70)], 0, 0, 0)
VALUES = struct.pack("<Q3s5x", 0x1122334455667788, b"abc")


def test_records_have_their_fields() -> None:
    ring = Ring()
    ring.put(body(VALUES))
    records, more, processes = ring.read([NUMBERS])
    assert records == [(5, 1, 43, 0, 0x1234, (0x1122334455667788, 0x7788, b"abc", b"cat"))]
    assert not more
    assert processes == {43: 42}
    assert ring.position == ring.end


@pytest.mark.parametrize(
    ("faults", "fields"),
    [
        (1, (0x1122334455667788, None, b"abc")),
        (1 << 70, (0x1122334455667788, 0x7788, None)),
        (2, (0x1122334455667788, 0x7788, b"abc")),
    ],
)
def test_what_could_not_be_read_is_none(faults: int, fields: tuple[object, ...]) -> None:
    ring = Ring()
    ring.put(body(VALUES, faults=faults))
    records, _, _ = ring.read([NUMBERS])
    assert records[0][5][:3] == fields


def test_a_name_without_an_end_has_sixteen_bytes() -> None:
    ring = Ring()
    whole = bytearray(body(VALUES))
    whole[32:48] = b"0123456789abcdef"
    ring.put(bytes(whole))
    assert ring.read([NUMBERS])[0][0][5][-1] == b"0123456789abcdef"


def texts(*parts: tuple[int, bytes], room: int) -> bytes:
    return b"".join(struct.pack("<q", size) + text.ljust(room, b"\0") for size, text in parts)


@pytest.mark.parametrize("room", [16, 64])
def test_texts_have_as_much_room_as_their_record_gives_them(room: int) -> None:
    layout = RecordLayout([("text", 0, 0, 0), ("text", 1, 0, 0), ("text", 2, 0, 4)], HEADER, 3, 64)
    ring = Ring()
    ring.put(body(texts((6, b"hello"), (-14, b""), (3, b"no"), room=room), faults=4))
    assert ring.read([layout])[0][0][5] == (b"hello", None, None, b"cat")


def test_text_that_was_cut_off_is_none() -> None:
    layout = RecordLayout([("text", 0, 0, 0)], HEADER, 1, 64)
    ring = Ring()
    ring.put(body(texts((64, b"x" * 63), room=64)))
    ring.put(body(texts((1, b""), room=64)))
    ring.put(body(texts((65, b"x" * 63), room=64)))
    assert [record[5][0] for record in ring.read([layout])[0]] == [None, b"", None]


def test_stacks_have_as_many_frames_as_they_say() -> None:
    layout = RecordLayout([("stack", HEADER, 32, 0)], 0, 0, 0)
    ring = Ring()
    for size in (16, -14, 40):
        ring.put(body(struct.pack("<q4Q", size, 1, 2, 3, 4)))
    assert [record[5][0] for record in ring.read([layout])[0]] == [struct.pack("<2Q", 1, 2), b"", b""]


def test_a_record_may_lie_across_the_end() -> None:
    ring = Ring(256, position=256 * 7 + 200)
    ring.put(body(VALUES, time=9))
    records, _, _ = ring.read([NUMBERS])
    assert records[0][0] == 9
    assert records[0][5][2] == b"abc"


def test_discarded_records_are_passed_over_and_unfinished_ones_waited_for() -> None:
    ring = Ring()
    ring.put(body(VALUES), DISCARDED)
    ring.put(body(VALUES, time=1))
    waiting = ring.end
    ring.put(body(VALUES, time=2), BUSY)
    ring.put(body(VALUES, time=3))
    records, more, _ = ring.read([NUMBERS])
    assert [record[0] for record in records] == [1]
    assert not more
    assert ring.position == waiting
    # finished meanwhile
    ring.data[waiting + 3] &= 0x7F
    assert [record[0] for record in ring.read([NUMBERS])[0]] == [2, 3]


def test_a_limit_leaves_the_rest() -> None:
    ring = Ring()
    for time in range(4):
        ring.put(body(VALUES, time=time))
    records, more, _ = ring.read([NUMBERS], limit=3)
    assert [record[0] for record in records] == [0, 1, 2]
    assert more
    assert [record[0] for record in ring.read([NUMBERS])[0]] == [3]


@pytest.mark.parametrize(
    ("layouts", "number", "text"),
    [
        ([NUMBERS], 1, "of no probe"),
        ([None], 0, "of no probe"),
        ([RecordLayout([("bytes", HEADER, 100, 0)], 0, 0, 0)], 0, "too short"),
    ],
)
def test_records_that_cannot_be_are_errors(layouts: list[RecordLayout | None], number: int, text: str) -> None:
    ring = Ring()
    ring.put(body(VALUES, number=number))
    with pytest.raises(FormatError, match=text):
        ring.read(layouts)


def test_damage_is_an_error() -> None:
    ring = Ring()
    ring.put(b"short")
    with pytest.raises(FormatError, match="too short"):
        ring.read([NUMBERS])
    ring = Ring()
    ring.put(body(VALUES), length=500)
    with pytest.raises(FormatError, match="cut off"):
        ring.read([NUMBERS])
    ring = Ring()
    ring.end = 5000
    with pytest.raises(FormatError, match="out of step"):
        ring.read([NUMBERS])
    ring = Ring(position=4)
    ring.end = 16
    with pytest.raises(FormatError, match="out of step"):
        ring.read([NUMBERS])
    with pytest.raises(FormatError, match="power of two"):
        decode_ring(bytearray(PAGE), bytes(PAGE + 2 * 1000), PAGE, [], {}, [], 1)
    with pytest.raises(FormatError, match="too short"):
        decode_ring(bytearray(4), bytes(PAGE), PAGE, [], {}, [], 1)


@pytest.mark.parametrize("field", [("number", 0, 3, 0), ("text", 2, 0, 0)])
def test_layouts_that_cannot_be(field: tuple[str, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"bytes|no room"):
        RecordLayout([field], HEADER, 1, 64)
