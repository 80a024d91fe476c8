# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t

from inlinetrace.dwarf._lists cimport Entries
from inlinetrace.dwarf._units cimport Info

cdef class RangeReader:
    cdef Info info
    cdef Entries found           # of the list that was read last; for location lists too
    cdef uint64_t work, most_work

    cdef int charge(self, uint64_t count) except -1 nogil
    cdef int read(self, uint32_t unit, uint64_t ranges, uint32_t flags) except -1 nogil
    cdef int first_address(self, uint32_t unit, uint64_t entry, uint64_t low, uint64_t ranges, uint32_t flags,
                           uint64_t* address) except -1 nogil
