"""Names of registers in the probe events of tracefs.

They are those of the kernel's ``regoffset_table`` (arch/*/kernel/ptrace.c): on x86 ``%di``, not ``%rdi``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine

_X86_64 = ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *(f"r{number}" for number in range(8, 16)), "ip")
_AARCH64 = (*(f"x{number}" for number in range(31)), "sp", "pc")
_ARM = (*(f"r{number}" for number in range(11)), "fp", "ip", "sp", "lr", "pc")
_PPC64 = tuple(f"gpr{number}" for number in range(32))
_S390X = tuple(f"r{number}" for number in range(16))


def register_text(machine: Machine, number: int) -> str | None:
    """``%di`` for DWARF register ``number``; None for what a probe event cannot fetch."""
    names: tuple[str, ...]
    if machine.name == "x86_64":
        names = _X86_64
    elif machine.name == "aarch64":
        names = _AARCH64
    elif machine.name == "arm":
        names = _ARM
    elif machine.name == "ppc64":
        names = _PPC64
    elif machine.name == "s390x":
        names = _S390X
    elif machine.name == "riscv64":
        # x0 is no register that is saved
        names = ("", *(machine.names[1:32]))
    else:
        return None
    if not 0 <= number < len(names) or not names[number]:
        return None
    return f"%{names[number]}"
