# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The rules of the format, checked over a whole object in a few linear passes without recursion.

``check(index)`` returns for each rule that is broken how often it is, and where first. The texts are in ``validate``.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from inlinetrace.btf._index cimport (
    SHAPE_OTHER, SHAPE_RFC, Index, Layer, kind_of, layer_of, legal_flags, record_of, string_of, word_at,
)

cdef enum Rule:
    NAME_OFFSET
    NAME_MISSING
    NAME_SURPLUS
    NAME_IDENTIFIER
    KIND_FLAG
    VLEN
    LINKAGE
    THIRD_WORD
    INT_SIZE
    INT_BITS
    INT_ENCODING
    FLOAT_SIZE
    TYPE_ID
    TYPE_KIND
    ELEMENT_UNSIZED
    INDEX_TYPE
    MEMBER_UNSIZED
    MEMBER_BOUNDS
    MEMBER_ORDER
    MEMBER_ALIGNED
    UNION_OFFSET
    BITFIELD
    ENUM_SIZE
    PARAM_VOID
    VARIABLE_ORDER
    VARIABLE_BOUNDS
    TAG_COMPONENT
    CONTAINS_ITSELF
    ENDLESS
    LOC_FLAGS
    LOC_SIZE
    LOC_CONSTANT
    LOC_SLOTS
    LOCSEC_ID
    RULES

cdef enum:
    UNVISITED = 0
    OPEN = 1
    CLOSED = 2

cdef uint64_t UNSIZED = <uint64_t>0xFFFFFFFFFFFFFFFF
cdef uint64_t HUGE = <uint64_t>1 << 62

# One bit per kind.
cdef uint32_t C_TYPES = 0x000D2FFE    # INT to FUNC_PROTO without FUNC, FLOAT, TYPE_TAG, ENUM64
cdef uint32_t MODIFIERS = 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 18
cdef uint32_t NAMED = 1 << 1 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 17 | 1 << 18 | 1 << 22
cdef uint32_t NAMELESS = 1 << 2 | 1 << 3 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 20 | 1 << 21
cdef uint32_t IDENTIFIERS = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 12 | 1 << 19
cdef uint32_t FLAGGED = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 17 | 1 << 18 | 1 << 19
cdef uint32_t WITHOUT_ELEMENTS = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 14 | 1 << 16 | 1 << 17 | 1 << 18

cdef struct Found:
    uint64_t count
    uint32_t type_id
    uint64_t offset
    uint64_t value

cdef struct State:
    const Layer* layer
    Found* found
    uint64_t* sizes      # of own types, by position
    uint64_t** base_sizes  # of each layer below, outermost first
    uint32_t type_id
    uint64_t at


cdef void fault(State* s, int rule, uint64_t offset, uint64_t value) noexcept nogil:
    cdef Found* found = &s.found[rule]
    if found.count == 0:
        found.type_id, found.offset, found.value = s.type_id, offset, value
    found.count += 1


cdef uint32_t third_of(const Layer* layer, uint32_t type_id) noexcept nogil:
    return word_at(layer, record_of(layer, type_id) + 8)


cdef uint32_t edges(const Layer* layer, uint32_t type_id, bint by_value, uint32_t n) noexcept nogil:
    """The n-th type that a type of this layer is made of, 0 if there is none.

    ``by_value``: what is stored inside it. Otherwise: what has to be spelled out to name it, which members of a named
    struct are not.
    """
    cdef uint64_t at = record_of(layer, type_id)
    cdef uint32_t info = word_at(layer, at + 4)
    cdef uint32_t kind = (info >> 24) & 0x7F
    if kind < 32 and (<uint32_t>1 << kind) & MODIFIERS:
        return word_at(layer, at + 8)
    if kind == 3:
        return word_at(layer, at + 12)
    if kind == 4 or kind == 5:
        return word_at(layer, at + 16 + 12 * <uint64_t>n) if by_value or word_at(layer, at) == 0 else 0
    if by_value:
        return 0
    if kind == 2 or kind == 12 or kind == 14 or kind == 17:
        return word_at(layer, at + 8)
    if kind == 13:
        return word_at(layer, at + 8) if n == 0 else word_at(layer, at + 8 + 8 * <uint64_t>n)
    return 0


