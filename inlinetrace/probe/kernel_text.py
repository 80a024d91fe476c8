"""What a kernel or module knows of its own text, read from its file: what decides where it takes a kprobe.

>>> text = KernelText(image.program)
>>> text.symbol(address)                  # TextSymbol(start, end, name), as the kernel's kallsyms has it
>>> address in text.jump_labels, text.is_traced(address)

Addresses are those of the file: link-time ones of a kernel, of a module those of inlinetrace.elf.layout. Each table is
read when it is first asked for. Tables that the file does not have are empty.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.sections import Section

# Sections of a module that are freed once it is initialised.
_MODULE_INIT = ".init"
_UD2 = b"\x0f\x0b"
# struct bug_entry: with file and line, without, with a format; struct alt_instr: since 6.3, before.
_BUG_ENTRY_SIZES = (12, 8, 16)
_ALTERNATIVE_SIZES = (14, 12)
_JUMP_ENTRY_SIZE, _STATIC_CALL_SIZE, _PARAVIRT_SIZE, _RETPOLINE_SIZE = 16, 8, 16, 4


class TextSymbol(NamedTuple):
    """A symbol with what the kernel takes for its extent: up to the next symbol."""

    start: int
    end: int
    name: str


class Patched(NamedTuple):
    """Instructions that are replaced when the kernel starts (alternatives, paravirtual calls)."""

    start: int
    end: int


class AddressSet:
    """A sorted set of addresses."""

    def __init__(self, addresses: Sequence[int]) -> None:
        self._addresses = array("Q", sorted(set(addresses)))

    def __len__(self) -> int:
        return len(self._addresses)

    def __iter__(self) -> Iterator[int]:
        return iter(self._addresses)

    def __contains__(self, address: int) -> bool:
        return self.any_in(address, address + 1)

    def any_in(self, start: int, end: int) -> bool:
        """Whether there is an address in [start, end)."""
        at = bisect_left(self._addresses, start)
        return at < len(self._addresses) and self._addresses[at] < end


class KernelText:
    """The text of ``program``, a vmlinux or a module."""

    def __init__(self, program: ElfFile) -> None:
        self._program = program
        self._order = "<" if program.little_endian else ">"
        self._x86 = program.machine.name == "x86_64"
        self._around: tuple[int, memoryview] = (0, memoryview(b""))

    # Symbols

    @cached_property
    def bounds(self) -> tuple[int, int] | None:
        """Where the text of a kernel is that stays (core_kernel_text() of kernel/extable.c); None for a module."""
        start, end = self._marker("_stext"), self._marker("_etext")
        return None if start is None or end is None else (start, end)

    def stays(self, address: int, section: Section | None) -> bool:
        """Whether the code at ``address`` is there once everything has started."""
        if self.bounds is not None:
            return self.bounds[0] <= address < self.bounds[1]
        return section is not None and not section.name.startswith(_MODULE_INIT)

    def _marker(self, name: str) -> int | None:
        """The address of a symbol that the linker script makes."""
        if self._program.relocatable:
            return None
        found = self._program.symbols().named(name)
        return found[0].address if found else None

    @cached_property
    def _symbols(self) -> tuple[array[int], array[int]]:
        """Addresses of the text symbols, ascending and each once, and the numbers of the symbols they are known by."""
        return self._program.symbols().kallsyms()

    def symbol(self, address: int) -> TextSymbol | None:
        """The symbol that the kernel finds for an address: the last one at or before it, whatever lies between."""
        addresses, numbers = self._symbols
        at = bisect_right(addresses, address) - 1
        if at < 0:
            return None
        section = self._program.section_at(addresses[at])
        end = addresses[at + 1] if at + 1 < len(addresses) else None
        if self._program.relocatable and section is not None:
            if address >= section.address + section.size:
                return None
            end = min(end or section.address + section.size, section.address + section.size)
        elif end is None:
            end = self.bounds[1] if self.bounds is not None else address + 1
        return TextSymbol(addresses[at], end, self._program.symbols().symbol(numbers[at]).name)

    def named(self, name: str) -> int | None:
        """The address of the first text symbol with a name."""
        addresses = [symbol.address for symbol in self._program.symbols().named(name) if symbol.section_index]
        return min(addresses) if addresses else None

    # Tables

    def _content(self, start: str, stop: str, section: str) -> tuple[int, bytes]:
        """Address and content of a table: between two symbols of a kernel, else the section of a module."""
        first, last = self._marker(start), self._marker(stop)
        program = self._program
        if first is not None and last is not None:
            holder = program.section_at(first)
            if holder is None or holder.nobits or not first <= last <= holder.address + holder.size:
                return first, b""
            return first, bytes(program.data(holder)[first - holder.address : last - holder.address])
        found = program.section(section)
        if found is None or found.nobits:
            return 0, b""
        return found.address, bytes(program.data(found))

    def _pointers(self, start: str, stop: str, section: str) -> AddressSet:
        _, content = self._content(start, stop, section)
        size = self._program.address_size
        content = content[: len(content) // size * size]
        form = f"{self._order}{'Q' if size == 8 else 'I'}"
        return AddressSet([address for (address,) in struct.iter_unpack(form, content) if address])

    def _relative(self, start: str, stop: str, section: str, size: int) -> AddressSet:
        """Addresses that entries of ``size`` bytes begin with, each relative to where it stands."""
        place, content = self._content(start, stop, section)
        return AddressSet(self._relative_addresses(place, content, size))

    def _relative_addresses(self, place: int, content: bytes, size: int) -> list[int]:
        unpack = struct.Struct(f"{self._order}i").unpack_from
        mask = (1 << 8 * self._program.address_size) - 1
        return [(place + at + unpack(content, at)[0]) & mask for at in range(0, len(content) - size + 1, size)]

    @cached_property
    def jump_labels(self) -> AddressSet:
        """Static branches (struct jump_entry, include/linux/jump_label.h)."""
        return self._relative("__start___jump_table", "__stop___jump_table", "__jump_table", _JUMP_ENTRY_SIZE)

    @cached_property
    def static_calls(self) -> AddressSet:
        """Static calls (struct static_call_site, include/linux/static_call_types.h)."""
        names = ("__start_static_call_sites", "__stop_static_call_sites", ".static_call_sites")
        return self._relative(*names, _STATIC_CALL_SIZE)

    @cached_property
    def retpolines(self) -> AddressSet:
        """Indirect calls and jumps through a thunk, which the kernel may make plain ones when it starts."""
        return self._relative("__retpoline_sites", "__retpoline_sites_end", ".retpoline_sites", _RETPOLINE_SIZE)

    @cached_property
    def bugs(self) -> AddressSet:
        """Traps of BUG and WARN (struct bug_entry, include/asm-generic/bug.h)."""
        place, content = self._content("__start___bug_table", "__stop___bug_table", "__bug_table")
        for size in _BUG_ENTRY_SIZES:
            if not content or len(content) % size:
                continue
            found = self._relative_addresses(place, content, size)
            if all(self._is_trap(address) for address in found):
                return AddressSet(found)
        return AddressSet([])

    def _is_trap(self, address: int) -> bool:
        code = self.read(address, 2)
        return code == _UD2 if self._x86 else bool(code)

    @cached_property
    def ftrace(self) -> AddressSet:
        """Calls that function tracing makes: one in each function that can be traced."""
        return self._pointers("__start_mcount_loc", "__stop_mcount_loc", "__mcount_loc")

    @cached_property
    def patched(self) -> list[Patched]:
        """What is replaced at the start: alternatives and paravirtual calls of x86, ascending."""
        found = []
        place, content = self._content("__alt_instructions", "__alt_instructions_end", ".altinstructions")
        for size in _ALTERNATIVE_SIZES:
            if content and len(content) % size == 0:
                starts = self._relative_addresses(place, content, size)
                lengths = content[size - 2 :: size]
                if all(self._program.section_at(start) is not None for start in starts):
                    found += [Patched(start, start + length) for start, length in zip(starts, lengths, strict=True)]
                    break
        _, content = self._content("__parainstructions", "__parainstructions_end", ".parainstructions")
        if self._program.address_size == 8:
            content = content[: len(content) // _PARAVIRT_SIZE * _PARAVIRT_SIZE]
            for start, _, length in struct.iter_unpack(f"{self._order}QBB6x", content):
                found.append(Patched(start, start + length))
        return sorted(set(found))

    @cached_property
    def _patched_starts(self) -> list[int]:
        return [patched.start for patched in self.patched]

    def patched_at(self, address: int) -> Patched | None:
        """What is replaced around ``address``."""
        at = bisect_right(self._patched_starts, address) - 1
        return self.patched[at] if at >= 0 and address < self.patched[at].end else None

    @cached_property
    def blacklist(self) -> list[tuple[int, int]]:
        """Stretches that are closed to kprobes (populate_kprobe_blacklist() of kernel/kprobes.c), ascending."""
        found = []
        functions = self._pointers("__start_kprobe_blacklist", "__stop_kprobe_blacklist", "_kprobe_blacklist")
        for function in functions:
            symbol = self.symbol(function)
            if symbol is not None:
                # from the function on, a size that was counted from the symbol
                found.append((function, function + symbol.end - symbol.start))
        for name in ("kprobes", "noinstr", "entry"):
            start, end = self._marker(f"__{name}_text_start"), self._marker(f"__{name}_text_end")
            if start is not None and end is not None and start < end:
                found.append((start, end))
        if self._program.relocatable:
            found += [
                (section.address, section.address + section.size)
                for section in self._program.sections
                if section.name in (".kprobes.text", ".noinstr.text") and section.size
            ]
        return merged(found)

    def read(self, address: int, size: int) -> bytes:
        """Bytes of the file, fewer where it ends."""
        start, content = self._around
        if not start <= address < start + len(content):
            section = self._program.section_at(address)
            if section is None or section.nobits:
                return b""
            # who asks once asks for more from there
            start, content = self._around = section.address, self._program.data(section)
        return bytes(content[address - start : address - start + size])

    # What follows from them

    def is_traced(self, address: int) -> bool:
        """Whether the function around ``address`` can be traced (within_notrace_func() of trace_kprobe.c)."""
        return self._by_function(address, self._has_ftrace)

    def _has_ftrace(self, address: int) -> bool:
        symbol = self.symbol(address)
        if symbol is None:
            return True
        # the calls of code that is gone are forgotten (ftrace_free_init_mem()), its symbols are not
        if not self.stays(symbol.start, self._program.section_at(symbol.start)):
            return False
        # ftrace_location_range(): a call that reaches into the function counts
        return self.ftrace.any_in(symbol.start - 4, symbol.end)

    def _by_function(self, address: int, test: Callable[[int], bool]) -> bool:
        """A test of the function around ``address``, or of the one that it is a part of (``foo.cold``)."""
        if test(address):
            return True
        symbol = self.symbol(address)
        if symbol is None or "." not in symbol.name:
            return False
        whole = self.named(symbol.name.split(".", 1)[0])
        return whole is not None and test(whole)

    def is_blacklisted(self, address: int, more: Sequence[tuple[int, int]] = ()) -> bool:
        """Whether kprobes are forbidden here (within_kprobe_blacklist()); ``more`` are stretches known otherwise."""
        return self._by_function(address, lambda at: covers(self.blacklist, at) or covers(more, at))


def merged(stretches: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Stretches [start, end), ascending and without overlap."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(stretches):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def covers(stretches: Sequence[tuple[int, int]], address: int) -> bool:
    """Whether one of ascending stretches contains ``address``."""
    at = bisect_right(stretches, (address, 1 << 64)) - 1
    return at >= 0 and address < stretches[at][1]
