# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From the ordered graph to the bytes of BTF: ids, strings, records.

Words are in this machine's byte order until the end; the type section is nothing but 32-bit words. Which functions and
variables come out, and as what, is in ``_functions`` and ``_variables``.
"""
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, qsort
from libc.string cimport memcpy, memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport inlinetrace_swap32
from inlinetrace.generate._collect cimport F_REORDERED, F_UNEXPECTED, Collector
from inlinetrace.generate._functions cimport (
    chain_base_functions, is_identifier, kept_function, names_of_functions, prototype_of, read_symbols,
    select_functions, write_function, write_inlined,
)
from inlinetrace.generate._graph cimport Graph, Held, Selected, UnitPlace, reference_at, reference_count
from inlinetrace.generate._store cimport (
    B_ARRAY, B_DATASEC, B_DECL_TAG, B_ENUM, B_ENUM64, B_FUNC_PROTO, B_FWD, B_INT, B_STRUCT, B_UNION, B_VAR,
    HEAD_FLAG, HEAD_VLEN, Names, names_find, names_intern, push, reserve,
)
from inlinetrace.generate._variables cimport by_address, by_section, choose_variables, names_of_variables

from array import array

from inlinetrace.errors import FormatError

cdef enum:
    MAX_VLEN = 0xffff
    CLASSIC_FLAG = 0x80000000U


cdef int _append(Bytes* b, const uint8_t* text, uint64_t length) noexcept nogil:
    if grow(<void**>&b.v, &b.capacity, b.n + length + 1, 1):
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
        cdef uint64_t known = self.string_names
        cdef Names* names = &self.graph.names
        if name == 0:
            return 0
        if name >= self.string_names:
            if grow(<void**>&self.string_of, &self.string_names, max(names.count, name) + <uint64_t>1024, 4):
                return <uint32_t>NONE
            memset(self.string_of + known, 0, (self.string_names - known) * 4)
        if self.string_of[name] == 0:
            self.string_of[name] = <uint32_t>(self.first_string + self.strings.n) + 1
            if _append(&self.strings, names.at[name], names.length[name]):
                return <uint32_t>NONE
        return self.string_of[name] - 1

    def know_names(self, const uint32_t[::1] offsets):
        """Names that the base has are not written again: by number 1 + the offset of the string, 0 for none."""
        cdef uint64_t count = <uint64_t>offsets.shape[0]
        self.string_names = <uint32_t>max(self.graph.names.count + 1024, count)
        self.string_of = <uint32_t*>calloc(self.string_names, 4)
        if self.string_of == NULL:
            raise MemoryError
        if count:
            memcpy(self.string_of, &offsets[0], count * 4)

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

    # Functions

    cdef int _decl_tag(self, uint32_t name, uint32_t target, uint32_t component) noexcept nogil:
        if self._record(name, B_DECL_TAG << 24, target) or push(&self.types, component):
            return ERR_MEMORY
        self.next_id += 1
        return 0

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
                error = names_of_functions(self, c, number)
            self._check(error)
        self.name_limit = self.graph.names.count
        self.function_ids = <uint32_t*>calloc(self.graph.names.count, 4)
        self.function_prototypes = <uint32_t*>calloc(self.graph.names.count, 4)
        if self.function_ids == NULL or self.function_prototypes == NULL or chain_base_functions(self):
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
                error = names_of_functions(self, c, number)
                if not error:
                    error = names_of_variables(self, c, number)
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
                error = read_symbols(self, &symbols[0], symbols.shape[0], &strings[0] if strings.shape[0] else NULL,
                                           strings.shape[0], wide, swap)
            self._check(error)
        if chain_base_functions(self):
            raise MemoryError
        with nogil:
            error = select_functions(self, optimized, consistent)
            if not error:
                for i in range(self.selected_count):
                    s = &self.selected[i]
                    self.function_ids[s.name] = 0
                    if not is_identifier(self.graph.names.at[s.name], self.graph.names.length[s.name]):
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
                        error = write_function(self, s)
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
        qsort(self.data_symbols, self.data_symbol_count, sizeof(Symbol), by_address)
        with nogil:
            error = choose_variables(self, &table[0], table.shape[0] // 2)
            if not error and self.chosen_count:
                qsort(self.chosen, self.chosen_count, sizeof(Chosen), by_section)
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
                    if error:
                        break
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
                    if kept_function(self, origins[i], &place, &k) != NULL:
                        error = self.close(prototype_of(self, place, k))
                        if error:
                            break
                if not error:
                    error = self.write_closed()
            if not error:
                error = write_inlined(self, &origins[0], origins.shape[0], &out[0], keys, values, mask - 1)
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
