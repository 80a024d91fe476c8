"""libbpf itself, through ctypes: the oracle of deduplication.

``python -m tests.btf.libbpf FILE OUT`` deduplicates a file with it, for measurements; ``--copies N`` writes N copies of
the object after each other instead, which gives something to deduplicate.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
from collections.abc import Sequence
from pathlib import Path


class LibbpfError(Exception):
    """libbpf refused; the text is the function and its errno."""


@functools.cache
def library(name: str = "libbpf.so.1") -> ctypes.CDLL:
    """The shared library, its functions typed; OSError if the package is not installed."""
    loaded = ctypes.CDLL(name, use_errno=True)
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    loaded.libbpf_set_print(None)
    for function, result, arguments in (
        ("btf__new", pointer, [ctypes.c_char_p, number]),
        ("btf__parse_raw_split", pointer, [ctypes.c_char_p, pointer]),
        ("btf__new_empty", pointer, []),
        ("btf__dedup", ctypes.c_int, [pointer, pointer]),
        ("btf__raw_data", pointer, [pointer, ctypes.POINTER(number)]),
        ("btf__add_btf", ctypes.c_int, [pointer, pointer]),
        ("btf__free", None, [pointer]),
    ):
        getattr(loaded, function).restype = result
        getattr(loaded, function).argtypes = arguments
    return loaded


def _checked(result: int | None, function: str) -> int:
    if result is None or result < 0:
        raise LibbpfError(f"{function}: errno {ctypes.get_errno()}")
    return result


def _raw(lib: ctypes.CDLL, handle: int) -> bytes:
    size = ctypes.c_uint32()
    address = _checked(lib.btf__raw_data(handle, ctypes.byref(size)), "btf__raw_data")
    return ctypes.string_at(address, size.value)


def _parsed(lib: ctypes.CDLL, data: bytes, base: int | None) -> int:
    """An object on its base; the only function that takes one reads files."""
    if base is None:
        return _checked(lib.btf__new(data, len(data)), "btf__new")
    descriptor = os.memfd_create("btf")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(data)
        return _checked(lib.btf__parse_raw_split(f"/proc/self/fd/{descriptor}".encode(), base), "btf__parse_raw_split")
    finally:
        os.close(descriptor)


def dedup(data: bytes, *bases: bytes, name: str = "libbpf.so.1") -> bytes:
    """``btf__dedup`` of an object on its bases, outermost first. Errors: LibbpfError."""
    lib = library(name)
    handles: list[int] = []
    try:
        for part in (*bases, data):
            handles.append(_parsed(lib, part, handles[-1] if handles else None))
        _checked(lib.btf__dedup(handles[-1], None), "btf__dedup")
        return _raw(lib, handles[-1])
    finally:
        for handle in reversed(handles):
            lib.btf__free(handle)


def appended(parts: Sequence[bytes]) -> bytes:
    """The types of several objects after each other in one, by ``btf__add_btf``."""
    lib = library()
    whole = _checked(lib.btf__new_empty(), "btf__new_empty")
    try:
        for part in parts:
            one = _checked(lib.btf__new(part, len(part)), "btf__new")
            _checked(lib.btf__add_btf(whole, one), "btf__add_btf")
            lib.btf__free(one)
        return _raw(lib, whole)
    finally:
        lib.btf__free(whole)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--copies", type=int, default=0, metavar="N")
    args = parser.parse_args()
    data = args.file.read_bytes()
    args.out.write_bytes(appended([data] * args.copies) if args.copies else dedup(data))


if __name__ == "__main__":
    main()
