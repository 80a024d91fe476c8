"""Call frame information: .debug_frame (DWARF 5, section 6.4) and .eh_frame (Linux Standard Base, section 10.6).

Use :mod:`inlinetrace.dwarf.frames` unless the plain tuples of this module are what is wanted.
"""

from array import array

from typing_extensions import Buffer

class FrameTable:
    """The call frame information of one section.

    ``address`` is the section's own address (sh_addr), which pc-relative pointers need; ``text_address`` and
    ``data_address`` are the bases of textrel and datarel pointers. The data must have its relocations applied.

    Nothing is read before the first query. Every query raises FormatError, with section and offset, if the table is
    malformed; a malformed program of one function raises at queries of that function only. The functions of a common
    entry with an unknown version or augmentation, or with pointers that cannot be computed here (indirect ones; textrel
    and datarel without their base), are left out and counted in ``skipped``. If several functions cover an address
    (what a linker drops often stays as a function at address 0), the greatest start counts, and of those with
    the same start the last.
    """

    section: str
    path: str | None

    def __init__(
        self,
        data: Buffer,
        *,
        eh: bool,
        section: str,
        path: str | None = None,
        address: int = 0,
        address_size: int = 8,
        little_endian: bool = True,
        text_address: int | None = None,
        data_address: int | None = None,
    ) -> None: ...
    def cfa(self, pc: int) -> tuple[int, int] | bytes | None:
        """The CFA at ``pc``: (DWARF register number, offset), or a DWARF expression, or None without a rule."""
    def register_rule(self, pc: int, register_number: int) -> tuple[int, int | bytes] | None:
        """Kind (RuleKind of the module frames) and operand of a register's rule at ``pc``.

        The operand is a number of bytes from the CFA, a register number, an expression, or 0. None where no function
        covers ``pc``.
        """
    def function_range(self, pc: int) -> tuple[int, int] | None:
        """Start and end (exclusive) of the function, or part of one, that covers ``pc``."""
    def return_register(self, pc: int) -> int | None:
        """The column of the return address at ``pc``."""
    def is_signal_frame(self, pc: int) -> bool:
        """Whether the code at ``pc`` is entered by an interrupt or signal (augmentation "S")."""
    def cfa_many(self, pcs: Buffer) -> tuple[array[int], array[int], array[int]]:
        """The CFA at many addresses ("Q" array); sorted ones cost one run of each function's program.

        Three arrays as long as ``pcs``: kinds ("B"; 0 no rule, 1 register and offset, 2 expression), registers ("Q")
        and offsets ("q"). An expression's bytes begin at the offset, counted from the start of the section, and their
        number stands in the place of the register.
        """
    def functions(self) -> list[tuple[int, int]]:
        """(start, end) of every function, in this order."""
    @property
    def skipped(self) -> int:
        """Functions that were left out (see the class)."""
    def __len__(self) -> int: ...
