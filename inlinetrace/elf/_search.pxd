# cython: language_level=3
"""Where a number belongs among ascending ones."""
from libc.stdint cimport uint64_t

cdef inline uint64_t count_items(const uint64_t* first, size_t size, uint64_t count, uint64_t value) noexcept nogil:
    """How many of ``count`` items of ``size`` bytes have a number not above ``value``.

    They ascend by that number; ``first`` is where the first one has it.
    """
    cdef uint64_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if (<const uint64_t*>(<const char*>first + middle * size))[0] <= value:
            low = middle + 1
        else:
            high = middle
    return low

cdef inline uint64_t count_up_to(const uint64_t* values, uint64_t count, uint64_t value) noexcept nogil:
    """How many of the ascending ``values`` are not above ``value``."""
    return count_items(values, sizeof(uint64_t), count, value)

cdef inline bint is_among(const uint64_t* values, uint64_t count, uint64_t value) noexcept nogil:
    """Whether ``value`` is one of the ascending ``values``."""
    cdef uint64_t behind = count_up_to(values, count, value)
    return behind != 0 and values[behind - 1] == value
