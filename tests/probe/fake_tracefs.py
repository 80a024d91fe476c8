"""A directory that behaves like tracefs as far as the backend can tell, and notes what is done to it in order."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from inlinetrace.target.host import Host

TRACEFS = "/sys/kernel/tracing"
HEADER_PAGE = (
    "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
    "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
    "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
    "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
)
_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8, "string": 4}


class FakeTracefs(Host):
    """A machine with one processor, tracefs, and the processes that ``add_process`` makes."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.done: list[str] = []
        self.reject: Callable[[str], int | None] = lambda line: None
        self.reject_enabled: Callable[[str], int | None] = lambda line: None
        for folder in ("events", "instances", "options"):
            os.makedirs(self.path(f"{TRACEFS}/{folder}"))
        for name in (
            "dynamic_events",
            "uprobe_events",
            "kprobe_events",
            "error_log",
            "saved_tgids",
            "uprobe_profile",
            "kprobe_profile",
        ):
            Path(self.path(f"{TRACEFS}/{name}")).write_text("")
        Path(self.path(f"{TRACEFS}/events/header_page")).write_text(HEADER_PAGE)
        self.add_process(os.getpid(), 1000)
        self.enter_namespace("pid:[4026531836]")

    def enter_namespace(self, name: str) -> None:
        """Be in another PID namespace."""
        folder = Path(self.path("/proc/self/ns"))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pid").unlink(missing_ok=True)
        (folder / "pid").symlink_to(name)

    def add_process(self, pid: int, start: int, links: tuple[str, ...] = ()) -> None:
        folder = Path(self.path(f"/proc/{pid}"))
        (folder / "fd").mkdir(parents=True)
        (folder / "task" / str(pid)).mkdir(parents=True)
        fields = ["S", *["0"] * 18, str(start), "0"]
        (folder / "stat").write_text(f"{pid} (a (strange) name) {' '.join(fields)}\n")
        (folder / "status").write_text(f"Name:\tx\nTgid:\t{pid}\n")
        for number, link in enumerate(links):
            (folder / "fd" / str(number)).symlink_to(link)

    def define(self, line: str) -> None:
        """What the kernel does with one line of ``uprobe_events`` or ``kprobe_events``."""
        number = self.reject(line)
        if number is not None:
            raise OSError(number, os.strerror(number))
        found = re.match(r"p:(\w+)/(\w+) \S+ ?(.*)", line)
        assert found is not None
        group, event, arguments = found.groups()
        for place in self.places():
            folder = Path(self.path(f"{place}/events/{group}/{event}"))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "enable").write_text("0\n")
            (folder / "format").write_text(_format(arguments))
            (folder.parent / "enable").write_text("0\n")

    def places(self) -> list[str]:
        return [TRACEFS, *(f"{TRACEFS}/instances/{name}" for name in self.names(f"{TRACEFS}/instances"))]

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        self.done.append(f"{path.removeprefix(TRACEFS + '/')} <- {text.strip()}")
        if text.startswith("-:"):
            self._delete(path, text.strip())
            return
        if path.endswith("/enable") and text == "1\n":
            self.check_enabled(os.path.basename(os.path.dirname(path)))
        super().write(path, text, append=append)
        if path.endswith("/enable"):
            group = f"{os.path.dirname(os.path.dirname(path))}/enable"
            if self.exists(group):
                super().write(group, "X\n")
            for event in self.names(os.path.dirname(path)):
                single = f"{os.path.dirname(path)}/{event}/enable"
                if self.exists(single):
                    super().write(single, text)

    def check_enabled(self, event: str) -> None:
        """What the kernel says when an event is enabled: all of its probes are taken, or none."""
        for name in ("uprobe_events", "kprobe_events"):
            for line in self.read_text(f"{TRACEFS}/{name}").splitlines():
                number = self.reject_enabled(line) if f"/{event} " in line else None
                if number is not None:
                    raise OSError(number, os.strerror(number))

    def _delete(self, path: str, text: str) -> None:
        group, event = text[2:].split("/")
        for place in self.places():
            enable = f"{place}/events/{group}/{event}/enable"
            assert not self.exists(enable) or self.read_text(enable) == "0\n", "a busy event is deleted"
            shutil.rmtree(self.path(f"{place}/events/{group}/{event}"))
            if self.names(f"{place}/events/{group}") == ["enable"]:
                shutil.rmtree(self.path(f"{place}/events/{group}"))
        kept = [line for line in self.read_text(path).splitlines() if f":{group}/{event} " not in line]
        Path(self.path(path)).write_text("".join(f"{line}\n" for line in kept))

    @contextmanager
    def writer(self, path: str) -> Iterator[Callable[[str], None]]:
        def write(text: str) -> None:
            self.define(text.strip())
            with open(self.path(path), "a") as file:
                file.write(text)

        self.done.append(f"open {path.removeprefix(TRACEFS + '/')}")
        yield write

    def make_directory(self, path: str) -> None:
        self.done.append(f"mkdir {path.removeprefix(TRACEFS + '/')}")
        folder = Path(self.path(path))
        folder.mkdir()
        for name in ("trace_clock", "buffer_size_kb", "set_event_pid"):
            (folder / name).write_text("")
        (folder / "options").mkdir()
        for name in ("record-tgid", "event-fork"):
            (folder / "options" / name).write_text("0\n")
        (folder / "per_cpu" / "cpu0").mkdir(parents=True)
        (folder / "per_cpu" / "cpu0" / "trace_pipe_raw").write_bytes(b"")
        (folder / "per_cpu" / "cpu0" / "stats").write_text(
            "entries: 3\noverrun: 5\ncommit overrun: 1\ndropped events: 2\n"
        )
        shutil.copytree(self.path(f"{TRACEFS}/events"), folder / "events")

    def remove_directory(self, path: str) -> None:
        if not self.exists(path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        self.done.append(f"rmdir {path.removeprefix(TRACEFS + '/')}")
        shutil.rmtree(self.path(path))


def _format(arguments: str) -> str:
    lines = [
        "name: e\nID: 77\nformat:",
        "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;",
        "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;",
        "\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;",
    ]
    offset = 16
    for argument in arguments.split():
        name, _, rest = argument.partition("=")
        type_ = rest.rpartition(":")[2]
        size = _SIZES[type_]
        kind = "__data_loc char[]" if type_ == "string" else type_
        lines.append(f"\tfield:{kind} {name};\toffset:{offset};\tsize:{size};\tsigned:0;")
        offset += size
    return "\n".join(lines) + "\n"
