# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The passes of deduplication over the types of one object; ``dedup`` is what people call.

1. names and ids (``_dedup_names``);  2. the base's types become candidates;  3. types without references, enum
declarations resolved;  4. structs and unions by their graphs (``_dedup_graph``);  5. FWDs by name;  6. types that refer
to others, bottom up;  7. what stays is numbered anew. Nothing recurses; steps whose number hostile input could multiply
are counted and limited.
"""
from cpython.bytearray cimport PyByteArray_AS_STRING
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from inlinetrace.btf._dedup_graph cimport equivalent, forget, keep_hypothesis, same_shape
from inlinetrace.btf._dedup_names cimport new_strings
from inlinetrace.btf._dedup_state cimport (
    LOOP, NO_MEMORY, NO_STRING, NO_TYPE, ODD_KIND, STRINGS_GROW, TOO_LONG, UNKNOWN_KIND, Dedup, Fields, chain_first,
    chain_next, count_candidate, fail, fields_of, find_chain, free_candidates, is_mapped, kind_at, link_candidate,
    make_chain, mark_ends, mixed, prepare_candidates, push, record_key, resolved, same_record, spend, stands_before,
    vlen_at,
)
from inlinetrace.btf._index cimport SHAPE_RFC, Index, inlinetrace_btf_swap

from inlinetrace.errors import FormatError, UnsupportedError

cdef uint32_t UNMAPPED = 0xFFFFFFFF
cdef uint32_t IN_PROGRESS = 0xFFFFFFFE

# What a chain of candidates has in common.
cdef enum Domain:
    RECORD = 0
    ENUM_NAME = 2        # ENUMs and ENUM64s of one name
    ENUM_DECLARATION = 3
    STRUCT_SHAPE = 4
    TYPEDEF_NAME = 5
    TAG_NAME = 6         # structs and unions that stay, by name
    ALL_KINDS = 7

# One bit per kind.
cdef uint32_t KEPT = 1 << 14 | 1 << 15 | 1 << 22             # VAR, DATASEC, LOCSEC: never duplicates of each other
cdef uint32_t LEAVES = 1 << 1 | 1 << 7 | 1 << 16 | 1 << 20   # INT, FWD, FLOAT, LOC_PARAM: equal if their bytes are


cdef inline uint64_t short_key(const Dedup* d, int domain, uint32_t first, uint32_t second) noexcept nogil:
    return mixed(mixed(mixed(d.seed, first), second), domain)


cdef uint64_t shape_key(const Dedup* d, uint32_t type_id) noexcept nogil:
    """Hash of what ``same_shape`` compares."""
    cdef const uint32_t* word = d.words + d.at[type_id]
    cdef uint32_t i
    cdef uint64_t h = mixed(mixed(mixed(d.seed, word[0]), word[1]), word[2])
    for i in range(vlen_at(d, type_id)):
        word += 3
        h = mixed(h, word[0] | <uint64_t>word[2] << 32)
    return mixed(h, STRUCT_SHAPE)


cdef int add(Dedup* d, uint64_t key, uint32_t type_id) noexcept nogil:
    """Make a type a candidate."""
    cdef int64_t chain = make_chain(&d.candidates, key)
    if chain < 0:
        return fail(d, NO_MEMORY, type_id, 0)
    count_candidate(&d.candidates, type_id)
    link_candidate(&d.candidates, <uint32_t>chain, type_id)
    return 0


cdef int add_enum(Dedup* d, uint32_t type_id) noexcept nogil:
    cdef uint32_t name = d.words[d.at[type_id]]
    cdef int64_t named = make_chain(&d.candidates, short_key(d, ENUM_NAME, name, 0))
    cdef int64_t other
    if vlen_at(d, type_id):
        other = make_chain(&d.candidates, record_key(d, type_id))
    else:
        other = make_chain(&d.candidates, short_key(d, ENUM_DECLARATION, name, 0))
    if named < 0 or other < 0:
        return fail(d, NO_MEMORY, type_id, 0)
    count_candidate(&d.candidates, type_id)
    mark_ends(&d.candidates, <uint32_t>named, type_id)
    link_candidate(&d.candidates, <uint32_t>other, type_id)
    return 0


cdef int64_t equal_record(Dedup* d, uint64_t key, uint32_t type_id) noexcept nogil:
    """The first candidate with the same bytes, 0 if there is none, -1 after a failure."""
    cdef int64_t chain = find_chain(&d.candidates, key)
    cdef uint32_t other
    if chain < 0:
        return 0
    other = chain_first(&d.candidates, <uint32_t>chain)
    while other:
        if same_record(d, type_id, other):
            return other
        if not spend(d, 1, type_id):
            return -1
        other = chain_next(&d.candidates, other)
    return 0


cdef int by_record(Dedup* d, uint32_t type_id) noexcept nogil:
    """Map a type to a candidate with the same bytes, else make it one."""
    cdef uint64_t key = record_key(d, type_id)
    cdef int64_t found = equal_record(d, key, type_id)
    if found < 0:
        return -1
    d.map[type_id] = <uint32_t>found if found else type_id
    return 0 if found else add(d, key, type_id)


cdef int by_enum(Dedup* d, uint32_t type_id) noexcept nogil:
    """Map an ENUM or ENUM64.

    A declaration takes the first candidate of its name, whatever that is. A definition takes the first one with the
    same content; declarations that are tried before it become duplicates of this type.
    """
    cdef uint32_t name = d.words[d.at[type_id]]
    cdef int64_t chain
    cdef int64_t found
    cdef uint32_t other
    if vlen_at(d, type_id) == 0:
        chain = find_chain(&d.candidates, short_key(d, ENUM_NAME, name, 0))
        found = 0 if chain < 0 else chain_first(&d.candidates, <uint32_t>chain)
    else:
        found = equal_record(d, record_key(d, type_id), type_id)
        if found < 0:
            return -1
        chain = find_chain(&d.candidates, short_key(d, ENUM_DECLARATION, name, 0))
        other = 0 if chain < 0 else chain_first(&d.candidates, <uint32_t>chain)
        while other:
            if not spend(d, 1, type_id):
                return -1
            if found == 0 or stands_before(&d.candidates, other, <uint32_t>found):
                d.map[other] = type_id
            other = chain_next(&d.candidates, other)
    d.map[type_id] = <uint32_t>found if found else type_id
    return 0 if found else add_enum(d, type_id)


cdef int by_graph(Dedup* d, uint32_t type_id, uint64_t key, bint is_typedef) noexcept nogil:
    """Map a struct, union or typedef to the first candidate with an equivalent graph, else make it a candidate."""
    cdef int64_t chain = find_chain(&d.candidates, key)
    cdef uint32_t other = 0 if chain < 0 else chain_first(&d.candidates, <uint32_t>chain)
    cdef uint32_t found = type_id
    cdef int status
    while other:
        if not spend(d, 1, type_id):
            return -1
        if is_typedef or same_shape(d, type_id, other):
            forget(d)
            status = equivalent(d, type_id, other)
            if status < 0:
                return -1
            if status:
                keep_hypothesis(d)
                if not d.needs_base_change:
                    found = other
                    break
        other = chain_next(&d.candidates, other)
    d.map[type_id] = found
    return add(d, key, type_id) if found == type_id else 0


cdef uint64_t graph_key(const Dedup* d, uint32_t type_id, uint32_t kind) noexcept nogil:
    cdef const uint32_t* word = d.words + d.at[type_id]
    return short_key(d, TYPEDEF_NAME, word[0], word[1]) if kind == 8 else shape_key(d, type_id)


cdef int check_ids(Dedup* d, uint32_t type_id) noexcept nogil:
    """The ids that a type of the base refers to; those of the own types have been checked with their names."""
    cdef Fields f
    cdef uint32_t i
    cdef const uint32_t* record = d.words + d.at[type_id]
    cdef const uint32_t* element
    fields_of(d, type_id, False, &f)
    if f.third_is_id and record[2] >= d.end_id:
        return fail(d, NO_TYPE, type_id, record[2])
    if f.first_id >= 0:
        element = record + 3 + f.fixed
        for i in range(f.count):
            if element[f.first_id] >= d.end_id:
                return fail(d, NO_TYPE, type_id, element[f.first_id])
            if f.second_id >= 0 and element[f.second_id] >= d.end_id:
                return fail(d, NO_TYPE, type_id, element[f.second_id])
            element += f.element
    return 0


cdef int offer_base(Dedup* d) noexcept nogil:
    """The base's types stay what they are, and are candidates."""
    cdef uint32_t type_id, kind
    cdef int status = 0
    for type_id in range(1, d.start_id):
        d.map[type_id] = type_id
        kind = kind_at(d, type_id)
        # kinds beyond are compared as bytes, whatever their records look like
        if kind < 20 and check_ids(d, type_id) < 0:
            return -1
        if kind < 32 and (<uint32_t>1 << kind) & KEPT:
            continue
        if kind == 6 or kind == 19:
            status = add_enum(d, type_id)
        elif kind == 4 or kind == 5 or (kind == 8 and d.typedef_graphs):
            status = add(d, graph_key(d, type_id, kind), type_id)
        else:
            status = add(d, record_key(d, type_id), type_id)
        if status < 0:
            return -1
    return 0


