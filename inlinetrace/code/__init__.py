"""Instructions: where they begin and where jumps land."""

from typing import TYPE_CHECKING

from inlinetrace._lazy import exporter

if TYPE_CHECKING:
    from inlinetrace.code.analysis import Code, Jumps, Relocations
    from inlinetrace.code.file import FileCode
    from inlinetrace.code.jumptables import IndirectJump

__all__ = ["Code", "FileCode", "IndirectJump", "Jumps", "Relocations"]

__getattr__ = exporter(
    __name__,
    {
        "Code": "inlinetrace.code.analysis",
        "FileCode": "inlinetrace.code.file",
        "IndirectJump": "inlinetrace.code.jumptables",
        "Jumps": "inlinetrace.code.analysis",
        "Relocations": "inlinetrace.code.analysis",
    },
)
