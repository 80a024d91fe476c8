# cython: language_level=3
from libc.stdint cimport uint64_t

from inlinetrace.generate._collect cimport Collector, Function, Item

cdef int finish(Collector c) noexcept nogil
cdef Item* parameter_of(Collector c, Item* item) noexcept nogil
cdef Function* function_at(Collector c, uint64_t key) noexcept nogil
