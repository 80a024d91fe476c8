# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Where one name has several definitions: units that see one of them get cells of their own for what leads to it.

Nodes are cut at the names of structs and unions, so a node says the same in all units only if those names mean the same.
A unit with a definition of such a tag is read once more, as a graph of its entries. Every entry from which that
definition can be reached becomes a *private cell*; then equal cells are found by partition refinement, which is exact:
two cells stay together if no path of references tells them apart.

A unit that only declares such a tag means the first definition, as pahole does. An entry that no unit has private means
what the first unit that defines it says.

Against a base there is a softer case: the base only declares a tag, and a unit defines it. Then structs that the base
has remain the base's, whose pointers lead to the declaration, but pointers and prototypes of the unit are new.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from inlinetrace.generate._collect cimport (
    F_DECLARATION, F_VARIADIC, OWN_INDEX, OWN_RECORD, OWN_SHIFT, R_PASS, R_UNDEFINED, R_VOID, Annotation, Collector,
    Function, KeptFunction, Record,
)
from inlinetrace.generate._graph cimport HARD, PRIVATE, SOFT, Graph, Private, reference_at, reference_count
from inlinetrace.generate._resolve cimport parameter_of
from inlinetrace.generate._store cimport (
    B_DECL_TAG, B_ENUM, B_FUNC_PROTO, B_FWD, B_INT, B_STRUCT, B_TYPEDEF, B_UNION, HEAD_FLAG, TAG, TAG_UNION, Store,
    Words, push, reserve, store_free, store_init, store_lookup,
)

cdef enum:
    ERR_MEMORY = -1
    MAX_PASSES = 64


cdef void _free_local(Local* l) noexcept nogil:
    free(l.node)
    free(l.first)
    free(l.target.v)
    free(l.word.v)
    free(l.reach)
    free(l.cell)
    memset(l, 0, sizeof(Local))


cdef int _make_local(Local* l, uint32_t count) noexcept nogil:
    memset(l, 0, sizeof(Local))
    l.count = count
    l.node = <uint32_t*>calloc(<size_t>count + 1, 4)
    l.first = <uint64_t*>calloc(<size_t>count + 2, 8)
    l.reach = <uint8_t*>calloc(<size_t>count + 1, 1)
    l.cell = <uint32_t*>calloc(<size_t>count + 1, 4)
    if l.node == NULL or l.first == NULL or l.reach == NULL or l.cell == NULL:
        return ERR_MEMORY
    return 0


cdef int64_t _tag_of(Graph g, uint32_t node) noexcept nogil:
    """The tag that a node defines or declares, -1 if it does neither."""
    cdef uint32_t head = g.store.words[g.store.start[node]]
    cdef uint32_t name = g.store.words[g.store.start[node] + 1]
    if node == 0 or name == 0 or name >= g.tag_names:
        return -1
    if head & 63 == B_STRUCT or head & 63 == B_UNION:
        return 2 * <int64_t>name + (head & 63 == B_UNION)
    if head & 63 == B_FWD:
        return 2 * <int64_t>name + (head & HEAD_FLAG != 0)
    return -1


cdef int64_t _entry(Graph g, Collector c, Local* l, const uint32_t* defined, uint32_t reference) noexcept nogil:
    """Index of the entry that a reference means in this unit, -1 for void: what is passed through, and definitions."""
    cdef int64_t index, tag
    cdef int steps
    for steps in range(MAX_PASSES):
        index = c.record_of(reference) if reference else -1
        if index < 0 or c.records[index].kind == R_VOID:
            return -1
        if c.records[index].kind != R_PASS:
            break
        reference = c.records[index].reference
    if c.records[index].flags & F_DECLARATION:
        tag = _tag_of(g, l.node[index])
        if tag >= 0 and defined[tag]:
            return defined[tag] - 1
    return index


