"""Numbers and names of the BTF format: kinds, flags, dialects, the layout table.

Sources: the kernel's ``include/uapi/linux/btf.h`` for kinds 1 to 19, the posted series for the location kinds 20 to
22. The info word of a record is ``vlen`` (bits 0-23), ``kind`` (bits 24-30) and ``kind_flag`` (bit 31); the classic
form has 16 bits of vlen and 5 of kind, and its unused bits are zero, so one decoder reads both.
"""

from __future__ import annotations

import enum

MAGIC = 0xEB9F
VERSION = 1
CLASSIC_HEADER = 24
LAYOUT_HEADER = 32

CLASSIC_MAX_VLEN = 0xFFFF
CLASSIC_MAX_KIND = 31
MAX_VLEN = 0xFFFFFF
MAX_KIND = 127
MAX_STRING_OFFSET = 0xFFFFFF
MAX_TYPE_ID = 0xFFFFF

MAX_NAME = 4095
"""Longest name that is read, in bytes. The kernel allows 511; without a limit a small file could ask for terabytes."""


class Kind(enum.IntEnum):
    """Kind of a type record."""

    UNKN = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19
    LOC_PARAM = 20
    LOC_PROTO = 21
    LOCSEC = 22


class Dialect(enum.Enum):
    """Which posting of the location kinds a blob follows."""

    RFC = "rfc"
    V2 = "v2"
    NEW = "new"

    @property
    def description(self) -> str:
        """One line for people."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS = {
    Dialect.RFC: "RFC of October 2025 (16-byte sites that name function and prototype)",
    Dialect.V2: "v2 of September 2026, or an early form of the newest (sections named as in the ELF file)",
    Dialect.NEW: "newest of September 2026 (sections named inline.*)",
}


class LocFlag(enum.IntFlag):
    """Flags of a LOC_PARAM (v2 and newest)."""

    SIGNED = 0x01
    CONST = 0x02
    ADDR = 0x04
    REG = 0x08
    DEREF = 0x10
    OFFSET = 0x20


FRAME_BASE = 0xFFFFFFFF
"""Register word that stands for the frame base (v2 and newest)."""

RFC_DEREF = 0x1
RFC_CONTINUE = 0x2
RFC_FRAME_BASE = 33
"""Register number that the RFC's encoder wrote for the frame base."""

INT_SIGNED = 0x1
INT_CHAR = 0x2
INT_BOOL = 0x4

LAYOUT = (
    (0, 0),
    (4, 0),
    (0, 0),
    (12, 0),
    (0, 12),
    (0, 12),
    (0, 8),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 8),
    (4, 0),
    (0, 12),
    (0, 0),
    (4, 0),
    (0, 0),
    (0, 12),
    (4, 4),
    (0, 4),
    (0, 12),
)
"""(bytes after the 12 common ones, bytes per element) by kind, as the newest libbpf writes them."""

RFC_LAYOUT = {Kind.LOC_PARAM: (8, 0), Kind.LOC_PROTO: (0, 4), Kind.LOCSEC: (0, 16)}


def info_word(kind: int, vlen: int = 0, kind_flag: bool = False) -> int:
    """The info word of a record."""
    return (1 << 31 if kind_flag else 0) | (kind & MAX_KIND) << 24 | (vlen & MAX_VLEN)


def legal_location(flags: int, vlen: int) -> bool:
    """True if ``flags`` with ``vlen`` value words is one of the combinations that the newest kernel accepts."""
    base = flags & ~int(LocFlag.SIGNED)
    if base in (LocFlag.CONST, LocFlag.CONST | LocFlag.ADDR):
        return vlen in (1, 2)
    if base == LocFlag.REG:
        return not flags & LocFlag.SIGNED and vlen in (1, 2)
    if base == LocFlag.REG | LocFlag.DEREF:
        return not flags & LocFlag.SIGNED and vlen == 1
    if base in (LocFlag.REG | LocFlag.OFFSET, LocFlag.REG | LocFlag.DEREF | LocFlag.OFFSET):
        return vlen in (2, 3)
    return False
