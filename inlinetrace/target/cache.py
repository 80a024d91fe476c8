"""What was found out about a build and is worth keeping: ``~/.cache/inlinetrace/BUILD-ID/``.

``$XDG_CACHE_HOME`` is honoured. Everything in the cache may be deleted at any time, nothing in it is trusted: a debug
file whose path is remembered still has to have the build id. A cache that belongs to somebody else (``sudo`` keeps
HOME) is neither read nor written.
"""

from __future__ import annotations

import json
import os
from typing import Any

from inlinetrace.target.host import Host

_FILE = "debug-file.json"


def cache_home(host: Host) -> str | None:
    """The user's cache directory (XDG base directories); None if there is no home."""
    for name, below in (("XDG_CACHE_HOME", ""), ("HOME", "/.cache")):
        folder = host.environment.get(name, "")
        if os.path.isabs(folder):
            return folder.rstrip("/") + below
    return None


def is_ours(host: Host, path: str) -> bool:
    """Whether a file or directory, or the nearest directory that exists around it, is ours or root's."""
    while path and path != "/" and not host.exists(path):
        path = os.path.dirname(path)
    try:
        return host.owner(path) in (host.user, 0) and not host.is_world_writable(path)
    except OSError:
        return False


class Cache:
    """What is remembered of one build."""

    def __init__(self, host: Host, build_id: bytes) -> None:
        self._host = host
        home = cache_home(host)
        self.path = None if home is None else f"{home}/inlinetrace/{build_id.hex()}"

    @property
    def debug_file(self) -> str | None:
        """Where the debug file was the last time; None if that is not known."""
        if self.path is None or not is_ours(self._host, f"{self.path}/{_FILE}"):
            return None
        try:
            content: Any = json.loads(self._host.read_text(f"{self.path}/{_FILE}"))
        except (OSError, ValueError):
            return None
        path = content.get("path") if isinstance(content, dict) else None
        return path if isinstance(path, str) and os.path.isabs(path) and "\0" not in path else None

    def remember(self, debug_file: str) -> None:
        """Keep where the debug file is. A cache that cannot be written is none."""
        if self.path is None or not is_ours(self._host, self.path) or self.debug_file == debug_file:
            return
        try:
            self._host.create(f"{self.path}/{_FILE}", json.dumps({"path": debug_file}) + "\n")
        except OSError:
            return
