# cython: language_level=3, boundscheck=False, wraparound=False
"""Types as objects: immutable, made from a record when somebody asks for it.

``make(index, type_id)`` is the only way in. Every class keeps all that its record says, valid or not, so that encoding an
object gives back the record.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from inlinetrace.btf._index cimport SHAPE_NEW, SHAPE_OTHER, Index, Layer, layer_of, record_of, string_of, word_at

from inlinetrace.errors import FormatError


cdef class Entry:
    """Base of what types are made of: compares and prints by its fields."""

    _fields = ()

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return all([getattr(self, field) == getattr(other, field) for field in self._fields])

    def __hash__(self):
        return hash(tuple([getattr(self, field) for field in self._fields]))

    def __repr__(self):
        return f"{type(self).__name__}({', '.join([f'{field}={getattr(self, field)!r}' for field in self._fields])})"


cdef class Member(Entry):
    cdef readonly str name
    cdef readonly uint32_t type_id, bit_offset, bitfield_size
    _fields = ("name", "type_id", "bit_offset", "bitfield_size")

    def __init__(self, str name, uint32_t type_id, uint32_t bit_offset, uint32_t bitfield_size=0):
        self.name, self.type_id, self.bit_offset, self.bitfield_size = name, type_id, bit_offset, bitfield_size


cdef class Enumerator(Entry):
    cdef readonly str name
    cdef readonly object value
    _fields = ("name", "value")

    def __init__(self, str name, value):
        self.name, self.value = name, value


cdef class Param(Entry):
    cdef readonly str name
    cdef readonly uint32_t type_id
    _fields = ("name", "type_id")

    def __init__(self, str name, uint32_t type_id):
        self.name, self.type_id = name, type_id


cdef class SectionVariable(Entry):
    cdef readonly uint32_t type_id, offset, size
    _fields = ("type_id", "offset", "size")

    def __init__(self, uint32_t type_id, uint32_t offset, uint32_t size):
        self.type_id, self.offset, self.size = type_id, offset, size


cdef class InlineSite(Entry):
    cdef readonly uint32_t func_id, loc_proto_id, offset
    _fields = ("func_id", "loc_proto_id", "offset")

    def __init__(self, uint32_t func_id, uint32_t loc_proto_id, uint32_t offset):
        self.func_id, self.loc_proto_id, self.offset = func_id, loc_proto_id, offset


cdef class RfcInlineSite(Entry):
    cdef readonly str name
    cdef readonly uint32_t func_proto_id, loc_proto_id, offset
    _fields = ("name", "func_proto_id", "loc_proto_id", "offset")

    def __init__(self, str name, uint32_t func_proto_id, uint32_t loc_proto_id, uint32_t offset):
        self.name, self.func_proto_id, self.loc_proto_id, self.offset = name, func_proto_id, loc_proto_id, offset


cdef class Type(Entry):
    cdef readonly uint32_t id, kind, vlen, size_or_type
    cdef readonly bint kind_flag
    cdef readonly str name
    _fields = ("id", "name", "vlen", "kind_flag", "size_or_type")


cdef class Void(Type):
    pass


cdef class Int(Type):
    cdef readonly uint32_t encoding, bit_offset, bits
    _fields = Type._fields + ("encoding", "bit_offset", "bits")

    @property
    def size(self):
        return self.size_or_type

    @property
    def signed(self):
        return bool(self.encoding & 1)


cdef class Float(Type):
    @property
    def size(self):
        return self.size_or_type


cdef class Reference(Type):
    @property
    def type_id(self):
        return self.size_or_type


cdef class Ptr(Reference):
    pass


cdef class Typedef(Reference):
    pass


cdef class Qualifier(Reference):
    pass


cdef class Volatile(Qualifier):
    pass


cdef class Const(Qualifier):
    pass


cdef class Restrict(Qualifier):
    pass


cdef class TypeTag(Reference):
    pass


cdef class DeclTag(Reference):
    cdef readonly int32_t component_index
    _fields = Type._fields + ("component_index",)


cdef class Func(Reference):
    @property
    def linkage(self):
        return self.vlen


cdef class Var(Reference):
    cdef readonly uint32_t linkage
    _fields = Type._fields + ("linkage",)


cdef class Array(Type):
    cdef readonly uint32_t type_id, index_type_id, length
    _fields = Type._fields + ("type_id", "index_type_id", "length")


cdef class Composite(Type):
    cdef readonly tuple members
    _fields = Type._fields + ("members",)

    @property
    def size(self):
        return self.size_or_type


cdef class Struct(Composite):
    pass


cdef class Union(Composite):
    pass


cdef class Enum(Type):
    cdef readonly tuple enumerators
    _fields = Type._fields + ("enumerators",)

    @property
    def size(self):
        return self.size_or_type

    @property
    def signed(self):
        return self.kind_flag


cdef class Enum64(Enum):
    pass


cdef class Fwd(Type):
    @property
    def is_union(self):
        return self.kind_flag


cdef class FuncProto(Type):
    cdef readonly tuple params
    _fields = Type._fields + ("params",)

    @property
    def return_type_id(self):
        return self.size_or_type


cdef class Datasec(Type):
    cdef readonly tuple variables
    _fields = Type._fields + ("variables",)

    @property
    def size(self):
        return self.size_or_type


cdef class LocParam(Type):
    cdef readonly uint32_t flags
    cdef readonly tuple values
    _fields = Type._fields + ("flags", "values")

    @property
    def size(self):
        return self.size_or_type


cdef class RfcLocParam(Type):
    cdef readonly uint64_t value
    cdef readonly uint32_t register, flags
    cdef readonly int32_t offset
    _fields = Type._fields + ("value", "register", "flags", "offset")

    @property
    def size(self):
        return <int32_t>self.size_or_type

    @property
    def is_constant(self):
        return self.kind_flag


cdef class LocProto(Type):
    cdef readonly tuple loc_param_ids
    _fields = Type._fields + ("loc_param_ids",)


cdef class Locsec(Type):
    cdef readonly tuple sites
    _fields = Type._fields + ("sites",)


cdef class RfcLocsec(Type):
    cdef readonly tuple sites
    _fields = Type._fields + ("sites",)


cdef class Unknown(Type):
    cdef readonly tuple words
    _fields = ("kind",) + Type._fields + ("words",)


cdef tuple CLASSES = (
    Void, Int, Ptr, Array, Struct, Union, Enum, Fwd, Typedef, Volatile, Const, Restrict, Func, FuncProto, Var, Datasec,
    Float, DeclTag, TypeTag, Enum64,
)


cdef str text_at(const Layer* layer, uint32_t offset):
    cdef uint32_t length = 0
    cdef const char* text
    if offset == 0:
        return ""
    text = string_of(layer, offset, &length)
    if text == NULL:
        raise FormatError(f"string offset {offset:#x} leads to no string of at most 4095 bytes")
    return text[:length].decode("utf-8", "surrogateescape")


cdef tuple members_of(const Layer* layer, uint64_t at, uint32_t vlen, bint kind_flag):
    cdef list members = []
    cdef Member member
    cdef uint32_t i, word
    for i in range(vlen):
        member = Member.__new__(Member)
        member.name = text_at(layer, word_at(layer, at))
        member.type_id = word_at(layer, at + 4)
        word = word_at(layer, at + 8)
        member.bit_offset = word & 0xFFFFFF if kind_flag else word
        member.bitfield_size = word >> 24 if kind_flag else 0
        members.append(member)
        at += 12
    return tuple(members)


cdef tuple enumerators_of(const Layer* layer, uint64_t at, uint32_t vlen, bint is_signed, bint wide):
    cdef list enumerators = []
    cdef Enumerator enumerator
    cdef uint32_t i
    cdef uint64_t value
    for i in range(vlen):
        enumerator = Enumerator.__new__(Enumerator)
        enumerator.name = text_at(layer, word_at(layer, at))
        value = word_at(layer, at + 4)
        if wide:
            value |= <uint64_t>word_at(layer, at + 8) << 32
            enumerator.value = <int64_t>value if is_signed else value
        else:
            enumerator.value = <int32_t><uint32_t>value if is_signed else value
        enumerators.append(enumerator)
        at += 12 if wide else 8
    return tuple(enumerators)


cdef tuple words_of(const Layer* layer, uint64_t at, uint64_t end):
    return tuple([word_at(layer, at + 4 * i) for i in range((end - at) // 4)])


cdef Type make_location(const Layer* layer, uint32_t kind, uint64_t at, uint64_t end, uint32_t vlen):
    """The kind-specific part of a LOC_PARAM, LOC_PROTO or LOCSEC."""
    cdef LocParam loc_param
    cdef RfcLocParam rfc_param
    cdef LocProto loc_proto
    cdef Locsec locsec
    cdef RfcLocsec rfc_locsec
    cdef uint32_t i, word
    if kind == 21:
        loc_proto = LocProto.__new__(LocProto)
        loc_proto.loc_param_ids = words_of(layer, at, end)
        return loc_proto
    if kind == 20 and layer.shape == SHAPE_NEW:
        loc_param = LocParam.__new__(LocParam)
        loc_param.flags = word_at(layer, at)
        loc_param.values = words_of(layer, at + 4, end)
        return loc_param
    if kind == 20:
        rfc_param = RfcLocParam.__new__(RfcLocParam)
        rfc_param.value = word_at(layer, at) | <uint64_t>word_at(layer, at + 4) << 32
        word = word_at(layer, at)
        if is_little(layer):
            rfc_param.register, rfc_param.flags = word & 0xFFFF, word >> 16
        else:
            rfc_param.register, rfc_param.flags = word >> 16, word & 0xFFFF
        rfc_param.offset = <int32_t>word_at(layer, at + 4)
        return rfc_param
    if layer.shape == SHAPE_NEW:
        locsec = Locsec.__new__(Locsec)
        locsec.sites = tuple([
            InlineSite(word_at(layer, at + 12 * i), word_at(layer, at + 12 * i + 4), word_at(layer, at + 12 * i + 8))
            for i in range(vlen)
        ])
        return locsec
    rfc_locsec = RfcLocsec.__new__(RfcLocsec)
    rfc_locsec.sites = tuple([
        RfcInlineSite(
            text_at(layer, word_at(layer, at + 16 * i)), word_at(layer, at + 16 * i + 4),
            word_at(layer, at + 16 * i + 8), word_at(layer, at + 16 * i + 12),
        )
        for i in range(vlen)
    ])
    return rfc_locsec


cdef bint is_little(const Layer* layer) noexcept nogil:
    cdef uint32_t one = 1
    return ((<unsigned char*>&one)[0] == 1) != layer.swap


def make(Index index, uint32_t type_id):
    """The object for a type of ``index`` or one of its bases; id 0 is void."""
    cdef const Layer* layer = layer_of(&index.layer, type_id)
    cdef uint64_t at, end
    cdef uint32_t info, kind, vlen, word
    cdef bint kind_flag
    cdef Type result
    if layer == NULL:
        if type_id == 0:
            result = Void.__new__(Void)
            result.name = "void"
            return result
        raise FormatError("there is no such type", type_id=type_id)
    at = record_of(layer, type_id)
    end = record_of(layer, type_id + 1) if type_id + 1 < layer.end_id else layer.type_end
    info = word_at(layer, at + 4)
    kind, vlen, kind_flag = (info >> 24) & 0x7F, info & 0xFFFFFF, info >> 31
    at += 12
    try:
        if kind < 20:
            result = (<type>CLASSES[kind]).__new__(CLASSES[kind])
            if kind == 1:
                word = word_at(layer, at)
                (<Int>result).encoding = word >> 24
                (<Int>result).bit_offset = (word >> 16) & 0xFF
                (<Int>result).bits = word & 0xFFFF
            elif kind == 3:
                (<Array>result).type_id = word_at(layer, at)
                (<Array>result).index_type_id = word_at(layer, at + 4)
                (<Array>result).length = word_at(layer, at + 8)
            elif kind == 4 or kind == 5:
                (<Composite>result).members = members_of(layer, at, vlen, kind_flag)
            elif kind == 6 or kind == 19:
                (<Enum>result).enumerators = enumerators_of(layer, at, vlen, kind_flag, kind == 19)
            elif kind == 13:
                (<FuncProto>result).params = tuple([
                    Param(text_at(layer, word_at(layer, at + 8 * i)), word_at(layer, at + 8 * i + 4)) for i in range(vlen)
                ])
            elif kind == 14:
                (<Var>result).linkage = word_at(layer, at)
            elif kind == 15:
                (<Datasec>result).variables = tuple([
                    SectionVariable(
                        word_at(layer, at + 12 * i), word_at(layer, at + 12 * i + 4), word_at(layer, at + 12 * i + 8)
                    )
                    for i in range(vlen)
                ])
            elif kind == 17:
                (<DeclTag>result).component_index = <int32_t>word_at(layer, at)
        elif kind <= 22 and layer.shape != SHAPE_OTHER:
            result = make_location(layer, kind, at, end, vlen)
        else:
            result = Unknown.__new__(Unknown)
            (<Unknown>result).words = words_of(layer, at, end)
        result.name = text_at(layer, word_at(layer, at - 12))
    except FormatError as error:
        error.type_id = type_id
        error.offset = at - 12
        raise
    result.id, result.kind, result.vlen, result.kind_flag = type_id, kind, vlen, kind_flag
    result.size_or_type = word_at(layer, at - 4)
    return result
