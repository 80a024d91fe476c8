# cython: language_level=3
"""Declarations of the compiled call frame reader, for other compiled modules that query it without the GIL."""
from libc.stdint cimport int64_t, uint64_t

from inlinetrace.dwarf._cursor cimport Cursor
from inlinetrace.dwarf._frame_entries cimport MAX_REMEMBERED, Cie, Fde, FrameEntries

cdef enum:
    CFA_NONE = 0         # no rule
    CFA_REGISTER = 1     # register + offset
    CFA_EXPRESSION = 2   # the bytes [expression, expression + length) of the section

cdef struct Cfa:
    int kind
    uint64_t register_number
    int64_t offset
    uint64_t expression
    uint64_t length

cdef struct Rule:
    int kind
    int64_t operand
    uint64_t expression
    uint64_t length

cdef struct Row:
    Cfa cfa
    Rule rule            # of the one register that is followed

cdef struct Machine:
    Cursor cursor
    Cie* cie
    Fde* fde
    Row row
    Rule initial         # the followed register's rule after the CIE's program
    uint64_t register_number
    uint64_t location
    uint64_t next_location
    bint pending         # the program stands before a row that begins at next_location
    bint in_cie
    int depth
    Row remembered[MAX_REMEMBERED]

cdef class FrameTable(FrameEntries):
    cdef int row_at(self, Fde* fde, uint64_t pc, uint64_t register_number, Row* row, uint64_t* error_at) noexcept nogil
    cdef void _start_machine(self, Machine* m, Fde* fde, uint64_t register_number) noexcept nogil
    cdef int _run(self, Machine* m, uint64_t pc, uint64_t* error_at) noexcept nogil
    cdef int _move(self, Machine* m, uint64_t steps) noexcept nogil
    cdef int _step(self, Machine* m, uint64_t pc) noexcept nogil
    cdef bytes _bytes(self, uint64_t offset, uint64_t length)
