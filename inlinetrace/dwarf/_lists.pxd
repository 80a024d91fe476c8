# cython: language_level=3
from libc.stdint cimport uint64_t

cdef struct Entry:
    uint64_t begin, end          # addresses
    uint64_t begin_view, end_view
    uint64_t expression          # offset of the operations in the section of the list
    uint64_t length
    bint is_default              # DW_LLE_default_location

cdef struct Entries:
    Entry* items
    uint64_t count
    uint64_t capacity
