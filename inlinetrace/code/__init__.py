"""Instructions: where they begin and where jumps land."""

from inlinetrace.code.analysis import Code, Jumps, Relocations
from inlinetrace.code.file import FileCode
from inlinetrace.code.jumptables import IndirectJump

__all__ = ["Code", "FileCode", "IndirectJump", "Jumps", "Relocations"]
