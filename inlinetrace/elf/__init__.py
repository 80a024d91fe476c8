"""Containers: ELF files, their sections, symbols and relocations, compressed and separate debug files."""

from inlinetrace.elf.file import ElfFile, RelocationTargets
from inlinetrace.elf.machine import Machine, machine_for
from inlinetrace.elf.sections import Section, Segment

__all__ = ["ElfFile", "Machine", "RelocationTargets", "Section", "Segment", "machine_for"]
