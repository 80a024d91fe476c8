# cython: language_level=3
"""Declarations of the rows of line programs."""
from libc.stdint cimport int8_t, uint8_t, uint32_t, uint64_t

from inlinetrace.dwarf._intervals cimport Interval

cdef enum:
    FLAG_IS_STMT = 1
    FLAG_BASIC_BLOCK = 2
    FLAG_END_SEQUENCE = 4
    FLAG_PROLOGUE_END = 8
    FLAG_EPILOGUE_BEGIN = 16

cdef struct LineRow:
    uint64_t address
    uint32_t view
    uint32_t line
    uint32_t column
    uint32_t file
    uint32_t flags

cdef struct Run:
    # Consecutive rows that ascend strictly in (address, view).
    uint64_t low         # address of the first row
    uint64_t high        # address of the last row
    uint64_t first       # index of the first row
    uint64_t end         # index after the last row

cdef struct RowKey:
    uint64_t address
    uint32_t view

cdef struct Decoded:
    LineRow* rows
    uint64_t n_rows
    Run* runs
    uint64_t n_runs
    uint64_t run_capacity
    Interval* segments
    uint64_t n_segments
    RowKey* keys         # all rows in order, only if more than two runs may have rows at one address
    uint64_t n_keys
    uint64_t* definitions
    uint64_t n_definitions
    uint64_t definition_capacity

cdef enum:
    NO_MEMORY = 100
    BAD_FORM = 101
    EMPTY_FORMAT = 102

cdef class LineRows:
    cdef const uint8_t[::1] _data
    cdef const uint8_t[::1] _line_str
    cdef const uint8_t[::1] _strings
    cdef const uint8_t[::1] _string_offsets
    cdef const uint8_t* _start
    cdef uint64_t _string_offsets_base
    cdef uint64_t _tables
    cdef uint64_t _program
    cdef uint64_t _lengths
    cdef bint _swap
    cdef bint _decoded
    cdef uint8_t _min_instruction_length
    cdef uint8_t _max_operations
    cdef bint _default_is_stmt
    cdef int8_t _line_base
    cdef uint8_t _line_range
    cdef uint8_t _opcode_base
    cdef Decoded _table
    cdef readonly str section
    cdef readonly object path
    cdef readonly object comp_dir
    cdef readonly uint64_t offset
    cdef readonly uint64_t end
    cdef readonly int version
    cdef readonly int address_size
    cdef readonly int offset_size
    cpdef decode(self)
    cdef int _read_program(self, Decoded* out, uint64_t* error_at) noexcept nogil
    cdef _error(self, str message, uint64_t at)
    cdef _read_header(self)

cdef str line_error(int error)
cdef int compare_keys(const void* a, const void* b) noexcept nogil
