"""Types back to records: the inverse of ``_types.make``.

``words_of`` gives the 32-bit words of one record; ``reencode`` decodes a whole object and writes it again. Both are
lossless: an object keeps everything that its record says.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from inlinetrace.btf._types import (
    Array,
    Composite,
    Datasec,
    DeclTag,
    Enum,
    Enum64,
    FuncProto,
    Int,
    LocParam,
    LocProto,
    Locsec,
    RfcLocParam,
    RfcLocsec,
    Type,
    Unknown,
    Var,
)
from inlinetrace.btf.kinds import info_word
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError

_WORD = 0xFFFFFFFF


def words_of(record: Type, name_offset: Callable[[str], int], byte_order: str) -> list[int]:
    """All words of a record.

    ``name_offset`` gives the string offset of a name and is called once per name, in record order. ``byte_order``
    matters for the RFC's LOC_PARAM alone, which has two 16-bit fields in one word.
    """
    words = [
        name_offset(record.name),
        info_word(record.kind, record.vlen, record.kind_flag),
        record.size_or_type,
    ]
    if isinstance(record, Int):
        words.append(record.encoding << 24 | record.bit_offset << 16 | record.bits)
    elif isinstance(record, Array):
        words += [record.type_id, record.index_type_id, record.length]
    elif isinstance(record, Composite):
        for member in record.members:
            offset = member.bitfield_size << 24 | member.bit_offset if record.kind_flag else member.bit_offset
            words += [name_offset(member.name), member.type_id, offset]
    elif isinstance(record, Enum64):
        for enumerator in record.enumerators:
            words += [name_offset(enumerator.name), enumerator.value & _WORD, enumerator.value >> 32 & _WORD]
    elif isinstance(record, Enum):
        for enumerator in record.enumerators:
            words += [name_offset(enumerator.name), enumerator.value & _WORD]
    elif isinstance(record, FuncProto):
        for param in record.params:
            words += [name_offset(param.name), param.type_id]
    elif isinstance(record, Var):
        words.append(record.linkage)
    elif isinstance(record, Datasec):
        for variable in record.variables:
            words += [variable.type_id, variable.offset, variable.size]
    elif isinstance(record, DeclTag):
        words.append(record.component_index & _WORD)
    elif isinstance(record, LocParam):
        words += [record.flags, *record.values]
    elif isinstance(record, RfcLocParam):
        words += _rfc_location(record, byte_order)
    elif isinstance(record, Unknown):
        words += record.words
    elif isinstance(record, LocProto):
        words += record.loc_param_ids
    elif isinstance(record, Locsec):
        for site in record.sites:
            words += [site.func_id, site.loc_proto_id, site.offset]
    elif isinstance(record, RfcLocsec):
        for named in record.sites:
            words += [name_offset(named.name), named.func_proto_id, named.loc_proto_id, named.offset]
    return words


def _rfc_location(record: RfcLocParam, byte_order: str) -> list[int]:
    if record.is_constant:
        return [record.value & _WORD, record.value >> 32]
    if byte_order == "little":
        first = record.register | record.flags << 16
    else:
        first = record.register << 16 | record.flags
    return [first, record.offset & _WORD]


def reencode(btf: Btf) -> bytes:
    """Decode every type of ``btf`` and write the object again, with the same header and strings.

    Each name is taken from the object and must be the one that its string offset leads to. The result is equal to
    ``btf.data``; that it is shows that nothing was lost.
    """
    header = btf.header
    words: list[int] = []
    for record in btf.types():
        names = _recorded_names(btf, record.id)
        words += words_of(record, names, btf.byte_order)
    order = "<" if btf.byte_order == "little" else ">"
    types = struct.pack(f"{order}{len(words)}I", *words)
    data = btf.data
    return b"".join(
        [
            bytes(data[: header.type_at]),
            types,
            bytes(data[header.type_at + header.type_len : header.string_at]),
            btf.strings,
            bytes(data[header.string_at + header.string_len :]),
        ]
    )


_NAME_STRIDES = {4: (3, 3), 5: (3, 3), 6: (3, 2), 13: (3, 2), 19: (3, 3)}


def _recorded_names(btf: Btf, type_id: int) -> Callable[[str], int]:
    """A ``name_offset`` that gives the offsets which the record uses, each only for the string that stands there."""
    recorded = btf.index.record(type_id)
    kind = btf.kind(type_id)
    offsets = [recorded[0]]
    first, stride = _NAME_STRIDES.get(kind, (0, 0))
    if kind == 22 and isinstance(btf.type(type_id), RfcLocsec):
        first, stride = 3, 4
    if stride:
        offsets += recorded[first::stride]
    remaining = iter(offsets)

    def name_offset(name: str) -> int:
        offset = next(remaining, None)
        if offset is None or btf.index.string(offset) != name.encode("utf-8", "surrogateescape"):
            raise FormatError(f"the name {name!r} does not stand in the record", type_id=type_id)
        return offset

    return name_offset
