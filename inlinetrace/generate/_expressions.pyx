# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The expressions that nearly all locations are, resolved to the form of a LOC_PARAM without the GIL.

The meaning of every expression is that of inlinetrace.sites.resolve, sites.doubt and generate.forms; this is the same
for those whose operations only move and add up registers, the frame base, constants and addresses. Whatever computes
more is known to have no form and needs no nodes. What is not certain here is left to them: resolve_simple says so.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from inlinetrace.dwarf._cursor cimport (
    Cursor, ERR_NONE, make_cursor, read_sleb, read_u8, read_uint, read_uleb, skip,
)
from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._frame_entries cimport Fde
from inlinetrace.dwarf._frames cimport CFA_REGISTER, Row

from inlinetrace.errors import FormatError
from inlinetrace.sites.reasons import Doubt, Reason

REASONS = tuple([reason.value for reason in Reason])
DOUBTS = tuple([doubt.value for doubt in Doubt])

cdef enum:
    F_SIGNED = 0x01
    F_CONST = 0x02
    F_ADDR = 0x04
    F_REG = 0x08
    F_DEREF = 0x10
    F_OFFSET = 0x20

cdef enum:
    # kinds of values on the stack
    K_CONSTANT = 0
    K_ADDRESS = 1
    K_REGISTER = 2           # register plus offset
    K_LOADED = 3             # memory at register plus offset, plus another number
    K_COMPUTED = 4           # nothing that a form could say, whatever is done to it

cdef enum:
    MAX_DEPTH = 16
    MAX_OPERATIONS = 64
    MAX_READABLE = 1024
    MAX_PIECES = 64
    MAX_PIECE_OFFSET = 1 << 23   # bits
    MAX_FORM_SIZE = 16
    MAX_CONSTANT_SIZE = 8
    MAX_VALUE_SIZE = 1 << 20
    RFC_FRAME_BASE = 33
    NO_REGISTER = 0x7fffffff

cdef enum:
    # how much of a parameter a piece is
    WHOLE_PIECE = 0
    SMALL_PIECE = 1
    STRANGE_PIECE = 2

cdef struct Number:
    int kind
    bint framed
    uint64_t a               # constant or address, or what is added to what was loaded
    uint64_t register_number
    int64_t offset
    uint64_t loaded          # bytes


cdef uint8_t status_of(object reason) except 0:
    return <uint8_t>(1 + REASONS.index(reason.value))


cdef uint8_t doubt_of(object doubt) except? 255:
    return 0 if doubt is None else <uint8_t>(1 + DOUBTS.index(doubt.value))


cdef uint8_t NO_LOCATION = status_of(Reason.NO_LOCATION)
cdef uint8_t ENTRY_VALUE = status_of(Reason.ENTRY_VALUE)
cdef uint8_t IMPLICIT_POINTER = status_of(Reason.IMPLICIT_POINTER)
cdef uint8_t PARTLY = status_of(Reason.PARTLY)
cdef uint8_t VECTOR = status_of(Reason.VECTOR_REGISTER)
cdef uint8_t NO_FRAME = status_of(Reason.NO_FRAME)
cdef uint8_t NO_FORM = status_of(Reason.NO_FORM)
cdef uint8_t UNSUPPORTED = status_of(Reason.UNSUPPORTED)
cdef uint8_t COMPILER = doubt_of(Doubt.COMPILER)
cdef uint8_t SINGLE_REGISTER = doubt_of(Doubt.SINGLE_REGISTER)
cdef uint8_t UNSTORED_SLOT = doubt_of(Doubt.UNSTORED_SLOT)


