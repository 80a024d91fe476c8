# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True
"""Abbreviation tables (DWARF 5 section 7.5.3), compiled for one unit at a time."""
from libc.stdint cimport int8_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_sleb, read_u8, read_uleb

cdef enum:
    FORMS = 0x30                 # forms up to here are all those that DWARF 5 defines


cdef int load_abbreviations(Abbreviations* table, const uint8_t* data, uint64_t size, uint64_t offset,
                            uint64_t only, UnitHeader* unit, uint64_t* error_at) noexcept nogil:
    """Fill ``table`` with the declarations at ``offset``; return 0 or an error of _cursor.pxd or _forms.pxd, -1 for memory.

    A table that is already loaded for the same offset and sizes is kept. ``only`` is the one code that is wanted, 0 for
    all: most units need nothing but their root at first. ``error_at`` is the offset of a fault.
    """
    cdef Cursor c
    cdef uint64_t code, attribute, form, dense
    cdef uint32_t i, spec_count = 0
    cdef bint wanted
    cdef Abbreviation* entry
    cdef Spec* spec
    cdef int width, fixed
    cdef int8_t widths[FORMS]
    cdef int64_t implicit
    if (table.valid and table.offset == offset and table.address_size == unit.address_size
            and table.offset_size == unit.offset_size and table.version == unit.version):
        return 0
    table.valid = False
    table.count = 0
    table.spec_count = 0
    for i in range(FORMS):
        widths[i] = <int8_t>fixed_size(i, unit)
    c = make_cursor(data, offset, size, False)
    while True:
        code = read_uleb(&c)
        if c.error or code == 0:
            break
        wanted = only == 0 or code == only
        if grow(<void**>&table.entries, &table.capacity, table.count + <uint64_t>1, sizeof(Abbreviation)):
            return -1
        # the place of one that is not wanted is the next one's
        entry = &table.entries[table.count]
        entry.code = code
        entry.tag = <uint32_t>read_uleb(&c)
        entry.children = read_u8(&c)
        entry.first = spec_count
        entry.kind = 0
        entry.sibling = 0
        fixed = 0
        while not c.error:
            attribute = read_uleb(&c)
            form = read_uleb(&c)
            if attribute == 0 and form == 0:
                break
            width = widths[form] if form < FORMS else fixed_size(<unsigned>form if form <= 0xffff else 0, unit)
            if width == -2:
                error_at[0] = c.pos
                return ERR_FORM
            implicit = read_sleb(&c) if form == 0x21 else 0
            if not wanted:
                continue
            if grow(<void**>&table.specs, &table.spec_capacity, spec_count + <uint64_t>1, sizeof(Spec)):
                return -1
            spec = &table.specs[spec_count]
            spec.attribute = <uint16_t>attribute if attribute <= 0xffff else 0
            spec.form = <uint16_t>form
            spec.implicit = implicit
            spec.size = width
            if width < 0:
                fixed = -1
            elif fixed >= 0:
                fixed += width
            if attribute == 0x01 and spec_count - entry.first < 0xffff:
                entry.sibling = <uint16_t>(spec_count - entry.first + 1)
            spec_count += 1
        entry.fixed = fixed
        entry.count = spec_count - entry.first
        if wanted:
            table.count += 1
            if only:
                break
    table.spec_count = spec_count
    if c.error:
        error_at[0] = c.error_at
        return c.error
    dense = 0
    for i in range(table.count):
        code = table.entries[i].code
        if code > dense and code < 4 * <uint64_t>table.count + 1024:
            dense = code
    if dense >= table.by_code_capacity:
        free(table.by_code)
        table.by_code_size = 0
        table.by_code_capacity = 2 * dense + 2
        table.by_code = <uint32_t*>malloc(table.by_code_capacity * sizeof(uint32_t))
        if table.by_code == NULL:
            table.by_code_capacity = 0
            return -1
    table.by_code_size = dense + 1
    memset(table.by_code, 0, table.by_code_size * sizeof(uint32_t))
    for i in range(table.count):
        code = table.entries[i].code
        if code <= dense and table.by_code[code] == 0:
            table.by_code[code] = i + 1
    free(table.sparse)
    table.sparse = NULL
    if not only:
        for i in range(table.count):
            if table.entries[i].code > dense:
                table.sparse = _sorted(table.entries, table.count)
                if table.sparse == NULL:
                    return -1
                break
    table.offset = offset
    table.address_size = unit.address_size
    table.offset_size = unit.offset_size
    table.version = unit.version
    table.valid = only == 0
    return 0


cdef uint32_t* _sorted(Abbreviation* entries, uint32_t count) noexcept nogil:
    """Indexes of ``entries`` in the order of their codes, equal codes in the order of the table; NULL without memory."""
    cdef uint32_t* order = <uint32_t*>malloc(count * sizeof(uint32_t))
    cdef uint32_t* other = <uint32_t*>malloc(count * sizeof(uint32_t))
    cdef uint32_t* swapped
    cdef uint64_t width = 1, start, middle, end, a, b, k
    if order == NULL or other == NULL:
        free(order)
        free(other)
        return NULL
    for k in range(count):
        order[k] = <uint32_t>k
    while width < count:
        start = 0
        while start < count:
            middle = min(start + width, <uint64_t>count)
            end = min(start + 2 * width, <uint64_t>count)
            a = start
            b = middle
            for k in range(start, end):
                if a < middle and (b >= end or entries[order[a]].code <= entries[order[b]].code):
                    other[k] = order[a]
                    a += 1
                else:
                    other[k] = order[b]
                    b += 1
            start = end
        swapped = order
        order = other
        other = swapped
        width *= 2
    free(other)
    return order


cdef Abbreviation* find_sparse(Abbreviations* table, uint64_t code) noexcept nogil:
    """Look up a code that is far above the number of declarations."""
    cdef uint32_t i, low = 0, high = table.count
    if table.sparse != NULL:
        while low < high:
            i = low + (high - low) // 2
            if table.entries[table.sparse[i]].code < code:
                low = i + 1
            else:
                high = i
        if low < table.count and table.entries[table.sparse[low]].code == code:
            return &table.entries[table.sparse[low]]
        return NULL
    for i in range(table.count):
        if table.entries[i].code == code:
            return &table.entries[i]
    return NULL


cdef void free_abbreviations(Abbreviations* table) noexcept nogil:
    free(table.entries)
    free(table.specs)
    free(table.by_code)
    free(table.sparse)
    table.sparse = NULL
    table.entries = NULL
    table.specs = NULL
    table.by_code = NULL
    table.count = table.capacity = table.spec_count = table.spec_capacity = 0
    table.by_code_size = table.by_code_capacity = 0
    table.valid = False
