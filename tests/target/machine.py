"""A machine as a directory tree: its kernel, modules and debug files, for tests of what reads them.

>>> machine = Machine(tmp_path)
>>> machine.kernel(BUILD_ID, stext=0xffffffff9a000000)
>>> machine.write("/usr/lib/debug/boot/vmlinux-6.1.0-test", elf(BUILD_ID))
>>> open_running_kernel(machine.host)
"""

from __future__ import annotations

import struct
from pathlib import Path

from inlinetrace.target.host import Host
from tests.elf.elfwriter import Code, Sec, Sym, elf_file

RELEASE = "6.1.0-test"
LINKED_AT = 0xFFFFFFFF81000000
BUILD_ID = bytes(range(1, 21))
OTHER_BUILD_ID = b"\xee" * 20


def note(build_id: bytes) -> bytes:
    """A build id note as linkers and the kernel write it."""
    return struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id


def elf(
    build_id: bytes | None, *, dwarf: bool = True, code: bool = True, relocatable: bool = False, stext: str = "_stext"
) -> bytes:
    """A kernel (or module) with one function ``work`` at _stext+0x10 (or .text+0x10), and data."""
    base = 0 if relocatable else LINKED_AT

    def instructions(name: str, size: int, address: int) -> Sec:
        if code:
            return Code(name, b"\xc3" * size, address)
        return Sec(name, type=8, flags=6, address=address, size=size)

    sections = [
        instructions(".text", 64, base),
        instructions(".init.text", 16, base and base + 0x2000),
        Sec(".data", b"\0" * 64, flags=3, address=base and base + 0x1000),
    ]
    if not relocatable:
        sections.append(Sec(".data..percpu", b"\0" * 64, flags=3, address=0))
    if build_id is not None:
        sections.append(Sec(".note.gnu.build-id", note(build_id), type=7, alignment=4))
    if dwarf:
        sections.append(Sec(".debug_info", b"\x01"))
    symbols = [Sym("work", base + 0x10, 16, section=".text"), Sym(stext, base, 0, section=".text", type=0)]
    return elf_file(sections, symbols=symbols, type=1 if relocatable else 2)


def core_file(segments: list[tuple[int, bytes]], notes: bytes = b"") -> bytes:
    """Memory as /proc/kcore shows it: (address, content) of each PT_LOAD segment."""
    place = 64 + 56 * (len(segments) + 1)
    header = struct.pack(
        "<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 4, 62, 1, 0, 64, 0, 0, 64, 56, len(segments) + 1, 0, 0, 0
    )
    entries = [struct.pack("<IIQQQQQQ", 4, 0, place, 0, 0, len(notes), 0, 0)]
    place += len(notes)
    for address, content in segments:
        entries.append(struct.pack("<IIQQQQQQ", 1, 7, place, address, 0, len(content), len(content), 4096))
        place += len(content)
    return header + b"".join(entries) + notes + b"".join(content for _, content in segments)


class Machine:
    """The tree and the Host that reads it."""

    def __init__(self, root: Path, *, user: int | None = None, **environment: str) -> None:
        root.chmod(0o755)
        self.root = root
        self.environment = {"HOME": "/root", **environment}
        # The user that runs the tests, to whom everything here belongs, unless a test needs another.
        self.host = Host(root, environment=self.environment, user=user)
        self.path("/root").mkdir(exist_ok=True)
        self.write("/proc/sys/kernel/osrelease", RELEASE + "\n")
        self.write("/proc/sys/kernel/kptr_restrict", "1\n")

    def path(self, path: str) -> Path:
        """Where a file of the machine is."""
        return self.root / path.lstrip("/")

    def write(self, path: str, contents: str | bytes) -> Path:
        """Write a file of the machine."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(contents.encode() if isinstance(contents, str) else contents)
        return place

    def kernel(self, build_id: bytes | None = BUILD_ID, *, stext: int = LINKED_AT, symbol: str = "_stext") -> None:
        """Let a kernel run that was loaded at ``stext``; 0 hides its addresses."""
        other = struct.pack("<III", 6, 4, 0x101) + b"Linux\0\0\0" + b"\0\0\0\0"
        self.write("/sys/kernel/notes", other + (note(build_id) if build_id is not None else b""))
        second = stext + 0x10 if stext else 0
        self.write("/proc/kallsyms", f"{0:016x} A fixed_percpu_data\n{stext:016x} T {symbol}\n{second:016x} T work\n")

    def location_info(self, types: bytes, inline: bytes, kallsyms: str, *, stext: int) -> None:
        """Let a kernel run that has these symbols, and tells where functions were inlined in it."""
        self.kernel(stext=stext)
        self.write("/proc/kallsyms", kallsyms)
        self.write("/sys/kernel/btf/vmlinux", types)
        self.write("/sys/kernel/btf/vmlinux.inline", inline)

    def module(
        self,
        name: str,
        build_id: bytes | None = BUILD_ID,
        *,
        text: int = 0xFFFFFFFFC0001000,
        sections: dict[str, int] | None = None,
    ) -> None:
        """Let a module be loaded, with ``.text`` at ``text`` (0 hides it) and other ``sections``."""
        line = f"{name} 16384 0 - Live 0x{text & ~0xFFF:016x}\n"
        listing = self.path("/proc/modules")
        self.write("/proc/modules", (listing.read_text() if listing.exists() else "") + line)
        self.write(f"/sys/module/{name}/initstate", "live\n")
        for section, address in {".text": text, **(sections or {})}.items():
            self.write(f"/sys/module/{name}/sections/{section}", f"0x{address:016x}\n")
        if build_id is not None:
            self.write(f"/sys/module/{name}/notes/.note.gnu.build-id", note(build_id))

    def unload(self, name: str) -> None:
        """Let a module go."""
        lines = self.path("/proc/modules").read_text().splitlines(keepends=True)
        self.write("/proc/modules", "".join(line for line in lines if not line.startswith(name + " ")))
