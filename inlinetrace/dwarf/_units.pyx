# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Unit headers (DWARF 5 section 7.5.1), their root entries, and the strings and addresses that units refer to."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memchr, memset

from inlinetrace._arrays cimport make_room
from inlinetrace.dwarf._cursor cimport (
    Cursor, error_text, make_cursor, read_u8, read_u16, read_u32, read_u64, read_uint, read_uleb,
)
from inlinetrace.dwarf._forms cimport (
    ERR_ABBREV, ERR_FORM, ERR_INDIRECT, STR_ALT, STR_INLINE, STR_LINE, STR_NONE, STR_SHIFT, STR_STR, V_ADDRESS,
    V_ADDRESS_INDEX, V_NONE, V_STRING, V_STRING_INDEX, Abbreviation, Abbreviations, Spec, UnitHeader, Value,
    find_abbreviation, free_abbreviations, load_abbreviations, packed, read_form,
)
from inlinetrace.elf._search cimport count_items

from inlinetrace.errors import FormatError, UnsupportedError

# No name is longer; what shares the end of one string with many others must not multiply.
cdef enum:
    MAX_STRING = 1 << 16

UNIT_TYPES = {1: "compile", 2: "type", 3: "partial", 4: "skeleton", 5: "split compile", 6: "split type"}


cdef str describe(int error):
    """Text of an error of _cursor.pxd or _forms.pxd."""
    if error == ERR_FORM:
        return "an attribute has a form that DWARF does not define"
    if error == ERR_ABBREV:
        return "an entry has an abbreviation code that its table does not declare"
    if error == ERR_INDIRECT:
        return "DW_FORM_indirect leads to a form that cannot be indirect"
    if error < 0:
        return "out of memory"
    return error_text(error)


