"""Which posting of the location kinds a blob follows, decided from its bytes.

The kinds 20 to 22 changed shape between the RFC of October 2025 and version 2 of September 2026, and nothing in the
header says which is used. The layout section tells if there is one; else the type section has to end exactly at its end
when walked with the right record sizes, LOC_PARAMs of the RFC have no elements, and the ids have to lead to the right
kinds. Two forms that only look like location info are refused by name.
"""

from __future__ import annotations

import enum
import struct

from inlinetrace.btf._index import Index
from inlinetrace.btf.header import Header, april_blob, is_compact_april_blob
from inlinetrace.btf.kinds import LAYOUT, MAX_KIND, MAX_VLEN, RFC_LAYOUT, Dialect, Kind
from inlinetrace.errors import FormatError, UnsupportedError


class Shape(enum.IntEnum):
    """Record sizes of the location kinds, as the compiled index numbers them."""

    NEW = 0
    RFC = 1
    OTHER = 2


def build_index(data: bytes | memoryview, header: Header, base: Index | None, forced: Dialect | None) -> Index:
    """Index ``data`` in the shape that fits it.

    Errors: FormatError with the offset of the first record that cannot be read; UnsupportedError for the compact
    April-2025 blob and the FUNCSEC sketches of May 2025.
    """

    def index(shape: Shape) -> Index:
        return Index(
            data,
            header.type_at,
            header.type_len,
            header.string_at,
            header.string_len,
            header.layout_at,
            header.layout_len,
            header.swapped,
            base,
            shape,
        )

    if forced is not None:
        return index(Shape.RFC if forced is Dialect.RFC else Shape.NEW)
    new = rfc = None
    failure = FormatError("")
    try:
        new = index(Shape.NEW)
        if not new.has_locations:
            return new
    except FormatError as error:
        failure = error
    declared = _shape_of_layout(data, header, base)
    if declared is Shape.NEW and new is not None:
        return new
    if declared is Shape.OTHER:
        return index(Shape.OTHER)
    try:
        rfc = index(Shape.RFC)
    except FormatError:
        if new is None:
            if is_compact_april_blob(data, header):
                raise april_blob("compact form") from failure
            if _walks_as_funcsec(data, header):
                raise _funcsec() from failure
            raise failure from None
    if new is None or declared is Shape.RFC:
        assert rfc is not None
        return rfc
    if rfc is None:
        _refuse_funcsec(new, data, header)
        return new
    parameters, plain, _, references, right = new.location_facts()
    if parameters:
        if plain == parameters:
            _refuse_funcsec(new, data, header)
            return new
        return rfc
    _, _, _, rfc_references, rfc_right = rfc.location_facts()
    return new if (right == references) >= (rfc_right == rfc_references) else rfc


def dialect_of(index: Index) -> Dialect | None:
    """The dialect of an object whose own records are indexed; None if it has no location kinds that can be read."""
    if not index.has_locations or index.shape == Shape.OTHER:
        return None
    if index.shape == Shape.RFC:
        return Dialect.RFC
    names = []
    for type_id in index.of_kind(Kind.LOCSEC):
        try:
            names.append(index.name(type_id))
        except FormatError:
            names.append(b"")
    if names and all(name.startswith(b".") for name in names):
        return Dialect.V2
    return Dialect.NEW


def _shape_of_layout(data: bytes | memoryview, header: Header, base: Index | None) -> Shape | None:
    """What the layout section that applies says of kinds 20 and 22; None without a layout section or entry."""
    entries: list[tuple[int, int]] = []
    for kind in (Kind.LOC_PARAM, Kind.LOCSEC):
        entry: tuple[int, int] | None = None
        if header.layout_len:
            if 4 * kind + 4 <= header.layout_len:
                at = header.layout_at + 4 * kind
                entry = (data[at], data[at + 1])
        elif base is not None:
            entry = base.own_layout_entry(kind)
        if entry is None:
            return None
        entries.append(entry)
    if entries == [LAYOUT[Kind.LOC_PARAM], LAYOUT[Kind.LOCSEC]]:
        return Shape.NEW
    if entries == [RFC_LAYOUT[Kind.LOC_PARAM], RFC_LAYOUT[Kind.LOCSEC]]:
        return Shape.RFC
    return Shape.OTHER


def _refuse_funcsec(index: Index, data: bytes | memoryview, header: Header) -> None:
    parameters, _, legal, references, _ = index.location_facts()
    if parameters and not legal and not references and _walks_as_funcsec(data, header):
        raise _funcsec()


def _walks_as_funcsec(data: bytes | memoryview, header: Header) -> bool:
    """True if the types end exactly with 12-byte elements in their kind-20 records, of which there is at least one."""
    order = "<" if header.byte_order == "little" else ">"
    at, end = header.type_at, header.type_at + header.type_len
    seen = False
    while at < end:
        if end - at < 12:
            return False
        (info,) = struct.unpack_from(order + "I", data, at + 4)
        kind = info >> 24 & MAX_KIND
        if kind == 0 or kind > Kind.LOC_PARAM:
            return False
        seen = seen or kind == Kind.LOC_PARAM
        fixed, element = (0, 12) if kind == Kind.LOC_PARAM else LAYOUT[kind]
        at += 12 + fixed + (info & MAX_VLEN) * element
    return seen and at == end


def _funcsec() -> UnsupportedError:
    return UnsupportedError(
        "its kind-20 records are no LOC_PARAMs: this looks like the FUNCSEC sketch of May 2025, which was never "
        "released and is not read"
    )
