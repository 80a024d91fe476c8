"""What was found out about a build and is worth keeping: ``~/.cache/inlinetrace/BUILD-ID/``.

``$XDG_CACHE_HOME`` is honoured. Everything in the cache may be deleted at any time, nothing in it is trusted: a debug
file whose path is remembered still has to have the build id. A cache that belongs to somebody else (``sudo`` keeps
HOME) is neither read nor written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from inlinetrace.errors import InlineTraceError
from inlinetrace.target.host import Host

if TYPE_CHECKING:
    from inlinetrace.btf.reader import Btf

_FILE = "debug-file.json"
_INLINE = "BTF.inline"
_BASE = "BTF"
_BASES = "bases.json"


def cache_home(host: Host) -> str | None:
    """The user's cache directory (XDG base directories); None if there is no home, which is not made either."""
    folder = host.environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(folder):
        return folder.rstrip("/")
    home = host.environment.get("HOME", "")
    return f"{home.rstrip('/')}/.cache" if os.path.isabs(home) and host.exists(home) else None


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

    def location_info(self) -> tuple[str, list[str]] | None:
        """The file with location info that was made of this build, and its bases, outermost first; None without one.

        None too if a base is not there any more, or is another object now: ids and offsets would name other types.
        """
        if self.path is None or not is_ours(self._host, self.path):
            return None
        names = [f"{self.path}/{name}" for name in (_INLINE, _BASE, _BASES)]
        if not all(is_ours(self._host, name) for name in names) or not self._host.exists(names[0]):
            return None
        try:
            content: Any = json.loads(self._host.read_text(names[2]))
        except (OSError, ValueError):
            return None
        bases = content.get("paths") if isinstance(content, dict) else None
        if not isinstance(bases, list) or not all(isinstance(base, str) and os.path.isabs(base) for base in bases):
            return None
        if bases and _digest_of_files(bases) != content.get("digest"):
            return None
        if self._host.exists(names[1]):
            bases = [*bases, self._host.path(names[1])]
        return (self._host.path(names[0]), bases) if bases else None

    def remember_location_info(
        self, inline: bytes, base: bytes | None, bases: Sequence[str], beneath: Btf | None = None
    ) -> None:
        """Keep location info with the types it refers to: ``base``, if made too, on top of ``beneath``.

        ``bases`` are the files that ``beneath`` was loaded from.
        """
        if self.path is None or not is_ours(self._host, self.path):
            return
        content = {"paths": list(bases), "digest": None if beneath is None else _digest(beneath)}
        try:
            # What is there may be of other settings: it goes first, so that nothing is ever read with half of the new.
            for name in (_INLINE, _BASE):
                if self._host.exists(f"{self.path}/{name}"):
                    self._host.remove(f"{self.path}/{name}")
            self._host.create(f"{self.path}/{_BASES}", json.dumps(content) + "\n")
            if base is not None:
                self._host.create(f"{self.path}/{_BASE}", base)
            self._host.create(f"{self.path}/{_INLINE}", inline)
        except OSError:
            return


def _digest(btf: Btf) -> str:
    """What tells an object with its bases from another one."""
    from hashlib import sha256

    found = sha256()
    for layer in btf.chain:
        found.update(layer.data)
    return found.hexdigest()


def _digest_of_files(paths: Sequence[str]) -> str | None:
    from inlinetrace.btf.load import load

    try:
        return _digest(load(paths[-1], paths[:-1]))
    except InlineTraceError:
        return None
