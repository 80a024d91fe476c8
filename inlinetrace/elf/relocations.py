"""Relocation types, one small table per machine.

Only what data sections of a relocatable file use (debug sections above all) is here: numbers of whole bytes. What
patches fields of instructions is not, except where the field is a plain number (x86). ``table_for`` packs a machine's
table for the compiled code: one byte per relocation type, the operation in the high four bits and the size in the low.

Sources: the psABI supplement of each machine, chapter "Relocation types". S is the symbol's value, A the addend, P the
place, V what is stored there.
"""

from __future__ import annotations

from functools import cache

# Shared with _relocate.pyx, which has a test that both agree.
UNKNOWN = 0
NONE = 1  # nothing to do
ABSOLUTE = 2  # S + A
RELATIVE = 3  # S + A - P
ADD = 4  # V + S + A
SUBTRACT = 5  # V - (S + A)
SET_ULEB128 = 6  # S + A, in the LEB128 bytes that are there
SUBTRACT_ULEB128 = 7  # V - (S + A), in the LEB128 bytes that are there
SET_6 = 8  # S + A in the low six bits of a byte
SUBTRACT_6 = 9  # V - (S + A) in the low six bits of a byte
THREAD_LOCAL = 10  # S + A less the machine's bias of thread-local offsets

Kind = tuple[int, int]

_TABLES: dict[int, dict[int, Kind]] = {
    # x86-64
    62: {
        0: (NONE, 0),
        1: (ABSOLUTE, 8),  # 64
        2: (RELATIVE, 4),  # PC32
        4: (RELATIVE, 4),  # PLT32
        10: (ABSOLUTE, 4),  # 32
        11: (ABSOLUTE, 4),  # 32S
        12: (ABSOLUTE, 2),  # 16
        13: (RELATIVE, 2),  # PC16
        14: (ABSOLUTE, 1),  # 8
        15: (RELATIVE, 1),  # PC8
        17: (THREAD_LOCAL, 8),  # DTPOFF64
        21: (THREAD_LOCAL, 4),  # DTPOFF32
        24: (RELATIVE, 8),  # PC64
    },
    # i386
    3: {
        0: (NONE, 0),
        1: (ABSOLUTE, 4),  # 32
        2: (RELATIVE, 4),  # PC32
        4: (RELATIVE, 4),  # PLT32
        20: (ABSOLUTE, 2),  # 16
        21: (RELATIVE, 2),  # PC16
        22: (ABSOLUTE, 1),  # 8
        23: (RELATIVE, 1),  # PC8
        32: (THREAD_LOCAL, 4),  # TLS_LDO_32
    },
    # AArch64
    183: {
        0: (NONE, 0),
        256: (NONE, 0),
        257: (ABSOLUTE, 8),  # ABS64
        258: (ABSOLUTE, 4),  # ABS32
        259: (ABSOLUTE, 2),  # ABS16
        260: (RELATIVE, 8),  # PREL64
        261: (RELATIVE, 4),  # PREL32
        262: (RELATIVE, 2),  # PREL16
        1029: (THREAD_LOCAL, 8),  # TLS_DTPREL
    },
    # RISC-V
    243: {
        0: (NONE, 0),
        1: (ABSOLUTE, 4),  # 32
        2: (ABSOLUTE, 8),  # 64
        8: (THREAD_LOCAL, 4),  # TLS_DTPREL32
        9: (THREAD_LOCAL, 8),  # TLS_DTPREL64
        33: (ADD, 1),
        34: (ADD, 2),
        35: (ADD, 4),
        36: (ADD, 8),
        37: (SUBTRACT, 1),
        38: (SUBTRACT, 2),
        39: (SUBTRACT, 4),
        40: (SUBTRACT, 8),
        43: (NONE, 0),  # ALIGN
        51: (NONE, 0),  # RELAX
        52: (SUBTRACT_6, 1),
        53: (SET_6, 1),
        54: (ABSOLUTE, 1),  # SET8
        55: (ABSOLUTE, 2),  # SET16
        56: (ABSOLUTE, 4),  # SET32
        57: (RELATIVE, 4),  # 32_PCREL
        60: (SET_ULEB128, 0),
        61: (SUBTRACT_ULEB128, 0),
    },
    # 64-bit Power
    21: {
        0: (NONE, 0),
        1: (ABSOLUTE, 4),  # ADDR32
        3: (ABSOLUTE, 2),  # ADDR16
        26: (RELATIVE, 4),  # REL32
        38: (ABSOLUTE, 8),  # ADDR64
        43: (ABSOLUTE, 8),  # UADDR64
        44: (RELATIVE, 8),  # REL64
        78: (THREAD_LOCAL, 8),  # DTPREL64
    },
    # s390x
    22: {
        0: (NONE, 0),
        1: (ABSOLUTE, 1),  # 8
        3: (ABSOLUTE, 2),  # 16
        4: (ABSOLUTE, 4),  # 32
        5: (RELATIVE, 4),  # PC32
        16: (RELATIVE, 2),  # PC16
        22: (ABSOLUTE, 8),  # 64
        23: (RELATIVE, 8),  # PC64
        52: (THREAD_LOCAL, 4),  # TLS_LDO32
        53: (THREAD_LOCAL, 8),  # TLS_LDO64
    },
    # Arm
    40: {
        0: (NONE, 0),
        2: (ABSOLUTE, 4),  # ABS32
        3: (RELATIVE, 4),  # REL32
        5: (ABSOLUTE, 2),  # ABS16
        8: (ABSOLUTE, 1),  # ABS8
        38: (ABSOLUTE, 4),  # TARGET1
        40: (NONE, 0),  # V4BX
        106: (THREAD_LOCAL, 4),  # TLS_LDO32
    },
}

_THREAD_LOCAL_BIAS = {243: 0x800, 21: 0x8000}


@cache
def table_for(elf_machine: int) -> bytes:
    """Return the packed table of ``elf_machine``; empty for a machine whose relocations are not known."""
    known = _TABLES.get(elf_machine)
    if known is None:
        return b""
    packed = bytearray(max(known) + 1)
    for number, (operation, size) in known.items():
        packed[number] = operation << 4 | size
    return bytes(packed)


def thread_local_bias(elf_machine: int) -> int:
    """Return how far a machine's thread-local offsets are shifted."""
    return _THREAD_LOCAL_BIAS.get(elf_machine, 0)
