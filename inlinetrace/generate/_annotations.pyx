# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Annotations of types and declarations (btf_type_tag, btf_decl_tag), as clang and as gcc write them.

clang's stand below what they are for. gcc's (DW_TAG_GNU_annotation, since gcc 16) stand beside it, in chains that
entries refer to by DW_AT_GNU_annotation and share.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from inlinetrace._arrays cimport grow
from inlinetrace.generate._collect cimport (
    ERR_MANY, ERR_MEMORY, ERR_NOTE, ERR_NOTE_CYCLE, F_DECLARATION, OWN_FUNCTION, OWN_INDEX, OWN_RECORD, OWN_SHIFT,
    OWN_VARIABLE, REF_RECORD, UNRESOLVED, Annotation, Collector, Function, KeptTag, Note, NoteUse, Record,
)
from inlinetrace.generate._resolve cimport function_at
from inlinetrace.generate._store cimport (
    B_DECL_TAG, B_PTR, B_STRUCT, B_TYPEDEF, B_TYPE_TAG, B_UNION, push, reserve, store_intern,
)

cdef enum:
    MAX_NOTES = 1 << 22  # steps along chains of annotations, which entries share


cdef bint is_text(Collector c, uint32_t name, const char* text, uint32_t length) noexcept nogil:
    cdef uint8_t buffer[4]
    cdef uint32_t have
    cdef const uint8_t* at = c.text_of(name, &have, buffer)
    return at != NULL and have == length and memcmp(at, text, length) == 0


