# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Names and ids of the records before deduplication: every name once, every id checked.

The new string section has the names that the records use, in the order of first use. Names that a base has get the
base's offset; the outermost base is asked first, and the first of equal strings counts. Offsets that lead into a base
already stay what they are.
"""
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memcpy, memset

from inlinetrace._arrays cimport grow
from inlinetrace.btf._dedup_state cimport (
    NO_MEMORY, NO_STRING, NO_TYPE, STRINGS_GROW, UNKNOWN_KIND, Dedup, Fields, fail, fields_of, kind_at, mixed,
)
from inlinetrace.btf._index cimport SHAPE_OTHER, SHAPE_RFC, Layer, string_of

cdef enum:
    LONGEST = 4095
    GROWTH = 8           # how many times as long as before the strings may become (names that overlap are stored apart)

cdef struct Name:
    const char* text
    uint32_t length
    uint32_t offset

cdef struct Names:
    Name* names
    uint32_t count
    uint64_t room
    uint32_t* slots          # number of the name + 1
    uint32_t mask
    uint32_t* moved          # by offset in the own strings: new offset + 1
    uint8_t* text            # the new string section
    uint64_t length
    uint64_t text_room
    uint64_t longest
    uint64_t seed


cdef uint64_t text_hash(const Names* n, const char* text, uint32_t length) noexcept nogil:
    cdef uint64_t h = n.seed ^ length, word
    while length >= 8:
        memcpy(&word, text, 8)
        h = mixed(h, word)
        text += 8
        length -= 8
    word = 0
    memcpy(&word, text, length)
    h = mixed(h, word)
    return h ^ (h >> 32)


cdef int more_room(Names* n) noexcept nogil:
    cdef uint32_t* slots
    cdef uint32_t mask, slot, i
    if grow(<void**>&n.names, &n.room, <uint64_t>n.count + 1, sizeof(Name)):
        return -1
    if n.slots == NULL or n.count >= n.mask // 2:
        mask = 4095 if n.slots == NULL else 2 * n.mask + 1
        slots = <uint32_t*>calloc(<uint64_t>mask + 1, sizeof(uint32_t))
        if slots == NULL:
            return -1
        for i in range(n.count):
            slot = <uint32_t>text_hash(n, n.names[i].text, n.names[i].length) & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = i + 1
        free(n.slots)
        n.slots = slots
        n.mask = mask
    return 0


cdef Name* intern(Names* n, const char* text, uint32_t length) noexcept nogil:
    """The entry of a name, with an offset of 0xFFFFFFFF if it is new; NULL without memory."""
    cdef uint32_t slot
    cdef Name* name
    if more_room(n) < 0:
        return NULL
    slot = <uint32_t>text_hash(n, text, length) & n.mask
    while n.slots[slot]:
        name = &n.names[n.slots[slot] - 1]
        if name.length == length and memcmp(name.text, text, length) == 0:
            return name
        slot = (slot + 1) & n.mask
    name = &n.names[n.count]
    name.text, name.length, name.offset = text, length, <uint32_t>0xFFFFFFFF
    n.count += 1
    n.slots[slot] = n.count
    return name


cdef int add_base(Names* n, const Layer* layer) noexcept nogil:
    """Enter every string of a base. Strings longer than any name that is read are left out."""
    cdef uint64_t at = 0, length
    cdef const char* text
    cdef const char* end
    cdef Name* name
    while at < layer.string_len:
        text = <const char*>layer.data + layer.string_at + at
        end = <const char*>memchr(text, 0, layer.string_len - at)
        if end == NULL:
            return 0
        length = end - text
        if length <= LONGEST and layer.start_string + at <= <uint64_t>0x7FFFFFFF:
            name = intern(n, text, <uint32_t>length)
            if name == NULL:
                return -1
            if name.offset == <uint32_t>0xFFFFFFFF:
                name.offset = <uint32_t>(layer.start_string + at)
        at += length + 1
    return 0


cdef int add_text(Names* n, const char* text, uint32_t length) noexcept nogil:
    """Append a string to the new section."""
    if grow(<void**>&n.text, &n.text_room, <uint64_t>n.length + length + 1, 1):
        return -1
    memcpy(n.text + n.length, text, length)
    n.text[n.length + length] = 0
    n.length += length + 1
    return 0


cdef int move_name(Dedup* d, Names* n, uint32_t type_id, uint32_t* word) noexcept nogil:
    cdef const Layer* layer = d.layer
    cdef uint32_t offset = word[0], length = 0
    cdef uint64_t own
    cdef const char* text
    cdef Name* name
    if offset == 0:
        return 0
    if offset < layer.start_string:
        if string_of(layer, offset, &length) == NULL:
            return fail(d, NO_STRING, type_id, offset)
        return 0
    own = offset - layer.start_string
    if own < layer.string_len and n.moved[own]:
        word[0] = n.moved[own] - 1
        return 0
    text = string_of(layer, offset, &length)
    if text == NULL:
        return fail(d, NO_STRING, type_id, offset)
    name = intern(n, text, length)
    if name == NULL:
        return fail(d, NO_MEMORY, type_id, 0)
    if name.offset == <uint32_t>0xFFFFFFFF:
        if n.length + length + 1 > n.longest:
            return fail(d, STRINGS_GROW, type_id, offset)
        name.offset = <uint32_t>(layer.start_string + n.length)
        if add_text(n, text, length) < 0:
            return fail(d, NO_MEMORY, type_id, 0)
    n.moved[own] = name.offset + 1
    word[0] = name.offset
    return 0


cdef int move_names(Dedup* d, Names* n) noexcept nogil:
    """Give every name of the own records its new offset, and check every id."""
    cdef const Layer* layer = d.layer
    cdef bint rfc = layer.shape == SHAPE_RFC
    cdef uint32_t type_id, i, kind
    cdef uint32_t* record
    cdef uint32_t* element
    cdef Fields f
    for type_id in range(d.start_id, d.end_id):
        record = d.words + d.at[type_id]
        kind = kind_at(d, type_id)
        if kind > 22 or (kind >= 20 and layer.shape == SHAPE_OTHER):
            return fail(d, UNKNOWN_KIND, type_id, kind)
        fields_of(d, type_id, rfc, &f)
        if move_name(d, n, type_id, record) < 0:
            return -1
        if f.third_is_id and record[2] >= d.end_id:
            return fail(d, NO_TYPE, type_id, record[2])
        element = record + 3 + f.fixed
        for i in range(f.count):
            if f.name >= 0 and element[f.name] and move_name(d, n, type_id, element + f.name) < 0:
                return -1
            if f.first_id >= 0 and element[f.first_id] >= d.end_id:
                return fail(d, NO_TYPE, type_id, element[f.first_id])
            if f.second_id >= 0 and element[f.second_id] >= d.end_id:
                return fail(d, NO_TYPE, type_id, element[f.second_id])
            element += f.element
    return 0


cdef object new_strings(Dedup* d):
    """Move all names of the own records; the new string section as a bytearray, None if ``d`` has failed."""
    cdef Names n
    cdef const Layer* layer = d.layer
    cdef const Layer* walk
    cdef const Layer* below
    cdef int status = 0
    memset(&n, 0, sizeof(n))
    n.seed = d.seed ^ <uint64_t>0x5DEECE66D1234567
    n.longest = layer.string_len * GROWTH + 65536
    if n.longest > <uint64_t>0x7FFFFFFF - layer.start_string:
        n.longest = <uint64_t>0x7FFFFFFF - layer.start_string if layer.start_string < <uint64_t>0x7FFFFFFF else 0
    n.moved = <uint32_t*>calloc(layer.string_len + 1, sizeof(uint32_t))
    if n.moved == NULL:
        raise MemoryError
    try:
        with nogil:
            # outermost first: walk down to it once per layer, the chains are short
            below = NULL
            while status == 0 and below != layer.base:
                walk = layer.base
                while walk.base != below:
                    walk = walk.base
                status = add_base(&n, walk)
                below = walk
            if status == 0 and layer.base == NULL:
                status = add_text(&n, b"", 0)
                if status == 0:
                    status = -1 if intern(&n, b"", 0) == NULL else 0
                if status == 0:
                    n.names[n.count - 1].offset = 0
            if status < 0:
                fail(d, NO_MEMORY, 0, 0)
            else:
                status = move_names(d, &n)
        if status < 0:
            return None
        return PyByteArray_FromStringAndSize(<const char*>n.text, <Py_ssize_t>n.length)
    finally:
        free(n.names)
        free(n.slots)
        free(n.moved)
        free(n.text)
