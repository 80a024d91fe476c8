# cython: language_level=3
"""Arrays that grow."""
from libc.stdint cimport UINT64_MAX, uint64_t
from libc.stdlib cimport realloc

cdef inline int grow(void** array, uint64_t* capacity, uint64_t wanted, size_t item) noexcept nogil:
    """Let an array have room for ``wanted`` items of that size; -1, and nothing changed, without memory.

    It becomes at least twice as long, so that items which are added one by one cost no more than those that are not.
    """
    cdef uint64_t count
    cdef void* moved
    if wanted <= capacity[0]:
        return 0
    if wanted > UINT64_MAX // 2 // item:
        return -1
    count = max(2 * capacity[0], wanted, 64)
    moved = realloc(array[0], count * item)
    if moved == NULL:
        return -1
    array[0] = moved
    capacity[0] = count
    return 0

cdef inline int make_room(void** array, uint64_t* capacity, uint64_t wanted, size_t item) except -1 nogil:
    """The same, but MemoryError."""
    if grow(array, capacity, wanted, item):
        with gil:
            raise MemoryError
    return 0
