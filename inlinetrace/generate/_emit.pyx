# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From the ordered graph to the bytes of BTF: ids, strings, functions, variables.

Words are in this machine's byte order until the end; the type section is nothing but 32-bit words.
"""
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort, realloc
from libc.string cimport memchr, memcpy, memset

from inlinetrace.dwarf._cursor cimport Cursor, inlinetrace_swap32, make_cursor, read_u8, read_u16, read_u32, read_u64
from inlinetrace.generate._collect cimport (
    F_ABSTRACT, F_CODE, F_EXTERNAL, F_NAMELESS, Collector, KeptFunction, KeptTag, KeptVariable, UnitSlice,
)
from inlinetrace.generate._graph cimport Graph, Held, Private, Selected, UnitPlace, reference_at, reference_count
from inlinetrace.generate._store cimport (
    B_ARRAY, B_DATASEC, B_DECL_TAG, B_ENUM, B_ENUM64, B_FUNC, B_FUNC_PROTO, B_FWD, B_INT, B_STRUCT, B_UNION, B_VAR,
    HEAD_FLAG, HEAD_VLEN, TAG, TAG_NAME, TAG_UNION, Names, grow_array, names_find, names_intern, push, reserve,
    store_find,
)

from array import array

from inlinetrace.errors import FormatError

cdef enum:
    NONE = 0xffffffffU
    ERR_MEMORY = -1
    ERR_NAME = 1
    HAS_SYMBOL = 1
    HAS_SUFFIXED = 2     # foo.isra.0, foo.constprop.0
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


cdef class Emitter:
    """Writes what ``graph`` has. ``swap``: the target has the other byte order than this machine."""

    def __cinit__(self, Graph graph, *, bint swap=False, uint32_t first_id=1, uint64_t first_string=0):
        self.graph = graph
        self.swap = swap
        self.first_id = self.next_id = first_id
        self.first_string = first_string
        self.counts = {}
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
        free(self.function_names)
        free(self.selected)
        free(self.function_ids)
        free(self.function_prototypes)
        free(self.data_symbols)

    cdef int _check(self, int error) except -1:
        if error == ERR_MEMORY:
            raise MemoryError
        if error:
            info = (<Collector>self.graph.collectors[0]).main
            raise FormatError("a name lies outside of its section or is impossibly long", path=info.path,
                              section=".debug_str")
        return 0

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
        cdef uint32_t words[4]
        self.id_count = max(self.graph.cell_count, self.graph.store.count)
        self.ids = <uint32_t*>calloc(<size_t>self.id_count + 1, 4)
        if self.ids == NULL:
            return ERR_MEMORY
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
        cdef uint32_t words[4]
        cdef uint32_t node, name
        cdef uint64_t i
        cdef bint arrays = False
        with nogil:
            error = self._assign()
        self._check(error)
        # every array is indexed by the same "int" (DW_AT_type of a subrange is not what BTF asks for)
        name = names_find(&self.graph.names, b"int", 3)
        words[0] = B_INT
        words[1] = name
        words[2] = 4
        words[3] = 1 << 24 | 32
        node = store_find(&self.graph.store, words, 4) if name else 0
        self.index_id = self.ids[node] if node and node < self.id_count else 0
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
            name = names_intern(&self.graph.names, b"int", 3)
            if name == NONE or self._record(name, B_INT << 24, 4) or push(&self.types, words[3]):
                raise MemoryError

    # Functions

    cdef int _names_of_functions(self, Collector c, uint32_t number) noexcept nogil:
        cdef uint64_t i
        cdef uint32_t* list_ = <uint32_t*>calloc(c.kept_function_count + 1, 4)
        if list_ == NULL:
            return ERR_MEMORY
        self.function_names[number] = list_
        for i in range(c.kept_function_count):
            list_[i] = self.graph.name_of(c, c.kept_functions[i].name)
            if list_[i] == NONE:
                return ERR_NAME
        return 0

    cdef uint32_t prototype_of(self, UnitPlace* place, uint64_t k) noexcept nogil:
        """Cell of the prototype of function ``k`` of a collector, in the view of its unit."""
        cdef Private* own
        cdef uint32_t cell, node
        cdef Held* held = &self.graph.held[place.collector]
        if place.private:
            own = &self.graph.privates[place.private - 1]
            cell = own.prototypes[k - held.slices[place.slice].first_function]
            if cell:
                return self.graph.final[cell]
        node = self.graph.maps[place.collector][held.functions[k].prototype]
        if self.graph.final != NULL:
            return self.graph.final[node]
        return node

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
                self.symbols[number] |= HAS_SYMBOL
            if dot != NULL:
                number = names_find(&self.graph.names, strings + name, <uint32_t>(dot - (strings + name)))
                if number and number < self.symbol_names:
                    self.symbols[number] |= HAS_SUFFIXED
        return 0

    cdef int _select(self, bint optimized) noexcept nogil:
        """Choose the functions that get a FUNC: with code, all parameters named, and a symbol of the name."""
        cdef uint64_t i, k, last
        cdef UnitPlace* place
        cdef Held* held
        cdef KeptFunction* f
        cdef uint32_t name
        cdef Selected* s
        for i in range(self.graph.place_count):
            place = &self.graph.places[i]
            held = &self.graph.held[place.collector]
            last = held.slices[place.slice].first_function + held.slices[place.slice].function_count
            for k in range(held.slices[place.slice].first_function, last):
                f = &held.functions[k]
                if f.flags & F_NAMELESS or not f.flags & F_CODE:
                    continue
                name = self.function_names[place.collector][k]
                if self.symbols != NULL:
                    if not self.symbols[name] & HAS_SYMBOL and not (optimized and self.symbols[name] & HAS_SUFFIXED):
                        continue
                elif not f.flags & F_EXTERNAL:
                    continue
                if self.function_prototypes[name]:
                    continue
                if self.selected_count >= self.selected_capacity:
                    if grow_array(<void**>&self.selected, &self.selected_capacity, self.selected_count + 1,
                                  sizeof(Selected)):
                        return ERR_MEMORY
                s = &self.selected[self.selected_count]
                self.selected_count += 1
                s.name = name
                s.prototype = self.prototype_of(place, k)
                s.collector = place.collector
                s.index = <uint32_t>k
                s.place = <uint32_t>i
                self.function_prototypes[name] = s.prototype + 1
        return 0

    cdef uint32_t _prototype_id(self, uint32_t cell) noexcept nogil:
        """Id of a prototype, written if it has none yet; 0 without memory."""
        if self.ids[cell] == 0:
            if self._write(cell):
                return 0
            self.ids[cell] = self.next_id
            self.next_id += 1
        return self.ids[cell]

    def write_functions(self, const uint8_t[::1] symbols, const uint8_t[::1] strings, bint wide, bint swap,
                        bint optimized):
        """Write a FUNC for every function that pahole would give one; see ``types.py`` for the rules."""
        cdef int error
        cdef uint64_t i
        cdef uint32_t number, prototype
        cdef Collector c
        cdef Selected* s
        self.function_names = <uint32_t**>calloc(self.graph.map_count + 1, sizeof(void*))
        if self.function_names == NULL:
            raise MemoryError
        for number, c in enumerate(self.graph.collectors):
            with nogil:
                error = self._names_of_functions(c, number)
            self._check(error)
        self.function_names_count = self.graph.names.count
        self.function_ids = <uint32_t*>calloc(self.graph.names.count, 4)
        self.function_prototypes = <uint32_t*>calloc(self.graph.names.count, 4)
        if self.function_ids == NULL or self.function_prototypes == NULL:
            raise MemoryError
        if symbols.shape[0]:
            self.symbols = <uint8_t*>calloc(self.graph.names.count, 1)
            self.symbol_names = self.graph.names.count
            if self.symbols == NULL:
                raise MemoryError
            with nogil:
                error = self._read_symbols(&symbols[0], symbols.shape[0], &strings[0] if strings.shape[0] else NULL,
                                           strings.shape[0], wide, swap)
            self._check(error)
        with nogil:
            error = self._select(optimized)
            if not error:
                for i in range(self.selected_count):
                    s = &self.selected[i]
                    prototype = self._prototype_id(s.prototype)
                    if prototype == 0 or self._record(s.name, B_FUNC << 24, prototype):
                        error = ERR_MEMORY
                        break
                    self.function_ids[s.name] = self.next_id
                    self.next_id += 1
        self._check(error)

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
                prototype = self._prototype_id(cell)
                if prototype == 0 or self._record(name, B_FUNC << 24, prototype):
                    return ERR_MEMORY
                map_keys[2 * h] = name
                map_keys[2 * h + 1] = cell
                map_values[h] = self.next_id
                self.next_id += 1
            out[i] = map_values[h]
        return 0

    def inline_functions(self, const uint64_t[::1] origins):
        """FUNC ids for the entries ``origins``; what the base lacks is written behind it.

        Call ``take`` before, so that what is written is the inline object's.
        """
        cdef uint64_t mask = 1
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
