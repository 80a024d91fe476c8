"""What a listing needs of its input, wherever that comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine
    from inlinetrace.sites.model import Site
    from inlinetrace.target.loaded import AddressKind


class Listing:
    """The rows that were chosen: how many, how many of them inlined, and how to get at them.

    ``sites`` gives the Sites by address; ``inside`` says how many sites are inside of the chosen functions, and of how
    many functions they are; none where finding that out would cost more than the listing.
    """

    __slots__ = ("count", "inlined", "inside", "sites")

    def __init__(
        self,
        count: int,
        inlined: int,
        sites: Callable[[], Iterator[Site]],
        inside: Callable[[], tuple[int, int]],
    ) -> None:
        self.count = count
        self.inlined = inlined
        self.sites = sites
        self.inside = inside


class Listed(Protocol):
    """An input that can be listed: an Image (DWARF) or a BtfImage."""

    path: str

    @property
    def machine(self) -> Machine:
        """The machine whose registers are named."""

    @property
    def has_symbols(self) -> bool:
        """Whether callers and copies out of line are known."""

    def listing(self, patterns: Sequence[str], *, inside: bool = False) -> Listing:
        """The sites and copies of functions that match (shell globs), or the sites inside of them."""

    def unknown(self, patterns: Sequence[str]) -> list[str]:
        """Those of ``patterns`` that no function's name here matches."""

    def function_names(self) -> Iterator[str]:
        """Every name that a function has here."""

    def name_address(self, address: int) -> str:
        """What people call an address of the program's data."""

    def address_kind(self, section: str | None) -> AddressKind:
        """What the addresses of the sites in ``section`` are."""

    def is_gone(self, section: str | None) -> bool:
        """Whether ``section`` is one of a loaded module's that is not in memory (any more)."""
