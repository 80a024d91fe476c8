# cython: language_level=3
"""Where an address belongs among ascending ones."""
from libc.stdint cimport uint64_t

cdef inline uint64_t count_up_to(const uint64_t* values, uint64_t count, uint64_t value) noexcept nogil:
    """How many of the ascending ``values`` are not above ``value``."""
    cdef uint64_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low
