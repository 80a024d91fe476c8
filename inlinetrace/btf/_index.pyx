# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""One pass over the type section: where each record starts. Plus look-up by name, and reading records as words.

An Index owns nothing of the blob but a view. It is built from bounds that the header reader has checked; the walk checks
every record against them, so whatever later code reads inside a record is inside the blob.
"""
cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memchr, memcmp

from inlinetrace.errors import FormatError

cdef enum:
    KNOWN = 23
    NAME_LIMIT = 4095
    HASHED = 64          # bytes of a name that are hashed

cdef enum:
    WALK_DONE = 0
    WALK_TRUNCATED = 1
    WALK_KIND_ZERO = 2
    WALK_UNKNOWN = 3
    WALK_LAYOUT = 4
    WALK_TOO_MANY = 5

cdef uint8_t[23] FIXED = [0, 4, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 4, 0, 0, 4, 0, 0]
cdef uint8_t[23] ELEMENT = [0, 0, 0, 0, 12, 12, 8, 0, 0, 0, 0, 0, 0, 8, 0, 12, 0, 0, 0, 12, 4, 4, 12]


cdef bint layout_entry(const Layer* layer, uint32_t kind, uint32_t* fixed, uint32_t* element) noexcept nogil:
    """What the object's own layout section, else that of its immediate base, says of a kind; False if neither does."""
    cdef const Layer* source = layer
    cdef const uint8_t* entry
    if source.layout_len == 0:
        source = layer.base
    if source == NULL or <uint64_t>kind * 4 + 4 > source.layout_len:
        return False
    entry = source.data + source.layout_at + <uint64_t>kind * 4
    fixed[0] = entry[0]
    element[0] = entry[1]
    return True


cdef bint record_size(const Layer* layer, uint32_t kind, uint32_t* fixed, uint32_t* element) noexcept nogil:
    """Bytes after the 12 common ones and bytes per element; False if this kind cannot be skipped."""
    if kind < KNOWN and (kind < 20 or layer.shape != SHAPE_OTHER):
        fixed[0] = FIXED[kind]
        element[0] = ELEMENT[kind]
        if layer.shape == SHAPE_RFC:
            if kind == 20:
                fixed[0] = 8
                element[0] = 0
            elif kind == 22:
                element[0] = 16
        return True
    return layout_entry(layer, kind, fixed, element)


cdef const char* string_of(const Layer* layer, uint64_t offset, uint32_t* length) noexcept nogil:
    """The NUL-terminated string at a string offset of the chain; NULL if there is none or it is too long."""
    cdef uint64_t left
    cdef const uint8_t* start
    cdef const uint8_t* end
    while layer.base != NULL and offset < layer.start_string:
        layer = layer.base
    offset -= layer.start_string
    if offset >= layer.string_len:
        if offset == 0 and layer.start_string == 0:
            length[0] = 0
            return b""
        return NULL
    left = layer.string_len - offset
    if left > NAME_LIMIT + 1:
        left = NAME_LIMIT + 1
    start = layer.data + layer.string_at + offset
    end = <const uint8_t*>memchr(start, 0, left)
    if end == NULL:
        return NULL
    length[0] = <uint32_t>(end - start)
    return <const char*>start


cdef int walk(Layer* layer, uint32_t* offsets, uint32_t* count, uint32_t* seen, uint64_t* failed_at) noexcept nogil:
    """Fill ``offsets``; ``seen`` collects one bit per location kind. ``failed_at`` is the record that stopped the walk."""
    cdef uint64_t at = layer.type_at
    cdef uint64_t size
    cdef uint32_t info, kind, fixed = 0, element = 0
    cdef uint32_t n = 0
    while at < layer.type_end:
        failed_at[0] = at
        if layer.type_end - at < 12:
            return WALK_TRUNCATED
        info = word_at(layer, at + 4)
        kind = (info >> 24) & 0x7F
        if kind == 0:
            return WALK_KIND_ZERO
        if not record_size(layer, kind, &fixed, &element):
            return WALK_UNKNOWN
        if (fixed | element) & 3:
            return WALK_LAYOUT
        if 20 <= kind <= 22:
            seen[0] |= <uint32_t>1 << (kind - 20)
        size = 12 + fixed + <uint64_t>(info & 0xFFFFFF) * element
        if layer.type_end - at < size:
            return WALK_TRUNCATED
        if n >= <uint32_t>0xFFFFFFFE - layer.start_id:
            return WALK_TOO_MANY
        if offsets != NULL:
            offsets[n] = <uint32_t>at
        n += 1
        at += size
    count[0] = n
    return WALK_DONE


