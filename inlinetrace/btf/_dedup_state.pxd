# cython: language_level=3
"""What the passes of deduplication share: the types as native words, where each is mapped, and the candidates."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcmp

from inlinetrace._arrays cimport grow
from inlinetrace.btf._index cimport Layer

cdef enum Failure:
    NO_FAILURE = 0
    NO_MEMORY = 1
    NO_TYPE = 2          # value: the id
    NO_STRING = 3        # value: the string offset
    UNKNOWN_KIND = 4     # value: the kind
    ODD_KIND = 5         # value: the kind
    LOOP = 6
    TOO_LONG = 7
    STRINGS_GROW = 8

cdef struct Pair:
    uint32_t first
    uint32_t second
    uint32_t depth

cdef struct Chain:
    uint64_t key
    uint32_t head
    uint32_t tail

cdef struct Candidates:
    Chain* chains
    uint32_t chain_count
    uint64_t chain_room
    uint32_t* slots          # chain number + 1
    uint32_t mask
    uint32_t* after          # by type id
    uint32_t* before         # by type id
    uint32_t* order          # by type id: how many were added before, and the parity then
    uint32_t count
    uint64_t capacity
    uint32_t parity

cdef struct Dedup:
    const Layer* layer
    uint32_t* words          # the records of all layers in native byte order, void first
    uint32_t* at             # by type id: where its record starts; one more than there are ids
    uint32_t start_id
    uint32_t end_id
    uint32_t* map            # by type id: what it is a duplicate of; itself if it stays
    uint32_t* hypothesis     # by type id: what it would have to be equal to
    uint32_t* assumed        # the type ids with a hypothesis, in order
    uint32_t assumed_count
    bint needs_base_change
    bint typedef_graphs      # TYPEDEFs are compared as structs are
    bint deep_identity       # doubled types are compared by content, not by ids
    Candidates candidates
    Pair* stack
    uint64_t stack_count
    uint64_t stack_room
    uint64_t steps
    uint64_t limit
    uint64_t seed
    int failure
    uint32_t failed_id
    uint64_t failed_value

cdef struct Fields:
    uint32_t fixed           # words between the three common ones and the elements
    uint32_t element         # words of an element
    uint32_t count           # elements
    int name                 # word of an element that is a string offset, -1 for none
    int first_id             # word of an element that is a type id, -1 for none
    int second_id
    bint third_is_id         # the third common word is a type id

cdef inline uint32_t kind_at(const Dedup* d, uint32_t type_id) noexcept nogil:
    return (d.words[d.at[type_id] + 1] >> 24) & 0x7F

cdef inline uint32_t vlen_at(const Dedup* d, uint32_t type_id) noexcept nogil:
    return d.words[d.at[type_id] + 1] & 0xFFFFFF

cdef inline bint is_mapped(const Dedup* d, uint32_t type_id) noexcept nogil:
    return d.map[type_id] < <uint32_t>0xFFFFFFFE

cdef inline uint32_t resolved(const Dedup* d, uint32_t type_id) noexcept nogil:
    """The end of the chain of mappings: every link leads from a root of its time to another root, so there are no loops."""
    cdef uint32_t other = d.map[type_id]
    while other != type_id and other < <uint32_t>0xFFFFFFFE:
        type_id = other
        other = d.map[type_id]
    return type_id

cdef inline int fail(Dedup* d, int failure, uint32_t type_id, uint64_t value) noexcept nogil:
    if d.failure == NO_FAILURE:
        d.failure, d.failed_id, d.failed_value = failure, type_id, value
    return -1

cdef inline bint spend(Dedup* d, uint64_t steps, uint32_t type_id) noexcept nogil:
    """Count steps whose number depends on how the input was chosen; False when there were too many."""
    d.steps += steps
    if d.steps > d.limit:
        fail(d, TOO_LONG, type_id, 0)
        return False
    return True

cdef inline bint push(Dedup* d, uint32_t first, uint32_t second, uint32_t depth) noexcept nogil:
    if grow(<void**>&d.stack, &d.stack_room, d.stack_count + 1, sizeof(Pair)):
        fail(d, NO_MEMORY, first, 0)
        return False
    d.stack[d.stack_count].first = first
    d.stack[d.stack_count].second = second
    d.stack[d.stack_count].depth = depth
    d.stack_count += 1
    return True

cdef inline uint64_t mixed(uint64_t h, uint64_t value) noexcept nogil:
    h = (h ^ value) * <uint64_t>0x9E3779B97F4A7C15
    return h ^ (h >> 29)

cdef inline uint64_t record_key(const Dedup* d, uint32_t type_id) noexcept nogil:
    """Hash of a whole record."""
    cdef const uint32_t* word = d.words + d.at[type_id]
    cdef const uint32_t* end = d.words + d.at[type_id + 1]
    cdef uint64_t h = d.seed
    while word < end:
        h = mixed(h, word[0])
        word += 1
    return mixed(h, 1)

cdef inline bint same_record(const Dedup* d, uint32_t first, uint32_t second) noexcept nogil:
    cdef uint32_t length = d.at[first + 1] - d.at[first]
    return d.at[second + 1] - d.at[second] == length \
        and memcmp(d.words + d.at[first], d.words + d.at[second], <size_t>length * 4) == 0

cdef inline uint32_t chain_first(const Candidates* c, uint32_t chain) noexcept nogil:
    return c.chains[chain].tail if c.parity else c.chains[chain].head

cdef inline uint32_t chain_next(const Candidates* c, uint32_t type_id) noexcept nogil:
    return c.before[type_id] if c.parity else c.after[type_id]

cdef inline bint stands_before(const Candidates* c, uint32_t first, uint32_t second) noexcept nogil:
    """Whether the candidate ``first`` would be tried before ``second`` if both were in one chain."""
    cdef uint32_t a = c.order[first], b = c.order[second]
    cdef uint32_t later = a if a > b else b
    return ((later & 1) == c.parity) == (later == a)

cdef int prepare_candidates(Candidates* c, uint32_t end_id) noexcept nogil
cdef void free_candidates(Candidates* c) noexcept nogil
cdef void fields_of(const Dedup* d, uint32_t type_id, bint rfc, Fields* f) noexcept nogil
cdef int64_t find_chain(const Candidates* c, uint64_t key) noexcept nogil
cdef int64_t make_chain(Candidates* c, uint64_t key) noexcept nogil
cdef void count_candidate(Candidates* c, uint32_t type_id) noexcept nogil
cdef void link_candidate(Candidates* c, uint32_t chain, uint32_t type_id) noexcept nogil
cdef void mark_ends(Candidates* c, uint32_t chain, uint32_t type_id) noexcept nogil
