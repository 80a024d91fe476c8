# cython: language_level=3
"""Abbreviations compiled to what the reader of types wants of an entry: eight values, most by loads at fixed offsets."""
from libc.stdint cimport int32_t, int64_t, int8_t, uint8_t, uint16_t, uint32_t, uint64_t

from inlinetrace.dwarf._forms cimport Abbreviations, UnitHeader

cdef enum:
    # what an entry is for the reader
    W_OTHER = 0
    W_REFERENCE = 1      # pointer, typedef, qualifier
    W_BASE = 2
    W_STRUCT = 3
    W_ENUM = 4
    W_ARRAY = 5
    W_SUBROUTINE = 6
    W_MEMBER = 7
    W_ENUMERATOR = 8
    W_RANGE = 9
    W_PARAMETER = 10
    W_VARIADIC = 11
    W_FUNCTION = 12
    W_VARIABLE = 13
    W_SKIP = 14          # nothing below it is wanted, and it says where it ends
    W_ANNOTATION = 15
    W_VOID = 16
    W_NOTE = 17          # an annotation that others refer to

cdef enum:
    # places of the values; what A to F are depends on the entry
    S_NAME = 0
    S_TYPE = 1
    S_A = 2
    S_B = 3
    S_C = 4
    S_D = 5
    S_E = 6
    S_F = 7
    SLOTS = 8
    S_ANNOTATION = 8     # behind the others, if the shape is annotated

cdef enum:
    # how a value becomes a number
    ROLE_PLAIN = 0
    ROLE_NAME = 1
    ROLE_REFERENCE = 2
    ROLE_ADDRESS = 3
    ROLE_LOCATION = 4    # where a parameter is: LOCATION_... in the top bits

cdef enum:
    LOCATION_KIND = 60
    LOCATION_LENGTH = 44
    LOCATION_LIST = 1    # offset in .debug_loclists or .debug_loc
    LOCATION_BYTES = 2   # length and offset in the section with the unit
    LOCATION_INDEX = 3   # DW_FORM_loclistx

cdef enum:
    NAME_NONE = 0
    NAME_STR = 1         # offset in .debug_str
    NAME_INDEX = 2       # index in .debug_str_offsets

cdef struct Field:
    uint8_t slot
    uint8_t width
    uint16_t offset

cdef struct Op:
    int64_t implicit
    int32_t skip             # bytes without any use, 0 for a value of its own
    int32_t width            # bytes of the form, -1 if it varies
    uint16_t form
    int8_t slot              # -1: pass over it
    uint8_t role

cdef struct Shape:
    uint8_t what
    uint8_t kind
    uint8_t children
    uint8_t simple           # all wanted values are loads at fixed offsets
    uint8_t name_role
    uint8_t name_first       # a DW_FORM_string stands before the rest
    uint8_t field_count
    uint8_t present          # a bit for each slot
    uint8_t annotated        # has DW_AT_GNU_annotation
    int32_t fixed            # bytes of the attributes, without a leading string
    uint32_t first_op
    uint32_t op_count
    Field fields[8]
    int64_t implicit[8]

cdef struct Shapes:
    Shape* shape             # by the index of the abbreviation
    uint64_t capacity
    Op* ops
    uint64_t op_count
    uint64_t op_capacity
    bint foreign             # some entry refers to another unit

cdef enum:
    SHAPES_MEMORY = -1

cdef int compile_shapes(Shapes* shapes, Abbreviations* table, UnitHeader* unit, bint swap) noexcept nogil
cdef void free_shapes(Shapes* shapes) noexcept nogil
