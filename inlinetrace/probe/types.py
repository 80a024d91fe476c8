"""Types as far as values need them: members, elements, enumerators; and bytes as values of a type.

>>> types = DwarfTypes(image.dwarf.dies, machine)
>>> types.member(key, "len")                 # Member("len", offset_bits=896, bits=None, type=...)
>>> types.decode(raw, key)                   # 42, True, "ESTABLISHED", {"tv_sec": 1, "tv_nsec": 2}, [1, 2, 3], "eth0"

A type is named by a number that its source understands (``TypeName.die``): :class:`.dwarf_types.DwarfTypes`,
:class:`.btf_types.BtfTypes`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.sites.floats import FloatFormat, float_format
from inlinetrace.sites.model import Encoding, TypeName
from inlinetrace.sites.reasons import Reason, Unavailable
from inlinetrace.sites.values import decode_value

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine

# Deeper nesting than any source has.
_MAXIMUM_NESTING = 16
_MAXIMUM_ELEMENTS = 4096
# Of one value: unions of unions show the same bytes as often as they have members to the power of their depth.
_MAXIMUM_PARTS = 2048

Decoded = int | bool | float | Decimal | str | dict[str, "Decoded"] | list["Decoded"] | None


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


class Rest(str):
    """Stands for the members or elements that follow and are not shown, as there are too many."""


REST = Rest("...")


class Member(NamedTuple):
    """A member of a structure: its offset from the start, its width for a bitfield, and its type."""

    name: str
    offset_bits: int
    bits: int | None
    type: int


class Types(ABC):
    """The types of one program. The abstract methods are what a source of types has to know."""

    def __init__(self, machine: Machine, little_endian: bool) -> None:
        self._machine = machine
        self._little_endian = little_endian
        # parts that may still be decoded of the value at hand
        self._parts_left = 0

    @abstractmethod
    def name(self, key: int) -> TypeName:
        """Text, size and encoding of a type."""

    @abstractmethod
    def base_name(self, key: int) -> str:
        """Name of a floating-point type below typedefs and qualifiers."""

    @abstractmethod
    def pointee(self, key: int) -> int | None:
        """What a pointer type points at (0: void); None if it is no pointer."""

    @abstractmethod
    def is_aggregate(self, key: int) -> bool:
        """Whether it is a structure or union."""

    @abstractmethod
    def is_complete(self, key: int) -> bool:
        """Whether a structure is defined here, not only declared."""

    @abstractmethod
    def array(self, key: int) -> tuple[int, tuple[int, ...]] | None:
        """Element type and dimensions of an array type (0: unknown); None if it is no array."""

    @abstractmethod
    def members(self, key: int) -> tuple[Member, ...]:
        """Members of a structure or union, unnamed ones with an empty name."""

    @abstractmethod
    def enumerators(self, key: int) -> dict[int, str]:
        """Names of an enumeration by their values; empty for other types."""

    def has_variants(self, key: int) -> bool:
        """Whether some of its members are there or not, as others say."""
        return False

    def long_double_is_x87(self, key: int) -> bool:
        """Whether a long double of 16 bytes, on x86, is known to have been compiled as one of 80 bits."""
        return False

    def _float_format(self, key: int, size: int) -> FloatFormat | None:
        x87 = size == 16 and self.long_double_is_x87(key)
        return float_format(self.base_name(key), size, self._machine.name, long_double_is_x87=x87)

    def is_character(self, key: int) -> bool:
        """Whether it is a character type of one byte."""
        name = self.name(key)
        return name.encoding in (Encoding.CHAR, Encoding.UCHAR) and name.size == 1

    def is_text(self, key: int) -> bool:
        """Whether it is an array of characters, of one dimension."""
        array = self.array(key)
        return array is not None and len(array[1]) == 1 and self.is_character(array[0])

    def is_text_pointer(self, key: int) -> bool:
        """Whether it is a pointer to characters."""
        target = self.pointee(key)
        return bool(target) and self.is_character(target or 0)

    def member(self, key: int, name: str) -> Member | None:
        """The member with this name, in unnamed structures and unions too."""
        pending: list[tuple[int, int, int]] = [(key, 0, 0)]
        seen = set()
        while pending:
            inside, offset, nesting = pending.pop(0)
            if inside in seen:
                continue
            seen.add(inside)
            for member in self.members(inside):
                if member.name == name:
                    return member._replace(offset_bits=member.offset_bits + offset)
                if not member.name and nesting < _MAXIMUM_NESTING:
                    pending.append((member.type, offset + member.offset_bits, nesting + 1))
        return None

    # Values

    def decode(self, raw: bytes, key: int) -> Decoded | Unavailable:
        """The value that ``raw``, in the target's byte order, has as the type ``key``.

        Numbers, pointers (:class:`Pointer`), characters (:class:`Character`), names of enumerators where one fits,
        dictionaries for structures and unions, lists for arrays, text for arrays of characters; members that cannot
        be decoded are None. Of a value with very many parts the first are decoded, REST stands for the others: as
        ``"..."`` in a dictionary, as the last element of a list.
        """
        self._parts_left = _MAXIMUM_PARTS
        return self._decode(raw, key, 0)

    def _decode(self, raw: bytes, key: int, nesting: int) -> Decoded | Unavailable:
        self._parts_left -= 1
        name = self.name(key)
        if name.encoding is Encoding.AGGREGATE:
            return self._aggregate(raw, key, nesting)
        floating = self._float_format(key, name.size) if name.encoding is Encoding.FLOAT else None
        value = decode_value(raw, name, little_endian=self._little_endian, floating=floating)
        if isinstance(value, bytes):
            return Unavailable(Reason.UNSUPPORTED, f"a value of type {name.text}")
        if isinstance(value, Unavailable):
            return value
        if name.encoding is Encoding.POINTER:
            return Pointer(int(value))
        if name.encoding in (Encoding.CHAR, Encoding.UCHAR):
            return Character(int(value))
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
        if self.has_variants(key):
            return Unavailable(Reason.UNSUPPORTED, f"{name.text} has variants")
        result: dict[str, Decoded] = {}
        for member in self.members(key):
            if self._parts_left <= 0:
                result[REST] = REST
                break
            value = self._member_value(raw, member, nesting + 1)
            decoded = None if isinstance(value, Unavailable) else value
            if member.name:
                result[member.name] = decoded
            elif isinstance(decoded, dict):
                result.update(decoded)
        return result

    def _member_value(self, raw: bytes, member: Member, nesting: int) -> Decoded | Unavailable:
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
            if self._parts_left <= 0:
                values.append(REST)
                break
            part = raw[number * size : (number + 1) * size]
            if len(dimensions) > 1:
                value = self._array(part, element, dimensions[1:], nesting + 1)
            else:
                value = self._decode(part, element, nesting + 1)
            values.append(None if isinstance(value, Unavailable) else value)
        return values


def text(raw: bytes) -> str:
    """Text up to the first NUL; bytes that are not UTF-8 are surrogates, as in names of files."""
    return raw.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
