"""Whether the running kernel accepts an object: BPF_BTF_LOAD (include/uapi/linux/bpf.h), by the system call itself."""

from __future__ import annotations

import ctypes
import os
import platform
import struct

# bpf(2) by machine
_SYSCALLS = {"x86_64": 321, "aarch64": 280}
_BTF_LOAD = 18
_LOG = 1 << 20


def load_into_kernel(data: bytes) -> str:
    """Have the kernel check an object; gives what it says against it, empty if it takes it. The object is freed again.

    Errors: OSError if the kernel has no such call or does not permit it.
    """
    descriptor, error, _ = _call(data, log=False)
    if descriptor >= 0:
        os.close(descriptor)
        return ""
    # only the second call asks for words: the log of a large object would not fit
    descriptor, _, said = _call(data, log=True)
    if descriptor >= 0:
        os.close(descriptor)
    if not said:
        raise OSError(error, os.strerror(error))
    return f"{os.strerror(error)}: {said[-1]}"


def _call(data: bytes, log: bool) -> tuple[int, int, list[str]]:
    libc = ctypes.CDLL(None, use_errno=True)
    blob = ctypes.create_string_buffer(data, len(data))
    text = ctypes.create_string_buffer(_LOG if log else 1)
    # the addresses of object and log, their sizes, the log level
    sizes = (len(data), _LOG if log else 0, 1 if log else 0)
    attributes = struct.pack("<QQIII", ctypes.addressof(blob), ctypes.addressof(text) if log else 0, *sizes)
    attributes += bytes(128 - len(attributes))
    descriptor = libc.syscall(_SYSCALLS[platform.machine()], _BTF_LOAD, attributes, len(attributes))
    return descriptor, ctypes.get_errno(), text.value.decode(errors="replace").strip().splitlines()
