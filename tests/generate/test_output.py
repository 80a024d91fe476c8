"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inlinetrace.errors import InlineTraceError, NotFoundError, NotPermittedError
from inlinetrace.generate.output import Output, write_error, write_together


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.BTF"
    path.write_bytes(b"old")
    with Output(str(path)) as output:
        output.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["x.BTF"]


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    path = tmp_path / "x.BTF"
    path.write_bytes(b"old")

    def fail() -> None:
        with Output(str(path)) as output:
            output.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x.BTF"]


def test_several_files_appear_together(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(InlineTraceError, match="is a directory"):
        write_together({str(tmp_path / "a"): b"1", str(tmp_path / "b"): b"2"})
    assert os.listdir(tmp_path) == ["b"]
    write_together({str(tmp_path / "a"): b"1", str(tmp_path / "c"): b"2"})
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="directory does not exist"), Output(str(tmp_path / "no" / "x")):
        pass


def test_errors_say_what_is_the_matter() -> None:
    assert isinstance(write_error(PermissionError(13, "Permission denied"), "x"), NotPermittedError)
    assert isinstance(write_error(OSError(30, "Read-only file system"), "x"), NotPermittedError)
    assert (
        str(write_error(OSError(28, "No space left on device"), "x")) == "x: cannot be written: no space left on device"
    )


def test_links_are_followed_and_devices_stay(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to("there/file")
    write_together({str(link): b"data"})
    assert link.is_symlink()
    assert (tmp_path / "there" / "file").read_bytes() == b"data"
    write_together({"/dev/null": b"data"})
    assert Path("/dev/null").is_char_device()
    link.unlink()
    link.symlink_to("/dev/full")
    with pytest.raises(InlineTraceError, match="no space left"):
        write_together({str(link): b"data"})
    assert Path("/dev/full").is_char_device()


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full takes the place of the temporary file."""
    opened = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, mode=0o777: opened("/dev/full", os.O_WRONLY))
    with pytest.raises(InlineTraceError, match="no space left"):
        write_together({"x.BTF": b"data"})
