"""The Host on a directory tree, and on this machine."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from inlinetrace.errors import NotPermittedError
from inlinetrace.target.host import Host


def write(root: Path, path: str, data: bytes) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)


def test_where_tracefs_is(tmp_path: Path) -> None:
    host = Host(tmp_path)
    with pytest.raises(NotPermittedError, match="not mounted"):
        host.tracefs()
    (tmp_path / "sys/kernel/debug/tracing/events").mkdir(parents=True)
    assert host.tracefs() == "/sys/kernel/debug/tracing"
    (tmp_path / "sys/kernel/tracing/events").mkdir(parents=True)
    assert host.tracefs() == "/sys/kernel/tracing"


def test_processes_and_threads(tmp_path: Path) -> None:
    host = Host(tmp_path)
    fields = " ".join(["S", *["0"] * 18, "777", "0"])
    write(tmp_path, "/proc/5/stat", f"5 (a) b) (c) {fields}".encode())
    write(tmp_path, "/proc/5/status", b"Name:\ta\nTgid:\t3\n")
    (tmp_path / "proc/5/task/5").mkdir(parents=True)
    (tmp_path / "proc/5/task/6").mkdir(parents=True)
    (tmp_path / "proc/self").mkdir()
    assert list(host.processes()) == [5]
    assert host.start_time(5) == 777
    assert host.start_time(6) is None
    assert host.process_of(5) == 3
    assert host.process_of(6) is None
    assert host.threads(5) == [5, 6]
    assert host.threads(6) == []


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (tmp_path / "cache/taken").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        host.create("/cache/taken", "text")
    assert os.listdir(tmp_path / "cache") == ["taken"]
    host.create("/cache/new/file", "text")
    assert os.listdir(tmp_path / "cache/new") == ["file"]


def test_this_machine() -> None:
    host = Host()
    assert host.is_real
    start = host.start_time(os.getpid())
    assert start is not None
    assert start > 0
    seen: list[int | None] = []
    thread = threading.Thread(target=lambda: seen.append(host.process_of(threading.get_native_id())))
    thread.start()
    thread.join()
    assert seen == [os.getpid()]


def test_a_file_that_is_interrupted_leaves_no_other_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*paths: str) -> None:
        raise KeyboardInterrupt

    host = Host(tmp_path)
    host.create("/x", "old")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        host.create("/x", "new")
    assert host.names("/") == ["x"]
    assert host.read_text("/x") == "old"


@pytest.mark.parametrize(
    ("link", "sees"), [("pid:[4026531836]", True), ("pid:[4026532178]", False), (None, True), ("no /proc/self", False)]
)
def test_whether_all_processes_are_seen(link: str | None, sees: bool, tmp_path: Path) -> None:
    """Not in a PID namespace, nor in the /proc of one; a kernel without namespaces has no such link."""
    if link != "no /proc/self":
        (tmp_path / "proc/self/ns").mkdir(parents=True)
        if link is not None:
            (tmp_path / "proc/self/ns/pid").symlink_to(link)
    assert Host(tmp_path).sees_every_process == sees


def test_files_of_our_own_come_into_being_whole(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.create("/run/x/y", "text")
    assert host.read_text("/run/x/y") == "text"
    assert host.names("/run/x") == ["y"]
    with host.writer("/run/x/y") as append:
        append(" more")
    assert host.read_text("/run/x/y") == "text more"
    host.remove("/run/x/y")
    assert not host.exists("/run/x/y")
    assert host.names("/nowhere") == []
