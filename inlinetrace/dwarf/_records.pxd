# cython: language_level=3
from libc.stdint cimport int64_t, uint32_t, uint64_t

from inlinetrace.dwarf._ranges cimport RangeReader
from inlinetrace.dwarf._scan cimport Chunk
from inlinetrace.dwarf._units cimport Info

cdef class SiteEntry:
    cdef readonly uint64_t die, origin, address
    cdef readonly uint32_t unit, view, call_file, call_line, call_column
    cdef readonly int64_t parent_site, parent_function
    cdef readonly bint has_entry, has_address, alternate_origin

cdef class FunctionEntry:
    cdef readonly uint64_t id, die, origin, address
    cdef readonly uint32_t unit
    cdef readonly bint has_address, alternate_origin, declaration, abstract, external
    cdef readonly object name, linkage_name, frame_base

cdef class Records:
    cdef readonly Info info
    cdef Info alternate                     # of the supplementary file, or None
    cdef readonly list chunks
    cdef RangeReader lists

    cdef bint _equal(self, uint64_t reference, const unsigned char* text, size_t length) noexcept nogil
    cdef Chunk chunk_for(self, uint64_t id_)
    cdef int address_of(self, uint64_t id_, bint of_site, uint64_t* address) except -1
    cpdef FunctionEntry function(self, uint64_t id_)
