"""What locations need of prototypes (compiled)."""

from contextlib import AbstractContextManager
from typing import Any

from inlinetrace.dwarf._units import Info
from inlinetrace.sites._functions import Functions

class Signatures:
    """The signatures of the functions in Info number ``number``; one for each thread.

    What is not plain (chains of origins, entries of other sections, arrays) is asked of ``functions`` under ``lock``.
    """

    def __init__(self, info: Info, number: int, functions: Functions, lock: AbstractContextManager[Any]) -> None: ...
    def signature(self, key: int) -> tuple[int, list[tuple[int, bool]], bool, dict[int, int]]:
        """(canonical key, (size, signed) of each parameter, variadic, position by key of entry) of a function.

        Raises FormatError for an entry that cannot be read.
        """
