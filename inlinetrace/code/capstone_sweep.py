"""The sweep for machines other than x86-64, by capstone.

Same result as the compiled decoder of x86-64: where instructions start, where direct jumps go, which jumps are
indirect, and which stretches are no instructions. Calls are not jumps. Capstone reports branch targets as text in the
short form that is fast enough for whole sections; the tables here say which mnemonics are jumps.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from inlinetrace.elf.machine import Machine
from inlinetrace.errors import UnsupportedError

_NUMBER = re.compile(r"(-?)(?:0x([0-9a-f]+)|([0-9]+))$")
_CONDITION = "(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)"
_S390_CONDITION = "(?:c|o|h|l|e|z|p|m|he|lh|le|n(?:o|h|l|e|z|p|m|he|lh|le))"

# Mnemonics of direct jumps, and of indirect ones (matched against "mnemonic operands"; returns are not among them).
_DIRECT: dict[str, str] = {
    "i686": r"j[a-z]+|loop[a-z]*|xbegin|(?:bnd|notrack) j[a-z]+",
    "aarch64": r"b|bc?\.[a-z]+|cbn?z|tbn?z",
    "arm": rf"b{_CONDITION}?(?:\.[nw])?|cbn?z",
    "riscv64": r"(?:c\.)?j|b(?:eq|ne|lt|ge|gt|le)u?|b(?:eq|ne|le|ge|lt|gt)z|c\.b(?:eq|ne)z|jal(?= zero)",
    "ppc64": r"ba?|b(?:eq|ne|lt|gt|le|ge|so|ns|un|nu|nl|ng)a?[+-]?|bd?n?z?[tf]?a?[+-]?|bca?[+-]?",
    "s390x": r"j(?!as)[a-z]*|br(?:cl?|ct[gh]?|xhg?|xlg|xle)|c[gl]*[ri]j[a-z]*",
}
_INDIRECT: dict[str, str] = {
    "i686": r"(?:notrack |bnd )?jmp(?! 0x)|ljmp",
    "aarch64": r"br|bra[ab]z?",
    "arm": rf"bx{_CONDITION}? (?!lr)|bxj|tb[bh]|(?:ldr|mov|add|sub){_CONDITION}?(?:\.w)? pc,",
    "riscv64": r"(?:c\.)?jr (?!ra)|jalr zero",
    "ppc64": r"b[a-z]*ctr[+-]?(?! ?l)",
    "s390x": rf"b{_S390_CONDITION}? |b{_S390_CONDITION}?r %r(?!14)",
}
# What capstone skips at a time where nothing can be decoded: the smallest instruction.
_SMALLEST = {"i686": 1, "aarch64": 4, "arm": 4, "riscv64": 2, "ppc64": 4, "s390x": 2}


class CapstoneSweep:
    """What the sweep found; the attributes are those of the compiled ``Sweep``."""

    def __init__(self, address: int, size: int) -> None:
        self.address = address
        self.size = size
        self.sources = array("Q")
        self.ends = array("Q")
        self.targets = array("Q")
        self.indirect = array("Q")
        self.undecoded = array("Q")
        self._starts = array("Q")

    @property
    def instruction_count(self) -> int:
        """Number of instructions."""
        return len(self._starts)

    def starts(self, offset: int) -> bool:
        """Tell whether an instruction starts at ``offset`` of the code."""
        at = bisect_left(self._starts, self.address + offset)
        return at < len(self._starts) and self._starts[at] == self.address + offset

    def previous(self, offset: int) -> int:
        """Return the last start before ``offset``, -1 if there is none."""
        at = bisect_left(self._starts, self.address + offset)
        return self._starts[at - 1] - self.address if at else -1

    def following(self, offset: int) -> int:
        """Return the first start behind ``offset``, -1 if there is none."""
        at = bisect_right(self._starts, self.address + offset)
        return self._starts[at] - self.address if at < len(self._starts) else -1

    def boundaries(self) -> array[int]:
        """Return the addresses of all instructions."""
        return self._starts

    def mark_undecoded(self, start: int, end: int) -> None:
        """Record a stretch that is no instruction, joined to the one before if they touch."""
        if self.undecoded and self.undecoded[-1] == start:
            self.undecoded[-1] = end
        else:
            self.undecoded.extend((start, end))

    def add(self, address: int) -> None:
        """Record the start of an instruction."""
        self._starts.append(address)


def _disassembler(machine: Machine, little_endian: bool, thumb: bool) -> Callable[..., object]:
    import capstone as cs

    modes: dict[str, tuple[int, int]] = {
        "i686": (cs.CS_ARCH_X86, cs.CS_MODE_32),
        "aarch64": (cs.CS_ARCH_ARM64, cs.CS_MODE_ARM),
        "arm": (cs.CS_ARCH_ARM, cs.CS_MODE_THUMB if thumb else cs.CS_MODE_ARM),
        "riscv64": (cs.CS_ARCH_RISCV, cs.CS_MODE_RISCV64 | cs.CS_MODE_RISCVC),
        "ppc64": (cs.CS_ARCH_PPC, cs.CS_MODE_64),
        "s390x": (cs.CS_ARCH_SYSZ, 0),
    }
    if machine.name not in modes:
        raise UnsupportedError(f"the instructions of {machine.name} are not known")
    arch, mode = modes[machine.name]
    # Instructions of AArch64 are little-endian whatever the data are; s390x has no little-endian mode.
    big = not little_endian and machine.name not in ("aarch64", "s390x")
    disassembler = cs.Cs(arch, mode | (cs.CS_MODE_BIG_ENDIAN if big or machine.name == "s390x" else 0))
    return disassembler.disasm_lite  # type: ignore[no-any-return]


def sweep(
    machine: Machine, code: memoryview, address: int, known: array[int], *, little_endian: bool, thumb: bool
) -> CapstoneSweep:
    """Decode all of ``code``; ``known`` are ascending offsets where an instruction is known to start."""
    result = CapstoneSweep(address, len(code))
    disassemble = _disassembler(machine, little_endian, thumb)
    name = machine.name
    direct = re.compile(_DIRECT[name])
    indirect = re.compile(_INDIRECT[name])
    smallest = 2 if thumb else _SMALLEST[name]
    address_mask = (1 << 8 * machine.address_size) - 1
    # Capstone prints branch targets of RISC-V relative to the instruction.
    relative = 1 if name == "riscv64" else 0
    bounds = [offset for offset in known if 0 < offset < len(code)] + [len(code)]
    start = 0
    for end in bounds:
        piece = bytes(code[start:end])
        at = 0
        while at < len(piece):
            for where, size, mnemonic, operands in disassemble(piece[at:], address + start + at):  # type: ignore[attr-defined]
                result.add(where)
                at = where + size - address - start
                # Cheap test first: most instructions do not even look like a branch.
                if mnemonic[0] not in "bcjlmastnx":
                    continue
                if indirect.match(f"{mnemonic} {operands}"):
                    result.indirect.append(where)
                    continue
                if direct.fullmatch(mnemonic) is None and not (mnemonic == "jal" and operands.startswith("zero")):
                    continue
                number = _NUMBER.search(operands)
                if number is None:
                    continue
                target = int(number[2], 16) if number[2] else int(number[3])
                target = -target if number[1] else target
                result.sources.append(where)
                result.ends.append(where + size)
                result.targets.append((target + where * relative) & address_mask)
            if at < len(piece):
                bad = min(smallest, len(piece) - at)
                result.mark_undecoded(address + start + at, address + start + at + bad)
                at += bad
        start = end
    return result
