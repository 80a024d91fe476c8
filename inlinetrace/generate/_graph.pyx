# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""The nodes of all threads brought together: names by content, declared enums to their definition, first come first.

Whatever thread read a unit, the result is in the order of units, so it does not depend on the number of threads.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._units cimport Info
from inlinetrace.generate._collect cimport NAME_NUMBER, NAME_PACKED, Collector
from inlinetrace.generate._store cimport (
    B_ARRAY, B_CONST, B_DECL_TAG, B_ENUM, B_ENUM64, B_FUNC, B_FUNC_PROTO, B_FWD, B_INT, B_PTR, B_RESTRICT, B_STRUCT,
    B_TYPEDEF, B_TYPE_TAG, B_UNION, B_VAR, B_VOLATILE, HEAD_FLAG, HEAD_VLEN, TAG, TAG_NAME, TAG_UNION, names_free,
    names_init, names_intern, push, record_words, reserve, store_free, store_init, store_lookup,
)

from inlinetrace.errors import FormatError

cdef enum:
    NONE = 0xffffffffU
    ERR_MEMORY = -1
    ERR_NAME = 1


cdef uint32_t reference_count(uint32_t head) noexcept nogil:
    """How many references a record with this head has."""
    cdef uint32_t kind = head & 63
    if kind == B_STRUCT or kind == B_UNION:
        return head >> HEAD_VLEN
    if kind == B_FUNC_PROTO:
        return 1 + (head >> HEAD_VLEN)
    if (kind == B_PTR or kind == B_CONST or kind == B_VOLATILE or kind == B_RESTRICT or kind == B_TYPEDEF
            or kind == B_TYPE_TAG or kind == B_ARRAY or kind == B_DECL_TAG or kind == B_FUNC or kind == B_VAR):
        return 1
    return 0


cdef uint32_t reference_at(uint32_t head, uint32_t number) noexcept nogil:
    """Which word of the record is reference ``number``."""
    cdef uint32_t kind = head & 63
    if kind == B_STRUCT or kind == B_UNION:
        return 4 + 3 * number
    if kind == B_FUNC_PROTO:
        return 2 + 2 * number
    return 2


cdef void hold(Held* held, Collector c) noexcept:
    held.nodes = c.nodes.v
    held.functions = c.kept_functions
    held.function_count = c.kept_function_count
    held.variables = c.kept_variables
    held.variable_count = c.kept_variable_count
    held.tags = c.kept_tags
    held.tag_count = c.kept_tag_count
    held.slices = c.slices


