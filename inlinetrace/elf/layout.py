"""Addresses for the sections of a relocatable file, where the file itself has none.

Every section of an object or kernel module starts at address 0, so ``.text+0x10`` and ``.init.text+0x10`` would be one
address. ``lay_out`` gives each section of the running program a place of its own, as a linker would; relocations,
symbols and everything above then speak of one address space. Only what is shown to people is section and offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from inlinetrace.elf.constants import SHF_TLS
from inlinetrace.elf.sections import Section
from inlinetrace.errors import FormatError

# Far above 0, which stands for dropped code, and small enough that 32-bit relocations of ordinary files fit.
FIRST_ADDRESS = 0x100000
# An address behind the end of one section must not be the start of the next one.
GAP = 64
# Only the low bits of addresses matter to anybody; a damaged header may ask for any alignment.
_MAX_ALIGNMENT = 1 << 16


def is_placed(section: Section) -> bool:
    """Tell whether a section gets an address. Thread-local ones do not: their symbols are offsets."""
    return section.allocated and not section.flags & SHF_TLS


def _key(section: Section, seen: dict[str, int]) -> tuple[str, int]:
    number = seen[section.name] = seen.get(section.name, -1) + 1
    return section.name, number


def lay_out(
    sections: Sequence[Section], *, address_size: int, path: str, model: Sequence[Section] = ()
) -> tuple[Section, ...]:
    """Return ``sections`` with addresses, in their order, each aligned and apart from the others.

    ``model`` are the sections of another file of the same program, laid out already: a section of the same name (and
    number among those of that name) that has the same size gets the same address; what only this file has comes behind.
    Raises FormatError if the sections are larger than the address space.
    """
    seen: dict[str, int] = {}
    known = {_key(section, seen): section for section in model if is_placed(section)}
    free = max((s.address + s.size + GAP for s in known.values()), default=FIRST_ADDRESS)
    seen = {}
    placed = []
    for section in sections:
        if not is_placed(section):
            # TLS sections of relocatable files have address 0 and no others matter.
            placed.append(section.at(0))
            continue
        twin = known.get(_key(section, seen))
        if twin is not None and twin.size == section.size:
            placed.append(section.at(twin.address))
            continue
        alignment = section.alignment if 0 < section.alignment <= _MAX_ALIGNMENT else 1
        address = -(-free // alignment) * alignment
        free = address + section.size + GAP
        if free >> 8 * address_size:
            raise FormatError(
                f"the sections are larger than the address space: {section.size} bytes here",
                path=path,
                section=section.label,
            )
        placed.append(section.at(address))
    return tuple(placed)