cdef uint32_t edge_count(const Layer* layer, uint32_t type_id, bint by_value) noexcept nogil:
    cdef uint64_t at = record_of(layer, type_id)
    cdef uint32_t info = word_at(layer, at + 4)
    cdef uint32_t kind = (info >> 24) & 0x7F
    cdef uint32_t vlen = info & 0xFFFFFF
    if kind < 32 and (<uint32_t>1 << kind) & MODIFIERS:
        return 1
    if kind == 3:
        return 1
    if kind == 4 or kind == 5:
        return vlen if by_value or word_at(layer, at) == 0 else 0
    if by_value:
        return 0
    if kind == 2 or kind == 12 or kind == 14 or kind == 17:
        return 1
    if kind == 13:
        return vlen + 1
    return 0


cdef uint64_t known_size(State* s, uint32_t type_id) noexcept nogil:
    """Size of a type whose layer has been sized already (own types: visited before)."""
    cdef const Layer* layer = layer_of(s.layer, type_id)
    cdef const Layer* walk = s.layer
    cdef uint32_t depth = 0
    if layer == NULL:
        return UNSIZED
    if layer == s.layer:
        return s.sizes[type_id - layer.start_id]
    walk = layer
    while walk.base != NULL:
        depth += 1
        walk = walk.base
    return s.base_sizes[depth][type_id - layer.start_id]


cdef uint64_t size_here(State* s, uint32_t type_id, uint32_t pointer_size) noexcept nogil:
    """Size of an own type all of whose parts have been sized."""
    cdef const Layer* layer = s.layer
    cdef uint64_t at = record_of(layer, type_id), element
    cdef uint32_t kind = (word_at(layer, at + 4) >> 24) & 0x7F
    cdef uint32_t third = word_at(layer, at + 8), length
    if kind == 2:
        return pointer_size
    if kind == 1 or 4 <= kind <= 6 or kind == 15 or kind == 16 or kind == 19:
        return third
    if kind < 32 and (<uint32_t>1 << kind) & MODIFIERS:
        return known_size(s, third)
    if kind == 14:
        return known_size(s, third)
    if kind == 3:
        element = known_size(s, word_at(layer, at + 12))
        length = word_at(layer, at + 20)
        if element == UNSIZED:
            return UNSIZED
        if length and element > HUGE // length:
            return HUGE
        return element * length
    return UNSIZED


cdef int visit(State* s, bint by_value, uint32_t pointer_size) noexcept nogil:
    """Depth-first over own types; finds cycles and, by value, fills in the sizes. -1 without memory."""
    cdef const Layer* layer = s.layer
    cdef uint32_t count = layer.end_id - layer.start_id
    cdef uint8_t* color = <uint8_t*>calloc(count + 1, 1)
    cdef uint32_t* stack = <uint32_t*>malloc((<uint64_t>count + 1) * 2 * sizeof(uint32_t))
    cdef uint32_t i, top, current, position, child
    if color == NULL or stack == NULL:
        free(color)
        free(stack)
        return -1
    for i in range(count):
        if color[i] != UNVISITED:
            continue
        color[i] = OPEN
        stack[0], stack[1] = i, 0
        top = 1
        while top:
            current, position = stack[2 * top - 2], stack[2 * top - 1]
            if position >= edge_count(layer, layer.start_id + current, by_value):
                color[current] = CLOSED
                if by_value:
                    s.sizes[current] = size_here(s, layer.start_id + current, pointer_size)
                top -= 1
                continue
            stack[2 * top - 1] = position + 1
            child = edges(layer, layer.start_id + current, by_value, position)
            if child < layer.start_id or child >= layer.end_id:
                continue
            child -= layer.start_id
            if color[child] == UNVISITED:
                color[child] = OPEN
                stack[2 * top], stack[2 * top + 1] = child, 0
                top += 1
            elif color[child] == OPEN and s.found != NULL:
                s.type_id = layer.start_id + child
                fault(s, CONTAINS_ITSELF if by_value else ENDLESS, record_of(layer, s.type_id), layer.start_id + current)
    free(color)
    free(stack)
    return 0


cdef bint is_identifier(const char* text, uint32_t length) noexcept nogil:
    cdef uint32_t i
    cdef uint8_t c
    for i in range(length):
        c = <uint8_t>text[i]
        if not (97 <= c <= 122 or 65 <= c <= 90 or c == 95 or (i and (48 <= c <= 57 or c == 46)) or c == 36):
            return False
    return length > 0