cdef int leaves(Dedup* d) noexcept nogil:
    cdef uint32_t type_id, kind
    for type_id in range(d.start_id, d.end_id):
        kind = kind_at(d, type_id)
        if (<uint32_t>1 << kind) & KEPT:
            d.map[type_id] = type_id
        elif (<uint32_t>1 << kind) & LEAVES:
            if by_record(d, type_id) < 0:
                return -1
        elif kind == 6 or kind == 19:
            if by_enum(d, type_id) < 0:
                return -1
    return 0


cdef int graphs(Dedup* d) noexcept nogil:
    cdef uint32_t type_id, kind
    for type_id in range(d.start_id, d.end_id):
        if is_mapped(d, type_id):
            continue
        kind = kind_at(d, type_id)
        if kind == 4 or kind == 5 or (kind == 8 and d.typedef_graphs):
            if by_graph(d, type_id, graph_key(d, type_id, kind), kind == 8) < 0:
                return -1
    return 0


cdef int declarations(Dedup* d) noexcept nogil:
    """FWDs that no graph has resolved become the struct or union of their name, if only one stays."""
    cdef uint32_t type_id, kind, tag
    cdef int64_t chain
    for type_id in range(1, d.end_id):
        kind = kind_at(d, type_id)
        if (kind == 4 or kind == 5) and d.map[type_id] == type_id:
            chain = make_chain(&d.candidates, short_key(d, TAG_NAME, d.words[d.at[type_id]], 0))
            if chain < 0:
                return fail(d, NO_MEMORY, type_id, 0)
            # the tail tells that there are more
            if d.candidates.chains[chain].head == 0:
                d.candidates.chains[chain].head = type_id
            else:
                d.candidates.chains[chain].tail = type_id
    for type_id in range(d.start_id, d.end_id):
        if kind_at(d, type_id) != 7 or d.map[type_id] != type_id:
            continue
        chain = find_chain(&d.candidates, short_key(d, TAG_NAME, d.words[d.at[type_id]], 0))
        if chain < 0 or d.candidates.chains[chain].tail:
            continue
        tag = d.candidates.chains[chain].head
        if kind_at(d, tag) == (5 if d.words[d.at[type_id] + 1] >> 31 else 4):
            d.map[type_id] = tag
    return 0


