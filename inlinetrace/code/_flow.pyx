# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Where control can go inside of a set of ranges: whether an address is met again, and which ranges are entered.

The jumps are those of inlinetrace.code.analysis as parallel arrays. Straight-line code is taken to fall through
everywhere, so what is found reachable may not be; what is found unreachable is not.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc


cdef Py_ssize_t _first_not_below(const uint64_t[::1] values, uint64_t wanted) noexcept nogil:
    cdef Py_ssize_t low = 0, high = values.shape[0], middle
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def is_target(const uint64_t[::1] targets, uint64_t address):
    """Whether ``address`` is in the ascending ``targets``."""
    cdef Py_ssize_t at = _first_not_below(targets, address)
    return at < targets.shape[0] and targets[at] == address


def is_met_again(const uint64_t[::1] sources, const uint64_t[::1] targets, list ranges, uint64_t address):
    """Whether control that starts at ``address`` and stays inside of ``ranges`` can come back to it.

    ``sources`` ascend, ``targets`` belong to them. The jump that leads back must stand inside of the ranges; the
    address itself may lie outside of them.
    """
    cdef Py_ssize_t count = len(ranges), i, j, k, first
    cdef uint64_t target
    cdef uint64_t* begin
    cdef uint64_t* end
    cdef uint64_t* reached
    cdef bint changed = True, inside = False, found = False
    if count == 0:
        return False
    begin = <uint64_t*>malloc(3 * count * sizeof(uint64_t))
    if begin == NULL:
        raise MemoryError
    end = begin + count
    reached = end + count
    for i in range(count):
        begin[i] = ranges[i][0]
        end[i] = ranges[i][1]
        reached[i] = end[i]
        if begin[i] <= address < end[i]:
            reached[i] = address
            inside = True
    if not inside:
        # the entry lies before its code: all of it counts as reached
        for i in range(count):
            reached[i] = begin[i]
    while changed and not found:
        changed = False
        for i in range(count):
            if reached[i] >= end[i]:
                continue
            first = _first_not_below(sources, reached[i])
            for k in range(first, sources.shape[0]):
                if sources[k] >= end[i]:
                    break
                target = targets[k]
                if target == address:
                    found = True
                    break
                for j in range(count):
                    if begin[j] <= target < reached[j] and target < end[j]:
                        reached[j] = target
                        changed = True
                        if target <= address < end[j]:
                            found = True
                        break
            if found:
                break
            # falling through into the next range
            for j in range(count):
                if begin[j] == end[i] and reached[j] > begin[j] and end[j] > begin[j]:
                    reached[j] = begin[j]
                    changed = True
                    if begin[j] <= address < end[j]:
                        found = True
    free(begin)
    return found


def entered_ranges(const uint64_t[::1] targets, const uint64_t[::1] sources, list ranges, uint64_t address):
    """How many ranges that do not hold ``address`` begin at the target of a jump from outside of all ranges.

    ``targets`` ascend, ``sources`` belong to them.
    """
    cdef Py_ssize_t k
    cdef uint64_t begin, end, source
    cdef bint outside
    entered = 0
    for begin, end in ranges:
        if begin >= end or begin <= address < end:
            continue
        k = _first_not_below(targets, begin)
        while k < targets.shape[0] and targets[k] == begin:
            source = sources[k]
            outside = True
            for other_begin, other_end in ranges:
                if other_begin <= source < other_end:
                    outside = False
                    break
            if outside:
                entered += 1
                break
            k += 1
    return entered
