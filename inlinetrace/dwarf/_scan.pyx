# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""One pass over the entries of a range of units: every function, inlined copy and parameter, as flat records.

Names and types are left where they are; a record has offsets only. What has no use here (types, variables, labels) is
passed over, by DW_AT_sibling where the language has no functions inside of types.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport Cursor, ERR_SIZE, make_cursor, read_uleb, skip
from inlinetrace.dwarf._forms cimport (
    ERR_ABBREV, V_ADDRESS, V_ADDRESS_INDEX, V_ALT_REF, V_BLOCK, V_FLAG, V_LIST_INDEX, V_NONE, V_REF, V_SINT, V_UINT,
    Abbreviation, Abbreviations, Spec, UnitHeader, Value, find_abbreviation, free_abbreviations, load_abbreviations,
    read_form, skip_form,
)
from inlinetrace.dwarf._units cimport Info, describe
from inlinetrace.elf._search cimport count_items

from inlinetrace.errors import FormatError

cdef enum:
    K_UNSEEN = 0
    K_OTHER = 1
    K_SITE = 2
    K_FUNCTION = 3
    K_PARAMETER = 4
    K_SKIP = 5           # its children are of no use and it says where it ends
    K_BLOCK = 6          # hands its parent's role to its children

cdef enum:
    ERR_MEMORY = -1
    ERR_INDEX = 32
    ERR_SIBLING = 33
    ERR_REFERENCE = 34
    ERR_NESTING = 35
    # What walks from a site to the function around it takes a step per level: far more than compilers make, few
    # enough that hostile input gains nothing.
    MAX_SITES_DEEP = 512
    MAX_FUNCTIONS_DEEP = 64

cdef struct Level:
    int32_t parent       # nearest enclosing site or function
    uint8_t owns         # that one is the direct parent: parameters belong to it
    uint8_t functions    # how many functions are around it
    uint16_t sites       # how many inlined ones are around it


cdef struct Reader:
    Cursor cursor
    Abbreviations table
    Level* levels
    uint64_t depth
    uint64_t capacity
    uint64_t error_at
    bint in_abbrev


cdef int _more(void** array, uint64_t* capacity, size_t item, uint64_t expected) noexcept nogil:
    """Make room for more items. What is ``expected`` costs address space alone until it is used."""
    return ERR_MEMORY if grow(array, capacity, max(capacity[0] + 1, expected, <uint64_t>512), item) else 0


cdef inline bint _types_have_functions(uint32_t language) noexcept nogil:
    """C and assembler have no functions inside of types; every other language may have."""
    return not (language == 0x01 or language == 0x02 or language == 0x0c or language == 0x1d or language == 0x2c
                or language == 0x8001 or language == 0x3e or language == 0x31)


cdef inline int _kind(Abbreviation* entry, bint functions_in_types) noexcept nogil:
    cdef uint32_t tag = entry.tag
    if tag == 0x1d:
        return K_SITE
    if tag == 0x2e:
        return K_FUNCTION
    if tag == 0x05:
        return K_PARAMETER
    if tag == 0x0b:
        return K_BLOCK
    if entry.children and entry.sibling:
        if tag == 0x04 or tag == 0x15 or tag == 0x01:
            return K_SKIP
        if (tag == 0x13 or tag == 0x17 or tag == 0x02) and not functions_in_types:
            return K_SKIP
    return K_OTHER


cdef class Chunk:
    """The records of the units ``first_unit`` up to, not including, ``last_unit``."""

    def __dealloc__(self):
        free(self.sites)
        free(self.functions)
        free(self.parameters)

    @property
    def sites_found(self):
        """Number of DW_TAG_inlined_subroutine entries."""
        return self.site_count

    @property
    def functions_found(self):
        """Number of DW_TAG_subprogram entries."""
        return self.function_count

    cdef Py_ssize_t function_at(self, uint64_t die) noexcept nogil:
        """Index of the function whose entry is at ``die``, -1 if there is none."""
        cdef Py_ssize_t index = <Py_ssize_t>count_items(
            &self.functions[0].die, sizeof(FunctionRecord), self.function_count, die) - 1
        return index if index >= 0 and self.functions[index].die == die else -1


cdef inline bint _leads_nowhere(Info info, UnitHeader* unit, uint32_t form, uint64_t offset) noexcept nogil:
    """Whether a reference of a form that stays inside of its unit (DW_FORM_ref1 to ref_udata) or section does not."""
    if 0x11 <= form <= 0x15:
        return not unit.offset <= offset < unit.end
    return offset >= info.size


