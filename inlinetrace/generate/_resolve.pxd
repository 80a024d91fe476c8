# cython: language_level=3
from libc.stdint cimport int64_t, uint32_t

from inlinetrace.generate._collect cimport Collector

cdef int finish(Collector c) noexcept nogil
