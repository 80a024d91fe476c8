# cython: language_level=3
"""Hash-consed records: two type records with the same words are one node, so that equal types have equal numbers.

A record is an array of 32-bit words: a head (kind, kind_flag, vlen), a name, a reference or size, then what the kind
adds, in the order of a BTF record. Equality is decided by all words; hashes only find candidates.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport inlinetrace_likely

cdef enum:
    B_INT = 1
    B_PTR = 2
    B_ARRAY = 3
    B_STRUCT = 4
    B_UNION = 5
    B_ENUM = 6
    B_FWD = 7
    B_TYPEDEF = 8
    B_VOLATILE = 9
    B_CONST = 10
    B_RESTRICT = 11
    B_FUNC = 12
    B_FUNC_PROTO = 13
    B_VAR = 14
    B_DATASEC = 15
    B_FLOAT = 16
    B_DECL_TAG = 17
    B_TYPE_TAG = 18
    B_ENUM64 = 19

# The head of a record: kind in bits 0-5, kind_flag in bit 6, vlen from bit 8 on.
cdef enum:
    HEAD_FLAG = 64
    HEAD_VLEN = 8
    MAX_VLEN = 0xffff

# A reference is a node number, or a named struct or union that is meant by its name alone.
cdef enum:
    TAG = 0x80000000
    TAG_UNION = 0x40000000
    TAG_NAME = 0x3fffffff

cdef inline uint32_t head_kind(uint32_t head) noexcept nogil:
    return head & 63

cdef inline uint32_t head_vlen(uint32_t head) noexcept nogil:
    return head >> HEAD_VLEN

cdef inline uint32_t record_words(uint32_t head) noexcept nogil:
    """Number of words of a record, from its head."""
    cdef uint32_t kind = head & 63
    if kind == B_STRUCT or kind == B_UNION or kind == B_ENUM64 or kind == B_ENUM:
        return 3 + 3 * (head >> HEAD_VLEN)
    if kind == B_FUNC_PROTO:
        return 3 + 2 * (head >> HEAD_VLEN)
    if kind == B_ARRAY or kind == B_INT or kind == B_DECL_TAG or kind == B_VAR:
        return 4
    return 3

cdef struct Store:
    uint32_t* words          # all records, one after the other
    uint64_t used
    uint64_t capacity
    uint32_t* start          # node -> its first word
    uint32_t* hashes
    uint32_t* following      # node -> the one that came after it last time
    uint32_t count           # nodes are numbered from 1
    uint32_t node_capacity
    uint32_t* table
    uint32_t mask
    uint32_t last

cdef inline uint32_t hash_words(const uint32_t* words, uint32_t n) noexcept nogil:
    cdef uint64_t h = <uint64_t>0x9e3779b97f4a7c15 ^ n
    cdef uint64_t two
    cdef uint32_t i = 0
    while i + 1 < n:
        memcpy(&two, words + i, 8)
        h = (h ^ two) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 32
        i += 2
    if i < n:
        h = (h ^ words[i]) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 29
    h *= <uint64_t>0xc4ceb9fe1a85ec53
    return <uint32_t>(h >> 32)

cdef int store_init(Store* s) noexcept nogil
cdef int store_copy(Store* s, const Store* other) noexcept nogil
cdef void store_free(Store* s) noexcept nogil
cdef uint32_t store_lookup(Store* s, const uint32_t* words, uint32_t n) noexcept nogil
cdef uint32_t store_find(Store* s, const uint32_t* words, uint32_t n) noexcept nogil

cdef inline uint32_t store_intern(Store* s, const uint32_t* words, uint32_t n) noexcept nogil:
    """The node of these words, made if it is new; 0 without memory.

    Units repeat each other's types in the same order, so what followed last time is tried first.
    """
    cdef uint32_t node = s.following[s.last]
    if node and memcmp(s.words + s.start[node], words, n * 4) == 0:
        s.last = node
        return node
    node = store_lookup(s, words, n)
    s.following[s.last] = node
    s.last = node
    return node

# Distinct byte strings; they stay where they are. Number 0 is the empty one.
cdef struct Names:
    const uint8_t** at
    uint32_t* length
    uint32_t* hashes
    uint32_t count
    uint32_t capacity
    uint32_t* table
    uint32_t mask

cdef int names_init(Names* n) noexcept nogil
cdef int names_copy(Names* n, const Names* other) noexcept nogil
cdef void names_free(Names* n) noexcept nogil
cdef uint32_t names_intern(Names* n, const uint8_t* text, uint32_t length) noexcept nogil
cdef uint32_t names_find(Names* n, const uint8_t* text, uint32_t length) noexcept nogil

cdef int copy_array(void** array, const void* other, uint64_t count, size_t item) noexcept nogil

cdef inline int room(void** array, uint64_t* capacity, uint64_t count, size_t item) noexcept nogil:
    """Make room for one more item at the end of an array; -1 without memory."""
    if inlinetrace_likely(count < capacity[0]):
        return 0
    if count >= 0x0ffffff0:
        return -1
    return grow(array, capacity, count + 1, item)

cdef struct Words:
    uint32_t* v
    uint64_t n
    uint64_t capacity

cdef inline int push(Words* w, uint32_t value) noexcept nogil:
    if grow(<void**>&w.v, &w.capacity, w.n + 1, 4):
        return -1
    w.v[w.n] = value
    w.n += 1
    return 0

cdef inline int reserve(Words* w, uint64_t more) noexcept nogil:
    return grow(<void**>&w.v, &w.capacity, w.n + more, 4)
