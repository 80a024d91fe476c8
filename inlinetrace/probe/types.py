"""Types as far as values need them: members, elements, enumerators; and bytes as values of a type.

>>> types = Types(image.dwarf.dies, machine)
>>> types.member(key, "len")                 # Member(offset_bits=896, bits=None, type=...)
>>> types.decode(raw, key)                   # 42, True, "ESTABLISHED", {"tv_sec": 1, "tv_nsec": 2}, [1, 2, 3], "eth0"

Types are named by the keys of :class:`inlinetrace.dwarf._dies.DieReader`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.dwarf.info import MISSING
from inlinetrace.sites.model import Encoding, TypeName
from inlinetrace.sites.reasons import Reason, Unavailable
from inlinetrace.sites.values import decode_value

if TYPE_CHECKING:
    from inlinetrace.dwarf._dies import DieReader
    from inlinetrace.elf.machine import Machine

_ARRAY, _CLASS, _ENUM, _MEMBER, _POINTER, _STRUCT, _TYPEDEF, _UNION = 0x01, 0x02, 0x04, 0x0D, 0x0F, 0x13, 0x16, 0x17
_ENUMERATOR, _SUBRANGE, _REFERENCE, _RVALUE_REFERENCE = 0x28, 0x21, 0x10, 0x42
_TRANSPARENT = (_TYPEDEF, 0x26, 0x35, 0x37, 0x47)
_AGGREGATES = (_STRUCT, _UNION, _CLASS)
_NAME, _TYPE, _BYTE_SIZE, _BIT_OFFSET, _BIT_SIZE = 0x03, 0x49, 0x0B, 0x0C, 0x0D
_CONST_VALUE, _DECLARATION, _UPPER_BOUND, _COUNT = 0x1C, 0x3C, 0x2F, 0x37
_MEMBER_LOCATION, _DATA_BIT_OFFSET, _SIGNATURE = 0x38, 0x6B, 0x69
_ENCODINGS = {encoding.value: encoding for encoding in Encoding}
# Deeper nesting than any source has, and longer chains of typedefs.
_MAXIMUM_NESTING = 16
_MAXIMUM_CHAIN = 64
_MAXIMUM_ELEMENTS = 4096

Decoded = int | bool | float | str | dict[str, "Decoded"] | list["Decoded"] | None


class Pointer(int):
    """A value that is a pointer: printed in hexadecimal."""


class Character(int):
    """A value of a character type."""


class Enumerator(str):
    """The name of an enumerator, with the ``number`` it stands for."""

    number: int | None = None

    @classmethod
    def of(cls, name: str, number: int) -> Enumerator:
        """An enumerator by its name and value."""
        result = cls(name)
        result.number = number
        return result


class Member(NamedTuple):
    """A member of a structure: its offset from the start, its width for a bitfield, and its type."""

    name: str
    offset_bits: int
    bits: int | None
    type: int


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


class Types:
    """The types of one program. What was read is kept: a trace asks for few types, often."""

    def __init__(self, dies: DieReader, machine: Machine, little_endian: bool = True) -> None:
        self._dies = dies
        self._machine = machine
        self._little_endian = little_endian
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
            elif entry.has_number(_DECLARATION) and entry.has_number(_SIGNATURE):
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

    def pointee(self, key: int) -> int | None:
        """What a pointer type points at (0: void); None if it is no pointer."""
        entry = self._strip(key)
        return entry.type if entry is not None and entry.tag in (_POINTER, _REFERENCE, _RVALUE_REFERENCE) else None

    def is_character(self, key: int) -> bool:
        """Whether it is a character type of one byte."""
        name = self.name(key)
        return name.encoding in (Encoding.CHAR, Encoding.UCHAR) and name.size == 1

    def is_text_pointer(self, key: int) -> bool:
        """Whether it is a pointer to characters."""
        target = self.pointee(key)
        return bool(target) and self.is_character(target or 0)

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
            known = self._members[entry.key] = tuple(self._member(item) for item in found if item.tag == _MEMBER)
        return known

    def _member(self, entry: _Entry) -> Member:
        bits = entry.number(_BIT_SIZE) if entry.has_number(_BIT_SIZE) else None
        offset = 8 * entry.number(_MEMBER_LOCATION)
        if entry.has_number(_DATA_BIT_OFFSET):
            offset += entry.number(_DATA_BIT_OFFSET)
        elif bits is not None and entry.has_number(_BIT_OFFSET):
            # DWARF 2 counts from the most significant bit of the storage unit.
            unit = entry.number(_BYTE_SIZE) or self.name(entry.type).size
            before = entry.number(_BIT_OFFSET)
            offset += 8 * unit - before - bits if self._little_endian else before
        return Member(entry.name or "", offset, bits, entry.type)

    def member(self, key: int, name: str) -> Member | None:
        """The member with this name, in unnamed structures and unions too."""
        pending: list[tuple[int, int, int]] = [(key, 0, 0)]
        while pending:
            inside, offset, nesting = pending.pop(0)
            for member in self.members(inside):
                if member.name == name:
                    return member._replace(offset_bits=member.offset_bits + offset)
                if not member.name and nesting < _MAXIMUM_NESTING:
                    pending.append((member.type, offset + member.offset_bits, nesting + 1))
        return None

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

    # Values

    def decode(self, raw: bytes, key: int) -> Decoded | Unavailable:
        """The value that ``raw``, in the target's byte order, has as the type ``key``.

        Numbers, pointers (:class:`Pointer`), characters (:class:`Character`), names of enumerators where one fits,
        dictionaries for structures and unions, lists for arrays, text for arrays of characters; members that cannot
        be decoded are None.
        """
        return self._decode(raw, key, 0)

    def _decode(self, raw: bytes, key: int, nesting: int) -> Decoded | Unavailable:
        name = self.name(key)
        if name.encoding is Encoding.AGGREGATE:
            return self._aggregate(raw, key, nesting)
        value = decode_value(raw, name, little_endian=self._little_endian, x87=self._machine.name in ("x86_64", "i686"))
        if isinstance(value, bytes):
            return Unavailable(Reason.UNSUPPORTED, f"a value of type {name.text}")
        if isinstance(value, Unavailable):
            return value
        if name.encoding is Encoding.POINTER:
            return Pointer(value)
        if name.encoding in (Encoding.CHAR, Encoding.UCHAR):
            return Character(value)
        if name.encoding is Encoding.ENUM:
            assert isinstance(value, int)
            known = self.enumerators(key).get(value)
            return value if known is None else Enumerator.of(known, value)
        return value

    def _aggregate(self, raw: bytes, key: int, nesting: int) -> Decoded | Unavailable:
        name = self.name(key)
        if nesting >= _MAXIMUM_NESTING:
            return Unavailable(Reason.UNSUPPORTED, "nested too deep")
        if len(raw) < name.size:
            return Unavailable(Reason.PARTLY, f"{len(raw)} of {name.size} bytes")
        array = self.array(key)
        if array is not None:
            return self._array(raw, array[0], array[1], nesting)
        if not self.is_complete(key):
            return Unavailable(Reason.UNSUPPORTED, f"{name.text} is only declared")
        result: dict[str, Decoded] = {}
        for member in self.members(key):
            value = self.member_value(raw, member, nesting + 1)
            decoded = None if isinstance(value, Unavailable) else value
            if member.name:
                result[member.name] = decoded
            elif isinstance(decoded, dict):
                result.update(decoded)
        return result

    def member_value(self, raw: bytes, member: Member, nesting: int = 0) -> Decoded | Unavailable:
        """The value of a member out of the bytes of its structure."""
        start = member.offset_bits // 8
        if member.bits is None:
            size = self.name(member.type).size
            return self._decode(raw[start : start + size], member.type, nesting)
        end = (member.offset_bits + member.bits + 7) // 8
        if end > len(raw):
            return Unavailable(Reason.PARTLY, "a bitfield outside of what was read")
        return self.bitfield(raw[start:end], member.offset_bits % 8, member.bits, member.type)

    def bitfield(self, raw: bytes, shift: int, bits: int, key: int) -> Decoded | Unavailable:
        """The value of a bitfield of ``bits`` bits, ``shift`` bits into ``raw``."""
        name = self.name(key)
        if self._little_endian:
            number = int.from_bytes(raw, "little") >> shift
        else:
            number = int.from_bytes(raw, "big") >> (8 * len(raw) - shift - bits)
        number &= (1 << bits) - 1
        if name.signed and bits and number >> (bits - 1):
            number -= 1 << bits
        size = name.size or 8
        full = number & ((1 << 8 * size) - 1)
        return self._decode(full.to_bytes(size, "little" if self._little_endian else "big"), key, 0)

    def _array(self, raw: bytes, element: int, dimensions: tuple[int, ...], nesting: int) -> Decoded | Unavailable:
        if len(dimensions) == 1 and self.is_character(element):
            return text(raw)
        if nesting >= _MAXIMUM_NESTING:
            return Unavailable(Reason.UNSUPPORTED, "nested too deep")
        size = self.name(element).size
        count = dimensions[0]
        if len(dimensions) > 1:
            for dimension in dimensions[1:]:
                size *= dimension
        if not size or count > _MAXIMUM_ELEMENTS:
            return Unavailable(Reason.UNSUPPORTED, "an array of unknown size, or a large one")
        values: list[Decoded] = []
        for number in range(count):
            part = raw[number * size : (number + 1) * size]
            if len(dimensions) > 1:
                value = self._array(part, element, dimensions[1:], nesting + 1)
            else:
                value = self._decode(part, element, nesting + 1)
            values.append(None if isinstance(value, Unavailable) else value)
        return values


def text(raw: bytes) -> str:
    """Text up to the first NUL; bytes that are not UTF-8 are shown as ``\\xff``."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