cdef bint legal_flags(uint32_t flags, uint32_t vlen) noexcept nogil:
    """True for the mixes of LOC_PARAM flags that the newest kernel accepts (kinds.legal_location says the same)."""
    cdef uint32_t base = flags & ~<uint32_t>1
    if base == 0x02 or base == 0x06:
        return 1 <= vlen <= 2
    if flags == 0x08:
        return 1 <= vlen <= 2
    if flags == 0x18:
        return vlen == 1
    return (base == 0x28 or base == 0x38) and 2 <= vlen <= 3


cdef uint32_t kind_of(const Layer* layer, uint32_t type_id) noexcept nogil:
    """Kind of a type, 0 for void, 128 for an id that does not exist."""
    cdef const Layer* owner = layer_of(layer, type_id)
    if owner == NULL:
        return 0 if type_id == 0 else 128
    return (word_at(owner, record_of(owner, type_id) + 4) >> 24) & 0x7F


cdef uint32_t hash_of(const uint8_t* name, uint32_t length) noexcept nogil:
    """FNV-1a over the first bytes of a name and its length."""
    cdef uint32_t h = <uint32_t>2166136261 ^ length
    cdef uint32_t i
    for i in range(length if length < HASHED else <uint32_t>HASHED):
        h = (h ^ name[i]) * <uint32_t>16777619
    return h


