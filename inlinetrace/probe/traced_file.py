"""The file that uprobes go to: the one that was read, and whether it still is what was read.

>>> file = TracedFile.open(plan.target, image.program)
>>> file.check()                       # raises as soon as somebody has written to it

Probes are planned for the instructions that were read. In others they are in the middle of instructions and destroy
the program, which the kernel does not prevent.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING

from inlinetrace.elf.file import ElfFile
from inlinetrace.elf.stamp import Stamp
from inlinetrace.errors import InlineTraceError, NotFoundError

if TYPE_CHECKING:
    from inlinetrace.target.host import Host

_CHUNK = 1 << 20
_DELETED = " (deleted)"


class TracedFile:
    """An open program or library; ``descriptor`` stays open. ``open`` makes it."""

    def __init__(self, path: str, descriptor: int, program: ElfFile) -> None:
        self.path = path
        self.descriptor = descriptor
        self._code = [(section.offset, section.size) for section in program.sections if section.executable]
        self._stamp = Stamp.of(os.fstat(descriptor))
        self._sum = self._code_sum()

    @classmethod
    def open(cls, path: str, program: ElfFile) -> TracedFile:
        """Open the file at ``path``, which must be the one that was read as ``program``."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NotFoundError(error.strerror or str(error), path=path) from error
        try:
            if not _is_unchanged(descriptor, program):
                raise InlineTraceError("the file was replaced or changed while it was read: start again", path=path)
            return cls(path, descriptor, program)
        except BaseException:
            os.close(descriptor)
            raise

    def check(self) -> None:
        """Raise InlineTraceError if the file was written to since it was opened."""
        now = Stamp.of(os.fstat(self.descriptor))
        if now == self._stamp:
            return
        # what only moved, was linked or deleted is the same still
        if now._replace(changed=self._stamp.changed) != self._stamp or self._code_sum() != self._sum:
            raise InlineTraceError(
                "the file was written to while it was traced: the trace ends, hits since then are not shown",
                path=self.path,
            )
        self._stamp = now

    def is_at_its_path(self) -> bool:
        """Whether the path still names the file that was opened."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.descriptor))
        except OSError:
            return False

    def runs_in(self, host: Host, pid: int) -> bool:
        """Whether a process has the file in its memory as code."""
        this = os.fstat(self.descriptor)
        try:
            if os.path.samestat(host.status(f"/proc/{pid}/exe"), this):
                return True
        except OSError:
            # a thread of the kernel
            pass
        for extent in host.code_mappings(pid):
            try:
                if os.path.samestat(host.status(f"/proc/{pid}/map_files/{extent}"), this):
                    return True
            except OSError:
                continue
        return False

    def other_in(self, host: Host, pid: int) -> str:
        """What a process runs that does not run the file, for people."""
        names = set(host.code_mappings(pid).values())
        if self.path + _DELETED in names:
            return "has an older file of this name in its memory, which was replaced or deleted since"
        if self.path in names:
            return "has another file of this name in its memory"
        try:
            return f"runs {host.read_link(f'/proc/{pid}/exe')} and does not use this file"
        except OSError:
            return "runs no program"

    def _code_sum(self) -> int:
        total = 0
        for offset, size in self._code:
            for start in range(offset, offset + size, _CHUNK):
                total = zlib.crc32(os.pread(self.descriptor, min(_CHUNK, offset + size - start), start), total)
        return total


def _is_unchanged(descriptor: int, program: ElfFile) -> bool:
    """Whether an open file is what was read: the very file, as it was, or another one with the same code."""
    stamp, read = Stamp.of(os.fstat(descriptor)), program.stamp
    if read is not None and stamp.file == read.file:
        return stamp == read
    now = ElfFile.open(f"/proc/self/fd/{descriptor}")
    return now.build_id == program.build_id and _same_code(now, program)


def _same_code(one: ElfFile, other: ElfFile) -> bool:
    """Whether two files have the same instructions in the same places: a build id may be missing, or be no promise."""

    def code(file: ElfFile) -> list[tuple[int, int, bytes]]:
        sections = [section for section in file.sections if section.executable and not section.nobits]
        return [(section.offset, section.address, bytes(file.raw_data(section))) for section in sections]

    return one.file_size == other.file_size and code(one) == code(other)
