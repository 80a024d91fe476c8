"""debuginfod: debug files by build id, from the client's cache and through ``debuginfod-find``.

The servers are those of ``$DEBUGINFOD_URLS``; nothing is asked without it. The client keeps what it downloads.
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from inlinetrace.target.cache import cache_home
from inlinetrace.target.host import Host

TOOL = "debuginfod-find"
# A kernel's debug file has several hundred megabytes; $DEBUGINFOD_MAXTIME says otherwise.
DEFAULT_LIMIT = 900.0
_LONGEST_ANSWER = 1 << 16


class Answer(NamedTuple):
    """The path of the file, or None and what came of it instead."""

    path: str | None
    outcome: str


def cached_path(host: Host, build_id: bytes) -> str | None:
    """Where the client keeps the debug file of a build if it has it (debuginfod_find_debuginfo(3))."""
    folder = host.environment.get("DEBUGINFOD_CACHE_PATH", "")
    if not os.path.isabs(folder):
        home = host.environment.get("HOME", "")
        old = f"{home}/.debuginfod_client_cache"
        caches = cache_home(host)
        if os.path.isabs(home) and host.exists(old):
            folder = old
        elif caches is None:
            return None
        else:
            folder = f"{caches}/debuginfod_client"
    return f"{folder.rstrip('/')}/{build_id.hex()}/debuginfo"


def _limit(host: Host) -> float:
    """Seconds that the client may take."""
    text = host.environment.get("DEBUGINFOD_MAXTIME", "")
    # The client keeps to it itself and should be the one that gives up.
    return int(text) + 5.0 if text.isdecimal() and int(text) else DEFAULT_LIMIT


def download(
    host: Host, build_id: bytes, *, progress: Callable[[str], None] | None = None, limit: float | None = None
) -> Answer:
    """Have ``debuginfod-find`` get the debug file of a build.

    ``progress`` is called with each line that the client says meanwhile. After ``limit`` seconds, on Ctrl-C and on any
    other exception the client is ended. Nothing is raised for what the client cannot do.
    """
    if not host.environment.get("DEBUGINFOD_URLS", "").strip():
        return Answer(None, "DEBUGINFOD_URLS is not set")
    tool = shutil.which(TOOL, path=host.environment.get("PATH", os.defpath))
    if tool is None:
        return Answer(None, f"{TOOL} is not installed (package debuginfod or elfutils-debuginfod-client)")
    environment = dict(host.environment)
    if progress is not None:
        environment["DEBUGINFOD_PROGRESS"] = "1"
    seconds = _limit(host) if limit is None else limit
    try:
        process = subprocess.Popen(
            [tool, "debuginfo", build_id.hex()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        )
    except OSError as error:
        return Answer(None, f"{tool} cannot be run: {error.strerror}")
    with process:
        try:
            said, complaint = _follow(process, time.monotonic() + seconds, progress)
            status = process.wait(5)
        except (TimeoutError, subprocess.TimeoutExpired):
            return Answer(None, f"no answer within {seconds:.0f} seconds")
        finally:
            _end(process)
    path = os.fsdecode(said.split(b"\n")[0])
    if status or not os.path.isabs(path):
        return Answer(None, complaint or f"{TOOL} failed with status {status}")
    return Answer(path, "found")


def _follow(
    process: subprocess.Popen[bytes], deadline: float, progress: Callable[[str], None] | None
) -> tuple[bytes, str]:
    """Read what the client writes until it is done: its answer, and its last complaint. Raises TimeoutError."""
    assert process.stdout is not None
    assert process.stderr is not None
    answer = b""
    last = rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 1 << 12)
                if not piece:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    answer = (answer + piece)[:_LONGEST_ANSWER]
                else:
                    *lines, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
                    rest = rest[-_LONGEST_ANSWER:]
                    for line in filter(None, lines):
                        last = line
                        if progress is not None:
                            progress(_printable(line))
    return answer, _printable(rest or last)


def _printable(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return "".join(character if character.isprintable() else "?" for character in text)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the client if it still runs: it has two seconds to put its temporary files away."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