cdef inline uint32_t* reference(const Dedup* d, const Fields* f, uint32_t* record, uint32_t position) noexcept nogil:
    """The word of the id at a position; NULL if there are no more."""
    if f.third_is_id:
        if position == 0:
            return record + 2
        position -= 1
    if f.second_id >= 0:
        # ARRAY: the type, then the index type
        return record + 3 + position if position < 2 else NULL
    if f.first_id < 0 or position >= f.count:
        return NULL
    return record + 3 + f.fixed + <uint64_t>position * f.element + f.first_id


cdef int references(Dedup* d) noexcept nogil:
    """Types that refer to others: what they refer to comes first, then their bytes tell what they are equal to."""
    cdef bint rfc = d.layer.shape == SHAPE_RFC
    cdef uint32_t start, type_id, position, other
    cdef uint32_t* record
    cdef uint32_t* word
    cdef Fields f
    for start in range(d.start_id, d.end_id):
        if is_mapped(d, start):
            continue
        d.stack_count = 0
        d.map[start] = IN_PROGRESS
        if not push(d, start, 0, 0):
            return -1
        while d.stack_count:
            type_id = d.stack[d.stack_count - 1].first
            position = d.stack[d.stack_count - 1].second
            fields_of(d, type_id, rfc, &f)
            record = d.words + d.at[type_id]
            while True:
                word = reference(d, &f, record, position)
                if word == NULL:
                    if by_record(d, type_id) < 0:
                        return -1
                    d.stack_count -= 1
                    break
                other = d.map[word[0]]
                if other == IN_PROGRESS:
                    return fail(d, LOOP, type_id, word[0])
                if other == UNMAPPED:
                    d.stack[d.stack_count - 1].second = position
                    d.map[word[0]] = IN_PROGRESS
                    if not push(d, word[0], 0, 0):
                        return -1
                    break
                word[0] = resolved(d, word[0])
                position += 1
    return 0