cdef const uint8_t* start_of(const uint8_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else <const uint8_t*>b""


cdef class Info:
    """One section of units (.debug_info, .debug_types, or those of a .dwo file) with the sections that it refers to.

    Every argument but the first is the contents of the section of that name, empty where there is none. ``swap`` tells
    that the data have the other byte order than this machine. ``address_bases`` gives (addr_base, rnglists_base) by dwo
    id for split units, whose addresses stand in the main file. ``discards_at_zero`` tells that a function at address 0 is one that
    the linker left out. Raises FormatError for headers that cannot be.
    """

    def __cinit__(self, const uint8_t[::1] info, *, const uint8_t[::1] abbrev, const uint8_t[::1] strings,
                  const uint8_t[::1] line_strings, const uint8_t[::1] str_offsets, const uint8_t[::1] addresses,
                  const uint8_t[::1] rnglists, const uint8_t[::1] loclists, const uint8_t[::1] ranges,
                  const uint8_t[::1] locations,
                  bint swap=False, object path=None, str section=".debug_info", bint is_dwo=False,
                  dict skeletons=None, object alternate=None, bint discards_at_zero=False):
        self.path = path
        self.section = section
        self.swap = swap
        self.is_dwo = is_dwo
        self.discards_at_zero = discards_at_zero
        self.alternate = alternate
        self.info = info
        self.abbrev = abbrev
        self.strings = strings
        self.line_strings = line_strings
        self.str_offsets = str_offsets
        self.addresses = addresses
        self.rnglists = rnglists
        self.loclists = loclists
        self.ranges = ranges
        self.locations = locations
        self.data = start_of(info)
        self.size = info.shape[0]
        self.headers = NULL
        self.count = 0
        self.signatures = {}
        self._read_headers()
        self._read_roots(skeletons or {})

    def __dealloc__(self):
        free(self.headers)

    def _read_headers(self):
        cdef uint64_t pos = 0, length, capacity = 0
        cdef Cursor c
        cdef UnitHeader* unit
        while pos < self.size:
            c = make_cursor(self.data, pos, self.size, self.swap)
            length = read_u32(&c)
            make_room(<void**>&self.headers, &capacity, self.count + 1, sizeof(UnitHeader))
            unit = &self.headers[self.count]
            memset(unit, 0, sizeof(UnitHeader))
            unit.offset = pos
            unit.offset_size = 4
            if length == 0xffffffff:
                length = read_u64(&c)
                unit.offset_size = 8
            elif length >= 0xfffffff0:
                raise FormatError("a unit has a reserved length", path=self.path, section=self.section, offset=pos)
            if c.error or length > self.size - c.pos:
                raise FormatError("a unit is longer than its section: the file is truncated or damaged",
                                  path=self.path, section=self.section, offset=pos)
            unit.end = c.pos + length
            if length == 0:
                pos = unit.end
                continue
            c.end = unit.end
            unit.version = read_u16(&c)
            if not c.error and not 2 <= unit.version <= 5:
                raise UnsupportedError(f"DWARF version {unit.version} (versions 2 to 5 can be read)",
                                       path=self.path, section=self.section, offset=pos)
            if unit.version >= 5:
                unit.unit_type = read_u8(&c)
                unit.address_size = read_u8(&c)
                unit.abbrev_offset = read_uint(&c, unit.offset_size)
                if unit.unit_type == 4 or unit.unit_type == 5:
                    unit.signature = read_u64(&c)
                elif unit.unit_type == 2 or unit.unit_type == 6:
                    unit.signature = read_u64(&c)
                    unit.type_offset = read_uint(&c, unit.offset_size)
            else:
                unit.abbrev_offset = read_uint(&c, unit.offset_size)
                unit.address_size = read_u8(&c)
                unit.unit_type = 1
                if self.section.startswith(".debug_types"):
                    unit.unit_type = 2
                    unit.signature = read_u64(&c)
                    unit.type_offset = read_uint(&c, unit.offset_size)
            if c.error:
                raise FormatError(error_text(c.error), path=self.path, section=self.section, offset=c.error_at)
            if unit.address_size not in (2, 4, 8):
                raise FormatError(f"a unit has addresses of {unit.address_size} bytes",
                                  path=self.path, section=self.section, offset=pos)
            unit.first_die = c.pos
            unit.is_dwo = self.is_dwo
            if unit.unit_type == 2 or unit.unit_type == 6:
                if unit.type_offset < unit.first_die - pos or unit.type_offset >= unit.end - pos:
                    raise FormatError("the type of a type unit lies outside of it",
                                      path=self.path, section=self.section, offset=pos)
                self.signatures.setdefault(unit.signature, pos + unit.type_offset)
            self.count += 1
            pos = unit.end

    def _read_roots(self, dict skeletons):
        cdef Abbreviations table
        cdef Abbreviation* entry
        cdef UnitHeader* unit
        cdef Cursor c
        cdef Value value, low
        cdef Value texts[4]      # name, comp_dir, producer, dwo name
        cdef int k
        cdef Spec* spec
        cdef Py_ssize_t i
        cdef uint32_t j
        cdef int error
        cdef uint64_t where = 0, code
        memset(&table, 0, sizeof(table))
        try:
            for i in range(self.count):
                unit = &self.headers[i]
                c = make_cursor(self.data, unit.first_die, unit.end, self.swap)
                code = read_uleb(&c)
                error = load_abbreviations(&table, start_of(self.abbrev), self.abbrev.shape[0], unit.abbrev_offset, code,
                                           unit, &where)
                if error:
                    raise FormatError(describe(error), path=self.path,
                                      section=".debug_abbrev.dwo" if self.is_dwo else ".debug_abbrev", offset=where)
                if self.is_dwo:
                    # a split unit has one contribution of each kind; DWARF 5 puts a header before it
                    unit.str_offsets_base = (8 if unit.offset_size == 4 else 16) if unit.version >= 5 else 0
                    unit.rnglists_base = unit.loclists_base = 12 if unit.offset_size == 4 else 20
                if c.error or code == 0:
                    continue
                entry = find_abbreviation(&table, code)
                if entry == NULL:
                    raise FormatError(describe(ERR_ABBREV), path=self.path, section=self.section, offset=unit.first_die)
                memset(texts, 0, sizeof(texts))
                memset(&low, 0, sizeof(Value))
                for j in range(entry.count):
                    spec = &table.specs[entry.first + j]
                    read_form(&c, unit, spec.form, spec.implicit, &value)
                    if c.error:
                        raise FormatError(describe(c.error), path=self.path, section=self.section, offset=c.error_at)
                    if spec.attribute == 0x03:
                        texts[0] = value
                    elif spec.attribute == 0x1b:
                        texts[1] = value
                    elif spec.attribute == 0x25:
                        texts[2] = value
                    elif spec.attribute == 0x76 or spec.attribute == 0x2130:
                        texts[3] = value
                    elif spec.attribute == 0x11:
                        low = value
                    elif spec.attribute == 0x13:
                        unit.language = <uint32_t>value.value
                    elif spec.attribute == 0x10:
                        unit.stmt_list = value.value
                        unit.has_stmt_list = 1
                    elif spec.attribute == 0x72:
                        unit.str_offsets_base = value.value
                    elif spec.attribute == 0x73 or spec.attribute == 0x2133:
                        unit.addr_base = value.value
                    elif spec.attribute == 0x74:
                        unit.rnglists_base = value.value
                    elif spec.attribute == 0x8c:
                        unit.loclists_base = value.value
                    elif spec.attribute == 0x2132:
                        unit.ranges_base = value.value
                    elif spec.attribute == 0x2131:
                        unit.signature = value.value
                if self.is_dwo:
                    skeleton = skeletons.get(unit.signature)
                    if skeleton is not None:
                        unit.addr_base, unit.ranges_base, unit.low_pc, has_low = skeleton
                        unit.has_low_pc = has_low
                for k in range(4):
                    if texts[k].kind != V_NONE and self.resolve_string(unit, &texts[k]):
                        raise FormatError("a string index leads outside of .debug_str_offsets",
                                          path=self.path, section=self.section, offset=texts[k].at)
                unit.name = texts[0].value
                unit.comp_dir = texts[1].value
                unit.producer = texts[2].value
                unit.dwo_name = texts[3].value
                if low.kind == V_ADDRESS:
                    unit.low_pc = low.value
                    unit.has_low_pc = 1
                elif low.kind == V_ADDRESS_INDEX:
                    if self.resolve_address(unit, low.value, &unit.low_pc):
                        raise FormatError("an address index leads outside of .debug_addr",
                                          path=self.path, section=self.section, offset=low.at)
                    unit.has_low_pc = 1
        finally:
            free_abbreviations(&table)

    cdef int resolve_address(self, UnitHeader* unit, uint64_t index, uint64_t* address) noexcept nogil:
        """Address number ``index`` of the unit's contribution to .debug_addr; 0 if it is there, else 1."""
        cdef uint64_t size = <uint64_t>self.addresses.shape[0]
        cdef Cursor c
        address[0] = 0
        if index >= size or unit.addr_base > size:
            return 1
        c = make_cursor(&self.addresses[0], unit.addr_base + index * unit.address_size, size, self.swap)
        address[0] = read_uint(&c, unit.address_size)
        return c.error != 0

    cdef int resolve_string(self, UnitHeader* unit, Value* value) noexcept nogil:
        """Turn a string index into a packed reference; anything but a string becomes STR_NONE."""
        cdef uint64_t size
        cdef Cursor c
        if value.kind == V_STRING:
            return 0
        if value.kind != V_STRING_INDEX:
            value.value = packed(STR_NONE, 0)
            return 0
        size = <uint64_t>self.str_offsets.shape[0]
        if value.value >= size or unit.str_offsets_base > size:
            return 1
        c = make_cursor(&self.str_offsets[0], unit.str_offsets_base + value.value * unit.offset_size, size, self.swap)
        value.value = packed(STR_STR, read_uint(&c, unit.offset_size))
        value.kind = V_STRING
        return c.error != 0

    cdef const uint8_t* string_at(self, uint64_t packed, size_t* length) noexcept nogil:
        """Bytes of a packed string reference, NULL if it is none or leads outside of its section."""
        cdef uint64_t section = packed >> STR_SHIFT
        cdef uint64_t offset = packed & 0x00ffffffffffffffULL
        cdef const uint8_t* base
        cdef const uint8_t* nul
        cdef uint64_t size
        length[0] = 0
        if section == STR_STR:
            size = self.strings.shape[0]
            base = &self.strings[0] if size else NULL
        elif section == STR_LINE:
            size = self.line_strings.shape[0]
            base = &self.line_strings[0] if size else NULL
        elif section == STR_INLINE:
            size = self.size
            base = self.data
        else:
            return NULL
        if offset >= size:
            return NULL
        nul = <const uint8_t*>memchr(base + offset, 0, size - offset)
        if nul == NULL:
            return NULL
        length[0] = nul - (base + offset)
        return base + offset

    cdef Py_ssize_t unit_index(self, uint64_t offset) noexcept nogil:
        """Index of the unit whose entries include ``offset``, -1 if there is none."""
        cdef Py_ssize_t index = <Py_ssize_t>count_items(&self.headers[0].offset, sizeof(UnitHeader), self.count, offset) - 1
        if index < 0 or offset >= self.headers[index].end or offset < self.headers[index].first_die:
            return -1
        return index

    def string(self, packed_reference):
        """Text of a packed string reference; None for none. Raises FormatError if it leads outside of its section."""
        cdef size_t length
        cdef uint64_t reference = packed_reference
        cdef const uint8_t* text
        if reference >> STR_SHIFT == STR_NONE:
            return None
        if reference >> STR_SHIFT == STR_ALT:
            if self.alternate is None:
                return None
            return self.alternate.string(packed(STR_STR, reference))
        text = self.string_at(reference, &length)
        if text == NULL:
            name = {STR_STR: ".debug_str", STR_LINE: ".debug_line_str"}.get(reference >> STR_SHIFT, self.section)
            raise FormatError("a string lies outside of its section", path=self.path, section=name,
                              offset=reference & 0x00ffffffffffffffULL)
        if length > MAX_STRING:
            raise FormatError(f"a string of {length} bytes is no name", path=self.path, section=self.section,
                              offset=reference & 0x00ffffffffffffffULL)
        return (<bytes>text[:length]).decode("utf-8", "surrogateescape")

    def has_dwo(self, Py_ssize_t index):
        """Whether unit ``index`` is a skeleton, whose entries stand in another file."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.headers[index].dwo_name >> STR_SHIFT != STR_NONE and not self.is_dwo

    def unit_size(self, Py_ssize_t index):
        """Bytes of unit ``index`` with its header."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.headers[index].end - self.headers[index].offset

    def find_unit(self, uint64_t offset):
        """Index of the unit that holds the entry at ``offset`` of the section, -1 if there is none."""
        return self.unit_index(offset)

    def signature_offset(self, signature):
        """Offset of the type with this signature (DW_FORM_ref_sig8), None if no type unit here has it."""
        return self.signatures.get(signature)

    def header(self, Py_ssize_t index):
        """Everything about unit ``index`` as a dict: offsets in bytes, strings decoded, None where absent."""
        if not 0 <= index < self.count:
            raise IndexError(index)
        cdef UnitHeader* u = &self.headers[index]
        return {
            "offset": u.offset, "end": u.end, "version": u.version, "address_size": u.address_size,
            "offset_size": u.offset_size, "unit_type": UNIT_TYPES.get(u.unit_type, "unknown"),
            "language": u.language, "low_pc": u.low_pc if u.has_low_pc else None,
            "stmt_list": u.stmt_list if u.has_stmt_list else None, "signature": u.signature,
            "name": self.string(u.name), "comp_dir": self.string(u.comp_dir), "producer": self.string(u.producer),
            "dwo_name": self.string(u.dwo_name), "addr_base": u.addr_base, "ranges_base": u.ranges_base,
            "rnglists_base": u.rnglists_base, "loclists_base": u.loclists_base,
            "str_offsets_base": u.str_offsets_base,
        }

    def address(self, Py_ssize_t index, uint64_t number):
        """Address ``number`` of unit ``index``'s part of .debug_addr. Raises FormatError if there is none."""
        cdef uint64_t result
        if self.resolve_address(&self.headers[index], number, &result):
            raise FormatError(f"address index {number} leads outside of the section", path=self.path,
                              section=".debug_addr", offset=self.headers[index].addr_base)
        return result
