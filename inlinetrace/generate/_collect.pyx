# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""One pass over the entries of units: types become records, with their members, parameters and enumerators as items.

A Collector belongs to one thread. ``collect`` reads units one after the other; what stays of each is the list of its
nodes in the thread's store (``_resolve.pyx`` makes them), its functions and its variables. References stay inside a
unit, except in ``joint`` mode, where all units that are read count as one (link-time optimisation, dwz, type units).
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memset

from inlinetrace.dwarf._forms cimport STR_ALT, STR_SHIFT, STR_STR, V_STRING, V_STRING_INDEX, Value, free_abbreviations
from inlinetrace.dwarf._units cimport Info, describe, start_of
from inlinetrace.generate._resolve cimport finish
from inlinetrace.generate._shapes cimport free_shapes
from inlinetrace.generate._store cimport names_free, names_init, names_intern, store_free, store_init
from inlinetrace.generate._walk cimport begin_unit, read_functions, scan_unit

from inlinetrace.errors import FormatError, UnsupportedError

cdef enum:
    MAX_NAME = 4095      # what a reader of BTF accepts

cdef uint64_t OFFSET_MASK = (1ULL << 44) - 1


class ForeignReferenceError(Exception):
    """A unit refers to entries of another unit: the units have to be read together (``joint``)."""


cdef class Collector:
    """The types of some units of ``infos``; ``main`` strings are those of the first."""

    def __cinit__(self, list infos, *, bint joint=False, bint floats=True, bint enum64s=True, bint decl_tags=True,
                  bint type_tags=True, bytes registers=b"", frozenset excluded=frozenset()):
        cdef int i
        self.infos = infos
        self.joint = joint
        self.floats = floats
        self.enum64s = enum64s
        self.decl_tags = decl_tags
        self.type_tags = type_tags
        self.excluded = excluded
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

    def collect(self, tuple portion not None):
        """Read units without the GIL: number of the Info, the first unit and the one behind the last.

        Units of an ``excluded`` language (DW_LANG number) are left out. In joint mode ``finish_joint`` ends the work.
        Raises FormatError with section and offset, UnsupportedError, and ForeignReferenceError (not in joint mode).
        """
        cdef uint32_t info_number
        cdef Py_ssize_t i, first, last
        cdef int error = 0
        info_number, first, last = portion
        cdef Info info = self.infos[info_number]
        if not 0 <= first <= last <= info.count:
            raise IndexError("no such units")
        self._enter(info, info_number)
        for i in range(first, last):
            if info.headers[i].language in self.excluded:
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
        error = scan_unit(self)
        if not error and not self.joint:
            error = finish(self)
        return error

    def collect_functions(self, tuple functions not None):
        """Read some functions and the types of their parameters, nothing else: number of the Info, ascending offsets.

        Named structs and unions are not looked into: they are declarations then. Errors as of ``collect``.
        """
        cdef uint32_t info_number = functions[0]
        cdef const uint64_t[::1] offsets = functions[1]
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
                    error = begin_unit(self)
                    if not error:
                        error = read_functions(self, &offsets[first], i - first)
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

    cdef int set_joint_index(self, uint64_t key, uint32_t index) noexcept nogil:
        cdef uint64_t k, i, mask
        cdef uint64_t* keys
        cdef uint32_t* values
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
