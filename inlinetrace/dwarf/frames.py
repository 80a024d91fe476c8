"""Call frames of a file: the canonical frame address and where the caller's registers are.

::

    frames = CallFrames([FrameTable(debug_frame, eh=False, section=".debug_frame")])
    frames.cfa(pc)               # (7, 16): rsp + 16 on x86-64; bytes: a DWARF expression; None: no rule
    frames.register_rule(pc, 3)  # RegisterRule(RuleKind.OFFSET, -24): rbx of the caller is saved at CFA - 24

A file may have .debug_frame, .eh_frame or both, each with functions that the other does not know. Register numbers are
DWARF's. An unmentioned register (RuleKind.UNSPECIFIED) is as the ABI says: unchanged if the callee saves it, else lost.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

from inlinetrace.dwarf._frames import FrameTable

__all__ = ["CallFrames", "FrameTable", "RegisterRule", "RuleKind"]


class RuleKind(enum.IntEnum):
    """How to find the value a register has in the caller (DWARF 5, section 6.4.1)."""

    UNSPECIFIED = 0
    UNDEFINED = 1
    SAME_VALUE = 2
    OFFSET = 3
    """Saved in memory at CFA + operand."""
    VAL_OFFSET = 4
    """The value is CFA + operand."""
    REGISTER = 5
    """Saved in the register with this number."""
    EXPRESSION = 6
    """Saved in memory at the address that the expression computes with the CFA on its stack."""
    VAL_EXPRESSION = 7
    """The value is what the expression computes with the CFA on its stack."""


class RegisterRule(NamedTuple):
    """The rule of one register at one address; the operand is 0 where the kind has none."""

    kind: RuleKind
    operand: int | bytes = 0


class CallFrames:
    """The frame tables of one file; the first one that has a function at an address answers for it.

    Every method may raise FormatError with section and offset.
    """

    def __init__(self, tables: Sequence[FrameTable]) -> None:
        self.tables = tuple(tables)

    def _table(self, pc: int) -> FrameTable | None:
        for table in self.tables:
            if table.function_range(pc) is not None:
                return table
        return None

    def cfa(self, pc: int) -> tuple[int, int] | bytes | None:
        """The CFA at ``pc``: (register, offset), or a DWARF expression, or None where no rule covers it."""
        table = self._table(pc)
        return None if table is None else table.cfa(pc)

    def register_rule(self, pc: int, register_number: int) -> RegisterRule | None:
        """The rule of a register at ``pc``; None where no function covers it."""
        table = self._table(pc)
        rule = None if table is None else table.register_rule(pc, register_number)
        return None if rule is None else RegisterRule(RuleKind(rule[0]), rule[1])

    def function_range(self, pc: int) -> tuple[int, int] | None:
        """Start and end (exclusive) of the function, or part of one, around ``pc``."""
        table = self._table(pc)
        return None if table is None else table.function_range(pc)

    def return_register(self, pc: int) -> int | None:
        """The column that holds the return address at ``pc``; its register_rule says where that is saved."""
        table = self._table(pc)
        return None if table is None else table.return_register(pc)
