# cython: language_level=3
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from inlinetrace.dwarf._forms cimport Abbreviations, UnitHeader
from inlinetrace.dwarf._units cimport Info
from inlinetrace.generate._tables cimport Table

cdef struct TypeInfo:
    uint64_t size            # bytes, 0 where unknown
    uint8_t is_signed

cdef struct Position:
    uint64_t key             # of an entry that describes a parameter
    uint32_t number          # of the parameter

cdef struct Signature:
    uint64_t key
    uint64_t canonical       # key of the entry at the end of the chain, the same for all copies of one definition
    uint32_t first_position
    uint32_t position_count
    uint32_t first_type
    uint32_t count           # of parameters
    uint8_t variadic

cdef struct TypeSlot:
    uint64_t key             # offset + 1 in the Info, 0 in a free slot
    TypeInfo type

cdef struct Item:
    uint64_t offset
    uint64_t next            # first child, or what follows
    uint64_t type
    uint64_t byte_size
    uint64_t encoding
    uint64_t sibling
    uint32_t tag
    bint children
    bint has_type
    bint has_size
    bint strange             # something that only the ordinary reader understands
    bint elsewhere           # a type that is described in a unit of its own

cdef class Signatures:
    cdef Info info
    cdef uint64_t top        # number of the Info, shifted
    cdef object slow, lock
    cdef Abbreviations table
    cdef UnitHeader* opened  # whose abbreviations are in the table
    cdef Signature* items
    cdef uint64_t count, capacity
    cdef Table numbers
    cdef Position* positions
    cdef uint64_t position_count, position_capacity
    cdef TypeInfo* types
    cdef uint64_t type_count, type_capacity
    cdef TypeSlot* known
    cdef uint64_t known_count, known_mask

    cdef Signature* find(self, uint64_t key) except NULL nogil
    cdef int add(self, uint64_t key, Signature* made) except -1 nogil
    cdef int add_position(self, uint64_t key, uint32_t number) except -1 nogil
    cdef int add_type(self, TypeInfo* type_) except -1 nogil
    cdef int ask(self, uint64_t key, Signature* made) except -1
    cdef int ask_type(self, uint64_t key, TypeInfo* found) except -1
    cdef UnitHeader* open_unit(self, uint64_t offset) noexcept nogil
    cdef int read_item(self, UnitHeader* unit, uint64_t offset, Item* item) noexcept nogil
    cdef int pass_over(self, UnitHeader* unit, Item* item, uint64_t* following) noexcept nogil
    cdef int read(self, uint64_t key, Signature* made) except -1 nogil
    cdef int type_of(self, uint64_t offset, TypeInfo* found) except -1 nogil
    cdef int read_type(self, uint64_t offset, TypeInfo* found) noexcept nogil
    cdef int keep_type(self, uint64_t offset, TypeInfo* found) except -1 nogil
