# cython: language_level=3, boundscheck=False, wraparound=False
"""Whether two types are equal with all that they are made of, cycles included.

Both graphs are walked side by side, depth first. Each type of the canonical graph gets a hypothesis, the type of the
other graph that it has to be equal to; meeting it again with another one is a contradiction, unless the two are the
same type that the compiler wrote twice. A FWD fits a struct or union of its name. If the walk ends without a
contradiction the graphs are equivalent, and what the hypotheses say of FWDs and structs is kept.
"""
from libc.stdint cimport uint32_t, uint64_t

from inlinetrace.btf._dedup_state cimport (
    ODD_KIND, Dedup, fail, is_mapped, kind_at, push, resolved, same_record, spend, vlen_at,
)

cdef enum:
    INT = 1
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    FUNC_PROTO = 13
    FLOAT = 16
    ENUM64 = 19
    IDENTITY_DEPTH = 16      # types inside each other that are compared when one was written twice

cdef uint32_t NO_HYPOTHESIS = 0xFFFFFFFF


cdef bint refers_once(uint32_t kind) noexcept nogil:
    """PTR, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, TYPE_TAG."""
    return kind == 2 or 8 <= kind <= 12 or kind == 18


cdef bint is_enum(uint32_t kind) noexcept nogil:
    return kind == ENUM or kind == ENUM64


cdef uint32_t kind_of_fwd(const Dedup* d, uint32_t type_id) noexcept nogil:
    return UNION if d.words[d.at[type_id] + 1] >> 31 else STRUCT


