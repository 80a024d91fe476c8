# cython: language_level=3
from libc.stdint cimport uint64_t

from inlinetrace.generate._collect cimport Collector

cdef int scan_unit(Collector reader) noexcept nogil
cdef int begin_unit(Collector reader) noexcept nogil
cdef int read_functions(Collector reader, const uint64_t* offsets, uint64_t count) noexcept nogil
