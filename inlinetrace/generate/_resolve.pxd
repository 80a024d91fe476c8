# cython: language_level=3
from inlinetrace.generate._collect cimport Collector, Item

cdef int finish(Collector c) noexcept nogil
cdef Item* parameter_of(Collector c, Item* item) noexcept nogil
