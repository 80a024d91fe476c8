"""Boots a guest under QEMU and runs one job in it.

::

    machine = Machine(MachineOptions(kernel="6.12", kaslr=False), job, results)
    with machine:
        for message in machine.messages(timeout=60): ...
    machine.status, machine.console()

A job is a directory with an executable ``run``; it appears at /job and reports by writing one JSON object per line to
the second serial port, /dev/ttyS1 (:meth:`Machine.messages`), other text being passed over. The files it leaves in
``$OUT`` come back in ``results``. Everything is emulated unless ``INLINETRACE_VM_ACCEL=kvm`` says otherwise: no access
to /dev/kvm is needed, no network, and no privileges beyond those of the files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from vmimages import disks
from vmimages.cache import RecipeError, require
from vmimages.kerneldisk import kernel_disk
from vmimages.kernels import Kernel, find
from vmimages.rootfs import root_disk

_POLL = 0.02  # seconds
TEST_REQUIREMENTS: tuple[str, ...] = ("pytest>=8",)


# Where a kernel begins to die: what follows may be longer than the end of the console that is shown.
_DEATH = re.compile(r"Kernel panic|BUG:|Oops|sysrq: Trigger a crash")


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """What the guest is like.

    ``kernel`` is a series the cache has; ``memory`` in MiB; ``root`` a name of :func:`vmimages.rootfs.roots`;
    ``cmdline`` more words for the kernel's command line, for instance ``lockdown=confidentiality``.
    """

    kernel: str
    kaslr: bool = True
    memory: int = 1024
    cpus: int = 2
    root: str = "minimal"
    read_only_root: bool = False
    cmdline: tuple[str, ...] = ()


class MachineError(Exception):
    """The guest died, hung or could not be started; the text has the console's last lines."""