cdef class Frames:
    """See the stub."""

    def __cinit__(self, tuple tables not None):
        if len(tables) > 2:
            raise ValueError("a file has .debug_frame and .eh_frame at most")
        self.first = tables[0] if tables else None
        self.second = tables[1] if len(tables) > 1 else None
        self.broken = False
        try:
            if self.first is not None:
                self.first._build_index()
            if self.second is not None:
                self.second._build_index()
        except FormatError:
            # whoever needs a frame gets the error from the ordinary reader
            self.broken = True

    cdef int cfa(self, uint64_t pc, uint64_t* register_number, int64_t* offset) noexcept nogil:
        """Register and offset of the CFA at ``pc``: 1, or 0 if it has none, or -1 for a table that is malformed there."""
        cdef Fde* fde = NULL
        cdef Row row
        cdef uint64_t error_at = 0
        cdef int error = ERR_NONE
        if self.broken:
            return -1
        # a reference of its own to a table would need the GIL
        if self.first is not None:
            fde = self.first.find_fde(pc)
            if fde != NULL:
                error = self.first.row_at(fde, pc, NO_REGISTER, &row, &error_at)
        if fde == NULL and self.second is not None:
            fde = self.second.find_fde(pc)
            if fde != NULL:
                error = self.second.row_at(fde, pc, NO_REGISTER, &row, &error_at)
        if fde == NULL:
            return 0
        if error != ERR_NONE:
            return -1
        if row.cfa.kind != CFA_REGISTER:
            return 0
        register_number[0] = row.cfa.register_number
        offset[0] = row.cfa.offset
        return 1


cdef bint same_form(const Form* a, const Form* b) noexcept nogil:
    cdef uint32_t i
    if a.size != b.size or a.flags != b.flags or a.count != b.count:
        return False
    for i in range(a.count):
        if a.values[i] != b.values[i]:
            return False
    return True


cdef bint fits(const Target* target, const Form* form) noexcept nogil:
    """See forms.fits."""
    cdef uint32_t i, registers, size = form.size
    if not target.rfc:
        return True
    if form.flags & (F_CONST | F_DEREF) and size != 1 and size != 2 and size != 4 and size != 8:
        return False
    if form.flags & F_CONST:
        return not form.flags & F_ADDR
    if form.flags & F_OFFSET and form.count != 2:
        return False
    registers = 1 if form.flags & F_OFFSET else form.count
    for i in range(registers):
        if form.values[i] > 0xffff or form.values[i] == RFC_FRAME_BASE:
            return False
    return True


cdef inline int _refused(Outcome* out, uint8_t status) noexcept nogil:
    out.status = status
    return 0


cdef int constant_outcome(const Target* target, uint64_t number, uint64_t size, bint is_signed,
                          Outcome* out) noexcept nogil:
    """See forms.constant_form."""
    cdef uint64_t bits
    out.shape = S_CONSTANT
    if size > MAX_CONSTANT_SIZE:
        return _refused(out, NO_FORM)
    bits = 8 * size
    if bits < 64:
        number &= (1ULL << bits) - 1
    out.form.size = <uint32_t>size
    out.form.flags = F_CONST
    if is_signed and number >> (bits - 1):
        out.form.flags |= F_SIGNED
        if bits < 64:
            number |= ~((1ULL << bits) - 1)
    out.form.values[0] = <uint32_t>number
    out.form.count = 1
    if size > 4:
        out.form.values[1] = <uint32_t>(number >> 32)
        out.form.count = 2
    return 0


cdef int _address_outcome(const Target* target, uint64_t address, uint64_t size, Outcome* out) noexcept nogil:
    """See forms.address_form."""
    cdef bint below = address < target.image_base
    if not target.has_image_base or size > MAX_CONSTANT_SIZE:
        return _refused(out, NO_FORM)
    constant_outcome(target, address if below else address - target.image_base, size, False, out)
    out.shape = S_PLAIN
    if not below:
        out.form.flags |= F_ADDR
    return 0


cdef int _register_outcome(uint64_t number, int64_t offset, bint memory, uint64_t size, Outcome* out) noexcept nogil:
    if size > MAX_FORM_SIZE:
        return _refused(out, NO_FORM)
    out.form.size = <uint32_t>size
    out.form.flags = F_REG
    out.form.values[0] = <uint32_t>number
    out.form.count = 1
    if memory:
        out.form.flags |= F_DEREF
    if offset:
        out.form.flags |= F_OFFSET
        if offset < 0:
            out.form.flags |= F_SIGNED
        out.form.values[1] = <uint32_t><uint64_t>offset
        out.form.count = 2
        if offset < -0x80000000LL or offset > 0x7fffffffLL:
            out.form.values[2] = <uint32_t>(<uint64_t>offset >> 32)
            out.form.count = 3
    return 0