cdef int _refer(Graph g, Collector c, Local* l, const uint32_t* m, const uint32_t* defined, uint32_t reference) noexcept nogil:
    """Add a reference of the entry that is being made."""
    cdef int64_t index = _entry(g, c, l, defined, reference)
    if push(&l.target, <uint32_t>(index + 1)):
        return ERR_MEMORY
    return push(&l.word, 0 if index < 0 else _word_of(g, l.node[index]))


cdef uint32_t _word_of(Graph g, uint32_t node) noexcept nogil:
    """How other nodes refer to this one: named structs and unions by name."""
    cdef int64_t tag = _tag_of(g, node)
    if tag < 0:
        return node
    if g.ambiguous[tag] & SOFT:
        # by name it would be the base's declaration
        return g.definitions[tag]
    return <uint32_t>TAG | (<uint32_t>TAG_UNION if tag & 1 else 0) | <uint32_t>(tag >> 1)


cdef int _fill(Graph g, Collector c, const uint32_t* m, const uint32_t* defined, Local* l) noexcept nogil:
    """The references of every entry of a collector's unit."""
    cdef uint32_t r, k, at
    cdef Record* record
    for r in range(l.count):
        record = &c.records[r]
        l.first[r] = l.target.n
        if l.node[r] == 0:
            continue
        if record.kind == B_STRUCT or record.kind == B_UNION or record.kind == B_FUNC_PROTO:
            if record.flags & F_DECLARATION:
                continue
            if record.kind == B_FUNC_PROTO and _refer(g, c, l, m, defined, record.reference):
                return ERR_MEMORY
            at = record.first
            for k in range(record.count):
                if _refer(g, c, l, m, defined, c.items[at - 1].reference):
                    return ERR_MEMORY
                at = c.items[at - 1].next
            if record.flags & F_VARIADIC and _refer(g, c, l, m, defined, 0):
                return ERR_MEMORY
        elif record.kind != B_INT and record.kind != B_ENUM:
            if _refer(g, c, l, m, defined, record.reference):
                return ERR_MEMORY
    l.first[l.count] = l.target.n
    return 0


cdef int _reach(Graph g, Local* l) noexcept nogil:
    """Spread the marks of the definitions to every entry that leads to them."""
    cdef uint64_t* start = <uint64_t*>calloc(<size_t>l.count + 2, 8)
    cdef uint32_t* back = <uint32_t*>malloc((l.target.n + 1) * 4)
    cdef Words queue
    cdef uint32_t r, t, kind
    cdef uint64_t k
    cdef uint8_t mark, wanted
    cdef int error = 0
    memset(&queue, 0, sizeof(queue))
    if start == NULL or back == NULL:
        free(start)
        free(back)
        return ERR_MEMORY
    for k in range(l.target.n):
        if l.target.v[k]:
            start[l.target.v[k]] += 1
    for r in range(l.count):
        start[r + 1] += start[r]
    # start[t] is now where those that refer to entry t begin; filling moves it to where they end
    for r in range(l.count):
        for k in range(l.first[r], l.first[r + 1]):
            if l.target.v[k]:
                t = l.target.v[k] - 1
                back[start[t]] = r
                start[t] += 1
    for r in range(l.count):
        if l.reach[r] and push(&queue, r):
            error = ERR_MEMORY
    while queue.n and not error:
        queue.n -= 1
        t = queue.v[queue.n]
        mark = l.reach[t]
        for k in range(start[t - 1] if t else 0, start[t]):
            r = back[k]
            wanted = mark
            if g.base_ids != NULL and l.node[r] < g.base_nodes and g.base_ids[l.node[r]]:
                kind = g.store.words[g.store.start[l.node[r]]] & 63
                if kind == B_STRUCT or kind == B_UNION:
                    wanted &= <uint8_t>~SOFT
            if wanted & ~l.reach[r]:
                l.reach[r] |= wanted
                if push(&queue, r):
                    error = ERR_MEMORY
                    break
    free(start)
    free(back)
    free(queue.v)
    return error


