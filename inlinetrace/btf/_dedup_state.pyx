# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Candidates by content, in the order in which libbpf tries them, and where the ids and names of a record are.

libbpf keeps the types that stay in a hash table. Those with the same hash are tried newest first, but each time the
table grows their order is reversed. Which of several fitting candidates wins depends on that, so it is imitated: chains
have two ends, and a parity says which of them is the front.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from inlinetrace._arrays cimport grow


cdef int prepare_candidates(Candidates* c, uint32_t end_id) noexcept nogil:
    """Make room for ``end_id`` type ids; -1 without memory."""
    c.chain_room = 1024
    c.mask = 4095
    c.chains = <Chain*>malloc(c.chain_room * sizeof(Chain))
    c.slots = <uint32_t*>calloc(<uint64_t>c.mask + 1, sizeof(uint32_t))
    c.after = <uint32_t*>malloc(<uint64_t>end_id * sizeof(uint32_t))
    c.before = <uint32_t*>malloc(<uint64_t>end_id * sizeof(uint32_t))
    c.order = <uint32_t*>malloc(<uint64_t>end_id * sizeof(uint32_t))
    if c.chains == NULL or c.slots == NULL or c.after == NULL or c.before == NULL or c.order == NULL:
        return -1
    return 0


cdef void free_candidates(Candidates* c) noexcept nogil:
    free(c.chains)
    free(c.slots)
    free(c.after)
    free(c.before)
    free(c.order)
    memset(c, 0, sizeof(Candidates))


cdef int64_t find_chain(const Candidates* c, uint64_t key) noexcept nogil:
    """The number of the chain with this key; -1 if there is none."""
    cdef uint32_t slot = <uint32_t>(key >> 32) & c.mask
    while c.slots[slot]:
        if c.chains[c.slots[slot] - 1].key == key:
            return c.slots[slot] - 1
        slot = (slot + 1) & c.mask
    return -1


cdef int more_slots(Candidates* c) noexcept nogil:
    cdef uint32_t mask = 2 * c.mask + 1, slot, i
    cdef uint32_t* slots = <uint32_t*>calloc(<uint64_t>mask + 1, sizeof(uint32_t))
    if slots == NULL:
        return -1
    for i in range(c.chain_count):
        slot = <uint32_t>(c.chains[i].key >> 32) & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = i + 1
    free(c.slots)
    c.slots = slots
    c.mask = mask
    return 0


cdef int64_t make_chain(Candidates* c, uint64_t key) noexcept nogil:
    """The number of the chain with this key, empty if it is new; -1 without memory."""
    cdef int64_t found = find_chain(c, key)
    cdef uint32_t slot
    if found >= 0:
        return found
    if grow(<void**>&c.chains, &c.chain_room, <uint64_t>c.chain_count + 1, sizeof(Chain)):
        return -1
    if c.chain_count >= c.mask // 2 and more_slots(c) < 0:
        return -1
    slot = <uint32_t>(key >> 32) & c.mask
    while c.slots[slot]:
        slot = (slot + 1) & c.mask
    c.chains[c.chain_count].key = key
    c.chains[c.chain_count].head = c.chains[c.chain_count].tail = 0
    c.chain_count += 1
    c.slots[slot] = c.chain_count
    return c.chain_count - 1


cdef void count_candidate(Candidates* c, uint32_t type_id) noexcept nogil:
    """What libbpf's table does when an entry comes: it has 4, 8, 16 ... buckets and grows when they are 3/4 full."""
    if c.capacity == 0 or (<uint64_t>c.count + 1) * 4 // 3 > c.capacity:
        c.capacity = 4 if c.capacity == 0 else 2 * c.capacity
        c.parity ^= 1
    c.order[type_id] = c.count << 1 | c.parity
    c.count += 1


cdef void link_candidate(Candidates* c, uint32_t chain, uint32_t type_id) noexcept nogil:
    """Put a counted candidate to the front of a chain."""
    cdef Chain* ends = &c.chains[chain]
    c.after[type_id] = c.before[type_id] = 0
    if ends.head == 0:
        ends.head = ends.tail = type_id
    elif c.parity:
        c.before[type_id] = ends.tail
        c.after[ends.tail] = type_id
        ends.tail = type_id
    else:
        c.after[type_id] = ends.head
        c.before[ends.head] = type_id
        ends.head = type_id


cdef void mark_ends(Candidates* c, uint32_t chain, uint32_t type_id) noexcept nogil:
    """As ``link_candidate``, for a chain of which only the front is ever asked for."""
    cdef Chain* ends = &c.chains[chain]
    if ends.head == 0:
        ends.head = ends.tail = type_id
    elif c.parity:
        ends.tail = type_id
    else:
        ends.head = type_id


cdef void fields_of(const Dedup* d, uint32_t type_id, bint rfc, Fields* f) noexcept nogil:
    """Where a record of a kind from 1 to 22 has ids and names, beyond its own name."""
    cdef uint32_t kind = kind_at(d, type_id)
    cdef uint32_t vlen = vlen_at(d, type_id)
    f.fixed = f.element = f.count = 0
    f.name = f.first_id = f.second_id = -1
    f.third_is_id = kind == 2 or 8 <= kind <= 14 or kind == 17 or kind == 18
    if kind == 1 or kind == 14 or kind == 17:
        f.fixed = 1
    elif kind == 3:
        # element type, index type, length
        f.element, f.count, f.first_id, f.second_id = 3, 1, 0, 1
    elif kind == 4 or kind == 5:
        f.element, f.count, f.name, f.first_id = 3, vlen, 0, 1
    elif kind == 6:
        f.element, f.count, f.name = 2, vlen, 0
    elif kind == 13:
        f.element, f.count, f.name, f.first_id = 2, vlen, 0, 1
    elif kind == 15:
        f.element, f.count, f.first_id = 3, vlen, 0
    elif kind == 19:
        f.element, f.count, f.name = 3, vlen, 0
    elif kind == 21:
        f.element, f.count, f.first_id = 1, vlen, 0
        f.third_is_id = rfc
    elif kind == 22 and rfc:
        f.element, f.count, f.name, f.first_id, f.second_id = 4, vlen, 0, 1, 2
    elif kind == 22:
        f.element, f.count, f.first_id, f.second_id = 3, vlen, 0, 1
