# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Single entries on demand: attributes, children, prototypes and the C text of types.

An entry is named by a *key*: the number of its Info in the reader's list above bit 44, its offset below. Key 0
is no entry; as a type it is void.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from inlinetrace._arrays cimport make_room
from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_uleb
from inlinetrace.dwarf._forms cimport (
    ERR_ABBREV, V_ADDRESS, V_ADDRESS_INDEX, V_ALT_REF, V_BLOCK, V_FLAG, V_LIST_INDEX, V_OFFSET, V_REF, V_SIGNATURE,
    V_SINT, V_STRING, V_STRING_INDEX, V_UINT, Abbreviation, Spec, UnitHeader, Value, find_abbreviation,
    free_abbreviations, load_abbreviations, read_form, skip_form,
)
from inlinetrace.dwarf._map cimport Map
from inlinetrace.dwarf._units cimport Info, describe, start_of

from inlinetrace.errors import FormatError

cdef enum:
    KEY_SHIFT = 44
    # No C type is that deep; longer chains are cycles or hostile.
    MAX_CHAIN = 512
    MAX_NESTING = 24
    MAX_SIMPLE = 16
    # Types that use each other twice a level grow without end.
    MAX_TEXT = 1 << 14
    MAX_PARAMETERS = 4096

cdef uint64_t OFFSET_MASK = 0x00000fffffffffffULL

# DW_ATE_*: how values of a base type are read; what is not listed is "other".
cdef list _ENCODINGS = ["other", "pointer", "bool", "other", "float", "signed", "char", "unsigned", "uchar"]


cdef class Prototype:
    """Name and parameters of a function's entry: ``parameters`` has (key, name, type key, origin key) in order."""


