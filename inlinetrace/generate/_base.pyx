# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""An existing BTF object as nodes of a graph, so that equal types of a program find its ids."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr

from inlinetrace.btf._index cimport Index, Layer, layer_of, record_of, string_of, word_at
from inlinetrace.generate._graph cimport Graph
from inlinetrace.generate._store cimport (
    B_ARRAY, B_CONST, B_DECL_TAG, B_ENUM, B_ENUM64, B_FLOAT, B_FUNC, B_FUNC_PROTO, B_FWD, B_INT, B_PTR, B_RESTRICT,
    B_STRUCT, B_TYPEDEF, B_TYPE_TAG, B_UNION, B_VOLATILE, HEAD_FLAG, HEAD_VLEN, TAG, TAG_UNION, Words, copy_array,
    names_copy, names_intern, push, reserve, store_copy, store_lookup,
)

from array import array

from inlinetrace.errors import FormatError

cdef enum:
    ERR_MEMORY = -1
    ERR_ID = 1
    ERR_CYCLE = 2
    ERR_STRING = 3
    NEW = 0
    OPEN = 1
    DONE = 2
    UNUSABLE = 3         # of a kind that no type of a program has
    WAITS = 4
    NONE = 0xffffffff


cdef uint32_t _name(Graph g, const Layer* layer, uint32_t offset) noexcept nogil:
    cdef uint32_t length
    cdef const char* text
    if offset == 0:
        return 0
    text = string_of(layer, offset, &length)
    if text == NULL:
        return <uint32_t>NONE
    return names_intern(&g.names, <const uint8_t*>text, length)


cdef int _reference(Graph g, const Layer* top, uint8_t* state, Words* stack, uint32_t id_, uint32_t* word) noexcept nogil:
    """The word for a reference to type ``id_`` of the base: DONE, WAITS, UNUSABLE or an error (negative)."""
    cdef const Layer* layer
    cdef uint64_t at
    cdef uint32_t info, kind, name
    word[0] = 0
    if id_ == 0:
        return DONE
    layer = layer_of(top, id_)
    if layer == NULL:
        return -ERR_ID - 1
    at = record_of(layer, id_)
    info = word_at(layer, at + 4)
    kind = (info >> 24) & 0x7f
    if kind == B_STRUCT or kind == B_UNION or kind == B_FWD:
        name = _name(g, layer, word_at(layer, at))
        if name == NONE:
            return -ERR_STRING - 1
        if name:
            word[0] = <uint32_t>TAG | name
            if kind == B_UNION or (kind == B_FWD and info >> 31):
                word[0] |= <uint32_t>TAG_UNION
            return DONE
    if state[id_] == OPEN:
        return -ERR_CYCLE - 1
    if state[id_] == NEW:
        if push(stack, id_):
            return -1
        return WAITS
    word[0] = g.base_node_of[id_]
    return state[id_]


cdef bint _is_index(const Layer* top, uint32_t id_) noexcept nogil:
    """The type ``id_`` is "int", which is what arrays are indexed with."""
    cdef const Layer* layer = layer_of(top, id_)
    cdef uint64_t at
    cdef uint32_t length
    cdef const char* text
    if layer == NULL:
        return False
    at = record_of(layer, id_)
    text = string_of(layer, word_at(layer, at), &length)
    return (word_at(layer, at + 4) >> 24) & 0x7f == B_INT and text != NULL and length == 3 and text[0] == c'i' \
        and text[1] == c'n' and text[2] == c't'