cdef void check_name(State* s, uint64_t at, bint allowed, bint required) noexcept nogil:
    """The string offset at ``at`` of the current record."""
    cdef uint32_t offset = word_at(s.layer, at), length = 0
    cdef const char* text = b""
    if offset:
        text = string_of(s.layer, offset, &length)
        if text == NULL:
            fault(s, NAME_OFFSET, at, offset)
            return
    if length and not allowed:
        fault(s, NAME_SURPLUS, at, offset)
    elif not length and required:
        fault(s, NAME_MISSING, at, offset)


cdef uint32_t check_id(State* s, uint64_t at, uint32_t kinds) noexcept nogil:
    """The type id at ``at``; ``kinds`` has a bit for each kind it may lead to, bit 0 for void. Returns the kind."""
    cdef uint32_t type_id = word_at(s.layer, at)
    cdef uint32_t kind = kind_of(s.layer, type_id)
    if kind == 128:
        fault(s, TYPE_ID, at, type_id)
    elif kind >= 32 or not (<uint32_t>1 << kind) & kinds:
        fault(s, TYPE_KIND, at, type_id)
    return kind


cdef void check_members(State* s, bint is_union, uint32_t vlen, bint kind_flag, uint64_t size) noexcept nogil:
    cdef const Layer* layer = s.layer
    cdef uint64_t at = s.at + 12, member_size
    cdef uint64_t offset, bits, last = 0
    cdef uint32_t i, word
    for i in range(vlen):
        check_name(s, at, True, False)
        if check_id(s, at + 4, C_TYPES) != 128:
            member_size = known_size(s, word_at(layer, at + 4))
            word = word_at(layer, at + 8)
            offset, bits = word, 0
            if kind_flag:
                offset, bits = word & 0xFFFFFF, word >> 24
            if member_size == UNSIZED:
                fault(s, MEMBER_UNSIZED, at + 4, word_at(layer, at + 4))
            else:
                if bits > member_size * 8 or bits > 128:
                    fault(s, BITFIELD, at + 8, bits)
                if kind_flag and bits == 0 and offset & 7:
                    fault(s, MEMBER_ALIGNED, at + 8, offset)
                if offset + (bits if bits else (member_size * 8 if member_size < HUGE else HUGE)) > size * 8 and not is_legacy_bitfield(layer, word_at(layer, at + 4)):
                    fault(s, MEMBER_BOUNDS, at + 8, offset)
            if is_union and offset:
                fault(s, UNION_OFFSET, at + 8, offset)
            if offset < last:
                fault(s, MEMBER_ORDER, at + 8, offset)
            last = offset
        at += 12


cdef bint is_legacy_bitfield(const Layer* layer, uint32_t type_id) noexcept nogil:
    """True for an INT of fewer bits than its size: before kind_flag existed, bitfields were made of those."""
    cdef const Layer* owner = layer_of(layer, type_id)
    cdef uint32_t word
    if owner == NULL or kind_of(layer, type_id) != 1:
        return False
    word = word_at(owner, record_of(owner, type_id) + 12)
    return (word & 0xFF) != third_of(owner, type_id) * 8


cdef void check_loc_param(State* s, uint32_t vlen, bint kind_flag) noexcept nogil:
    cdef const Layer* layer = s.layer
    cdef uint32_t size = word_at(layer, s.at + 8)
    cdef uint32_t flags = word_at(layer, s.at + 12)
    cdef int64_t signed_size = <int32_t>size
    if layer.shape == SHAPE_RFC:
        if signed_size < 0:
            signed_size = 0 - signed_size
        if signed_size != 1 and signed_size != 2 and signed_size != 4 and signed_size != 8:
            fault(s, LOC_SIZE, s.at + 8, size)
        if vlen:
            fault(s, VLEN, s.at + 4, vlen)
        return
    if kind_flag:
        fault(s, KIND_FLAG, s.at + 4, 1)
    if size == 0 or size > 16:
        fault(s, LOC_SIZE, s.at + 8, size)
    if not legal_flags(flags, vlen):
        fault(s, LOC_FLAGS, s.at + 12, flags)
    elif flags & 0x02 and (size > 8 or (size > 4 and vlen != 2)):
        fault(s, LOC_CONSTANT, s.at + 8, size)


