"""Pages of the ring buffer."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inlinetrace.errors import FormatError
from inlinetrace.probe._ring import Layout, decode_page
from tests.probe.ring_writer import absolute, event, extend, long_event, padding, page

if TYPE_CHECKING:
    from inlinetrace.probe._ring import Record

# k at 16, a number of each size, an array, two texts
FIELDS = [(20, 1, "number"), (22, 2, "number"), (24, 4, "number"), (28, 8, "number"), (36, 3, "bytes")]
TEXTS = [(40, 4, "guard"), (44, 4, "text"), (48, 4, "text")]


def layout() -> Layout:
    return Layout([*FIELDS, *TEXTS], 16, 8, 8)


def body(
    number: int = 5, texts: tuple[tuple[int, int], ...] = ((52, 1), (53, 3), (56, 4)), tail: bytes = b"\0ab\0cat\0"
) -> bytes:
    locations = [size << 16 | offset for offset, size in texts]
    return (
        struct.pack(
            "<HBBiQIBxHIQ3sxIII",
            7,
            0,
            0,
            42,
            0xFFFFFFFF81000000,
            number,
            200,
            60000,
            4000000000,
            1 << 63,
            b"xyz",
            *locations,
        )
        + tail
    )


def decode(data: bytes) -> tuple[list[Record], int]:
    out: list[Record] = []
    lost = decode_page(data, {7: layout()}, 3, out, 8, 8, 16)
    return out, lost


def test_all_fields_of_a_record() -> None:
    out, lost = decode(page(1000, event(body(), 10)))
    assert lost == 0
    assert out == [(1010, 3, 42, 5, 0xFFFFFFFF81000000, (200, 60000, 4000000000, 1 << 63, b"xyz", True, b"ab", b"cat"))]


def test_text_without_room_was_not_read() -> None:
    # the kernel leaves the room that is left as its length; the next text starts at the same place
    (record,) = decode(page(0, event(body(texts=((52, 4), (52, 4), (52, 4)), tail=b"cat\0"))))[0]
    assert record[5][5:] == (None, None, b"cat")
    (record,) = decode(page(0, event(body(texts=((52, 0), (52, 0), (52, 4)), tail=b"cat\0"))))[0]
    assert record[5][5:] == (None, None, b"cat")
    (record,) = decode(page(0, event(body(texts=((52, 4), (52, 3), (55, 4)), tail=b"ab\0cat\0"))))[0]
    assert record[5][5:] == (None, b"ab", b"cat")


def test_empty_text_was_read() -> None:
    (record,) = decode(page(0, event(body(texts=((52, 1), (53, 1), (54, 1)), tail=b"\0\0\0"))))[0]
    assert record[5][5:] == (True, b"", b"")


def test_a_word_was_read_where_no_text_behind_it_was_looked_for_in_vain() -> None:
    """The kernel sets the length to the room that is left, and to 0 once the word has led nowhere."""
    words = Layout([*FIELDS, (40, 4, "word"), (44, 4, "word"), (48, 4, "text")], 16, 8, 8)

    def fields(texts: tuple[tuple[int, int], ...], tail: bytes) -> tuple[object, ...]:
        out: list[Record] = []
        decode_page(page(0, event(body(texts=texts, tail=tail))), {7: words}, 3, out, 8, 8, 16)
        return out[0][5][5:]

    assert fields(((52, 0), (52, 4), (52, 4)), b"cat\0") == (True, None, b"cat")
    assert fields(((52, 4), (52, 0), (52, 4)), b"cat\0") == (None, True, b"cat")
    assert fields(((52, 3), (55, 0), (55, 4)), b"ab\0cat\0") == (True, True, b"cat")
    # a text that took the room of all others: nobody knows
    assert fields(((52, 4), (56, 0), (56, 0)), b"abc\0") == (True, None, None)


def test_times_add_up() -> None:
    far = (1 << 40) + 12345
    records = [
        event(body(1), 3),
        extend(1 << 30),
        event(body(2), 4),
        absolute(far),
        event(body(3), 5),
        padding(20, 9),
        event(body(4), 6),
    ]
    out, _ = decode(page(100, *records))
    assert [record[0] for record in out] == [103, 107 + (1 << 30), far + 5, far + 20]
    assert [record[3] for record in out] == [1, 2, 3, 4]


def test_long_records_and_those_of_other_events() -> None:
    text = b"q" * 300 + b"\0"
    long = body(texts=((52, 1), (53, 301), (354, 4)), tail=b"\0" + text + b"cat\0")
    other = struct.pack("<HBBi", 99, 0, 0, 1)
    out, _ = decode(page(0, event(other), event(long), long_event(body())))
    assert [record[5][6] for record in out] == [b"q" * 300, b"ab"]


def test_what_was_lost_before_a_page() -> None:
    assert decode(page(0, event(body()), lost=12345))[1] == 12345
    assert decode(page(0, event(body()), flags=0x80000000))[1] == -1


def test_nothing_behind_the_end_of_a_page() -> None:
    out, _ = decode(page(0, event(body()), struct.pack("<I", 29), event(body())))
    assert len(out) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 15,
        struct.pack("<QQ", 0, 4081).ljust(4096, b"\0"),
        page(0, struct.pack("<I", 28)),
        page(0, struct.pack("<I", 30)),
        page(0, struct.pack("<II", 1 << 5, 3)),
        page(0, struct.pack("<II", 1 << 5, 400)),
        page(0, struct.pack("<II", 1 << 5 | 29, 0)),
        page(0, struct.pack("<II", 1 << 5 | 29, 4000)),
        page(0, event(body()[:40])),
    ],
)
def test_broken_pages_say_where(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        decode(data)
    assert caught.value.offset is not None


@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_page_is_read_beyond_its_end(data: bytes, length: int) -> None:
    with suppress(FormatError):
        decode(struct.pack("<QQ", 0, length) + data)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=3, max_size=3), st.binary(max_size=40))
def test_texts_anywhere(texts: list[tuple[int, int]], tail: bytes) -> None:
    (record,) = decode(page(0, event(body(texts=tuple(texts), tail=tail))))[0]
    for text in record[5][6:]:
        assert text is None or isinstance(text, bytes)


@pytest.mark.parametrize("fields", [[(0, 3, "number")], [(0, 8, "text")], [(0, 4, "number")] * 300])
def test_layouts_that_no_event_has(fields: list[tuple[int, int, str]]) -> None:
    with pytest.raises(ValueError):
        Layout(fields, 16, 8, 8)
