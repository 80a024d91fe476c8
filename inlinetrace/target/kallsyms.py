"""The symbols of the running kernel and its modules: /proc/kallsyms.

>>> first_address(host, ("_stext", "_text"))      # reads no further than it has to
('_stext', 0xffffffff81000000)
>>> table = Kallsyms.read(host)                   # all of it
>>> table.named("vfs_llseek")
>>> table.lookup(0xffffffff8134b37d)              # (Symbol, offset)

A kernel that hides its addresses (``kernel.kptr_restrict``, or a reader without CAP_SYSLOG) writes zeros: such an
address is None here.
"""

from __future__ import annotations

import os
import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from inlinetrace.errors import FormatError, NotFoundError, NotPermittedError
from inlinetrace.target.host import Host

KALLSYMS = "/proc/kallsyms"
_PIECE = 1 << 16
# A line is address, type, name and possibly a module; names have at most 511 characters (KSYM_NAME_LEN).
_LONGEST_LINE = 4096


class Symbol(NamedTuple):
    """One line. ``type`` is nm's letter; ``address`` is None if it is hidden; ``module`` is None for the kernel's."""

    name: str
    address: int | None
    type: str
    module: str | None


def first_address(host: Host, names: Sequence[str]) -> tuple[str, int] | None:
    """The first of the kernel's own symbols that has one of ``names``, with its address.

    None if there is no such symbol, no /proc/kallsyms, or if addresses are hidden. Raises FormatError.
    """
    wanted = b"|".join(re.escape(name.encode()) for name in names)
    line = re.compile(rb"^([0-9a-f]{8,16}) \S (" + wanted + rb")\n", re.MULTILINE)
    try:
        descriptor = host.open(KALLSYMS, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        return None
    try:
        rest = b"\n"
        while piece := os.read(descriptor, _PIECE):
            text = rest + piece
            found = line.search(text)
            if found is not None:
                address = int(found[1], 16)
                return (found[2].decode(), address) if address else None
            rest = text[text.rfind(b"\n") :]
            if len(rest) > _LONGEST_LINE:
                raise FormatError(f"a line of more than {_LONGEST_LINE} bytes", path=KALLSYMS)
    finally:
        os.close(descriptor)
    return None


class Kallsyms:
    """All symbols, read once. ``len`` is their number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._lines = data.splitlines()

    @classmethod
    def read(cls, host: Host) -> Kallsyms:
        """Read /proc/kallsyms. Raises NotFoundError if the kernel has none, NotPermittedError."""
        try:
            return cls(host.read_bytes(KALLSYMS))
        except FileNotFoundError:
            raise NotFoundError("the kernel has no symbols here (CONFIG_KALLSYMS)", path=KALLSYMS) from None
        except PermissionError:
            raise NotPermittedError("not permitted to read it", path=KALLSYMS) from None

    def __len__(self) -> int:
        return len(self._lines)

    @cached_property
    def hidden(self) -> bool:
        """Whether the kernel hides its addresses."""
        return not any(self._addresses)

    @cached_property
    def _addresses(self) -> array[int]:
        """The address of every line, in their order. Raises FormatError."""
        if not self._lines:
            return array("Q")
        width = self._lines[0].find(b" ")
        digits = b"".join([line[:width] for line in self._lines])
        try:
            blanks = b"".join([line[width : width + 1] for line in self._lines])
            if width not in (8, 16) or len(digits) != width * len(self._lines) or blanks != b" " * len(self._lines):
                raise ValueError
            packed = bytes.fromhex(digits.decode("ascii"))
        except ValueError:
            raise self._malformed(width) from None
        addresses = array("Q" if width == 16 else "I", packed)
        if sys.byteorder == "little":
            addresses.byteswap()
        return addresses

    def _malformed(self, width: int) -> FormatError:
        offset = 0
        for line in self._lines:
            if re.match(rb"[0-9a-f]{%d} " % width if width in (8, 16) else rb"[0-9a-f]{16} ", line) is None:
                break
            offset += len(line) + 1
        return FormatError("no address at the start of a line", path=KALLSYMS, offset=offset)

    @cached_property
    def _order(self) -> list[int]:
        """Numbers of the lines by address; those of one address in their order, as the kernel looks them up."""
        return sorted(range(len(self._lines)), key=self._addresses.__getitem__)

    @cached_property
    def _sorted(self) -> array[int]:
        return array("Q", [self._addresses[number] for number in self._order])

    def named(self, name: str) -> list[Symbol]:
        """All symbols with this name, in the order of the table: the kernel's first, then those of modules."""
        found = []
        wanted = b" " + name.encode("utf-8", "surrogateescape")
        at = self._data.find(wanted)
        while at >= 0:
            end = at + len(wanted)
            if self._data[end : end + 1] in (b"\n", b"\t", b""):
                begin = self._data.rfind(b"\n", 0, at) + 1
                stop = self._data.find(b"\n", end)
                symbol = _symbol(self._data[begin : stop if stop >= 0 else None], begin)
                if symbol.name == name:
                    found.append(symbol)
            at = self._data.find(wanted, end)
        return found

    def named_with_suffixes(self, name: str) -> list[Symbol]:
        """The symbols ``name`` and ``name.*`` (``.isra.0``), in the order of the table."""
        wanted = re.compile(
            rb"^[0-9a-f]+ . " + re.escape(name.encode("utf-8", "surrogateescape")) + rb"(\.[^\t\n]*)?(\t.*)?$", re.M
        )
        return [_symbol(found[0], found.start()) for found in wanted.finditer(self._data)]

    def lookup(self, address: int) -> tuple[Symbol, int] | None:
        """The symbol at or before ``address`` and the offset from it; of several at one address the first.

        None if there is none, or if addresses are hidden.
        """
        if self.hidden:
            return None
        at = bisect_right(self._sorted, address) - 1
        if at < 0:
            return None
        while at and self._sorted[at - 1] == self._sorted[at]:
            at -= 1
        return _symbol(self._lines[self._order[at]]), address - self._sorted[at]


def _symbol(line: bytes, offset: int | None = None) -> Symbol:
    """``ffffffffc0000010 t helper<tab>[extra]``. Raises FormatError."""
    try:
        address, kind, rest = line.split(b" ", 2)
        name, _, module = rest.partition(b"\t")
        return Symbol(
            name.decode("utf-8", "surrogateescape"),
            int(address, 16) or None,
            kind.decode("ascii"),
            module.strip(b"[] ").decode("utf-8", "surrogateescape") or None,
        )
    except ValueError:
        raise FormatError(f"not a symbol: {line[:40]!r}", path=KALLSYMS, offset=offset) from None
