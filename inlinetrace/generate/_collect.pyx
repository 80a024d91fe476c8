# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""One pass over the entries of units: types become records, with their members, parameters and enumerators as items.

A Collector belongs to one thread. ``collect`` reads units one after the other; what stays of each is the list of its
nodes in the thread's store (``_resolve.pyx`` makes them), its functions and its variables. References stay inside a
unit, except in ``joint`` mode, where all units that are read count as one (link-time optimisation, dwz, type units).
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcpy, memset, strlen

from inlinetrace.dwarf._cursor cimport (
    Cursor, fail, inlinetrace_likely, make_cursor, read_uint, read_uleb, read_u8, skip, skip_string,
)
from inlinetrace.dwarf._forms cimport (
    ERR_ABBREV, STR_ALT, STR_INLINE, STR_SHIFT, STR_STR, V_ADDRESS, V_ADDRESS_INDEX, V_ALT_REF, V_BLOCK, V_FLAG,
    V_OFFSET, V_LIST_INDEX, V_REF, V_SIGNATURE, V_SINT, V_STRING, V_STRING_INDEX, V_UINT, Abbreviation, UnitHeader,
    Value, find_abbreviation, free_abbreviations, load_abbreviations, read_form, skip_form,
)
from inlinetrace.dwarf._units cimport Info, describe, start_of
from inlinetrace.generate._resolve cimport finish
from inlinetrace.generate._shapes cimport (
    LOCATION_BYTES, LOCATION_INDEX, LOCATION_KIND, LOCATION_LENGTH, LOCATION_LIST, NAME_INDEX, NAME_STR, ROLE_ADDRESS,
    ROLE_LOCATION, ROLE_NAME, ROLE_REFERENCE, S_A, S_B, S_C, S_D, S_E, S_F, S_NAME, S_TYPE, SLOTS, S_ANNOTATION,
    W_ANNOTATION, W_ARRAY, W_BASE, W_ENUM, W_ENUMERATOR, W_FUNCTION, W_MEMBER, W_NOTE, W_OTHER, W_PARAMETER, W_RANGE,
    W_REFERENCE, W_SKIP, W_STRUCT, W_SUBROUTINE, W_VARIABLE, W_VARIADIC, W_VOID, Field, Op, Shape, compile_shapes,
    free_shapes,
)
from inlinetrace.generate._store cimport (
    B_ARRAY, B_ENUM, B_FUNC_PROTO, B_FWD, B_INT, B_PTR, B_STRUCT, B_TYPEDEF, B_UNION, TAG, TAG_UNION, grow_array, names_free,
    names_init, names_intern, push, store_free, store_init,
)

from inlinetrace.errors import FormatError, UnsupportedError

cdef enum:
    KEY_SHIFT = 44
    MAX_NAME = 4095      # what a reader of BTF accepts

cdef uint64_t OFFSET_MASK = (1ULL << 44) - 1


class ForeignReferenceError(Exception):
    """A unit refers to entries of another unit: the units have to be read together (``joint``)."""


cdef inline int _room(void** array, uint64_t* capacity, uint64_t count, size_t item) noexcept nogil:
    if inlinetrace_likely(count < capacity[0]):
        return 0
    if count >= 0x0ffffff0:
        return -1
    return grow_array(array, capacity, count + 1, item)


