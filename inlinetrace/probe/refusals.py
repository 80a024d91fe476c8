"""Which sites must not be probed, told before the kernel is asked.

For user programs this is not a courtesy: the kernel accepts a uprobe in the middle of an instruction and so changes
the program, and it accepts one on an instruction that it cannot step over and then, for programs that are started
later, silently leaves it out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

from inlinetrace.probe.plan import Check, Refusal

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.sites.model import Site
    from inlinetrace.target.image import Image

_LONGEST_INSTRUCTION = 15
_LEGACY_PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0x64, 0x65, 0x66, 0x67, 0xF0, 0xF2, 0xF3))
# is_prefix_bad() in arch/x86/kernel/uprobes.c: segment overrides other than fs and gs, and lock.
_BAD_PREFIXES = frozenset((0x26, 0x2E, 0x36, 0x3E, 0xF0))
# good_insns_64 there: privileged, interrupting, input and output, and what 64-bit mode does not have.
_BAD_OPCODES = frozenset(
    bytes.fromhex("06070e1617 1e1f272f37 3f60616c6d 6e6f829acc cdcecfd4d5 d6e4e5e6e7 eaecedeeef f1f4fafb")
)
_SECTIONS = {
    Refusal.INIT: (".init", ".exit"),
    Refusal.BLACKLIST: (".kprobes.text", ".entry.text", ".noinstr.text", ".irqentry.text", ".softirqentry.text"),
}


def program_check(image: Image) -> Check:
    """The check for a user program: uprobes."""
    read = _reader(image)

    def check(site: Site) -> tuple[Refusal, str] | None:
        problem = _boundary(image, site.address)
        if problem is not None:
            return problem
        if image.program.machine.name == "x86_64" and not x86_steps_over(read(site.address, _LONGEST_INSTRUCTION)):
            return Refusal.INSTRUCTION, "the kernel cannot step over this instruction"
        return None

    return check


def kernel_check(image: Image) -> Check:
    """The check for a kernel image: kprobes. What the kernel alone knows it refuses when the probe is defined."""
    labels = _relative_table(image.program, "__jump_table", 16)
    calls = _relative_table(image.program, ".static_call_sites", 8)

    def check(site: Site) -> tuple[Refusal, str] | None:
        section = site.section or ""
        for refusal, prefixes in _SECTIONS.items():
            if section.startswith(prefixes):
                return refusal, section
        if _contains(labels, site.address):
            return Refusal.JUMP_LABEL, ""
        if _contains(calls, site.address):
            return Refusal.STATIC_CALL, ""
        return _boundary(image, site.address)

    return check


def x86_steps_over(instruction: bytes) -> bool:
    """Whether the kernel takes an x86-64 instruction for a uprobe, as far as its prefixes and opcode tell."""
    at = 0
    while at < len(instruction) and instruction[at] in _LEGACY_PREFIXES:
        if instruction[at] in _BAD_PREFIXES:
            return False
        at += 1
    while at < len(instruction) and 0x40 <= instruction[at] <= 0x4F:
        at += 1
    return at < len(instruction) and instruction[at] not in _BAD_OPCODES


def _boundary(image: Image, address: int) -> tuple[Refusal, str] | None:
    code = image.code(address)
    if code is None:
        return Refusal.BOUNDARY_UNCERTAIN, "the instructions are not at hand"
    known = code.is_boundary(address)
    if known is None:
        return Refusal.BOUNDARY_UNCERTAIN, "bytes around it are no instructions"
    return None if known else (Refusal.NOT_A_BOUNDARY, "")


def _reader(image: Image) -> Callable[[int, int], bytes]:
    def read(address: int, size: int) -> bytes:
        section = image.program.section_at(address)
        if section is None or section.nobits:
            return b""
        start = address - section.address
        return bytes(image.program.raw_data(section)[start : start + size])

    return read


def _relative_table(program: ElfFile, name: str, entry_size: int) -> list[int]:
    """Addresses that the entries of a table start with, relative to where they stand (struct jump_entry and others)."""
    section = program.section(name)
    if section is None or section.nobits or program.relocatable:
        return []
    data = program.data(section)
    order = "little" if program.little_endian else "big"
    found = []
    for at in range(0, len(data) - entry_size + 1, entry_size):
        offset = int.from_bytes(data[at : at + 4], order, signed=True)  # type: ignore[arg-type]
        found.append(section.address + at + offset)
    return sorted(found)


def _contains(table: list[int], address: int) -> bool:
    at = bisect_left(table, address)
    return at < len(table) and table[at] == address