cdef void check_locsec(State* s, uint32_t vlen) noexcept nogil:
    cdef const Layer* layer = s.layer
    cdef const Layer* owner
    cdef const Layer* proto
    cdef uint64_t at = s.at + 12
    cdef uint32_t i, function, slots, prototype
    for i in range(vlen):
        if layer.shape == SHAPE_RFC:
            check_name(s, at, True, True)
            check_id(s, at + 4, 1 << 13)
            check_id(s, at + 8, 1 << 21)
            at += 16
            continue
        function, slots = word_at(layer, at), word_at(layer, at + 4)
        if function == 0 or slots == 0:
            fault(s, LOCSEC_ID, at, 0)
        elif check_id(s, at, 1 << 12) == 12 and check_id(s, at + 4, 1 << 21) == 21:
            owner = layer_of(layer, function)
            prototype = third_of(owner, function)
            proto = layer_of(owner, prototype)
            if proto != NULL and kind_of(owner, prototype) == 13:
                owner = layer_of(layer, slots)
                if (word_at(proto, record_of(proto, prototype) + 4) & 0xFFFFFF) != (word_at(owner, record_of(owner, slots) + 4) & 0xFFFFFF):
                    fault(s, LOC_SLOTS, at + 4, slots)
        at += 12


cdef void check_type(State* s, uint32_t kind, uint32_t vlen, bint kind_flag) noexcept nogil:
    """The rules of one record."""
    cdef const Layer* layer = s.layer
    cdef uint64_t at = s.at
    cdef uint32_t third = word_at(layer, at + 8), word, i, other, length = 0
    cdef uint64_t end = 0
    cdef uint32_t bit = <uint32_t>1 << kind
    cdef const char* text
    check_name(s, at, not bit & NAMELESS, bit & NAMED)
    if bit & IDENTIFIERS and word_at(layer, at):
        text = string_of(layer, word_at(layer, at), &length)
        if text != NULL and length and not is_identifier(text, length):
            fault(s, NAME_IDENTIFIER, at, word_at(layer, at))
    if kind_flag and not bit & FLAGGED and kind < 20:
        fault(s, KIND_FLAG, at + 4, 1)
    if vlen and bit & WITHOUT_ELEMENTS:
        fault(s, VLEN, at + 4, vlen)
    if kind == 1:
        word = word_at(layer, at + 12)
        if third == 0 or third > 16 or third & (third - 1):
            fault(s, INT_SIZE, at + 8, third)
        elif (word & 0xFF) == 0 or (word & 0xFF) + ((word >> 16) & 0xFF) > third * 8:
            fault(s, INT_BITS, at + 12, word)
        if word & <uint32_t>0xF000FF00 or ((word >> 24) & 0xF) not in (0, 1, 2, 4):
            fault(s, INT_ENCODING, at + 12, word)
    elif kind == 2 or bit & MODIFIERS:
        check_id(s, at + 8, C_TYPES | 1)
    elif kind == 3:
        if third:
            fault(s, THIRD_WORD, at + 8, third)
        other = word_at(layer, at + 12)
        if check_id(s, at + 12, C_TYPES) != 128 and known_size(s, other) == UNSIZED:
            fault(s, ELEMENT_UNSIZED, at + 12, other)
        other = check_id(s, at + 16, C_TYPES)
        if other != 128 and other != 1 and not (other < 32 and (<uint32_t>1 << other) & MODIFIERS):
            fault(s, INDEX_TYPE, at + 16, word_at(layer, at + 16))
    elif kind == 4 or kind == 5:
        check_members(s, kind == 5, vlen, kind_flag, third)
    elif kind == 6 or kind == 19:
        if third == 0 or third > 8 or third & (third - 1):
            fault(s, ENUM_SIZE, at + 8, third)
        for i in range(vlen):
            check_name(s, at + 12 + <uint64_t>i * (8 if kind == 6 else 12), True, True)
    elif kind == 7:
        if third:
            fault(s, THIRD_WORD, at + 8, third)
    elif kind == 12:
        check_id(s, at + 8, 1 << 13)
        if vlen > 2:
            fault(s, LINKAGE, at + 4, vlen)
    elif kind == 13:
        check_id(s, at + 8, C_TYPES | 1)
        for i in range(vlen):
            end = at + 12 + 8 * <uint64_t>i
            check_name(s, end, True, False)
            check_id(s, end + 4, C_TYPES | 1)
            if word_at(layer, end + 4) == 0 and (i + 1 < vlen or word_at(layer, end)):
                fault(s, PARAM_VOID, end + 4, i)
    elif kind == 14:
        check_id(s, at + 8, C_TYPES | 1)
        if word_at(layer, at + 12) > 2:
            fault(s, LINKAGE, at + 12, word_at(layer, at + 12))
    elif kind == 15:
        for i in range(vlen):
            check_id(s, at + 12 + 12 * <uint64_t>i, 1 << 14 | 1 << 12)
            word = word_at(layer, at + 16 + 12 * <uint64_t>i)
            if third:
                if word < end:
                    fault(s, VARIABLE_ORDER, at + 16 + 12 * <uint64_t>i, word)
                end = <uint64_t>word + word_at(layer, at + 20 + 12 * <uint64_t>i)
                if end > third:
                    fault(s, VARIABLE_BOUNDS, at + 16 + 12 * <uint64_t>i, word)
    elif kind == 16:
        if third not in (2, 4, 8, 12, 16):
            fault(s, FLOAT_SIZE, at + 8, third)
    elif kind == 17:
        other = check_id(s, at + 8, 1 << 4 | 1 << 5 | 1 << 8 | 1 << 12 | 1 << 14)
        check_component(s, other, third, <int32_t>word_at(layer, at + 12))
    elif kind == 20:
        check_loc_param(s, vlen, kind_flag)
    elif kind == 21:
        for i in range(vlen):
            check_id(s, at + 12 + 4 * <uint64_t>i, 1 << 20 | 1)
        if third and layer.shape != SHAPE_RFC:
            fault(s, THIRD_WORD, at + 8, third)
        if kind_flag:
            fault(s, KIND_FLAG, at + 4, 1)
    elif kind == 22:
        check_locsec(s, vlen)
        if third:
            fault(s, THIRD_WORD, at + 8, third)
        if kind_flag:
            fault(s, KIND_FLAG, at + 4, 1)


