"""Writing objects to files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat

from inlinetrace.errors import InlineTraceError, NotFoundError, NotPermittedError


def save(path: str, data: bytes | bytearray | memoryview) -> None:
    """Write ``data`` to a temporary file beside ``path`` and rename it; a link keeps leading to its file.

    What is no regular file, such as a pipe, is written to as it is. Errors: NotFoundError for a directory that does not
    exist, NotPermittedError, InlineTraceError; the file is as it was before then.
    """
    try:
        if _is_special(path):
            with open(path, "wb") as file:
                file.write(data)
            return
        place = os.path.realpath(path)
        temporary = f"{place}.{os.getpid()}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            os.replace(temporary, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except FileNotFoundError:
        raise NotFoundError("its directory does not exist", path=path) from None
    except PermissionError:
        raise NotPermittedError("not permitted to write it", path=path) from None
    except OSError as error:
        raise InlineTraceError(f"cannot be written: {(error.strerror or str(error)).lower()}", path=path) from error


def _is_special(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
