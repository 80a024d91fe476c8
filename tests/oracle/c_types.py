"""The C types of the generated programs, and the declarations that every unit of a program starts with."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """How a value of the type is made and used in an expression."""

    INTEGER = "integer"
    BOOL = "bool"
    ENUM = "enum"
    FLOAT = "float"
    WIDE = "wide"
    POINTER = "pointer"
    STRUCT = "struct"


@dataclass(frozen=True, slots=True)
class CType:
    """One type: its C spelling, its size in bytes and, for structs, the types of the members a, b, c..."""

    c: str
    size: int
    kind: Kind
    signed: bool = False
    members: tuple[CType, ...] = ()


U8 = CType("u8", 1, Kind.INTEGER)
S8 = CType("s8", 1, Kind.INTEGER, True)
U16 = CType("u16", 2, Kind.INTEGER)
S16 = CType("s16", 2, Kind.INTEGER, True)
U32 = CType("u32", 4, Kind.INTEGER)
S32 = CType("s32", 4, Kind.INTEGER, True)
U64 = CType("u64", 8, Kind.INTEGER)
S64 = CType("s64", 8, Kind.INTEGER, True)
BOOL = CType("bool", 1, Kind.BOOL)
HUE = CType("enum hue", 4, Kind.ENUM)
LEVEL = CType("enum level", 4, Kind.ENUM, True)
FLOAT = CType("float", 4, Kind.FLOAT, True)
DOUBLE = CType("double", 8, Kind.FLOAT, True)
S128 = CType("s128", 16, Kind.WIDE, True)
U128 = CType("u128", 16, Kind.WIDE)
WORDS = CType("const u64 *", 8, Kind.POINTER)
PAIRS = CType("const struct s16 *", 8, Kind.POINTER)
STRUCT2 = CType("struct s2", 2, Kind.STRUCT, members=(U8, S8))
STRUCT4 = CType("struct s4", 4, Kind.STRUCT, members=(U16, S16))
STRUCT8 = CType("struct s8", 8, Kind.STRUCT, members=(U32, S32))
STRUCT12 = CType("struct s12", 12, Kind.STRUCT, members=(U32, S32, U32))
STRUCT16 = CType("struct s16", 16, Kind.STRUCT, members=(U64, S64))
STRUCT24 = CType("struct s24", 24, Kind.STRUCT, members=(U64, S64, U64))
MIXED8 = CType("struct m8", 8, Kind.STRUCT, members=(S32, FLOAT))
MIXED16 = CType("struct m16", 16, Kind.STRUCT, members=(S64, DOUBLE))

INTEGERS = (U8, S8, U16, S16, U32, S32, U64, S64)
STRUCTS = (STRUCT2, STRUCT4, STRUCT8, STRUCT12, STRUCT16, STRUCT24, MIXED8, MIXED16)
POINTERS = (WORDS, PAIRS)
ALL = (*INTEGERS, BOOL, HUE, LEVEL, FLOAT, DOUBLE, S128, U128, *POINTERS, *STRUCTS)

PARAMETER_WEIGHTS: tuple[tuple[int, CType], ...] = (
    *((9, t) for t in (U32, S32, U64, S64)),
    *((4, t) for t in (U8, S8, U16, S16)),
    (5, BOOL),
    (3, HUE),
    (3, LEVEL),
    (2, FLOAT),
    (3, DOUBLE),
    (2, S128),
    (2, U128),
    (7, WORDS),
    (5, PAIRS),
    *((2, t) for t in STRUCTS),
)
"""How often each type is that of a parameter: plain integers and pointers lead, as in ordinary code."""

POOL_WORDS = 40
POOL_PAIRS = 12
TABLE_WORDS = 12
"""Lengths of the read-only arrays that pointers point into; every read stays four elements within."""


def declarations() -> str:
    """The text every unit starts with: types, the arrays in the driver and the opaque function."""
    lines = [
        "typedef unsigned char u8; typedef signed char s8; typedef unsigned short u16; typedef short s16;",
        "typedef unsigned int u32; typedef int s32; typedef unsigned long u64; typedef long s64;",
        "typedef __int128 s128; typedef unsigned __int128 u128; typedef _Bool bool;",
        "enum hue { RED, GREEN, BLUE, GREY };",
        "enum level { LOWEST = -3, LOWER, LOW, ZERO, HIGH, HIGHER, HIGHEST };",
    ]
    for struct in STRUCTS:
        members = " ".join(f"{m.c} {chr(97 + i)};" for i, m in enumerate(struct.members))
        lines.append(f"{struct.c} {{ {members} }};")
    lines.append(f"extern u64 pool[{POOL_WORDS}]; extern struct s16 pairs[{POOL_PAIRS}];")
    lines.append("extern u64 opaque(u64);")
    return "\n".join(lines) + "\n"
