# cython: language_level=3
"""Attribute forms and abbreviations (DWARF 5 sections 7.5.3 to 7.5.6), shared by the compiled readers of DIEs."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t, int32_t

from inlinetrace.dwarf._cursor cimport (
    Cursor, fail, read_sleb, read_u8, read_u16, read_u32, read_u64, read_uint, read_uleb, skip,
    skip_leb, skip_string,
)

cdef enum:
    # sticky cursor errors of this layer, after those of _cursor.pxd
    ERR_FORM = 16        # a form that no version defines
    ERR_ABBREV = 17      # an abbreviation code that the table does not have
    ERR_INDIRECT = 18    # DW_FORM_indirect that leads to itself

# classes of values
cdef enum:
    V_NONE = 0
    V_UINT = 1
    V_SINT = 2
    V_ADDRESS = 3
    V_ADDRESS_INDEX = 4  # .debug_addr
    V_REF = 5            # offset in the section with the unit
    V_SIGNATURE = 6      # DW_FORM_ref_sig8
    V_ALT_REF = 7        # offset in the supplementary file
    V_BLOCK = 8          # value is the offset of the bytes in the section with the unit
    V_OFFSET = 9         # offset in another section
    V_LIST_INDEX = 10    # loclistx, rnglistx
    V_STRING = 11        # packed string reference
    V_STRING_INDEX = 12  # .debug_str_offsets
    V_FLAG = 13

# A packed string reference is the offset in one of these sections; the section is in the top byte.
cdef enum:
    STR_SHIFT = 56
    STR_NONE = 0
    STR_STR = 1          # .debug_str
    STR_LINE = 2         # .debug_line_str
    STR_INLINE = 3       # DW_FORM_string: in the section with the unit
    STR_ALT = 4          # .debug_str of the supplementary file

cdef struct Value:
    uint64_t value
    uint64_t length      # of a block, bytes
    uint64_t at          # where the value stands in the section with the unit
    int kind

cdef struct UnitHeader:
    uint64_t offset
    uint64_t first_die
    uint64_t end
    uint64_t abbrev_offset
    uint64_t str_offsets_base
    uint64_t addr_base
    uint64_t rnglists_base
    uint64_t loclists_base
    uint64_t ranges_base     # DW_AT_GNU_ranges_base
    uint64_t low_pc
    uint64_t signature       # type signature or dwo id
    uint64_t type_offset
    uint64_t stmt_list
    uint64_t name            # packed string references
    uint64_t comp_dir
    uint64_t producer
    uint64_t dwo_name
    uint32_t language
    uint16_t version
    uint8_t unit_type
    uint8_t address_size
    uint8_t offset_size
    uint8_t has_stmt_list
    uint8_t has_low_pc
    uint8_t is_dwo

cdef struct Spec:
    uint16_t attribute
    uint16_t form
    int32_t size             # fixed size of the form in bytes, -1 if it varies
    int64_t implicit

cdef struct Abbreviation:
    uint64_t code
    uint32_t tag
    uint32_t first           # index of its first Spec
    uint32_t count
    int32_t fixed            # size of all attributes in bytes, -1 if it varies
    uint8_t children
    uint8_t kind             # free for the reader
    uint16_t sibling         # 1 + index of the DW_AT_sibling spec, 0 if none

cdef struct Abbreviations:
    Abbreviation* entries
    uint32_t count
    uint64_t capacity
    Spec* specs
    uint32_t spec_count
    uint64_t spec_capacity
    uint32_t* by_code        # code -> 1 + index
    uint64_t by_code_size
    uint64_t by_code_capacity
    uint32_t* sparse         # indexes of the entries in the order of their codes, NULL if by_code has all
    uint64_t offset          # which table, to reuse it
    uint8_t address_size
    uint8_t offset_size
    uint16_t version
    bint valid

cdef int load_abbreviations(Abbreviations* table, const uint8_t* data, uint64_t size, uint64_t offset,
                            uint64_t only, UnitHeader* unit, uint64_t* error_at) noexcept nogil
cdef void free_abbreviations(Abbreviations* table) noexcept nogil
cdef Abbreviation* find_sparse(Abbreviations* table, uint64_t code) noexcept nogil

cdef inline Abbreviation* find_abbreviation(Abbreviations* table, uint64_t code) noexcept nogil:
    cdef uint32_t index
    if code < table.by_code_size:
        index = table.by_code[code]
        return &table.entries[index - 1] if index else NULL
    return find_sparse(table, code)

cdef inline int fixed_size(unsigned form, UnitHeader* unit) noexcept nogil:
    """Size of ``form`` in bytes, -1 if it varies, -2 if the form is unknown."""
    if form == 0x13 or form == 0x06 or form == 0x28 or form == 0x2c or form == 0x1c:
        return 4
    if form == 0x0b or form == 0x0c or form == 0x11 or form == 0x25 or form == 0x29:
        return 1
    if form == 0x05 or form == 0x12 or form == 0x26 or form == 0x2a:
        return 2
    if form == 0x27 or form == 0x2b:
        return 3
    if form == 0x0e or form == 0x17 or form == 0x1f or form == 0x1d or form == 0x1f20 or form == 0x1f21:
        return unit.offset_size
    if form == 0x10:
        return unit.address_size if unit.version < 3 else unit.offset_size
    if form == 0x01:
        return unit.address_size
    if form == 0x07 or form == 0x14 or form == 0x20 or form == 0x24:
        return 8
    if form == 0x1e:
        return 16
    if form == 0x19 or form == 0x21:
        return 0
    if (form == 0x03 or form == 0x04 or form == 0x08 or form == 0x09 or form == 0x0a or form == 0x0d or form == 0x0f
            or form == 0x15 or form == 0x16 or form == 0x18 or form == 0x1a or form == 0x1b or form == 0x22
            or form == 0x23 or form == 0x1f01 or form == 0x1f02):
        return -1
    return -2

cdef inline void read_block(Cursor* c, Value* v, uint64_t length) noexcept nogil:
    v.kind = V_BLOCK
    v.value = c.pos
    v.length = length
    skip(c, length)

cdef inline uint64_t packed(uint64_t section, uint64_t offset) noexcept nogil:
    return (section << STR_SHIFT) | (offset & 0x00ffffffffffffffULL)

cdef inline void read_form(Cursor* c, UnitHeader* unit, unsigned form, int64_t implicit, Value* v) noexcept nogil:
    """Read one value of ``form``."""
    v.length = 0
    v.at = c.pos
    if form == 0x16:                          # indirect
        form = <unsigned>read_uleb(c)
        if form == 0x16 or form == 0x21:
            fail(c, ERR_INDIRECT)
            v.kind = V_NONE
            v.value = 0
            return
        v.at = c.pos
    if form == 0x13:                          # ref4
        v.kind = V_REF
        v.value = unit.offset + read_u32(c)
    elif form == 0x0e:                        # strp
        v.kind = V_STRING
        v.value = packed(STR_STR, read_uint(c, unit.offset_size))
    elif form == 0x0b:
        v.kind = V_UINT
        v.value = read_u8(c)
    elif form == 0x05:
        v.kind = V_UINT
        v.value = read_u16(c)
    elif form == 0x06:
        v.kind = V_UINT
        v.value = read_u32(c)
    elif form == 0x07:
        v.kind = V_UINT
        v.value = read_u64(c)
    elif form == 0x01:
        v.kind = V_ADDRESS
        v.value = read_uint(c, unit.address_size)
    elif form == 0x17:
        v.kind = V_OFFSET
        v.value = read_uint(c, unit.offset_size)
    elif form == 0x18 or form == 0x09:
        read_block(c, v, read_uleb(c))
    elif form == 0x0a:
        read_block(c, v, read_u8(c))
    elif form == 0x03:
        read_block(c, v, read_u16(c))
    elif form == 0x04:
        read_block(c, v, read_u32(c))
    elif form == 0x1e:
        read_block(c, v, 16)
    elif form == 0x0d:
        v.kind = V_SINT
        v.value = <uint64_t>read_sleb(c)
    elif form == 0x21:
        v.kind = V_SINT
        v.value = <uint64_t>implicit
    elif form == 0x0f:
        v.kind = V_UINT
        v.value = read_uleb(c)
    elif form == 0x19:
        v.kind = V_FLAG
        v.value = 1
    elif form == 0x0c:
        v.kind = V_FLAG
        v.value = read_u8(c)
    elif form == 0x08:
        v.kind = V_STRING
        v.value = packed(STR_INLINE, c.pos)
        skip_string(c)
    elif form == 0x1f:
        v.kind = V_STRING
        v.value = packed(STR_LINE, read_uint(c, unit.offset_size))
    elif form == 0x1d or form == 0x1f21:
        v.kind = V_STRING
        v.value = packed(STR_ALT, read_uint(c, unit.offset_size))
    elif form == 0x11:
        v.kind = V_REF
        v.value = unit.offset + read_u8(c)
    elif form == 0x12:
        v.kind = V_REF
        v.value = unit.offset + read_u16(c)
    elif form == 0x14:
        v.kind = V_REF
        v.value = unit.offset + read_u64(c)
    elif form == 0x15:
        v.kind = V_REF
        v.value = unit.offset + read_uleb(c)
    elif form == 0x10:
        v.kind = V_REF
        v.value = read_uint(c, unit.address_size if unit.version < 3 else unit.offset_size)
    elif form == 0x20:
        v.kind = V_SIGNATURE
        v.value = read_u64(c)
    elif form == 0x1c:
        v.kind = V_ALT_REF
        v.value = read_u32(c)
    elif form == 0x24:
        v.kind = V_ALT_REF
        v.value = read_u64(c)
    elif form == 0x1f20:
        v.kind = V_ALT_REF
        v.value = read_uint(c, unit.offset_size)
    elif form == 0x1a or form == 0x1f02:
        v.kind = V_STRING_INDEX
        v.value = read_uleb(c)
    elif 0x25 <= form <= 0x28:
        v.kind = V_STRING_INDEX
        v.value = read_uint(c, form - 0x24)
    elif form == 0x1b or form == 0x1f01:
        v.kind = V_ADDRESS_INDEX
        v.value = read_uleb(c)
    elif 0x29 <= form <= 0x2c:
        v.kind = V_ADDRESS_INDEX
        v.value = read_uint(c, form - 0x28)
    elif form == 0x22 or form == 0x23:
        v.kind = V_LIST_INDEX
        v.value = read_uleb(c)
    else:
        fail(c, ERR_FORM)
        v.kind = V_NONE
        v.value = 0

cdef inline void skip_form(Cursor* c, UnitHeader* unit, unsigned form, int size) noexcept nogil:
    """Pass over one value; ``size`` is that of fixed_size()."""
    cdef Value dropped
    if size >= 0:
        skip(c, size)
    elif form == 0x08:
        skip_string(c)
    elif form == 0x0a:
        skip(c, read_u8(c))
    elif form == 0x09 or form == 0x18:
        skip(c, read_uleb(c))
    elif form == 0x03:
        skip(c, read_u16(c))
    elif form == 0x04:
        skip(c, read_u32(c))
    elif form == 0x16:
        read_form(c, unit, form, 0, &dropped)
    else:
        skip_leb(c)