cdef inline int64_t _wrapped(uint64_t number, uint64_t mask) noexcept nogil:
    """``number`` as a signed one of the width of an address."""
    number &= mask
    if number > mask >> 1 and mask != 0xffffffffffffffffULL:
        return <int64_t>(number | ~mask)
    return <int64_t>number


cdef inline void _plus(Number* number, uint64_t added, uint64_t mask) noexcept nogil:
    """Add a constant, as _Resolver._offset does."""
    if number.kind == K_REGISTER:
        number.offset = _wrapped(<uint64_t>number.offset + added, mask)
    elif number.kind != K_COMPUTED:
        number.a = (number.a + added) & mask


cdef int resolve_simple(const Target* target, Frames frames, UnitHeader* unit, const uint8_t* data, uint64_t length,
                        uint64_t size, bint is_signed, const Place* place, Outcome* out) noexcept nogil:
    """Resolve an expression for a parameter of ``size`` bytes: 0 with the outcome, or 1 if it is not simple."""
    cdef Cursor c = make_cursor(data, 0, length, target.swap)
    cdef Number stack[MAX_DEPTH]
    cdef Number swapped
    cdef Number* top
    cdef Number* left
    cdef int depth = 0, operations = 0, found
    cdef uint8_t opcode, first = 0, second = 0, third = 0
    cdef uint64_t mask, number, bytes_, i
    cdef int64_t offset
    cdef bint value = False, piece = False, based, literal, plain = False
    memset(out, 0, sizeof(Outcome))
    if not length:
        return _refused(out, NO_LOCATION)
    if size > MAX_VALUE_SIZE or unit.address_size > 8 or not unit.address_size:
        return 1
    mask = 0xffffffffffffffffULL if unit.address_size == 8 else (1ULL << (8 * unit.address_size)) - 1
    first = data[0]
    if 0x50 <= first < 0x70 or first == 0x90:
        # a register, which stands alone
        skip(&c, 1)
        number = read_uleb(&c) if first == 0x90 else first - 0x50
        if c.error or number >= 512:
            return 1
        piece = c.pos != length
        if piece:
            found = _read_piece(target, &c, size) if read_u8(&c) == 0x93 else STRANGE_PIECE
            if found == STRANGE_PIECE:
                return _refused_if_incomplete(target, frames, unit, data, length, size, place, out)
            if found == SMALL_PIECE:
                return _refused(out, PARTLY)
        if target.vector[number]:
            return _refused(out, PARTLY if piece else VECTOR)
        if size > unit.address_size:
            return _refused(out, PARTLY)
        _register_outcome(number, 0, False, size if size else unit.address_size, out)
        return _doubted(target, place, not piece, True, False, False, number, 0, out)
    if first == 0x9e:
        # DW_OP_implicit_value, which stands alone
        skip(&c, 1)
        bytes_ = read_uleb(&c)
        if c.error or c.end - c.pos != bytes_:
            return 1
        if not bytes_ or bytes_ < size:
            return _refused(out, PARTLY)
        if not size:
            size = bytes_
        if size > MAX_CONSTANT_SIZE:
            return _refused(out, NO_FORM)
        number = 0
        for i in range(size):
            number |= <uint64_t>data[c.pos + (i if target.little_endian else size - 1 - i)] << (8 * i)
        constant_outcome(target, number, size, is_signed, out)
        return _doubted(target, place, True, False, False, False, 0, 0, out)
    if first == 0xa0 or first == 0xf2:
        # DW_OP_implicit_pointer, alone
        skip(&c, 1)
        skip(&c, unit.address_size if unit.version < 3 else unit.offset_size)
        read_sleb(&c)
        return 1 if c.error or c.pos != length else _refused(out, IMPLICIT_POINTER)
    while c.pos < c.end:
        opcode = read_u8(&c)
        operations += 1
        if opcode == 0x93 or opcode == 0x9d:   # a piece alone says how much there is
            found = _read_piece(target, &c, size) if opcode == 0x93 else STRANGE_PIECE
            if found == STRANGE_PIECE or not depth:
                return _refused_if_incomplete(target, frames, unit, data, length, size, place, out)
            if found == SMALL_PIECE:
                return _refused(out, PARTLY)
            piece = True
            break
        if operations > MAX_OPERATIONS or value:
            return 1
        if operations == 2:
            second = opcode
        elif operations == 3:
            third = opcode
        if opcode == 0x9f:                     # stack_value
            value = True
            continue
        if opcode == 0x96:                     # nop
            continue
        if opcode == 0xa3 or opcode == 0xf3:   # entry_value of a register, away from the entry
            if place.at_entry:
                return 1
            c.pos -= 1
            out.framed = True
            return _refused_if_readable(&c, unit, ENTRY_VALUE, out)
        if opcode == 0xfa:                     # GNU_parameter_ref
            skip(&c, 4)
            return _refused_if_readable(&c, unit, UNSUPPORTED, out)
        top = &stack[depth - 1] if depth else NULL
        left = &stack[depth - 2] if depth > 1 else NULL
        if (0x30 <= opcode < 0x50 or 0x70 <= opcode < 0x90 or 0x08 <= opcode <= 0x12 or opcode == 0x03
                or opcode == 0x91 or opcode == 0x92 or opcode == 0x9c or opcode == 0x14 or opcode == 0x15):
            # what pushes
            if depth == MAX_DEPTH:
                return 1
            memset(&stack[depth], 0, sizeof(Number))
            if opcode == 0x12:                 # dup
                if top == NULL:
                    return 1
                stack[depth] = top[0]
            elif opcode == 0x14 or opcode == 0x15:     # over, pick
                number = 1 if opcode == 0x14 else read_u8(&c)
                if number >= <uint64_t>depth:
                    return 1
                stack[depth] = stack[depth - 1 - <int>number]
            elif 0x30 <= opcode < 0x50:
                stack[depth].a = opcode - 0x30
            elif 0x70 <= opcode < 0x90 or opcode == 0x92:
                number = read_uleb(&c) if opcode == 0x92 else opcode - 0x70
                offset = read_sleb(&c)
                if c.error or number >= 512:
                    return 1
                if target.vector[number]:
                    return _refused_if_readable(&c, unit, VECTOR, out)
                stack[depth].kind = K_REGISTER
                stack[depth].register_number = number
                stack[depth].offset = _wrapped(<uint64_t>offset, mask)
            elif opcode == 0x91 or opcode == 0x9c:     # fbreg, call_frame_cfa
                offset = read_sleb(&c) if opcode == 0x91 else 0
                if c.error:
                    return 1
                out.framed = True
                found = _frame_base(target, frames, place, opcode == 0x9c, &stack[depth])
                if found < 0:
                    return 1
                if not found:
                    return _refused_if_readable(&c, unit, NO_FRAME, out)
                _plus(&stack[depth], <uint64_t>offset, mask)
            elif opcode == 0x03:               # addr
                if target.relocatable:
                    # it may be that of another file's symbol
                    return 1
                stack[depth].kind = K_ADDRESS
                stack[depth].a = read_uint(&c, unit.address_size) & mask
            elif opcode == 0x08:
                stack[depth].a = read_u8(&c)
            elif opcode == 0x09:
                stack[depth].a = <uint64_t><int64_t><int8_t>read_u8(&c) & mask
            elif opcode == 0x0a:
                stack[depth].a = read_uint(&c, 2)
            elif opcode == 0x0b:
                stack[depth].a = <uint64_t><int64_t><int16_t>read_uint(&c, 2) & mask
            elif opcode == 0x0c:
                stack[depth].a = read_uint(&c, 4) & mask
            elif opcode == 0x0d:
                stack[depth].a = <uint64_t><int64_t><int32_t>read_uint(&c, 4) & mask
            elif opcode == 0x0e or opcode == 0x0f:
                stack[depth].a = read_uint(&c, 8) & mask
            elif opcode == 0x10:
                stack[depth].a = read_uleb(&c) & mask
            else:                              # consts
                # a number of more than 64 bits is cut like any other, which read_sleb does
                stack[depth].a = <uint64_t>read_sleb(&c) & mask
            if c.error:
                return 1
            depth += 1
            continue
        if top == NULL:
            return 1
        if opcode == 0x23:                     # plus_uconst
            number = read_uleb(&c)
            if c.error:
                return 1
            _plus(top, number, mask)
        elif opcode == 0x06 or opcode == 0x94:     # deref, deref_size
            number = unit.address_size if opcode == 0x06 else read_u8(&c)
            if c.error or not 1 <= number <= unit.address_size:
                return 1
            if top.kind == K_REGISTER:
                top.kind = K_LOADED
                top.loaded = number
                top.a = 0
            else:
                top.kind = K_COMPUTED
        elif opcode == 0x13:                   # drop
            depth -= 1
        elif opcode == 0x16:                   # swap
            if left == NULL:
                return 1
            swapped = left[0]
            left[0] = top[0]
            top[0] = swapped
        elif opcode == 0x17:                   # rot
            if depth < 3:
                return 1
            swapped = stack[depth - 1]
            stack[depth - 1] = stack[depth - 2]
            stack[depth - 2] = stack[depth - 3]
            stack[depth - 3] = swapped
        elif opcode == 0x28:                   # bra over a swap: a minimum or a maximum
            if (read_uint(&c, 2) != 1 or c.pos >= c.end or read_u8(&c) != 0x16 or depth < 3
                    or top.kind == K_CONSTANT or top.kind == K_ADDRESS):
                return 1
            depth -= 1
            if memcmp(&stack[depth - 1], &stack[depth - 2], sizeof(Number)) != 0:
                stack[depth - 1].kind = K_COMPUTED
                stack[depth - 2].kind = K_COMPUTED
        elif opcode == 0x19 or opcode == 0x1f or opcode == 0x20:       # abs, neg, not
            if top.kind != K_CONSTANT:
                top.kind = K_COMPUTED
            elif opcode == 0x20:
                top.a ^= mask
            elif opcode == 0x1f or _wrapped(top.a, mask) < 0:
                top.a = (0 - top.a) & mask
        elif (opcode == 0x1a or opcode == 0x1b or opcode == 0x1c or opcode == 0x1d or opcode == 0x1e or opcode == 0x21
                or opcode == 0x22 or 0x24 <= opcode <= 0x27 or 0x29 <= opcode <= 0x2e):
            # two operands
            if left == NULL:
                return 1
            if left.kind == K_CONSTANT and top.kind == K_CONSTANT:
                if not _fold(opcode, &left.a, top.a, mask, 8 * unit.address_size):
                    return 1
            elif opcode == 0x22 and left.kind == K_CONSTANT:
                number = left.a
                left[0] = top[0]
                _plus(left, number, mask)
            elif (opcode == 0x22 or opcode == 0x1c) and top.kind == K_CONSTANT:
                _plus(left, top.a if opcode == 0x22 else 0 - top.a, mask)
            elif opcode == 0x1a and (left.kind == K_CONSTANT or top.kind == K_CONSTANT):
                number = top.a if top.kind == K_CONSTANT else left.a
                if left.kind == K_CONSTANT:
                    left[0] = top[0]
                # a mask that takes nothing away from what was loaded is left out
                if not (left.kind == K_LOADED and left.a == 0 and left.loaded < 8
                        and (1ULL << (8 * left.loaded)) - 1 & ~number == 0) and not (
                            left.kind == K_LOADED and left.a == 0 and left.loaded == 8 and ~number == 0):
                    left.kind = K_COMPUTED
            else:
                left.kind = K_COMPUTED
            depth -= 1
        else:
            return 1
    if c.error or not depth:
        return 1
    top = &stack[depth - 1]
    literal = 0x08 <= first <= 0x11 or 0x30 <= first < 0x50
    based = 0x70 <= first < 0x90 or first == 0x03 or first == 0x92 or first == 0x91
    plain = value and not piece and ((operations == 2 and second == 0x9f and (literal or based))
                       or (operations == 3 and second == 0x23 and third == 0x9f and based))
    if not value:
        # memory
        if top.kind != K_REGISTER:
            return _refused(out, NO_FORM)
        _register_outcome(top.register_number, top.offset, True, size if size else unit.address_size, out)
        return _doubted(target, place, plain, False, top.framed, True, top.register_number, top.offset, out)
    if size > unit.address_size:
        return _refused(out, PARTLY)
    if not size:
        size = unit.address_size
    if top.kind == K_CONSTANT:
        constant_outcome(target, top.a, size, is_signed, out)
        return _doubted(target, place, plain, False, False, False, 0, 0, out)
    if top.kind == K_ADDRESS:
        _address_outcome(target, top.a, size, out)
        return _doubted(target, place, plain, False, False, False, 0, 0, out)
    if top.kind == K_REGISTER:
        _register_outcome(top.register_number, top.offset, False, size, out)
        return _doubted(target, place, plain, top.offset == 0, top.framed, False, top.register_number, top.offset, out)
    if top.kind == K_LOADED and top.a == 0 and top.loaded == size:
        _register_outcome(top.register_number, top.offset, True, size, out)
        return _doubted(target, place, False, False, top.framed, True, top.register_number, top.offset, out)
    return _refused(out, NO_FORM)