cdef class DieReader:
    """Reads single entries of ``infos`` (the main section first). Not for use by several threads at once."""

    def __cinit__(self, list infos):
        if not 0 < len(infos) < 1 << 20:
            raise ValueError("no sections of units, or too many")
        self.infos = infos
        self.texts = Map()
        self.shapes = Map()
        # by name reference, one for each of infos; and type texts by the operators and the base type's name
        self.names = [Map() for _ in infos]
        self.simple = {}
        self.table_info = None
        memset(&self.table, 0, sizeof(self.table))

    def __dealloc__(self):
        free_abbreviations(&self.table)
        free(self.signature.formals)

    cdef Info info_of(self, uint64_t key):
        cdef Py_ssize_t index = <Py_ssize_t>(key >> KEY_SHIFT)
        if index >= len(self.infos):
            raise FormatError("an entry refers to a section that is not there")
        return <Info>self.infos[index]

    cdef UnitHeader* open_unit(self, Info info, uint64_t offset) except NULL:
        """Load the abbreviations of the unit around ``offset``."""
        cdef Py_ssize_t index = info.unit_index(offset)
        cdef UnitHeader* unit
        cdef uint64_t where = 0
        cdef int error
        if index < 0:
            raise FormatError("a reference leads to no entry of any unit", path=info.path, section=info.section,
                              offset=offset)
        unit = &info.headers[index]
        if self.table_info is not info:
            self.table.valid = False
            self.table_info = info
        error = load_abbreviations(&self.table, start_of(info.abbrev), info.abbrev.shape[0], unit.abbrev_offset, 0, unit,
                                   &where)
        if error < 0:
            raise MemoryError
        if error:
            raise FormatError(describe(error), path=info.path, section=".debug_abbrev", offset=where)
        return unit

    cdef uint64_t target(self, Info info, Value* value, uint64_t key) except? 0xffffffffffffffff:
        """Key that a reference leads to; all ones if it leads to a file that is not there."""
        cdef Py_ssize_t i
        if value.kind == V_REF:
            if value.value > OFFSET_MASK:
                raise FormatError("a reference leads to no entry of any unit", path=info.path, section=info.section,
                                  offset=value.at)
            return (key & ~OFFSET_MASK) | value.value
        if value.kind == V_SIGNATURE:
            for i in range(len(self.infos)):
                offset = (<Info>self.infos[i]).signatures.get(value.value)
                if offset is not None:
                    return (<uint64_t>i << KEY_SHIFT) | <uint64_t>offset
        elif value.kind == V_ALT_REF and info.alternate is not None:
            for i in range(len(self.infos)):
                if self.infos[i] is info.alternate:
                    if value.value > OFFSET_MASK:
                        break
                    return (<uint64_t>i << KEY_SHIFT) | value.value
        return 0xffffffffffffffffULL

    cdef int read(self, Info info, UnitHeader* unit, uint64_t key, Entry* entry) except -1:
        """Read the attributes that types need of the entry at ``key``; the unit must be open."""
        cdef Cursor c = make_cursor(info.data, key & OFFSET_MASK, unit.end, info.swap)
        cdef uint64_t code, number
        cdef Abbreviation* abbreviation
        cdef Spec* spec
        cdef Value value
        cdef uint32_t i
        memset(entry, 0, sizeof(Entry))
        entry.offset = c.pos
        entry.count = -1
        code = read_uleb(&c)
        if code == 0:
            entry.null = True
            entry.next = c.pos
            if c.error:
                raise FormatError(describe(c.error), path=info.path, section=info.section, offset=c.error_at)
            return 0
        abbreviation = find_abbreviation(&self.table, code)
        if abbreviation == NULL:
            raise FormatError(describe(ERR_ABBREV), path=info.path, section=info.section, offset=entry.offset)
        entry.tag = abbreviation.tag
        entry.children = abbreviation.children
        for i in range(abbreviation.first, abbreviation.first + abbreviation.count):
            spec = &self.table.specs[i]
            if spec.attribute == 0x03:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                if info.resolve_string(unit, &value):
                    raise FormatError("a string index leads outside of .debug_str_offsets", path=info.path,
                                      section=info.section, offset=value.at)
                entry.name = value.value
                entry.has_name = True
            elif spec.attribute == 0x49:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.type = self.target(info, &value, key)
                entry.has_type = True
                if entry.type == 0xffffffffffffffffULL:
                    entry.missing_type = True
            elif spec.attribute == 0x31:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.origin = self.target(info, &value, key)
            elif spec.attribute == 0x69:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.signature = self.target(info, &value, key)
            elif spec.attribute == 0x0b:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.byte_size = value.value
                entry.has_size = value.kind != V_BLOCK
            elif spec.attribute == 0x3e:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.encoding = value.value
            elif spec.attribute == 0x01:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.sibling = value.value
            elif spec.attribute == 0x3c:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.declaration = value.value != 0
            elif spec.attribute == 0x1c:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                entry.const_value = <int64_t>value.value if value.kind != V_BLOCK else 0
            elif spec.attribute == 0x2f or spec.attribute == 0x37:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                if value.kind == V_UINT or value.kind == V_SINT:
                    entry.count = <int64_t>value.value + (1 if spec.attribute == 0x2f else 0)
            else:
                skip_form(&c, unit, spec.form, spec.size)
            if c.error:
                raise FormatError(describe(c.error), path=info.path, section=info.section, offset=c.error_at)
        entry.next = c.pos
        return 0

    cdef Info read_type(self, uint64_t* key, UnitHeader** unit, Entry* entry):
        """Read a type's entry; ``key`` becomes that of the type unit's where it only stands for that."""
        cdef Info info = self.info_of(key[0])
        unit[0] = self.open_unit(info, key[0] & OFFSET_MASK)
        self.read(info, unit[0], key[0], entry)
        if entry.signature and entry.signature != 0xffffffffffffffffULL and entry.signature != key[0]:
            key[0] = entry.signature
            info = self.info_of(key[0])
            unit[0] = self.open_unit(info, key[0] & OFFSET_MASK)
            self.read(info, unit[0], key[0], entry)
        return info

    cdef uint64_t after(self, Info info, UnitHeader* unit, Entry* entry, uint64_t key) except 0:
        """Offset of the next sibling of ``entry``, whose children are passed over without recursion."""
        cdef Entry inner
        cdef uint64_t pos = entry.next
        cdef uint64_t depth = 1
        if not entry.children:
            return pos
        if entry.sibling:
            if entry.sibling <= entry.offset or entry.sibling > unit.end:
                raise FormatError("DW_AT_sibling does not lead forward inside of its unit", path=info.path,
                                  section=info.section, offset=entry.offset)
            return entry.sibling
        while depth and pos < unit.end:
            self.read(info, unit, (key & ~OFFSET_MASK) | pos, &inner)
            pos = inner.next
            if inner.null:
                depth -= 1
            elif inner.children:
                depth += 1
        return pos

    cdef object name_at(self, Info info, uint64_t key, uint64_t reference):
        """Text of a string that the entry ``key`` refers to; equal references give one object."""
        cdef Map names = <Map>self.names[<Py_ssize_t>(key >> KEY_SHIFT)]
        name = names.get(reference)
        if name is None:
            name = info.string(reference)
            names.set(reference, name)
        return name

    def forget(self):
        """Drop the texts and shapes of types that are kept."""
        self.texts.clear()
        self.shapes.clear()

    def die(self, uint64_t key):
        """All attributes of one entry: (tag, {attribute: (class, value)}, offset of its first child or None).

        Classes are "uint", "sint", "address", "ref" (value: a key), "block" (bytes), "offset", "index", "string", "flag".
        """
        cdef Info info = self.info_of(key)
        cdef UnitHeader* unit = self.open_unit(info, key & OFFSET_MASK)
        cdef Cursor c = make_cursor(info.data, key & OFFSET_MASK, unit.end, info.swap)
        cdef Abbreviation* entry
        cdef Spec* spec
        cdef Value value
        cdef uint32_t i
        cdef uint64_t address
        code = read_uleb(&c)
        entry = find_abbreviation(&self.table, code)
        if c.error or entry == NULL:
            raise FormatError(describe(c.error if c.error else ERR_ABBREV), path=info.path, section=info.section,
                              offset=key & OFFSET_MASK)
        attributes = {}
        for i in range(entry.first, entry.first + entry.count):
            spec = &self.table.specs[i]
            read_form(&c, unit, spec.form, spec.implicit, &value)
            if c.error:
                raise FormatError(describe(c.error), path=info.path, section=info.section, offset=c.error_at)
            if value.kind == V_STRING or value.kind == V_STRING_INDEX:
                if info.resolve_string(unit, &value):
                    raise FormatError("a string index leads outside of .debug_str_offsets", path=info.path,
                                      section=info.section, offset=value.at)
                attributes[spec.attribute] = ("string", info.string(value.value))
            elif value.kind == V_SINT:
                attributes[spec.attribute] = ("sint", <int64_t>value.value)
            elif value.kind == V_BLOCK:
                attributes[spec.attribute] = ("block", bytes(info.info[value.value:value.value + value.length]))
            elif value.kind == V_REF or value.kind == V_SIGNATURE or value.kind == V_ALT_REF:
                attributes[spec.attribute] = ("ref", self.target(info, &value, key))
            elif value.kind == V_ADDRESS_INDEX:
                if info.resolve_address(unit, value.value, &address):
                    raise FormatError("an address index leads outside of .debug_addr", path=info.path,
                                      section=info.section, offset=value.at)
                attributes[spec.attribute] = ("address", address)
            else:
                kind = {V_UINT: "uint", V_ADDRESS: "address", V_OFFSET: "offset", V_LIST_INDEX: "index",
                        V_FLAG: "flag"}[value.kind]
                attributes[spec.attribute] = (kind, value.value)
        return entry.tag, attributes, c.pos if entry.children else None

    def unit_entry(self, uint64_t key):
        """Key of the entry at the top of the unit that has the entry at ``key``."""
        return key & ~OFFSET_MASK | self.open_unit(self.info_of(key), key & OFFSET_MASK).first_die

    def children(self, uint64_t key):
        """Keys of the direct children of the entry at ``key``, in order."""
        cdef Info info = self.info_of(key)
        cdef UnitHeader* unit = self.open_unit(info, key & OFFSET_MASK)
        cdef Entry entry
        cdef uint64_t pos, top = key & ~OFFSET_MASK
        self.read(info, unit, key, &entry)
        result = []
        if entry.null or not entry.children:
            return result
        pos = entry.next
        while pos < unit.end:
            self.read(info, unit, top | pos, &entry)
            if entry.null:
                break
            result.append(top | pos)
            pos = self.after(info, unit, &entry, top | pos)
        return result

    cdef int read_signature(self, uint64_t key) except -1:
        """Read what the DW_TAG_subprogram at ``key`` itself says into ``self.signature``, until the next call."""
        cdef Info info = self.info_of(key)
        cdef UnitHeader* unit = self.open_unit(info, key & OFFSET_MASK)
        cdef Cursor c = make_cursor(info.data, key & OFFSET_MASK, unit.end, info.swap)
        cdef Abbreviation* abbreviation
        cdef Spec* spec
        cdef Value value
        cdef Entry entry
        cdef Signature* result = &self.signature
        cdef Formal* formals = result.formals
        cdef uint64_t capacity = result.capacity
        cdef uint32_t i
        cdef uint64_t pos, code, top = key & ~OFFSET_MASK
        cdef unsigned attribute
        memset(result, 0, sizeof(Signature))
        result.formals = formals
        result.capacity = capacity
        code = read_uleb(&c)
        abbreviation = find_abbreviation(&self.table, code)
        if c.error or abbreviation == NULL:
            raise FormatError(describe(c.error if c.error else ERR_ABBREV), path=info.path, section=info.section,
                              offset=key & OFFSET_MASK)
        for i in range(abbreviation.first, abbreviation.first + abbreviation.count):
            spec = &self.table.specs[i]
            attribute = spec.attribute
            if attribute == 0x03 or attribute == 0x6e or attribute == 0x2007:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                if info.resolve_string(unit, &value):
                    raise FormatError("a string index leads outside of .debug_str_offsets", path=info.path,
                                      section=info.section, offset=value.at)
                if attribute == 0x03:
                    result.name = value.value
                else:
                    result.linkage_name = value.value
            elif attribute == 0x31 or attribute == 0x47:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                result.origin = self.target(info, &value, key)
            elif attribute == 0x49:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                result.return_type = self.target(info, &value, key)
            elif attribute == 0x3a or attribute == 0x3b or attribute == 0x3f:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                if attribute == 0x3a:
                    result.decl_file = <uint32_t>value.value
                elif attribute == 0x3b:
                    result.decl_line = <uint32_t>value.value
                else:
                    result.external = value.value != 0
            else:
                skip_form(&c, unit, spec.form, spec.size)
            if c.error:
                raise FormatError(describe(c.error), path=info.path, section=info.section, offset=c.error_at)
        if not abbreviation.children:
            return 0
        pos = c.pos
        while pos < unit.end:
            self.read(info, unit, top | pos, &entry)
            if entry.null:
                break
            if entry.tag == 0x05:
                if result.count == MAX_PARAMETERS:
                    raise FormatError(f"a function has more than {MAX_PARAMETERS} parameters", path=info.path,
                                      section=info.section, offset=key & OFFSET_MASK)
                if result.count == result.capacity:
                    self.more_formals()
                formals = &result.formals[result.count]
                formals.key = top | pos
                formals.name = entry.name if entry.has_name else 0
                formals.type = entry.type if entry.has_type else 0
                formals.origin = entry.origin
                result.count += 1
            elif entry.tag == 0x18:
                result.variadic = True
            elif entry.tag == 0x0b or entry.tag == 0x1d:
                # gcc and clang put the parameters before the body
                break
            pos = self.after(info, unit, &entry, top | pos)
        return 0

    cdef int more_formals(self) except -1:
        return make_room(<void**>&self.signature.formals, &self.signature.capacity, self.signature.count + 1, sizeof(Formal))

    cpdef Prototype prototype(self, uint64_t key):
        """The Prototype that the DW_TAG_subprogram at ``key`` itself describes.

        ``origin`` is the key of its abstract origin or specification, 0 if it has none.
        """
        cdef Signature* said = &self.signature
        cdef Prototype result
        cdef Info info = self.info_of(key)
        cdef Py_ssize_t i
        self.read_signature(key)
        result = Prototype()
        result.name = self.name_at(info, key, said.name) if said.name else None
        result.linkage_name = self.name_at(info, key, said.linkage_name) if said.linkage_name else None
        result.return_type = said.return_type
        result.origin = said.origin
        result.decl_file = said.decl_file
        result.decl_line = said.decl_line
        result.variadic = said.variadic
        result.external = said.external
        result.parameters = tuple([
            (said.formals[i].key, self.name_at(info, key, said.formals[i].name) if said.formals[i].name else None,
             said.formals[i].type, said.formals[i].origin)
            for i in range(said.count)
        ])
        return result

    def type_text(self, uint64_t key):
        """C text of the type at ``key`` without a declared name: ``struct file *``, ``int (*)(char)``, ``void``."""
        return self._text(key, 0)

    cdef str _text(self, uint64_t key, int nesting):
        cdef Entry entry
        cdef Info info
        cdef UnitHeader* unit
        cdef uint64_t current = key
        cdef int steps = 0
        cached = self.texts.get(key)
        if cached is not None:
            return cached
        simple = self._simple_text(key)
        if simple is not None:
            self.texts.set(key, simple)
            return simple
        if nesting > MAX_NESTING:
            return "..."
        declarator = ""
        pointer_last = False
        qualifiers = []
        base = None
        while base is None:
            steps += 1
            if current == 0:
                base = "void"
                break
            if current == 0xffffffffffffffffULL:
                base = "<type in another file>"
                break
            if steps > MAX_CHAIN:
                raise FormatError("a type refers to itself", path=self.info_of(key).path,
                                  section=self.info_of(key).section, offset=key & OFFSET_MASK)
            info = self.read_type(&current, &unit, &entry)
            tag = entry.tag
            if tag == 0x0f or tag == 0x10 or tag == 0x42:          # pointer, reference, rvalue reference
                star = "*" if tag == 0x0f else "&" if tag == 0x10 else "&&"
                if qualifiers:
                    star += " ".join(qualifiers) + (" " if declarator else "")
                    qualifiers = []
                declarator = star + declarator
                pointer_last = True
            elif tag == 0x26:
                qualifiers.insert(0, "const")
            elif tag == 0x35:
                qualifiers.insert(0, "volatile")
            elif tag == 0x37:
                qualifiers.append("restrict")
            elif tag == 0x47:
                qualifiers.append("_Atomic")
            elif tag == 0x01:
                if pointer_last:
                    declarator = f"({declarator})"
                    pointer_last = False
                declarator += self._dimensions(info, unit, current, &entry)
            elif tag == 0x15:
                if pointer_last:
                    declarator = f"({declarator})"
                    pointer_last = False
                inner = self._signature(info, current, nesting)
                declarator += inner
            else:
                base = self._base_name(info, &entry, current)
                break
            current = entry.type if entry.has_type else 0
        prefix = " ".join([*qualifiers, base])
        if not declarator:
            text = prefix
        elif declarator.startswith("["):
            text = prefix + declarator
        else:
            text = f"{prefix} {declarator}"
        if len(text) > MAX_TEXT:
            text = text[:MAX_TEXT] + "..."
        self.texts.set(key, text)
        return text

    cdef str _simple_text(self, uint64_t key):
        """Text of a type that is pointers and qualifiers around a name; None if it is more than that.

        Such types are many and their texts few: what the entries say is the key to texts that are made once.
        """
        # tags of the operators, of the named type, then the reference of its name and its section
        cdef uint8_t said[MAX_SIMPLE + 17]
        cdef Py_ssize_t used = 0
        cdef Entry entry
        cdef Info info = None
        cdef UnitHeader* unit
        cdef uint64_t current = key, section
        cdef Py_ssize_t i
        while True:
            if current == 0xffffffffffffffffULL or used == MAX_SIMPLE:
                return None
            if current == 0:
                memset(&entry, 0, sizeof(Entry))
                said[used] = 0xff
                used += 1
                break
            info = self.read_type(&current, &unit, &entry)
            if entry.tag >= 0xff:
                return None
            said[used] = <uint8_t>entry.tag
            used += 1
            if entry.tag == 0x0f or entry.tag == 0x26 or entry.tag == 0x35:    # pointer, const, volatile
                current = entry.type if entry.has_type else 0
                continue
            break
        if current and (not entry.has_name or entry.tag not in (0x13, 0x16, 0x17, 0x04, 0x24)):
            return None
        section = current >> KEY_SHIFT
        memcpy(&said[used], &entry.name, 8)
        memcpy(&said[used + 8], &section, 8)
        form = PyBytes_FromStringAndSize(<char*>said, used + 16)
        text = self.simple.get(form)
        if text is None:
            base = self._base_name(info, &entry, current) if current else "void"
            declarator = ""
            qualifiers = []
            for i in range(used - 1):
                if said[i] == 0x0f:
                    star = "*"
                    if qualifiers:
                        star += " ".join(qualifiers) + (" " if declarator else "")
                        qualifiers = []
                    declarator = star + declarator
                else:
                    qualifiers.insert(0, "const" if said[i] == 0x26 else "volatile")
            text = " ".join([*qualifiers, base, *([declarator] if declarator else [])])
            if len(text) > MAX_TEXT:
                text = text[:MAX_TEXT] + "..."
            self.simple[form] = text
        return text

    cdef str _base_name(self, Info info, Entry* entry, uint64_t key):
        word = {0x13: "struct ", 0x17: "union ", 0x04: "enum ", 0x02: "class "}.get(entry.tag, "")
        if entry.has_name:
            return word + (self.name_at(info, key, entry.name) or "")
        if entry.tag == 0x3b:
            return "void"
        return f"{word}{{...}}" if word else f"<tag {entry.tag:#x}>"

    cdef str _dimensions(self, Info info, UnitHeader* unit, uint64_t key, Entry* array):
        cdef Entry entry
        cdef uint64_t pos = array.next, top = key & ~OFFSET_MASK
        text = ""
        while array.children and pos < unit.end:
            self.read(info, unit, top | pos, &entry)
            if entry.null:
                break
            if entry.tag == 0x21:
                text += f"[{entry.count}]" if entry.count >= 0 else "[]"
                if len(text) > MAX_TEXT:
                    return text + "..."
            pos = self.after(info, unit, &entry, top | pos)
        return text or "[]"

    cdef str _signature(self, Info info, uint64_t key, int nesting):
        cdef Entry entry
        cdef uint64_t top = key & ~OFFSET_MASK
        cdef UnitHeader* unit
        parameters = []
        for child in self.children(key):
            unit = self.open_unit(info, child & OFFSET_MASK)
            self.read(info, unit, child, &entry)
            if entry.tag == 0x05:
                parameters.append(self._text(entry.type if entry.has_type else 0, nesting + 1))
            elif entry.tag == 0x18:
                parameters.append("...")
        return "(" + (", ".join(parameters) or "void") + ")"

    def type_shape(self, uint64_t key):
        """(size in bytes, encoding, signed) of a type below its typedefs and qualifiers.

        The size is 0 where it is unknown; encodings are "signed", "unsigned", "bool", "char", "uchar", "float",
        "pointer", "enum", "aggregate" and "other".
        """
        return self._shape(key, 0)

    cdef tuple _shape(self, uint64_t key, int nesting):
        cdef Entry entry
        cdef Info info
        cdef UnitHeader* unit
        cdef uint64_t current = key
        cdef int steps = 0
        cached = self.shapes.get(key)
        if cached is not None:
            return cached
        if nesting > MAX_NESTING:
            raise FormatError("a type refers to itself, or is nested too deep", path=self.info_of(key).path,
                              section=self.info_of(key).section, offset=key & OFFSET_MASK)
        result = (0, "other", False)
        while current != 0 and current != 0xffffffffffffffffULL:
            steps += 1
            if steps > MAX_CHAIN:
                raise FormatError("a type refers to itself", path=self.info_of(key).path,
                                  section=self.info_of(key).section, offset=key & OFFSET_MASK)
            info = self.read_type(&current, &unit, &entry)
            if entry.tag in (0x16, 0x26, 0x35, 0x37, 0x47):
                current = entry.type if entry.has_type else 0
                continue
            if entry.tag in (0x0f, 0x10, 0x42):
                result = (entry.byte_size if entry.has_size else unit.address_size, "pointer", False)
            elif entry.tag == 0x24:
                if entry.encoding <= 8:
                    encoding = _ENCODINGS[entry.encoding]
                else:
                    encoding = "unsigned" if 0x10 <= entry.encoding <= 0x12 else "other"
                result = (entry.byte_size, encoding, entry.encoding == 5 or entry.encoding == 6)
            elif entry.tag == 0x04:
                size = entry.byte_size
                signed = None
                if entry.has_type:
                    inner = self._shape(entry.type, nesting + 1)
                    size = size or inner[0]
                    signed = inner[2]
                if signed is None:
                    signed = self._has_negative(info, unit, current, &entry)
                result = (size, "enum", signed)
            elif entry.tag in (0x13, 0x17, 0x02):
                result = (entry.byte_size, "aggregate", False)
            elif entry.tag == 0x01:
                result = (entry.byte_size if entry.has_size else self._array_size(info, unit, current, &entry, nesting),
                          "aggregate", False)
            break
        self.shapes.set(key, result)
        return result

    cdef bint _has_negative(self, Info info, UnitHeader* unit, uint64_t key, Entry* enumeration) except -1:
        cdef Entry entry
        cdef uint64_t pos = enumeration.next, top = key & ~OFFSET_MASK
        while enumeration.children and pos < unit.end:
            self.read(info, unit, top | pos, &entry)
            if entry.null:
                break
            if entry.const_value < 0:
                return True
            pos = self.after(info, unit, &entry, top | pos)
        return False

    cdef object _array_size(self, Info info, UnitHeader* unit, uint64_t key, Entry* array, int nesting):
        cdef Entry entry
        cdef uint64_t pos = array.next, top = key & ~OFFSET_MASK
        total = 1
        while array.children and pos < unit.end:
            self.read(info, unit, top | pos, &entry)
            if entry.null:
                break
            if entry.tag == 0x21:
                total *= max(entry.count, 0)
                if total >> 63:
                    return 0
            pos = self.after(info, unit, &entry, top | pos)
        element = self._shape(array.type, nesting + 1) if array.has_type and not array.missing_type else (0,)
        return total * element[0]
