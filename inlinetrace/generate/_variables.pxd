# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t

from inlinetrace.generate._collect cimport Collector
from inlinetrace.generate._emit cimport Emitter

cdef int names_of_variables(Emitter emitter, Collector c, uint32_t number) noexcept nogil
cdef int choose_variables(Emitter emitter, const uint64_t* sections, uint64_t count) noexcept nogil
cdef int by_address(const void* a, const void* b) noexcept nogil
cdef int by_section(const void* a, const void* b) noexcept nogil