cdef int follow_notes(Collector c) noexcept nogil:
    """Give each entry with DW_AT_GNU_annotation the annotations of its chain, in the order of the source.

    gcc chains the last attribute first. Entries share chains. Type tags count for pointers alone, as those of clang:
    the kernel refuses a TYPE_TAG behind a qualifier.
    """
    cdef uint64_t i, k, at, low, high, steps, total = 0
    cdef int64_t index
    cdef NoteUse* use
    cdef Note* note
    cdef Annotation* a
    cdef Annotation held
    cdef bint pointer
    for i in range(c.note_use_count):
        use = &c.note_uses[i]
        pointer = use.owner >> OWN_SHIFT == OWN_RECORD and c.records[use.owner & OWN_INDEX].kind == B_PTR
        low = c.annotation_count
        at = use.first
        steps = 0
        c.error_at = use.key
        while at:
            index = c.index_of(at)
            if index < 0 or <uint64_t>index >= c.note_count or c.notes[index].key != at:
                return ERR_NOTE
            note = &c.notes[index]
            c.error_at = note.key
            steps += 1
            if steps > c.note_count:
                return ERR_NOTE_CYCLE
            total += 1
            if total > MAX_NOTES:
                return ERR_MANY
            at = note.next
            if note.value == 0:
                continue
            if not is_text(c, note.name, b"btf_type_tag" if pointer else b"btf_decl_tag", 12):
                continue
            if grow(<void**>&c.annotations, &c.annotation_capacity, c.annotation_count + 1, sizeof(Annotation)):
                return ERR_MEMORY
            a = &c.annotations[c.annotation_count]
            c.annotation_count += 1
            a.owner = use.owner
            a.component = use.component
            a.name = note.name
            a.value = note.value
        high = c.annotation_count
        for k in range((high - low) // 2):
            held = c.annotations[low + k]
            c.annotations[low + k] = c.annotations[high - 1 - k]
            c.annotations[high - 1 - k] = held
    return 0


cdef int add_type_tags(Collector c) noexcept nogil:
    """Put a TYPE_TAG between a pointer and what it points to, for each btf_type_tag annotation; the last is outermost."""
    cdef uint64_t i
    cdef Annotation* a
    cdef Record* r
    cdef uint32_t pointer
    if not c.type_tags:
        return 0
    for i in range(c.annotation_count):
        a = &c.annotations[i]
        if a.owner >> OWN_SHIFT != OWN_RECORD or a.component != -1:
            continue
        pointer = a.owner & OWN_INDEX
        if c.records[pointer].kind != B_PTR or not is_text(c, a.name, b"btf_type_tag", 12):
            continue
        if c.record_count >= c.record_capacity:
            if c.record_count >= OWN_INDEX or grow(<void**>&c.records, &c.record_capacity, c.record_count + 1, sizeof(Record)):
                return ERR_MEMORY
        r = &c.records[c.record_count]
        memset(r, 0, sizeof(Record))
        r.key = c.records[pointer].key
        r.word = <uint32_t>UNRESOLVED
        r.kind = B_TYPE_TAG
        r.name = a.value
        r.reference = c.records[pointer].reference
        c.records[pointer].reference = <uint32_t>REF_RECORD | <uint32_t>c.record_count
        c.record_count += 1
    return 0


cdef int keep_tag(Collector c, uint32_t function, uint32_t variable, Annotation* a, uint64_t* total) noexcept nogil:
    cdef KeptTag* tag
    total[0] += 1
    if total[0] > MAX_NOTES:
        c.error_at = c.unit_key
        return ERR_MANY
    if grow(<void**>&c.kept_tags, &c.kept_tag_capacity, c.kept_tag_count + 1, sizeof(KeptTag)):
        return ERR_MEMORY
    tag = &c.kept_tags[c.kept_tag_count]
    c.kept_tag_count += 1
    tag.function = function
    tag.variable = variable
    tag.name = a.value
    tag.component = a.component
    return 0


cdef int keep_tags(Collector c, const uint32_t* heads, const uint32_t* nexts, uint64_t first_function,
                    uint64_t first_variable) noexcept nogil:
    """Keep the tags of the kept functions and variables; ``heads`` has by function, then by variable, the first
    annotation + 1. A concrete function has those of its abstract one, whose parameters it has too.
    """
    cdef uint64_t i, k = first_function, total = 0
    cdef uint32_t at
    cdef int steps, error
    cdef Function* f
    for i in range(c.function_count):
        f = &c.functions[i]
        if k >= c.kept_function_count or c.kept_functions[k].key != f.key:
            continue
        k += 1
        at = heads[i]
        for steps in range(4):
            f = function_at(c, f.origin) if f.origin else NULL
            if f == NULL:
                break
            if heads[f - c.functions]:
                at = heads[f - c.functions]
        while at:
            error = keep_tag(c, <uint32_t>k, 0, &c.annotations[at - 1], &total)
            if error:
                return error
            at = nexts[at - 1]
    k = first_variable
    for i in range(c.variable_count):
        if k >= c.kept_variable_count or c.kept_variables[k].key != c.variables[i].key:
            continue
        k += 1
        at = heads[c.function_count + i]
        while at:
            error = keep_tag(c, 0, <uint32_t>k, &c.annotations[at - 1], &total)
            if error:
                return error
            at = nexts[at - 1]
    return 0


cdef int add_declaration_tags(Collector c, uint64_t first_function, uint64_t first_variable) noexcept nogil:
    """DECL_TAG nodes for structs, unions and typedefs; those of functions and variables wait until they have ids."""
    cdef uint64_t i, owners = c.function_count + c.variable_count
    cdef Annotation* a
    cdef Record* r
    cdef uint32_t node, own
    cdef uint64_t place
    cdef uint32_t* heads
    cdef uint32_t* nexts
    cdef int error
    cdef bint others = False
    if not c.decl_tags:
        return 0
    for i in range(c.annotation_count):
        a = &c.annotations[i]
        if not is_text(c, a.name, b"btf_decl_tag", 12):
            continue
        own = a.owner >> OWN_SHIFT
        if own == OWN_RECORD:
            r = &c.records[a.owner & OWN_INDEX]
            if r.kind != B_STRUCT and r.kind != B_UNION and r.kind != B_TYPEDEF:
                continue
            if r.flags & F_DECLARATION:
                continue
            if reserve(&c.scratch, 8):
                return ERR_MEMORY
            c.scratch.v[0] = B_DECL_TAG
            c.scratch.v[1] = a.value
            c.scratch.v[2] = r.word
            c.scratch.v[3] = <uint32_t>a.component
            node = store_intern(&c.store, c.scratch.v, 4)
            if node == 0 or push(&c.nodes, node):
                return ERR_MEMORY
        elif own == OWN_FUNCTION or own == OWN_VARIABLE:
            others = True
    if not others:
        return 0
    heads = <uint32_t*>calloc(owners + 1, 4)
    nexts = <uint32_t*>calloc(c.annotation_count + 1, 4)
    error = ERR_MEMORY
    if heads != NULL and nexts != NULL:
        for i in range(c.annotation_count, 0, -1):
            a = &c.annotations[i - 1]
            own = a.owner >> OWN_SHIFT
            if (own != OWN_FUNCTION and own != OWN_VARIABLE) or not is_text(c, a.name, b"btf_decl_tag", 12):
                continue
            place = (a.owner & OWN_INDEX) + (c.function_count if own == OWN_VARIABLE else 0)
            nexts[i - 1] = heads[place]
            heads[place] = <uint32_t>i
        error = keep_tags(c, heads, nexts, first_function, first_variable)
    free(heads)
    free(nexts)
    return error