cdef bint _fold(uint8_t opcode, uint64_t* left, uint64_t right, uint64_t mask, unsigned bits) noexcept nogil:
    """Make ``left`` what the operation gives for two numbers, see sites.nodes.binary; False if that is not simple."""
    cdef int64_t a = _wrapped(left[0], mask), b = _wrapped(right, mask)
    if opcode == 0x1a:                         # and
        left[0] &= right
    elif opcode == 0x1c:                       # minus
        left[0] -= right
    elif opcode == 0x1e:                       # mul
        left[0] *= right
    elif opcode == 0x21:                       # or
        left[0] |= right
    elif opcode == 0x22:                       # plus
        left[0] += right
    elif opcode == 0x27:                       # xor
        left[0] ^= right
    elif opcode == 0x24:                       # shl
        left[0] = left[0] << right if right < bits else 0
    elif opcode == 0x25:                       # shr
        left[0] = left[0] >> right if right < bits else 0
    elif opcode == 0x26:                       # shra
        left[0] = <uint64_t>(a >> min(right, <uint64_t>bits - 1))
    elif opcode == 0x29:                       # eq
        left[0] = a == b
    elif opcode == 0x2a:                       # ge
        left[0] = a >= b
    elif opcode == 0x2b:                       # gt
        left[0] = a > b
    elif opcode == 0x2c:                       # le
        left[0] = a <= b
    elif opcode == 0x2d:                       # lt
        left[0] = a < b
    elif opcode == 0x2e:                       # ne
        left[0] = a != b
    else:
        return False
    left[0] &= mask
    return True


