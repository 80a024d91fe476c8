# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""In which register a parameter came in, as far as its location says so (DWARF 5 sections 2.6.2 and 7.7.3).

A location that is a register at the function's start says it, and so does DW_OP_entry_value of a register anywhere. For
``consistent_func`` alone: a location that cannot be read says nothing, and is no reason to give up.
"""
from libc.stdint cimport uint8_t, uint64_t

from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_u16, read_u8, read_uint, read_uleb, skip
from inlinetrace.generate._collect cimport Collector
from inlinetrace.generate._shapes cimport LOCATION_BYTES, LOCATION_INDEX, LOCATION_KIND, LOCATION_LENGTH, LOCATION_LIST

cdef enum:
    NOT_SAID = -1
    DECIDED = 0x100      # nothing that follows can change it
    MAX_ENTRIES = 4096

cdef uint64_t OFFSET = (1ULL << 44) - 1


cdef int _of_expression(const uint8_t* data, uint64_t length, bint first) noexcept nogil:
    """The register that an expression is, NOT_SAID if it is none."""
    cdef Cursor c
    cdef uint8_t code
    cdef uint64_t inner
    if length > 1 and data[length - 1] == 0x9f:
        length -= 1                           # DW_OP_stack_value
    if length == 0:
        return NOT_SAID
    code = data[0]
    if 0x50 <= code <= 0x6f:
        return code - 0x50 if first and length == 1 else NOT_SAID
    if code == 0xa3 or code == 0xf3:
        c = make_cursor(data, 1, length, False)
        inner = read_uleb(&c)
        if not c.error and inner == 1 and c.end - c.pos == 1 and 0x50 <= data[c.pos] <= 0x6f:
            return (data[c.pos] - 0x50) | DECIDED
    return NOT_SAID


cdef int _of_list(Collector col, Cursor* c, int expected) noexcept nogil:
    cdef int found = NOT_SAID, number = 0, one, entries
    cdef uint8_t kind
    cdef uint64_t length, begin, end, size = col.unit.address_size
    cdef bint old = col.unit.version < 5
    for entries in range(MAX_ENTRIES):
        if old:
            begin = read_uint(c, <unsigned>size)
            end = read_uint(c, <unsigned>size)
            if c.error or (begin == 0 and end == 0):
                break
            if begin == <uint64_t>-1 or (size == 4 and begin == 0xffffffffU):
                continue
            length = read_u16(c)
        else:
            kind = read_u8(c)
            if c.error or kind == 0 or kind > 9:
                break
            if kind == 1:
                read_uleb(c)
                continue
            if kind == 6:
                skip(c, size)
                continue
            if kind == 7 or kind == 8:
                skip(c, size)
                if kind == 7:
                    skip(c, size)
                else:
                    read_uleb(c)
            elif kind != 5:
                read_uleb(c)
                read_uleb(c)
                if kind == 9:
                    continue
            length = read_uleb(c)
        if c.error or length > c.end - c.pos:
            break
        one = _of_expression(c.data + c.pos, length, number == 0)
        c.pos += length
        number += 1
        if one == NOT_SAID:
            continue
        found = one & 0xff
        if one & DECIDED or found == expected:
            break
    return found


cdef int register_at_entry(Collector col, uint64_t location, int expected) noexcept nogil:
    """DWARF number of the register that a parameter comes in; NOT_SAID (-1) if its location does not say."""
    cdef uint64_t kind = location >> LOCATION_KIND, offset = location & OFFSET, size = col.unit.offset_size
    cdef Cursor c
    cdef int found
    if kind == LOCATION_BYTES:
        if offset > col.info.size or ((location >> LOCATION_LENGTH) & 0xffff) > col.info.size - offset:
            return NOT_SAID
        found = _of_expression(col.info.data + offset, (location >> LOCATION_LENGTH) & 0xffff, True)
        return found if found < 0 else found & 0xff
    if kind == LOCATION_INDEX:
        if col.unit.loclists_base > col.loclists_size or offset >= col.loclists_size:
            return NOT_SAID
        c = make_cursor(col.loclists, col.unit.loclists_base + offset * size, col.loclists_size, col.info.swap)
        offset = read_uint(&c, <unsigned>size) + col.unit.loclists_base
        if c.error:
            return NOT_SAID
    elif kind != LOCATION_LIST:
        return NOT_SAID
    if col.unit.version < 5:
        c = make_cursor(col.locations, offset, col.locations_size, col.info.swap)
    else:
        c = make_cursor(col.loclists, offset, col.loclists_size, col.info.swap)
    return NOT_SAID if c.error else _of_list(col, &c, expected)
