# cython: language_level=3
"""The index over a BTF blob, for the other compiled modules of this package."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from *:
    """
    #define inlinetrace_btf_swap(x) __builtin_bswap32(x)
    """
    uint32_t inlinetrace_btf_swap(uint32_t) noexcept nogil

cdef enum:
    SHAPE_NEW = 0        # LOC_PARAM 16+4n, LOCSEC 12+12n
    SHAPE_RFC = 1        # LOC_PARAM 20, LOCSEC 12+16n
    SHAPE_OTHER = 2      # the layout section says something else of kinds 20 to 22: they are skipped by it

cdef struct Layer:
    const uint8_t* data
    uint64_t type_at         # first byte of the type section, from the start of the blob
    uint64_t type_end
    uint64_t string_at
    uint64_t string_len
    uint64_t layout_at
    uint64_t layout_len
    uint32_t start_id
    uint32_t end_id          # first id after the last one
    uint64_t start_string    # string offset at which this object's own strings begin
    const uint32_t* offsets  # offset of each own record from the start of the blob
    bint swap
    int shape
    const Layer* base

cdef inline uint32_t word_at(const Layer* layer, uint64_t offset) noexcept nogil:
    """The 32-bit word at an offset that the walk has checked."""
    cdef uint32_t v
    memcpy(&v, layer.data + offset, 4)
    return inlinetrace_btf_swap(v) if layer.swap else v

cdef inline const Layer* layer_of(const Layer* layer, uint32_t type_id) noexcept nogil:
    """The layer that stores a type; NULL for void and for ids that no layer has."""
    if type_id >= layer.end_id:
        return NULL
    while layer != NULL and type_id < layer.start_id:
        layer = layer.base
    return layer

cdef inline uint64_t record_of(const Layer* layer, uint32_t type_id) noexcept nogil:
    """Offset of a record in its own layer (the one that layer_of gave)."""
    return layer.offsets[type_id - layer.start_id]

cdef const char* string_of(const Layer* layer, uint64_t offset, uint32_t* length) noexcept nogil
cdef bint record_size(const Layer* layer, uint32_t kind, uint32_t* fixed, uint32_t* element) noexcept nogil

cdef bint legal_flags(uint32_t flags, uint32_t vlen) noexcept nogil
cdef uint32_t kind_of(const Layer* layer, uint32_t type_id) noexcept nogil

cdef class Index:
    cdef Layer layer
    cdef Py_buffer buffer
    cdef bint has_buffer
    cdef readonly Index base
    cdef uint32_t* offsets
    cdef uint32_t* heads
    cdef uint32_t* chain
    cdef uint32_t mask
    cdef readonly uint32_t start_id
    cdef readonly uint32_t end_id
    cdef readonly bint has_locations
    cdef readonly int shape
    cdef int build_names(self) except -1