cdef int _read_piece(const Target* target, Cursor* c, uint64_t size) noexcept nogil:
    """What the operand of a DW_OP_piece at the end of an expression says of a parameter of ``size`` bytes."""
    cdef uint64_t number = read_uleb(c)
    if c.error or c.pos != c.end or not size:
        return STRANGE_PIECE
    if number < size:
        return SMALL_PIECE
    return WHOLE_PIECE if number == size or target.little_endian else STRANGE_PIECE


cdef bint _is_readable(Cursor* c, UnitHeader* unit) noexcept nogil:
    """Whether what follows, up to a piece, is a sequence of well-known operations without branches."""
    cdef uint8_t opcode
    if c.end - c.pos > MAX_READABLE:
        return False
    while c.pos < c.end:
        opcode = c.data[c.pos]
        if opcode == 0x93 or opcode == 0x9d:
            break
        c.pos += 1
        if opcode == 0xa3 or opcode == 0xf3:
            if read_u8(c) != 1 or not 0x50 <= read_u8(c) < 0x70:
                return False
        elif opcode == 0x03:
            skip(c, unit.address_size)
        elif opcode == 0x08 or opcode == 0x09 or opcode == 0x15 or opcode == 0x94:
            skip(c, 1)
        elif opcode == 0x0a or opcode == 0x0b:
            skip(c, 2)
        elif opcode == 0x0c or opcode == 0x0d:
            skip(c, 4)
        elif opcode == 0x0e or opcode == 0x0f:
            skip(c, 8)
        elif opcode == 0x10 or opcode == 0x23 or opcode == 0xa8:
            read_uleb(c)
        elif opcode == 0x11 or 0x70 <= opcode < 0x90 or opcode == 0x91:
            read_sleb(c)
        elif opcode == 0x92:
            read_uleb(c)
            read_sleb(c)
        elif not (opcode == 0x06 or 0x12 <= opcode <= 0x27 and opcode != 0x18 or 0x29 <= opcode <= 0x2e
                  or 0x30 <= opcode < 0x50 or opcode == 0x96 or opcode == 0x9c or opcode == 0x9f):
            return False
    return not c.error


