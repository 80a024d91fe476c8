"""Types from DWARF, named by the keys of :class:`inlinetrace.dwarf._dies.DieReader`.

>>> types = DwarfTypes(image.dwarf.dies, machine)
>>> types.member(key, "len")                 # Member("len", offset_bits=896, bits=None, type=...)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.dwarf.expression import PLUS_UCONST, decode
from inlinetrace.dwarf.info import MISSING
from inlinetrace.errors import FormatError
from inlinetrace.probe.types import Member, Types
from inlinetrace.sites.model import Encoding, TypeName

if TYPE_CHECKING:
    from inlinetrace.dwarf._dies import DieReader
    from inlinetrace.elf.machine import Machine

_ARRAY, _CLASS, _ENUM, _MEMBER, _POINTER, _STRUCT, _TYPEDEF, _UNION = 0x01, 0x02, 0x04, 0x0D, 0x0F, 0x13, 0x16, 0x17
_ENUMERATOR, _SUBRANGE, _REFERENCE, _RVALUE_REFERENCE, _VARIANT_PART = 0x28, 0x21, 0x10, 0x42, 0x33
_TRANSPARENT = (_TYPEDEF, 0x26, 0x35, 0x37, 0x47)
_AGGREGATES = (_STRUCT, _UNION, _CLASS)
_NAME, _TYPE, _BYTE_SIZE, _BIT_OFFSET, _BIT_SIZE = 0x03, 0x49, 0x0B, 0x0C, 0x0D
_CONST_VALUE, _DECLARATION, _EXTERNAL, _UPPER_BOUND, _COUNT = 0x1C, 0x3C, 0x3F, 0x2F, 0x37
_PRODUCER, _MEMBER_LOCATION, _DATA_BIT_OFFSET, _SIGNATURE = 0x25, 0x38, 0x6B, 0x69
_ENCODINGS = {encoding.value: encoding for encoding in Encoding}
# Longer chains of typedefs than any source has.
_MAXIMUM_CHAIN = 64


class _Entry(NamedTuple):
    key: int
    tag: int
    attributes: dict[int, tuple[str, object]]

    def number(self, attribute: int, default: int = 0) -> int:
        kind, value = self.attributes.get(attribute, ("", None))
        return value if isinstance(value, int) and kind != "block" else default

    def has_number(self, attribute: int) -> bool:
        return isinstance(self.attributes.get(attribute, ("", None))[1], int)

    @property
    def name(self) -> str | None:
        value = self.attributes.get(_NAME, ("", None))[1]
        return value if isinstance(value, str) else None

    @property
    def type(self) -> int:
        return self.number(_TYPE)


class DwarfTypes(Types):
    """The types of one program. What was read is kept: a trace asks for few types, often."""

    def __init__(self, dies: DieReader, machine: Machine, little_endian: bool = True) -> None:
        super().__init__(machine, little_endian)
        self._dies = dies
        self._entries: dict[int, _Entry] = {}
        self._names: dict[int, TypeName] = {}
        self._members: dict[int, tuple[Member, ...]] = {}
        self._enumerators: dict[int, dict[int, str]] = {}

    def _entry(self, key: int) -> _Entry:
        known = self._entries.get(key)
        if known is None:
            tag, attributes, _ = self._dies.die(key)
            known = self._entries[key] = _Entry(key, tag, attributes)
        return known

    def _strip(self, key: int) -> _Entry | None:
        """The entry below typedefs and qualifiers; None for void and for what is not there."""
        for _ in range(_MAXIMUM_CHAIN):
            if key in (0, MISSING):
                return None
            entry = self._entry(key)
            if entry.tag in _TRANSPARENT:
                key = entry.type
            elif entry.number(_SIGNATURE, key) not in (key, MISSING):
                key = entry.number(_SIGNATURE)
            else:
                return entry
        return None

    def name(self, key: int) -> TypeName:
        """Text, size and encoding of a type."""
        known = self._names.get(key)
        if known is None:
            size, encoding, signed = (0, "other", False) if key == MISSING else self._dies.type_shape(key)
            text = self._dies.type_text(key)
            known = self._names[key] = TypeName(text, size, _ENCODINGS[encoding], signed, key)
        return known

    def base_name(self, key: int) -> str:
        """See Types."""
        entry = self._strip(key)
        return "" if entry is None else entry.name or ""

    def long_double_is_x87(self, key: int) -> bool:
        """See Types: gcc notes its options."""
        entry = self._strip(key)
        if entry is None:
            return False
        producer = self._entry(self._dies.unit_entry(entry.key)).attributes.get(_PRODUCER, ("", None))[1]
        return isinstance(producer, str) and producer.startswith("GNU ") and "-mlong-double-" not in producer

    def pointee(self, key: int) -> int | None:
        """What a pointer type points at (0: void); None if it is no pointer."""
        entry = self._strip(key)
        return entry.type if entry is not None and entry.tag in (_POINTER, _REFERENCE, _RVALUE_REFERENCE) else None

    def is_text_pointer(self, key: int) -> bool:
        """See Types. A reference is one character, not the first of a text."""
        entry = self._strip(key)
        return entry is not None and entry.tag == _POINTER and super().is_text_pointer(key)

    def is_aggregate(self, key: int) -> bool:
        """Whether it is a structure or union."""
        entry = self._strip(key)
        return entry is not None and entry.tag in _AGGREGATES

    def is_complete(self, key: int) -> bool:
        """Whether a structure is defined here, not only declared."""
        entry = self._strip(key)
        return entry is not None and not entry.has_number(_DECLARATION)

    def array(self, key: int) -> tuple[int, tuple[int, ...]] | None:
        """Element type and dimensions of an array type (0: unknown); None if it is no array."""
        entry = self._strip(key)
        if entry is None or entry.tag != _ARRAY:
            return None
        dimensions = []
        for child in self._dies.children(entry.key):
            subrange = self._entry(child)
            if subrange.tag != _SUBRANGE:
                continue
            if subrange.has_number(_COUNT):
                dimensions.append(subrange.number(_COUNT))
            elif subrange.has_number(_UPPER_BOUND):
                dimensions.append(subrange.number(_UPPER_BOUND) + 1)
            else:
                dimensions.append(0)
        return entry.type, tuple(dimensions) or (0,)

    def members(self, key: int) -> tuple[Member, ...]:
        """Members of a structure or union, unnamed ones with an empty name."""
        entry = self._strip(key)
        if entry is None or entry.tag not in _AGGREGATES:
            return ()
        known = self._members.get(entry.key)
        if known is None:
            found = [self._entry(child) for child in self._dies.children(entry.key)]
            known = self._members[entry.key] = tuple(
                member for item in found if item.tag == _MEMBER and (member := self._member(item)) is not None
            )
        return known

    def has_variants(self, key: int) -> bool:
        """See Types: it has a variant part (DWARF 5 section 5.7.10)."""
        entry = self._strip(key)
        return entry is not None and any(
            self._entry(child).tag == _VARIANT_PART for child in self._dies.children(entry.key)
        )

    def _member(self, entry: _Entry) -> Member | None:
        """The member of an entry; None for static ones (before DWARF 5 members too) and computed places."""
        bits = entry.number(_BIT_SIZE) if entry.has_number(_BIT_SIZE) else None
        if entry.has_number(_EXTERNAL) or entry.has_number(_DECLARATION):
            return None
        bytes_before = self._member_location(entry)
        if bytes_before is None:
            return None
        offset = 8 * bytes_before
        if entry.has_number(_DATA_BIT_OFFSET):
            offset += entry.number(_DATA_BIT_OFFSET)
        elif bits is not None and entry.has_number(_BIT_OFFSET):
            # DWARF 2 counts from the most significant bit of the storage unit.
            unit = entry.number(_BYTE_SIZE) or self.name(entry.type).size
            before = entry.number(_BIT_OFFSET)
            offset += 8 * unit - before - bits if self._little_endian else before
        return Member(entry.name or "", offset, bits, entry.type)

    def _member_location(self, entry: _Entry) -> int | None:
        kind, value = entry.attributes.get(_MEMBER_LOCATION, ("uint", 0))
        if kind == "block" and isinstance(value, bytes):
            # DWARF 2 and 3 say it by an expression, which adds a constant
            try:
                operations = decode(value, address_size=8, offset_size=4, little_endian=self._little_endian, version=3)
            except FormatError:
                return None
            constant = operations[0].operands[0] if len(operations) == 1 and operations[0].operands else None
            return (
                constant if operations and operations[0].opcode == PLUS_UCONST and isinstance(constant, int) else None
            )
        return value if isinstance(value, int) else None

    def enumerators(self, key: int) -> dict[int, str]:
        """Names of an enumeration by their values; empty for other types."""
        entry = self._strip(key)
        if entry is None or entry.tag != _ENUM:
            return {}
        known = self._enumerators.get(entry.key)
        if known is None:
            known = self._enumerators[entry.key] = {}
            name = self.name(entry.key)
            mask = (1 << 8 * (name.size or 8)) - 1
            for child in self._dies.children(entry.key):
                item = self._entry(child)
                if item.tag == _ENUMERATOR and item.name is not None:
                    number = item.number(_CONST_VALUE) & mask
                    if name.signed and number > mask >> 1:
                        number -= mask + 1
                    known.setdefault(number, item.name)
        return known
