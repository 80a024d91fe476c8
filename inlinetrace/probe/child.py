"""A program that is started after everything is attached, and held until then."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from inlinetrace.errors import NotFoundError

_RESET = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGQUIT)
_NO_EXEC = 127


class Child:
    """A process that waits to become ``path``; its number is known before it runs.

    ``to_stderr``: its stdout is our stderr, for our stdout carries events.
    """

    def __init__(self, path: str, arguments: Sequence[str], *, to_stderr: bool) -> None:
        self.path = path
        self._status: int | None = None
        gate, self._release = os.pipe2(os.O_CLOEXEC)
        self._failure, failed = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            self._run(gate, failed, path, arguments, to_stderr)
        os.close(gate)
        os.close(failed)

    def _run(self, gate: int, failed: int, path: str, arguments: Sequence[str], to_stderr: bool) -> None:
        """The child: wait for the word, then become the program. Never returns."""
        try:
            os.close(self._release)
            for number in _RESET:
                signal.signal(number, signal.SIG_DFL)
            # no byte, only the end of the file: whoever held us is gone
            if os.read(gate, 1):
                if to_stderr:
                    os.dup2(2, 1)
                os.execv(path, [path, *arguments])
        except OSError as error:
            os.write(failed, str(error.errno).encode())
        finally:
            os._exit(_NO_EXEC)

    def start(self) -> None:
        """Let it run. Raises NotFoundError if the program cannot be executed."""
        os.write(self._release, b"x")
        os.close(self._release)
        self._release = -1
        error = os.read(self._failure, 16)
        if error:
            self.wait()
            raise NotFoundError(f"cannot be started: {os.strerror(int(error))}", path=self.path)

    def ended(self) -> bool:
        """Whether it has ended."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = status
        return self._status is not None

    def wait(self) -> int:
        """Wait for its end; return its exit code, or 128 and the number of the signal that ended it."""
        if self._status is None:
            self._status = os.waitpid(self.pid, 0)[1]
        code = os.waitstatus_to_exitcode(self._status)
        return code if code >= 0 else 128 - code

    def end(self, patience: float = 2.0) -> None:
        """End it if it still runs: politely first. A child that was never started just goes away."""
        if self._release >= 0:
            os.close(self._release)
            self._release = -1
            self.wait()
        elif not self.ended():
            os.kill(self.pid, signal.SIGTERM)
            limit = time.monotonic() + patience
            while not self.ended() and time.monotonic() < limit:
                time.sleep(0.01)
            if not self.ended():
                os.kill(self.pid, signal.SIGKILL)
                self.wait()
        if self._failure >= 0:
            os.close(self._failure)
            self._failure = -1