cdef uint32_t _new_cell(Graph g, uint32_t node) noexcept nogil:
    """A new private cell without references yet; 0 without memory."""
    if g.cell_node.n >= 0x3ffffff0 or g.cell_refs.n >= 0xfffffff0U:
        return 0
    if push(&g.cell_node, node) or push(&g.cell_first, <uint32_t>g.cell_refs.n):
        return 0
    return <uint32_t>PRIVATE + <uint32_t>g.cell_node.n - 1


cdef int _make_cells(Graph g, Local* l) noexcept nogil:
    """Private cells for all marked entries."""
    cdef uint32_t r
    cdef uint64_t k
    for r in range(l.count):
        if l.reach[r] and g.store.words[g.store.start[l.node[r]]] & 63 != B_FWD:
            l.cell[r] = _new_cell(g, l.node[r])
            if l.cell[r] == 0 or reserve(&g.cell_refs, l.first[r + 1] - l.first[r]):
                return ERR_MEMORY
            g.cell_refs.n += l.first[r + 1] - l.first[r]
    for r in range(l.count):
        if l.cell[r]:
            for k in range(l.first[r], l.first[r + 1]):
                g.cell_refs.v[g.cell_first.v[l.cell[r] - PRIVATE] + (k - l.first[r])] = _reference(l, l.target.v[k], l.word.v[k])
    return 0


cdef inline uint32_t _reference(Local* l, uint32_t target, uint32_t word) noexcept nogil:
    if target and l.cell[target - 1]:
        return l.cell[target - 1]
    return word


cdef int _extra_cells(Graph g, Collector c, const uint32_t* m, const uint32_t* defined, Local* l, Private* own) noexcept nogil:
    """Cells for what is no entry of its own: prototypes of functions, declaration tags; and types of variables."""
    cdef uint64_t i
    cdef uint32_t k, at, cell, node, word
    cdef uint32_t words[4]
    cdef int64_t index
    cdef KeptFunction* kept
    cdef Function* f
    cdef Annotation* a
    cdef Record* r
    cdef bint any_private
    for i in range(c.kept_function_count):
        kept = &c.kept_functions[i]
        f = &c.functions[kept.described]
        any_private = False
        index = _entry(g, c, l, defined, f.reference)
        any_private = index >= 0 and l.cell[index] != 0
        at = f.first
        for k in range(f.count):
            index = _entry(g, c, l, defined, parameter_of(c, &c.items[at - 1]).reference)
            if index >= 0 and l.cell[index]:
                any_private = True
            at = c.items[at - 1].next
        if not any_private:
            continue
        cell = _new_cell(g, m[kept.prototype])
        if cell == 0:
            return ERR_MEMORY
        own.prototypes[i] = cell
        if _push_entry(g, c, l, defined, f.reference):
            return ERR_MEMORY
        at = f.first
        for k in range(f.count):
            if _push_entry(g, c, l, defined, parameter_of(c, &c.items[at - 1]).reference):
                return ERR_MEMORY
            at = c.items[at - 1].next
        if kept.flags & F_VARIADIC and push(&g.cell_refs, 0):
            return ERR_MEMORY
    for i in range(c.kept_variable_count):
        index = _entry(g, c, l, defined, c.kept_variables[i].reference)
        if index >= 0:
            own.types[i] = l.cell[index]
    for i in range(c.annotation_count):
        a = &c.annotations[i]
        if a.owner >> OWN_SHIFT != OWN_RECORD:
            continue
        r = &c.records[a.owner & OWN_INDEX]
        if l.cell[a.owner & OWN_INDEX] == 0 or r.flags & F_DECLARATION:
            continue
        words[0] = B_DECL_TAG
        words[1] = g.name_of(c, a.value)
        words[2] = _word_of(g, l.node[a.owner & OWN_INDEX])
        words[3] = <uint32_t>a.component
        node = store_lookup(&g.store, words, 4)
        if node == 0:
            return ERR_MEMORY
        if not c.decl_tags or r.kind != B_STRUCT and r.kind != B_UNION and r.kind != B_TYPEDEF:
            continue
        cell = _new_cell(g, node)
        if cell == 0 or push(&g.cell_refs, l.cell[a.owner & OWN_INDEX]) or push(&own.list, cell):
            return ERR_MEMORY
    return 0


