"""System calls made as they are written, without what a library adds: what a kernel's functions must have been passed.

>>> call("fallocate", descriptor, 0, 0x1234, 0x4321)
"""

from __future__ import annotations

import ctypes
import errno
import os

# arch/x86/entry/syscalls/syscall_64.tbl
NUMBERS = {
    "lseek": 8, "mprotect": 10, "pread64": 17, "pwrite64": 18, "mincore": 27, "madvise": 28, "shmget": 29,
    "socket": 41, "shutdown": 48, "bind": 49, "listen": 50, "kill": 62, "semget": 64, "msgget": 68, "fcntl": 72,
    "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "symlink": 88,
    "fchown": 93, "getrlimit": 97, "setpriority": 141, "sched_getparam": 143, "sched_getscheduler": 145,
    "mlock": 149, "sched_setaffinity": 203, "fadvise64": 221, "epoll_wait": 232, "openat": 257,
    "sync_file_range": 277, "fallocate": 285, "dup3": 292, "pidfd_open": 434,
}  # fmt: skip

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(name: str, *arguments: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Make the system call; OSError if it fails."""
    words = [ctypes.c_ulong(word & (1 << 64) - 1) if isinstance(word, int) else word for word in arguments]
    result: int = _libc.syscall(ctypes.c_long(NUMBERS[name]), *words)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def refused(name: str, *arguments: int | bytes) -> str:
    """Make a system call that must fail; the name of its error."""
    try:
        call(name, *arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    raise AssertionError(f"{name} did not fail")
