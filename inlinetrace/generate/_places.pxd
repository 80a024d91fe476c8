# cython: language_level=3
from libc.stdint cimport uint64_t

from inlinetrace.generate._collect cimport Collector

cdef int register_at_entry(Collector c, uint64_t location, int expected) noexcept nogil
