# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From the ordered graph to the bytes of BTF: ids, strings, functions, variables.

Words are in this machine's byte order until the end; the type section is nothing but 32-bit words.
"""
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from inlinetrace.dwarf._cursor cimport Cursor, inlinetrace_swap32, make_cursor, read_u8, read_u16, read_u32, read_u64
from inlinetrace.generate._collect cimport (
    F_ASSEMBLER, F_CODE, F_EXTERNAL, F_NAMELESS, F_REORDERED, F_UNEXPECTED, Collector, KeptFunction, KeptTag, KeptVariable, UnitSlice,
)
from inlinetrace.generate._graph cimport Graph, Held, Private, Selected, UnitPlace, reference_at, reference_count
from inlinetrace.generate._store cimport (
    B_ARRAY, B_CONST, B_DATASEC, B_DECL_TAG, B_ENUM, B_ENUM64, B_FLOAT, B_FUNC, B_FUNC_PROTO, B_FWD, B_INT, B_STRUCT,
    B_TYPEDEF, B_UNION, B_VAR,
    HEAD_FLAG, HEAD_VLEN, TAG, TAG_NAME, TAG_UNION, Names, grow_array, names_find, names_intern, push, reserve,
)

from array import array

from inlinetrace.errors import FormatError

cdef enum:
    NONE = 0xffffffffU
    ERR_MEMORY = -1
    ERR_NAME = 1
    HAS_SYMBOL = 1
    HAS_SUFFIXED = 2     # foo.isra.0, foo.constprop.0
    AMBIGUOUS = 4        # several addresses
    F_INCONSISTENT = 0x10000
    MAX_VLEN = 0xffff
    CLASSIC_FLAG = 0x80000000U


cdef int _append(Bytes* b, const uint8_t* text, uint64_t length) noexcept nogil:
    if b.n + length + 1 > b.capacity:
        if grow_array(<void**>&b.v, &b.capacity, b.n + length + 1, 1):
            return ERR_MEMORY
    memcpy(b.v + b.n, text, length)
    b.n += length
    b.v[b.n] = 0
    b.n += 1
    return 0


cdef bint _contains(const uint8_t* text, uint64_t length, const char* part, uint64_t size) noexcept nogil:
    cdef uint64_t i
    for i in range(length):
        if i + size <= length and memcmp(text + i, part, size) == 0:
            return True
    return False


cdef bint _is_part(const uint8_t* suffix, uint64_t length) noexcept nogil:
    """A symbol with this suffix is a piece of a function (.cold, .part.0), not a variant of it."""
    return _contains(suffix, length, b".cold", 5) or _contains(suffix, length, b".part", 5)


cdef bint _is_identifier(const uint8_t* text, uint32_t length) noexcept nogil:
    """A name that the kernel accepts for functions and variables (btf_name_valid_identifier, with dots)."""
    cdef uint32_t i
    cdef uint8_t c
    if length == 0 or length >= 512:
        return False
    for i in range(length):
        c = text[i]
        if not (c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c == c'_' or c == c'.' or (i and c'0' <= c <= c'9')):
            return False
    return True


cdef bint _begins(const uint8_t* text, uint32_t length, const char* start, uint32_t size) noexcept nogil:
    return length >= size and memcmp(text, start, size) == 0


cdef bint _is_noise(const uint8_t* text, uint32_t length) noexcept nogil:
    """Variables that macros make and nobody looks for."""
    return (_begins(text, length, b"__UNIQUE_ID", 11) or _begins(text, length, b"__tpstrtab_", 11)
            or _begins(text, length, b"__exitcall_", 11)
            or _begins(text, length, b"__func_stack_frame_non_standard_", 32))


cdef int _by_address(const void* a, const void* b) noexcept nogil:
    cdef const Symbol* x = <const Symbol*>a
    cdef const Symbol* y = <const Symbol*>b
    if x.address != y.address:
        return 1 if x.address > y.address else -1
    return 0


cdef int _by_section(const void* a, const void* b) noexcept nogil:
    cdef const Chosen* x = <const Chosen*>a
    cdef const Chosen* y = <const Chosen*>b
    if x.section != y.section:
        return 1 if x.section > y.section else -1
    if x.address != y.address:
        return 1 if x.address > y.address else -1
    return 1 if x.order > y.order else -1


cdef class Emitter:
    """Writes what ``graph`` has. ``swap``: the target has the other byte order than this machine."""

    def __cinit__(self, Graph graph, *, bint swap=False, uint32_t first_id=1, uint64_t first_string=0):
        self.graph = graph
        self.swap = swap
        self.first_id = self.next_id = first_id
        self.first_string = first_string
        self.section_names = []
        if first_string == 0 and _append(&self.strings, b"", 0):
            raise MemoryError

    def __dealloc__(self):
        cdef uint32_t i
        free(self.types.v)
        free(self.strings.v)
        free(self.string_of)
        free(self.ids)
        free(self.symbols)
        if self.function_names != NULL:
            for i in range(self.graph.map_count):
                free(self.function_names[i])
        for i in range(self.graph.map_count if self.tag_names != NULL else 0):
            free(self.tag_names[i])
        for i in range(self.graph.map_count if self.tag_heads != NULL else 0):
            free(self.tag_heads[i])
        for i in range(self.graph.map_count if self.variable_names != NULL else 0):
            free(self.variable_names[i])
        for i in range(self.graph.map_count if self.variable_tags != NULL else 0):
            free(self.variable_tags[i])
        free(self.function_names)
        free(self.tag_names)
        free(self.tag_heads)
        free(self.variable_names)
        free(self.variable_tags)
        free(self.symbol_addresses)
        free(self.chosen)
        free(self.selected)
        free(self.function_ids)
        free(self.function_prototypes)
        free(self.data_symbols)
        free(self.base_heads)
        free(self.open.v)
        free(self.closed.v)
        free(self.base_next)

    cdef int _check(self, int error) except -1:
        return self.graph._check(error)

    # Records

    cdef uint32_t _string(self, uint32_t name) noexcept nogil:
        """Offset of a name's string, NONE without memory."""
        cdef uint32_t wanted
        cdef void* moved
        cdef Names* names = &self.graph.names
        if name == 0:
            return 0
        if name >= self.string_names:
            wanted = max(names.count, name + 1) + 1024
            moved = realloc(self.string_of, <size_t>wanted * 4)
            if moved == NULL:
                return <uint32_t>NONE
            self.string_of = <uint32_t*>moved
            memset(self.string_of + self.string_names, 0, <size_t>(wanted - self.string_names) * 4)
            self.string_names = wanted
        if self.string_of[name] == 0:
            self.string_of[name] = <uint32_t>(self.first_string + self.strings.n) + 1
            if _append(&self.strings, names.at[name], names.length[name]):
                return <uint32_t>NONE
        return self.string_of[name] - 1

    def know_strings(self, const uint8_t[::1] strings, uint64_t at):
        """Names that stand in ``strings``, part of a base, which begins at string offset ``at``, are not written again."""
        cdef uint64_t start = 0, end = <uint64_t>strings.shape[0]
        cdef const uint8_t* data
        cdef const uint8_t* nul
        cdef uint32_t name, wanted = self.graph.names.count + 1024
        if self.string_of == NULL:
            self.string_of = <uint32_t*>calloc(wanted, 4)
            if self.string_of == NULL:
                raise MemoryError
            self.string_names = wanted
        if end == 0:
            return
        data = &strings[0]
        with nogil:
            while start < end:
                nul = <const uint8_t*>memchr(data + start, 0, end - start)
                if nul == NULL:
                    break
                name = names_find(&self.graph.names, data + start, <uint32_t>(nul - (data + start)))
                if name and name < self.string_names and self.string_of[name] == 0:
                    self.string_of[name] = <uint32_t>(at + start) + 1
                start = (nul - data) + 1

    cdef int _record(self, uint32_t name, uint32_t info, uint32_t third) noexcept nogil:
        """The three words that every record begins with."""
        cdef uint32_t offset = self._string(name)
        if offset == NONE or reserve(&self.types, 8):
            return ERR_MEMORY
        self.types.v[self.types.n] = offset
        self.types.v[self.types.n + 1] = info
        self.types.v[self.types.n + 2] = third
        self.types.n += 3
        return 0

    cdef uint32_t _id_of(self, uint32_t reference) noexcept nogil:
        cdef uint32_t cell
        if reference == 0:
            return 0
        cell = self.graph.target_of(reference)
        if self.graph.final != NULL and cell < self.graph.cell_count:
            cell = self.graph.final[cell]
        return self.ids[cell] if cell < self.id_count else 0

    cdef int _assign(self) noexcept nogil:
        """Give every cell that comes out its id."""
        cdef uint64_t i
        cdef uint32_t cell, node, head, name
        self.id_count = max(self.graph.cell_count, self.graph.store.count)
        self.ids = <uint32_t*>calloc(<size_t>self.id_count + 1, 4)
        if self.ids == NULL:
            return ERR_MEMORY
        for i in range(1, self.graph.base_end):
            cell = self.graph.base_cell_of[i] if self.graph.base_cell_of[i] else self.graph.base_node_of[i]
            if cell == 0:
                continue
            if self.graph.final != NULL:
                cell = self.graph.final[cell]
            if self.ids[cell] == 0:
                self.ids[cell] = <uint32_t>i
        for i in range(self.graph.order.n):
            cell = self.graph.order.v[i]
            if self.ids[cell]:
                continue
            node = self.graph.node_of(cell)
            head = self.graph.store.words[self.graph.store.start[node]]
            if head & 63 == B_FWD:
                name = self.graph.store.words[self.graph.store.start[node] + 1]
                if self.graph.definitions[2 * <uint64_t>name + (head & HEAD_FLAG != 0)]:
                    continue
            self.ids[cell] = self.next_id
            self.next_id += 1
        return 0

    cdef int _write(self, uint32_t cell) noexcept nogil:
        """The record of one cell."""
        cdef uint32_t node = self.graph.node_of(cell)
        cdef const uint32_t* w = self.graph.store.words + self.graph.store.start[node]
        cdef const uint32_t* refs = self.graph.references_of(cell)
        cdef uint32_t head = w[0], kind = head & 63, vlen = head >> HEAD_VLEN, i, offset, third
        cdef uint32_t info = kind << 24 | vlen | (<uint32_t>CLASSIC_FLAG if head & HEAD_FLAG else 0)
        cdef uint32_t* out
        third = w[2]
        if kind == B_ARRAY or kind == B_FWD:
            third = 0
        elif kind == B_FUNC_PROTO or reference_count(head) == 1 and kind != B_STRUCT and kind != B_UNION:
            third = self._id_of(refs[0] if refs != NULL else w[2])
        if self._record(w[1], info, third):
            return ERR_MEMORY
        if reserve(&self.types, 3 * <uint64_t>vlen + 4):
            return ERR_MEMORY
        if kind == B_INT or kind == B_DECL_TAG:
            push(&self.types, w[3])
        elif kind == B_ARRAY:
            push(&self.types, self._id_of(refs[0] if refs != NULL else w[2]))
            push(&self.types, self.index_id)
            push(&self.types, w[3])
        elif kind == B_STRUCT or kind == B_UNION:
            for i in range(vlen):
                offset = self._string(w[3 + 3 * i])
                if offset == NONE:
                    return ERR_MEMORY
                push(&self.types, offset)
                push(&self.types, self._id_of(refs[i] if refs != NULL else w[4 + 3 * i]))
                push(&self.types, w[5 + 3 * i])
        elif kind == B_ENUM or kind == B_ENUM64:
            for i in range(vlen):
                offset = self._string(w[3 + 3 * i])
                if offset == NONE:
                    return ERR_MEMORY
                push(&self.types, offset)
                push(&self.types, w[4 + 3 * i])
                if kind == B_ENUM64:
                    push(&self.types, w[5 + 3 * i])
        elif kind == B_FUNC_PROTO:
            for i in range(vlen):
                offset = self._string(w[3 + 2 * i])
                if offset == NONE:
                    return ERR_MEMORY
                push(&self.types, offset)
                push(&self.types, self._id_of(refs[i + 1] if refs != NULL else w[4 + 2 * i]))
        return 0

    cdef int _write_all(self) noexcept nogil:
        cdef uint64_t i
        cdef uint32_t cell, known = self.first_id
        for i in range(self.graph.order.n):
            cell = self.graph.order.v[i]
            if self.ids[cell] == known:
                if self._write(cell):
                    return ERR_MEMORY
                known += 1
        return 0

    def write_types(self):
        """Write every type of the graph, in order; then ``next_id`` is free."""
        cdef int error
        cdef uint64_t i
        cdef bint arrays = False
        with nogil:
            error = self._assign()
        self._check(error)
        # every array is indexed by the same "int" (DW_AT_type of a subrange is not what BTF asks for)
        self.index_id = self.ids[self.graph.index_node]
        if self.index_id == 0:
            for i in range(self.graph.order.n):
                if self.graph.store.words[self.graph.store.start[self.graph.node_of(self.graph.order.v[i])]] & 63 == B_ARRAY:
                    arrays = True
                    break
            if arrays:
                self.index_id = self.next_id
                self.next_id += 1
        with nogil:
            error = self._write_all()
        self._check(error)
        if arrays:
            with nogil:
                error = self._write(self.graph.index_node)
            self._check(error)

    def know_base(self):
        """Give the base's types their ids and write nothing; the rest comes as it is needed (``close``)."""
        cdef int error
        cdef uint64_t written = self.graph.order.n
        self.graph.order.n = 0
        with nogil:
            error = self._assign()
        self.graph.order.n = written
        self._check(error)

    cdef int close(self, uint32_t cell) noexcept nogil:
        """Give ids to a cell and to all that it leads to and the base lacks; ``write_closed`` writes them."""
        cdef uint32_t i, target, head, node
        cdef uint64_t bottom = self.open.n
        if cell == 0 or self.ids[cell]:
            return 0
        if push(&self.open, cell):
            return ERR_MEMORY
        while self.open.n > bottom:
            self.open.n -= 1
            cell = self.open.v[self.open.n]
            if self.ids[cell]:
                continue
            self.ids[cell] = self.next_id
            self.next_id += 1
            if push(&self.closed, cell):
                return ERR_MEMORY
            node = self.graph.node_of(cell)
            head = self.graph.store.words[self.graph.store.start[node]]
            for i in range(reference_count(head)):
                target = self._target(cell, i)
                if target and self.ids[target] == 0 and push(&self.open, target):
                    return ERR_MEMORY
            if head & 63 == B_ARRAY and self.ids[self.graph.index_node] == 0 and push(&self.open, self.graph.index_node):
                return ERR_MEMORY
        return 0

    cdef int write_closed(self) noexcept nogil:
        cdef uint64_t i
        self.index_id = self.ids[self.graph.index_node]
        for i in range(self.closed.n):
            if self._write(self.closed.v[i]):
                return ERR_MEMORY
        self.closed.n = 0
        return 0

    # Functions

    cdef int _names_of_functions(self, Collector c, uint32_t number) noexcept nogil:
        cdef uint64_t i
        cdef uint32_t* list_ = <uint32_t*>calloc(c.kept_function_count + 1, 4)
        cdef uint32_t* tags = <uint32_t*>calloc(c.kept_tag_count + 1, 4)
        cdef uint32_t* heads
        self.tag_names[number] = tags
        if tags == NULL:
            free(list_)
            return ERR_MEMORY
        for i in range(c.kept_tag_count):
            tags[i] = self.graph.name_of(c, c.kept_tags[i].name)
            if tags[i] == NONE:
                free(list_)
                return ERR_NAME
        if c.kept_tag_count:
            # those of one function or variable stand together
            heads = <uint32_t*>calloc(c.kept_function_count + c.kept_variable_count + 1, 4)
            self.tag_heads[number] = heads
            if heads == NULL:
                free(list_)
                return ERR_MEMORY
            for i in range(c.kept_tag_count, 0, -1):
                if c.kept_tags[i - 1].function:
                    heads[c.kept_tags[i - 1].function - 1] = <uint32_t>i
                else:
                    heads[c.kept_function_count + c.kept_tags[i - 1].variable - 1] = <uint32_t>i
        if list_ == NULL:
            return ERR_MEMORY
        self.function_names[number] = list_
        for i in range(c.kept_function_count):
            list_[i] = self.graph.name_of(c, c.kept_functions[i].name)
            if list_[i] == NONE:
                return ERR_NAME
        return 0

    cdef int _names_of_variables(self, Collector c, uint32_t number) noexcept nogil:
        """Names of all variables, and of the structs that they are, as names of the graph."""
        cdef uint64_t i
        cdef uint32_t* names = <uint32_t*>calloc(c.kept_variable_count + 1, 4)
        cdef uint32_t* tags = <uint32_t*>calloc(c.kept_variable_count + 1, 4)
        self.variable_names[number] = names
        self.variable_tags[number] = tags
        if names == NULL or tags == NULL:
            return ERR_MEMORY
        for i in range(c.kept_variable_count):
            names[i] = self.graph.name_of(c, c.kept_variables[i].name)
            if c.kept_variables[i].node & <uint32_t>TAG:
                tags[i] = self.graph.name_of(c, c.kept_variables[i].node & TAG_NAME)
            if names[i] == NONE or tags[i] == NONE:
                return ERR_NAME
        return 0

    cdef uint32_t prototype_of(self, UnitPlace* place, uint64_t k) noexcept nogil:
        """Cell of the prototype of function ``k`` of a collector, in the view of its unit."""
        cdef Private* own
        cdef uint32_t cell, node
        cdef Held* held = &self.graph.held[place.collector]
        if place.private:
            own = &self.graph.privates[place.private - 1]
            cell = 0
            if k - held.slices[place.slice].first_function < own.function_count:
                cell = own.prototypes[k - held.slices[place.slice].first_function]
            if cell:
                return self.graph.final[cell]
        node = self.graph.maps[place.collector][held.functions[k].prototype]
        if self.graph.final != NULL:
            return self.graph.final[node]
        return node

    cdef void _note_symbol(self, uint32_t name, uint64_t address, uint8_t how) noexcept nogil:
        if self.symbols[name] == 0:
            self.symbol_addresses[name] = address
        elif self.symbol_addresses[name] != address:
            self.symbols[name] |= AMBIGUOUS
        self.symbols[name] |= how

    cdef int _read_symbols(self, const uint8_t* table, uint64_t size, const uint8_t* strings, uint64_t string_size,
                           bint wide, bint swap) noexcept nogil:
        """Note which names have a function symbol, and where the data symbols are."""
        cdef Cursor c = make_cursor(table, 0, size, swap)
        cdef uint32_t name, number, section
        cdef uint8_t info, other
        cdef uint64_t value
        cdef const uint8_t* nul
        cdef const uint8_t* dot
        cdef uint64_t length
        while c.end - c.pos >= (24 if wide else 16):
            name = read_u32(&c)
            if wide:
                info = read_u8(&c)
                other = read_u8(&c)
                section = read_u16(&c)
                value = read_u64(&c)
                read_u64(&c)
            else:
                value = read_u32(&c)
                read_u32(&c)
                info = read_u8(&c)
                other = read_u8(&c)
                section = read_u16(&c)
            if section == 0 or name >= string_size or (info & 15 != 2 and info & 15 != 1 and info & 15 != 10):
                continue
            nul = <const uint8_t*>memchr(strings + name, 0, min(string_size - name, 4096ULL))
            if nul == NULL:
                continue
            if section < self.section_count:
                value += self.section_bases[section]
            length = nul - (strings + name)
            number = names_find(&self.graph.names, strings + name, <uint32_t>length)
            dot = <const uint8_t*>memchr(strings + name, c'.', length)
            if info & 15 == 1:
                if number == 0 and dot != NULL:
                    number = names_find(&self.graph.names, strings + name, <uint32_t>(dot - (strings + name)))
                if number == 0:
                    continue
                if self.data_symbol_count >= self.data_symbol_capacity:
                    if grow_array(<void**>&self.data_symbols, &self.data_symbol_capacity, self.data_symbol_count + 1,
                                  sizeof(Symbol)):
                        return ERR_MEMORY
                self.data_symbols[self.data_symbol_count].address = value
                self.data_symbols[self.data_symbol_count].name = number
                self.data_symbols[self.data_symbol_count].section = section
                self.data_symbol_count += 1
                continue
            if number and number < self.symbol_names:
                self._note_symbol(number, value, HAS_SYMBOL)
            if dot != NULL and not _is_part(dot, length - (dot - (strings + name))):
                number = names_find(&self.graph.names, strings + name, <uint32_t>(dot - (strings + name)))
                if number and number < self.symbol_names:
                    self._note_symbol(number, value, HAS_SUFFIXED)
        return 0

    cdef uint32_t _target(self, uint32_t cell, uint32_t number) noexcept nogil:
        """The cell that reference ``number`` of a cell leads to."""
        cdef const uint32_t* refs = self.graph.references_of(cell)
        cdef const uint32_t* w
        cdef uint32_t target
        if refs != NULL:
            target = self.graph.target_of(refs[number])
        else:
            w = self.graph.store.words + self.graph.store.start[cell]
            target = self.graph.target_of(w[reference_at(w[0], number)])
        if self.graph.final != NULL and target < self.graph.cell_count:
            target = self.graph.final[target]
        return target

    cdef bint _match(self, uint32_t one, uint32_t other, int depth) noexcept nogil:
        """Two types are the same for a caller: names of structs and typedefs decide, const does not matter."""
        cdef const uint32_t* a
        cdef const uint32_t* b
        cdef uint32_t ka, kb, i
        while True:
            if one == other:
                return True
            if one == 0 or other == 0 or depth > 8:
                return False
            a = self.graph.store.words + self.graph.store.start[self.graph.node_of(one)]
            b = self.graph.store.words + self.graph.store.start[self.graph.node_of(other)]
            ka = a[0] & 63
            kb = b[0] & 63
            if ka == B_FWD:
                ka = B_UNION if a[0] & HEAD_FLAG else B_STRUCT
            if kb == B_FWD:
                kb = B_UNION if b[0] & HEAD_FLAG else B_STRUCT
            if ka != kb:
                if ka == B_CONST:
                    one = self._target(one, 0)
                    continue
                if kb == B_CONST:
                    other = self._target(other, 0)
                    continue
                return False
            if ka == B_INT:
                return a[1] == b[1] and a[2] == b[2] and a[3] == b[3]
            if ka == B_FLOAT:
                return a[1] == b[1] and a[2] == b[2]
            if ka == B_STRUCT or ka == B_UNION or ka == B_ENUM or ka == B_ENUM64 or ka == B_TYPEDEF:
                return a[1] == b[1]
            if ka == B_FUNC_PROTO:
                if a[0] != b[0]:
                    return False
                for i in range(reference_count(a[0])):
                    if not self._match(self._target(one, i), self._target(other, i), depth + 1):
                        return False
                return True
            if ka == B_ARRAY and a[3] != b[3]:
                return False
            one = self._target(one, 0)
            other = self._target(other, 0)

    cdef int _candidate(self, uint64_t place_number, uint64_t k) noexcept nogil:
        """Take a function as that of its name, or hold it against the one that is."""
        cdef UnitPlace* place = &self.graph.places[place_number]
        cdef uint32_t name = self.function_names[place.collector][k]
        cdef uint32_t cell = self.prototype_of(place, k)
        cdef uint32_t flags = self.graph.held[place.collector].functions[k].flags
        cdef Selected* s
        if self.function_prototypes[name]:
            s = &self.selected[self.function_ids[name]]
            if flags & F_ASSEMBLER:
                return 0
            s.linkage |= flags & (F_REORDERED | F_UNEXPECTED)
            if s.prototype != cell and not self._match(s.prototype, cell, 0):
                s.linkage |= F_INCONSISTENT
            return 0
        if self.selected_count >= self.selected_capacity:
            if grow_array(<void**>&self.selected, &self.selected_capacity, self.selected_count + 1, sizeof(Selected)):
                return ERR_MEMORY
        s = &self.selected[self.selected_count]
        s.name = name
        s.prototype = cell
        s.collector = place.collector
        s.index = <uint32_t>k
        s.place = <uint32_t>place_number
        s.linkage = flags & (F_REORDERED | F_UNEXPECTED)
        # until the FUNCs are written, the place among the selected
        self.function_ids[name] = <uint32_t>self.selected_count
        self.function_prototypes[name] = cell + 1
        self.selected_count += 1
        return 0

    cdef int _select(self, bint optimized, bint consistent) noexcept nogil:
        """Choose the functions that may get a FUNC, one for each name, and note what speaks against them.

        First those with code. A name that has a symbol and no code is a function that was folded into an equal one.
        Last come functions of assembler units, which say nothing of parameters.
        """
        cdef uint64_t i, k, last, with_code = 0
        cdef UnitPlace* place
        cdef Held* held
        cdef KeptFunction* f
        cdef uint32_t name
        cdef int turn, belongs
        for turn in range(3):
            if turn == 1:
                with_code = self.selected_count
            for i in range(self.graph.place_count):
                place = &self.graph.places[i]
                held = &self.graph.held[place.collector]
                last = held.slices[place.slice].first_function + held.slices[place.slice].function_count
                for k in range(held.slices[place.slice].first_function, last):
                    f = &held.functions[k]
                    belongs = 2 if f.flags & F_ASSEMBLER else 0 if f.flags & F_CODE else 1
                    if f.flags & F_NAMELESS or belongs != turn:
                        continue
                    name = self.function_names[place.collector][k]
                    if self.symbols != NULL:
                        if not self.symbols[name] & HAS_SYMBOL:
                            if turn == 1 or not (optimized and self.symbols[name] & HAS_SUFFIXED):
                                continue
                    elif turn == 1 or not f.flags & F_EXTERNAL:
                        continue
                    if turn == 1 and self.function_prototypes[name] and self.function_ids[name] < with_code:
                        continue
                    if self._candidate(i, k):
                        return ERR_MEMORY
        return 0

    cdef int _decl_tag(self, uint32_t name, uint32_t target, uint32_t component) noexcept nogil:
        if self._record(name, B_DECL_TAG << 24, target) or push(&self.types, component):
            return ERR_MEMORY
        self.next_id += 1
        return 0

    cdef int _function_tags(self, Selected* s) noexcept nogil:
        """The DECL_TAGs of a function and its parameters."""
        cdef Held* held = &self.graph.held[s.collector]
        cdef uint64_t i
        if held.tag_count == 0 or self.tag_heads[s.collector][s.index] == 0:
            return 0
        for i in range(self.tag_heads[s.collector][s.index] - 1, held.tag_count):
            if held.tags[i].function != s.index + 1:
                break
            if self._decl_tag(self.tag_names[s.collector][i], self.function_ids[s.name],
                              <uint32_t>held.tags[i].component):
                return ERR_MEMORY
        return 0

    cdef int _write_function(self, Selected* s) noexcept nogil:
        cdef uint32_t prototype, known = self._base_function(s.name, s.prototype)
        if known:
            self.function_ids[s.name] = known
            return 0
        prototype = self._prototype_id(s.prototype)
        if prototype == 0 or self._record(s.name, B_FUNC << 24, prototype):
            return ERR_MEMORY
        self.function_ids[s.name] = self.next_id
        self.next_id += 1
        return self._function_tags(s)

    cdef int _chain_base_functions(self) noexcept nogil:
        """Chain the functions of the base by name."""
        cdef uint64_t i, count = self.graph.base_functions.n // 3
        cdef uint32_t name
        if count == 0:
            return 0
        self.base_heads = <uint32_t*>calloc(self.graph.names.count, 4)
        self.base_next = <uint32_t*>calloc(count + 1, 4)
        if self.base_heads == NULL or self.base_next == NULL:
            return ERR_MEMORY
        for i in range(count):
            name = self.graph.base_functions.v[3 * i]
            self.base_next[i] = self.base_heads[name]
            self.base_heads[name] = <uint32_t>i + 1
        return 0

    cdef uint32_t _base_function(self, uint32_t name, uint32_t cell) noexcept nogil:
        """Id of the base's FUNC of this name and prototype, 0 if it has none."""
        cdef uint32_t i, other, found = 0
        if self.base_heads == NULL or self.ids[cell] == 0 or self.ids[cell] >= self.graph.base_end:
            return 0
        i = self.base_heads[name]
        while i:
            other = self.graph.base_functions.v[3 * (i - 1) + 1]
            if other < self.graph.base_end:
                other = self.graph.base_cell_of[other] if self.graph.base_cell_of[other] else self.graph.base_node_of[other]
                if other and self.graph.final != NULL:
                    other = self.graph.final[other]
                if other and self.ids[other] == self.ids[cell]:
                    found = self.graph.base_functions.v[3 * (i - 1) + 2]
            i = self.base_next[i - 1]
        return found

    cdef uint32_t _prototype_id(self, uint32_t cell) noexcept nogil:
        """Id of a prototype, written if it has none yet; 0 without memory."""
        if self.ids[cell] == 0:
            if self._write(cell):
                return 0
            self.ids[cell] = self.next_id
            self.next_id += 1
        return self.ids[cell]

    def know_functions(self):
        """Learn the names of all functions without writing any: for ``inline_functions`` alone."""
        cdef int error = 0
        cdef uint32_t number
        cdef Collector c
        self.function_names = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        self.tag_names = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        self.tag_heads = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        if self.function_names == NULL or self.tag_names == NULL or self.tag_heads == NULL:
            raise MemoryError
        for number, c in enumerate(self.graph.collectors):
            with nogil:
                error = self._names_of_functions(c, number)
            self._check(error)
        self.name_limit = self.graph.names.count
        self.function_ids = <uint32_t*>calloc(self.graph.names.count, 4)
        self.function_prototypes = <uint32_t*>calloc(self.graph.names.count, 4)
        if self.function_ids == NULL or self.function_prototypes == NULL or self._chain_base_functions():
            raise MemoryError
        self.onto_base = True

    def write_functions(self, const uint8_t[::1] symbols, const uint8_t[::1] strings, const uint64_t[::1] bases,
                        bint wide, bint swap, bint optimized, bint consistent):
        """Write a FUNC for every function that gets one (see ``types.py``); return how many were left out, by reason."""
        cdef int error = 0
        cdef uint64_t i
        cdef uint32_t number
        cdef Collector c
        cdef Selected* s
        cdef uint64_t inconsistent = 0, ambiguous = 0, reordered = 0, unexpected = 0, invalid = 0
        self.function_names = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        self.tag_names = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        self.tag_heads = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        if self.function_names == NULL or self.tag_names == NULL or self.tag_heads == NULL:
            raise MemoryError
        self.variable_names = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        self.variable_tags = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        if self.variable_names == NULL or self.variable_tags == NULL:
            raise MemoryError
        for number, c in enumerate(self.graph.collectors):
            # all of them are names of the graph before the symbols are looked at
            with nogil:
                error = self._names_of_functions(c, number)
                if not error:
                    error = self._names_of_variables(c, number)
            self._check(error)
        self.name_limit = self.graph.names.count
        self.function_ids = <uint32_t*>calloc(self.graph.names.count, 4)
        self.function_prototypes = <uint32_t*>calloc(self.graph.names.count, 4)
        if self.function_ids == NULL or self.function_prototypes == NULL:
            raise MemoryError
        if symbols.shape[0]:
            self.symbols = <uint8_t*>calloc(self.graph.names.count, 1)
            self.symbol_addresses = <uint64_t*>calloc(self.graph.names.count, 8)
            self.symbol_names = self.graph.names.count
            if self.symbols == NULL or self.symbol_addresses == NULL:
                raise MemoryError
            self.section_bases = &bases[0] if bases.shape[0] else NULL
            self.section_count = bases.shape[0]
            with nogil:
                error = self._read_symbols(&symbols[0], symbols.shape[0], &strings[0] if strings.shape[0] else NULL,
                                           strings.shape[0], wide, swap)
            self._check(error)
        if self._chain_base_functions():
            raise MemoryError
        with nogil:
            error = self._select(optimized, consistent)
            if not error:
                for i in range(self.selected_count):
                    s = &self.selected[i]
                    self.function_ids[s.name] = 0
                    if not _is_identifier(self.graph.names.at[s.name], self.graph.names.length[s.name]):
                        invalid += 1
                    elif consistent and s.linkage & F_INCONSISTENT:
                        inconsistent += 1
                    elif consistent and self.symbols != NULL and self.symbols[s.name] & AMBIGUOUS:
                        ambiguous += 1
                    elif consistent and s.linkage & F_REORDERED:
                        reordered += 1
                    elif consistent and s.linkage & F_UNEXPECTED:
                        unexpected += 1
                    else:
                        error = self._write_function(s)
                        if error:
                            break
        self._check(error)
        counts = {"inconsistent prototypes": inconsistent, "several addresses": ambiguous,
                  "parameters reordered": reordered, "parameters not where a caller puts them": unexpected,
                  "name that BTF cannot have": invalid}
        return {reason: count for reason, count in counts.items() if count}

    def tag_functions(self, dict tags):
        """Write DECL_TAGs for functions: ``tags`` has by name the texts of its tags, both bytes that stay alive."""
        cdef const uint8_t* text
        cdef uint32_t name, tag
        self.kept_alive = tags
        missing = []
        for function, texts in tags.items():
            name = names_find(&self.graph.names, <const uint8_t*><char*>function, <uint32_t>len(function))
            if name == 0 or name >= self.name_limit or self.function_ids[name] == 0:
                missing.append(function)
                continue
            for value in texts:
                tag = names_intern(&self.graph.names, <const uint8_t*><char*>value, <uint32_t>len(value))
                if tag == NONE or self._decl_tag(tag, self.function_ids[name], 0xffffffffU):
                    raise MemoryError
        return missing

    # Variables

    cdef bint _has_data_symbol(self, uint64_t address, uint32_t name) noexcept nogil:
        """The symbol table has a variable of this name at this address; the symbols are sorted by address."""
        cdef uint64_t low = 0, high = self.data_symbol_count, middle
        while low < high:
            middle = (low + high) >> 1
            if self.data_symbols[middle].address < address:
                low = middle + 1
            else:
                high = middle
        while low < self.data_symbol_count and self.data_symbols[low].address == address:
            if self.data_symbols[low].name == name:
                return True
            low += 1
        return False

    cdef int _variables(self, const uint64_t* sections, uint64_t count) noexcept nogil:
        """Choose the variables in ``sections``: rows of address and size."""
        cdef uint64_t i, k, n, last
        cdef UnitPlace* place
        cdef Held* held
        cdef KeptVariable* v
        cdef Chosen* chosen
        cdef Private* own
        cdef uint32_t name, type_
        for i in range(self.graph.place_count):
            place = &self.graph.places[i]
            held = &self.graph.held[place.collector]
            last = held.slices[place.slice].first_variable + held.slices[place.slice].variable_count
            for k in range(held.slices[place.slice].first_variable, last):
                v = &held.variables[k]
                if v.node == 0 or v.size == 0 or v.size > 0xffffffffU:
                    continue
                for n in range(count):
                    if v.address >= sections[2 * n] and v.address - sections[2 * n] < sections[2 * n + 1]:
                        break
                else:
                    continue
                name = self.variable_names[place.collector][k]
                if self.symbols != NULL and not self._has_data_symbol(v.address, name):
                    continue
                if _is_noise(self.graph.names.at[name], self.graph.names.length[name]):
                    continue
                if not _is_identifier(self.graph.names.at[name], self.graph.names.length[name]):
                    continue
                type_ = v.node
                if type_ & <uint32_t>TAG:
                    type_ = (type_ & (<uint32_t>TAG | <uint32_t>TAG_UNION)) | self.variable_tags[place.collector][k]
                else:
                    type_ = self.graph.maps[place.collector][type_]
                if place.private:
                    own = &self.graph.privates[place.private - 1]
                    if k - held.slices[place.slice].first_variable < own.variable_count:
                        if own.types[k - held.slices[place.slice].first_variable]:
                            type_ = own.types[k - held.slices[place.slice].first_variable]
                if self.chosen_count >= self.chosen_capacity:
                    if grow_array(<void**>&self.chosen, &self.chosen_capacity, self.chosen_count + 1, sizeof(Chosen)):
                        return ERR_MEMORY
                chosen = &self.chosen[self.chosen_count]
                chosen.address = v.address
                chosen.size = v.size
                chosen.order = self.chosen_count
                chosen.name = name
                chosen.type = type_
                chosen.linkage = 1 if v.flags & F_EXTERNAL else 0
                chosen.section = <uint32_t>n
                chosen.collector = place.collector
                chosen.index = <uint32_t>k
                self.chosen_count += 1
        return 0

    def write_variables(self, list sections):
        """Write VARs and a DATASEC for each of ``sections``: (name as bytes that stay alive, address, size)."""
        cdef uint64_t i, k, written, end
        cdef uint32_t name
        cdef Chosen* chosen
        cdef int error = 0
        cdef Held* held
        rows = array("Q")
        for _, address, size in sections:
            rows.append(address)
            rows.append(size)
        if not rows:
            return
        cdef const uint64_t[::1] table = rows
        qsort(self.data_symbols, self.data_symbol_count, sizeof(Symbol), _by_address)
        with nogil:
            error = self._variables(&table[0], table.shape[0] // 2)
            if not error and self.chosen_count:
                qsort(self.chosen, self.chosen_count, sizeof(Chosen), _by_section)
                # a variable that several entries define is one
                written = 0
                for i in range(self.chosen_count):
                    if written and self.chosen[written - 1].section == self.chosen[i].section \
                            and self.chosen[i].address < self.chosen[written - 1].address + self.chosen[written - 1].size:
                        continue
                    self.chosen[written] = self.chosen[i]
                    written += 1
                self.chosen_count = written
                for i in range(self.chosen_count):
                    chosen = &self.chosen[i]
                    if self._record(chosen.name, B_VAR << 24, self._id_of(chosen.type)) or push(&self.types, chosen.linkage):
                        error = ERR_MEMORY
                        break
                    chosen.id = self.next_id
                    self.next_id += 1
                    held = &self.graph.held[chosen.collector]
                    k = self.tag_heads[chosen.collector][held.function_count + chosen.index] if held.tag_count else 0
                    while k and k <= held.tag_count and held.tags[k - 1].variable == chosen.index + 1:
                        error = self._decl_tag(self.tag_names[chosen.collector][k - 1], chosen.id,
                                               <uint32_t>held.tags[k - 1].component)
                        k = 0 if error else k + 1
        self._check(error)
        i = 0
        while i < self.chosen_count:
            text, address, size = sections[self.chosen[i].section]
            self.section_names.append(text)
            name = names_intern(&self.graph.names, <const uint8_t*><char*>text, <uint32_t>len(text))
            k = i
            while k < self.chosen_count and self.chosen[k].section == self.chosen[i].section:
                k += 1
            end = self.chosen[k - 1].address - <uint64_t>address + self.chosen[k - 1].size
            if k - i > MAX_VLEN:
                raise FormatError("more variables in one section than BTF can list", section=text.decode(errors="replace"))
            if name == NONE or self._record(name, B_DATASEC << 24 | <uint32_t>(k - i), <uint32_t>end):
                raise MemoryError
            while i < k:
                if (push(&self.types, self.chosen[i].id)
                        or push(&self.types, <uint32_t>(self.chosen[i].address - <uint64_t>address))
                        or push(&self.types, <uint32_t>self.chosen[i].size)):
                    raise MemoryError
                i += 1
            self.next_id += 1

    # The inline object

    cdef KeptFunction* _kept(self, uint64_t key, UnitPlace** where, uint64_t* index) noexcept nogil:
        """The function whose entry is ``key``, NULL if it was not kept."""
        cdef uint64_t low = 0, high = self.graph.place_count, middle
        cdef Held* held
        cdef UnitPlace* place
        while low < high:
            middle = (low + high) >> 1
            if self.graph.places[middle].first_key <= key:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return NULL
        place = &self.graph.places[low - 1]
        held = &self.graph.held[place.collector]
        low = held.slices[place.slice].first_function
        high = low + held.slices[place.slice].function_count
        while low < high:
            middle = (low + high) >> 1
            if held.functions[middle].key < key:
                low = middle + 1
            else:
                high = middle
        if low >= held.slices[place.slice].first_function + held.slices[place.slice].function_count:
            return NULL
        if held.functions[low].key != key:
            return NULL
        where[0] = place
        index[0] = low
        return &held.functions[low]

    cdef int _inline(self, const uint64_t* origins, uint64_t count, uint32_t* out, uint32_t* map_keys,
                     uint32_t* map_values, uint64_t mask) noexcept nogil:
        cdef uint64_t i, k, h
        cdef uint32_t name, cell, prototype
        cdef UnitPlace* place = NULL
        cdef KeptFunction* f
        for i in range(count):
            out[i] = 0
            k = 0
            f = self._kept(origins[i], &place, &k)
            if f == NULL:
                continue
            name = self.function_names[place.collector][k]
            cell = self.prototype_of(place, k)
            if self.function_prototypes[name] == cell + 1 and self.function_ids[name]:
                out[i] = self.function_ids[name]
                continue
            h = ((<uint64_t>name << 32 | cell) * 0x9e3779b97f4a7c15ULL >> 24) & mask
            while map_values[h] and (map_keys[2 * h] != name or map_keys[2 * h + 1] != cell):
                h = (h + 1) & mask
            if map_values[h] == 0:
                map_values[h] = self._base_function(name, cell)
                map_keys[2 * h] = name
                map_keys[2 * h + 1] = cell
            if map_values[h] == 0:
                prototype = self._prototype_id(cell)
                if prototype == 0 or self._record(name, B_FUNC << 24, prototype):
                    return ERR_MEMORY
                map_values[h] = self.next_id
                self.next_id += 1
            out[i] = map_values[h]
        return 0

    def inline_functions(self, const uint64_t[::1] origins):
        """FUNC ids for the entries ``origins``; what the base lacks is written behind it.

        Call ``take`` before, so that what is written is the inline object's.
        """
        cdef uint64_t mask = 1, i, k = 0
        cdef UnitPlace* place = NULL
        cdef uint32_t* keys
        cdef uint32_t* values
        cdef int error = 0
        result = array("I", bytes(4 * origins.shape[0]))
        cdef uint32_t[::1] out = result
        if origins.shape[0] == 0:
            return result
        while mask < 2 * <uint64_t>origins.shape[0]:
            mask *= 2
        keys = <uint32_t*>calloc(2 * mask, 4)
        values = <uint32_t*>calloc(mask, 4)
        if keys == NULL or values == NULL:
            free(keys)
            free(values)
            raise MemoryError
        with nogil:
            error = 0
            if self.onto_base:
                for i in range(origins.shape[0]):
                    if self._kept(origins[i], &place, &k) != NULL:
                        error = self.close(self.prototype_of(place, k))
                        if error:
                            break
                if not error:
                    error = self.write_closed()
            if not error:
                error = self._inline(&origins[0], origins.shape[0], &out[0], keys, values, mask - 1)
        free(keys)
        free(values)
        self._check(error)
        return result

    def take(self):
        """The type section and string section written since the last call, as (types, strings); then both are empty."""
        cdef uint64_t i
        cdef uint32_t* words
        types = bytearray(4 * self.types.n)
        strings = bytearray(self.strings.n)
        if self.types.n:
            words = <uint32_t*>PyByteArray_AS_STRING(types)
            if self.swap:
                for i in range(self.types.n):
                    words[i] = inlinetrace_swap32(self.types.v[i])
            else:
                memcpy(words, self.types.v, 4 * self.types.n)
        if self.strings.n:
            memcpy(PyByteArray_AS_STRING(strings), self.strings.v, self.strings.n)
        self.first_string += self.strings.n
        self.strings.n = 0
        self.types.n = 0
        self.first_id = self.next_id
        return types, strings

    @property
    def string_offset(self):
        """Offset that the next string gets."""
        return self.first_string + self.strings.n
