# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Which attributes of which entries make types (DWARF 5 chapter 5), compiled once per abbreviation table."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._forms cimport Abbreviation, Abbreviations, Spec, UnitHeader
from inlinetrace.generate._store cimport (
    B_ARRAY, B_CONST, B_ENUM, B_FUNC_PROTO, B_INT, B_PTR, B_RESTRICT, B_STRUCT, B_TYPEDEF, B_UNION, B_VOLATILE,
)

cdef enum:
    KIND_PASS = 40
    KIND_VOID = 41


cdef inline uint8_t _what(uint32_t tag, uint8_t* kind) noexcept nogil:
    """The use of a tag, and the kind of BTF that it makes."""
    kind[0] = 0
    if tag == 0x0d:
        return W_MEMBER
    if tag == 0x05:
        return W_PARAMETER
    if tag == 0x34:
        return W_VARIABLE
    if tag == 0x2e:
        return W_FUNCTION
    if tag == 0x28:
        return W_ENUMERATOR
    if tag == 0x21:
        return W_RANGE
    if tag == 0x18:
        return W_VARIADIC
    if tag == 0x1d or tag == 0x48 or tag == 0x4109 or tag == 0x410a:
        return W_SKIP
    if tag == 0x24:
        kind[0] = B_INT
        return W_BASE
    if tag == 0x13 or tag == 0x02 or tag == 0x38:
        kind[0] = B_STRUCT
        return W_STRUCT
    if tag == 0x17:
        kind[0] = B_UNION
        return W_STRUCT
    if tag == 0x04:
        kind[0] = B_ENUM
        return W_ENUM
    if tag == 0x01:
        kind[0] = B_ARRAY
        return W_ARRAY
    if tag == 0x15:
        kind[0] = B_FUNC_PROTO
        return W_SUBROUTINE
    if tag == 0x0f or tag == 0x10 or tag == 0x42 or tag == 0x1f:
        kind[0] = B_PTR
        return W_REFERENCE
    if tag == 0x16:
        kind[0] = B_TYPEDEF
        return W_REFERENCE
    if tag == 0x26:
        kind[0] = B_CONST
        return W_REFERENCE
    if tag == 0x35:
        kind[0] = B_VOLATILE
        return W_REFERENCE
    if tag == 0x37:
        kind[0] = B_RESTRICT
        return W_REFERENCE
    if tag == 0x47 or tag == 0x2d or tag == 0x40 or tag == 0x4b or tag == 0x46 or tag == 0x4300:
        # atomic, packed, shared, immutable, dynamic types and signed pointers: BTF has the type below them alone
        kind[0] = KIND_PASS
        return W_REFERENCE
    if tag == 0x3b:
        kind[0] = KIND_VOID
        return W_VOID
    if tag == 0x6000:
        return W_ANNOTATION
    if tag == 0x6001:
        return W_NOTE
    return W_OTHER


cdef inline int _slot(int what, uint32_t attribute, uint8_t* role) noexcept nogil:
    """The place of an attribute among the values of an entry, -1 if it is not wanted."""
    role[0] = ROLE_PLAIN
    if what == W_OTHER or what == W_VARIADIC:
        return -1
    if what == W_SKIP:
        return S_F if attribute == 0x01 else -1
    if attribute == 0x03:
        role[0] = ROLE_NAME
        return S_NAME
    if attribute == 0x49:
        role[0] = ROLE_REFERENCE
        return S_TYPE
    if attribute == 0x2139 and (what == W_MEMBER or what == W_STRUCT or what == W_REFERENCE or what == W_PARAMETER
                                or what == W_FUNCTION or what == W_VARIABLE or what == W_NOTE):
        role[0] = ROLE_REFERENCE
        return S_ANNOTATION
    if what == W_MEMBER:
        if attribute == 0x38:
            return S_A
        if attribute == 0x0d:
            return S_B
        if attribute == 0x6b:
            return S_C
        if attribute == 0x0c:
            return S_D
        if attribute == 0x0b:
            return S_E
        if attribute == 0x3c:
            return S_F
    elif what == W_STRUCT or what == W_ENUM:
        if attribute == 0x0b:
            return S_A
        if attribute == 0x3c:
            return S_B
        if attribute == 0x69:
            role[0] = ROLE_REFERENCE
            return S_C
    elif what == W_BASE:
        if attribute == 0x0b:
            return S_A
        if attribute == 0x3e:
            return S_B
        if attribute == 0x0d:
            return S_C
    elif what == W_ENUMERATOR:
        if attribute == 0x1c:
            return S_A
    elif what == W_RANGE:
        if attribute == 0x2f:
            return S_A
        if attribute == 0x37:
            return S_B
    elif what == W_PARAMETER:
        if attribute == 0x31:
            role[0] = ROLE_REFERENCE
            return S_A
        if attribute == 0x02:
            role[0] = ROLE_LOCATION
            return S_B
    elif what == W_FUNCTION:
        if attribute == 0x31 or attribute == 0x47:
            role[0] = ROLE_REFERENCE
            return S_A
        if attribute == 0x3c:
            return S_B
        if attribute == 0x3f:
            return S_C
        if attribute == 0x11:
            role[0] = ROLE_ADDRESS
            return S_D
        if attribute == 0x55:
            return S_E
        if attribute == 0x20:
            return S_F
    elif what == W_VARIABLE:
        if attribute == 0x02:
            role[0] = ROLE_ADDRESS
            return S_A
        if attribute == 0x3c:
            return S_B
        if attribute == 0x3f:
            return S_C
        if attribute == 0x47 or attribute == 0x31:
            role[0] = ROLE_REFERENCE
            return S_D
        if attribute == 0x34:
            return S_E
    elif what == W_ANNOTATION or what == W_NOTE:
        if attribute == 0x1c:
            role[0] = ROLE_NAME
            return S_A
    return -1


