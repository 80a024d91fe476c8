# cython: language_level=3
"""Tables of what stands in arrays: distinct items are numbered from 1 in the order of their adding.

A table has hashes and numbers only. Whoever looks for an item goes from slot to slot and compares the item itself.
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cdef struct Slot:
    uint32_t hash
    uint32_t number          # 0 in a free slot

cdef struct Table:
    Slot* slots              # NULL until something is added
    uint64_t mask
    uint64_t count

cdef inline uint64_t mix(uint64_t hash_, uint64_t value) noexcept nogil:
    """A hash that depends on a value more."""
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15ULL
    return hash_ ^ (hash_ >> 29)

cdef inline uint32_t next_number(const Table* table, uint64_t hash_, uint64_t* at) noexcept nogil:
    """The next number that was added with this hash, 0 if there is none. ``at`` leads on; it begins as the hash."""
    cdef const Slot* slot
    if table.slots == NULL:
        return 0
    while True:
        slot = &table.slots[at[0] & table.mask]
        at[0] += 1
        if slot.number == 0 or slot.hash == <uint32_t>hash_:
            return slot.number

cdef inline void _put(Slot* slots, uint64_t mask, uint64_t hash_, uint32_t number) noexcept nogil:
    cdef uint64_t i = hash_ & mask
    while slots[i].number:
        i = (i + 1) & mask
    slots[i].hash = <uint32_t>hash_
    slots[i].number = number

cdef inline int add_number(Table* table, uint64_t hash_) except -1 nogil:
    """Add the next number, that of the item behind those which have one."""
    cdef uint64_t size, i
    cdef Slot* slots
    if table.slots == NULL or 2 * (table.count + 1) > table.mask:
        size = 2 * (table.mask + 1) if table.slots != NULL else 1024
        slots = <Slot*>calloc(size, sizeof(Slot))
        if slots == NULL:
            with gil:
                raise MemoryError
        if table.slots != NULL:
            for i in range(table.mask + 1):
                if table.slots[i].number:
                    _put(slots, size - 1, table.slots[i].hash, table.slots[i].number)
        free(table.slots)
        table.slots = slots
        table.mask = size - 1
    table.count += 1
    _put(table.slots, table.mask, hash_, <uint32_t>table.count)
    return 0
