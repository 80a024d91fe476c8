# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""What locations need of prototypes: which entries describe which parameter, and how large its type is.

A kernel has a hundred thousand abstract instances, which the readers of inlinetrace.sites turn into names and text.
Here a plain one is read without the GIL: a DW_TAG_subprogram that has no origin, with parameters whose types lie in
the same section. Everything else is asked of inlinetrace.sites, so that there is one meaning of what is not plain.
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from inlinetrace._arrays cimport make_room
from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_uleb
from inlinetrace.dwarf._forms cimport (
    V_BLOCK, V_REF, Abbreviation, Spec, UnitHeader, Value, find_abbreviation, free_abbreviations, load_abbreviations,
    read_form, skip_form,
)
from inlinetrace.dwarf._units cimport Info
from inlinetrace.generate._tables cimport add_number, next_number
from inlinetrace.sites._functions cimport Function

cdef enum:
    KEY_SHIFT = 44
    # as in the ordinary reader: no C type is that deep
    MAX_CHAIN = 512
    MAX_PARAMETERS = 4096
    # Types are kept for the units that follow; what is larger than this is of other units.
    MAX_KNOWN = 1 << 20

cdef uint64_t OFFSET_MASK = 0x00000fffffffffffULL


cdef inline uint64_t _hash(uint64_t key) noexcept nogil:
    return ((key ^ (key >> 32)) * 0x9e3779b97f4a7c15ULL) >> 20


