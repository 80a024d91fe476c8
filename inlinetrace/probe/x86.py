"""Which x86 instructions the kernel cannot put a probe on, or carries out wrongly when it does.

>>> obstacle(bytes.fromhex("0f05"))               # syscall under a uprobe
'the kernel cannot step over this instruction'

The kernel replaces the instruction by a breakpoint, and carries out a copy of it elsewhere with the trap flag set, or
emulates it. What depends on its own address, shows or keeps the trap flag, or enters the kernel is another instruction
then. The rules are those of arch/x86/kernel/uprobes.c and kprobes/core.c, and what Linux 6.18 was seen to do with 400
instructions; tests/probe/test_uprobes_instructions.py has those that compilers write.
"""

from __future__ import annotations

from typing import NamedTuple

from inlinetrace.code._x86 import decode

LONGEST = 15
"""Bytes of the longest instruction."""
ENDBR64 = b"\xf3\x0f\x1e\xfa"
AT_LEAST = len(ENDBR64) + LONGEST
"""Bytes that is_misemulated looks at."""
CANNOT = "the kernel cannot step over this instruction"
WRONGLY = "the kernel steps over this instruction wrongly"
RED_ZONE = "the kernel may replace this nop by a call, which overwrites what lies below the stack pointer"

_LEGACY_PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3))
_OPERAND_SIZE = 0x66
_REX_B = 1
# Bytes of a prefix of vector instructions: VEX, XOP (or pop), EVEX.
_VECTOR_PREFIXES = {0xC4: 3, 0xC5: 2, 0x8F: 3, 0x62: 4}
# is_prefix_bad() of uprobes.c: segment overrides other than fs and gs, and lock.
_BAD_PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0xF0))
# good_insns_64 there: privileged, interrupting, input and output, and what 64-bit mode does not have.
_BAD_OPCODES = frozenset(
    bytes.fromhex("06070e1617 1e1f272f37 3f60616c6d 6e6f829acc cdcecfd4d5 d6e4e5e6e7 eaecedeeef f1f4fafb")
)
# good_insns_32 there, by experiment.
_BAD_OPCODES_32 = frozenset(bytes.fromhex("07171f 6c6d6e6f cccdcecf e4e5e6e7 ecedeeef f1f4fafb"))
# Behind 0f: sldt, str; syscall, sysret, sysenter, sysexit, getsec, rsm. The kernel takes them all.
_BAD_SECOND_OPCODES = frozenset((0x00, 0x05, 0x07, 0x34, 0x35, 0x37, 0xAA))
# Behind 0f 01, whose others are of the system: xgetbv, xend, xtest, serialize, rdpkru, wrpkru, rdtscp.
_GOOD_SYSTEM = frozenset((0xD0, 0xD5, 0xD6, 0xE8, 0xEE, 0xEF, 0xF9))
# Both kinds of probes look at the opcode behind a vector prefix as if there were no prefix: what are jumps, calls,
# returns, nop, pushf and popf (for kprobes cli and sti too) without one.
_TAKEN_FOR_OTHERS = frozenset(
    (*range(0x70, 0x80), 0x90, 0x9A, 0x9C, 0x9D, 0xC2, 0xC3, 0xCA, 0xCB, *range(0xE0, 0xE4), *range(0xE8, 0xEC))
) | {0xFA, 0xFB, 0xFF}
_BRANCHES = frozenset((*range(0x70, 0x80), *range(0xE0, 0xE4), 0xC2, 0xC3, 0xCA, 0xCB, 0xE8, 0xE9, 0xEB))
# far calls and jumps, breakpoints, iret; pop ss
_NOT_EMULATED = frozenset((0x9A, 0xEA, 0xCC, 0xCF, 0x17))
_OPTIMIZED_NOP = 5


class _Instruction(NamedTuple):
    """What comes before an opcode, the opcode's first byte, and what follows that; ``rex`` is 0 if there is none."""

    prefixes: bytes
    rex: int
    vector: bool
    opcode: int
    following: bytes

    @classmethod
    def parse(cls, code: bytes, *, wide: bool = True) -> _Instruction | None:
        """The instruction at the start of ``code``; None if there is no opcode. ``wide`` is 64-bit mode."""
        at = rex = 0
        while at < len(code) and code[at] in _LEGACY_PREFIXES:
            at += 1
        prefixes = code[:at]
        while wide and at < len(code) and code[at] & 0xF0 == 0x40:
            rex = code[at]
            at += 1
        size = _VECTOR_PREFIXES.get(code[at], 0) if at < len(code) else 0
        if size and not _is_vector_prefix(code[at], code[at + 1 : at + 2], wide):
            size = 0
        at += size
        return cls(prefixes, rex, size > 0, code[at], code[at + 1 :]) if at < len(code) else None

    @property
    def second(self) -> int | None:
        """The byte behind an opcode 0f, None for all others."""
        return self.following[0] if self.opcode == 0x0F and not self.vector and self.following else None

    @property
    def field(self) -> int | None:
        """The middle three bits of the byte behind the opcode, which tell the instructions of a group apart."""
        return self.following[0] >> 3 & 7 if self.following else None

    @property
    def of_registers(self) -> bool:
        """Whether the byte behind the opcode names no memory."""
        return bool(self.following) and self.following[0] >> 6 == 3

    @property
    def is_branch(self) -> bool:
        """Whether it jumps, calls or returns within the segment."""
        if self.second is not None:
            return 0x80 <= self.second <= 0x8F
        return self.opcode in _BRANCHES or (self.opcode == 0xFF and self.field in (2, 3, 4, 5))


