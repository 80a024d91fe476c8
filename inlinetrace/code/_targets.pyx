# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The jumps of x86-64 code that a few places need to know, without decoding all of it.

A sweep begins anew wherever a function is known to start, so a stretch between two starts can be decoded alone with the
same result. Only those stretches are decoded that are asked for, and those in which a jump to a wanted address can be:
near ones, those with four bytes that are the displacement from there, and those with the bytes of a jump that may use a
table. The last are said to the caller, who knows what a table looks like (jumptables.py).
"""
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from inlinetrace._arrays cimport make_room
from inlinetrace.code._x86 cimport KIND_INDIRECT, KIND_JUMP, Instruction, decode_at
from inlinetrace.elf._search cimport count_up_to

cdef extern from *:
    """
    /* Whether one of 256 bytes, each with the next one, may be the opcode of "jmp *R", "jmp *table(,R,8)" (or "ljmp") or "xbegin". */
    static inline int it_has_rare(const unsigned char *at)
    {
        unsigned char any = 0;
        for (int i = 0; i < 256; i++) {
            unsigned char next = at[i + 1];
            any |= (at[i] == 0xff & ((next & 0xf8) == 0xe0 | (next & 0xf7) == 0x24)) | (at[i] == 0xc7 & next == 0xf8);
        }
        return any;
    }
    """
    int it_has_rare(const uint8_t* at) nogil

from array import array

cdef enum:
    BLOCK = 256
    FILTER = 1 << 16
    # Short jumps reach 128 bytes; an instruction has up to 15.
    NEAR = 160

cdef enum:
    M_WANTED = 1     # only jumps to wanted addresses count
    M_ALL = 2

cdef struct Question:
    const uint8_t* code
    uint64_t size
    uint64_t address
    const uint64_t* starts   # offsets
    uint64_t start_count
    const uint64_t* wanted
    uint64_t wanted_count
    uint8_t* filter          # one byte for each value of the low bits of an address
    uint8_t* marked          # one for each stretch, of M_*; the first is the one before the first start
    uint64_t* jumps          # pairs of addresses, source and target
    uint64_t jump_count
    uint64_t jump_room


cdef inline bint _is_wanted(Question* q, uint64_t address, uint64_t* at) noexcept nogil:
    if not q.filter[address & (FILTER - 1)]:
        return False
    at[0] = count_up_to(q.wanted, q.wanted_count, address)
    if not at[0]:
        return False
    at[0] -= 1
    return q.wanted[at[0]] == address


cdef inline void _mark(Question* q, uint64_t offset) noexcept nogil:
    q.marked[count_up_to(q.starts, q.start_count, offset)] |= M_WANTED


cdef void _mark_span(Question* q, uint64_t begin, uint64_t end) noexcept nogil:
    """All jumps of the stretches around the addresses [begin, end) are asked for."""
    cdef uint64_t stretch
    if begin < q.address:
        begin = q.address
    if end > q.address + q.size:
        end = q.address + q.size
    if begin >= end:
        return
    for stretch in range(count_up_to(q.starts, q.start_count, begin - q.address),
                         count_up_to(q.starts, q.start_count, end - 1 - q.address) + 1):
        q.marked[stretch] |= M_ALL


cdef void _mark_near(Question* q) noexcept nogil:
    cdef uint64_t i, stretch, first, last
    for i in range(q.wanted_count):
        if q.wanted[i] + NEAR < q.address or q.wanted[i] > q.address + q.size + NEAR:
            continue
        first = q.wanted[i] - q.address - NEAR if q.wanted[i] - q.address > NEAR and q.wanted[i] > q.address else 0
        last = min(q.wanted[i] + NEAR - q.address, q.size - 1)
        for stretch in range(count_up_to(q.starts, q.start_count, first), count_up_to(q.starts, q.start_count, last) + 1):
            q.marked[stretch] |= M_WANTED


cdef void _mark_far(Question* q) noexcept nogil:
    """Mark the stretches with a displacement of four bytes that leads to a wanted address."""
    cdef uint64_t at, target, index = 0
    cdef const uint8_t* code = q.code
    cdef const uint8_t* filter_ = q.filter
    cdef uint64_t behind = q.address + 4
    cdef int32_t displacement
    cdef uint8_t opcode
    if q.size < 5:
        return
    for at in range(1, q.size - 3):
        memcpy(&displacement, code + at, 4)
        target = behind + at + <uint64_t>displacement
        if filter_[target & (FILTER - 1)]:
            opcode = code[at - 1]
            # jmp, jcc, xbegin
            if (opcode == 0xe9 or opcode & 0xf0 == 0x80 or opcode == 0xf8) and _is_wanted(q, target, &index):
                _mark(q, at - 1)


cdef void _mark_rare(Question* q) noexcept nogil:
    cdef uint64_t block = 0, at, end
    cdef const uint8_t* code = q.code
    cdef uint8_t following
    while block < q.size:
        end = min(block + BLOCK, q.size - 1)
        if block + BLOCK < q.size and not it_has_rare(code + block):
            block += BLOCK
            continue
        for at in range(block, end):
            following = code[at + 1]
            if code[at] == 0xff:
                if following & 0xf8 == 0xe0:
                    _mark(q, at)
                elif following & 0xf7 == 0x24 and (at + 2 >= q.size or code[at + 2] & 0xc7 == 0xc5):
                    _mark(q, at)
            elif code[at] == 0xc7 and following == 0xf8:
                _mark(q, at)
        block += BLOCK


cdef inline bint _may_use_table(const uint8_t* at, unsigned length) noexcept nogil:
    """Whether an indirect jump is of one of the forms that ``_mark_rare`` looks for."""
    cdef unsigned i
    for i in range(length - 1):
        if at[i] == 0xff and (at[i + 1] & 0xf8 == 0xe0 or at[i + 1] & 0xf7 == 0x24):
            return True
    return False


cdef int _add(Question* q, uint64_t source, uint64_t target) except -1 nogil:
    make_room(<void**>&q.jumps, &q.jump_room, q.jump_count + 1, 2 * sizeof(uint64_t))
    q.jumps[2 * q.jump_count] = source
    q.jumps[2 * q.jump_count + 1] = target
    q.jump_count += 1
    return 0


cdef int _decode(Question* q, uint64_t stretch, list indirect) except -1 nogil:
    """Decode a stretch as a sweep of all the code does."""
    cdef uint64_t first = q.starts[stretch - 1] if stretch else 0
    cdef uint64_t limit = q.starts[stretch] if stretch < q.start_count else q.size
    cdef uint64_t at = first, target, index = 0
    cdef Instruction instruction
    cdef bint seen = False
    while at < limit:
        decode_at(q.code + at, q.size - at, &instruction)
        if instruction.length == 0:
            at += 1
            continue
        if instruction.length > limit - at:
            break
        if instruction.kind == KIND_JUMP:
            target = q.address + at + instruction.length + <uint64_t>instruction.displacement
            if q.marked[stretch] & M_ALL or _is_wanted(q, target, &index):
                _add(q, q.address + at, target)
        elif instruction.kind == KIND_INDIRECT and _may_use_table(q.code + at, instruction.length):
            with gil:
                if not seen:
                    indirect.append((first, limit, []))
                indirect[len(indirect) - 1][2].append(at)
            seen = True
        at += instruction.length
    return 0


cdef class Candidates:
    """See the stub."""

    cdef readonly object sources, targets
    cdef readonly list indirect


def candidates(const uint8_t[::1] code, uint64_t address, const uint64_t[::1] starts, const uint64_t[::1] wanted,
               const uint64_t[::1] begins=None, const uint64_t[::1] ends=None):
    """See the stub."""
    cdef Candidates result = Candidates()
    cdef Question q
    cdef uint64_t i, offset
    cdef uint64_t* known
    cdef list indirect = []
    result.sources = array("Q")
    result.targets = array("Q")
    result.indirect = indirect
    q.jumps = NULL
    q.jump_count = q.jump_room = 0
    q.size = code.shape[0]
    q.wanted_count = wanted.shape[0]
    if not q.size or not q.wanted_count:
        return result
    q.code = &code[0]
    q.address = address
    q.wanted = &wanted[0]
    q.start_count = 0
    known = <uint64_t*>malloc((starts.shape[0] + 1) * sizeof(uint64_t))
    q.filter = <uint8_t*>calloc(FILTER, 1)
    q.marked = <uint8_t*>calloc(starts.shape[0] + 1, 1)
    try:
        if known == NULL or q.filter == NULL or q.marked == NULL:
            raise MemoryError
        with nogil:
            for i in range(<uint64_t>starts.shape[0]):
                offset = starts[i] - address
                if starts[i] >= address and offset < q.size and (not q.start_count or offset > known[q.start_count - 1]):
                    known[q.start_count] = offset
                    q.start_count += 1
            q.starts = known
            for i in range(q.wanted_count):
                q.filter[q.wanted[i] & (FILTER - 1)] = 1
            if begins is not None:
                for i in range(<uint64_t>begins.shape[0]):
                    _mark_span(&q, begins[i], ends[i])
            _mark_near(&q)
            _mark_far(&q)
            _mark_rare(&q)
            for i in range(q.start_count + 1):
                if q.marked[i]:
                    _decode(&q, i, indirect)
        result.sources = array("Q", [q.jumps[2 * i] for i in range(q.jump_count)])
        result.targets = array("Q", [q.jumps[2 * i + 1] for i in range(q.jump_count)])
    finally:
        free(known)
        free(q.filter)
        free(q.marked)
        free(q.jumps)
    return result
