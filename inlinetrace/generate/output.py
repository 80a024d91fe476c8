"""Files that appear whole or not at all.

>>> with Output("out/vmlinux.BTF") as output: output.file.write(data)

What is written goes to a temporary name beside the file, which takes its place only when all of it is there: an
interrupted or failed run leaves the file as it was, and no other behind. Several Outputs in one ``with`` appear
together, after all of them have been written. A link is followed; a device or pipe is written as it is.
"""

from __future__ import annotations

import errno
import os
from typing import IO, TYPE_CHECKING

from inlinetrace.errors import InlineTraceError, NotFoundError, NotPermittedError

if TYPE_CHECKING:
    from types import TracebackType

_NOT_PERMITTED = (errno.EACCES, errno.EPERM, errno.EROFS)


def write_error(error: OSError, path: str) -> InlineTraceError:
    """The error for a file that could not be written."""
    if error.errno in _NOT_PERMITTED:
        return NotPermittedError(f"not permitted to write it: {(error.strerror or '').lower()}", path=path)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return NotFoundError("its directory does not exist", path=path)
    return InlineTraceError(f"cannot be written: {(error.strerror or str(error)).lower()}", path=path)


class Output:
    """One file to be written; ``file`` takes its bytes. Raises InlineTraceError where it cannot be written."""

    def __init__(self, path: str, *, mode: int = 0o666) -> None:
        self.path = path
        self._direct = os.path.exists(path) and not os.path.isfile(path)
        # what /dev/stdout leads to may have no path of its own
        self._place = path if self._direct else os.path.realpath(path)
        self._temporary = self._place if self._direct else f"{self._place}.{os.getpid()}.tmp"
        self._mode = mode
        self._file: IO[bytes] | None = None

    @property
    def file(self) -> IO[bytes]:
        """The file under its temporary name."""
        assert self._file is not None
        return self._file

    def __enter__(self) -> Output:
        if os.path.isdir(self.path):
            raise InlineTraceError("is a directory: it cannot be written", path=self.path)
        try:
            flags = os.O_WRONLY | os.O_CLOEXEC
            if not self._direct:
                flags |= os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            self._file = open(os.open(self._temporary, flags, self._mode), "wb")
        except OSError as error:
            raise write_error(error, self.path) from error
        return self

    def write(self, data: bytes | memoryview) -> None:
        """Write all of ``data``."""
        try:
            self.file.write(data)
        except OSError as error:
            raise write_error(error, self.path) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            self.file.close()
            if kind is None and not self._direct:
                os.replace(self._temporary, self._place)
        except OSError as failure:
            self._remove()
            raise write_error(failure, self.path) from failure
        if kind is not None:
            self._remove()
        if isinstance(error, OSError):
            raise write_error(error, self.path) from error

    def _remove(self) -> None:
        if self._direct:
            return
        try:
            os.unlink(self._temporary)
        except OSError:
            return


def write_together(contents: dict[str, bytes]) -> None:
    """Write several files by path: all of them appear after the last byte was written. Raises InlineTraceError."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        for path, data in contents.items():
            output = stack.enter_context(Output(path))
            output.write(data)
            try:
                output.file.flush()
            except OSError as error:
                raise write_error(error, path) from error