cdef bint same_head(const Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    """Equal in name, info and third word."""
    cdef const uint32_t* a = d.words + d.at[first]
    cdef const uint32_t* b = d.words + d.at[second]
    return a[0] == b[0] and a[1] == b[1] and a[2] == b[2]


cdef bint same_shape(const Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    """Two structs or unions that are equal but for the types of their members."""
    cdef const uint32_t* a = d.words + d.at[first]
    cdef const uint32_t* b = d.words + d.at[second]
    cdef uint32_t i
    if a[0] != b[0] or a[1] != b[1] or a[2] != b[2]:
        return False
    for i in range(vlen_at(d, first)):
        a += 3
        b += 3
        if a[0] != b[0] or a[2] != b[2]:
            return False
    return True


cdef bint same_parameter_names(const Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    cdef const uint32_t* a = d.words + d.at[first]
    cdef const uint32_t* b = d.words + d.at[second]
    cdef uint32_t i
    if a[0] != b[0] or a[1] != b[1]:
        return False
    for i in range(vlen_at(d, first)):
        if a[3 + 2 * <uint64_t>i] != b[3 + 2 * <uint64_t>i]:
            return False
    return True


cdef bint compatible_enums(const Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    """Equal, or one of them (or both) is only a declaration of the name."""
    if vlen_at(d, first) and vlen_at(d, second):
        return same_record(d, first, second)
    return d.words[d.at[first]] == d.words[d.at[second]] and is_enum(kind_at(d, first)) and is_enum(kind_at(d, second))


cdef int identical_by_id(Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    """Arrays, structs and unions equal down to the ids they refer to, or to such arrays, structs and unions again."""
    cdef uint64_t bottom = d.stack_count
    cdef const uint32_t* a
    cdef const uint32_t* b
    cdef uint32_t kind, i
    if not push(d, first, second, 0):
        return -1
    while d.stack_count > bottom:
        d.stack_count -= 1
        first, second = d.stack[d.stack_count].first, d.stack[d.stack_count].second
        if not spend(d, 1, first):
            return -1
        kind = kind_at(d, first)
        if kind == ARRAY:
            if not same_record(d, first, second):
                break
        elif kind == STRUCT or kind == UNION:
            if not same_shape(d, first, second):
                break
            a = d.words + d.at[first]
            b = d.words + d.at[second]
            for i in range(vlen_at(d, first)):
                a += 3
                b += 3
                if a[1] != b[1] and not push(d, a[1], b[1], 0):
                    return -1
        else:
            break
    else:
        return 1
    d.stack_count = bottom
    return 0


cdef int identical_by_content(Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    """Equal in content, to a depth of 16 types with several parts inside each other; -1 if that takes too long."""
    cdef uint64_t bottom = d.stack_count
    cdef const uint32_t* a
    cdef const uint32_t* b
    cdef uint32_t kind, depth, i
    if not push(d, first, second, IDENTITY_DEPTH):
        return -1
    while d.stack_count > bottom:
        d.stack_count -= 1
        first, second, depth = d.stack[d.stack_count].first, d.stack[d.stack_count].second, d.stack[d.stack_count].depth
        if not spend(d, 1, first):
            return -1
        if depth == 0:
            break
        kind = kind_at(d, first)
        if kind != kind_at(d, second):
            break
        if kind == 0:
            continue
        a = d.words + d.at[first]
        b = d.words + d.at[second]
        if kind == INT or kind == FWD or kind == FLOAT:
            if not same_record(d, first, second):
                break
        elif is_enum(kind):
            if not compatible_enums(d, first, second):
                break
        elif refers_once(kind):
            if a[0] != b[0] or a[1] != b[1] or not push(d, a[2], b[2], depth):
                break
        elif kind == ARRAY:
            if not same_head(d, first, second) or a[5] != b[5]:
                break
            if a[4] != b[4] and not push(d, a[4], b[4], depth - 1):
                break
            if a[3] != b[3] and not push(d, a[3], b[3], depth - 1):
                break
        elif kind == STRUCT or kind == UNION:
            if not same_shape(d, first, second):
                break
            for i in range(vlen_at(d, first)):
                a += 3
                b += 3
                if a[1] != b[1] and not push(d, a[1], b[1], depth - 1):
                    return -1
        elif kind == FUNC_PROTO:
            if not same_parameter_names(d, first, second):
                break
            if a[2] != b[2] and not push(d, a[2], b[2], depth - 1):
                break
            for i in range(vlen_at(d, first)):
                a += 2
                b += 2
                if a[2] != b[2] and not push(d, a[2], b[2], depth - 1):
                    return -1
        else:
            break
    else:
        return 1
    d.stack_count = bottom
    return -1 if d.failure else 0


cdef bint push_difference(Dedup* d, uint32_t candidate, uint32_t canonical) noexcept nogil:
    """Have a pair compared later; nothing has to be if both are duplicates of one type."""
    if candidate == canonical or resolved(d, candidate) == resolved(d, canonical):
        return True
    return push(d, candidate, canonical, 0)


cdef int compare(Dedup* d, uint32_t candidate, uint32_t canonical) noexcept nogil:
    """One pair of the walk: 1 if nothing contradicts so far, 0 if something does, -1 after a failure."""
    cdef uint32_t other, kind, canonical_kind, i, real, declared
    cdef const uint32_t* a
    cdef const uint32_t* b
    if not spend(d, 1, candidate):
        return -1
    other = resolved(d, canonical)
    if resolved(d, candidate) == other:
        return 1
    if kind_at(d, canonical) == FWD and kind_at(d, other) != FWD:
        canonical = other
    other = d.hypothesis[canonical]
    if other != NO_HYPOTHESIS:
        if other == candidate:
            return 1
        return identical_by_content(d, other, candidate) if d.deep_identity else identical_by_id(d, other, candidate)
    d.assumed[d.assumed_count] = canonical
    d.assumed_count += 1
    d.hypothesis[canonical] = candidate
    a = d.words + d.at[candidate]
    b = d.words + d.at[canonical]
    if a[0] != b[0]:
        return 0
    kind = kind_at(d, candidate)
    canonical_kind = kind_at(d, canonical)
    if kind != canonical_kind:
        if kind == FWD:
            real, declared = canonical_kind, kind_of_fwd(d, candidate)
        elif canonical_kind == FWD:
            real, declared = kind, kind_of_fwd(d, canonical)
            if real == declared and canonical < d.start_id:
                # a FWD of the base would have to become a struct, but bases are not changed
                d.needs_base_change = True
        else:
            return 0
        return real == declared
    if kind == INT or kind == FWD or kind == FLOAT:
        return same_record(d, candidate, canonical)
    if is_enum(kind):
        return compatible_enums(d, candidate, canonical)
    if refers_once(kind):
        if a[1] != b[1]:
            return 0
        return 1 if push_difference(d, a[2], b[2]) else -1
    # the last is pushed first: the order of the walk decides which hypothesis is made first
    if kind == ARRAY:
        if a[1] != b[1] or a[2] != b[2] or a[5] != b[5]:
            return 0
        return 1 if push_difference(d, a[3], b[3]) and push_difference(d, a[4], b[4]) else -1
    if kind == STRUCT or kind == UNION:
        if not same_shape(d, candidate, canonical):
            return 0
        i = vlen_at(d, candidate)
        while i > 0:
            i -= 1
            if not push_difference(d, a[4 + 3 * <uint64_t>i], b[4 + 3 * <uint64_t>i]):
                return -1
        return 1
    if kind == FUNC_PROTO:
        if not same_parameter_names(d, candidate, canonical):
            return 0
        i = vlen_at(d, candidate)
        while i > 0:
            i -= 1
            if not push_difference(d, a[4 + 2 * <uint64_t>i], b[4 + 2 * <uint64_t>i]):
                return -1
        return 1 if push_difference(d, a[2], b[2]) else -1
    return fail(d, ODD_KIND, candidate, kind)


cdef void forget(Dedup* d) noexcept nogil:
    """Drop the hypotheses of the last walk."""
    cdef uint32_t i
    for i in range(d.assumed_count):
        d.hypothesis[d.assumed[i]] = NO_HYPOTHESIS
    d.assumed_count = 0
    d.needs_base_change = False


cdef int equivalent(Dedup* d, uint32_t candidate, uint32_t canonical) noexcept nogil:
    """1 if the two graphs are equivalent, 0 if not, -1 after a failure. Hypotheses are left for ``keep_hypothesis``."""
    cdef int status
    d.stack_count = 0
    if not push(d, candidate, canonical, 0):
        return -1
    while d.stack_count:
        d.stack_count -= 1
        status = compare(d, d.stack[d.stack_count].first, d.stack[d.stack_count].second)
        if status != 1:
            return status
    return 1


cdef void keep_hypothesis(Dedup* d) noexcept nogil:
    """Map what two equivalent graphs say: FWDs to their structs, structs to those that stay already."""
    cdef uint32_t i, candidate, canonical, kind, canonical_kind
    for i in range(d.assumed_count):
        candidate = resolved(d, d.hypothesis[d.assumed[i]])
        canonical = resolved(d, d.assumed[i])
        kind = kind_at(d, candidate)
        canonical_kind = kind_at(d, canonical)
        if kind != FWD and canonical_kind == FWD:
            # also for a FWD of the base: the object's own FWDs are duplicates of it
            d.map[canonical] = candidate
        if d.needs_base_change:
            continue
        if kind == FWD and canonical_kind != FWD:
            d.map[candidate] = canonical
        elif (kind == STRUCT or kind == UNION) and canonical_kind != FWD and is_mapped(d, canonical) \
                and not is_mapped(d, candidate):
            d.map[candidate] = canonical
