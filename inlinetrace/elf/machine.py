"""Machines: names and DWARF register numbers.

Sources: System V psABI supplements (x86-64 figure 3.36, AArch64 table 4.1, RISC-V, Power, s390x, Arm AADWARF32).
Names are the full-width ones, whatever the size of the value in them: ``rax``, ``x0``, ``r3``.
"""

from __future__ import annotations

from typing import NamedTuple


class Machine(NamedTuple):
    """One ELF machine: ``name`` as uname prints it, DWARF register ``names``, the ranges that are vector registers.

    ``arguments`` are the registers in which integers and pointers are passed, in their order; empty if unknown.
    ``by_position`` tells that all functions pass them so.
    """

    name: str
    elf_machine: int
    address_size: int
    names: tuple[str, ...]
    vector: tuple[range, ...] = ()
    stack_pointer: int = -1
    arguments: tuple[int, ...] = ()
    by_position: bool = True

    def register_name(self, number: int) -> str:
        """Return the name of DWARF register ``number``, or ``reg<number>`` where the ABI names none."""
        if 0 <= number < len(self.names) and self.names[number]:
            return self.names[number]
        return f"reg{number}"

    def is_vector(self, number: int) -> bool:
        """Tell whether DWARF register ``number`` is a vector or floating-point register."""
        return any(number in numbers for numbers in self.vector)


def _numbered(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{i}" for i in range(count))


X86_64 = Machine(
    "x86_64",
    62,
    8,
    ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{i}" for i in range(8, 16)), "rip")
    + _numbered("xmm", 16)
    + _numbered("st", 8)
    + _numbered("mm", 8),
    (range(17, 49), range(67, 83), range(118, 126)),
    7,
    (5, 4, 1, 2, 8, 9),
)
I386 = Machine(
    "i686",
    3,
    4,
    ("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip", "eflags", "")
    + _numbered("st", 8)
    + ("", "")
    + _numbered("xmm", 8),
    (range(11, 19), range(21, 37)),
    4,
    # Most functions are passed theirs on the stack; the kernel's, and local ones, are regparm(3).
    (0, 2, 1),
    False,
)
AARCH64 = Machine(
    "aarch64",
    183,
    8,
    (*_numbered("x", 31), "sp", "pc", *("",) * 31, *_numbered("v", 32)),
    (range(64, 96),),
    31,
    tuple(range(8)),
)
RISCV64 = Machine(
    "riscv64",
    243,
    8,
    ("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1")
    + _numbered("a", 8)
    + tuple(f"s{i}" for i in range(2, 12))
    + tuple(f"t{i}" for i in range(3, 7))
    + _numbered("f", 32),
    (range(32, 64), range(96, 128)),
    2,
    tuple(range(10, 18)),
)
PPC64 = Machine(
    "ppc64",
    21,
    8,
    _numbered("r", 32) + _numbered("f", 32) + ("cr", "lr", "ctr"),
    (range(32, 64), range(77, 109)),
    1,
    tuple(range(3, 11)),
)
S390X = Machine(
    "s390x",
    22,
    8,
    _numbered("r", 16)
    + ("f0", "f2", "f4", "f6", "f1", "f3", "f5", "f7", "f8", "f10", "f12", "f14", "f9", "f11", "f13", "f15"),
    (range(16, 32), range(68, 84)),
    15,
    tuple(range(2, 7)),
)
ARM = Machine(
    "arm",
    40,
    4,
    (*_numbered("r", 13), "sp", "lr", "pc"),
    (range(16, 24), range(64, 96), range(256, 288)),
    13,
    tuple(range(4)),
)

MACHINES: dict[int, Machine] = {m.elf_machine: m for m in (X86_64, I386, AARCH64, RISCV64, PPC64, S390X, ARM)}


def machine_for(elf_machine: int, address_size: int) -> Machine:
    """Return the machine of an ELF header's ``e_machine``; unknown ones have numbered registers (``reg7``)."""
    known = MACHINES.get(elf_machine)
    return known if known else Machine(f"machine {elf_machine}", elf_machine, address_size, ())