cdef inline void _set_ranges(Value* value, uint64_t* ranges, uint32_t* flags) noexcept nogil:
    ranges[0] = value.value
    flags[0] |= HAS_RANGES
    if value.kind == V_LIST_INDEX:
        flags[0] |= LIST_INDEX


cdef int _address(Info info, UnitHeader* unit, Value* value, uint64_t* result) noexcept nogil:
    if value.kind == V_ADDRESS:
        result[0] = value.value
        return 0
    if value.kind == V_ADDRESS_INDEX:
        return ERR_INDEX if info.resolve_address(unit, value.value, result) else 0
    result[0] = 0
    return ERR_SIZE


cdef int _read_site(Info info, Chunk out, Reader* r, UnitHeader* unit, uint32_t unit_index, Abbreviation* entry,
                    uint64_t die) noexcept nogil:
    cdef SiteRecord* site
    cdef Spec* spec
    cdef Value value, entry_value, high
    cdef uint32_t i
    cdef int error = 0
    if out.site_count == out.site_capacity:
        error = _more(<void**>&out.sites, &out.site_capacity, sizeof(SiteRecord), out.bytes_ // 256)
        if error:
            return error
    site = &out.sites[out.site_count]
    memset(site, 0, sizeof(SiteRecord))
    entry_value.kind = V_NONE
    high.kind = V_NONE
    site.die = die
    site.unit = unit_index
    site.first = site.last = <uint32_t>NONE32
    for i in range(entry.first, entry.first + entry.count):
        spec = &r.table.specs[i]
        if spec.attribute == 0x31:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            site.origin = value.value
            if value.kind == V_ALT_REF:
                site.flags |= ALT_ORIGIN
            elif value.kind != V_REF or _leads_nowhere(info, unit, spec.form, value.value):
                error = ERR_REFERENCE
        elif spec.attribute == 0x52:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &entry_value)
        elif spec.attribute == 0x11:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            error = _address(info, unit, &value, &site.low)
            site.flags |= HAS_LOW
        elif spec.attribute == 0x12:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &high)
        elif spec.attribute == 0x55:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            _set_ranges(&value, &site.ranges, &site.flags)
        elif spec.attribute == 0x2138:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            site.view = <uint32_t>value.value
            site.flags |= HAS_VIEW
        elif spec.attribute == 0x58:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            site.call_file = <uint32_t>value.value
        elif spec.attribute == 0x59:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            site.call_line = <uint32_t>value.value
        elif spec.attribute == 0x57:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            site.call_column = <uint32_t>value.value
        else:
            skip_form(&r.cursor, unit, spec.form, spec.size)
        if error or r.cursor.error:
            break
    if not error and high.kind != V_NONE:
        if high.kind == V_ADDRESS or high.kind == V_ADDRESS_INDEX:
            error = _address(info, unit, &high, &site.high)
        else:
            site.high = site.low + high.value
    if not error and entry_value.kind != V_NONE:
        site.flags |= HAS_ENTRY
        if entry_value.kind == V_ADDRESS or entry_value.kind == V_ADDRESS_INDEX:
            error = _address(info, unit, &entry_value, &site.entry)
        else:
            # a constant counts from the base address of the entry (DWARF 5 section 2.18)
            site.entry = entry_value.value + site.low
            if not site.flags & HAS_LOW:
                site.entry = entry_value.value + unit.low_pc
    out.site_count += 1
    return error


cdef inline bint _is_tombstone(Info info, UnitHeader* unit, uint64_t address) noexcept nogil:
    """Whether a linker writes ``address`` for what it left out: 0 where no code is, or one of the largest two."""
    if not address:
        return info.discards_at_zero
    return address >= (0xfffffffffffffffeULL if unit.address_size == 8 else (1ULL << (8 * unit.address_size)) - 2)