cdef void check_component(State* s, uint32_t kind, uint32_t type_id, int32_t component) noexcept nogil:
    """The component index of a DECL_TAG on a type of this kind."""
    cdef const Layer* owner
    cdef uint32_t limit = 0
    if component == -1 or kind >= 32:
        return
    owner = layer_of(s.layer, type_id)
    if kind == 12:
        type_id = third_of(owner, type_id)
        if kind_of(owner, type_id) != 13:
            return
        owner = layer_of(owner, type_id)
        limit = word_at(owner, record_of(owner, type_id) + 4) & 0xFFFFFF
    elif kind == 4 or kind == 5:
        limit = word_at(owner, record_of(owner, type_id) + 4) & 0xFFFFFF
    if component < 0 or <uint32_t>component >= limit:
        fault(s, TAG_COMPONENT, s.at + 12, <uint32_t>component)


cdef int check_all(State* s, uint32_t pointer_size) noexcept nogil:
    cdef const Layer* layer = s.layer
    cdef uint32_t i, info, kind
    if visit(s, True, pointer_size) < 0 or visit(s, False, pointer_size) < 0:
        return -1
    for i in range(layer.end_id - layer.start_id):
        s.type_id = layer.start_id + i
        s.at = layer.offsets[i]
        info = word_at(layer, s.at + 4)
        kind = (info >> 24) & 0x7F
        if kind < 20 or (kind <= 22 and layer.shape != SHAPE_OTHER):
            check_type(s, kind, info & 0xFFFFFF, info >> 31)
    return 0


def check(Index index, uint32_t pointer_size):
    """Check the own types of ``index``; returns (rule number, times, first type id, its offset, the value) tuples."""
    cdef Found[34] found
    cdef State state
    cdef list chain = []
    cdef Index layer = index
    cdef uint64_t** sizes
    cdef uint32_t depth
    cdef int status = 0, rule
    memset(found, 0, sizeof(found))
    while layer is not None:
        chain.insert(0, layer)
        layer = layer.base
    sizes = <uint64_t**>calloc(len(chain), sizeof(uint64_t*))
    if sizes == NULL:
        raise MemoryError
    try:
        state.base_sizes = sizes
        for depth in range(len(chain)):
            layer = chain[depth]
            sizes[depth] = <uint64_t*>calloc(<uint64_t>(layer.layer.end_id - layer.layer.start_id) + 1, sizeof(uint64_t))
            if sizes[depth] == NULL:
                raise MemoryError
            state.layer = &layer.layer
            state.sizes = sizes[depth]
            state.found = NULL
            with nogil:
                if layer is not index:
                    status = visit(&state, True, pointer_size)
                else:
                    state.found = found
                    status = check_all(&state, pointer_size)
            if status < 0:
                raise MemoryError
    finally:
        for depth in range(len(chain)):
            free(sizes[depth])
        free(sizes)
    return [
        (rule, found[rule].count, found[rule].type_id, found[rule].offset, found[rule].value)
        for rule in range(RULES) if found[rule].count
    ]