cdef class Signatures:
    """See the stub."""

    def __cinit__(self, Info info not None, uint64_t number, functions, lock):
        self.info = info
        self.top = number << KEY_SHIFT
        self.slow = functions
        self.lock = lock
        memset(&self.table, 0, sizeof(self.table))

    def __dealloc__(self):
        free_abbreviations(&self.table)
        free(self.items)
        free(self.numbers.slots)
        free(self.positions)
        free(self.types)
        free(self.known)

    def signature(self, uint64_t key):
        cdef Signature* found = self.find(key)
        cdef uint64_t i
        return (
            found.canonical,
            [(self.types[i].size, self.types[i].is_signed != 0)
             for i in range(found.first_type, found.first_type + found.count)],
            found.variadic != 0,
            {self.positions[i].key: self.positions[i].number
             for i in range(found.first_position, found.first_position + found.position_count)},
        )

    cdef Signature* find(self, uint64_t key) except NULL nogil:
        """The signature of the function whose entry is ``key``; valid until the next call."""
        cdef uint64_t hash_ = _hash(key), at = hash_
        cdef uint32_t number = next_number(&self.numbers, hash_, &at)
        cdef Signature made
        while number:
            if self.items[number - 1].key == key:
                return &self.items[number - 1]
            number = next_number(&self.numbers, hash_, &at)
        memset(&made, 0, sizeof(made))
        if self.read(key, &made):
            with gil:
                self.ask(key, &made)
        self.add(key, &made)
        return &self.items[self.count - 1]

    cdef int add(self, uint64_t key, Signature* made) except -1 nogil:
        made.key = key
        make_room(<void**>&self.items, &self.capacity, self.count + 1, sizeof(Signature))
        self.items[self.count] = made[0]
        add_number(&self.numbers, _hash(key))
        self.count += 1
        return 0

    cdef int add_position(self, uint64_t key, uint32_t number) except -1 nogil:
        make_room(<void**>&self.positions, &self.position_capacity, self.position_count + 1, sizeof(Position))
        self.positions[self.position_count].key = key
        self.positions[self.position_count].number = number
        self.position_count += 1
        return 0

    cdef int add_type(self, TypeInfo* type_) except -1 nogil:
        make_room(<void**>&self.types, &self.type_capacity, self.type_count + 1, sizeof(TypeInfo))
        self.types[self.type_count] = type_[0]
        self.type_count += 1
        return 0

    # What is not plain

    cdef int ask(self, uint64_t key, Signature* made) except -1:
        cdef Function function
        cdef Py_ssize_t i
        cdef TypeInfo type_
        with self.lock:
            function = self.slow.function(key)
            made.canonical = function.key
            made.variadic = function.variadic
            made.first_position = <uint32_t>self.position_count
            made.position_count = <uint32_t>function.key_count
            made.first_type = <uint32_t>self.type_count
            made.count = <uint32_t>len(function.parameters)
            for i in range(function.key_count):
                self.add_position(function.keys[i], function.positions[i])
            for _, name in function.parameters:
                type_.size = min(name.size, 0xffffffffffffffff)
                type_.is_signed = name.signed
                self.add_type(&type_)
        return 0

    cdef int ask_type(self, uint64_t key, TypeInfo* found) except -1:
        with self.lock:
            name = self.slow.type_name(key)
        found.size = min(name.size, 0xffffffffffffffff)
        found.is_signed = name.signed
        return 0

    # What is

    cdef UnitHeader* open_unit(self, uint64_t offset) noexcept nogil:
        cdef Py_ssize_t index
        cdef UnitHeader* unit
        cdef uint64_t where = 0
        cdef uint64_t size = self.info.abbrev.shape[0]
        if self.opened != NULL and self.opened.first_die <= offset < self.opened.end:
            return self.opened
        index = self.info.unit_index(offset)
        self.opened = NULL
        if index < 0:
            return NULL
        unit = &self.info.headers[index]
        if load_abbreviations(&self.table, &self.info.abbrev[0] if size else NULL, size, unit.abbrev_offset, 0, unit,
                              &where):
            return NULL
        self.opened = unit
        return unit

    cdef int read_item(self, UnitHeader* unit, uint64_t offset, Item* item) noexcept nogil:
        """Read an entry of the open unit; 0, or 1 if it cannot be read."""
        cdef Cursor c = make_cursor(self.info.data, offset, unit.end, self.info.swap)
        cdef uint64_t code
        cdef Abbreviation* abbreviation
        cdef Spec* spec
        cdef Value value
        cdef uint32_t i
        memset(item, 0, sizeof(Item))
        item.offset = offset
        code = read_uleb(&c)
        if c.error:
            return 1
        if code == 0:
            item.next = c.pos
            return 0
        abbreviation = find_abbreviation(&self.table, code)
        if abbreviation == NULL:
            return 1
        item.tag = abbreviation.tag
        item.children = abbreviation.children
        for i in range(abbreviation.first, abbreviation.first + abbreviation.count):
            spec = &self.table.specs[i]
            if spec.attribute == 0x49:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                item.type = value.value
                item.has_type = True
                if value.kind != V_REF:
                    item.strange = True
            elif spec.attribute == 0x0b:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                item.byte_size = value.value
                item.has_size = value.kind != V_BLOCK
            elif spec.attribute == 0x3e:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                item.encoding = value.value
            elif spec.attribute == 0x01:
                read_form(&c, unit, spec.form, spec.implicit, &value)
                item.sibling = value.value
            elif spec.attribute == 0x69:
                # the type has a unit of its own
                item.elsewhere = True
                skip_form(&c, unit, spec.form, spec.size)
            elif spec.attribute == 0x31 or spec.attribute == 0x47:
                item.strange = True
                skip_form(&c, unit, spec.form, spec.size)
            else:
                skip_form(&c, unit, spec.form, spec.size)
        item.next = c.pos
        return c.error != 0

    cdef int pass_over(self, UnitHeader* unit, Item* item, uint64_t* following) noexcept nogil:
        """Find what follows an entry and its children; 1 if that cannot be told."""
        cdef Item inner
        cdef uint64_t depth = 1
        following[0] = item.next
        if not item.children:
            return 0
        if item.sibling:
            following[0] = item.sibling
            return item.sibling <= item.offset or item.sibling > unit.end
        while depth and following[0] < unit.end:
            if self.read_item(unit, following[0], &inner):
                return 1
            following[0] = inner.next
            if not inner.tag:
                depth -= 1
            elif inner.children:
                depth += 1
        return 0

    cdef int read(self, uint64_t key, Signature* made) except -1 nogil:
        """Read a plain function; 0, or 1 if it is not plain."""
        cdef uint64_t offset = key & OFFSET_MASK, at
        cdef UnitHeader* unit
        cdef Item item
        cdef TypeInfo type_
        cdef uint64_t positions = self.position_count, types = self.type_count
        cdef bint plain = True
        if key & ~OFFSET_MASK != self.top:
            return 1
        unit = self.open_unit(offset)
        if unit == NULL or self.read_item(unit, offset, &item) or not item.tag or item.strange:
            return 1
        made.canonical = key
        made.first_position = <uint32_t>positions
        made.first_type = <uint32_t>types
        if item.children:
            at = item.next
            while at < unit.end:
                if self.read_item(unit, at, &item):
                    plain = False
                    break
                if not item.tag:
                    break
                if item.tag == 0x05:
                    if made.count == MAX_PARAMETERS or item.strange:
                        plain = False
                        break
                    type_.size = 0
                    type_.is_signed = 0
                    if item.has_type:
                        self.type_of(item.type, &type_)
                        # the type may lie in another unit
                        unit = self.open_unit(offset)
                        if unit == NULL:
                            plain = False
                            break
                    self.add_position(self.top | at, made.count)
                    self.add_type(&type_)
                    made.count += 1
                elif item.tag == 0x18:
                    made.variadic = 1
                elif item.tag == 0x0b or item.tag == 0x1d:
                    # gcc and clang put the parameters before the body
                    break
                if self.pass_over(unit, &item, &at):
                    plain = False
                    break
        if not plain:
            self.position_count = positions
            self.type_count = types
            memset(made, 0, sizeof(Signature))
            return 1
        made.position_count = made.count
        return 0

    cdef int type_of(self, uint64_t offset, TypeInfo* found) except -1 nogil:
        """Size and signedness of the type whose entry is at ``offset``."""
        cdef uint64_t i
        if self.known != NULL:
            i = _hash(offset) & self.known_mask
            while self.known[i].key:
                if self.known[i].key == offset + 1:
                    found[0] = self.known[i].type
                    return 0
                i = (i + 1) & self.known_mask
        if self.read_type(offset, found):
            with gil:
                self.ask_type(self.top | offset, found)
        self.keep_type(offset, found)
        return 0

    cdef int read_type(self, uint64_t offset, TypeInfo* found) noexcept nogil:
        """Follow qualifiers and typedefs; 0, or 1 if the type is not plain."""
        cdef Item item
        cdef UnitHeader* unit
        cdef uint64_t size = 0
        cdef int steps
        found.size = 0
        found.is_signed = 0
        for steps in range(MAX_CHAIN):
            unit = self.open_unit(offset)
            if unit == NULL or self.read_item(unit, offset, &item) or not item.tag or item.elsewhere \
                    or (item.has_type and item.strange):
                return 1
            if (item.tag == 0x16 or item.tag == 0x26 or item.tag == 0x35 or item.tag == 0x37 or item.tag == 0x47):
                if not item.has_type:
                    # void; below an enumeration that is nothing to follow
                    return size != 0
                offset = item.type
                continue
            if item.tag == 0x04 and item.has_type and size == 0:
                # the underlying type tells the sign; one of its own size would be the enumeration's again
                size = item.byte_size
                if size == 0:
                    return 1
                offset = item.type
                continue
            if item.tag == 0x24:
                found.size = size if size else item.byte_size
                found.is_signed = item.encoding == 5 or item.encoding == 6
                return 0
            if size:
                return 1
            if item.tag == 0x0f or item.tag == 0x10 or item.tag == 0x42:
                found.size = item.byte_size if item.has_size else unit.address_size
                return 0
            if item.tag == 0x13 or item.tag == 0x17 or item.tag == 0x02:
                found.size = item.byte_size
                return 0
            return item.tag == 0x04 or item.tag == 0x01
        return 1

    cdef int keep_type(self, uint64_t offset, TypeInfo* found) except -1 nogil:
        cdef uint64_t i, j, size
        cdef TypeSlot* slots
        cdef TypeSlot* old = self.known
        if self.known_count >= MAX_KNOWN:
            memset(self.known, 0, (self.known_mask + 1) * sizeof(TypeSlot))
            self.known_count = 0
        if old == NULL or 2 * (self.known_count + 1) > self.known_mask:
            size = 2 * (self.known_mask + 1) if old != NULL else 4096
            slots = <TypeSlot*>calloc(size, sizeof(TypeSlot))
            if slots == NULL:
                with gil:
                    raise MemoryError
            for j in range(self.known_mask + 1 if old != NULL else 0):
                if old[j].key:
                    i = _hash(old[j].key - 1) & (size - 1)
                    while slots[i].key:
                        i = (i + 1) & (size - 1)
                    slots[i] = old[j]
            free(old)
            self.known = slots
            self.known_mask = size - 1
        i = _hash(offset) & self.known_mask
        while self.known[i].key:
            i = (i + 1) & self.known_mask
        self.known[i].key = offset + 1
        self.known[i].type = found[0]
        self.known_count += 1
        return 0
