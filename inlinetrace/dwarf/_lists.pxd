# cython: language_level=3
from libc.stdint cimport uint64_t

from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._lines cimport LineProgram
from inlinetrace.dwarf._units cimport Info

cdef enum:
    LINES_NEEDED = 48            # of live_entry: decode the line table and ask again

cdef struct Entry:
    uint64_t begin, end          # addresses
    uint64_t begin_view, end_view
    uint64_t expression          # offset of the operations in the section of the list
    uint64_t length
    int is_default               # 1 for DW_LLE_default_location, 2 for a view pair that bounds the next entry

cdef struct Entries:
    Entry* items
    uint64_t count
    uint64_t capacity
    bint viewed                  # view pairs bound them

cdef int read_locations(Info info, UnitHeader* unit, uint64_t offset, uint64_t views, Entries* out,
                        uint64_t* error_at) noexcept nogil
cdef int read_ranges(Info info, UnitHeader* unit, uint64_t offset, Entries* out, uint64_t* error_at) noexcept nogil
cdef int resolve_list(Info info, UnitHeader* unit, uint64_t index, bint locations, uint64_t* offset) noexcept nogil
cdef raise_list_error(Info info, int error, bint v5, bint locations, uint64_t offset)
cdef int live_entry(Info info, UnitHeader* unit, Entries* found, uint64_t offset, uint64_t views, uint64_t pc,
                    uint64_t view, LineProgram lines, Entry* live, bint* is_live, bint* empty,
                    uint64_t* error_at) noexcept nogil
cdef int find_live(Info info, UnitHeader* unit, Entries* found, uint64_t offset, uint64_t views, uint64_t pc,
                   uint64_t view, LineProgram lines, Entry* live, bint* empty) except -1
