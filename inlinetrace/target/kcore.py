"""The running kernel's memory, as root sees it through /proc/kcore.

>>> memory = KernelMemory.open(Host())            # None where there is no such file, or it is not ours to read
>>> memory.read(0xffffffff81000000, 15)

It is an ELF core file whose PT_LOAD segments are the kernel's mappings (fs/proc/kcore.c); nothing is written.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.target.host import Host

_PATH = "/proc/kcore"
_PT_LOAD, _PT_NOTE = 1, 4
# What the kernel says of itself there (VMCOREINFO) has a page.
_LARGEST_NOTES = 1 << 20
_STEXT = re.compile(rb"^SYMBOL\(_stext\)=([0-9a-f]{1,16})$", re.MULTILINE)
_HEADER = struct.Struct("16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("IIQQQQQQ")
_ELF64 = b"\x7fELF\x02"


class KernelMemory:
    """Memory of a 64-bit kernel in this machine's byte order; the file is closed when it is not needed any more.

    ``segments`` are (start, end, offset in the file); ``stext`` is the run-time address of _stext, which is told here
    even where /proc/kallsyms hides it, None where it is not.
    """

    def __init__(self, descriptor: int, segments: list[tuple[int, int, int]], stext: int | None) -> None:
        self._descriptor = descriptor
        self._segments = segments
        self.stext = stext

    def __del__(self) -> None:
        os.close(self._descriptor)

    @classmethod
    def open(cls, host: Host) -> KernelMemory | None:
        """The memory of ``host``; None if it does not show it (no permission, lockdown, no CONFIG_PROC_KCORE)."""
        try:
            descriptor = host.open(_PATH, os.O_RDONLY)
        except OSError:
            return None
        try:
            return cls(descriptor, *_contents(descriptor))
        except (OSError, struct.error):
            os.close(descriptor)
            return None

    def read(self, address: int, size: int) -> bytes:
        """Bytes from ``address`` on; fewer, or none, where there is no memory or it cannot be read."""
        for start, end, offset in self._segments:
            if start <= address < end:
                try:
                    return os.pread(self._descriptor, min(size, end - address), offset + address - start)
                except OSError:
                    return b""
        return b""


def _contents(descriptor: int) -> tuple[list[tuple[int, int, int]], int | None]:
    """The segments and the address of _stext."""
    header = os.pread(descriptor, _HEADER.size, 0)
    identity, _, _, _, _, place, _, _, _, entry_size, count, *_ = _HEADER.unpack(header)
    if not identity.startswith(_ELF64) or entry_size != _SEGMENT.size:
        return [], None
    table = os.pread(descriptor, entry_size * count, place)
    segments, stext = [], None
    for kind, _, offset, address, _, file_size, size, _ in _SEGMENT.iter_unpack(
        table[: len(table) // _SEGMENT.size * _SEGMENT.size]
    ):
        if kind == _PT_LOAD:
            segments.append((address, address + size, offset))
        elif kind == _PT_NOTE:
            found = _STEXT.search(os.pread(descriptor, min(file_size, _LARGEST_NOTES), offset))
            stext = stext if found is None else int(found[1], 16)
    return segments, stext