cdef int _read_function(Info info, Chunk out, Reader* r, UnitHeader* unit, uint32_t unit_index, Abbreviation* entry,
                        uint64_t die, uint64_t* sibling) noexcept nogil:
    cdef FunctionRecord* function
    cdef Spec* spec
    cdef Value value, high, entry_value
    cdef uint32_t i
    cdef int error = 0
    if out.function_count == out.function_capacity:
        error = _more(<void**>&out.functions, &out.function_capacity, sizeof(FunctionRecord), out.bytes_ // 1024)
        if error:
            return error
    function = &out.functions[out.function_count]
    memset(function, 0, sizeof(FunctionRecord))
    function.die = die
    function.unit = unit_index
    function.first = function.last = <uint32_t>NONE32
    high.kind = V_NONE
    entry_value.kind = V_NONE
    sibling[0] = 0
    for i in range(entry.first, entry.first + entry.count):
        spec = &r.table.specs[i]
        if spec.attribute == 0x03 or spec.attribute == 0x6e or spec.attribute == 0x2007:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            if info.resolve_string(unit, &value):
                error = ERR_INDEX
            elif spec.attribute == 0x03:
                function.name = value.value
            else:
                function.linkage_name = value.value
        elif spec.attribute == 0x31 or spec.attribute == 0x47:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            if value.kind == V_REF or value.kind == V_ALT_REF:
                function.origin = value.value
                if value.kind == V_ALT_REF:
                    function.flags |= ALT_ORIGIN
                elif _leads_nowhere(info, unit, spec.form, value.value):
                    error = ERR_REFERENCE
        elif spec.attribute == 0x11:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            error = _address(info, unit, &value, &function.low)
            function.flags |= HAS_LOW
        elif spec.attribute == 0x12:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &high)
        elif spec.attribute == 0x52:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &entry_value)
        elif spec.attribute == 0x55:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            _set_ranges(&value, &function.ranges, &function.flags)
        elif spec.attribute == 0x40:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            if value.kind == V_BLOCK:
                function.frame_base = value.value
                function.frame_base_length = <uint32_t>value.length
        elif spec.attribute == 0x3c or spec.attribute == 0x3f:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            if value.value:
                function.flags |= DECLARATION if spec.attribute == 0x3c else EXTERNAL
        elif spec.attribute == 0x20:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            function.flags |= ABSTRACT
        elif spec.attribute == 0x01:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            sibling[0] = value.value
        else:
            skip_form(&r.cursor, unit, spec.form, spec.size)
        if error or r.cursor.error:
            break
    if not error and high.kind != V_NONE:
        if high.kind == V_ADDRESS or high.kind == V_ADDRESS_INDEX:
            error = _address(info, unit, &high, &function.high)
        else:
            function.high = function.low + high.value
    if not error and (entry_value.kind == V_ADDRESS or entry_value.kind == V_ADDRESS_INDEX):
        function.flags |= HAS_ENTRY
        error = _address(info, unit, &entry_value, &function.entry)
    if not error and function.flags & HAS_LOW and _is_tombstone(info, unit, function.low):
        function.flags = function.flags & ~(HAS_LOW | HAS_RANGES | HAS_ENTRY) | DISCARDED
    out.function_count += 1
    return error


cdef uint64_t HAS_VIEWS = 1ULL << 63


