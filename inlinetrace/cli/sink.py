"""Where hits go: a file, or somebody who reads them and may have stopped to.

>>> sink = Sink(sys.stdout)
>>> sink.write(line)
>>> sink.flush(lambda: bool(signals))        # False if nobody reads, and we are told to end
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from typing import TextIO

from inlinetrace.generate.output import write_error

# How long a reader may take before we ask again whether to wait for him.
_PATIENCE_MS = 100


class Sink:
    """Lines to a file. They are kept until ``flush``, so that it alone can have to wait.

    ``path`` is the file's name for messages. A writer that waits in a write cannot be ended without harm, so nothing is
    written that there is no room for.
    """

    def __init__(self, file: TextIO, path: str | None = None) -> None:
        self._descriptor = file.fileno()
        self._encoding, self._errors = file.encoding, file.errors or "strict"
        self._path = path
        self._lines: list[str] = []
        # a pipe that takes anything takes this much without waiting
        self._most = None if stat.S_ISREG(os.fstat(self._descriptor).st_mode) else select.PIPE_BUF
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLOUT)

    def write(self, line: str) -> None:
        """Add a line."""
        self._lines.append(f"{line}\n")

    def flush(self, give_up: Callable[[], bool]) -> bool:
        """Write all lines, waiting for the reader until ``give_up`` says so; whether they are written.

        Raises BrokenPipeError if the reader is gone, InlineTraceError or OSError if it cannot be written.
        """
        data = memoryview("".join(self._lines).encode(self._encoding, self._errors))
        self._lines.clear()
        while data:
            if not self._poll.poll(_PATIENCE_MS):
                if give_up():
                    return False
                continue
            try:
                data = data[os.write(self._descriptor, data[: self._most]) :]
            except BrokenPipeError:
                raise
            except OSError as error:
                if self._path is None:
                    raise
                raise write_error(error, self._path) from error
        return True
