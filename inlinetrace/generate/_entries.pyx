# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""The values of one entry, by the shape of its abbreviation: names as words, references as keys."""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memchr, memcpy

from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_u8, read_uint, read_uleb, skip, skip_string
from inlinetrace.dwarf._forms cimport (
    STR_SHIFT, STR_STR, V_ADDRESS, V_ADDRESS_INDEX, V_ALT_REF, V_BLOCK, V_FLAG, V_LIST_INDEX, V_OFFSET, V_REF,
    V_SIGNATURE, V_SINT, V_STRING, V_STRING_INDEX, V_UINT, Value, read_form, skip_form,
)
from inlinetrace.generate._collect cimport (
    ERR_INDEX, ERR_NOTE, ERR_NO_TYPE, ERR_SIGNATURE, ERR_STRING_AT, ERR_SUPPLEMENT, KEY_SHIFT, NAME_LIMIT,
    NAME_PACKED, Collector,
)
from inlinetrace.generate._shapes cimport (
    LOCATION_BYTES, LOCATION_INDEX, LOCATION_KIND, LOCATION_LENGTH, LOCATION_LIST, NAME_INDEX, NAME_STR,
    ROLE_ADDRESS, ROLE_LOCATION, ROLE_NAME, ROLE_REFERENCE, SLOTS, S_A, S_ANNOTATION, S_B, S_D, S_F, S_NAME, S_TYPE,
    W_FUNCTION, W_MEMBER, W_PARAMETER, W_SKIP, W_VARIABLE, Field, Op, Shape,
)

cdef uint64_t OFFSET_MASK = (1ULL << KEY_SHIFT) - 1


cdef int decode(Collector reader, Shape* shape, int64_t* v) noexcept nogil:
    """Read the attributes of an entry into ``v``: names as words, references as keys. 0 or an error."""
    cdef Cursor* c = &reader.cursor
    cdef const uint8_t* p
    cdef const uint8_t* nul
    cdef uint64_t one
    cdef uint32_t four
    cdef uint16_t two
    cdef int i
    cdef Field* f
    cdef uint32_t name = 0
    cdef uint64_t length
    cdef Value value
    if not shape.simple:
        return decode_slowly(reader, shape, v)
    memcpy(v, shape.implicit, SLOTS * 8)
    if shape.name_first:
        p = c.data + c.pos
        nul = <const uint8_t*>memchr(p, 0, c.end - c.pos)
        if nul == NULL:
            skip_string(c)                # sets the error
            return c.error
        length = nul - p
        name = reader.name_of_text(p, length)
        if name == NAME_LIMIT:
            return ERR_STRING_AT
        c.pos += length + 1
    if c.end - c.pos < <uint64_t>shape.fixed:
        skip(c, shape.fixed)
        return c.error
    p = c.data + c.pos
    for i in range(shape.field_count):
        f = &shape.fields[i]
        if f.width == 4:
            memcpy(&four, p + f.offset, 4)
            v[f.slot] = four
        elif f.width == 1:
            v[f.slot] = p[f.offset]
        elif f.width == 2:
            memcpy(&two, p + f.offset, 2)
            v[f.slot] = two
        elif f.width == 8:
            memcpy(&one, p + f.offset, 8)
            v[f.slot] = <int64_t>one
        else:
            v[f.slot] = p[f.offset] | <int64_t>p[f.offset + 1] << 8 | <int64_t>p[f.offset + 2] << 16
    c.pos += shape.fixed
    if shape.name_first:
        v[S_NAME] = name
    elif shape.present & 1:
        if shape.name_role == NAME_STR and reader.own_strings and <uint64_t>v[S_NAME] < NAME_PACKED - 1:
            v[S_NAME] += 1
        else:
            value.kind = V_STRING
            value.value = <uint64_t>v[S_NAME]
            if shape.name_role == NAME_INDEX:
                value.kind = V_STRING_INDEX
            else:
                value.value |= <uint64_t>STR_STR << STR_SHIFT
            v[S_NAME] = reader.name_of(&value)
            if v[S_NAME] == NAME_LIMIT:
                return ERR_STRING_AT
    if shape.present & 2:
        v[S_TYPE] += <int64_t>reader.unit_key
    if shape.what == W_PARAMETER or shape.what == W_FUNCTION:
        if shape.present & 4:
            v[S_A] += <int64_t>reader.unit_key
        if shape.what == W_PARAMETER and shape.present & 8:
            v[S_B] |= <int64_t>LOCATION_LIST << LOCATION_KIND
    elif shape.what == W_VARIABLE:
        if shape.present & 32:
            v[S_D] += <int64_t>reader.unit_key
    elif shape.what == W_SKIP:
        v[S_F] += <int64_t>reader.unit_key
    return 0


