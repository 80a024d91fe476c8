# cython: language_level=3
from libc.stdint cimport uint64_t

cdef enum:
    REENTERED = 1
    SHARED_ADDRESS = 2
    COPIES = 4

cdef struct Range:
    uint64_t begin
    uint64_t end

cdef class Flow:
    cdef const uint64_t[::1] sources
    cdef const uint64_t[::1] targets
    cdef const uint64_t[::1] sorted_targets
    cdef const uint64_t[::1] their_sources
    cdef uint64_t* reached
    cdef uint64_t room
    cdef Py_ssize_t at_source
    cdef Py_ssize_t at_target

    cdef bint targeted(self, uint64_t address) noexcept nogil
    cdef int marks_of(self, const Range* ranges, Py_ssize_t count, uint64_t address) except -1
    cdef bint met_again(self, const Range* ranges, Py_ssize_t count, uint64_t address) noexcept nogil
    cdef bint copied(self, const Range* ranges, Py_ssize_t count, uint64_t address) noexcept nogil