cdef uint64_t number_anew(Dedup* d, uint32_t* count) noexcept nogil:
    """Fill ``hypothesis`` with the new ids; returns the words of the types that stay, and in ``count`` how many do."""
    cdef uint32_t type_id, next_id = d.start_id
    cdef uint64_t length = 0
    for type_id in range(d.start_id):
        d.hypothesis[type_id] = type_id
    for type_id in range(d.start_id, d.end_id):
        if d.map[type_id] == type_id:
            d.hypothesis[type_id] = next_id
            next_id += 1
            length += d.at[type_id + 1] - d.at[type_id]
    count[0] = next_id - d.start_id
    # declarations of the base, too, can stand for a definition of this object
    for type_id in range(1, d.end_id):
        if d.map[type_id] != type_id:
            d.hypothesis[type_id] = d.hypothesis[resolved(d, type_id)]
    return length


cdef void write(const Dedup* d, uint8_t* out, uint32_t* ids) noexcept nogil:
    """Write the records that stay with their new ids, in the byte order of the object."""
    cdef bint rfc = d.layer.shape == SHAPE_RFC, swap = d.layer.swap
    cdef uint32_t type_id, i, length, word
    cdef uint32_t* record
    cdef uint32_t* element
    cdef Fields f
    for type_id in range(d.start_id, d.end_id):
        ids[type_id - d.start_id] = d.hypothesis[type_id]
        if d.map[type_id] != type_id:
            continue
        record = d.words + d.at[type_id]
        fields_of(d, type_id, rfc, &f)
        if f.third_is_id:
            record[2] = d.hypothesis[record[2]]
        if f.first_id >= 0:
            element = record + 3 + f.fixed
            for i in range(f.count):
                element[f.first_id] = d.hypothesis[element[f.first_id]]
                if f.second_id >= 0:
                    element[f.second_id] = d.hypothesis[element[f.second_id]]
                element += f.element
        length = d.at[type_id + 1] - d.at[type_id]
        if swap:
            for i in range(length):
                word = inlinetrace_btf_swap(record[i])
                memcpy(out + 4 * <uint64_t>i, &word, 4)
        else:
            memcpy(out, record, 4 * <uint64_t>length)
        out += 4 * <uint64_t>length


cdef void read_layer(Dedup* d, Index index, uint64_t first_word) noexcept nogil:
    """The records of one layer as native words."""
    cdef uint64_t i, count = (index.layer.type_end - index.layer.type_at) // 4
    cdef uint32_t* words = d.words + first_word
    cdef uint32_t type_id
    if count:
        memcpy(words, index.layer.data + index.layer.type_at, 4 * count)
    if index.layer.swap:
        for i in range(count):
            words[i] = inlinetrace_btf_swap(words[i])
    for type_id in range(index.layer.start_id, index.layer.end_id):
        d.at[type_id] = <uint32_t>(
            first_word + (index.layer.offsets[type_id - index.layer.start_id] - index.layer.type_at) // 4
        )


