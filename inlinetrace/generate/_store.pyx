# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""The tables behind _store.pxd: nodes by their words, names by their bytes. All of it runs without the GIL."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from inlinetrace._arrays cimport grow

cdef enum:
    # what still fits a reference word beside the tag bits
    MAX_NODES = 0x7ffffff0


cdef int store_init(Store* s) noexcept nogil:
    memset(s, 0, sizeof(Store))
    s.mask = (1 << 12) - 1
    s.table = <uint32_t*>calloc(<size_t>s.mask + 1, 4)
    s.node_capacity = 1 << 11
    s.start = <uint32_t*>calloc(s.node_capacity, 4)
    s.hashes = <uint32_t*>calloc(s.node_capacity, 4)
    s.following = <uint32_t*>calloc(s.node_capacity, 4)
    if s.table == NULL or s.start == NULL or s.hashes == NULL or s.following == NULL:
        return -1
    if grow(<void**>&s.words, &s.capacity, 1 << 14, 4):
        return -1
    # node 0 is void
    s.count = 1
    return 0


cdef void store_free(Store* s) noexcept nogil:
    free(s.words)
    free(s.start)
    free(s.hashes)
    free(s.following)
    free(s.table)
    memset(s, 0, sizeof(Store))


cdef int copy_array(void** array, const void* other, uint64_t count, size_t item) noexcept nogil:
    """Put a copy of the ``count`` items of another array in the place of one; -1 without memory."""
    cdef void* made
    free(array[0])
    array[0] = NULL
    if other == NULL:
        return 0
    made = malloc(max(count, <uint64_t>1) * item)
    if made == NULL:
        return -1
    memcpy(made, other, count * item)
    array[0] = made
    return 0


cdef int store_copy(Store* s, const Store* other) noexcept nogil:
    """Make a store that has been initialised like another one; -1 without memory."""
    s.used = other.used
    s.capacity = other.capacity
    s.count = other.count
    s.node_capacity = other.node_capacity
    s.mask = other.mask
    s.last = other.last
    # what lies behind the last record is compared with before it is known to be one
    if copy_array(<void**>&s.words, other.words, other.capacity, 4):
        return -1
    if copy_array(<void**>&s.start, other.start, other.node_capacity, 4) \
            or copy_array(<void**>&s.hashes, other.hashes, other.node_capacity, 4) \
            or copy_array(<void**>&s.following, other.following, other.node_capacity, 4):
        return -1
    return copy_array(<void**>&s.table, other.table, <uint64_t>other.mask + 1, 4)


cdef int names_copy(Names* n, const Names* other) noexcept nogil:
    """Make names that have been initialised like others, whose bytes they share; -1 without memory."""
    n.count = other.count
    n.capacity = other.capacity
    n.mask = other.mask
    if copy_array(<void**>&n.at, other.at, other.capacity, sizeof(void*)) \
            or copy_array(<void**>&n.length, other.length, other.capacity, 4) \
            or copy_array(<void**>&n.hashes, other.hashes, other.capacity, 4):
        return -1
    return copy_array(<void**>&n.table, other.table, <uint64_t>other.mask + 1, 4)


cdef inline int _resize(void** array, uint64_t wanted, size_t item) noexcept nogil:
    cdef void* moved = realloc(array[0], wanted * item)
    if moved == NULL:
        return -1
    array[0] = moved
    return 0


cdef int _rebuild(uint32_t** table, uint32_t* mask, uint64_t size, const uint32_t* hashes, uint32_t count) noexcept nogil:
    """Make a table of ``size`` slots with the numbers from 1 to below ``count``."""
    cdef uint32_t* slots = <uint32_t*>calloc(size, 4)
    cdef uint32_t i
    cdef uint64_t k
    if slots == NULL:
        return -1
    free(table[0])
    table[0] = slots
    mask[0] = <uint32_t>(size - 1)
    for i in range(1, count):
        k = hashes[i] & mask[0]
        while slots[k]:
            k = (k + 1) & mask[0]
        slots[k] = i
    return 0


cdef int _more_nodes(Store* s) noexcept nogil:
    cdef uint64_t wanted = <uint64_t>s.node_capacity * 2
    if wanted > MAX_NODES:
        return -1
    if _resize(<void**>&s.start, wanted, 4) or _resize(<void**>&s.hashes, wanted, 4) \
            or _resize(<void**>&s.following, wanted, 4):
        return -1
    s.node_capacity = <uint32_t>wanted
    return _rebuild(&s.table, &s.mask, wanted * 2, s.hashes, s.count)


cdef inline uint64_t _slot_of_node(Store* s, const uint32_t* words, uint32_t n, uint32_t h) noexcept nogil:
    """The slot that has the node of these words, or the free one where it belongs."""
    cdef uint64_t k = h & s.mask
    cdef uint32_t node
    while True:
        node = s.table[k]
        if node == 0:
            return k
        # a different head is a different size: the first words decide before the rest is looked at
        if s.hashes[node] == h and s.words[s.start[node]] == words[0] and memcmp(s.words + s.start[node], words, n * 4) == 0:
            return k
        k = (k + 1) & s.mask


