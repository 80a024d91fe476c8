"""Containers: ELF files, their sections, symbols and relocations, compressed and separate debug files."""

from typing import TYPE_CHECKING

from inlinetrace._lazy import exporter

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.machine import Machine, machine_for
    from inlinetrace.elf.sections import Section, Segment

__all__ = ["ElfFile", "Machine", "Section", "Segment", "machine_for"]

__getattr__ = exporter(
    __name__,
    {
        "ElfFile": "inlinetrace.elf.file",
        "Machine": "inlinetrace.elf.machine",
        "Section": "inlinetrace.elf.sections",
        "Segment": "inlinetrace.elf.sections",
        "machine_for": "inlinetrace.elf.machine",
    },
)