cdef class Collector:
    """The types of some units of ``infos``; ``main`` strings are those of the first."""

    def __cinit__(self, list infos, *, bint joint=False, bint floats=True, bint enum64s=True, bint decl_tags=True,
                  bint type_tags=True, bytes registers=b""):
        cdef int i
        self.infos = infos
        self.joint = joint
        self.floats = floats
        self.enum64s = enum64s
        self.decl_tags = decl_tags
        self.type_tags = type_tags
        self.main = infos[0]
        self.register_count = min(len(registers), 16)
        for i in range(self.register_count):
            self.registers[i] = registers[i]
        if store_init(&self.store) or names_init(&self.names):
            raise MemoryError
        if joint:
            self.key_mask = (1 << 16) - 1
            self.keys = <uint64_t*>calloc(self.key_mask + 1, 8)
            self.key_values = <uint32_t*>calloc(self.key_mask + 1, 4)
            if self.keys == NULL or self.key_values == NULL:
                raise MemoryError
            self._load_signatures()

    def __dealloc__(self):
        store_free(&self.store)
        names_free(&self.names)
        self.forget()
        free(self.nodes.v)
        free(self.kept_functions)
        free(self.kept_variables)
        free(self.kept_tags)
        free(self.slices)

    def forget(self):
        """Let go of what only reading needs."""
        free_abbreviations(&self.table)
        free_shapes(&self.shapes)
        free(self.records)
        free(self.items)
        free(self.functions)
        free(self.variables)
        free(self.annotations)
        free(self.notes)
        free(self.note_uses)
        free(self.map)
        free(self.keys)
        free(self.key_values)
        free(self.signatures)
        free(self.levels.v)
        free(self.stack.v)
        free(self.scratch.v)
        free(self.pending.v)
        memset(&self.pending, 0, sizeof(self.pending))
        self.records = NULL
        self.items = NULL
        self.functions = NULL
        self.variables = NULL
        self.annotations = NULL
        self.notes = NULL
        self.note_uses = NULL
        self.map = NULL
        self.keys = NULL
        self.key_values = NULL
        self.signatures = NULL
        self.record_count = self.record_capacity = self.item_count = self.item_capacity = 0
        self.function_count = self.function_capacity = self.variable_count = self.variable_capacity = 0
        self.annotation_count = self.annotation_capacity = self.map_capacity = 0
        self.note_count = self.note_capacity = self.note_use_count = self.note_use_capacity = 0
        self.key_count = self.key_mask = self.signature_count = 0
        memset(&self.levels, 0, sizeof(self.levels))
        memset(&self.stack, 0, sizeof(self.stack))
        memset(&self.scratch, 0, sizeof(self.scratch))

    def _load_signatures(self):
        cdef Info info
        cdef Py_ssize_t i
        pairs = {}
        for number, info in enumerate(self.infos):
            for i in range(info.count):
                if info.headers[i].unit_type == 2 or info.headers[i].unit_type == 6:
                    key = <uint64_t>number << KEY_SHIFT | (info.headers[i].offset + info.headers[i].type_offset)
                    pairs.setdefault(info.headers[i].signature, key)
        self.signatures = <uint64_t*>calloc(2 * len(pairs) + 1, 8)
        if self.signatures == NULL:
            raise MemoryError
        for signature, key in sorted(pairs.items()):
            self.signatures[2 * self.signature_count] = signature
            self.signatures[2 * self.signature_count + 1] = key
            self.signature_count += 1

    def collect(self, uint32_t info_number, Py_ssize_t first, Py_ssize_t last, excluded=()):
        """Read the units ``first`` up to, not including, ``last`` of an Info, without the GIL.

        Units of an ``excluded`` language (DW_LANG number) are left out. In joint mode ``finish_joint`` ends the work.
        Raises FormatError with section and offset, UnsupportedError, and ForeignReferenceError (not in joint mode).
        """
        cdef Info info = self.infos[info_number]
        cdef Py_ssize_t i
        cdef int error = 0
        if not 0 <= first <= last <= info.count:
            raise IndexError("no such units")
        self._enter(info, info_number)
        skipped = frozenset(excluded)
        for i in range(first, last):
            if info.headers[i].language in skipped:
                continue
            with nogil:
                error = self._unit(i)
            if error:
                self._raise(error)

    cdef int _enter(self, Info info, uint32_t number) except -1:
        self.info_number = number
        self.own_strings = info is self.main or (
            info.strings.shape[0] == self.main.strings.shape[0] and start_of(info.strings) == start_of(self.main.strings))
        if info is not self.info:
            # the table is known by its offset, which says nothing in another file
            self.table.valid = False
        self.abbrev_data = start_of(info.abbrev)
        self.abbrev_size = info.abbrev.shape[0]
        self.loclists = start_of(info.loclists)
        self.loclists_size = info.loclists.shape[0]
        self.locations = start_of(info.locations)
        self.locations_size = info.locations.shape[0]
        self.info = info
        self.alternate_number = -1
        for k, other in enumerate(self.infos):
            if info.alternate is not None and other is info.alternate:
                self.alternate_number = k
        return 0

    cdef int _unit(self, Py_ssize_t index) noexcept nogil:
        cdef int error
        self.unit = &self.info.headers[index]
        self.unit_number = <uint32_t>index
        self.unit_key = (<uint64_t>self.info_number << KEY_SHIFT) + self.unit.offset
        error = self.scan_unit()
        if not error and not self.joint:
            error = finish(self)
        return error

    def collect_functions(self, uint32_t info_number, const uint64_t[::1] offsets):
        """Read the functions at the ``offsets`` of an Info, ascending, and the types of their parameters, nothing else.

        Named structs and unions are not looked into: they are declarations then. Errors as of ``collect``.
        """
        cdef Info info = self.infos[info_number]
        cdef Py_ssize_t i = 0, first, unit
        cdef int error = 0
        if self.joint:
            raise RuntimeError("joint units are read whole")
        self._enter(info, info_number)
        self.lazily = True
        try:
            while i < offsets.shape[0] and not error:
                unit = info.unit_index(offsets[i])
                first = i
                i += 1
                if unit < 0:
                    continue
                while i < offsets.shape[0] and offsets[i] < info.headers[unit].end and offsets[i] >= offsets[i - 1]:
                    i += 1
                with nogil:
                    self.unit = &self.info.headers[unit]
                    self.unit_number = <uint32_t>unit
                    self.unit_key = (<uint64_t>self.info_number << KEY_SHIFT) + self.unit.offset
                    error = self.begin_unit()
                    if not error:
                        error = self.read_functions(&offsets[first], i - first)
                    if not error:
                        error = finish(self)
        finally:
            self.lazily = False
        if error:
            self._raise(error)

    def forget_units(self, units):
        """Drop what was kept of these units, given as (Info, unit)."""
        cdef uint64_t i, kept = 0
        for i in range(self.slice_count):
            if (self.slices[i].info, self.slices[i].unit) not in units:
                self.slices[kept] = self.slices[i]
                kept += 1
        self.slice_count = kept

    def finish_joint(self):
        """Make the nodes of all units that were read in joint mode, as one."""
        cdef int error
        if not self.joint:
            raise RuntimeError("the units are not joint")
        with nogil:
            error = finish(self)
        if error:
            self._raise(error)

    cdef int _raise(self, int error) except -1:
        cdef Info info = self.info
        cdef uint64_t at = self.error_at
        if error == ERR_MEMORY:
            raise MemoryError
        if error == ERR_FOREIGN:
            raise ForeignReferenceError
        section = info.section
        if self.error_in_abbrev:
            section = ".debug_abbrev.dwo" if info.is_dwo else ".debug_abbrev"
        elif at >> KEY_SHIFT:
            # in joint mode faults show when all units are read
            info = self.infos[at >> KEY_SHIFT]
            section = info.section
        at &= OFFSET_MASK
        if error == ERR_TOO_LARGE:
            raise UnsupportedError("a type with a size, offset or number of members that BTF cannot say",
                                   path=info.path, section=section, offset=at)
        if error == ERR_MANY:
            raise UnsupportedError("more types, names or entries in one unit than can be numbered",
                                   path=info.path, section=section, offset=at)
        if error == ERR_SUPPLEMENT or (error == ERR_STRING_AT and self.lacks_supplement):
            raise UnsupportedError("types stand in a supplementary file (dwz) that was not found",
                                   path=info.path, section=section, offset=at)
        if error == ERR_SIBLING:
            text = "DW_AT_sibling does not lead forward inside of its unit"
        elif error == ERR_INDEX:
            text = "an index leads outside of .debug_addr or .debug_str_offsets"
        elif error == ERR_NO_TYPE:
            text = "DW_AT_type leads to an entry that is no type"
        elif error == ERR_NOTE:
            text = "DW_AT_GNU_annotation leads to an entry that is no annotation"
        elif error == ERR_NOTE_CYCLE:
            text = "annotations follow each other in a circle"
        elif error == ERR_CYCLE:
            text = "a type contains itself without a named struct or union in between"
        elif error == ERR_STRING_AT:
            text = "a name lies outside of its section or is impossibly long"
        elif error == ERR_SIGNATURE:
            text = "no type unit has the signature that is referred to"
        else:
            text = describe(error)
        raise FormatError(text, path=info.path, section=section, offset=at)

    # Names

    cdef uint32_t name_of_text(self, const uint8_t* text, uint64_t length) noexcept nogil:
        """The name word of some text that stays; NAME_LIMIT if it cannot be."""
        cdef uint32_t number
        if length <= 3:
            if length == 0:
                return 0
            number = NAME_PACKED | text[0]
            if length > 1:
                number |= <uint32_t>text[1] << 8
            if length > 2:
                number |= <uint32_t>text[2] << 16
            return number
        if length > MAX_NAME:
            return NAME_LIMIT
        number = names_intern(&self.names, text, <uint32_t>length)
        return NAME_LIMIT if number >= NAME_LIMIT - NAME_NUMBER else NAME_NUMBER + number

    cdef uint32_t name_of(self, Value* value) noexcept nogil:
        """The name word of a string that was read; NAME_LIMIT if it leads nowhere."""
        cdef size_t length
        cdef const uint8_t* text
        cdef uint64_t offset
        if value.kind == V_STRING_INDEX and self.info.resolve_string(self.unit, value):
            return NAME_LIMIT
        if value.kind != V_STRING:
            return 0
        offset = value.value & 0x00ffffffffffffffULL
        if value.value >> STR_SHIFT == STR_STR and self.own_strings and offset < NAME_PACKED - 1:
            if offset >= <uint64_t>self.info.strings.shape[0]:
                return NAME_LIMIT
            # the same short name may stand in the entry elsewhere: one word for both
            return <uint32_t>offset + 1
        if value.value >> STR_SHIFT == STR_ALT:
            if self.alternate_number < 0:
                self.lacks_supplement = True
                return NAME_LIMIT
            text = (<Info>self.info.alternate).string_at((<uint64_t>STR_STR << STR_SHIFT) | offset, &length)
        else:
            text = self.info.string_at(value.value, &length)
        if text == NULL:
            return NAME_LIMIT
        return self.name_of_text(text, length)

    cdef const uint8_t* text_of(self, uint32_t name, uint32_t* length, uint8_t* buffer) noexcept nogil:
        """The bytes of a name word; NULL if they lie outside of their section. ``buffer`` has room for four bytes."""
        cdef uint64_t size
        cdef const uint8_t* start
        cdef const uint8_t* nul
        length[0] = 0
        if name == 0:
            return buffer
        if name >= NAME_NUMBER:
            length[0] = self.names.length[name - NAME_NUMBER]
            return self.names.at[name - NAME_NUMBER]
        if name >= NAME_PACKED:
            buffer[0] = name & 0xff
            buffer[1] = (name >> 8) & 0xff
            buffer[2] = (name >> 16) & 0xff
            length[0] = 1 if buffer[1] == 0 else 2 if buffer[2] == 0 else 3
            return buffer
        size = <uint64_t>self.main.strings.shape[0]
        if name > size:
            return NULL
        start = &self.main.strings[0] + name - 1
        nul = <const uint8_t*>memchr(start, 0, min(size - (name - 1), <uint64_t>MAX_NAME + 1))
        if nul == NULL:
            return NULL
        length[0] = <uint32_t>(nul - start)
        return start

    # Where entries are

    cdef int64_t joint_index_of(self, uint64_t key) noexcept nogil:
        cdef uint64_t k
        k = (key * 0x9e3779b97f4a7c15ULL >> 20) & self.key_mask
        while self.keys[k]:
            if self.keys[k] == key + 1:
                return self.key_values[k]
            k = (k + 1) & self.key_mask
        return -1

    cdef int set_index(self, uint64_t key, uint32_t index) noexcept nogil:
        cdef uint64_t k, i, mask
        cdef uint64_t* keys
        cdef uint32_t* values
        if not self.joint:
            self.map[key - self.unit_key] = index
            return 0
        if 2 * self.key_count > self.key_mask:
            mask = 2 * self.key_mask + 1
            keys = <uint64_t*>calloc(mask + 1, 8)
            values = <uint32_t*>calloc(mask + 1, 4)
            if keys == NULL or values == NULL:
                free(keys)
                free(values)
                return ERR_MEMORY
            for i in range(self.key_mask + 1):
                if self.keys[i]:
                    k = ((self.keys[i] - 1) * 0x9e3779b97f4a7c15ULL >> 20) & mask
                    while keys[k]:
                        k = (k + 1) & mask
                    keys[k] = self.keys[i]
                    values[k] = self.key_values[i]
            free(self.keys)
            free(self.key_values)
            self.keys = keys
            self.key_values = values
            self.key_mask = mask
        k = (key * 0x9e3779b97f4a7c15ULL >> 20) & self.key_mask
        while self.keys[k] and self.keys[k] != key + 1:
            k = (k + 1) & self.key_mask
        if self.keys[k] == 0:
            self.keys[k] = key + 1
            self.key_count += 1
        self.key_values[k] = index
        return 0

    cdef int64_t new_record(self, uint64_t key) noexcept nogil:
        """Index of the record of an entry, made if it is new; -1 without memory."""
        cdef Record* r
        cdef int64_t known
        if self.joint:
            known = self.index_of(key)
            if known >= 0 and <uint64_t>known < self.record_count and self.records[known].key == key:
                return known
        if _room(<void**>&self.records, &self.record_capacity, self.record_count, sizeof(Record)):
            return -1
        r = &self.records[self.record_count]
        memset(r, 0, sizeof(Record))
        r.key = key
        r.word = <uint32_t>UNRESOLVED
        if self.set_index(key, <uint32_t>self.record_count):
            return -1
        self.record_count += 1
        return <int64_t>self.record_count - 1

    cdef uint32_t reference_to(self, uint64_t key) noexcept nogil:
        """How records refer to the type entry ``key``; UNRESOLVED if that cannot be."""
        cdef int64_t index
        if self.joint:
            index = self.new_record(key)
            return <uint32_t>UNRESOLVED if index < 0 else <uint32_t>index | <uint32_t>REF_RECORD
        if self.lazily and push(&self.pending, <uint32_t>(key - self.unit_key)):
            return <uint32_t>UNRESOLVED
        return <uint32_t>(key - self.unit_key)

    cdef Item* new_item(self, uint32_t* first, uint32_t* last, uint32_t* count) noexcept nogil:
        """A new item at the end of an owner's chain; NULL without memory. Chains are of indexes + 1."""
        cdef Item* item
        if _room(<void**>&self.items, &self.item_capacity, self.item_count, sizeof(Item)):
            return NULL
        item = &self.items[self.item_count]
        memset(item, 0, sizeof(Item))
        self.item_count += 1
        if count[0] == 0:
            first[0] = <uint32_t>self.item_count
        else:
            self.items[last[0] - 1].next = <uint32_t>self.item_count
        last[0] = <uint32_t>self.item_count
        count[0] += 1
        return item

    # Values of an entry

    cdef int decode(self, Shape* shape, int64_t* v) noexcept nogil:
        """Read the attributes of an entry into ``v``: names as words, references as keys. 0 or an error."""
        cdef Cursor* c = &self.cursor
        cdef const uint8_t* p
        cdef const uint8_t* nul
        cdef uint64_t one
        cdef uint32_t four
        cdef uint16_t two
        cdef int i
        cdef Field* f
        cdef uint32_t name = 0
        cdef uint64_t length
        cdef Value value
        if not shape.simple:
            return self.decode_slowly(shape, v)
        memcpy(v, shape.implicit, SLOTS * 8)
        if shape.name_first:
            p = c.data + c.pos
            nul = <const uint8_t*>memchr(p, 0, c.end - c.pos)
            if nul == NULL:
                skip_string(c)                # sets the error
                return c.error
            length = nul - p
            name = self.name_of_text(p, length)
            if name == NAME_LIMIT:
                return ERR_STRING_AT
            c.pos += length + 1
        if c.end - c.pos < <uint64_t>shape.fixed:
            skip(c, shape.fixed)
            return c.error
        p = c.data + c.pos
        for i in range(shape.field_count):
            f = &shape.fields[i]
            if f.width == 4:
                memcpy(&four, p + f.offset, 4)
                v[f.slot] = four
            elif f.width == 1:
                v[f.slot] = p[f.offset]
            elif f.width == 2:
                memcpy(&two, p + f.offset, 2)
                v[f.slot] = two
            elif f.width == 8:
                memcpy(&one, p + f.offset, 8)
                v[f.slot] = <int64_t>one
            else:
                v[f.slot] = p[f.offset] | <int64_t>p[f.offset + 1] << 8 | <int64_t>p[f.offset + 2] << 16
        c.pos += shape.fixed
        if shape.name_first:
            v[S_NAME] = name
        elif shape.present & 1:
            if shape.name_role == NAME_STR and self.own_strings and <uint64_t>v[S_NAME] < NAME_PACKED - 1:
                v[S_NAME] += 1
            else:
                value.kind = V_STRING
                value.value = <uint64_t>v[S_NAME]
                if shape.name_role == NAME_INDEX:
                    value.kind = V_STRING_INDEX
                else:
                    value.value |= <uint64_t>STR_STR << STR_SHIFT
                v[S_NAME] = self.name_of(&value)
                if v[S_NAME] == NAME_LIMIT:
                    return ERR_STRING_AT
        if shape.present & 2:
            v[S_TYPE] += <int64_t>self.unit_key
        if shape.what == W_PARAMETER or shape.what == W_FUNCTION:
            if shape.present & 4:
                v[S_A] += <int64_t>self.unit_key
            if shape.what == W_PARAMETER and shape.present & 8:
                v[S_B] |= <int64_t>LOCATION_LIST << LOCATION_KIND
        elif shape.what == W_VARIABLE:
            if shape.present & 32:
                v[S_D] += <int64_t>self.unit_key
        elif shape.what == W_SKIP:
            v[S_F] += <int64_t>self.unit_key
        return 0

    cdef int decode_slowly(self, Shape* shape, int64_t* v) noexcept nogil:
        """The same for attributes of any form and byte order."""
        cdef Cursor* c = &self.cursor
        cdef Cursor inside
        cdef Op* op
        cdef Value value
        cdef uint32_t i, name
        cdef uint64_t low, high, middle, address
        cdef uint8_t code
        memcpy(v, shape.implicit, SLOTS * 8)
        v[S_ANNOTATION] = 0
        for i in range(shape.op_count):
            op = &self.shapes.ops[shape.first_op + i]
            if op.skip:
                skip(c, op.skip)
                continue
            if op.slot < 0:
                skip_form(c, self.unit, op.form, -1)
                continue
            read_form(c, self.unit, op.form, op.implicit, &value)
            if c.error:
                return c.error
            if op.role == ROLE_NAME:
                name = self.name_of(&value)
                if name == NAME_LIMIT:
                    return ERR_STRING_AT
                v[op.slot] = name
            elif op.slot == S_ANNOTATION and value.kind != V_REF and value.kind != V_ALT_REF:
                return ERR_NOTE
            elif op.role == ROLE_REFERENCE:
                if value.kind == V_REF:
                    if value.value > OFFSET_MASK:
                        return ERR_NO_TYPE
                    v[op.slot] = <int64_t>((<uint64_t>self.info_number << KEY_SHIFT) + value.value)
                elif value.kind == V_SIGNATURE:
                    low = 0
                    high = self.signature_count
                    while low < high:
                        middle = (low + high) >> 1
                        if self.signatures[2 * middle] < value.value:
                            low = middle + 1
                        else:
                            high = middle
                    if low >= self.signature_count or self.signatures[2 * low] != value.value:
                        return ERR_SIGNATURE
                    v[op.slot] = <int64_t>self.signatures[2 * low + 1]
                elif value.kind == V_ALT_REF:
                    if self.alternate_number < 0:
                        return ERR_SUPPLEMENT
                    if value.value > OFFSET_MASK:
                        return ERR_NO_TYPE
                    v[op.slot] = <int64_t>((<uint64_t>self.alternate_number << KEY_SHIFT) + value.value)
                else:
                    return ERR_NO_TYPE
            elif op.role == ROLE_LOCATION:
                if value.value >> LOCATION_LENGTH:
                    v[op.slot] = 0
                elif value.kind == V_OFFSET or value.kind == V_UINT:
                    v[op.slot] = <int64_t>value.value | <int64_t>LOCATION_LIST << LOCATION_KIND
                elif value.kind == V_LIST_INDEX:
                    v[op.slot] = <int64_t>value.value | <int64_t>LOCATION_INDEX << LOCATION_KIND
                elif value.kind == V_BLOCK and value.length <= 0xffff:
                    v[op.slot] = (<int64_t>value.value | <int64_t>value.length << LOCATION_LENGTH
                                  | <int64_t>LOCATION_BYTES << LOCATION_KIND)
            elif op.role == ROLE_ADDRESS:
                address = <uint64_t>-1
                if value.kind == V_ADDRESS:
                    address = value.value
                elif value.kind == V_ADDRESS_INDEX:
                    if self.info.resolve_address(self.unit, value.value, &address):
                        return ERR_INDEX
                elif value.kind == V_BLOCK and value.length:
                    inside = make_cursor(c.data, value.value, value.value + value.length, c.swap)
                    code = read_u8(&inside)
                    if code == 0x03 and value.length == 1 + <uint64_t>self.unit.address_size:
                        address = read_uint(&inside, self.unit.address_size)
                    elif code == 0xa1 or code == 0xfb:
                        low = read_uleb(&inside)
                        if not inside.error and inside.pos == inside.end:
                            if self.info.resolve_address(self.unit, low, &address):
                                return ERR_INDEX
                v[op.slot] = <int64_t>address
            elif value.kind == V_UINT or value.kind == V_SINT or value.kind == V_FLAG or value.kind == V_OFFSET:
                v[op.slot] = <int64_t>value.value
            elif value.kind == V_BLOCK and shape.what == W_MEMBER and value.length:
                # DWARF 2 and 3 say where a member is by an expression
                inside = make_cursor(c.data, value.value, value.value + value.length, c.swap)
                code = read_u8(&inside)
                if code == 0x23 or code == 0x10:
                    v[op.slot] = <int64_t>read_uleb(&inside)
            elif value.kind == V_REF and shape.what == W_SKIP:
                v[op.slot] = <int64_t>((<uint64_t>self.info_number << KEY_SHIFT) + value.value)
            elif value.kind == V_LIST_INDEX:
                v[op.slot] = 1
        return c.error

    # The walk

    cdef int scan_unit(self) noexcept nogil:
        """Turn the entries of the unit into records, items, functions, variables and annotations."""
        cdef int error = self.begin_unit()
        return error if error else self.walk(self.unit.first_die)

    cdef int read_functions(self, const uint64_t* offsets, uint64_t count) noexcept nogil:
        """Read the entries at ``offsets`` and what they refer to, until nothing is missing."""
        cdef uint64_t i, offset
        cdef int64_t index
        cdef int error
        self.pending.n = 0
        for i in range(count):
            if i and offsets[i] == offsets[i - 1]:
                continue
            if offsets[i] < self.unit.first_die:
                continue
            error = self.walk(offsets[i])
            if error:
                return error
        while self.pending.n:
            self.pending.n -= 1
            offset = self.pending.v[self.pending.n]
            if offset >= self.unit.end - self.unit.offset or self.unit.offset + offset < self.unit.first_die:
                continue                      # resolving will find that there is no type
            index = self.map[offset]
            if <uint64_t>index < self.record_count and self.records[index].key == self.unit_key + offset:
                continue
            if <uint64_t>index < self.function_count and self.functions[index].key == self.unit_key + offset:
                continue
            if <uint64_t>index < self.note_count and self.notes[index].key == self.unit_key + offset:
                continue
            error = self.walk(self.unit.offset + offset)
            if error:
                return error
        return 0

    cdef int begin_unit(self) noexcept nogil:
        """Load the abbreviations of the unit and forget the records of the one before."""
        cdef UnitHeader* unit = self.unit
        cdef uint64_t at = 0
        cdef int error
        self.error_in_abbrev = False
        error = load_abbreviations(&self.table, self.abbrev_data, self.abbrev_size,
                                   unit.abbrev_offset, 0, unit, &at)
        if error:
            self.error_in_abbrev = True
            self.error_at = at
            return error
        if compile_shapes(&self.shapes, &self.table, unit, self.info.swap):
            return ERR_MEMORY
        if self.shapes.foreign and not self.joint:
            return ERR_FOREIGN
        if not self.joint:
            self.record_count = self.item_count = self.function_count = 0
            self.variable_count = self.annotation_count = self.note_count = self.note_use_count = 0
            if unit.end - unit.offset > 0x7ffffff0:
                self.error_at = self.unit_key
                return ERR_MANY
            if unit.end - unit.offset > self.map_capacity:
                if grow_array(<void**>&self.map, &self.map_capacity, unit.end - unit.offset, 4):
                    return ERR_MEMORY
                memset(self.map, 0, self.map_capacity * 4)
        return 0

    cdef int walk(self, uint64_t start) noexcept nogil:
        """Read the entries from ``start`` to the unit's end; if lazily, the one at ``start`` with those below it."""
        cdef Cursor* c = &self.cursor
        cdef UnitHeader* unit = self.unit
        cdef Abbreviation* entry
        cdef Shape* shape
        cdef Record* r
        cdef Item* item
        cdef Function* function
        cdef Variable* variable
        cdef Annotation* annotation
        cdef int64_t v[SLOTS + 1]
        cdef uint64_t code, die, at = 0, key
        cdef uint32_t owner, own, word, grand
        cdef int64_t index
        cdef int error, kind
        self.levels.n = 0
        c[0] = make_cursor(self.info.data, start, unit.end, self.info.swap)
        while c.pos < c.end:
            if self.lazily and self.levels.n == 0 and c.pos != start:
                break
            die = c.pos
            code = read_uleb(c)
            if code == 0:
                if self.levels.n:
                    self.levels.n -= 1
                continue
            entry = find_abbreviation(&self.table, code)
            key = self.unit_key + (die - unit.offset)
            if entry == NULL:
                self.error_at = key
                return ERR_ABBREV if not c.error else c.error
            shape = &self.shapes.shape[entry - self.table.entries]
            self.entries += 1
            owner = self.levels.v[self.levels.n - 1] if self.levels.n else 0
            own = OWN_NONE
            kind = shape.what
            if self.lazily and self.levels.n == 1 and owner >> OWN_SHIFT == OWN_FUNCTION and (
                    kind == W_OTHER or kind == W_SKIP or kind == W_VARIABLE):
                break                         # behind the parameters stands the body
            if kind == W_OTHER or (kind == W_VARIABLE and owner >> OWN_SHIFT != OWN_UNIT):
                if shape.simple and not shape.name_first:
                    skip(c, shape.fixed)
                else:
                    error = self._pass_over(shape)
                    if error:
                        self.error_at = key
                        return error
                if shape.children:
                    if self.levels.n == 0:
                        own = <uint32_t>OWN_UNIT << OWN_SHIFT
                    if push(&self.levels, own):
                        return ERR_MEMORY
                continue
            error = self.decode(shape, v)
            if error:
                self.error_at = key
                return error
            if kind == W_MEMBER:
                if owner >> OWN_SHIFT == OWN_RECORD:
                    r = &self.records[owner & OWN_INDEX]
                    if r.kind == B_STRUCT or r.kind == B_UNION:
                        item = self.new_item(&r.first, &r.last, &r.count)
                        if item == NULL:
                            return ERR_MEMORY
                        own = <uint32_t>OWN_ITEM << OWN_SHIFT | <uint32_t>(self.item_count - 1)
                        error = self._member(shape, v, r, item)
                        if error:
                            self.error_at = key
                            return error
            elif kind == W_REFERENCE or kind == W_ARRAY or kind == W_SUBROUTINE:
                index = self.new_record(key)
                if index < 0:
                    return ERR_MEMORY
                word = 0
                if shape.present & 2:
                    word = self.reference_to(<uint64_t>v[S_TYPE])
                    if word == UNRESOLVED:
                        self.error_at = key
                        return ERR_NO_TYPE
                r = &self.records[index]
                r.kind = shape.kind
                r.reference = word
                if kind == W_REFERENCE:
                    r.name = <uint32_t>v[S_NAME]
                    if r.kind == B_TYPEDEF and r.name == 0:
                        r.kind = R_PASS
                own = <uint32_t>OWN_RECORD << OWN_SHIFT | <uint32_t>index
            elif kind == W_PARAMETER or kind == W_VARIADIC:
                item = NULL
                if owner >> OWN_SHIFT == OWN_RECORD and self.records[owner & OWN_INDEX].kind == B_FUNC_PROTO:
                    r = &self.records[owner & OWN_INDEX]
                    if kind == W_VARIADIC:
                        r.flags |= F_VARIADIC
                    else:
                        item = self.new_item(&r.first, &r.last, &r.count)
                        if item == NULL:
                            return ERR_MEMORY
                elif owner >> OWN_SHIFT == OWN_FUNCTION:
                    function = &self.functions[owner & OWN_INDEX]
                    if kind == W_VARIADIC:
                        function.flags |= F_VARIADIC
                    else:
                        item = self.new_item(&function.first, &function.last, &function.count)
                        if item == NULL or self.set_index(key, <uint32_t>(self.item_count - 1)):
                            return ERR_MEMORY
                if item != NULL:
                    item.key = key
                    item.name = <uint32_t>v[S_NAME]
                    if shape.present & 4:
                        item.value = <uint64_t>v[S_A]
                    if shape.present & 8:
                        item.location = <uint64_t>v[S_B]
                    if shape.present & 2:
                        item.reference = self.reference_to(<uint64_t>v[S_TYPE])
                        if item.reference == UNRESOLVED:
                            self.error_at = key
                            return ERR_NO_TYPE
                    own = <uint32_t>OWN_ITEM << OWN_SHIFT | <uint32_t>(self.item_count - 1)
            elif kind == W_STRUCT or kind == W_ENUM:
                error = self._compound(shape, v, key, &own)
                if error:
                    self.error_at = key
                    return error
            elif kind == W_ENUMERATOR:
                if owner >> OWN_SHIFT == OWN_RECORD and self.records[owner & OWN_INDEX].kind == B_ENUM:
                    r = &self.records[owner & OWN_INDEX]
                    item = self.new_item(&r.first, &r.last, &r.count)
                    if item == NULL:
                        return ERR_MEMORY
                    item.name = <uint32_t>v[S_NAME]
                    item.value = <uint64_t>v[S_A]
                    if v[S_A] < 0:
                        r.flags |= F_SIGNED
            elif kind == W_RANGE:
                if owner >> OWN_SHIFT == OWN_RECORD and self.records[owner & OWN_INDEX].kind == B_ARRAY:
                    r = &self.records[owner & OWN_INDEX]
                    item = self.new_item(&r.first, &r.last, &r.count)
                    if item == NULL:
                        return ERR_MEMORY
                    if shape.present & 4:
                        item.value = <uint64_t>v[S_A] + 1
                    elif shape.present & 8:
                        item.value = <uint64_t>v[S_B]
            elif kind == W_BASE:
                index = self.new_record(key)
                if index < 0:
                    return ERR_MEMORY
                r = &self.records[index]
                r.kind = B_INT
                r.name = <uint32_t>v[S_NAME]
                if <uint64_t>v[S_A] > 0xffffffffU or <uint64_t>v[S_C] > 0xffff:
                    self.error_at = key
                    return ERR_TOO_LARGE
                r.size = <uint32_t>v[S_A]
                if r.size == 0 and v[S_C]:
                    r.size = <uint32_t>((v[S_C] + 7) // 8)
                # the encoding waits in the place of a reference, the bits in that of items
                r.reference = <uint32_t>v[S_B] & 0xff
                r.last = <uint32_t>v[S_C]
                if r.reference == 5 or r.reference == 6:
                    r.flags |= F_SIGNED
                if (r.size & (r.size - 1) or r.size > 16 or r.size == 0) and (r.reference == 5 or r.reference == 7):
                    r.flags |= F_ODD
                own = <uint32_t>OWN_RECORD << OWN_SHIFT | <uint32_t>index
            elif kind == W_FUNCTION:
                if _room(<void**>&self.functions, &self.function_capacity, self.function_count, sizeof(Function)):
                    return ERR_MEMORY
                function = &self.functions[self.function_count]
                memset(function, 0, sizeof(Function))
                own = <uint32_t>OWN_FUNCTION << OWN_SHIFT | <uint32_t>self.function_count
                if self.set_index(key, <uint32_t>self.function_count):
                    return ERR_MEMORY
                self.function_count += 1
                function.key = key
                function.name = <uint32_t>v[S_NAME]
                if shape.present & 4:
                    function.origin = <uint64_t>v[S_A]
                    if self.lazily and push(&self.pending, <uint32_t>(function.origin - self.unit_key)):
                        return ERR_MEMORY
                if shape.present & 2:
                    function.reference = self.reference_to(<uint64_t>v[S_TYPE])
                    if function.reference == UNRESOLVED:
                        self.error_at = key
                        return ERR_NO_TYPE
                if unit.language == 0x8001:
                    function.flags |= F_ASSEMBLER
                if v[S_B]:
                    function.flags |= F_DECLARATION
                if v[S_C]:
                    function.flags |= F_EXTERNAL
                if shape.present & (1 << S_D | 1 << S_E):
                    function.flags |= F_CODE
                    if shape.present & 32:
                        function.address = <uint64_t>v[S_D]
                if v[S_F] == 1 or v[S_F] == 3:
                    function.flags |= F_ABSTRACT
            elif kind == W_VARIABLE:
                if shape.present & 4 and v[S_A] != -1 and not v[S_E]:
                    if _room(<void**>&self.variables, &self.variable_capacity, self.variable_count, sizeof(Variable)):
                        return ERR_MEMORY
                    variable = &self.variables[self.variable_count]
                    memset(variable, 0, sizeof(Variable))
                    own = <uint32_t>OWN_VARIABLE << OWN_SHIFT | <uint32_t>self.variable_count
                    self.variable_count += 1
                    variable.key = key
                    variable.address = <uint64_t>v[S_A]
                    variable.name = <uint32_t>v[S_NAME]
                    if shape.present & 2:
                        variable.reference = self.reference_to(<uint64_t>v[S_TYPE])
                    if shape.present & 32:
                        variable.origin = <uint64_t>v[S_D]
                    if v[S_C]:
                        variable.flags |= F_EXTERNAL
                elif shape.present & 3 and not v[S_E]:
                    # what a definition elsewhere may refer to
                    if _room(<void**>&self.variables, &self.variable_capacity, self.variable_count, sizeof(Variable)):
                        return ERR_MEMORY
                    variable = &self.variables[self.variable_count]
                    memset(variable, 0, sizeof(Variable))
                    own = <uint32_t>OWN_VARIABLE << OWN_SHIFT | <uint32_t>self.variable_count
                    if self.set_index(key, <uint32_t>self.variable_count):
                        return ERR_MEMORY
                    self.variable_count += 1
                    variable.key = key
                    variable.name = <uint32_t>v[S_NAME]
                    variable.flags = F_DECLARATION
                    if shape.present & 2:
                        variable.reference = self.reference_to(<uint64_t>v[S_TYPE])
                    if v[S_C]:
                        variable.flags |= F_EXTERNAL
            elif kind == W_VOID:
                index = self.new_record(key)
                if index < 0:
                    return ERR_MEMORY
                self.records[index].kind = R_VOID
                self.records[index].word = 0
                self.records[index].state = 2
            elif kind == W_ANNOTATION:
                if owner >> OWN_SHIFT >= OWN_RECORD and v[S_NAME] and v[S_A]:
                    if _room(<void**>&self.annotations, &self.annotation_capacity, self.annotation_count,
                             sizeof(Annotation)):
                        return ERR_MEMORY
                    annotation = &self.annotations[self.annotation_count]
                    self.annotation_count += 1
                    annotation.name = <uint32_t>v[S_NAME]
                    annotation.value = <uint32_t>v[S_A]
                    grand = self.levels.v[self.levels.n - 2] if self.levels.n > 1 else 0
                    self._place_annotation(owner, grand, &annotation.owner, &annotation.component)
            elif kind == W_NOTE:
                if self._note(key, v, shape.annotated):
                    return ERR_MEMORY
            elif kind == W_SKIP:
                at = <uint64_t>v[S_F] - self.unit_key + unit.offset
                if at <= c.pos or at > c.end:
                    self.error_at = key
                    return ERR_SIBLING
                c.pos = at
                continue
            if shape.annotated and own != OWN_NONE:
                if self._use_note(key, <uint64_t>v[S_ANNOTATION], own, owner):
                    return ERR_MEMORY
            if self.lazily and own == OWN_NONE and self.levels.n == 0:
                break
            if shape.children and push(&self.levels, own):
                return ERR_MEMORY
        if c.error:
            self.error_at = (<uint64_t>self.info_number << KEY_SHIFT) + c.error_at
            return c.error
        return 0

    cdef void _place_annotation(self, uint32_t own, uint32_t owner, uint32_t* above, int32_t* component) noexcept nogil:
        """What an annotation of ``own`` is for: members and parameters are components of their ``owner``."""
        above[0] = own
        component[0] = -1
        if own >> OWN_SHIFT == OWN_ITEM:
            above[0] = owner
            if owner >> OWN_SHIFT == OWN_RECORD:
                component[0] = <int32_t>self.records[owner & OWN_INDEX].count - 1
            elif owner >> OWN_SHIFT == OWN_FUNCTION:
                component[0] = <int32_t>self.functions[owner & OWN_INDEX].count - 1

    cdef int _note(self, uint64_t key, int64_t* v, bint annotated) noexcept nogil:
        """An annotation of gcc's, which stands beside what it annotates and says what follows it."""
        cdef Note* note
        if _room(<void**>&self.notes, &self.note_capacity, self.note_count, sizeof(Note)):
            return ERR_MEMORY
        note = &self.notes[self.note_count]
        note.key = key
        note.next = <uint64_t>v[S_ANNOTATION] if annotated else 0
        note.name = <uint32_t>v[S_NAME]
        note.value = <uint32_t>v[S_A]
        if self.set_index(key, <uint32_t>self.note_count):
            return ERR_MEMORY
        self.note_count += 1
        if self.lazily and note.next and push(&self.pending, <uint32_t>(note.next - self.unit_key)):
            return ERR_MEMORY
        return 0

    cdef int _use_note(self, uint64_t key, uint64_t first, uint32_t own, uint32_t owner) noexcept nogil:
        """Remember which chain of annotations an entry has; ``finish`` follows it."""
        cdef NoteUse* use
        if self.lazily:
            # of parameters' types only pointers show theirs
            if own >> OWN_SHIFT != OWN_RECORD or self.records[own & OWN_INDEX].kind != B_PTR:
                return 0
            if push(&self.pending, <uint32_t>(first - self.unit_key)):
                return ERR_MEMORY
        if _room(<void**>&self.note_uses, &self.note_use_capacity, self.note_use_count, sizeof(NoteUse)):
            return ERR_MEMORY
        use = &self.note_uses[self.note_use_count]
        self.note_use_count += 1
        use.key = key
        use.first = first
        self._place_annotation(own, owner, &use.owner, &use.component)
        return 0

    cdef int _pass_over(self, Shape* shape) noexcept nogil:
        """Skip the attributes of an entry that is not wanted."""
        cdef Cursor* c = &self.cursor
        cdef uint32_t i
        cdef Op* op
        for i in range(shape.op_count):
            op = &self.shapes.ops[shape.first_op + i]
            if op.skip:
                skip(c, op.skip)
            else:
                skip_form(c, self.unit, op.form, op.width)
        return 0

    cdef int _member(self, Shape* shape, int64_t* v, Record* owner, Item* item) noexcept nogil:
        """Fill the item of a member (DWARF 5 section 5.7.6, DWARF 4 section 5.5.6 for DW_AT_bit_offset)."""
        cdef int64_t bits = 0
        item.name = <uint32_t>v[S_NAME]
        if <uint64_t>v[S_A] > 0x1fffffff:
            return ERR_TOO_LARGE
        if shape.present & (1 << S_B):
            if v[S_B] < 0 or v[S_B] > 255:
                return ERR_TOO_LARGE
            item.bits = <uint32_t>v[S_B]
        if shape.present & (1 << S_C):
            bits = v[S_C] + 8 * v[S_A]
        else:
            bits = 8 * v[S_A]
            if shape.present & (1 << S_D):
                if self.info.swap == self._little():
                    # big-endian data count from the most significant bit, as BTF does
                    bits += v[S_D]
                elif shape.present & (1 << S_E):
                    bits += 8 * v[S_E] - v[S_D] - v[S_B]
                else:
                    # the storage is as large as the type, which may not be known yet
                    bits -= v[S_D] + v[S_B]
                    item.bits |= 0x100
                    owner.flags |= F_BITS_UNPLACED
        if bits > 0xffffffffLL or (bits < 0 and not item.bits & 0x100):
            return ERR_TOO_LARGE
        item.value = <uint64_t>bits
        if shape.present & 2:
            # in joint mode this may move the records: owner is not valid behind it
            item.reference = self.reference_to(<uint64_t>v[S_TYPE])
            if item.reference == UNRESOLVED:
                return ERR_NO_TYPE
        return 0

    cdef inline bint _little(self) noexcept nogil:
        """This machine is little-endian."""
        cdef uint16_t one = 1
        return (<uint8_t*>&one)[0] == 1

    cdef int _compound(self, Shape* shape, int64_t* v, uint64_t key, uint32_t* own) noexcept nogil:
        """The record of a struct, union or enum, or of its declaration."""
        cdef int64_t index = self.new_record(key)
        cdef Record* r
        cdef uint32_t word
        if index < 0:
            return ERR_MEMORY
        own[0] = <uint32_t>OWN_RECORD << OWN_SHIFT | <uint32_t>index
        if self.lazily and v[S_NAME] and shape.kind != B_ENUM:
            # its members are not looked at, so it is as good as a declaration
            v[S_B] = 1
            own[0] = OWN_NONE
        if shape.present & (1 << S_C):
            # the definition is in a type unit (DWARF 5 section 5.7.1)
            word = self.reference_to(<uint64_t>v[S_C])
            if word == UNRESOLVED:
                return ERR_NO_TYPE
            self.records[index].kind = R_PASS
            self.records[index].reference = word
            return 0
        r = &self.records[index]
        r.kind = shape.kind
        r.name = <uint32_t>v[S_NAME]
        if <uint64_t>v[S_A] > 0xffffffffU:
            return ERR_TOO_LARGE
        r.size = <uint32_t>v[S_A]
        if v[S_B]:
            r.flags |= F_DECLARATION
        if r.kind == B_ENUM:
            if r.size == 0:
                r.size = 4
            if shape.present & 2:
                word = self.reference_to(<uint64_t>v[S_TYPE])
                if word == UNRESOLVED:
                    return ERR_NO_TYPE
                self.records[index].reference = word
            return 0
        if r.name:
            r.word = <uint32_t>TAG | r.name | (<uint32_t>TAG_UNION if r.kind == B_UNION else 0)
        return 0

