# cython: language_level=3
"""Declarations of the entries of call frame information."""
from libc.stdint cimport int64_t, uint8_t, uint64_t, uint32_t

from inlinetrace.dwarf._cursor cimport Cursor
from inlinetrace.dwarf._intervals cimport Interval

cdef enum:
    NO_MEMORY = 100
    NO_CIE = 101
    DEEP = 102
    UNBALANCED = 103
    OPCODE = 104
    BACKWARDS = 105
    ADDRESS_SIZE = 106
    MOVED_IN_CIE = 107
    NOT_A_REGISTER = 108
    ENCODING = 109

cdef enum:
    # Real programs remember one or two states at a time.
    MAX_REMEMBERED = 64

cdef struct Cie:
    uint64_t offset
    uint64_t program
    uint64_t end
    uint64_t code_alignment
    int64_t data_alignment
    uint64_t return_register
    uint8_t address_size
    uint8_t segment_size
    uint8_t encoding
    bint augmented       # FDEs have augmentation data with a length
    bint signal_frame
    bint supported

cdef struct Fde:
    uint64_t low
    uint64_t high        # exclusive
    uint64_t offset
    uint64_t program
    uint64_t end
    uint32_t cie

cdef struct Entry:
    uint64_t offset      # of the length field
    uint64_t body        # after the CIE pointer
    uint64_t end
    uint64_t cie_offset
    bint is_cie
    bint is_terminator

cdef inline uint64_t address_mask(uint8_t address_size) noexcept nogil:
    return 0xffffffffffffffff if address_size >= 8 else (<uint64_t>1 << (8 * address_size)) - 1

cdef class FrameEntries:
    cdef const uint8_t[::1] _data
    cdef const uint8_t* _start
    cdef uint64_t _size
    cdef uint64_t _address
    cdef uint64_t _text_address
    cdef uint64_t _data_address
    cdef bint _eh
    cdef bint _swap
    cdef bint _has_text
    cdef bint _has_data
    cdef bint _indexed
    cdef uint8_t _address_size
    cdef Cie* _cies
    cdef uint64_t _n_cies
    cdef Fde* _fdes
    cdef uint64_t _n_fdes
    cdef Interval* _segments
    cdef uint64_t _n_segments
    cdef uint64_t _n_skipped
    cdef readonly str section
    cdef readonly object path
    cdef int _build_index(self) except -1
    cdef Fde* find_fde(self, uint64_t pc) noexcept nogil
    cdef _raise(self, int error, uint64_t at)
    cdef int _read_cies(self, Cie** cies, uint64_t* count, uint64_t* error_at) noexcept nogil
    cdef int _read_cie(self, Entry* entry, Cie* cie, uint64_t* error_at) noexcept nogil
    cdef bint _usable(self, uint8_t encoding) noexcept nogil
    cdef void _align(self, Cursor* c) noexcept nogil
    cdef uint64_t _read_address(self, Cursor* c, Cie* cie) noexcept nogil
    cdef int _read_fdes(self, Cie* cies, uint64_t n_cies, Fde** fdes, uint64_t* count,
                        uint64_t* n_skipped, uint64_t* error_at) noexcept nogil
