# cython: language_level=3
from libc.stdint cimport uint64_t

from inlinetrace.generate._collect cimport Collector

cdef int follow_notes(Collector c) noexcept nogil
cdef int add_type_tags(Collector c) noexcept nogil
cdef int add_declaration_tags(Collector c, uint64_t first_function, uint64_t first_variable) noexcept nogil
