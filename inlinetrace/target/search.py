"""Finding a debug file by its build id, among places that may hold files of other builds.

>>> search = Search(host, build_id, owner="the running kernel", report=print)
>>> search.take("/usr/lib/debug/boot/vmlinux-6.1.0")      # True if this is it
>>> search.found, search.tried

A file of another build is never taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from inlinetrace.elf.debugfile import Attempt, has_code, has_debug_info
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import InlineTraceError, MismatchError, NotFoundError, NotPermittedError
from inlinetrace.target import debuginfod
from inlinetrace.target.cache import Cache, is_ours
from inlinetrace.target.host import Host


class Search:
    """One search: ``found`` is the file with the DWARF, ``program`` one with the instructions, both None at first.

    ``owner`` is whose build id it is, in words. ``report`` is called with each Attempt as it is made.
    """

    def __init__(
        self, host: Host, build_id: bytes, *, owner: str, report: Callable[[Attempt], None] | None = None
    ) -> None:
        self.host = host
        self.build_id = build_id
        self.owner = owner
        self.found: ElfFile | None = None
        self.program: ElfFile | None = None
        self.tried: list[Attempt] = []
        self._report = report
        self._seen: set[str] = set()
        self._mismatch: MismatchError | None = None
        self._refusal: NotPermittedError | None = None

    def note(self, path: str, outcome: str) -> None:
        """Record what came of a place."""
        attempt = Attempt(path, outcome)
        self.tried.append(attempt)
        if self._report is not None:
            self._report(attempt)

    def take(self, path: str) -> bool:
        """Try a file; True if it has the DWARF of the build. A place that was tried before is not tried again."""
        if path in self._seen:
            return False
        self._seen.add(path)
        try:
            elf = ElfFile.open(self.host.path(path))
            if elf.build_id != self.build_id:
                has = f"the build id is {elf.build_id.hex()}" if elf.build_id else "it has no build id"
                raise MismatchError(f"{has}, {self.owner} has {self.build_id.hex()}", path=path)
            if self.program is None and has_code(elf):
                self.program = elf
            if not has_debug_info(elf):
                self.note(path, "it has no .debug_info")
                return False
        except NotFoundError:
            self.note(path, "no such file")
        except MismatchError as error:
            self._mismatch = self._mismatch or error
            self.note(path, error.message)
        except NotPermittedError as error:
            self._refusal = self._refusal or error
            self.note(path, error.message)
        except InlineTraceError as error:
            self.note(path, error.message)
        else:
            self.note(path, "found")
            self.found = elf
            return True
        return False

    def take_cached(self) -> bool:
        """Try what is remembered of this build."""
        path = Cache(self.host, self.build_id).debug_file
        return path is not None and self.take(path)

    def take_debuginfod(self, progress: Callable[[str], None] | None) -> bool:
        """Try the debuginfod client's cache, then its servers."""
        path = debuginfod.cached_path(self.host, self.build_id)
        if path is not None:
            if self.host.exists(path) and not is_ours(self.host, path):
                # Whoever may write there could give root a file that lies about the kernel.
                self.note(path, "it belongs to another user")
            elif self.take(path):
                return True
        answer = debuginfod.download(self.host, self.build_id, progress=progress)
        if answer.path is None:
            self.note(debuginfod.TOOL, answer.outcome)
            return False
        # The client's negative answers stand where its positive ones will.
        self._seen.discard(answer.path)
        return self.take(answer.path)

    def remember(self) -> None:
        """Keep where the file was found for the next time."""
        if self.found is not None:
            path = self.found.path[len(self.host.path("")) :]
            Cache(self.host, self.build_id).remember(os.path.abspath(path))

    def failure(self, missing: str, advice: str) -> InlineTraceError:
        """The error to raise if nothing was found: the likeliest reason first."""
        if self._mismatch is not None:
            error = self._mismatch
            return MismatchError(f"{error.message}; {advice}", path=error.path)
        if self._refusal is not None:
            return NotPermittedError(f"{self._refusal.message}: root may be", path=self._refusal.path)
        return NotFoundError(f"{missing} (build id {self.build_id.hex()}): {advice}")
