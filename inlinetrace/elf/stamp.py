"""What tells that a file was written to, or is another one."""

from __future__ import annotations

import os
from typing import NamedTuple


class Stamp(NamedTuple):
    """A file and its state: times are in nanoseconds. ``changed`` moves with names and permissions too."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp in what the operating system says of a file."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def file(self) -> tuple[int, int]:
        """Which file it is, whatever is in it."""
        return self.device, self.inode
