"""Hits on their way to somebody who may have stopped reading."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inlinetrace.cli.sink import Sink
from inlinetrace.errors import InlineTraceError


def test_a_reader_gets_all_lines() -> None:
    reading, writing = os.pipe()
    with open(writing, "w", encoding="utf-8", errors="backslashreplace") as file:
        sink = Sink(file)
        sink.write("ä\udcff")
        assert sink.flush(lambda: False)
        assert sink.flush(lambda: False)
    with open(reading, "rb") as pipe:
        assert pipe.read() == "ä\\udcff\n".encode()


def test_who_does_not_read_is_waited_for_until_we_are_told_to_end() -> None:
    reading, writing = os.pipe()
    asked: list[None] = []

    def give_up() -> bool:
        asked.append(None)
        if len(asked) == 2:
            os.read(reading, 1 << 20)
        return len(asked) > 3

    with open(writing, "w") as file:
        sink = Sink(file)
        for _ in range(3000):
            sink.write("x" * 99)
        assert not sink.flush(give_up)
        assert len(asked) == 4
        # what was given up is not written later
        os.read(reading, 1 << 20)
        assert sink.flush(give_up)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_reader_that_is_gone() -> None:
    reading, writing = os.pipe()
    with open(writing, "w") as file:
        sink = Sink(file)
        os.close(reading)
        sink.write("x")
        with pytest.raises(BrokenPipeError):
            sink.flush(lambda: False)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hits"
    with open(path, "w") as file:
        sink = Sink(file, str(path))
        sink.write("x" * 100_000)
        assert sink.flush(lambda: True)
    assert path.read_text() == "x" * 100_000 + "\n"
    with open("/dev/full", "w") as file:
        sink = Sink(file, "/dev/full")
        sink.write("x")
        with pytest.raises(InlineTraceError, match="/dev/full: cannot be written: no space left on device"):
            sink.flush(lambda: True)
