# cython: language_level=3
"""Bounds-checked reading, shared by all compiled readers of this package.

A Cursor walks one section. Every read checks its bounds; the first one that fails sets ``error`` (sticky), remembers
where in ``error_at``, and moves the cursor to its end, so a loop over ``pos < end`` stops by itself. Callers look at
``error`` once per record and raise with ``error_text(error)`` when they hold the GIL again.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

cdef extern from *:
    """
    #define inlinetrace_swap16(x) __builtin_bswap16(x)
    #define inlinetrace_swap32(x) __builtin_bswap32(x)
    #define inlinetrace_swap64(x) __builtin_bswap64(x)
    #define inlinetrace_likely(x) __builtin_expect(!!(x), 1)
    """
    uint16_t inlinetrace_swap16(uint16_t) noexcept nogil
    uint32_t inlinetrace_swap32(uint32_t) noexcept nogil
    uint64_t inlinetrace_swap64(uint64_t) noexcept nogil
    bint inlinetrace_likely(bint) noexcept nogil

cdef enum:
    ERR_NONE = 0
    ERR_END = 1          # the data end inside a record
    ERR_LEB = 2          # a LEB128 number longer than 64 bits
    ERR_STRING = 3       # a string without its NUL
    ERR_SIZE = 4         # a field of a size that cannot be

cdef struct Cursor:
    const uint8_t* data  # start of the section
    uint64_t pos         # offset of the next byte
    uint64_t end         # first offset that must not be read
    uint64_t error_at
    int error
    bint swap            # the data have the other byte order than this machine

cdef inline Cursor make_cursor(const uint8_t* data, uint64_t pos, uint64_t end, bint swap) noexcept nogil:
    cdef Cursor c
    c.data = data
    c.pos = pos
    c.end = end
    c.error = ERR_NONE
    c.error_at = 0
    c.swap = swap
    if pos > end:
        c.error = ERR_END
        c.error_at = pos
        c.pos = end
    return c

cdef inline void fail(Cursor* c, int error) noexcept nogil:
    if c.error == ERR_NONE:
        c.error = error
        c.error_at = c.pos
    c.pos = c.end

cdef inline bint has(Cursor* c, uint64_t n) noexcept nogil:
    if inlinetrace_likely(c.end - c.pos >= n):
        return True
    fail(c, ERR_END)
    return False

cdef inline void skip(Cursor* c, uint64_t n) noexcept nogil:
    if has(c, n):
        c.pos += n

cdef inline uint8_t read_u8(Cursor* c) noexcept nogil:
    if not has(c, 1):
        return 0
    c.pos += 1
    return c.data[c.pos - 1]

cdef inline uint16_t read_u16(Cursor* c) noexcept nogil:
    cdef uint16_t v = 0
    if has(c, 2):
        memcpy(&v, c.data + c.pos, 2)
        c.pos += 2
    return inlinetrace_swap16(v) if c.swap else v

cdef inline uint32_t read_u32(Cursor* c) noexcept nogil:
    cdef uint32_t v = 0
    if has(c, 4):
        memcpy(&v, c.data + c.pos, 4)
        c.pos += 4
    return inlinetrace_swap32(v) if c.swap else v

cdef inline uint64_t read_u64(Cursor* c) noexcept nogil:
    cdef uint64_t v = 0
    if has(c, 8):
        memcpy(&v, c.data + c.pos, 8)
        c.pos += 8
    return inlinetrace_swap64(v) if c.swap else v

cdef inline uint64_t read_uint(Cursor* c, unsigned size) noexcept nogil:
    """Unsigned number of 0 to 8 bytes."""
    cdef uint64_t v = 0
    cdef unsigned i
    if size == 4:
        return read_u32(c)
    if size == 8:
        return read_u64(c)
    if size == 1:
        return read_u8(c)
    if size == 2:
        return read_u16(c)
    if size > 8:
        fail(c, ERR_SIZE)
        return 0
    if not has(c, size):
        return 0
    for i in range(size):
        v |= <uint64_t>c.data[c.pos + i] << (8 * (i if host_is_little() != c.swap else size - 1 - i))
    c.pos += size
    return v

cdef inline bint host_is_little() noexcept nogil:
    cdef uint16_t one = 1
    return (<uint8_t*>&one)[0] == 1

cdef inline uint64_t read_uleb(Cursor* c) noexcept nogil:
    cdef uint64_t result
    cdef unsigned shift = 7
    cdef uint8_t byte
    if not has(c, 1):
        return 0
    result = c.data[c.pos]
    c.pos += 1
    if inlinetrace_likely(result < 0x80):
        return result
    result &= 0x7f
    while True:
        if not has(c, 1):
            return 0
        byte = c.data[c.pos]
        c.pos += 1
        if shift < 64:
            if shift == 63 and (byte & 0x7e):
                fail(c, ERR_LEB)
                return 0
            result |= <uint64_t>(byte & 0x7f) << shift
        elif byte & 0x7f:
            fail(c, ERR_LEB)
            return 0
        shift += 7
        if byte < 0x80:
            return result

cdef inline int64_t read_sleb(Cursor* c) noexcept nogil:
    cdef uint64_t result = 0
    cdef unsigned shift = 0
    cdef uint8_t byte
    while True:
        if not has(c, 1):
            return 0
        byte = c.data[c.pos]
        c.pos += 1
        if shift < 64:
            result |= <uint64_t>(byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            break
    if shift < 64 and byte & 0x40:
        result |= (<uint64_t>0xffffffffffffffff) << shift
    return <int64_t>result

cdef inline void skip_leb(Cursor* c) noexcept nogil:
    while c.pos < c.end:
        c.pos += 1
        if c.data[c.pos - 1] < 0x80:
            return
    fail(c, ERR_END)

cdef inline void skip_string(Cursor* c) noexcept nogil:
    cdef const uint8_t* nul = <const uint8_t*>memchr(c.data + c.pos, 0, c.end - c.pos)
    if nul == NULL:
        fail(c, ERR_STRING)
    else:
        c.pos = (nul - c.data) + 1

cdef inline str error_text(int error):
    if error == ERR_END:
        return "the data end inside a record: the file is truncated or damaged"
    if error == ERR_LEB:
        return "a LEB128 number has more than 64 bits"
    if error == ERR_STRING:
        return "a string has no end"
    return "a field has an impossible size"