cdef int _read_parameter(Info info, Chunk out, Reader* r, UnitHeader* unit, Abbreviation* entry, uint64_t die,
                         uint32_t* first, uint32_t* last) noexcept nogil:
    cdef ParameterRecord* parameter
    cdef Spec* spec
    cdef Value value
    cdef uint32_t i
    if out.parameter_count == out.parameter_capacity:
        if _more(<void**>&out.parameters, &out.parameter_capacity, sizeof(ParameterRecord), out.bytes_ // 128):
            return ERR_MEMORY
    parameter = &out.parameters[out.parameter_count]
    memset(parameter, 0, sizeof(ParameterRecord))
    parameter.die = die
    parameter.next = <uint32_t>NONE32
    for i in range(entry.first, entry.first + entry.count):
        spec = &r.table.specs[i]
        if spec.attribute == 0x31:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            if value.kind == V_REF:
                if _leads_nowhere(info, unit, spec.form, value.value):
                    return ERR_REFERENCE
                parameter.origin = value.value
            elif value.kind == V_ALT_REF:
                parameter.origin = value.value | (1ULL << 63)
        elif spec.attribute == 0x02:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            parameter.value = value.value
            parameter.length = <uint32_t>value.length
            if value.kind == V_BLOCK:
                parameter.kind = LOC_EXPRESSION
            elif value.kind == V_LIST_INDEX:
                parameter.kind = LOC_LIST_INDEX
            else:
                parameter.kind = LOC_LIST
        elif spec.attribute == 0x1c and parameter.kind == LOC_NONE:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            parameter.value = value.value
            parameter.length = <uint32_t>value.length
            if value.kind == V_BLOCK:
                parameter.kind = LOC_BYTES
            elif value.kind == V_SINT:
                parameter.kind = LOC_SINT
            elif value.kind == V_UINT or value.kind == V_FLAG:
                parameter.kind = LOC_UINT
        elif spec.attribute == 0x2137:
            read_form(&r.cursor, unit, spec.form, spec.implicit, &value)
            # the pairs of the very first list of .debug_loc stand at offset 0
            parameter.views = value.value | HAS_VIEWS
            if unit.is_dwo and unit.version >= 5:
                # gcc writes the distance from what DW_AT_loclists_base would name in a unit that is not split
                parameter.views = (value.value + unit.loclists_base) | HAS_VIEWS
        else:
            skip_form(&r.cursor, unit, spec.form, spec.size)
    if first[0] == <uint32_t>NONE32:
        first[0] = <uint32_t>out.parameter_count
    else:
        out.parameters[last[0]].next = <uint32_t>out.parameter_count
    last[0] = <uint32_t>out.parameter_count
    out.parameter_count += 1
    return 0


cdef int _push(Reader* r, int32_t parent, bint owns) noexcept nogil:
    if r.depth == r.capacity and _more(<void**>&r.levels, &r.capacity, sizeof(Level), 0):
        return ERR_MEMORY
    r.levels[r.depth].parent = parent
    r.levels[r.depth].owns = owns
    r.levels[r.depth].functions = r.levels[r.depth - 1].functions if r.depth else 0
    r.levels[r.depth].sites = r.levels[r.depth - 1].sites if r.depth else 0
    r.depth += 1
    return 0


cdef int _push_site(Reader* r, int32_t parent, uint64_t die) noexcept nogil:
    if _push(r, parent, True):
        return ERR_MEMORY
    r.levels[r.depth - 1].sites += 1
    if r.levels[r.depth - 1].sites > MAX_SITES_DEEP:
        r.error_at = die
        return ERR_NESTING
    return 0


cdef int _push_function(Reader* r, int32_t parent, bint owns, uint64_t die) noexcept nogil:
    if _push(r, parent, owns):
        return ERR_MEMORY
    r.levels[r.depth - 1].sites = 0
    r.levels[r.depth - 1].functions += 1
    if r.levels[r.depth - 1].functions > MAX_FUNCTIONS_DEEP:
        r.error_at = die
        return ERR_NESTING
    return 0


cdef int _scan_unit(Info info, Chunk out, Reader* r, UnitHeader* unit, uint32_t unit_index) noexcept nogil:
    """Scan one unit; return 0, or an error whose place is in ``r``."""
    cdef Cursor* c = &r.cursor
    cdef Abbreviation* entry
    cdef Spec* spec
    cdef Value value
    cdef uint64_t die, code, sibling
    cdef uint32_t i
    cdef int error, kind
    cdef int32_t parent
    cdef bint functions_in_types = _types_have_functions(unit.language)
    cdef FunctionRecord* function
    cdef SiteRecord* site
    r.in_abbrev = True
    error = load_abbreviations(&r.table, &info.abbrev[0] if info.abbrev.shape[0] else NULL, info.abbrev.shape[0],
                               unit.abbrev_offset, 0, unit, &r.error_at)
    if error:
        return error
    r.in_abbrev = False
    for i in range(r.table.count):
        r.table.entries[i].kind = <uint8_t>_kind(&r.table.entries[i], functions_in_types)
    c[0] = make_cursor(info.data, unit.first_die, unit.end, info.swap)
    r.depth = 0
    while c.pos < c.end:
        die = c.pos
        code = read_uleb(c)
        if code == 0:
            if r.depth:
                r.depth -= 1
            continue
        entry = find_abbreviation(&r.table, code)
        if entry == NULL:
            r.error_at = die
            return ERR_ABBREV
        out.entries += 1
        kind = entry.kind
        parent = r.levels[r.depth - 1].parent if r.depth else <int32_t>NO_PARENT
        if kind == K_OTHER or kind == K_BLOCK:
            if entry.fixed >= 0:
                skip(c, entry.fixed)
            else:
                for i in range(entry.first, entry.first + entry.count):
                    skip_form(c, unit, r.table.specs[i].form, r.table.specs[i].size)
            if entry.children and _push(r, parent, False):
                return ERR_MEMORY
        elif kind == K_PARAMETER:
            if r.depth and r.levels[r.depth - 1].owns:
                if parent >= 0:
                    error = _read_parameter(info, out, r, unit, entry, die, &out.sites[parent].first, &out.sites[parent].last)
                else:
                    function = &out.functions[-1 - parent]
                    error = _read_parameter(info, out, r, unit, entry, die, &function.first, &function.last)
                if error:
                    r.error_at = die
                    return error
            elif entry.fixed >= 0:
                skip(c, entry.fixed)
            else:
                for i in range(entry.first, entry.first + entry.count):
                    skip_form(c, unit, r.table.specs[i].form, r.table.specs[i].size)
            if entry.children and _push(r, parent, False):
                return ERR_MEMORY
        elif kind == K_SITE:
            error = _read_site(info, out, r, unit, unit_index, entry, die)
            if error:
                r.error_at = die
                return error
            site = &out.sites[out.site_count - 1]
            site.parent = parent
            if parent != <int32_t>NO_PARENT and DISCARDED & (out.sites[parent].flags if parent >= 0
                                                             else out.functions[-1 - parent].flags):
                site.flags = site.flags & ~(HAS_LOW | HAS_RANGES | HAS_ENTRY) | DISCARDED
            if entry.children:
                error = _push_site(r, <int32_t>(out.site_count - 1), die)
                if error:
                    return error
        elif kind == K_FUNCTION:
            error = _read_function(info, out, r, unit, unit_index, entry, die, &sibling)
            if error:
                r.error_at = die
                return error
            function = &out.functions[out.function_count - 1]
            function.parent = parent
            if entry.children:
                if not function.flags & (HAS_LOW | HAS_RANGES | DISCARDED) and sibling and not functions_in_types:
                    if sibling <= c.pos or sibling > c.end:
                        r.error_at = die
                        return ERR_SIBLING
                    c.pos = sibling
                else:
                    error = _push_function(r, -1 - <int32_t>(out.function_count - 1),
                                           function.flags & (HAS_LOW | HAS_RANGES | DISCARDED) != 0, die)
                    if error:
                        return error
        else:                                 # K_SKIP
            sibling = 0
            for i in range(entry.count):
                spec = &r.table.specs[entry.first + i]
                if i + 1 == entry.sibling:
                    read_form(c, unit, spec.form, spec.implicit, &value)
                    sibling = value.value
                    break
                skip_form(c, unit, spec.form, spec.size)
            if not c.error:
                if sibling <= c.pos or sibling > c.end:
                    r.error_at = die
                    return ERR_SIBLING
                c.pos = sibling
    if c.error:
        r.error_at = c.error_at
        return c.error
    return 0


def unread(Py_ssize_t first, Py_ssize_t last):
    """The Chunk of units that have not been scanned, which is empty."""
    cdef Chunk chunk = Chunk()
    chunk.first_unit = first
    chunk.last_unit = last
    return chunk


def scan(Info info, Py_ssize_t first, Py_ssize_t last, Chunk into=None):
    """Scan the units ``first`` up to, not including, ``last`` without the GIL; return a Chunk.

    ``into`` is a Chunk that is not needed any more: its memory serves again. Raises FormatError with the section and
    offset of the first fault.
    """
    cdef Chunk out = Chunk() if into is None else into
    cdef Reader reader
    cdef int error = 0
    cdef Py_ssize_t i
    if not 0 <= first <= last <= info.count:
        raise IndexError("no such units")
    out.first_unit = first
    out.last_unit = last
    out.site_count = out.function_count = out.parameter_count = out.entries = 0
    if first < last:
        out.bytes_ = info.headers[last - 1].end - info.headers[first].offset
    memset(&reader, 0, sizeof(reader))
    with nogil:
        for i in range(first, last):
            error = _scan_unit(info, out, &reader, &info.headers[i], <uint32_t>i)
            if error:
                break
    free(reader.levels)
    free_abbreviations(&reader.table)
    if error == ERR_MEMORY:
        raise MemoryError
    if error:
        section = (".debug_abbrev.dwo" if info.is_dwo else ".debug_abbrev") if reader.in_abbrev else info.section
        if error == ERR_SIBLING:
            text = "DW_AT_sibling does not lead forward inside of its unit"
        elif error == ERR_INDEX:
            text = "an index leads outside of .debug_addr or .debug_str_offsets"
        elif error == ERR_REFERENCE:
            text = "DW_AT_abstract_origin or DW_AT_specification leads to no entry"
        elif error == ERR_NESTING:
            text = "functions are nested deeper than any compiler makes them"
        elif error == ERR_SIZE:
            text = "an address attribute has a form that is not an address"
        else:
            text = describe(error)
        raise FormatError(text, path=info.path, section=section, offset=reader.error_at)
    return out
