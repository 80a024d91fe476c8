# cython: language_level=3
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from inlinetrace.generate._graph cimport Graph, Selected
from inlinetrace.generate._store cimport Words

cdef enum:
    NONE = 0xffffffffU
    ERR_MEMORY = -1
    ERR_NAME = 1
    HAS_SYMBOL = 1
    HAS_SUFFIXED = 2     # foo.isra.0, foo.constprop.0
    AMBIGUOUS = 4        # several addresses
    F_INCONSISTENT = 0x10000

cdef struct Bytes:
    uint8_t* v
    uint64_t n
    uint64_t capacity

cdef struct Symbol:
    uint64_t address
    uint32_t name
    uint32_t section

cdef struct Chosen:
    uint64_t address
    uint64_t size
    uint64_t order           # as found
    uint32_t name
    uint32_t type
    uint32_t linkage
    uint32_t section         # which of the wanted ones
    uint32_t collector
    uint32_t index
    uint32_t id

cdef class Emitter:
    cdef readonly Graph graph
    cdef bint swap
    cdef Words types             # of the base object, then of the inline object
    cdef Bytes strings
    cdef uint32_t* string_of     # name -> 1 + offset of its string
    cdef uint64_t string_names
    cdef uint64_t first_string
    cdef uint32_t* ids           # cell -> id
    cdef uint32_t id_count
    cdef readonly uint32_t next_id
    cdef readonly uint32_t first_id
    cdef bint onto_base          # only what functions need is written
    cdef Words open, closed
    cdef uint32_t index_id       # id of the type that arrays are indexed with
    cdef uint8_t* symbols        # name -> HAS_SYMBOL...
    cdef uint64_t* symbol_addresses # name -> address of the first
    cdef uint32_t symbol_names, name_limit
    cdef const uint64_t* section_bases # what symbols of relocatable files are relative to
    cdef uint64_t section_count
    cdef uint32_t** function_names
    cdef Selected* selected
    cdef uint64_t selected_count, selected_capacity
    cdef uint32_t* function_ids  # name -> id of its FUNC
    cdef uint32_t* function_prototypes
    cdef uint32_t* base_heads    # name -> 1 + the last function of the base with it
    cdef uint32_t* base_next     # function of the base -> 1 + the one before of the same name
    cdef Symbol* data_symbols
    cdef uint64_t data_symbol_count, data_symbol_capacity
    cdef Chosen* chosen
    cdef uint64_t chosen_count, chosen_capacity
    cdef uint32_t** tag_names
    cdef uint32_t** tag_heads    # function or, behind those, variable of a collector -> 1 + its first tag
    cdef uint32_t** variable_names
    cdef uint32_t** variable_tags
    cdef list section_names      # keeps their bytes alive
    cdef object kept_alive

    cdef int close(self, uint32_t cell) noexcept nogil
    cdef int write_closed(self) noexcept nogil
    cdef int _assign(self) noexcept nogil
    cdef int _write_all(self) noexcept nogil
    cdef int _write(self, uint32_t cell) noexcept nogil
    cdef uint32_t _id_of(self, uint32_t reference) noexcept nogil
    cdef uint32_t _string(self, uint32_t name) noexcept nogil
    cdef int _record(self, uint32_t name, uint32_t info, uint32_t third) noexcept nogil
    cdef int _check(self, int error) except -1
    cdef uint32_t _target(self, uint32_t cell, uint32_t number) noexcept nogil
    cdef int _decl_tag(self, uint32_t name, uint32_t target, uint32_t component) noexcept nogil
