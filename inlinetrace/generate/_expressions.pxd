# cython: language_level=3
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._frames cimport FrameTable

cdef enum:
    C_GCC = 0
    C_CLANG = 1
    C_OTHER = 2

cdef enum:
    S_PLAIN = 0              # any shape that nothing is asked of
    S_CONSTANT = 1
    S_PIECES = 2

# A LOC_PARAM of v2 and newest, see forms.py.
cdef struct Form:
    uint32_t size
    uint32_t flags
    uint32_t count           # of values
    uint32_t values[3]

# What a parameter is at a site. status: 0 has a form, else 1 + index in list(Reason); doubt likewise, 0 for none.
cdef struct Outcome:
    uint8_t status
    uint8_t doubt
    uint8_t shape
    uint8_t framed           # the frame base or the entry's address went into it: it may be another one elsewhere
    Form form

# Where an expression stands.
cdef struct Place:
    uint64_t address
    const uint8_t* frame_base
    uint64_t frame_base_length
    int compiler
    bint at_entry            # the address is that of the function around it
    bint single              # DW_AT_location is the expression, no list

# What a whole file is.
cdef struct Target:
    uint8_t vector[512]      # by DWARF register number
    uint64_t image_base
    int64_t stack_pointer
    int address_size
    bint little_endian
    bint swap
    bint relocatable
    bint has_image_base
    bint rfc

cdef class Frames:
    cdef FrameTable first, second
    cdef bint broken
    cdef int cfa(self, uint64_t pc, uint64_t* register_number, int64_t* offset) noexcept nogil

cdef uint8_t status_of(object reason) except 0
cdef uint8_t doubt_of(object doubt) except? 255
cdef int constant_outcome(const Target* target, uint64_t number, uint64_t size, bint is_signed, Outcome* out) noexcept nogil
cdef int resolve_simple(const Target* target, Frames frames, UnitHeader* unit, const uint8_t* data, uint64_t length,
                        uint64_t size, bint is_signed, const Place* place, Outcome* out) noexcept nogil
cdef bint same_form(const Form* a, const Form* b) noexcept nogil
cdef bint fits(const Target* target, const Form* form) noexcept nogil