cdef class Graph:
    """The types that ``collectors`` have read. ``prepare`` ends with an order; ``_emit.pyx`` writes it."""

    def __cinit__(self):
        self.collectors = []
        self.memo_mask = (1 << 12) - 1
        self.memo_keys = <uint32_t*>calloc(self.memo_mask + 1, 4)
        self.memo_values = <uint32_t*>calloc(self.memo_mask + 1, 4)
        if store_init(&self.store) or names_init(&self.names) or self.memo_keys == NULL or self.memo_values == NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Block* block = self.blocks
        cdef Block* following
        cdef uint32_t i
        while block != NULL:
            following = block.next
            free(block)
            block = following
        self._forget_maps()
        free(self.maps)
        for i in range(self.private_count):
            free(self.privates[i].list.v)
            free(self.privates[i].prototypes)
            free(self.privates[i].types)
        free(self.privates)
        free(self.held)
        free(self.base_node_of)
        free(self.base_cell_of)
        free(self.base_first)
        free(self.base_refs.v)
        free(self.base_ids)
        free(self.base_functions.v)
        free(self.places)
        free(self.enums)
        free(self.definitions)
        free(self.forwards)
        free(self.ambiguous)
        free(self.memo_keys)
        free(self.memo_values)
        free(self.order.v)
        free(self.scratch.v)
        free(self.canon)
        free(self.final)
        free(self.cell_node.v)
        free(self.cell_first.v)
        free(self.cell_refs.v)
        store_free(&self.store)
        names_free(&self.names)

    # Names

    cdef uint32_t stored_text(self, const uint8_t* text, uint32_t length) noexcept nogil:
        """Number of a name whose bytes do not stay where they are."""
        cdef Block* block
        if length > sizeof(self.blocks.data):
            return NONE
        if self.blocks == NULL or self.blocks.used + length > sizeof(self.blocks.data):
            block = <Block*>malloc(sizeof(Block))
            if block == NULL:
                return NONE
            block.next = self.blocks
            block.used = 0
            self.blocks = block
        memcpy(self.blocks.data + self.blocks.used, text, length)
        self.blocks.used += length
        return names_intern(&self.names, self.blocks.data + self.blocks.used - length, length)

    cdef uint32_t name_of(self, Collector c, uint32_t word) noexcept nogil:
        """The number here of a collector's name word; NONE if its bytes cannot be had."""
        cdef uint64_t k, i, mask
        cdef uint32_t number, length
        cdef uint8_t buffer[4]
        cdef const uint8_t* text
        cdef uint32_t* keys
        cdef uint32_t* values
        if word == 0:
            return 0
        if word >= NAME_NUMBER:
            return names_intern(&self.names, c.names.at[word - NAME_NUMBER], c.names.length[word - NAME_NUMBER])
        k = (word * 0x9e3779b97f4a7c15ULL >> 32) & self.memo_mask
        while self.memo_keys[k]:
            if self.memo_keys[k] == word:
                return self.memo_values[k]
            k = (k + 1) & self.memo_mask
        text = c.text_of(word, &length, buffer)
        if text == NULL:
            self.bad_name = word - 1
            return NONE
        number = self.stored_text(text, length) if word >= NAME_PACKED else names_intern(&self.names, text, length)
        if number == NONE:
            return NONE
        self.memo_keys[k] = word
        self.memo_values[k] = number
        self.memo_count += 1
        if 2 * self.memo_count > self.memo_mask:
            mask = 2 * self.memo_mask + 1
            keys = <uint32_t*>calloc(mask + 1, 4)
            values = <uint32_t*>calloc(mask + 1, 4)
            if keys == NULL or values == NULL:
                free(keys)
                free(values)
                return NONE
            for i in range(self.memo_mask + 1):
                if self.memo_keys[i]:
                    k = (self.memo_keys[i] * 0x9e3779b97f4a7c15ULL >> 32) & mask
                    while keys[k]:
                        k = (k + 1) & mask
                    keys[k] = self.memo_keys[i]
                    values[k] = self.memo_values[i]
            free(self.memo_keys)
            free(self.memo_values)
            self.memo_keys = keys
            self.memo_values = values
            self.memo_mask = mask
        return number

    # Nodes

    cdef int _translate_names(self, Collector c, uint32_t* w) noexcept nogil:
        """Rewrite the names of the record ``w`` in place."""
        cdef uint32_t kind = w[0] & 63, vlen = w[0] >> HEAD_VLEN, i, step = 0
        w[1] = self.name_of(c, w[1])
        if w[1] == NONE:
            return ERR_NAME
        if kind == B_STRUCT or kind == B_UNION or kind == B_ENUM or kind == B_ENUM64:
            step = 3
        elif kind == B_FUNC_PROTO:
            step = 2
        if step:
            for i in range(vlen):
                w[3 + step * i] = self.name_of(c, w[3 + step * i])
                if w[3 + step * i] == NONE:
                    return ERR_NAME
        return 0

    cdef int _copy(self, Collector c, uint32_t node, uint32_t* n) noexcept nogil:
        """Bring the record of a collector's node into scratch, with names of the graph."""
        cdef uint32_t* w = c.store.words + c.store.start[node]
        n[0] = record_words(w[0])
        if reserve(&self.scratch, n[0]):
            return ERR_MEMORY
        memcpy(self.scratch.v, w, <size_t>n[0] * 4)
        return self._translate_names(c, self.scratch.v)

    cdef int _learn_enums(self, Collector c) noexcept nogil:
        """Note which enums have one definition, so that declarations can become it."""
        cdef uint32_t node, n = 0, made
        cdef uint32_t* w
        cdef int error
        for node in range(1, c.store.count):
            w = c.store.words + c.store.start[node]
            if (w[0] & 63 != B_ENUM and w[0] & 63 != B_ENUM64) or w[0] >> HEAD_VLEN == 0 or w[1] == 0:
                continue
            error = self._copy(c, node, &n)
            if error:
                return error
            made = store_lookup(&self.store, self.scratch.v, n)
            if made == 0 or self.learn_enum(self.scratch.v[1], made):
                return ERR_MEMORY
        return 0

    cdef int learn_enum(self, uint32_t name, uint32_t node) noexcept nogil:
        """Note that ``node`` is a definition of the enum ``name``."""
        cdef uint64_t known = self.enum_names
        if name >= known:
            if grow(<void**>&self.enums, &self.enum_names, 2 * <uint64_t>name + 1024, 4):
                return ERR_MEMORY
            memset(self.enums + known, 0, (self.enum_names - known) * 4)
        if self.enums[name] == 0:
            self.enums[name] = node
            self.enum_changes += 1
        elif self.enums[name] != node and self.enums[name] != <uint32_t>NONE:
            self.enums[name] = <uint32_t>NONE
            self.enum_changes += 1
        return 0

    cdef uint32_t* nodes_of(self, Collector c) except NULL:
        """Make the nodes of a collector nodes of the graph; the result says which, and is the caller's to free."""
        cdef uint32_t* m = <uint32_t*>calloc(c.store.count, 4)
        cdef int error = ERR_MEMORY
        if m != NULL:
            with nogil:
                error = self.translate(c, m)
            if error:
                free(m)
        self._check(error)
        return m

    cdef int translate(self, Collector c, uint32_t* m) noexcept nogil:
        cdef uint32_t node, n = 0, made, i, at, head, name
        cdef uint32_t* w
        cdef int error
        for node in range(1, c.store.count):
            error = self._copy(c, node, &n)
            if error:
                return error
            w = self.scratch.v
            head = w[0]
            if head == B_ENUM and w[1] and w[1] < self.enum_names:
                made = self.enums[w[1]]
                if made and made != NONE:
                    m[node] = made
                    continue
            for i in range(reference_count(head)):
                at = reference_at(head, i)
                if w[at] & <uint32_t>TAG:
                    name = self.name_of(c, w[at] & TAG_NAME)
                    if name == NONE:
                        return ERR_NAME
                    w[at] = (w[at] & (<uint32_t>TAG | <uint32_t>TAG_UNION)) | name
                else:
                    w[at] = m[w[at]]
            made = store_lookup(&self.store, w, n)
            if made == 0:
                return ERR_MEMORY
            m[node] = made
        return 0

    cdef int _room_for_tags(self) noexcept nogil:
        cdef size_t wanted = 2 * <size_t>self.names.count + 2
        free(self.definitions)
        free(self.forwards)
        free(self.ambiguous)
        self.definitions = <uint32_t*>calloc(wanted, 4)
        self.forwards = <uint32_t*>calloc(wanted, 4)
        self.ambiguous = <uint8_t*>calloc(wanted, 1)
        if self.definitions == NULL or self.forwards == NULL or self.ambiguous == NULL:
            return ERR_MEMORY
        self.tag_names = self.names.count
        return 0

    cdef int make_order(self) noexcept nogil:
        """Walk the units in order: which nodes come out when, and what each tag means."""
        cdef uint8_t* seen = <uint8_t*>calloc(<size_t>self.store.count + 1, 1)
        cdef uint64_t i
        cdef int result = 0
        if seen == NULL or self._room_for_tags():
            free(seen)
            return ERR_MEMORY
        self.order.n = 0
        self._order_base(seen)
        for i in range(self.place_count):
            result = self._order_unit(&self.places[i], seen)
            if result:
                break
        free(seen)
        return result

    cdef int _see(self, uint32_t node, bint in_base) noexcept nogil:
        """Note what a node that is seen for the first time says of its tag."""
        cdef uint32_t head = self.store.words[self.store.start[node]]
        cdef uint32_t name = self.store.words[self.store.start[node] + 1]
        cdef uint64_t tag
        if name == 0:
            return 0
        if head & 63 == B_STRUCT or head & 63 == B_UNION:
            tag = 2 * <uint64_t>name + (head & 63 == B_UNION)
            if self.definitions[tag] == 0:
                self.definitions[tag] = node
                if not in_base and self.forwards[tag] and self.forwards[tag] < self.base_nodes \
                        and self.base_ids[self.forwards[tag]]:
                    self.ambiguous[tag] = SOFT
            elif self.definitions[tag] != node:
                self.ambiguous[tag] |= HARD
        elif head & 63 == B_FWD:
            tag = 2 * <uint64_t>name + (head & HEAD_FLAG != 0)
            if self.forwards[tag] == 0:
                self.forwards[tag] = node
        return 0

    cdef int _order_base(self, uint8_t* seen) noexcept nogil:
        cdef uint32_t id_, node
        for id_ in range(1, self.base_end):
            node = self.base_node_of[id_]
            if node and not seen[node]:
                seen[node] = 1
                self._see(node, True)
        return 0

    cdef int _order_unit(self, UnitPlace* place, uint8_t* seen) noexcept nogil:
        cdef uint32_t* m = self.maps[place.collector]
        cdef uint32_t* nodes = NULL
        cdef uint64_t count = 0, k
        cdef uint32_t node
        self._slice(place, &nodes, &count)
        for k in range(count):
            node = m[nodes[k]]
            if seen[node]:
                continue
            seen[node] = 1
            if push(&self.order, node):
                return ERR_MEMORY
            self._see(node, False)
        return 0

    cdef int _slice(self, UnitPlace* place, uint32_t** nodes, uint64_t* count) noexcept nogil:
        """The nodes of a unit, as numbers of its collector."""
        nodes[0] = self.held[place.collector].nodes + place.first_node
        count[0] = place.node_count
        return 0

    cdef uint32_t target_of(self, uint32_t reference) noexcept nogil:
        """The cell that a word of a node refers to: a node's own reference has no unit."""
        cdef uint32_t node
        cdef uint64_t tag
        if reference & <uint32_t>TAG:
            tag = 2 * <uint64_t>(reference & TAG_NAME) + (reference & <uint32_t>TAG_UNION != 0)
            node = self.definitions[tag]
            if node == 0 or self.ambiguous[tag] & SOFT:
                return self.forwards[tag]
        else:
            node = reference
        if self.canon == NULL or node >= self.nodes_at_freeze:
            return node
        return self.canon[node]

    cdef uint32_t node_of(self, uint32_t cell) noexcept nogil:
        """The node whose content a cell has."""
        if cell < self.nodes_at_freeze or self.cell_node.n == 0:
            return cell
        return self.cell_node.v[cell - self.nodes_at_freeze]

    cdef const uint32_t* references_of(self, uint32_t cell) noexcept nogil:
        """The references of a private cell, as cells or words of nodes; NULL for those that are their node."""
        if cell < self.nodes_at_freeze or self.cell_node.n == 0:
            return NULL
        return self.cell_refs.v + self.cell_first.v[cell - self.nodes_at_freeze]

    def prepare(self, list collectors):
        """Bring the types of all ``collectors`` together and find their order. Raises FormatError for bad names."""
        cdef Collector c
        cdef uint32_t number
        cdef uint64_t total = 0, i
        cdef int error = 0
        cdef uint32_t words[4]
        cdef uint32_t name
        cdef UnitPlace* place
        self._merge(collectors)
        self.held = <Held*>calloc(len(collectors) + 1, sizeof(Held))
        if self.held == NULL:
            raise MemoryError
        for number, c in enumerate(self.collectors):
            hold(&self.held[number], c)
        for c in collectors:
            total += c.slice_count
        self.places = <UnitPlace*>calloc(total + 1, sizeof(UnitPlace))
        if self.places == NULL:
            raise MemoryError
        order = []
        for number, c in enumerate(collectors):
            for i in range(c.slice_count):
                order.append((<uint64_t>c.slices[i].info << 32 | c.slices[i].unit, number, i))
        order.sort()
        for key, number, i in order:
            c = collectors[number]
            place = &self.places[self.place_count]
            place.order = key
            if not c.joint:
                place.first_key = (<uint64_t>c.slices[i].info << 44) + (<Info>c.infos[c.slices[i].info]).headers[c.slices[i].unit].offset
            place.collector = number
            place.slice = <uint32_t>i
            place.first_node = c.slices[i].first_node
            place.node_count = c.slices[i].node_count
            self.place_count += 1
        name = names_intern(&self.names, b"int", 3)
        words[0] = B_INT
        words[1] = name
        words[2] = 4
        words[3] = 1 << 24 | 32
        self.index_node = store_lookup(&self.store, words, 4)
        if name == NONE or self.index_node == 0:
            raise MemoryError
        with nogil:
            error = self.make_order()
        self._check(error)
        self.nodes_at_freeze = self.store.count

    cdef int _merge(self, list collectors) except -1:
        """Make the nodes of all collectors nodes here: ``maps``. Those of the first ones may be there already."""
        cdef Collector c
        cdef int error
        cdef uint64_t known = self.enum_changes
        cdef uint32_t** moved
        if self.collectors != collectors[:len(self.collectors)]:
            self._forget_maps()
        self.collectors = list(collectors)
        moved = <uint32_t**>realloc(self.maps, (len(collectors) + 1) * sizeof(void*))
        if moved == NULL:
            raise MemoryError
        self.maps = moved
        for c in self.collectors[self.map_count:]:
            with nogil:
                error = self._learn_enums(c)
            self._check(error)
        if self.enum_changes != known:
            # what declares an enum is its definition now, or no longer
            self._forget_maps()
        for c in self.collectors[self.map_count:]:
            self.maps[self.map_count] = self.nodes_of(c)
            self.map_count += 1
        return 0

    cdef void _forget_maps(self) noexcept:
        while self.map_count:
            self.map_count -= 1
            free(self.maps[self.map_count])

    cdef int _check(self, int error) except -1:
        if error == ERR_MEMORY:
            raise MemoryError
        if error:
            info = (<Collector>self.collectors[0]).main
            raise FormatError("a name lies outside of its section or is impossibly long", path=info.path,
                              section=".debug_str", offset=self.bad_name)
        return 0

    def units_to_read(self, list collectors):
        """Units, as (Info, unit), with a struct or union of which the base has not exactly one definition.

        For units of which only functions were read: what a name means has to be clear from the base. If the
        collectors given to ``prepare`` begin with these, their nodes are not made again.
        """
        cdef Collector c
        cdef uint32_t* m
        cdef uint32_t* single
        cdef uint32_t id_, node, head, name, number
        cdef uint64_t i, k, tag, limit = 0
        found = set()
        self._merge(collectors)
        limit = 2 * <uint64_t>self.names.count + 2
        single = <uint32_t*>calloc(limit, 4)
        if single == NULL:
            raise MemoryError
        try:
            for id_ in range(1, self.base_end):
                node = self.base_node_of[id_]
                if node == 0:
                    continue
                head = self.store.words[self.store.start[node]]
                name = self.store.words[self.store.start[node] + 1]
                if name and (head & 63 == B_STRUCT or head & 63 == B_UNION):
                    single[2 * <uint64_t>name + (head & 63 == B_UNION)] += 1
            for number, c in enumerate(collectors):
                m = self.maps[number]
                for i in range(c.slice_count):
                    for k in range(c.slices[i].first_node, c.slices[i].first_node + c.slices[i].node_count):
                        node = m[c.nodes.v[k]]
                        head = self.store.words[self.store.start[node]]
                        if head & 63 != B_FWD:
                            continue
                        name = self.store.words[self.store.start[node] + 1]
                        tag = 2 * <uint64_t>name + (head & HEAD_FLAG != 0)
                        if tag >= limit or single[tag] != 1:
                            found.add((c.slices[i].info, c.slices[i].unit))
                            break
        finally:
            free(single)
        return found

    @property
    def node_count(self):
        """Number of different nodes, void included."""
        return self.store.count
