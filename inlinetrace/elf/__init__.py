"""Containers: ELF files, their sections, symbols and relocations, compressed and separate debug files.

The names of this package are imported when they are first used: a command that needs one module does not pay for all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.machine import Machine, machine_for
    from inlinetrace.elf.sections import Section, Segment

__all__ = ["ElfFile", "Machine", "Section", "Segment", "machine_for"]

_HOMES = {
    "ElfFile": "inlinetrace.elf.file",
    "Machine": "inlinetrace.elf.machine",
    "Section": "inlinetrace.elf.sections",
    "Segment": "inlinetrace.elf.sections",
    "machine_for": "inlinetrace.elf.machine",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
