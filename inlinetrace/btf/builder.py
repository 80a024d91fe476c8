"""Writing BTF: types are added one by one, the object comes out as bytes.

::

    builder = Builder(layout=True)
    integer = builder.add_int("int", 4, INT_SIGNED)
    prototype = builder.add_func_proto(integer, [("a", integer)])
    builder.add_func("add", prototype)
    data = builder.to_bytes()

Ids are given in the order of adding, from ``base.end_id`` on if there is a base. Names that the base has are reused,
others are stored once, in the order of first use. Types may refer to ids that are added later; ``validate`` finds
those that never are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from inlinetrace.btf._types import Enumerator, InlineSite, Member, RfcInlineSite, SectionVariable, Type
from inlinetrace.btf.encode import words_of
from inlinetrace.btf.kinds import (
    CLASSIC_HEADER,
    CLASSIC_MAX_KIND,
    CLASSIC_MAX_VLEN,
    LAYOUT,
    LAYOUT_HEADER,
    MAGIC,
    MAX_NAME,
    MAX_VLEN,
    RFC_LAYOUT,
    VERSION,
    Dialect,
    Kind,
    info_word,
)
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, UsageError

_WORD = 0xFFFFFFFF


class Builder:
    """A BTF object in the making.

    ``base`` is the object this one is split from. ``classic`` writes the 24-byte header and 16 bits of vlen, as every
    released reader understands; otherwise the 32-byte header of the newest form. ``layout`` adds the layout section
    (newest form only). ``dialect`` is that of the location kinds. ``strings`` is a string section to start from.

    Errors of the methods: UsageError for what the form cannot say, FormatError for numbers that do not fit their field.
    """

    def __init__(
        self,
        base: Btf | None = None,
        *,
        byte_order: str | None = None,
        classic: bool = False,
        layout: bool = False,
        dialect: Dialect = Dialect.NEW,
        strings: bytes | None = None,
    ) -> None:
        if byte_order not in (None, "little", "big"):
            raise UsageError(f"byte order {byte_order!r}; it is little or big")
        if classic and layout:
            raise UsageError("the classic form has no layout section")
        self.base = base
        self.byte_order = byte_order or (base.byte_order if base is not None else "little")
        self.classic = classic
        self.layout = layout
        self.dialect = dialect
        self.start_id = 1 if base is None else base.end_id
        self._start_string = 0
        self._known: dict[bytes, int] = {b"": 0}
        if base is not None:
            for layer in base.chain:
                own = layer.strings
                at = 0
                for name in own.split(b"\0")[:-1]:
                    self._known.setdefault(name, self._start_string + at)
                    at += len(name) + 1
                self._start_string += len(own)
        self._strings = bytearray(strings if strings is not None else (b"\0" if base is None else b""))
        at = 0
        for name in bytes(self._strings).split(b"\0")[:-1]:
            self._known.setdefault(name, self._start_string + at)
            at += len(name) + 1
        self._types = bytearray()
        self._count = 0
        self._order = "<" if self.byte_order == "little" else ">"

    @property
    def end_id(self) -> int:
        """The id that the next type will get."""
        return self.start_id + self._count

    def string(self, name: str) -> int:
        """The string offset of a name, stored if it is new."""
        data = name.encode("utf-8", "surrogateescape")
        offset = self._known.get(data)
        if offset is None:
            if b"\0" in data or len(data) > MAX_NAME:
                raise FormatError(f"a name with a NUL or of more than {MAX_NAME} bytes: {name[:40]!r}")
            offset = self._known[data] = self._start_string + len(self._strings)
            self._strings += data + b"\0"
        return offset

    def record(
        self,
        kind: int,
        name: str = "",
        vlen: int = 0,
        kind_flag: bool = False,
        size_or_type: int = 0,
        words: Iterable[int] = (),
    ) -> int:
        """Add a record of any kind from its words; returns its id."""
        return self._add([self.string(name), info_word(kind, vlen, kind_flag), size_or_type, *words], kind, vlen)

    def add(self, record: Type) -> int:
        """Add a copy of a type as it is: its ids are kept, its id is the next one."""
        return self._add(words_of(record, self.string, self.byte_order), record.kind, record.vlen)

    def _add(self, words: Sequence[int], kind: int, vlen: int) -> int:
        if vlen > (CLASSIC_MAX_VLEN if self.classic else MAX_VLEN):
            raise FormatError(
                f"{vlen} elements do not fit into the vlen of the form that is written", type_id=self.end_id
            )
        if self.classic and kind > CLASSIC_MAX_KIND:
            raise FormatError(f"kind {kind} does not fit into the classic form", type_id=self.end_id)
        try:
            self._types += struct.pack(f"{self._order}{len(words)}I", *words)
        except struct.error:
            raise FormatError("a number does not fit into its 32 bits", type_id=self.end_id) from None
        self._count += 1
        return self.end_id - 1

    def add_int(self, name: str, size: int, encoding: int = 0, bits: int | None = None, bit_offset: int = 0) -> int:
        """INT; ``size`` in bytes, ``bits`` all of them unless given."""
        word = encoding << 24 | bit_offset << 16 | (size * 8 if bits is None else bits)
        return self.record(Kind.INT, name, size_or_type=size, words=[word])

    def add_float(self, name: str, size: int) -> int:
        """FLOAT; ``size`` in bytes."""
        return self.record(Kind.FLOAT, name, size_or_type=size)

    def add_ptr(self, type_id: int) -> int:
        """PTR; 0 for ``void *``."""
        return self.record(Kind.PTR, size_or_type=type_id)

    def add_reference(self, kind: Kind, type_id: int, name: str = "", kind_flag: bool = False) -> int:
        """TYPEDEF, CONST, VOLATILE, RESTRICT or TYPE_TAG."""
        return self.record(kind, name, kind_flag=kind_flag, size_or_type=type_id)

    def add_typedef(self, name: str, type_id: int) -> int:
        """TYPEDEF."""
        return self.record(Kind.TYPEDEF, name, size_or_type=type_id)

    def add_array(self, type_id: int, index_type_id: int, length: int) -> int:
        """ARRAY of ``length`` elements."""
        return self.record(Kind.ARRAY, words=[type_id, index_type_id, length])

    def add_composite(self, kind: Kind, name: str, size: int, members: Sequence[Member]) -> int:
        """STRUCT or UNION; ``size`` in bytes, ``kind_flag`` is set if a member is a bitfield."""
        bitfields = any(member.bitfield_size for member in members)
        self.string(name)
        words: list[int] = []
        for member in members:
            if bitfields and (member.bit_offset > 0xFFFFFF or member.bitfield_size > 0xFF):
                raise FormatError("a struct with bitfields has members beyond 2 MB", type_id=self.end_id)
            words += [self.string(member.name), member.type_id, member.bitfield_size << 24 | member.bit_offset]
        return self.record(kind, name, len(members), bitfields, size, words)

    def add_struct(self, name: str, size: int, members: Sequence[Member]) -> int:
        """STRUCT; see ``add_composite``."""
        return self.add_composite(Kind.STRUCT, name, size, members)

    def add_union(self, name: str, size: int, members: Sequence[Member]) -> int:
        """UNION; see ``add_composite``."""
        return self.add_composite(Kind.UNION, name, size, members)

    def add_enum(self, name: str, size: int, enumerators: Sequence[Enumerator], signed: bool = False) -> int:
        """ENUM with 32-bit values; ``size`` in bytes."""
        self.string(name)
        words: list[int] = []
        for enumerator in enumerators:
            words += [self.string(enumerator.name), _wrapped(enumerator.value, 32)]
        return self.record(Kind.ENUM, name, len(enumerators), signed, size, words)

    def add_enum64(self, name: str, size: int, enumerators: Sequence[Enumerator], signed: bool = False) -> int:
        """ENUM64 with 64-bit values; ``size`` in bytes."""
        self.string(name)
        words: list[int] = []
        for enumerator in enumerators:
            value = _wrapped(enumerator.value, 64)
            words += [self.string(enumerator.name), value & _WORD, value >> 32]
        return self.record(Kind.ENUM64, name, len(enumerators), signed, size, words)

    def add_fwd(self, name: str, is_union: bool = False) -> int:
        """FWD."""
        return self.record(Kind.FWD, name, kind_flag=is_union)

    def add_func_proto(self, return_type_id: int, params: Sequence[tuple[str, int]], variadic: bool = False) -> int:
        """FUNC_PROTO; ``params`` are (name, type id); a variadic one gets its trailing nameless entry."""
        entries = [*params, ("", 0)] if variadic else list(params)
        words = [word for name, type_id in entries for word in (self.string(name), type_id)]
        return self.record(Kind.FUNC_PROTO, vlen=len(entries), size_or_type=return_type_id, words=words)

    def add_func(self, name: str, prototype_id: int, linkage: int = 0) -> int:
        """FUNC; ``linkage`` 0 static, 1 global, 2 extern."""
        return self.record(Kind.FUNC, name, linkage, size_or_type=prototype_id)

    def add_var(self, name: str, type_id: int, linkage: int = 0) -> int:
        """VAR; ``linkage`` 0 static, 1 global, 2 extern."""
        return self.record(Kind.VAR, name, size_or_type=type_id, words=[linkage])

    def add_datasec(self, name: str, size: int, variables: Sequence[SectionVariable]) -> int:
        """DATASEC; ``size`` in bytes."""
        words = [word for variable in variables for word in (variable.type_id, variable.offset, variable.size)]
        return self.record(Kind.DATASEC, name, len(variables), size_or_type=size, words=words)

    def add_decl_tag(self, name: str, type_id: int, component_index: int = -1) -> int:
        """DECL_TAG of a type, or of its member or parameter ``component_index``."""
        return self.record(Kind.DECL_TAG, name, size_or_type=type_id, words=[component_index & _WORD])

    def add_loc_param(self, size: int, flags: int, values: Sequence[int]) -> int:
        """LOC_PARAM of v2 and newest: ``size`` of the parameter in bytes, flags of ``LocFlag``, value words."""
        self._require(Dialect.V2, Dialect.NEW)
        return self.record(Kind.LOC_PARAM, vlen=len(values), size_or_type=size, words=[flags, *values])

    def add_rfc_constant(self, size: int, value: int) -> int:
        """LOC_PARAM of the RFC with a constant; a negative ``size`` says that the value is signed."""
        self._require(Dialect.RFC)
        value &= (1 << 64) - 1
        return self.record(
            Kind.LOC_PARAM, kind_flag=True, size_or_type=size & _WORD, words=[value & _WORD, value >> 32]
        )

    def add_rfc_register(self, size: int, register: int, flags: int = 0, offset: int = 0) -> int:
        """LOC_PARAM of the RFC in a register (``flags``: RFC_DEREF, RFC_CONTINUE)."""
        self._require(Dialect.RFC)
        first = register | flags << 16 if self.byte_order == "little" else register << 16 | flags
        return self.record(Kind.LOC_PARAM, size_or_type=size & _WORD, words=[first, offset & _WORD])

    def add_loc_proto(self, loc_param_ids: Sequence[int]) -> int:
        """LOC_PROTO; 0 for a parameter without location."""
        return self.record(Kind.LOC_PROTO, vlen=len(loc_param_ids), words=loc_param_ids)

    def add_locsec(self, name: str, sites: Sequence[InlineSite]) -> int:
        """LOCSEC of v2 and newest."""
        self._require(Dialect.V2, Dialect.NEW)
        words = [word for site in sites for word in (site.func_id, site.loc_proto_id, site.offset)]
        return self.record(Kind.LOCSEC, name, len(sites), words=words)

    def add_rfc_locsec(self, name: str, sites: Sequence[RfcInlineSite]) -> int:
        """LOCSEC of the RFC."""
        self._require(Dialect.RFC)
        self.string(name)
        words: list[int] = []
        for site in sites:
            words += [self.string(site.name), site.func_proto_id, site.loc_proto_id, site.offset]
        return self.record(Kind.LOCSEC, name, len(sites), words=words)

    def _require(self, *dialects: Dialect) -> None:
        if self.dialect not in dialects:
            raise UsageError(f"this form of location info does not exist in dialect {self.dialect.value}")

    def to_bytes(self) -> bytes:
        """The object: header, types, layout section, strings."""
        return object_bytes(
            self._types,
            self._strings,
            byte_order=self.byte_order,
            classic=self.classic,
            layout=self.dialect if self.layout else None,
        )


def object_bytes(
    types: bytes | bytearray,
    strings: bytes | bytearray,
    *,
    byte_order: str,
    classic: bool = False,
    layout: Dialect | None = None,
) -> bytes:
    """An object of finished sections: header, types, the layout section of a dialect if wanted, strings."""
    order = "<" if byte_order == "little" else ">"
    table = b""
    if layout is not None:
        entries = [
            RFC_LAYOUT.get(Kind(kind), entry) if layout is Dialect.RFC else entry for kind, entry in enumerate(LAYOUT)
        ]
        table = b"".join(struct.pack(order + "2BH", fixed, element, 0) for fixed, element in entries)
    length = CLASSIC_HEADER if classic else LAYOUT_HEADER
    fields = [0, len(types), len(types) + len(table), len(strings)]
    if not classic:
        fields += [len(types) if table else 0, len(table)]
    head = struct.pack(f"{order}HBBI{len(fields)}I", MAGIC, VERSION, 0, length, *fields)
    return b"".join((head, types, table, strings))


def _wrapped(value: int, bits: int) -> int:
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise FormatError(f"the value {value} of an enumerator does not fit into {bits} bits")
    return value & (1 << bits) - 1
