"""Types of the compiled search for units by the names of functions."""

from inlinetrace.dwarf._units import Info

class Naming:
    """The ways in which a unit of ``info`` can name a function by one of ``names``.

    ``useful`` is False where the bytes of units do not tell: in split units, beside a supplementary file, for names
    that too many strings end with.
    """

    useful: bool

    def __init__(self, info: Info, names: list[bytes]) -> None: ...
    def units(self, first: int, last: int) -> list[int] | None:
        """Numbers of those of the units ``first`` up to, not including, ``last`` that can have such a function.

        None if that is of no use: functions or inlined copies there refer to entries of other units (link-time
        optimisation). Works without the GIL. Raises FormatError for abbreviations that cannot be read.
        """