# Clearing one that is part of a cycle would drop the buffer without releasing it, and the bases that layer points into.
@cython.no_gc_clear
cdef class Index:
    """Where the records of one blob start, in the context of its bases. Immutable once built."""

    def __cinit__(
        self, data, uint64_t type_at, uint64_t type_len, uint64_t string_at, uint64_t string_len,
        uint64_t layout_at, uint64_t layout_len, bint swap, Index base, int shape,
    ):
        cdef Layer* layer = &self.layer
        cdef uint32_t count = 0, seen = 0
        cdef uint64_t failed_at = 0
        cdef int status
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.has_buffer = True
        cdef uint64_t size = self.buffer.len
        if size > 0xFFFFFFFF or type_at > size or type_len > size - type_at or string_at > size \
                or string_len > size - string_at or layout_at > size or layout_len > size - layout_at:
            raise FormatError("a section of the BTF object lies outside of it")
        self.base = base
        layer.data = <const uint8_t*>self.buffer.buf
        layer.type_at, layer.type_end = type_at, type_at + type_len
        layer.string_at, layer.string_len = string_at, string_len
        layer.layout_at, layer.layout_len = layout_at, layout_len
        layer.swap = swap
        layer.shape = shape
        layer.base = NULL
        layer.start_id = 1
        layer.start_string = 0
        if base is not None:
            layer.base = &base.layer
            layer.start_id = base.layer.end_id
            layer.start_string = base.layer.start_string + base.layer.string_len
        self.offsets = <uint32_t*>malloc((type_len // 12 + 1) * sizeof(uint32_t))
        if self.offsets == NULL:
            raise MemoryError
        with nogil:
            status = walk(layer, self.offsets, &count, &seen, &failed_at)
        if status != WALK_DONE:
            raise walk_error(status, failed_at, layer)
        layer.offsets = self.offsets
        layer.end_id = layer.start_id + count
        self.start_id = layer.start_id
        self.end_id = layer.end_id
        self.has_locations = seen != 0
        self.shape = shape

    def __dealloc__(self):
        free(self.offsets)
        free(self.heads)
        free(self.chain)
        if self.has_buffer:
            PyBuffer_Release(&self.buffer)

    def record(self, uint32_t type_id):
        """All words of a record, the three common ones first."""
        cdef const Layer* layer = layer_of(&self.layer, type_id)
        cdef uint64_t at, end
        if layer == NULL:
            raise FormatError("there is no such type", type_id=type_id)
        at = record_of(layer, type_id)
        end = record_of(layer, type_id + 1) if type_id + 1 < layer.end_id else layer.type_end
        return tuple([word_at(layer, at + 4 * i) for i in range((end - at) // 4)])

    def offset(self, uint32_t type_id):
        """Offset of a record from the start of the blob that stores it."""
        cdef const Layer* layer = layer_of(&self.layer, type_id)
        if layer == NULL:
            raise FormatError("there is no such type", type_id=type_id)
        return record_of(layer, type_id)

    def kind(self, uint32_t type_id):
        """Kind number of a type; 0 for void."""
        cdef const Layer* layer = layer_of(&self.layer, type_id)
        if layer == NULL:
            if type_id == 0:
                return 0
            raise FormatError("there is no such type", type_id=type_id)
        return (word_at(layer, record_of(layer, type_id) + 4) >> 24) & 0x7F

    def string(self, uint64_t offset):
        """The bytes of the string at an offset of the chain's string space."""
        cdef uint32_t length = 0
        cdef const char* text = string_of(&self.layer, offset, &length)
        if text == NULL:
            raise FormatError(f"string offset {offset:#x} leads to no string of at most {NAME_LIMIT} bytes")
        return text[:length]

    def name(self, uint32_t type_id):
        """The name of a type as bytes."""
        cdef const Layer* layer = layer_of(&self.layer, type_id)
        if layer == NULL:
            raise FormatError("there is no such type", type_id=type_id)
        return self.string(word_at(layer, record_of(layer, type_id)))

    cdef int build_names(self) except -1:
        """Hash table over the names of this layer's own records."""
        cdef const Layer* layer = &self.layer
        cdef uint32_t count = layer.end_id - layer.start_id
        cdef uint32_t size = 1024, i, slot, offset, length = 0
        cdef const char* text
        while size < count:
            size *= 2
        self.heads = <uint32_t*>calloc(size, sizeof(uint32_t))
        self.chain = <uint32_t*>malloc((count + 1) * sizeof(uint32_t))
        if self.heads == NULL or self.chain == NULL:
            raise MemoryError
        self.mask = size - 1
        with nogil:
            i = count
            while i > 0:
                offset = word_at(layer, layer.offsets[i - 1])
                if offset != 0:
                    text = string_of(layer, offset, &length)
                    if text != NULL:
                        slot = hash_of(<const uint8_t*>text, length) & self.mask
                        self.chain[i] = self.heads[slot]
                        self.heads[slot] = i
                i -= 1
        return 0

    def find(self, bytes name, uint64_t kinds):
        """Ids of this object's own types with this name, ascending; ``kinds`` has one bit per kind that counts."""
        cdef const Layer* layer = &self.layer
        cdef uint32_t length = <uint32_t>len(name), other = 0, i, at, kind
        cdef const uint8_t* wanted = name
        cdef const char* text
        cdef list found = []
        if self.heads == NULL:
            self.build_names()
        i = self.heads[hash_of(wanted, length) & self.mask]
        while i:
            at = layer.offsets[i - 1]
            kind = (word_at(layer, at + 4) >> 24) & 0x7F
            if (kinds >> kind) & 1 if kind < 64 else kinds == <uint64_t>0xFFFFFFFFFFFFFFFF:
                text = string_of(layer, word_at(layer, at), &other)
                if text != NULL and other == length and memcmp(text, wanted, length) == 0:
                    found.append(layer.start_id + i - 1)
            i = self.chain[i]
        return found

    def of_kind(self, uint32_t kind):
        """Ids of this object's own types of one kind, ascending."""
        cdef const Layer* layer = &self.layer
        cdef uint32_t i
        cdef list found = []
        for i in range(layer.end_id - layer.start_id):
            if ((word_at(layer, layer.offsets[i] + 4) >> 24) & 0x7F) == kind:
                found.append(layer.start_id + i)
        return found

    def sites(self, uint32_t locsec_id, functions, names, uint32_t most=0):
        """Elements of a LOCSEC: (function, LOC_PROTO id, offset, FUNC_PROTO id) tuples in their order.

        ``function`` is a FUNC id in the newer shape and a string offset in the RFC's, which has the FUNC_PROTO id, too.
        ``functions`` is None for all elements, else the set of FUNC ids that count; ``names`` likewise of names (RFC).
        With ``most`` above 0 only every n-th element is looked at, so that fewer than twice as many remain.
        """
        cdef const Layer* layer = layer_of(&self.layer, locsec_id)
        cdef uint64_t at, end
        cdef uint32_t info, word, length = 0, last = 0
        cdef uint64_t i, count, step = 1
        cdef bint taken = False, every = functions is None, rfc
        cdef const char* text
        cdef bytearray wanted
        cdef uint8_t* flags = NULL
        cdef list found = []
        if layer == NULL or kind_of(&self.layer, locsec_id) != 22 or layer.shape == SHAPE_OTHER:
            raise FormatError("this type is no LOCSEC", type_id=locsec_id)
        rfc = layer.shape == SHAPE_RFC
        at = record_of(layer, locsec_id)
        info = word_at(layer, at + 4)
        at += 12
        if not every and not rfc:
            wanted = bytearray(layer.end_id)
            flags = <uint8_t*><char*>wanted
            for word in functions:
                if word < layer.end_id:
                    flags[word] = 1
        count = info & 0xFFFFFF
        if most and count > most:
            step = count // most
        i = 0
        while i < count:
            word = word_at(layer, at)
            if rfc:
                if every:
                    taken = True
                elif word != last or i == 0:
                    text = string_of(layer, word, &length)
                    taken = text != NULL and text[:length] in names
                    last = word
                if taken:
                    found.append((word, word_at(layer, at + 8), word_at(layer, at + 12), word_at(layer, at + 4)))
                at += 16 * step
            else:
                if every or (word < layer.end_id and flags[word]):
                    found.append((word, word_at(layer, at + 4), word_at(layer, at + 8), 0))
                at += 12 * step
            i += step
        return found

    def count_kinds(self):
        """How many of this object's own types there are of each kind number."""
        cdef const Layer* layer = &self.layer
        cdef uint32_t[128] counts
        cdef uint32_t i
        for i in range(128):
            counts[i] = 0
        for i in range(layer.end_id - layer.start_id):
            counts[(word_at(layer, layer.offsets[i] + 4) >> 24) & 0x7F] += 1
        return {i: counts[i] for i in range(128) if counts[i]}

    def location_facts(self):
        """What tells the dialects apart, of this object's own records.

        (LOC_PARAMs, those with values and without kind_flag, those whose flags are a legal mix, references from
        LOC_PROTOs and LOCSECs, those that lead to the right kind), read in the shape that the index was built with.
        """
        cdef const Layer* layer = &self.layer
        cdef uint32_t i, kind, info, vlen, j
        cdef uint64_t at
        cdef uint64_t parameters = 0, plain = 0, legal = 0, references = 0, right = 0
        cdef bint rfc = layer.shape == SHAPE_RFC
        with nogil:
            for i in range(layer.end_id - layer.start_id):
                at = layer.offsets[i]
                info = word_at(layer, at + 4)
                kind = (info >> 24) & 0x7F
                vlen = info & 0xFFFFFF
                at += 12
                if kind == 20:
                    parameters += 1
                    if vlen > 0 and not info >> 31:
                        plain += 1
                        legal += legal_flags(word_at(layer, at), vlen)
                elif kind == 21:
                    references += vlen
                    for j in range(vlen):
                        if word_at(layer, at + 4 * j) == 0 or kind_of(layer, word_at(layer, at + 4 * j)) == 20:
                            right += 1
                elif kind == 22:
                    references += 2 * <uint64_t>vlen
                    for j in range(vlen):
                        if rfc:
                            right += kind_of(layer, word_at(layer, at + 4)) == 13
                            right += kind_of(layer, word_at(layer, at + 8)) == 21
                            at += 16
                        else:
                            right += kind_of(layer, word_at(layer, at)) == 12
                            right += kind_of(layer, word_at(layer, at + 4)) == 21
                            at += 12
        return parameters, plain, legal, references, right

    def own_layout_entry(self, uint32_t kind):
        """(fixed, element) sizes of a kind by the object's own layout section; None if it has none or no such entry."""
        cdef const Layer* layer = &self.layer
        cdef uint64_t at = layer.layout_at + <uint64_t>kind * 4
        if <uint64_t>kind * 4 + 4 > layer.layout_len:
            return None
        return layer.data[at], layer.data[at + 1]


cdef walk_error(int status, uint64_t at, const Layer* layer):
    """The error for a walk that stopped at a record."""
    if status == WALK_TRUNCATED:
        return FormatError("the type section ends inside a record", offset=at)
    if status == WALK_KIND_ZERO:
        return FormatError("a record has kind 0", offset=at)
    if status == WALK_LAYOUT:
        return FormatError("the layout section gives a record size that is no multiple of 4", offset=at)
    if status == WALK_TOO_MANY:
        return FormatError("more types than type ids", offset=at)
    kind = (word_at(layer, at + 4) >> 24) & 0x7F
    return FormatError(f"a record of kind {kind}, which is unknown, and no layout section says how long it is", offset=at)