cdef int _refused_if_readable(Cursor* c, UnitHeader* unit, uint8_t status, Outcome* out) noexcept nogil:
    """What follows must be readable, without pieces, for the expression to be one."""
    return _refused(out, status) if _is_readable(c, unit) and c.pos == c.end else 1


cdef int _refused_if_incomplete(const Target* target, Frames frames, UnitHeader* unit, const uint8_t* data,
                                uint64_t length, uint64_t size, const Place* place, Outcome* out) noexcept nogil:
    """Pieces that leave out a part of a parameter say nothing of it, whatever the others are."""
    cdef Cursor c = make_cursor(data, 0, length, target.swap)
    cdef Number base
    cdef uint64_t start, bits, offset, position = 0
    cdef uint8_t opcode
    cdef int pieces
    cdef bint missing = False
    if not size or not target.little_endian:
        return 1
    for pieces in range(MAX_PIECES):
        start = c.pos
        if c.pos < c.end and (0x50 <= data[c.pos] < 0x70):
            c.pos += 1
        elif not _is_readable(&c, unit):
            return 1
        if c.pos == start and position < 8 * size:
            missing = True
        opcode = read_u8(&c)
        bits = read_uleb(&c)
        offset = 0
        if opcode == 0x93:                     # piece
            bits = 8 * min(bits, size)
        elif opcode == 0x9d:                   # bit_piece
            offset = read_uleb(&c)
        else:
            return 1
        if c.error or offset > MAX_PIECE_OFFSET:
            return 1
        position += min(bits, 8 * size - position)
        if c.pos == c.end:
            break
    if c.pos != c.end or not (missing or position < 8 * size):
        return 1
    # the ordinary reader says so where it cannot be read
    memset(&base, 0, sizeof(base))
    out.framed = True
    if _frame_base(target, frames, place, False, &base) < 0 or _frame_base(target, frames, place, True, &base) < 0:
        return 1
    return _refused(out, PARTLY)


