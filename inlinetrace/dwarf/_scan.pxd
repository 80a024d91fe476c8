# cython: language_level=3
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef enum:
    HAS_ENTRY = 1
    HAS_LOW = 2
    HAS_RANGES = 4
    HAS_VIEW = 8
    ALT_ORIGIN = 16      # origin is an offset in the supplementary file
    DECLARATION = 32
    ABSTRACT = 64        # DW_AT_inline says that it may be inlined
    EXTERNAL = 128
    LIST_INDEX = 256     # ranges is an index (DW_FORM_rnglistx)
    DISCARDED = 512      # the linker left it out, or the function around it: its addresses mean nothing

cdef enum:
    LOC_NONE = 0
    LOC_EXPRESSION = 1   # value and length: bytes in the section with the unit
    LOC_LIST = 2         # value: offset in .debug_loclists or .debug_loc
    LOC_LIST_INDEX = 3
    LOC_UINT = 4         # DW_AT_const_value
    LOC_SINT = 5
    LOC_BYTES = 6

cdef enum:
    NO_PARENT = -0x80000000
    NONE32 = 0xffffffff

# A parent is a site (0 and up) or a function (-1 - index), both of the same chunk.
cdef struct SiteRecord:
    uint64_t die
    uint64_t origin
    uint64_t entry
    uint64_t low
    uint64_t high
    uint64_t ranges
    uint32_t view
    uint32_t call_file
    uint32_t call_line
    uint32_t call_column
    int32_t parent
    uint32_t first
    uint32_t last
    uint32_t unit
    uint32_t flags

cdef struct FunctionRecord:
    uint64_t die
    uint64_t name
    uint64_t linkage_name
    uint64_t origin          # abstract origin or specification
    uint64_t entry
    uint64_t low
    uint64_t high
    uint64_t ranges
    uint64_t frame_base      # offset of the expression in the section with the unit
    uint32_t frame_base_length
    int32_t parent
    uint32_t first
    uint32_t last
    uint32_t unit
    uint32_t flags

cdef struct ParameterRecord:
    uint64_t die
    uint64_t origin          # 0 where the entry describes itself
    uint64_t value
    uint64_t views           # offset of the view pairs with bit 63 set, 0 if there are none
    uint32_t length
    uint32_t next            # next parameter of the same owner
    uint8_t kind

cdef class Chunk:
    cdef readonly Py_ssize_t first_unit, last_unit
    cdef SiteRecord* sites
    cdef FunctionRecord* functions
    cdef ParameterRecord* parameters
    cdef uint64_t site_count, site_capacity
    cdef uint64_t function_count, function_capacity
    cdef uint64_t parameter_count, parameter_capacity
    cdef readonly uint64_t entries
    cdef uint64_t bytes_     # of the units

    cdef Py_ssize_t function_at(self, uint64_t die) noexcept nogil
