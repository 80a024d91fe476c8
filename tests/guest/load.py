"""Work for the kernel while probes are on it: files, network and processes, each in a process of its own.

::

    with Load(tmp_path) as load:
        with load.aside():              # it goes on, but leaves most of one processor to us, and the others idle
            ...
        with load.paused():
            ...
        load.wait_for_rounds()          # every kind of work was done once more, from beginning to end

``python3 -m tests.guest.load KIND COUNTER`` is one of these processes; it counts its rounds in the file COUNTER.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

KINDS = ("files", "network", "processes")

_COUNTER = struct.Struct("<Q")
_NICENESS = 19


class Load:
    """The three workers, running inside of the block. ``directory`` holds their counters and, for files, their work.

    They are nicer than the tests: an emulated processor is slow.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._workers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Load:
        for kind in KINDS:
            self._counter(kind).write_bytes(_COUNTER.pack(0))
            self._workers.append(
                subprocess.Popen(
                    [sys.executable, "-S", "-m", "tests.guest.load", kind, str(self._counter(kind))],
                    cwd=Path(__file__).parents[2],
                    stdin=subprocess.DEVNULL,
                )
            )
            os.setpriority(os.PRIO_PROCESS, self._workers[-1].pid, _NICENESS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.wait()

    def rounds(self) -> dict[str, int]:
        """How many rounds each kind of work has done."""
        return {kind: int(_COUNTER.unpack(self._counter(kind).read_bytes())[0]) for kind in KINDS}

    def wait_for_rounds(self, count: int = 1, *, patience: float = 120) -> None:
        """Wait until each worker has begun and ended ``count`` rounds from now on; AssertionError if one cannot."""
        wanted = {kind: done + count + 1 for kind, done in self.rounds().items()}
        deadline = time.monotonic() + patience
        while True:
            done = self.rounds()
            if all(done[kind] >= wanted[kind] for kind in KINDS):
                return
            ended = [kind for kind, worker in zip(KINDS, self._workers, strict=True) if worker.poll() is not None]
            assert not ended, f"the work on {ended} has ended by itself"
            assert time.monotonic() < deadline, f"the work stands still: {done}, wanted are {wanted}"
            time.sleep(0.02)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Keep the workers and this thread on one processor inside of the block.

        Where all emulated processors take turns, each interrupt from one to another that is at work waits for its turn
        to end, a tenth of a second; patching code needs several for each probe.
        """
        for pid in (0, *(worker.pid for worker in self._workers)):
            os.sched_setaffinity(pid, {0})
        try:
            yield
        finally:
            everywhere = set(range(os.cpu_count() or 1))
            for pid in (0, *(worker.pid for worker in self._workers)):
                os.sched_setaffinity(pid, everywhere)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the workers inside of the block."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Have the workers go on inside of the block, within one where they are paused."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        for worker in self._workers:
            worker.send_signal(number)

    def _counter(self, kind: str) -> Path:
        return self._directory / f"load-{kind}"


def files(directory: Path) -> None:
    """One round of work on a file system and on /proc."""
    place = Path(tempfile.mkdtemp(dir=directory))
    first, second = place / "first", place / "second"
    with open(first, "w+b", buffering=0) as file:
        file.write(bytes(range(256)) * 64)
        file.seek(-300, os.SEEK_END)
        file.read(100)
        os.pread(file.fileno(), 50, 4090)
        os.truncate(file.fileno(), 5000)
        os.fsync(file.fileno())
        with mmap.mmap(file.fileno(), 4096) as view:
            view[10:20] = view[30:40]
            view.flush()
        with open(second, "wb", buffering=0) as copy:
            os.sendfile(copy.fileno(), file.fileno(), 0, 3000)
    os.link(first, place / "link")
    os.symlink(first, place / "symbolic")
    os.readlink(place / "symbolic")
    os.chmod(second, 0o600)
    os.utime(second)
    os.rename(second, place / "third")
    sorted(entry.stat().st_size for entry in os.scandir(place))
    for entry in sorted(os.listdir(place)):
        os.unlink(place / entry)
    os.rmdir(place)
    for name in ("self/stat", "self/maps", "meminfo", "interrupts"):
        Path("/proc", name).read_bytes()


def network() -> None:
    """One round of TCP, UDP and Unix sockets on the loopback interface."""
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.create_server((host, 0), family=family) as server, socket.socket(family) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.connect(server.getsockname())
            accepted, _ = server.accept()
            with accepted:
                client.sendall(bytes(20000))
                received = 0
                while received < 20000:
                    select.select([accepted], [], [], 10)
                    received += len(accepted.recv(65536))
                accepted.sendall(b"done")
                client.shutdown(socket.SHUT_WR)
                client.recv(10)
        with socket.socket(family, socket.SOCK_DGRAM) as one, socket.socket(family, socket.SOCK_DGRAM) as other:
            one.bind((host, 0))
            other.sendto(b"datagram", one.getsockname())
            one.recvfrom(100)
    left, right = socket.socketpair()
    with left, right:
        left.sendmsg([b"a", b"b"])
        right.recv(10)


def processes() -> None:
    """One round of processes, signals, pipes, threads and memory."""
    subprocess.run(["/bin/true"], check=True)
    signal.signal(signal.SIGUSR1, lambda number, frame: None)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, bytes(memoryview(bytearray(1 << 18)))[:100])
        os._exit(0)
    os.read(reading, 100)
    os.kill(os.getpid(), signal.SIGUSR1)
    os.waitpid(child, 0)
    os.close(reading)
    os.close(writing)
    thread = threading.Thread(target=time.sleep, args=(0.001,))
    thread.start()
    thread.join()
    with mmap.mmap(-1, 1 << 20) as memory:
        memory[::4096] = bytes(256)
        memory.madvise(mmap.MADV_DONTNEED)
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.sched_yield()


def main(kind: str, counter: str) -> None:
    """Do rounds of one kind of work for ever, counting them."""
    directory = Path(counter).parent
    work: dict[str, Callable[[], None]] = {
        "files": lambda: files(directory),
        "network": network,
        "processes": processes,
    }
    with open(counter, "r+b") as file, mmap.mmap(file.fileno(), _COUNTER.size) as shared:
        done = 0
        while True:
            work[kind]()
            done += 1
            shared[:] = _COUNTER.pack(done)


if __name__ == "__main__":
    main(*sys.argv[1:])
