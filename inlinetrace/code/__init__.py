"""Instructions: where they begin and where jumps land."""

from inlinetrace.code.analysis import Code, Jumps, Relocations
from inlinetrace.code.jumptables import IndirectJump

__all__ = ["Code", "IndirectJump", "Jumps", "Relocations"]
