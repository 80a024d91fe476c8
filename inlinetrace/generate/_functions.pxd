# cython: language_level=3
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from inlinetrace.generate._collect cimport Collector, KeptFunction
from inlinetrace.generate._emit cimport Emitter
from inlinetrace.generate._graph cimport Selected, UnitPlace

cdef bint is_identifier(const uint8_t* text, uint32_t length) noexcept nogil
cdef int names_of_functions(Emitter emitter, Collector c, uint32_t number) noexcept nogil
cdef int read_symbols(Emitter emitter, const uint8_t* table, uint64_t size, const uint8_t* strings,
                      uint64_t string_size, bint wide, bint swap) noexcept nogil
cdef int select_functions(Emitter emitter, bint optimized, bint consistent) noexcept nogil
cdef int write_function(Emitter emitter, Selected* s) noexcept nogil
cdef int chain_base_functions(Emitter emitter) noexcept nogil
cdef uint32_t prototype_of(Emitter emitter, UnitPlace* place, uint64_t k) noexcept nogil
cdef KeptFunction* kept_function(Emitter emitter, uint64_t key, UnitPlace** where, uint64_t* index) noexcept nogil
cdef int write_inlined(Emitter emitter, const uint64_t* origins, uint64_t count, uint32_t* out, uint32_t* map_keys,
                       uint32_t* map_values, uint64_t mask) noexcept nogil