cdef int decode_slowly(Collector reader, Shape* shape, int64_t* v) noexcept nogil:
    """The same for attributes of any form and byte order."""
    cdef Cursor* c = &reader.cursor
    cdef Cursor inside
    cdef Op* op
    cdef Value value
    cdef uint32_t i, name
    cdef uint64_t low, high, middle, address
    cdef uint8_t code
    memcpy(v, shape.implicit, SLOTS * 8)
    v[S_ANNOTATION] = 0
    for i in range(shape.op_count):
        op = &reader.shapes.ops[shape.first_op + i]
        if op.skip:
            skip(c, op.skip)
            continue
        if op.slot < 0:
            skip_form(c, reader.unit, op.form, -1)
            continue
        read_form(c, reader.unit, op.form, op.implicit, &value)
        if c.error:
            return c.error
        if op.role == ROLE_NAME:
            name = reader.name_of(&value)
            if name == NAME_LIMIT:
                return ERR_STRING_AT
            v[op.slot] = name
        elif op.slot == S_ANNOTATION and value.kind != V_REF and value.kind != V_ALT_REF:
            return ERR_NOTE
        elif op.role == ROLE_REFERENCE:
            if value.kind == V_REF:
                if value.value > OFFSET_MASK:
                    return ERR_NO_TYPE
                v[op.slot] = <int64_t>((<uint64_t>reader.info_number << KEY_SHIFT) + value.value)
            elif value.kind == V_SIGNATURE:
                low = 0
                high = reader.signature_count
                while low < high:
                    middle = (low + high) >> 1
                    if reader.signatures[2 * middle] < value.value:
                        low = middle + 1
                    else:
                        high = middle
                if low >= reader.signature_count or reader.signatures[2 * low] != value.value:
                    return ERR_SIGNATURE
                v[op.slot] = <int64_t>reader.signatures[2 * low + 1]
            elif value.kind == V_ALT_REF:
                if reader.alternate_number < 0:
                    return ERR_SUPPLEMENT
                if value.value > OFFSET_MASK:
                    return ERR_NO_TYPE
                v[op.slot] = <int64_t>((<uint64_t>reader.alternate_number << KEY_SHIFT) + value.value)
            else:
                return ERR_NO_TYPE
        elif op.role == ROLE_LOCATION:
            if value.value >> LOCATION_LENGTH:
                v[op.slot] = 0
            elif value.kind == V_OFFSET or value.kind == V_UINT:
                v[op.slot] = <int64_t>value.value | <int64_t>LOCATION_LIST << LOCATION_KIND
            elif value.kind == V_LIST_INDEX:
                v[op.slot] = <int64_t>value.value | <int64_t>LOCATION_INDEX << LOCATION_KIND
            elif value.kind == V_BLOCK and value.length <= 0xffff:
                v[op.slot] = (<int64_t>value.value | <int64_t>value.length << LOCATION_LENGTH
                              | <int64_t>LOCATION_BYTES << LOCATION_KIND)
        elif op.role == ROLE_ADDRESS:
            address = <uint64_t>-1
            if value.kind == V_ADDRESS:
                address = value.value
            elif value.kind == V_ADDRESS_INDEX:
                if reader.info.resolve_address(reader.unit, value.value, &address):
                    return ERR_INDEX
            elif value.kind == V_BLOCK and value.length:
                inside = make_cursor(c.data, value.value, value.value + value.length, c.swap)
                code = read_u8(&inside)
                if code == 0x03 and value.length == 1 + <uint64_t>reader.unit.address_size:
                    address = read_uint(&inside, reader.unit.address_size)
                elif code == 0xa1 or code == 0xfb:
                    low = read_uleb(&inside)
                    if not inside.error and inside.pos == inside.end:
                        if reader.info.resolve_address(reader.unit, low, &address):
                            return ERR_INDEX
            v[op.slot] = <int64_t>address
        elif value.kind == V_UINT or value.kind == V_SINT or value.kind == V_FLAG or value.kind == V_OFFSET:
            v[op.slot] = <int64_t>value.value
        elif value.kind == V_BLOCK and shape.what == W_MEMBER and value.length:
            # DWARF 2 and 3 say where a member is by an expression
            inside = make_cursor(c.data, value.value, value.value + value.length, c.swap)
            code = read_u8(&inside)
            if code == 0x23 or code == 0x10:
                v[op.slot] = <int64_t>read_uleb(&inside)
        elif value.kind == V_REF and shape.what == W_SKIP:
            v[op.slot] = <int64_t>((<uint64_t>reader.info_number << KEY_SHIFT) + value.value)
        elif value.kind == V_LIST_INDEX:
            v[op.slot] = 1
    return c.error