cdef int _push_entry(Graph g, Collector c, Local* l, const uint32_t* defined, uint32_t reference) noexcept nogil:
    cdef int64_t index = _entry(g, c, l, defined, reference)
    if index < 0:
        return push(&g.cell_refs, 0)
    return push(&g.cell_refs, l.cell[index] if l.cell[index] else _word_of(g, l.node[index]))


cdef int _separate_unit(Graph g, Collector c, const uint32_t* m, uint32_t* defined, Private* own) noexcept nogil:
    """Make the private cells of the unit that ``c`` has just read; ``m`` leads from its nodes to the graph's."""
    cdef Local l
    cdef uint32_t r, node
    cdef int64_t tag
    cdef uint64_t k
    cdef Record* record
    cdef uint8_t* listed = <uint8_t*>calloc(<size_t>c.store.count + 1, 1)
    cdef int error = _make_local(&l, <uint32_t>c.record_count)
    if listed == NULL:
        error = ERR_MEMORY
    if not error:
        for k in range(c.nodes.n):
            listed[c.nodes.v[k]] = 1
        for r in range(l.count):
            record = &c.records[r]
            if record.kind == R_PASS or record.kind == R_VOID or record.kind == R_UNDEFINED:
                continue
            l.node[r] = m[record.node]
            tag = _tag_of(g, l.node[r])
            if tag >= 0 and g.ambiguous[tag]:
                if not record.flags & F_DECLARATION:
                    l.reach[r] = g.ambiguous[tag]
                    if defined[tag] == 0:
                        defined[tag] = r + 1
                else:
                    # what the base only declares, some unit defines: this unit means that
                    l.reach[r] = g.ambiguous[tag] & SOFT
        error = _fill(g, c, m, defined, &l)
    if not error:
        error = _reach(g, &l)
    if not error:
        error = _make_cells(g, &l)
    if not error:
        own.prototypes = <uint32_t*>calloc(c.kept_function_count + 1, 4)
        own.types = <uint32_t*>calloc(c.kept_variable_count + 1, 4)
        if own.prototypes == NULL or own.types == NULL:
            error = ERR_MEMORY
    if not error:
        for r in range(l.count):
            if l.node[r] and listed[c.records[r].node]:
                if push(&own.list, l.cell[r] if l.cell[r] else l.node[r]):
                    error = ERR_MEMORY
                    break
        # declaration tags of what is not private
        for k in range(c.nodes.n):
            node = m[c.nodes.v[k]]
            if g.store.words[g.store.start[node]] == B_DECL_TAG and not error:
                if not _targets_private(g, c, &l, node) and push(&own.list, node):
                    error = ERR_MEMORY
    if not error:
        error = _extra_cells(g, c, m, defined, &l, own)
    for r in range(l.count):
        tag = _tag_of(g, l.node[r]) if l.node != NULL else -1
        if tag >= 0:
            defined[tag] = 0
    free(listed)
    _free_local(&l)
    return error


cdef bint _targets_private(Graph g, Collector c, Local* l, uint32_t tag_node) noexcept nogil:
    """Some private entry of the unit is what a DECL_TAG node is for."""
    cdef uint32_t word = g.store.words[g.store.start[tag_node] + 2], r
    for r in range(l.count):
        if l.cell[r] and _word_of(g, l.node[r]) == word:
            return True
    return False