cdef int _build(Graph g, const Layer* top, uint8_t* state, Words* stack, uint32_t id_) noexcept nogil:
    """Make the node of one type of the base: DONE, WAITS, UNUSABLE or an error (negative)."""
    cdef const Layer* layer = layer_of(top, id_)
    cdef uint64_t at = record_of(layer, id_), element
    cdef uint32_t info = word_at(layer, at + 4), third = word_at(layer, at + 8)
    cdef uint32_t kind = (info >> 24) & 0x7f, vlen = info & 0xffffff, n = 3, i, node, refs = 0
    cdef uint32_t* w
    cdef int result = DONE, one
    if reserve(&g.scratch, 8 + 3 * <uint64_t>vlen) or reserve(&g.base_refs, <uint64_t>vlen + 2):
        return -1
    w = g.scratch.v
    w[1] = _name(g, layer, word_at(layer, at))
    if w[1] == NONE:
        return -ERR_STRING - 1
    w[2] = third
    w[0] = kind | (HEAD_FLAG if info >> 31 else 0) | vlen << HEAD_VLEN
    element = at + 12
    g.base_first[id_] = <uint32_t>g.base_refs.n
    if kind == B_INT:
        w[3] = word_at(layer, element)
        n = 4
    elif kind == B_FLOAT:
        pass
    elif kind == B_FWD:
        w[2] = 0
    elif (kind == B_PTR or kind == B_CONST or kind == B_VOLATILE or kind == B_RESTRICT or kind == B_TYPEDEF
            or kind == B_TYPE_TAG or kind == B_DECL_TAG):
        result = _reference(g, top, state, stack, third, &w[2])
        g.base_refs.v[g.base_refs.n] = third
        refs = 1
        if kind == B_DECL_TAG:
            w[3] = word_at(layer, element)
            n = 4
    elif kind == B_ARRAY:
        result = _reference(g, top, state, stack, word_at(layer, element), &w[2])
        g.base_refs.v[g.base_refs.n] = word_at(layer, element)
        refs = 1
        w[3] = word_at(layer, element + 8)
        n = 4
        if not _is_index(top, word_at(layer, element + 4)):
            result = UNUSABLE if result == DONE else result
    elif kind == B_STRUCT or kind == B_UNION:
        for i in range(vlen):
            w[n] = _name(g, layer, word_at(layer, element))
            if w[n] == NONE:
                return -ERR_STRING - 1
            g.base_refs.v[g.base_refs.n + refs] = word_at(layer, element + 4)
            refs += 1
            one = _reference(g, top, state, stack, word_at(layer, element + 4), &w[n + 1])
            w[n + 2] = word_at(layer, element + 8)
            if one < 0:
                return one
            if one != DONE and result != WAITS:
                result = one
            n += 3
            element += 12
    elif kind == B_ENUM or kind == B_ENUM64:
        for i in range(vlen):
            w[n] = _name(g, layer, word_at(layer, element))
            if w[n] == NONE:
                return -ERR_STRING - 1
            w[n + 1] = word_at(layer, element + 4)
            w[n + 2] = word_at(layer, element + 8) if kind == B_ENUM64 else 0
            n += 3
            element += 12 if kind == B_ENUM64 else 8
    elif kind == B_FUNC_PROTO:
        result = _reference(g, top, state, stack, third, &w[2])
        g.base_refs.v[g.base_refs.n] = third
        refs = 1
        for i in range(vlen):
            if result < 0:
                return result
            w[n] = _name(g, layer, word_at(layer, element))
            if w[n] == NONE:
                return -ERR_STRING - 1
            g.base_refs.v[g.base_refs.n + refs] = word_at(layer, element + 4)
            refs += 1
            one = _reference(g, top, state, stack, word_at(layer, element + 4), &w[n + 1])
            if one < 0:
                return one
            if one != DONE and result != WAITS:
                result = one
            n += 2
            element += 8
    elif kind == B_FUNC:
        if push(&g.base_functions, w[1]) or push(&g.base_functions, third) or push(&g.base_functions, id_):
            return -1
        return UNUSABLE
    else:
        return UNUSABLE
    if result != DONE:
        return result
    node = store_lookup(&g.store, w, n)
    if node == 0:
        return -1
    if (kind == B_ENUM or kind == B_ENUM64) and vlen and w[1] and g.learn_enum(w[1], node):
        return -1
    g.base_refs.n += refs
    g.base_node_of[id_] = node
    return DONE


cdef int _load(Graph g, const Layer* top, uint8_t* state, Words* stack, uint32_t* at) noexcept nogil:
    cdef uint32_t id_, current
    cdef int result
    for id_ in range(1, g.base_end):
        if state[id_] >= DONE:
            continue
        if push(stack, id_):
            return -1
        while stack.n:
            current = stack.v[stack.n - 1]
            if state[current] >= DONE:
                stack.n -= 1
                continue
            result = _build(g, top, state, stack, current)
            if result < 0:
                at[0] = current
                return result
            state[current] = OPEN if result == WAITS else result
    return 0


