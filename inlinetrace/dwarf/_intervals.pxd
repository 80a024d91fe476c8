# cython: language_level=3
"""Intervals of addresses that may overlap, made into segments that do not, so that every look-up is one binary search.

Where intervals overlap, the one with the greatest start counts (the last of several with one start): what linkers leave
of dropped functions begins at address 0 and must not hide real code. A damaged table can have any number of overlaps;
the segments are at most twice as many as the intervals, and time is linear after sorting.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc

from inlinetrace.elf._search cimport count_items

cdef struct Interval:
    uint64_t low
    uint64_t high        # exclusive
    uint64_t index       # of the owner's record

cdef inline Interval* make_segments(const Interval* intervals, uint64_t count, uint64_t* n_segments) noexcept nogil:
    """Segments of ``intervals``, which are sorted by start; to be freed. NULL: no memory."""
    cdef Interval* segments = <Interval*>malloc((2 * count + 1) * sizeof(Interval))
    cdef uint64_t* open_ones = <uint64_t*>malloc((count + 1) * sizeof(uint64_t))
    cdef uint64_t i, depth = 0, at = 0, end, n = 0
    cdef const Interval* top
    if segments == NULL or open_ones == NULL:
        free(segments)
        free(open_ones)
        return NULL
    for i in range(count + 1):
        if i < count and intervals[i].low >= intervals[i].high:
            continue
        while depth:
            top = &intervals[open_ones[depth - 1]]
            if top.high <= at:
                depth -= 1
                continue
            end = top.high
            if i < count and intervals[i].low < end:
                end = intervals[i].low
            if at < end:
                segments[n] = top[0]
                segments[n].low = at
                segments[n].high = end
                n += 1
                at = end
            if end < top.high:
                break
            depth -= 1
        if i < count:
            open_ones[depth] = i
            depth += 1
            at = intervals[i].low
    free(open_ones)
    n_segments[0] = n
    return segments

cdef inline const Interval* find_segment(const Interval* segments, uint64_t count, uint64_t address) noexcept nogil:
    """The segment that contains the address; NULL if there is none."""
    cdef uint64_t begun = count_items(&segments[0].low, sizeof(Interval), count, address)
    if begun and address < segments[begun - 1].high:
        return &segments[begun - 1]
    return NULL
