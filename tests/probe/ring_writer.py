"""Writes pages of the kernel's ring buffer."""

from __future__ import annotations

import struct


def event(data: bytes, delta: int = 1) -> bytes:
    """A record: a short one has its length in the header, a long one behind it."""
    padded = data + bytes(-len(data) % 4)
    if len(padded) // 4 <= 28:
        return struct.pack("<I", delta << 5 | len(padded) // 4) + padded
    return struct.pack("<II", delta << 5, len(padded) + 4) + padded


def long_event(data: bytes, delta: int = 1) -> bytes:
    return struct.pack("<II", delta << 5, len(data) + 4) + data + bytes(-len(data) % 4)


def extend(delta: int) -> bytes:
    return struct.pack("<II", (delta & (1 << 27) - 1) << 5 | 30, delta >> 27)


def absolute(time: int) -> bytes:
    return struct.pack("<II", (time & (1 << 27) - 1) << 5 | 31, time >> 27 & 0xFFFFFFFF)


def padding(size: int, delta: int = 1) -> bytes:
    """A discarded record of ``size`` bytes behind its header."""
    return struct.pack("<II", delta << 5 | 29, size) + bytes(size - 4)


def page(time: int, *records: bytes, lost: int | None = None, flags: int = 0, size: int = 4096) -> bytes:
    data = b"".join(records)
    commit = len(data) | flags
    if lost is not None:
        commit |= 0xC0000000
        data += struct.pack("<Q", lost)
    return (struct.pack("<QQ", time, commit) + data).ljust(size, b"\0")
