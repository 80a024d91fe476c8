# cython: language_level=3
from libc.stdint cimport uint8_t, uint64_t

from inlinetrace.dwarf._forms cimport UnitHeader, Value

cdef class Info:
    cdef readonly object path
    cdef readonly str section
    cdef readonly bint swap
    cdef readonly bint is_dwo
    cdef readonly bint discards_at_zero
    cdef readonly object alternate          # Info of the supplementary file, or None
    cdef const uint8_t[::1] info, abbrev, strings, line_strings, str_offsets, addresses, rnglists, loclists
    cdef const uint8_t[::1] ranges, locations
    cdef const uint8_t* data
    cdef uint64_t size
    cdef UnitHeader* headers
    cdef readonly Py_ssize_t count
    cdef dict signatures                    # type signature -> offset of the type DIE

    cdef int resolve_address(self, UnitHeader* unit, uint64_t index, uint64_t* address) noexcept nogil
    cdef int resolve_string(self, UnitHeader* unit, Value* value) noexcept nogil
    cdef const uint8_t* string_at(self, uint64_t packed, size_t* length) noexcept nogil
    cdef Py_ssize_t unit_index(self, uint64_t offset) noexcept nogil

cdef const uint8_t* start_of(const uint8_t[::1] view) noexcept
cdef str describe(int error)
