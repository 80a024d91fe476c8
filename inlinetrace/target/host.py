"""The machine: the only way to /proc, /sys, tracefs, /run and the clock.

>>> host = Host()
>>> host.read_text("/proc/version")
>>> host.tracefs()                          # "/sys/kernel/tracing"

Tests give it a directory with the files a machine would have: ``Host(root=tmp_path)``. Paths are those of the
machine; ``root`` is put before them. What is not there raises FileNotFoundError as the operating system does; callers
know what its absence means.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from inlinetrace.errors import NotPermittedError

# PROC_PID_INIT_INO (include/linux/proc_ns.h)
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"
TRACEFS_PLACES = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


class Host:
    """One machine, the one we run on unless ``root`` says otherwise.

    ``environment`` stands for the variables of the environment and ``user`` for the effective user's number; by default
    they are those of this process.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = "/",
        *,
        environment: Mapping[str, str] | None = None,
        user: int | None = None,
    ) -> None:
        self._root = os.fspath(root).rstrip("/")
        self.environment: Mapping[str, str] = os.environ if environment is None else environment
        self.user = os.geteuid() if user is None else user

    @property
    def is_real(self) -> bool:
        """Whether this is the machine we run on."""
        return not self._root

    def path(self, path: str) -> str:
        """Where a file of the machine is for us."""
        return self._root + path

    @property
    def is_root(self) -> bool:
        """Whether we run as root."""
        return self.user == 0

    @property
    def release(self) -> str:
        """The kernel's release, as ``uname -r`` says it."""
        return self.read_text("/proc/sys/kernel/osrelease").strip()

    # Files

    def exists(self, path: str) -> bool:
        """Whether there is such a file or directory."""
        return os.path.exists(self.path(path))

    def read_bytes(self, path: str) -> bytes:
        """The contents of a file."""
        with open(self.path(path), "rb", buffering=0) as file:
            return file.read()

    def read_text(self, path: str) -> str:
        """The contents of a file as text; bytes that are not UTF-8 are kept as surrogates."""
        return self.read_bytes(path).decode("utf-8", "surrogateescape")

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        """Write ``text`` in one call, as files of the kernel want it."""
        flags = os.O_WRONLY | (os.O_APPEND if append else os.O_TRUNC)
        descriptor = os.open(self.path(path), flags)
        try:
            self._write_whole(descriptor, text, path)
        finally:
            os.close(descriptor)

    @contextmanager
    def writer(self, path: str) -> Iterator[Callable[[str], None]]:
        """A file opened once for many writes behind its end, each in one call: definitions of events."""
        descriptor = os.open(self.path(path), os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            yield lambda text: self._write_whole(descriptor, text, path)
        finally:
            os.close(descriptor)

    @staticmethod
    def _write_whole(descriptor: int, text: str, path: str) -> None:
        try:
            os.write(descriptor, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            error.filename = path
            raise

    def create(self, path: str, contents: str | bytes) -> None:
        """Write a file of our own, which comes into being whole; its directory is made if need be. Text is UTF-8."""
        place = self.path(path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        temporary = f"{place}.{os.getpid()}"
        try:
            with open(temporary, "wb") as file:
                file.write(contents.encode() if isinstance(contents, str) else contents)
            os.replace(temporary, place)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise

    def open(self, path: str, flags: int) -> int:
        """A file descriptor, closed on exec."""
        return os.open(self.path(path), flags | os.O_CLOEXEC)

    def names(self, path: str) -> list[str]:
        """Sorted names in a directory, none if it is not there."""
        try:
            return sorted(os.listdir(self.path(path)))
        except FileNotFoundError:
            return []

    def read_link(self, path: str) -> str:
        """What a symbolic link says."""
        return os.readlink(self.path(path))

    def walk(self, path: str) -> Iterator[str]:
        """The paths of all files below a directory, without following links to directories; sorted by directory."""
        for folder, folders, names in os.walk(self.path(path)):
            folders.sort()
            for name in sorted(names):
                yield os.path.join(folder, name)[len(self._root) :]

    def status(self, path: str) -> os.stat_result:
        """What the operating system says of a file, links followed."""
        return os.stat(self.path(path))

    def owner(self, path: str) -> int:
        """The number of the user that a file belongs to, links followed."""
        return os.stat(self.path(path)).st_uid

    def identity(self, path: str) -> int:
        """The number of a file or directory (inode), which is another one when it was made again."""
        return os.stat(self.path(path)).st_ino

    def is_world_writable(self, path: str) -> bool:
        """Whether everybody may write a file or directory."""
        return bool(os.stat(self.path(path)).st_mode & stat.S_IWOTH)

    def make_directory(self, path: str) -> None:
        """Make a directory (a trace instance)."""
        os.mkdir(self.path(path))

    def remove_directory(self, path: str) -> None:
        """Remove a directory (a trace instance)."""
        os.rmdir(self.path(path))

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self.path(path))

    # Processes

    def processes(self) -> Iterator[int]:
        """Numbers of the processes there are."""
        for name in self.names("/proc"):
            if name.isdecimal():
                yield int(name)

    @property
    def sees_every_process(self) -> bool:
        """Whether /proc has all processes of the machine, by the numbers that its tracing has: not in a container."""
        try:
            return self.read_link("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
        except FileNotFoundError:
            # a kernel without PID namespaces; without /proc/self it is that of a namespace which we are not in
            return self.exists("/proc/self/ns")

    def start_time(self, pid: int) -> int | None:
        """When a process was started, in clock ticks after boot; None if there is none. Tells a pid from its reuse."""
        try:
            text = self.read_text(f"/proc/{pid}/stat")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # the name may have blanks and brackets in it
        fields = text[text.rfind(")") + 1 :].split()
        return int(fields[19]) if len(fields) > 19 and fields[0] not in ("Z", "X") else None

    def process_of(self, tid: int) -> int | None:
        """The process that a thread belongs to; None if the thread is gone."""
        try:
            for line in self.read_text(f"/proc/{tid}/status").splitlines():
                if line.startswith("Tgid:"):
                    return int(line[5:])
        except (FileNotFoundError, ProcessLookupError):
            pass
        return None

    def number_inside(self, pid: int) -> int:
        """The number that a process has for itself, in the innermost of its PID namespaces; ``pid`` if it is gone."""
        with suppress(FileNotFoundError, ProcessLookupError):
            for line in self.read_text(f"/proc/{pid}/status").splitlines():
                if line.startswith("NSpid:"):
                    return int(line.split()[-1])
        return pid

    def threads(self, pid: int) -> list[int]:
        """Threads of a process, none if it is gone."""
        return [int(name) for name in self.names(f"/proc/{pid}/task")]

    def code_mappings(self, pid: int) -> dict[str, str]:
        """Files that a process has in its memory as code: names by extent, as in ``map_files``; none if it is gone.

        A name ends in " (deleted)" where the file was deleted or replaced.
        """
        try:
            lines = self.read_text(f"/proc/{pid}/maps").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return {}
        # 5581d0a3f000-5581d0a40000 r-xp 00001000 fe:01 1234   /path of/the file
        fields = (line.split(None, 5) for line in lines)
        return {words[0]: words[5] for words in fields if len(words) == 6 and "x" in words[1] and words[4] != "0"}

    # Clocks

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC, which the trace clock ``mono`` follows, in nanoseconds."""
        return time.monotonic_ns()

    def realtime_ns(self) -> int:
        """CLOCK_REALTIME, in nanoseconds after the epoch."""
        return time.time_ns()

    # Tracing

    def tracefs(self) -> str:
        """Where tracefs is mounted. Raises NotPermittedError that says what is missing."""
        for place in TRACEFS_PLACES:
            try:
                if self.exists(f"{place}/events"):
                    return place
            except PermissionError:
                continue
        if self.is_real and os.geteuid() != 0:
            raise NotPermittedError("tracing needs root: tracefs cannot be read by this user")
        raise NotPermittedError("tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing")