cdef int _separate_base(Graph g, uint32_t* defined) noexcept nogil:
    """Private cells of the base, where a tag has several definitions in the base itself."""
    cdef Local l
    cdef uint32_t r, node, head, i, target
    cdef int64_t tag
    cdef int error = _make_local(&l, g.base_end)
    cdef bint several = False
    if not error:
        for r in range(1, l.count):
            node = g.base_node_of[r]
            l.node[r] = node
            tag = _tag_of(g, node)
            if tag < 0 or not g.ambiguous[tag] & HARD or g.store.words[g.store.start[node]] & 63 == B_FWD:
                continue
            l.reach[r] = HARD
            if defined[tag] == 0:
                defined[tag] = node
            elif defined[tag] != node:
                several = True
        for r in range(l.count):
            tag = _tag_of(g, l.node[r])
            if tag >= 0:
                defined[tag] = 0
    if error or not several:
        _free_local(&l)
        return error
    for r in range(l.count):
        l.first[r] = l.target.n
        node = l.node[r]
        if node == 0:
            continue
        head = g.store.words[g.store.start[node]]
        for i in range(reference_count(head)):
            target = g.base_refs.v[g.base_first[r] + i]
            if push(&l.target, target + 1 if target and l.node[target] else 0):
                error = ERR_MEMORY
                break
            if push(&l.word, g.store.words[g.store.start[node] + reference_at(head, i)]):
                error = ERR_MEMORY
                break
        if error:
            break
    l.first[l.count] = l.target.n
    if not error:
        error = _reach(g, &l)
    if not error:
        error = _make_cells(g, &l)
    if not error:
        for r in range(1, l.count):
            if l.cell[r]:
                g.base_cell_of[r] = l.cell[r]
    _free_local(&l)
    return error


# Equal cells


cdef int _settle(Graph g) noexcept nogil:
    """Number private cells behind the nodes, and let canon say which cell stands for each node."""
    cdef uint64_t k
    cdef uint32_t i, node, r
    cdef Private* own
    g.nodes_at_freeze = g.store.count
    g.cell_count = g.nodes_at_freeze + <uint32_t>g.cell_node.n
    for k in range(g.cell_refs.n):
        if not g.cell_refs.v[k] & <uint32_t>TAG and g.cell_refs.v[k] >= PRIVATE:
            g.cell_refs.v[k] += g.nodes_at_freeze - PRIVATE
    g.canon = <uint32_t*>calloc(<size_t>g.nodes_at_freeze + 1, 4)
    g.final = <uint32_t*>calloc(<size_t>g.cell_count + 1, 4)
    if g.canon == NULL or g.final == NULL:
        return ERR_MEMORY
    for i in range(g.private_count):
        own = &g.privates[i]
        for k in range(own.list.n):
            if own.list.v[k] >= PRIVATE:
                own.list.v[k] += g.nodes_at_freeze - PRIVATE
        for k in range(own.function_count):
            if own.prototypes[k]:
                own.prototypes[k] += g.nodes_at_freeze - PRIVATE
        for k in range(own.variable_count):
            if own.types[k]:
                own.types[k] += g.nodes_at_freeze - PRIVATE
    for r in range(g.base_end):
        if g.base_cell_of[r]:
            g.base_cell_of[r] += g.nodes_at_freeze - PRIVATE
    for node in range(g.nodes_at_freeze):
        if _tag_of(g, node) < 0:
            g.canon[node] = node
    # the first that defines a node says what it means to those that have no cell of their own for it
    for r in range(1, g.base_end):
        node = g.base_node_of[r]
        if node and g.canon[node] == 0:
            g.canon[node] = g.base_cell_of[r] if g.base_cell_of[r] else node
    for k in range(g.place_count):
        if g.places[k].private:
            own = &g.privates[g.places[k].private - 1]
            for i in range(own.list.n):
                node = g.node_of(own.list.v[i])
                if g.canon[node] == 0:
                    g.canon[node] = own.list.v[i]
        else:
            for i in range(g.places[k].node_count):
                node = g.maps[g.places[k].collector][g.held[g.places[k].collector].nodes[g.places[k].first_node + i]]
                if g.canon[node] == 0:
                    g.canon[node] = node
    for i in range(g.nodes_at_freeze):
        if g.canon[i] == 0:
            g.canon[i] = i
    return 0


