# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""x86-64 instructions: their length and where direct branches go, for a whole section at once.

``sweep`` decodes from one end of the code to the other without the GIL. What cannot be decoded is skipped byte by byte,
as disassemblers do, and recorded. Sources: Intel SDM volume 2, chapter 2 (formats) and appendix A (opcode maps); AMD APM
volume 3 (XOP, 3DNow!, SSE4a); Intel APX specification (REX2, EVEX map 4).

A decoder of lengths can accept a few encodings that raise #UD for a reason its tables do not have (reserved bits of a VEX
prefix, a memory operand where a register is due); it does not accept undefined opcodes.
"""
from array import array

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from inlinetrace._arrays cimport grow

cdef extern from *:
    """
    /* One byte per opcode: 0x80 there is a ModRM byte; 0x40 undefined in 64-bit mode; low bits the immediate. */
    enum {
        IT_NONE = 0, IT_BYTE = 1, IT_WORD = 2, IT_Z = 3, IT_V = 4, IT_ENTER = 5, IT_OFFSET = 6, IT_REL8 = 7, IT_REL32 = 8,
        IT_GROUP3 = 9, IT_PREFIX = 10
    };
    #define M 0x80
    #define U 0x40
    #define B IT_BYTE
    #define Z IT_Z
    #define P IT_PREFIX
    #define R IT_REL8
    static const unsigned char it_map0[256] = {
        M,M,M,M,B,Z,U,U, M,M,M,M,B,Z,U,P,               /* 00 */
        M,M,M,M,B,Z,U,U, M,M,M,M,B,Z,U,U,               /* 10 */
        M,M,M,M,B,Z,P,U, M,M,M,M,B,Z,P,U,               /* 20 */
        M,M,M,M,B,Z,P,U, M,M,M,M,B,Z,P,U,               /* 30 */
        P,P,P,P,P,P,P,P, P,P,P,P,P,P,P,P,               /* 40: REX */
        0,0,0,0,0,0,0,0, 0,0,0,0,0,0,0,0,               /* 50 */
        U,U,P,M,P,P,P,P, Z,M|Z,B,M|B,0,0,0,0,           /* 60: 62 is EVEX */
        R,R,R,R,R,R,R,R, R,R,R,R,R,R,R,R,               /* 70 */
        M|B,M|Z,U,M|B,M,M,M,M, M,M,M,M,M,M,M,M,         /* 80: 8f may be XOP */
        0,0,0,0,0,0,0,0, 0,0,U,0,0,0,0,0,               /* 90 */
        IT_OFFSET,IT_OFFSET,IT_OFFSET,IT_OFFSET,0,0,0,0, B,Z,0,0,0,0,0,0,    /* a0 */
        B,B,B,B,B,B,B,B, IT_V,IT_V,IT_V,IT_V,IT_V,IT_V,IT_V,IT_V,            /* b0 */
        M|B,M|B,IT_WORD,0,P,P,M|B,M|Z, IT_ENTER,0,IT_WORD,0,0,B,U,0,         /* c0: VEX; c6 c7 */
        M,M,M,M,U,P,U,0, M,M,M,M,M,M,M,M,               /* d0: d5 is REX2 */
        R,R,R,R,B,B,B,B, IT_REL32,IT_REL32,U,R,0,0,0,0, /* e0 */
        P,0,P,P,0,0,M|IT_GROUP3,M|IT_GROUP3, 0,0,0,0,0,0,M,M                 /* f0 */
    };
    #define J IT_REL32
    static const unsigned char it_map1[256] = {
        M,M,M,M,U,0,0,0, 0,0,U,0,U,M,0,M|B,             /* 00 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* 10 */
        M,M,M,M,U,U,U,U, M,M,M,M,M,M,M,M,               /* 20 */
        0,0,0,0,0,0,U,0, P,U,P,U,U,U,U,U,               /* 30 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* 40 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* 50 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* 60 */
        M|B,M|B,M|B,M|B,M,M,M,0, M,M,U,U,M,M,M,M,       /* 70 */
        J,J,J,J,J,J,J,J, J,J,J,J,J,J,J,J,               /* 80 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* 90 */
        0,0,0,M,M|B,M,U,U, 0,0,0,M,M|B,M,M,M,           /* a0 */
        M,M,M,M,M,M,M,M, M,M,M|B,M,M,M,M,M,             /* b0 */
        M,M,M|B,M,M|B,M|B,M|B,M, 0,0,0,0,0,0,0,0,       /* c0 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* d0 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M,               /* e0 */
        M,M,M,M,M,M,M,M, M,M,M,M,M,M,M,M                /* f0 */
    };
    #undef M
    #undef U
    #undef B
    #undef Z
    #undef P
    #undef R
    #undef J
    /* Legacy opcodes of the maps 0f 38 and 0f 3a that are defined; one bit each, from the lowest. */
    static const unsigned int it_map2_defined[8] = {
        0x70B10FFF, 0xFFBF0F3F, 0x00000003, 0x00000000, 0x00000C07, 0x00000000, 0xF900BF00, 0x1F630000 };
    static const unsigned int it_map3_defined[8] = {
        0x00F0FF00, 0x00000007, 0x00000017, 0x0000000F, 0x00000000, 0x00000000, 0x8000D000, 0x00010000 };
    /* Register forms of d8 to df that are defined (some of them as undocumented twins); one bit each for c0 to ff. */
    static const unsigned long long it_x87_defined[8] = {
        0xFFFFFFFFFFFFFFFFULL, 0xFFFF7F33FF01FFFFULL, 0x00000200FFFFFFFFULL, 0x00FFFF1FFFFFFFFFULL,
        0xFFFFFFFFFFFFFFFFULL, 0x0000FFFFFFFFFFFFULL, 0xFFFFFFFF02FFFFFFULL, 0x00FFFF01FFFFFFFFULL };
    #define it_unlikely(x) __builtin_expect(!!(x), 0)
    """
    const uint8_t it_map0[256]
    const uint8_t it_map1[256]
    const uint32_t it_map2_defined[8]
    const uint32_t it_map3_defined[8]
    const uint64_t it_x87_defined[8]
    bint it_unlikely(bint) noexcept nogil

cdef enum:
    IT_NONE = 0
    IT_BYTE = 1
    IT_WORD = 2
    IT_Z = 3             # four bytes, two with an operand-size prefix
    IT_V = 4             # as IT_Z, but eight with REX.W
    IT_ENTER = 5
    IT_OFFSET = 6        # an address: eight bytes, four with an address-size prefix
    IT_REL8 = 7
    IT_REL32 = 8
    IT_GROUP3 = 9        # f6, f7: an immediate for "test" alone
    IT_PREFIX = 10
    IT_MODRM = 0x80
    IT_UNDEFINED = 0x40

OTHER = KIND_OTHER
JUMP = KIND_JUMP
CALL = KIND_CALL
INDIRECT_JUMP = KIND_INDIRECT


cdef inline unsigned operand_length(const uint8_t* at, unsigned room) noexcept nogil:
    """Length of ModRM, SIB and displacement; more than ``room`` if they do not fit."""
    cdef uint8_t modrm
    cdef unsigned mod
    cdef unsigned length = 1
    if room < 1:
        return 1
    modrm = at[0]
    mod = modrm >> 6
    if mod == 3:
        return 1
    if modrm & 7 == 4:
        if room < 2:
            return 2
        length = 2
        if mod == 0 and at[1] & 7 == 5:
            return 6
    elif mod == 0 and modrm & 7 == 5:
        return 5
    if mod == 1:
        return length + 1
    return length + 4 if mod == 2 else length


cdef void decode_at(const uint8_t* code, uint64_t available, Instruction* out) noexcept nogil:
    """Decode the instruction at ``code``, of which ``available`` bytes may be read."""
    cdef unsigned room = 15 if available > 15 else <unsigned>available
    cdef unsigned at = 0
    cdef bint operand_size = False
    cdef bint address_size = False
    cdef bint repeat = False        # f2 or f3
    cdef bint lock = False
    cdef bint rex = False
    cdef bint wide = False
    cdef uint8_t opcode = 0
    cdef uint8_t entry = 0
    cdef uint8_t last_repeat = 0
    cdef uint8_t modrm = 0
    cdef uint8_t payload
    cdef unsigned map_number = 0
    cdef unsigned immediate = 0
    cdef int kind = KIND_OTHER
    cdef bint encoded = False       # VEX, EVEX or XOP
    cdef int32_t word
    out.length = 0
    out.kind = KIND_OTHER
    out.displacement = 0
    while True:
        if it_unlikely(at >= room):
            return
        opcode = code[at]
        at += 1
        entry = it_map0[opcode]
        if entry != IT_PREFIX:
            break
        if opcode & 0xf0 == 0x40:
            rex = True
            wide = (opcode & 8) != 0
            continue
        if opcode == 0x0f:
            if it_unlikely(at >= room):
                return
            opcode = code[at]
            at += 1
            map_number = 1
            entry = it_map1[opcode]
            if entry == IT_PREFIX:
                map_number = 2 if opcode == 0x38 else 3
                if it_unlikely(at >= room):
                    return
                opcode = code[at]
                at += 1
                if map_number == 2:
                    if not it_map2_defined[opcode >> 5] >> (opcode & 31) & 1:
                        return
                    entry = IT_MODRM
                else:
                    if not it_map3_defined[opcode >> 5] >> (opcode & 31) & 1:
                        return
                    entry = IT_MODRM | IT_BYTE
            break
        if opcode == 0xd5:
            # REX2: one byte with the map and W, then the opcode, which cannot be another prefix.
            if rex or at + 1 >= room:
                return
            payload = code[at]
            opcode = code[at + 1]
            at += 2
            rex = True
            wide = (payload & 8) != 0
            map_number = payload >> 7
            entry = it_map1[opcode] if map_number else it_map0[opcode]
            if entry == IT_PREFIX or entry & 15 in (IT_REL8, IT_REL32):
                return
            break
        if opcode == 0xc4 or opcode == 0xc5 or opcode == 0x62:
            # VEX and EVEX: no room for other prefixes than segments and the address size.
            if rex or operand_size or repeat or lock:
                return
            encoded = True
            if opcode == 0xc5:
                map_number = 1
                at += 1
            elif opcode == 0xc4:
                if at + 1 >= room:
                    return
                map_number = code[at] & 31
                wide = (code[at + 1] & 0x80) != 0
                at += 2
                if map_number == 0 or map_number > 3 and map_number != 5 and map_number != 7:
                    return
            else:
                if at + 2 >= room:
                    return
                map_number = code[at] & 7
                if map_number == 0 or (map_number != 4 and code[at] & 8):
                    return
                wide = (code[at + 1] & 0x80) != 0
                operand_size = code[at + 1] & 3 == 1
                at += 3
            if it_unlikely(at >= room):
                return
            opcode = code[at]
            at += 1
            if map_number == 1:
                entry = it_map1[opcode]
                if entry & IT_UNDEFINED and opcode not in (0x7a, 0x7b):
                    return
                entry = IT_MODRM | (entry & IT_BYTE if entry & 15 == IT_BYTE else 0)
                if opcode == 0x77 and code[at - 2] != 0x62 and map_number == 1:
                    entry = IT_NONE
            elif map_number == 3:
                entry = IT_MODRM | IT_BYTE
            elif map_number == 4:
                entry = it_map0[opcode]
                if opcode == 0x24 or opcode == 0x2c:
                    entry = IT_BYTE
                elif entry & 15 not in (IT_BYTE, IT_Z, IT_GROUP3) or not entry & IT_MODRM:
                    entry = 0
                entry |= IT_MODRM
            elif map_number == 7:
                # rdmsr, wrmsr, urdmsr and uwrmsr with an immediate
                if opcode != 0xf6 and opcode != 0xf8:
                    return
                entry = IT_MODRM | IT_Z
                operand_size = False
            else:
                entry = IT_MODRM
            break
        rex = False
        wide = False
        if opcode == 0x66:
            operand_size = True
        elif opcode == 0x67:
            address_size = True
        elif opcode == 0xf2 or opcode == 0xf3:
            repeat = True
            last_repeat = opcode
        elif opcode == 0xf0:
            lock = True
    if entry & IT_UNDEFINED:
        return
    if entry & IT_MODRM:
        if it_unlikely(at >= room):
            return
        modrm = code[at]
        if map_number == 0 and not encoded:
            if opcode == 0x8f and modrm & 0x38:
                # XOP: map 8 to 10 where pop has a register field of 0.
                if rex or operand_size or repeat or lock or at + 2 >= room or not 8 <= modrm & 31 <= 10:
                    return
                immediate = 1 if modrm & 31 == 8 else 4 if modrm & 31 == 10 else 0
                at += 3
                entry = IT_MODRM
            elif opcode == 0xff:
                if modrm >> 3 & 7 == 7 or modrm >= 0xc0 and (modrm >> 3 & 7 == 3 or modrm >> 3 & 7 == 5):
                    return
                if modrm >> 3 & 7 == 4 or modrm >> 3 & 7 == 5:
                    kind = KIND_INDIRECT
            elif opcode & 0xf8 == 0xd8:
                if modrm >= 0xc0 and not it_x87_defined[opcode & 7] >> (modrm & 63) & 1:
                    return
            elif opcode == 0x8d:
                if modrm >= 0xc0:
                    return
            elif opcode == 0xfe:
                if modrm >> 3 & 7 > 1:
                    return
            elif opcode == 0xc6 or opcode == 0xc7:
                if modrm == 0xf8:
                    if opcode == 0xc7:
                        kind = KIND_JUMP
                elif modrm & 0x38:
                    return
        elif map_number == 1 and not encoded:
            if 0x20 <= opcode <= 0x23:
                # Moves from and to control registers look at the register fields alone.
                at += 1
                entry = 0
            elif opcode == 0x78 and (operand_size or last_repeat == 0xf2):
                immediate = 2
            elif opcode == 0xb8 and last_repeat != 0xf3:
                return
        if entry & IT_MODRM:
            at += operand_length(code + at, room - at)
        if entry & 15 == IT_GROUP3:
            entry = (IT_BYTE if opcode == 0xf6 else IT_Z) if modrm >> 3 & 7 < 2 else 0
    entry &= 15
    if entry == IT_BYTE:
        immediate = 1
    elif entry == IT_Z:
        immediate = 2 if operand_size and not wide else 4
    elif entry == IT_V:
        immediate = 8 if wide else 2 if operand_size else 4
    elif entry == IT_WORD:
        immediate = 2
    elif entry == IT_ENTER:
        immediate = 3
    elif entry == IT_OFFSET:
        immediate = 4 if address_size else 8
    elif entry == IT_REL8:
        immediate = 1
        kind = KIND_JUMP
    elif entry == IT_REL32:
        # With an operand-size prefix Intel reads four bytes and AMD two: no length is right everywhere.
        if operand_size and not wide:
            return
        immediate = 4
        kind = KIND_CALL if opcode == 0xe8 and map_number == 0 else KIND_JUMP
    at += immediate
    if it_unlikely(at > room):
        return
    if kind == KIND_JUMP or kind == KIND_CALL:
        if immediate == 1:
            out.displacement = <int8_t>code[at - 1]
        elif immediate == 4:
            memcpy(&word, code + at - 4, 4)
            out.displacement = word
        else:
            out.displacement = <int64_t>(code[at - 2] | <int64_t><int8_t>code[at - 1] << 8)
    out.length = at
    out.kind = kind


cdef struct Growing:
    uint64_t* items
    uint64_t count
    uint64_t room


cdef inline int push(Growing* list, uint64_t item) noexcept nogil:
    if grow(<void**>&list.items, &list.room, list.count + 1, sizeof(uint64_t)):
        return -1
    list.items[list.count] = item
    list.count += 1
    return 0


cdef take(Growing* list):
    """Return the items as an array."""
    items = array("Q", bytes(8 * list.count))
    cdef uint64_t[::1] view
    if list.count:
        view = items
        memcpy(&view[0], list.items, list.count * 8)
    return items


cdef class Sweep:
    """What a linear sweep found; all positions are addresses.

    ``sources``, ``ends`` and ``targets``: direct jumps (no calls), in the order of the code; an end is the address behind
    the jump. ``indirect``: jumps through a register or memory. ``undecoded``: pairs of first address and address behind the
    last, of stretches that are no instructions.
    """

    cdef readonly uint64_t address
    cdef readonly uint64_t size
    cdef readonly uint64_t instruction_count
    cdef readonly object sources
    cdef readonly object ends
    cdef readonly object targets
    cdef readonly object indirect
    cdef readonly object undecoded
    cdef uint8_t* bits

    def __cinit__(self):
        self.bits = NULL

    def __dealloc__(self):
        free(self.bits)

    def starts(self, uint64_t offset):
        """Tell whether an instruction starts at ``offset`` of the code."""
        return offset < self.size and (self.bits[offset >> 3] >> (offset & 7) & 1) != 0

    def previous(self, uint64_t offset):
        """Return the last start before ``offset``, -1 if there is none."""
        if offset > self.size:
            offset = self.size
        while offset:
            offset -= 1
            if self.bits[offset >> 3] >> (offset & 7) & 1:
                return offset
        return -1

    def following(self, uint64_t offset):
        """Return the first start behind ``offset``, -1 if there is none."""
        offset += 1
        while offset < self.size:
            if self.bits[offset >> 3] >> (offset & 7) & 1:
                return offset
            offset += 1
        return -1

    def boundaries(self):
        """Return the addresses of all instructions."""
        cdef uint64_t offset
        cdef uint64_t n = 0
        found = array("Q", bytes(8 * self.instruction_count))
        if not self.instruction_count:
            return found
        cdef uint64_t[::1] view = found
        for offset in range(self.size):
            if self.bits[offset >> 3] >> (offset & 7) & 1:
                view[n] = self.address + offset
                n += 1
        return found


cdef int run(
    Sweep result, const uint8_t* code, uint64_t size, const uint64_t[::1] known,
    Growing* sources, Growing* ends, Growing* targets, Growing* indirect, Growing* undecoded,
) noexcept nogil:
    cdef uint64_t at = 0
    cdef uint64_t next_known = 0
    cdef uint64_t known_count = known.shape[0]
    cdef uint64_t limit
    cdef uint64_t count = 0
    cdef uint64_t address = result.address
    cdef uint64_t bad_start = 0
    cdef uint64_t bad_end = 0
    cdef uint64_t until
    cdef bint bad = False
    cdef Instruction instruction
    while at < size:
        while next_known < known_count and known[next_known] <= at:
            next_known += 1
        limit = known[next_known] if next_known < known_count and known[next_known] < size else size
        decode_at(code + at, size - at, &instruction)
        if instruction.length == 0 or instruction.length > limit - at:
            # Not an instruction, or one that would run over the place where the next function is known to start.
            until = at + 1 if instruction.length == 0 else limit
            if bad and bad_end == at:
                bad_end = until
            else:
                if bad and (push(undecoded, address + bad_start) or push(undecoded, address + bad_end)):
                    return -1
                bad = True
                bad_start = at
                bad_end = until
            at = until
            continue
        result.bits[at >> 3] |= 1 << (at & 7)
        count += 1
        if instruction.kind != KIND_OTHER:
            if instruction.kind == KIND_JUMP:
                if push(sources, address + at) or push(ends, address + at + instruction.length) or \
                        push(targets, address + at + instruction.length + <uint64_t>instruction.displacement):
                    return -1
            elif instruction.kind == KIND_INDIRECT:
                if push(indirect, address + at):
                    return -1
        at += instruction.length
    if bad and (push(undecoded, address + bad_start) or push(undecoded, address + bad_end)):
        return -1
    result.instruction_count = count
    return 0


def decode(const uint8_t[::1] code, uint64_t offset):
    """Decode one instruction: its length (0: none), its kind, and where a direct branch goes, as an offset."""
    cdef Instruction instruction
    cdef uint64_t size = code.shape[0]
    if offset >= size:
        return 0, KIND_OTHER, 0
    decode_at(&code[0] + offset, size - offset, &instruction)
    if instruction.kind not in (KIND_JUMP, KIND_CALL):
        return instruction.length, instruction.kind, 0
    return instruction.length, instruction.kind, <int64_t>(offset + instruction.length) + instruction.displacement


def sweep(const uint8_t[::1] code, uint64_t address, const uint64_t[::1] known):
    """Decode all of ``code``, which is loaded at ``address``.

    ``known``: ascending offsets where an instruction is known to start (functions). The sweep never runs over one.
    """
    cdef Sweep result = Sweep()
    cdef Growing sources, ends, targets, indirect, undecoded
    cdef uint64_t size = code.shape[0]
    cdef int failed
    memset(&sources, 0, sizeof(Growing))
    memset(&ends, 0, sizeof(Growing))
    memset(&targets, 0, sizeof(Growing))
    memset(&indirect, 0, sizeof(Growing))
    memset(&undecoded, 0, sizeof(Growing))
    result.address = address
    result.size = size
    result.bits = <uint8_t*>malloc(size // 8 + 1)
    if result.bits == NULL:
        raise MemoryError
    memset(result.bits, 0, size // 8 + 1)
    cdef const uint8_t* start = &code[0] if size else NULL
    with nogil:
        failed = run(result, start, size, known, &sources, &ends, &targets, &indirect, &undecoded)
    try:
        if failed:
            raise MemoryError
        result.sources = take(&sources)
        result.ends = take(&ends)
        result.targets = take(&targets)
        result.indirect = take(&indirect)
        result.undecoded = take(&undecoded)
    finally:
        free(sources.items)
        free(ends.items)
        free(targets.items)
        free(indirect.items)
        free(undecoded.items)
    return result


def sort_by_target(sources, targets):
    """Return both arrays in the order of the targets, and of the sources where targets are equal."""
    cdef uint64_t count = len(targets)
    by_target = array("Q", targets)
    by_source = array("Q", sources)
    if count < 2:
        return by_source, by_target
    cdef uint64_t[::1] from_targets = by_target
    cdef uint64_t[::1] from_sources = by_source
    cdef uint64_t* spare = <uint64_t*>malloc(count * 16)
    if spare == NULL:
        raise MemoryError
    with nogil:
        radix_sort(&from_targets[0], &from_sources[0], spare, spare + count, count)
    free(spare)
    return by_source, by_target


cdef void radix_sort(
    uint64_t* keys, uint64_t* values, uint64_t* spare_keys, uint64_t* spare_values, uint64_t count
) noexcept nogil:
    """Stable sort of pairs by key, 11 bits a pass; the result is in ``keys`` and ``values``."""
    cdef uint64_t counts[2048]
    cdef uint64_t differing = 0
    cdef uint64_t i
    cdef uint64_t total
    cdef uint64_t following
    cdef unsigned shift = 0
    cdef unsigned digit
    for i in range(1, count):
        differing |= keys[i] ^ keys[0]
    while shift < 64:
        if differing >> shift & 2047:
            memset(counts, 0, sizeof(counts))
            for i in range(count):
                counts[keys[i] >> shift & 2047] += 1
            total = 0
            for digit in range(2048):
                following = total + counts[digit]
                counts[digit] = total
                total = following
            for i in range(count):
                digit = keys[i] >> shift & 2047
                spare_keys[counts[digit]] = keys[i]
                spare_values[counts[digit]] = values[i]
                counts[digit] += 1
            memcpy(keys, spare_keys, count * 8)
            memcpy(values, spare_values, count * 8)
        shift += 11


def patch_jumps(
    sources, ends, targets, bases, const uint64_t[::1] places, const uint64_t[::1] values, const uint8_t[::1] inside
):
    """Resolve the jumps whose displacement has a relocation; returns new sources and targets.

    Jumps ascend by source and span [source, end); ``places`` ascend. A jump with a place in it goes to
    base + value - place, or is left out where ``inside`` is 0: its symbol is not in this file.
    """
    cdef uint64_t count = len(sources)
    new_sources = array("Q", sources)
    new_targets = array("Q", targets)
    if not count:
        return new_sources, new_targets
    cdef uint64_t[::1] out_sources = new_sources
    cdef uint64_t[::1] out_targets = new_targets
    cdef const uint64_t[::1] in_ends = ends
    cdef const uint64_t[::1] in_bases = bases
    cdef uint64_t place_count = places.shape[0]
    cdef uint64_t at = 0
    cdef uint64_t used = 0
    cdef uint64_t i
    with nogil:
        for i in range(count):
            while at < place_count and places[at] < out_sources[i]:
                at += 1
            if at < place_count and places[at] < in_ends[i]:
                if not inside[at]:
                    continue
                out_targets[used] = in_bases[i] + values[at] - places[at]
            else:
                out_targets[used] = out_targets[i]
            out_sources[used] = out_sources[i]
            used += 1
    out_sources = None
    out_targets = None
    del new_sources[used:]
    del new_targets[used:]
    return new_sources, new_targets