cdef int _frame_base(const Target* target, Frames frames, const Place* place, bint cfa, Number* number) noexcept nogil:
    """The frame base or the CFA: 1, or 0 if there is none, or -1 if it is not simple."""
    cdef uint64_t register_number = 0
    cdef int64_t offset = 0
    cdef int found
    cdef uint8_t opcode
    if not cfa:
        if place.frame_base == NULL or not place.frame_base_length:
            return 0
        if place.frame_base_length != 1:
            return -1
        opcode = place.frame_base[0]
        if 0x50 <= opcode < 0x70:
            if target.vector[opcode - 0x50]:
                return -1
            number.kind = K_REGISTER
            number.register_number = opcode - 0x50
            number.framed = True
            return 1
        if opcode != 0x9c:
            return -1
    found = frames.cfa(place.address, &register_number, &offset)
    if found <= 0:
        return found
    if register_number >= 512 or target.vector[register_number]:
        return -1
    number.kind = K_REGISTER
    number.register_number = register_number
    number.offset = offset
    number.framed = True
    return 1


cdef int _doubted(const Target* target, const Place* place, bint plain, bint is_register, bint framed, bint memory,
                  uint64_t register_number, int64_t offset, Outcome* out) noexcept nogil:
    """See sites.doubt.shape_doubt; and what the dialect cannot say has no form."""
    cdef bint trusted
    if not out.status and not fits(target, &out.form):
        out.status = NO_FORM
    if out.status:
        return 0
    if place.compiler != C_GCC:
        trusted = plain and not framed and not memory
        if trusted and out.form.flags & F_REG:
            trusted = (<int64_t>register_number != target.stack_pointer and offset >= -0x80000000LL
                       and offset < 0x80000000LL)
        if not trusted:
            out.doubt = COMPILER
            return 0
    if place.compiler == C_CLANG:
        return 0
    if place.single and is_register:
        out.doubt = SINGLE_REGISTER
    elif framed and memory:
        out.doubt = UNSTORED_SLOT
    return 0
