"""Containers: ELF files, their sections, symbols and relocations, compressed and separate debug files."""

from inlinetrace.elf.file import ElfFile
from inlinetrace.elf.machine import Machine, machine_for
from inlinetrace.elf.sections import Section, Segment

__all__ = ["ElfFile", "Machine", "Section", "Segment", "machine_for"]