cdef inline bint _other_unit(unsigned form) noexcept nogil:
    return form == 0x10 or form == 0x20 or form == 0x1c or form == 0x24 or form == 0x1f20


cdef int compile_shapes(Shapes* shapes, Abbreviations* table, UnitHeader* unit, bint swap) noexcept nogil:
    """Fill ``shapes`` from a loaded table of abbreviations; SHAPES_MEMORY without memory, else 0."""
    cdef uint32_t i, j
    cdef Abbreviation* entry
    cdef Spec* spec
    cdef Shape* shape
    cdef Op* op
    cdef Op* last
    cdef int slot
    cdef uint8_t role
    cdef int64_t offset
    cdef bint loadable
    shapes.op_count = 0
    shapes.foreign = False
    if grow(<void**>&shapes.shape, &shapes.capacity, table.count, sizeof(Shape)):
        return SHAPES_MEMORY
    if grow(<void**>&shapes.ops, &shapes.op_capacity, table.count + <uint64_t>table.spec_count, sizeof(Op)):
        return SHAPES_MEMORY
    for i in range(table.count):
        entry = &table.entries[i]
        shape = &shapes.shape[i]
        memset(shape, 0, sizeof(Shape))
        shape.what = _what(entry.tag, &shape.kind)
        shape.children = entry.children
        if shape.what == W_SKIP and not (entry.children and entry.sibling):
            shape.what = W_OTHER
        if shape.what == W_RANGE:
            shape.implicit[S_A] = -1
        shape.simple = not swap and shape.what != W_NOTE
        shape.first_op = <uint32_t>shapes.op_count
        offset = 0
        last = NULL
        for j in range(entry.first, entry.first + entry.count):
            spec = &table.specs[j]
            slot = _slot(shape.what, spec.attribute, &role)
            if slot >= 0 and (shape.annotated if slot == S_ANNOTATION else (shape.present >> slot) & 1):
                slot = -1                     # an attribute that stands twice counts once
            if shape.what == W_VARIABLE and slot == S_A and spec.form != 0x18 and spec.form != 0x0a and spec.form != 0x09:
                slot = -1                     # a location list: no variable with one address
            if slot >= 0:
                if slot == S_ANNOTATION:
                    shape.annotated = True
                else:
                    shape.present |= <uint8_t>(1 << slot)
                if role == ROLE_REFERENCE and _other_unit(spec.form):
                    shapes.foreign = True
            if slot < 0 and spec.size >= 0:
                offset += spec.size
                if last != NULL and last.skip and last.skip < 0x7ffffff:
                    last.skip += spec.size
                elif spec.size:
                    last = &shapes.ops[shapes.op_count]
                    shapes.op_count += 1
                    last.skip = spec.size
                    last.slot = -1
                continue
            op = &shapes.ops[shapes.op_count]
            shapes.op_count += 1
            op.skip = 0
            op.form = spec.form
            op.width = spec.size
            op.slot = <signed char>slot
            op.role = role
            op.implicit = spec.implicit
            last = op
            if slot < 0 or slot == S_ANNOTATION:
                shape.simple = False
                continue
            if spec.form == 0x08 and slot == S_NAME and offset == 0 and shape.field_count == 0 and not shape.name_first:
                shape.name_first = True
                continue
            if spec.size < 0:
                shape.simple = False
                continue
            if spec.form == 0x21:
                shape.implicit[slot] = spec.implicit
                loadable = role == ROLE_PLAIN
            elif spec.form == 0x19:
                shape.implicit[slot] = 1
                loadable = role == ROLE_PLAIN
            else:
                if role == ROLE_NAME:
                    if spec.form == 0x0e and shape.what != W_ANNOTATION:
                        shape.name_role = NAME_STR
                        loadable = True
                    elif 0x25 <= spec.form <= 0x28 and shape.what != W_ANNOTATION:
                        shape.name_role = NAME_INDEX
                        loadable = True
                    else:
                        loadable = False
                elif role == ROLE_REFERENCE:
                    loadable = spec.form == 0x13 or spec.form == 0x12 or spec.form == 0x11
                elif role == ROLE_LOCATION:
                    loadable = spec.form == 0x17
                elif role == ROLE_ADDRESS:
                    loadable = spec.form == 0x01 and shape.what == W_FUNCTION
                else:
                    # data1, data2, data4, data8, flag; DW_AT_ranges is only asked whether it is there
                    loadable = (spec.form == 0x0b or spec.form == 0x05 or spec.form == 0x06 or spec.form == 0x07
                                or spec.form == 0x0c or spec.form == 0x17)
                    if shape.what == W_SKIP:
                        loadable = spec.form == 0x13
                if loadable:
                    shape.fields[shape.field_count].slot = <uint8_t>slot
                    shape.fields[shape.field_count].width = <uint8_t>spec.size
                    shape.fields[shape.field_count].offset = <uint16_t>offset
                    shape.field_count += 1
            if not loadable or offset + spec.size > 0xff00:
                shape.simple = False
                shape.field_count = 0
            offset += spec.size
        shape.op_count = <uint32_t>(shapes.op_count - shape.first_op)
        shape.fixed = <int32_t>offset if offset < 0x7fffffff else -1
        if shape.fixed < 0:
            shape.simple = False
    return 0


cdef void free_shapes(Shapes* shapes) noexcept nogil:
    free(shapes.shape)
    free(shapes.ops)
    memset(shapes, 0, sizeof(Shapes))