cdef uint32_t _target(Graph g, uint32_t cell, uint32_t number) noexcept nogil:
    """The cell that reference ``number`` of a cell leads to."""
    cdef const uint32_t* refs = g.references_of(cell)
    cdef const uint32_t* w
    if refs != NULL:
        return g.target_of(refs[number])
    w = g.store.words + g.store.start[cell]
    return g.target_of(w[reference_at(w[0], number)])


cdef inline uint32_t _references(Graph g, uint32_t cell) noexcept nogil:
    return reference_count(g.store.words[g.store.start[g.node_of(cell)]])


cdef int _find_active(Graph g, uint8_t* active, Words* list_) noexcept nogil:
    """Cells whose meaning depends on private ones, these included."""
    cdef uint32_t cell, k
    cdef bint changed = True
    for cell in range(g.nodes_at_freeze, g.cell_count):
        active[cell] = 1
    while changed:
        changed = False
        for cell in range(1, g.nodes_at_freeze):
            if active[cell]:
                continue
            for k in range(_references(g, cell)):
                if active[_target(g, cell, k)]:
                    active[cell] = 1
                    changed = True
                    break
    for cell in range(1, g.cell_count):
        if active[cell] and push(list_, cell):
            return ERR_MEMORY
    return 0


cdef int _refine(Graph g) noexcept nogil:
    """Partition the active cells until no reference tells two of one class apart; ``final`` gets the result."""
    cdef uint8_t* active = <uint8_t*>calloc(<size_t>g.cell_count + 1, 1)
    cdef uint32_t* class_of = <uint32_t*>calloc(<size_t>g.cell_count + 1, 4)
    cdef uint32_t* next_class = <uint32_t*>calloc(<size_t>g.cell_count + 1, 4)
    cdef uint32_t* swapped
    cdef uint8_t* in_base = <uint8_t*>calloc(<size_t>g.cell_count + 1, 1)
    cdef Words list_, words
    cdef Store classes
    cdef uint64_t i
    cdef uint32_t cell, k, n, target, count = 0, before, best
    cdef int error = 0
    memset(&list_, 0, sizeof(list_))
    memset(&words, 0, sizeof(words))
    memset(&classes, 0, sizeof(classes))
    if active == NULL or class_of == NULL or next_class == NULL or in_base == NULL:
        error = ERR_MEMORY
    if not error:
        error = _find_active(g, active, &list_)
    while not error:
        before = count
        if store_init(&classes):
            error = ERR_MEMORY
            break
        for i in range(list_.n):
            cell = list_.v[i]
            n = _references(g, cell)
            if reserve(&words, n + 2):
                error = ERR_MEMORY
                break
            words.v[0] = g.node_of(cell)
            for k in range(n):
                target = _target(g, cell, k)
                words.v[k + 1] = (<uint32_t>TAG | class_of[target]) if active[target] else target
            next_class[cell] = store_lookup(&classes, words.v, n + 1)
            if next_class[cell] == 0:
                error = ERR_MEMORY
                break
        count = classes.count
        store_free(&classes)
        swapped = class_of
        class_of = next_class
        next_class = swapped
        if count == before:
            break
    if not error:
        # of the cells of a class the base's stands for all, else the first
        memset(next_class, 0, (<size_t>g.cell_count + 1) * 4)
        for cell in range(g.cell_count):
            g.final[cell] = cell
        for cell in range(1, g.base_end):
            in_base[g.base_cell_of[cell] if g.base_cell_of[cell] else g.base_node_of[cell]] = 1
        for i in range(list_.n):
            cell = list_.v[i]
            best = next_class[class_of[cell]]
            if best == 0 or (in_base[cell] and not in_base[best]):
                next_class[class_of[cell]] = cell
        for i in range(list_.n):
            g.final[list_.v[i]] = next_class[class_of[list_.v[i]]]
    store_free(&classes)
    free(active)
    free(in_base)
    free(class_of)
    free(next_class)
    free(list_.v)
    free(words.v)
    return error