def load_base(Graph g, Index index, base):
    """Make nodes of all types of ``index`` and its bases; ``base`` is kept. Raises FormatError with the type's id."""
    cdef uint8_t* state
    cdef Words stack
    cdef int result
    cdef uint32_t at = 0, i
    g.base = base
    g.base_end = index.end_id
    g.base_node_of = <uint32_t*>calloc(<size_t>g.base_end + 1, 4)
    g.base_cell_of = <uint32_t*>calloc(<size_t>g.base_end + 1, 4)
    g.base_first = <uint32_t*>calloc(<size_t>g.base_end + 1, 4)
    state = <uint8_t*>calloc(<size_t>g.base_end + 1, 1)
    stack.v = NULL
    stack.n = stack.capacity = 0
    if g.base_node_of == NULL or g.base_cell_of == NULL or g.base_first == NULL or state == NULL:
        free(state)
        raise MemoryError
    with nogil:
        result = _load(g, &index.layer, state, &stack, &at)
    free(state)
    free(stack.v)
    if result == -1:
        raise MemoryError
    if result:
        text = {-ERR_ID - 1: "a type refers to one that does not exist", -ERR_STRING - 1: "a name leads to no string",
                -ERR_CYCLE - 1: "a type contains itself without a named struct or union in between"}[result]
        raise FormatError(text, type_id=at, path=getattr(base, "path", None), section=getattr(base, "section", None))
    g.base_nodes = g.store.count
    g.base_ids = <uint32_t*>calloc(<size_t>g.base_nodes + 1, 4)
    if g.base_ids == NULL:
        raise MemoryError
    for i in range(1, g.base_end):
        if g.base_node_of[i] and g.base_ids[g.base_node_of[i]] == 0:
            g.base_ids[g.base_node_of[i]] = i


cdef int _name_layer(Graph g, const Layer* layer, Words* offsets) noexcept nogil:
    """Number the strings of one layer among the names of the graph; ``offsets`` has 1 + the offset by number."""
    cdef uint64_t start = 0, end = layer.string_len
    cdef const uint8_t* data = layer.data + layer.string_at
    cdef const uint8_t* nul
    cdef uint32_t name
    while start < end:
        nul = <const uint8_t*>memchr(data + start, 0, end - start)
        if nul == NULL:
            break
        name = names_intern(&g.names, data + start, <uint32_t>(nul - (data + start)))
        if name == NONE:
            return -1
        while offsets.n <= name:
            if push(offsets, 0):
                return -1
        # of equal strings the first one, as for a base that serves once
        if name and offsets.v[name] == 0:
            offsets.v[name] = <uint32_t>(layer.start_string + start) + 1
        start = (nul - data) + 1
    return 0


def name_strings(Graph g, Index index):
    """Give every string of ``index`` and its bases a number among the names of the graph, which keeps them alive.

    Returns 1 + the offset of the string by number, 0 for a name that is none of them ("I" array).
    """
    cdef const Layer* layer = &index.layer
    cdef const Layer* top = layer
    cdef Words offsets
    cdef int depth = 0, at, steps, result = 0
    offsets.v = NULL
    offsets.n = offsets.capacity = 0
    while layer.base != NULL:
        layer = layer.base
        depth += 1
    try:
        with nogil:
            for at in range(depth, -1, -1):
                layer = top
                for steps in range(at):
                    layer = layer.base
                result = _name_layer(g, layer, &offsets)
                if result:
                    break
        if result:
            raise MemoryError
        found = array("I")
        found.frombytes((<const uint8_t*>offsets.v)[:offsets.n * 4])
        return found
    finally:
        free(offsets.v)


def copy_base(Graph g, Graph other):
    """Give a new graph what load_base has given ``other``, to which nothing was added since."""
    cdef uint64_t ids = <uint64_t>other.base_end + 1
    if (store_copy(&g.store, &other.store) or names_copy(&g.names, &other.names)
            or copy_array(<void**>&g.enums, other.enums, other.enum_names, 4)
            or copy_array(<void**>&g.base_node_of, other.base_node_of, ids, 4)
            or copy_array(<void**>&g.base_cell_of, other.base_cell_of, ids, 4)
            or copy_array(<void**>&g.base_first, other.base_first, ids, 4)
            or copy_array(<void**>&g.base_ids, other.base_ids, <uint64_t>other.base_nodes + 1, 4)
            or copy_array(<void**>&g.base_refs.v, other.base_refs.v, other.base_refs.n, 4)
            or copy_array(<void**>&g.base_functions.v, other.base_functions.v, other.base_functions.n, 4)):
        raise MemoryError
    g.base = other.base
    g.base_end = other.base_end
    g.base_nodes = other.base_nodes
    g.enum_names = other.enum_names
    g.base_refs.n = g.base_refs.capacity = other.base_refs.n
    g.base_functions.n = g.base_functions.capacity = other.base_functions.n
