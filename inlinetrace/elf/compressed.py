"""Decompression with a limit: whole files (``.ko.xz``, ``.ko.zst``, ``.ko.gz``) and sections.

Every function stops once the output would pass its limit, whatever a header claims, so that a small hostile file cannot
fill the memory. All raise FormatError for damaged input.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from inlinetrace.errors import FormatError

# Above what any kernel is today (a large vmlinux with DWARF is about 1 GB), below what endangers a machine.
MAX_DECOMPRESSED = 2 << 30
# xz and zstd have a dictionary of the size that the file asks for; "xz -9" is 64 MiB, "zstd --ultra -22" 128 MiB.
MAX_WINDOW = 128 << 20
_CHUNK = 4 << 20
_ZSTD_BITE = 4096

XZ_MAGIC = b"\xfd7zXZ\0"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
GZIP_MAGIC = b"\x1f\x8b"


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _drain(make: Callable[[], _Decompressor], data: bytes | memoryview, again: bytes) -> Iterator[bytes]:
    """Yield what ``data`` decompresses to; streams may follow one another as long as each starts with ``again``."""
    rest = bytes(data)
    while True:
        stream = make()
        given = rest
        while not stream.eof:
            out = stream.decompress(given, _CHUNK)
            # zlib hands unread input back, lzma keeps it.
            given = getattr(stream, "unconsumed_tail", b"")
            if not out and not given and not stream.eof:
                raise EOFError("the compressed data end too early")
            yield out
        rest = stream.unused_data
        if not again or not rest.lstrip(b"\0").startswith(again):
            return
        rest = rest.lstrip(b"\0")


def _pieces(data: bytes | memoryview, kind: str) -> Iterator[bytes]:
    if kind == "xz":
        import lzma

        yield from _drain(lambda: lzma.LZMADecompressor(memlimit=MAX_WINDOW + (32 << 20)), data, XZ_MAGIC)
    elif kind == "gzip":
        yield from _drain(lambda: zlib.decompressobj(31), data, GZIP_MAGIC)
    elif kind == "zlib":
        yield from _drain(zlib.decompressobj, data, b"")
    else:
        yield from _zstd(bytes(data))


def _zstd(data: bytes) -> Iterator[bytes]:
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    stream = context.decompressobj()
    at = 0
    while True:
        # A block of four bytes can stand for 128 KiB, and a call returns all that its input stands for: small bites.
        bite = data[at : at + _ZSTD_BITE]
        if not bite:
            raise EOFError("the compressed data end too early")
        at += len(bite)
        yield stream.decompress(bite)
        if stream.eof:
            at -= len(stream.unused_data)
            if data[at : at + 4] != ZSTD_MAGIC:
                return
            stream = context.decompressobj()


def decompress(
    data: bytes | memoryview, kind: str, *, path: str, section: str | None = None, expected: int | None = None
) -> bytes:
    """Decompress ``data`` of ``kind`` (xz, zstd, gzip or zlib) to at most MAX_DECOMPRESSED bytes.

    With ``expected``, the result must have exactly that size.
    """
    limit = MAX_DECOMPRESSED if expected is None else expected
    if limit > MAX_DECOMPRESSED:
        raise FormatError(f"{limit} bytes of decompressed data are more than can be", path=path, section=section)
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in _pieces(data, kind):
            size += len(piece)
            if size > limit:
                raise FormatError(f"{kind} data decompress to more than {limit} bytes", path=path, section=section)
            pieces.append(piece)
    except FormatError:
        raise
    except (EOFError, MemoryError, zlib.error) as error:
        raise FormatError(f"damaged {kind} data: {error}", path=path, section=section) from error
    except Exception as error:
        # lzma.LZMAError and zstandard.ZstdError are named here without importing both modules.
        if type(error).__name__ not in ("LZMAError", "ZstdError"):
            raise
        raise FormatError(f"damaged {kind} data: {error}", path=path, section=section) from error
    if expected is not None and size != expected:
        raise FormatError(
            f"{kind} data decompress to {size} bytes where the header says {expected}", path=path, section=section
        )
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def compression_of(start: bytes | memoryview) -> str | None:
    """Name the compression of a file by its first bytes: xz, zstd, gzip or None."""
    head = bytes(start[:6])
    if head.startswith(XZ_MAGIC):
        return "xz"
    if head.startswith(ZSTD_MAGIC):
        return "zstd"
    return "gzip" if head.startswith(GZIP_MAGIC) else None