cdef int _reorder(Graph g) noexcept nogil:
    """The order of cells, in that of units."""
    cdef uint8_t* seen = <uint8_t*>calloc(<size_t>g.cell_count + 1, 1)
    cdef uint64_t k, i
    cdef uint32_t cell
    cdef Private* own
    if seen == NULL:
        return ERR_MEMORY
    g.order.n = 0
    for k in range(g.place_count):
        if g.places[k].private:
            own = &g.privates[g.places[k].private - 1]
            for i in range(own.list.n):
                cell = own.list.v[i]
                cell = g.final[cell if cell >= g.nodes_at_freeze else g.canon[cell]]
                if not seen[cell]:
                    seen[cell] = 1
                    if push(&g.order, cell):
                        free(seen)
                        return ERR_MEMORY
        else:
            for i in range(g.places[k].node_count):
                cell = g.maps[g.places[k].collector][g.held[g.places[k].collector].nodes[g.places[k].first_node + i]]
                cell = g.final[g.canon[cell]]
                if not seen[cell]:
                    seen[cell] = 1
                    if push(&g.order, cell):
                        free(seen)
                        return ERR_MEMORY
    free(seen)
    return 0


cdef int _mark_places(Graph g) noexcept nogil:
    """Find the units that define an ambiguous tag; ``private`` of the place is set to 1."""
    cdef uint8_t* bad = <uint8_t*>calloc(<size_t>g.store.count + 1, 1)
    cdef uint32_t node
    cdef int64_t tag
    cdef uint64_t k, i, found = 0
    cdef const uint32_t* nodes
    cdef const uint32_t* m
    if bad == NULL:
        return ERR_MEMORY
    for node in range(1, g.store.count):
        tag = _tag_of(g, node)
        if tag >= 0 and g.ambiguous[tag]:
            # a declaration matters only where the base has nothing but one
            if g.store.words[g.store.start[node]] & 63 != B_FWD or g.ambiguous[tag] & SOFT:
                bad[node] = 1
    for k in range(g.place_count):
        m = g.maps[g.places[k].collector]
        nodes = g.held[g.places[k].collector].nodes + g.places[k].first_node
        g.places[k].private = 0
        for i in range(g.places[k].node_count):
            if bad[m[nodes[i]]]:
                g.places[k].private = 1
                break
    free(bad)
    return 0


def separate(Graph g, read_again):
    """Give units with a definition of an ambiguous tag cells of their own, and find out which are equal.

    ``read_again(info, unit)`` is a Collector that has read this unit (all units, if they are joint) and nothing else.
    """
    cdef uint64_t k
    cdef int error = 0
    cdef Collector c
    cdef uint32_t* defined
    cdef uint32_t* m
    cdef Private* own
    cdef uint32_t names, number
    for number in range(2 * g.tag_names):
        if g.ambiguous[number]:
            break
    else:
        return
    with nogil:
        error = _mark_places(g)
    g._check(error)
    for k in range(g.place_count):
        g.private_count += g.places[k].private
    g.privates = <Private*>calloc(<size_t>g.private_count + 1, sizeof(Private))
    # names that only another reading gives cannot be tags
    names = g.names.count
    defined = <uint32_t*>calloc(2 * <size_t>names + 2, 4)
    number = 0
    try:
        if g.privates == NULL or defined == NULL:
            raise MemoryError
        with nogil:
            error = _separate_base(g, defined)
        g._check(error)
        for k in range(g.place_count):
            if not g.places[k].private:
                continue
            c = read_again(g.places[k].order >> 32, g.places[k].order & 0xffffffffU)
            m = g.nodes_of(c)
            own = &g.privates[number]
            number += 1
            g.places[k].private = number
            own.function_count = c.kept_function_count
            own.variable_count = c.kept_variable_count
            with nogil:
                error = _separate_unit(g, c, m, defined, own)
            free(m)
            g._check(error)
    finally:
        free(defined)
    with nogil:
        error = _settle(g)
        if not error:
            error = _refine(g)
        if not error:
            error = _reorder(g)
    g._check(error)