def obstacle(code: bytes, *, wide: bool = True, entry: bool = True) -> str | None:
    """Why there must be no uprobe on the instruction at the start of ``code``, None if there may be one.

    ``wide`` is 64-bit mode. ``entry``: a function is entered there, so that nothing that is needed lies below the
    stack pointer.
    """
    instruction = _Instruction.parse(code, wide=wide)
    bad = _BAD_OPCODES if wide else _BAD_OPCODES_32
    if instruction is None or not _BAD_PREFIXES.isdisjoint(instruction.prefixes) or instruction.opcode in bad:
        return CANNOT
    if instruction.vector:
        return WRONGLY if instruction.opcode in _TAKEN_FOR_OTHERS else None
    if _enters_kernel(instruction) or _loads_stack_segment(instruction) or _is_odd_branch(instruction):
        return CANNOT
    # the copy of pushf pushes the trap flag; every 90 is taken for a nop, xchg %rax,%r8 too
    if instruction.opcode == 0x9C or (instruction.opcode == 0x90 and instruction.rex & _REX_B):
        return WRONGLY
    if wide and not entry and _is_nop(instruction) and decode(memoryview(code), 0)[0] == _OPTIMIZED_NOP:
        return RED_ZONE
    return None


def can_be_emulated(code: bytes) -> bool:
    """Whether the kernel takes an instruction for a kprobe: prepare_emulation() and __copy_instruction()."""
    instruction = _Instruction.parse(code)
    if instruction is None:
        return False
    opcode, field = instruction.opcode, instruction.field
    if opcode in _NOT_EMULATED:
        return False
    if opcode == 0xFF and field is not None:
        # calls and jumps through memory, and far ones
        return field not in (2, 3, 4, 5) or (instruction.of_registers and field in (2, 4))
    if instruction.second == 0x01 and len(instruction.following) > 1:
        # vmcall, vmlaunch, vmresume...
        return instruction.following[1] & 0xF8 != 0xC0
    return not _loads_stack_segment(instruction)


def is_misemulated(code: bytes, is_retpoline: bool = False) -> bool:
    """Whether the kernel goes on in the wrong place, or does something else, where it emulates for a kprobe.

    Behind a call it pushes what lies 5 bytes on (int3_emulate_call() of arch/x86/include/asm/text-patching.h), whatever
    the length of the call is: a prefix makes it longer; one through a register is shorter, for which only kernels since
    6.8 and later stable ones account (kprobe_emulate_call_indirect()). A retpoline may have become one of these.
    """
    # the kernel puts a probe behind the mark of a function's start
    instruction = _Instruction.parse(code.removeprefix(ENDBR64))
    if instruction is None:
        return False
    if instruction.vector:
        return instruction.opcode in _TAKEN_FOR_OTHERS
    if instruction.opcode == 0xE8:
        return bool(instruction.prefixes) or instruction.rex > 0 or is_retpoline
    return instruction.opcode == 0xFF and instruction.of_registers and instruction.field == 2


def _is_vector_prefix(first: int, following: bytes, wide: bool) -> bool:
    """Whether what can be a prefix of vector instructions is one: not pop; in 32-bit mode not bound, les and lds."""
    if not following:
        return wide
    if first == 0x8F:
        return following[0] & 0x38 != 0
    return wide or following[0] >= 0xC0


def _enters_kernel(instruction: _Instruction) -> bool:
    """System calls, and what the kernel or a hypervisor carries out in place of the processor."""
    if instruction.second == 0x01:
        return len(instruction.following) < 2 or instruction.following[1] not in _GOOD_SYSTEM
    return instruction.second in _BAD_SECOND_OPCODES


def _loads_stack_segment(instruction: _Instruction) -> bool:
    """mov to ss keeps interrupts away from the next instruction."""
    return instruction.opcode == 0x8E and instruction.field == 2


def _is_odd_branch(instruction: _Instruction) -> bool:
    """16-bit branches, far calls and jumps, xbegin."""
    if instruction.opcode == 0xFF and instruction.field in (3, 5):
        return True
    if instruction.opcode == 0xC7 and instruction.following[:1] == b"\xf8":
        return True
    return _OPERAND_SIZE in instruction.prefixes and instruction.is_branch


def _is_nop(instruction: _Instruction) -> bool:
    if instruction.second is not None:
        return 0x19 <= instruction.second <= 0x1F
    return instruction.opcode == 0x90