class Machine:
    """One boot of one guest; a context manager that ends it."""

    def __init__(
        self,
        options: MachineOptions,
        job: Path,
        results: Path | None = None,
        *,
        test_requirements: Sequence[str] = TEST_REQUIREMENTS,
        interactive: bool = False,
    ) -> None:
        self.options = options
        self.kernel: Kernel = find(options.kernel)
        self.status: int | None = None
        self.patience = 0.0
        self.idle: Callable[[], None] | None = None
        self._results = results
        self._interactive = interactive
        self._directory = Path(tempfile.mkdtemp(prefix="inlinetrace-vm-"))
        self._channel_offset = 0
        self._partial = b""
        self._stopped = False
        self._last_console = ""
        root = root_disk(options.root, test_requirements)
        kernel_files = kernel_disk(self.kernel)
        disks.filesystem(job, self._directory / "job.img", label="job")
        disks.empty(self._directory / "out.tar", 1024)
        self._console.touch()
        self._channel.touch()
        self._process = subprocess.Popen(
            self._command(root, kernel_files),
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=None if interactive else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self._directory)},
        )

    @property
    def _console(self) -> Path:
        return self._directory / "console"

    @property
    def _channel(self) -> Path:
        return self._directory / "channel"

    def _command(self, root: Path, kernel_files: Path) -> list[str]:
        options = self.options
        accelerator = os.environ.get("INLINETRACE_VM_ACCEL", "tcg")
        # With a thread per processor, one may run translated code that another has just patched (tracepoints, probes):
        # seen as "Oops: int3" at an address that no longer holds one.
        acceleration = ["-accel", "tcg,thread=single", "-cpu", "max"]
        if accelerator == "kvm":
            acceleration = ["-accel", "kvm", "-cpu", "host"]
        words = [
            f"root=PARTUUID={disks.DISK_SIGNATURE:08x}-01", "rootwait", "rootfstype=ext4", "init=/init",
            "ro" if options.read_only_root else "rw", "console=ttyS0", "loglevel=5", "panic=-1", "oops=panic",
            # no_timer_check: on a busy host the kernel finds that its timer does not work, and gives up.
            "tsc=unstable", "no_timer_check", *([] if options.kaslr else ["nokaslr"]), *options.cmdline,
        ]  # fmt: skip
        drives = [
            ("root", root, "snapshot=on"),
            ("kernel", kernel_files, "readonly=on"),
            ("job", self._directory / "job.img", "readonly=on"),
            ("out", self._directory / "out.tar", "cache=unsafe"),
        ]
        # A guest must not outlive whoever started it, however that ends.
        command = [
            require("setpriv", "util-linux"), "--pdeathsig", "KILL",
            require("qemu-system-x86_64", "qemu-system-x86"), *acceleration, "-smp", str(options.cpus),
            "-m", str(options.memory), "-nodefaults", "-no-reboot", "-display", "none",
            "-serial", "mon:stdio" if self._interactive else f"file:{self._console}",
            "-serial", f"file:{self._channel}", "-kernel", str(self.kernel.image), "-append", " ".join(words),
        ]  # fmt: skip
        for name, path, how in drives:
            command += ["-drive", f"file={path},format=raw,if=none,id={name},{how}"]
            command += ["-device", f"nvme,drive={name},serial={name}"]
        return command

    def __enter__(self) -> Machine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def messages(self, timeout: float) -> Iterator[dict[str, Any]]:
        """Yield what the job reports until it ends and its results are here.

        MachineError: nothing came for ``timeout`` seconds, or the guest ended without telling the job's exit status.
        :attr:`patience` may be set between messages to change the time limit; :attr:`idle` is called while there are
        none.
        """
        self.patience = timeout
        deadline = time.monotonic() + timeout
        while True:
            ended = self._process.poll() is not None
            for message in self._new_messages():
                if message.get("event") == "exit":
                    self.status = int(message["status"])
                else:
                    yield message
                deadline = time.monotonic() + self.patience
            if ended:
                break
            if time.monotonic() > deadline:
                self.stop()
                raise MachineError(f"the guest reported nothing for {self.patience:g} s{self._tail()}")
            if self.idle is not None:
                self.idle()
            time.sleep(_POLL)
        if self.status is None:
            raise MachineError(f"the guest ended before its job did ({self._qemu_trouble()}){self._tail()}")
        self._collect()

    @property
    def running(self) -> bool:
        """Whether the guest has not ended yet."""
        return self._process.poll() is None

    def wait(self, timeout: float) -> int:
        """Wait for the end of the job, passing over its reports; its exit status. MachineError as for messages."""
        for _ in self.messages(timeout):
            pass
        if self.status is None:
            raise MachineError("the job has no exit status")
        return self.status

    def attend(self) -> int:
        """Wait for an interactive guest to be powered off; QEMU's exit status."""
        status = self._process.wait()
        if status and self._process.stderr is not None:
            raise MachineError(f"qemu: {self._process.stderr.read().decode(errors='replace').strip()}")
        return status

    def console(self) -> str:
        """The console's text so far."""
        if not self._console.exists():
            return ""
        return self._console.read_text(errors="replace").replace("\r", "")

    def stop(self) -> None:
        """End the guest if it runs, and remove the files of this boot."""
        if self._stopped:
            return
        self._stopped = True
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._last_console = self.console()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _new_messages(self) -> list[dict[str, Any]]:
        with open(self._channel, "rb") as handle:
            handle.seek(self._channel_offset)
            data = handle.read()
        self._channel_offset += len(data)
        *lines, self._partial = (self._partial + data).split(b"\n")
        found = []
        for line in lines:
            if line.startswith(b"{"):
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                found.append(message)
        return found

    def _collect(self) -> None:
        if self._results is not None:
            self._results.mkdir(parents=True, exist_ok=True)
            try:
                with tarfile.open(self._directory / "out.tar") as archive:
                    archive.extractall(self._results, filter="data")
            except tarfile.TarError as error:
                raise MachineError(f"the guest's results cannot be read: {error}") from None
            (self._results / "console.log").write_text(self.console())

    def _qemu_trouble(self) -> str:
        text = b""
        if self._process.stderr is not None and not self._process.stderr.closed:
            text = self._process.stderr.read()
        first = text.decode(errors="replace").strip().splitlines()[:1]
        return f"qemu's exit status {self._process.returncode}{': ' + first[0] if first else ''}"

    def _tail(self) -> str:
        console = self._last_console if self._stopped else self.console()
        lines = console.splitlines()
        first = next((number for number, line in enumerate(lines) if _DEATH.search(line)), len(lines))
        return "; end of its console:\n" + "\n".join(lines[min(first, max(len(lines) - 40, 0)) :][:200])


def run_job(
    options: MachineOptions, job: Path, *, results: Path | None = None, timeout: float = 300
) -> tuple[int, str]:
    """Boot a guest, run ``job`` in it and return its exit status and the console's text."""
    if not os.access(job / "run", os.X_OK):
        raise RecipeError(f"{job}/run is not there or not executable")
    with Machine(options, job, results) as machine:
        status = machine.wait(timeout)
        return status, machine.console()