cdef uint32_t store_find(Store* s, const uint32_t* words, uint32_t n) noexcept nogil:
    """The node of these words, 0 if there is none."""
    return s.table[_slot_of_node(s, words, n, hash_words(words, n))]


cdef uint32_t store_lookup(Store* s, const uint32_t* words, uint32_t n) noexcept nogil:
    cdef uint32_t h = hash_words(words, n)
    cdef uint64_t k = _slot_of_node(s, words, n, h)
    cdef uint32_t node
    if s.table[k]:
        return s.table[k]
    if s.count == s.node_capacity:
        if _more_nodes(s):
            return 0
        k = _slot_of_node(s, words, n, h)
    # store_intern compares as many words as a candidate of another kind may have: never beyond the array
    if s.used + n + 3 * <uint64_t>MAX_VLEN + 8 > s.capacity:
        if s.used + n > 0xfffffff0U or grow(<void**>&s.words, &s.capacity, s.used + n + 3 * <uint64_t>MAX_VLEN + 8, 4):
            return 0
    node = s.count
    memcpy(s.words + s.used, words, <size_t>n * 4)
    s.start[node] = <uint32_t>s.used
    s.used += n
    s.hashes[node] = h
    s.following[node] = 0
    s.table[k] = node
    s.count += 1
    return node


cdef int names_init(Names* n) noexcept nogil:
    memset(n, 0, sizeof(Names))
    n.capacity = 1 << 10
    n.mask = 2 * n.capacity - 1
    n.at = <const uint8_t**>calloc(n.capacity, sizeof(void*))
    n.length = <uint32_t*>calloc(n.capacity, 4)
    n.hashes = <uint32_t*>calloc(n.capacity, 4)
    n.table = <uint32_t*>calloc(<size_t>n.mask + 1, 4)
    if n.at == NULL or n.length == NULL or n.hashes == NULL or n.table == NULL:
        return -1
    n.count = 1
    return 0


cdef void names_free(Names* n) noexcept nogil:
    free(n.at)
    free(n.length)
    free(n.hashes)
    free(n.table)
    memset(n, 0, sizeof(Names))


cdef inline uint32_t _hash_text(const uint8_t* text, uint32_t length) noexcept nogil:
    cdef uint64_t h = <uint64_t>0x9e3779b97f4a7c15 ^ length
    cdef uint64_t eight
    cdef uint32_t i = 0
    while i + 8 <= length:
        memcpy(&eight, text + i, 8)
        h = (h ^ eight) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 32
        i += 8
    if i < length:
        eight = 0
        memcpy(&eight, text + i, length - i)
        h = (h ^ eight) * <uint64_t>0xff51afd7ed558ccd
        h ^= h >> 29
    h *= <uint64_t>0xc4ceb9fe1a85ec53
    return <uint32_t>(h >> 32)


cdef int _more_names(Names* n) noexcept nogil:
    cdef uint64_t wanted = <uint64_t>n.capacity * 2
    if wanted > 0x1e000000:
        return -1
    if _resize(<void**>&n.at, wanted, sizeof(void*)) or _resize(<void**>&n.length, wanted, 4) \
            or _resize(<void**>&n.hashes, wanted, 4):
        return -1
    n.capacity = <uint32_t>wanted
    return _rebuild(&n.table, &n.mask, wanted * 2, n.hashes, n.count)


cdef inline uint64_t _slot_of_name(Names* n, const uint8_t* text, uint32_t length, uint32_t h) noexcept nogil:
    """The slot that has a name, or the free one where it belongs."""
    cdef uint64_t k = h & n.mask
    cdef uint32_t number
    while True:
        number = n.table[k]
        if number == 0:
            return k
        if n.hashes[number] == h and n.length[number] == length and memcmp(n.at[number], text, length) == 0:
            return k
        k = (k + 1) & n.mask


cdef uint32_t names_find(Names* n, const uint8_t* text, uint32_t length) noexcept nogil:
    """Number of a name, 0 if it is empty or not there."""
    if length == 0:
        return 0
    return n.table[_slot_of_name(n, text, length, _hash_text(text, length))]


cdef uint32_t names_intern(Names* n, const uint8_t* text, uint32_t length) noexcept nogil:
    """Number of a name, made if it is new; 0 for the empty one, 0xffffffffU without memory. ``text`` has to stay."""
    cdef uint32_t h, number
    cdef uint64_t k
    if length == 0:
        return 0
    h = _hash_text(text, length)
    k = _slot_of_name(n, text, length, h)
    if n.table[k]:
        return n.table[k]
    if n.count == n.capacity:
        if _more_names(n):
            return 0xffffffffU
        k = _slot_of_name(n, text, length, h)
    number = n.count
    n.at[number] = text
    n.length[number] = length
    n.hashes[number] = h
    n.table[k] = number
    n.count += 1
    return number
