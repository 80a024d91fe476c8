"""From collected sites to LOC_PARAM, LOC_PROTO and LOCSEC records (compiled)."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from inlinetrace.generate._locations import Collected

class Encoded(NamedTuple):
    """Records as 32-bit words in this machine's byte order, and what they hold.

    ``without_function`` and ``out_of_range`` are sites that were left out: their function has no id, or the offset does
    not fit its 32 bits.
    """

    words: array[int]
    types: int
    sites: int
    loc_params: int
    loc_protos: int
    without_function: int
    out_of_range: int

class Assembly:
    """The sites of all ``parts``, in order.

    ``sections`` are the (start, end) addresses of the code sections, ascending; sites outside of them are left out and
    counted in ``without_section``. ``origins`` are the keys of the entries of all functions that have sites, each once,
    in the order of their first site ("Q" array), ``canonical`` those of the entries where their chains end;
    ``section_sites`` the number of sites by section.
    """

    origins: array[int]
    canonical: array[int]
    section_sites: list[int]
    without_section: int

    def __init__(self, parts: Sequence[Collected], sections: Sequence[tuple[int, int]]) -> None: ...
    def __len__(self) -> int: ...
    def describe(self, *, rfc: bool = False, address_size: int = 8) -> None:
        """Find out which LOC_PARAMs and LOC_PROTOs the sites have, once; after the last change to the parts.

        ``rfc``: those of that dialect, for which the parts were collected; it needs the ``address_size`` in bytes.
        """
    def encode(
        self,
        func_ids: array[int],
        *,
        first_id: int,
        names: Sequence[int],
        bases: Sequence[int],
        by_offset: bool = False,
        little_endian: bool = True,
        rfc: tuple[array[int], array[int]] | None = None,
    ) -> Encoded:
        """The records, the first of which gets the id ``first_id``.

        ``func_ids`` has the FUNC id for each of ``origins``, 0 for one that has none ("I" array). ``names`` are string
        offsets and ``bases`` addresses, by section: what a LOCSEC is called and its offsets count from. Elements are in
        the order of (FUNC id, offset, LOC_PROTO id), or of the offset first. ``rfc`` has a string offset and a
        FUNC_PROTO id for each origin ("I" arrays) for that dialect: one list of LOCSECs with the first name, by offset.
        Comes after ``describe``. Raises FormatError for more types than there are ids.
        """

def distinct(numbers: array[int]) -> int:
    """How many different numbers but 0 there are, none of them far above the count ("I" array)."""
