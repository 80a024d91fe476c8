"""An assembler for BPF programs, as far as the bcc backend needs one.

>>> code = Assembler()
>>> code.load(R0, R1, 112, 8)
>>> code.jump("==", R0, 0, "out")
>>> code.label("out")
>>> code.exit()
>>> code.assemble()                          # the instructions, ready for the kernel

Instructions are those of the kernel's Documentation/bpf/standardization/instruction-set.rst. They are made here because
what has to be fetched is known only when a trace starts: compiling C for it would take seconds and the kernel's
headers.
"""

from __future__ import annotations

import struct
import sys

from inlinetrace.errors import UnsupportedError

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, FP = range(11)

_SIZES = {1: 0x10, 2: 0x08, 4: 0x00, 8: 0x18}
_ALU = {
    "+=": 0x07,
    "-=": 0x17,
    "|=": 0x47,
    "&=": 0x57,
    "<<=": 0x67,
    ">>=": 0x77,
    "s>>=": 0xC7,
    "^=": 0xA7,
    "*=": 0x27,
    "=": 0xB7,
}
_JUMPS = {
    "==": 0x15,
    ">": 0x25,
    ">=": 0x35,
    "&": 0x45,
    "!=": 0x55,
    "s>": 0x65,
    "s>=": 0x75,
    "<": 0xA5,
    "<=": 0xB5,
    "s<": 0xC5,
    "s<=": 0xD5,
}
# With this bit the second operand is a register.
_REGISTER = 0x08
_MAP = 1
_FARTHEST = 0x7FFF


class Assembler:
    """Collects instructions. Labels may be used before they are set."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int, int]] = []
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._code)

    def _add(self, opcode: int, target: int = 0, source: int = 0, offset: int = 0, number: int = 0) -> None:
        self._code.append((opcode, target, source, offset, number))

    def compute(self, target: int, operation: str, number: int) -> None:
        """``target += number`` and the like, 64 bits; ``number`` has 32 and a sign."""
        self._add(_ALU[operation], target, number=number)

    def compute_register(self, target: int, operation: str, source: int) -> None:
        """``target += source`` and the like."""
        self._add(_ALU[operation] | _REGISTER, target, source)

    def negate(self, target: int) -> None:
        """``target = -target``."""
        self._add(0x87, target)

    def move(self, target: int, source: int) -> None:
        """``target = source``."""
        self.compute_register(target, "=", source)

    def constant(self, target: int, number: int) -> None:
        """``target = number``, any number of 64 bits."""
        if -(1 << 31) <= number < 1 << 31:
            self.compute(target, "=", number)
            return
        number &= (1 << 64) - 1
        self._add(0x18, target, number=_signed(number & 0xFFFFFFFF))
        self._add(0, number=_signed(number >> 32))

    def map(self, target: int, descriptor: int) -> None:
        """``target = `` the map with this file descriptor."""
        self._add(0x18, target, _MAP, number=descriptor)
        self._add(0)

    def load(self, target: int, base: int, offset: int, size: int) -> None:
        """``target = `` the number of ``size`` bytes at ``base + offset``."""
        self._add(0x61 | _SIZES[size], target, base, offset)

    def store(self, base: int, offset: int, source: int, size: int) -> None:
        """Store the register ``source`` at ``base + offset``."""
        self._add(0x63 | _SIZES[size], base, source, offset)

    def store_number(self, base: int, offset: int, number: int, size: int) -> None:
        """Store a number at ``base + offset``."""
        self._add(0x62 | _SIZES[size], base, offset=offset, number=number)

    def atomic_add(self, base: int, offset: int, source: int) -> None:
        """Add ``source`` to the 64 bits at ``base + offset``, whoever else does."""
        self._add(0xDB, base, source, offset)

    def address(self, target: int, base: int, offset: int) -> None:
        """``target = base + offset``."""
        self.move(target, base)
        if offset:
            self.compute(target, "+=", offset)

    def call(self, helper: int) -> None:
        """Call a helper (include/uapi/linux/bpf.h). R1 to R5 are its arguments and lost; R0 is what it returns."""
        self._add(0x85, number=helper)

    def exit(self) -> None:
        """Return R0."""
        self._add(0x95)

    def label(self, name: str) -> None:
        """What ``name`` stands for in jumps: the next instruction."""
        self._labels[name] = len(self._code)

    def go(self, label: str) -> None:
        """Jump."""
        self._jumps.append((len(self._code), label))
        self._add(0x05)

    def jump(self, comparison: str, target: int, number: int, label: str) -> None:
        """Jump if ``target`` compares so with a number of 32 bits and a sign."""
        self._jumps.append((len(self._code), label))
        self._add(_JUMPS[comparison], target, number=number)

    def jump_register(self, comparison: str, target: int, source: int, label: str) -> None:
        """Jump if ``target`` compares so with another register."""
        self._jumps.append((len(self._code), label))
        self._add(_JUMPS[comparison] | _REGISTER, target, source)

    def assemble(self) -> bytes:
        """The program. Raises UnsupportedError if a jump is farther than an instruction can say."""
        code = list(self._code)
        for at, label in self._jumps:
            distance = self._labels[label] - at - 1
            if not -_FARTHEST <= distance <= _FARTHEST:
                raise UnsupportedError("too much is fetched for one BPF program: name fewer arguments")
            opcode, target, source, _, number = code[at]
            code[at] = (opcode, target, source, distance, number)
        return b"".join(
            struct.pack("=BBhi", opcode, _registers(target, source), offset, number)
            for opcode, target, source, offset, number in code
        )


def _registers(target: int, source: int) -> int:
    return target | source << 4 if sys.byteorder == "little" else target << 4 | source


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