cdef object error_of(const Dedup* d):
    if d.failure == NO_MEMORY:
        return MemoryError()
    type_id = d.failed_id or None
    if d.failure == UNKNOWN_KIND:
        return UnsupportedError(
            f"kind {d.failed_value} is not known, so that nobody can tell which of its words are ids", type_id=type_id
        )
    return FormatError(
        {
            NO_TYPE: f"type [{d.failed_value}] does not exist",
            NO_STRING: f"the string offset {d.failed_value:#x} leads to no string",
            ODD_KIND: f"a type of kind {d.failed_value} stands where it cannot stand",
            LOOP: f"no declaration can name this type, because it refers to itself (through type [{d.failed_value}])",
            TOO_LONG: "its types resemble each other too much to be compared in a sensible time",
            STRINGS_GROW: "its names overlap each other more than is sensible",
        }[d.failure],
        type_id=type_id,
    )


cdef int passes(Dedup* d) noexcept nogil:
    if offer_base(d) < 0 or leaves(d) < 0 or graphs(d) < 0 or declarations(d) < 0:
        return -1
    return references(d)


def run(Index index, bint typedef_graphs, bint deep_identity, uint64_t seed, uint64_t limit):
    """Deduplicate the own types of ``index``.

    Returns type section and string section as bytearrays, the new id of each own type as native 32-bit words, and how
    many steps were counted. Errors: FormatError and UnsupportedError with the id of the type.
    """
    cdef Dedup d
    cdef list chain = []
    cdef Index layer = index
    cdef uint64_t total = 3, first = 3, length
    cdef uint32_t i, count = 0
    cdef int status
    cdef bytearray types, ids
    cdef uint8_t* out
    cdef uint32_t* new_ids
    memset(&d, 0, sizeof(d))
    d.layer = &index.layer
    d.start_id, d.end_id = index.layer.start_id, index.layer.end_id
    d.typedef_graphs, d.deep_identity = typedef_graphs, deep_identity
    d.seed, d.limit = seed, limit
    while layer is not None:
        chain.insert(0, layer)
        total += (layer.layer.type_end - layer.layer.type_at) // 4
        layer = layer.base
    if total >= <uint64_t>0xFFFFFFFF:
        raise UnsupportedError("the object and its bases have more than 16 GB of types")
    try:
        d.words = <uint32_t*>malloc(total * sizeof(uint32_t))
        d.at = <uint32_t*>malloc((<uint64_t>d.end_id + 1) * sizeof(uint32_t))
        d.map = <uint32_t*>malloc(<uint64_t>d.end_id * sizeof(uint32_t))
        d.hypothesis = <uint32_t*>malloc(<uint64_t>d.end_id * sizeof(uint32_t))
        d.assumed = <uint32_t*>malloc(<uint64_t>d.end_id * sizeof(uint32_t))
        if d.words == NULL or d.at == NULL or d.map == NULL or d.hypothesis == NULL or d.assumed == NULL \
                or prepare_candidates(&d.candidates, d.end_id) < 0:
            raise MemoryError
        memset(d.words, 0, 12)
        d.at[0] = 0
        for layer in chain:
            read_layer(&d, layer, first)
            first += (layer.layer.type_end - layer.layer.type_at) // 4
        d.at[d.end_id] = <uint32_t>total
        strings = new_strings(&d)
        if strings is None:
            raise error_of(&d)
        with nogil:
            for i in range(d.end_id):
                d.map[i] = UNMAPPED
                d.hypothesis[i] = UNMAPPED
            d.map[0] = 0
            status = passes(&d)
        if status < 0:
            raise error_of(&d)
        length = number_anew(&d, &count)
        types = bytearray(4 * length)
        ids = bytearray(4 * <uint64_t>(d.end_id - d.start_id))
        out = <uint8_t*>PyByteArray_AS_STRING(types)
        new_ids = <uint32_t*>PyByteArray_AS_STRING(ids)
        with nogil:
            write(&d, out, new_ids)
        return types, strings, ids, count
    finally:
        free(d.words)
        free(d.at)
        free(d.map)
        free(d.hypothesis)
        free(d.assumed)
        free(d.stack)
        free_candidates(&d.candidates)
