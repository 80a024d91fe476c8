"""Types from BTF, named by their type ids.

>>> image = open_btf("vmlinux.inline", ["vmlinux.btf"])
>>> types = BtfTypes(image.reader)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from inlinetrace.btf._types import Array, Composite, Enum, Float, Fwd, Ptr
from inlinetrace.probe.types import Member, Types

if TYPE_CHECKING:
    from inlinetrace.btf._types import Type
    from inlinetrace.sites.from_btf import BtfSites
    from inlinetrace.sites.model import TypeName


class BtfTypes(Types):
    """The types of one object with its bases."""

    def __init__(self, sites: BtfSites) -> None:
        super().__init__(sites.machine, sites.btf.byte_order == "little")
        self._sites = sites
        self._btf = sites.btf
        self._members: dict[int, tuple[Member, ...]] = {}
        self._enumerators: dict[int, dict[int, str]] = {}

    def name(self, key: int) -> TypeName:
        """See Types."""
        return self._sites.type_name(key)

    def _below(self, key: int) -> Type:
        return self._btf.skip(key)

    def base_name(self, key: int) -> str:
        """See Types."""
        found = self._below(key)
        return found.name if isinstance(found, Float) else ""

    def pointee(self, key: int) -> int | None:
        """See Types."""
        found = self._below(key)
        return found.type_id if isinstance(found, Ptr) else None

    def is_aggregate(self, key: int) -> bool:
        """See Types."""
        return isinstance(self._below(key), (Composite, Fwd))

    def is_complete(self, key: int) -> bool:
        """See Types."""
        return isinstance(self._below(key), Composite)

    def array(self, key: int) -> tuple[int, tuple[int, ...]] | None:
        """See Types. An array of arrays is one of several dimensions, as C has it."""
        found = self._below(key)
        if not isinstance(found, Array):
            return None
        dimensions = [found.length]
        element = found.type_id
        # More dimensions than any source has; a cycle of arrays ends here too.
        while len(dimensions) < 64 and isinstance(inner := self._btf.type(element), Array):
            dimensions.append(inner.length)
            element = inner.type_id
        return element, tuple(dimensions)

    def members(self, key: int) -> tuple[Member, ...]:
        """See Types."""
        found = self._below(key)
        if not isinstance(found, Composite):
            return ()
        known = self._members.get(found.id)
        if known is None:
            known = self._members[found.id] = tuple(
                Member(member.name, member.bit_offset, member.bitfield_size or None, member.type_id)
                for member in found.members
            )
        return known

    def enumerators(self, key: int) -> dict[int, str]:
        """See Types."""
        found = self._below(key)
        if not isinstance(found, Enum):
            return {}
        known = self._enumerators.get(found.id)
        if known is None:
            known = self._enumerators[found.id] = {}
            for item in found.enumerators:
                known.setdefault(item.value, item.name)
        return known
