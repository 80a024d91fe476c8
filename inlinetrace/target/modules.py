"""The modules of the running kernel: which are loaded, where, of which build, and which file they came from.

>>> loaded_modules(host)["xfs"].state
>>> section_addresses(host, "xfs")[".text"]       # None where the kernel hides it
>>> find_module_file(host, "xfs")                 # "/lib/modules/6.1.0/kernel/fs/xfs/xfs.ko"

Names are the kernel's, with ``_`` for ``-``; every function takes either.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from inlinetrace.elf.constants import NT_GNU_BUILD_ID
from inlinetrace.elf.notes import read_notes
from inlinetrace.errors import FormatError
from inlinetrace.target.host import Host

MODULE_FOLDERS = ("/lib/modules", "/usr/lib/modules")
MODULE_SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")


class ModuleLine(NamedTuple):
    """One line of /proc/modules. ``state`` is ``Live``, ``Loading`` or ``Unloading``; a hidden address is None."""

    name: str
    size: int
    state: str
    address: int | None


def module_name(path: str) -> str:
    """The name a module has in the kernel: that of its file, with ``_`` for ``-``."""
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def is_module_file(text: str) -> bool:
    """Whether ``text`` names a file rather than a module: it has a folder, or an ending that only files have."""
    return "/" in text or ".ko" in text or text.endswith(".o")


def loaded_modules(host: Host) -> dict[str, ModuleLine]:
    """The modules that /proc/modules lists; none if the kernel has no modules. Raises FormatError."""
    try:
        text = host.read_text("/proc/modules")
    except FileNotFoundError:
        return {}
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        # name size uses users state address (taints): kernel/module/procfs.c
        words = line.split()
        try:
            name, size, _, _, state, address = words[:6]
            found[name] = ModuleLine(name, int(size), state, int(address, 16) or None)
        except ValueError:
            raise FormatError(f"line {number} is not that of a module", path="/proc/modules") from None
    return found


def section_addresses(host: Host, name: str) -> dict[str, int] | None:
    """Where the sections of a loaded module are; None if the kernel hides it.

    Sections that were freed after initialisation are left out: the kernel goes on listing them.
    """
    name = name.replace("-", "_")
    folder = f"/sys/module/{name}/sections"
    found = {}
    try:
        live = host.read_text(f"/sys/module/{name}/initstate").strip() != "coming"
        for section in host.names(folder):
            if live and section.startswith(".init"):
                continue
            text = host.read_text(f"{folder}/{section}").strip()
            try:
                address = int(text, 16)
                if not 0 <= address < 1 << 64:
                    raise ValueError
            except ValueError:
                raise FormatError(f"no address: {text[:40]!r}", path=f"{folder}/{section}") from None
            if not address:
                return None
            found[section] = address
    except OSError:
        # Unloaded meanwhile, or not ours to read.
        return None
    return found or None


def loading(host: Host, name: str) -> int | None:
    """A number that is another one each time a module is loaded; None if it is not loaded."""
    try:
        return host.identity(f"/sys/module/{name.replace('-', '_')}")
    except OSError:
        return None


def build_id_of_notes(data: bytes, path: str) -> bytes | None:
    """The build id among the notes that the kernel shows in a file of /sys. Raises FormatError."""
    notes = read_notes(memoryview(data), 4, sys.byteorder == "little", path=path, section="notes")
    for owner, kind, description in notes:
        if owner == "GNU" and kind == NT_GNU_BUILD_ID and description:
            return description
    return None


def module_build_id(host: Host, name: str) -> bytes | None:
    """The build id of a loaded module; None if the kernel does not tell."""
    path = f"/sys/module/{name.replace('-', '_')}/notes/.note.gnu.build-id"
    try:
        return build_id_of_notes(host.read_bytes(path), path)
    except OSError:
        return None


def _listed(host: Host, path: str) -> Iterator[str]:
    try:
        text = host.read_text(path)
    except OSError:
        return
    for line in text.splitlines():
        yield line.partition(":")[0].strip()


def is_built_in(host: Host, name: str, release: str) -> bool:
    """Whether what could be a module is part of the kernel (modules.builtin)."""
    name = name.replace("-", "_")
    return any(
        module_name(path) == name
        for folder in MODULE_FOLDERS
        for path in _listed(host, f"{folder}/{release}/modules.builtin")
    )


def installed_modules(host: Host, release: str) -> list[str]:
    """Names of all modules below /lib/modules/RELEASE that the kernel could load, sorted."""
    found = {
        module_name(path)
        for folder in MODULE_FOLDERS
        for path in host.walk(f"{folder}/{release}")
        if path.endswith(MODULE_SUFFIXES)
    }
    return sorted(found)


def find_module_file(host: Host, name: str, release: str) -> str | None:
    """The file that modprobe would load: named in modules.dep, else found below /lib/modules/RELEASE."""
    name = name.replace("-", "_")
    for folder in MODULE_FOLDERS:
        top = f"{folder}/{release}"
        for path in _listed(host, f"{top}/modules.dep"):
            if module_name(path) == name:
                full = os.path.join(top, path)
                if host.exists(full):
                    return full
    for folder in MODULE_FOLDERS:
        # Modules of the distribution's updates and dkms go before the kernel's own, as depmod has it by default.
        found = [
            path
            for path in host.walk(f"{folder}/{release}")
            if path.endswith(MODULE_SUFFIXES) and module_name(path) == name
        ]
        if found:
            return min(found, key=lambda path: path.startswith(f"{folder}/{release}/kernel/"))
    return None
