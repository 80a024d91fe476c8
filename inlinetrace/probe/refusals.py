"""Which sites must not be probed, told before the kernel is asked.

For user programs this is not a courtesy: the kernel accepts a uprobe in the middle of an instruction and so changes
the program, and it accepts some on instructions that it then carries out wrongly (x86).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from inlinetrace.probe import x86
from inlinetrace.probe.kernel_text import KernelText, merged
from inlinetrace.probe.plan import Check, Refusal
from inlinetrace.target.kcore import KernelMemory

if TYPE_CHECKING:
    from inlinetrace.sites.model import Site
    from inlinetrace.target.btf_image import BtfImage
    from inlinetrace.target.host import Host
    from inlinetrace.target.image import Image

BLACKLIST = "/sys/kernel/debug/kprobes/blacklist"
CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
# 0xffffffff81c00010-0xffffffff81c00290<tab>name: kprobe_blacklist_seq_show() of kernel/kprobes.c
_BLACKLISTED = re.compile(r"0x([0-9a-f]{1,16})-0x([0-9a-f]{1,16})\t")
_MISEMULATED = (Refusal.MISEMULATED, "kernels carry this instruction out wrongly when it is probed")
# What holds a lock that the clocks of traces take: where HPET is the clocksource, a probe in there that the kernel has
# turned into a jump waits for itself (read_hpet() of arch/x86/kernel/hpet.c, which makes an exception of traps alone).
_HOLDS_LOCK_OF_CLOCK = frozenset(("read_hpet",))


def program_check(image: Image) -> Check:
    """The check for a user program: uprobes."""
    read = _reader(image)

    def check(site: Site) -> tuple[Refusal, str] | None:
        problem = _boundary(image, site.address)
        if problem is not None:
            return problem
        machine = image.program.machine.name
        if machine not in ("x86_64", "i686"):
            return None
        code = read(site.address, x86.LONGEST)
        why = x86.obstacle(code, wide=machine == "x86_64", entry=not site.inlined)
        return None if why is None else (Refusal.INSTRUCTION, why)

    return check


def kernel_check(image: Image, host: Host | None = None, text: KernelText | None = None) -> Check:
    """The check for a kernel image or module: kprobes. ``host`` and ``text`` as in KernelRules."""
    rules = KernelRules(image, host, text)
    return lambda site: rules.refusal(site.address) or holds_lock(site) or rules.misemulated(site.address)


def predict(image: Image, addresses: Iterable[int], host: Host | None = None) -> dict[int, tuple[Refusal, str] | None]:
    """What becomes of a kprobe event at each address of a kernel or module: None if it is accepted.

    Addresses are those of the file (of a module, of inlinetrace.elf.layout), not run-time ones.
    """
    rules = KernelRules(image, host)
    return {address: rules.refusal(address) for address in addresses}


class KernelRules:
    """Where the kernel takes no kprobe event: register_kprobe() of kernel/kprobes.c, arch_prepare_kprobe() of
    arch/x86/kernel/kprobes/core.c and within_notrace_func() of kernel/trace/trace_kprobe.c, from the file.

    What the machine that runs it, ``host``, adds to its blacklist is read there if it shows its addresses. ``text`` is
    that of the image's program if somebody has it already.
    """

    def __init__(self, image: Image, host: Host | None = None, text: KernelText | None = None) -> None:
        self._image = image
        self._text = text or KernelText(image.program)
        self._x86 = image.program.machine.name == "x86_64"
        self._more = [] if host is None else running_blacklist(host, image)
        self._memory = None if host is None or image.loaded is None else KernelMemory.open(host)

    @cached_property
    def _traced_only(self) -> bool:
        """Whether functions that cannot be traced are closed: not with CONFIG_KPROBE_EVENTS_ON_NOTRACE.

        Where the calls are listed beside of their functions (arm64) the kernel is left to say it.
        """
        if not self._x86 or not len(self._text.ftrace):
            return False
        # of a module nobody knows how its kernel was configured: hardly anybody opens them
        return self._image.module is not None or bool(self._image.program.symbols().named("__within_notrace_func"))

    @cached_property
    def _takes_ftrace(self) -> bool:
        """Whether a kprobe may be where function tracing makes its call (CONFIG_KPROBES_ON_FTRACE)."""
        return self._image.module is not None or bool(self._image.program.symbols().named("kprobe_ftrace_handler"))

    def refusal(self, address: int) -> tuple[Refusal, str] | None:
        """Why the kernel takes no kprobe event at an address of the file; None if it does."""
        text = self._text
        section = self._image.program.section_at(address)
        if not text.stays(address, section):
            return Refusal.INIT, "" if section is None else section.name
        if text.is_blacklisted(address, self._more):
            return Refusal.BLACKLIST, ""
        if address in text.jump_labels:
            return Refusal.JUMP_LABEL, ""
        if address in text.static_calls:
            return Refusal.STATIC_CALL, ""
        if address in text.bugs:
            return Refusal.BUG, ""
        if self._traced_only and not text.is_traced(address):
            return Refusal.NOTRACE, ""
        if address in text.ftrace:
            return None if self._takes_ftrace else (Refusal.FTRACE, "")
        if not self._image.has_code(address):
            # a file without instructions (openSUSE's debug files): the kernel looks for boundaries itself
            return None
        problem = _boundary(self._image, address)
        if problem is not None or not self._x86:
            return problem
        # what is replaced at the start is a direct call or plain instructions then
        if text.patched_at(address) is None and not x86.can_be_emulated(text.read(address, x86.LONGEST)):
            return Refusal.INSTRUCTION, "the kernel cannot emulate this instruction"
        return None

    def misemulated(self, address: int) -> tuple[Refusal, str] | None:
        """Why the kernel would go on in the wrong place after the instruction at an address of the file."""
        if not self._x86:
            return None
        instruction = self._text.read(address, x86.AT_LEAST)
        start = address + (len(x86.ENDBR64) if instruction.startswith(x86.ENDBR64) else 0)
        if x86.is_misemulated(instruction, start in self._text.retpolines):
            return _MISEMULATED
        runtime = None if self._memory is None else self._image.runtime_address(address)
        # what the file has may have been replaced when the kernel started
        return None if runtime is None else _misemulated_now(self._memory, runtime)


def _misemulated_now(memory: KernelMemory | None, address: int) -> tuple[Refusal, str] | None:
    """The same for the instruction that is at a run-time address now."""
    if memory is None or not x86.is_misemulated(memory.read(address, x86.AT_LEAST)):
        return None
    return _MISEMULATED


def holds_lock(site: Site) -> tuple[Refusal, str] | None:
    """Why a hit in the function around a site would stop the machine."""
    if site.inlined and site.container is not None and site.container.split(".")[0] in _HOLDS_LOCK_OF_CLOCK:
        return Refusal.DEADLOCK, f"{site.container} holds a lock that reading the clock takes"
    return None


def _clock_is_locked(host: Host) -> bool:
    """Whether the running kernel takes a lock to read its clock."""
    try:
        return host.read_text(CLOCKSOURCE).strip() == "hpet"
    except OSError:
        return False


def running_blacklist(host: Host, image: Image) -> list[tuple[int, int]]:
    """Stretches of the file that the running kernel has on its blacklist; none where it does not show them."""
    return [] if image.load_bias is None else _ranges(host, image.load_bias)


def _ranges(host: Host, bias: int) -> list[tuple[int, int]]:
    """The blacklist of the running kernel, less ``bias``; empty where it is not shown."""
    try:
        lines = host.read_text(BLACKLIST).splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        match = _BLACKLISTED.match(line)
        if match is not None and int(match[1], 16):
            found.append((int(match[1], 16) - bias, int(match[2], 16) - bias))
    return merged(found)


def running_check(listed: BtfImage, host: Host) -> Check:
    """The check for the running kernel or a module without its file: what is neither there nor on its blacklist.

    The kernel itself looks for boundaries of instructions and for what it rewrites. What would stop it is read from its
    memory, and from the name of the function around the site.
    """
    reader = listed.reader
    blacklist = _ranges(host, 0)
    kernel = reader.module is None
    memory = KernelMemory.open(host) if listed.machine.name == "x86_64" else None
    # where addresses are hidden nothing tells which function a site is in
    unknown = kernel and reader.surroundings is None and _clock_is_locked(host)

    def check(site: Site) -> tuple[Refusal, str] | None:
        section = site.section or ""
        if section != ".text" if kernel else section.startswith(".init"):
            return Refusal.INIT, section
        known = reader.surroundings.sections.get(section) if reader.surroundings is not None else None
        start = known.address if known is not None else memory.stext if kernel and memory is not None else None
        if start is not None and site.section_offset is not None:
            address = start + site.section_offset
            if any(start <= address < end for start, end in blacklist):
                return Refusal.BLACKLIST, ""
            problem = _misemulated_now(memory, address)
            if problem is not None:
                return problem
        if unknown and site.inlined:
            return Refusal.DEADLOCK, "it may hold a lock that reading the clock takes: sysctl kernel.kptr_restrict=1"
        return holds_lock(site)

    return check


def _boundary(image: Image, address: int) -> tuple[Refusal, str] | None:
    if not image.has_code(address):
        return Refusal.BOUNDARY_UNCERTAIN, "the instructions are not at hand"
    known = image.is_boundary(address)
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
