# cython: language_level=3
"""Declarations of the compiled line table reader, for other compiled modules that query it without the GIL."""
from libc.stdint cimport uint32_t, uint64_t

from inlinetrace.dwarf._cursor cimport Cursor
from inlinetrace.dwarf._line_rows cimport LineRow, LineRows, Run

cdef struct Name:
    uint64_t value       # offset, or index for STRING_INDEX
    uint64_t directory
    int kind

cdef class LineProgram(LineRows):
    cdef bint _named
    cdef Name* _directories
    cdef Name* _files
    cdef uint64_t _n_directories
    cdef uint64_t _n_files
    cdef bint has_row_at(self, uint64_t address, uint32_t view) noexcept nogil
    cdef bint next_row_at(self, uint64_t address, uint64_t* found) noexcept nogil
    cdef LineRow* row_of(self, uint64_t address) noexcept nogil
    cdef uint64_t _runs_up_to(self, uint64_t address) noexcept nogil
    cdef uint64_t _after(self, Run* run, uint64_t address) noexcept nogil
    cdef _read_names(self)
    cdef int _read_old_entries(self, Cursor* c, Name** names, uint64_t* count, bint is_file) noexcept nogil
    cdef int _read_entries(self, Cursor* c, Name** names, uint64_t* count) noexcept nogil
    cdef int _read_form(self, Cursor* c, uint64_t form, uint64_t* number) noexcept nogil
    cdef str _text(self, Name* name)
    cdef uint64_t _string_offset(self, uint64_t index) except? 0xffffffffffffffff
    cdef uint64_t _first_key(self, uint64_t address, uint32_t view) noexcept nogil
    cdef uint64_t _first_in(self, Run* run, uint64_t address, uint32_t view) noexcept nogil
