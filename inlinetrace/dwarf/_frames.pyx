# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Call frame information: .debug_frame (DWARF 5, section 6.4) and .eh_frame (Linux Standard Base, section 10.6).

A FrameTable answers what the canonical frame address (CFA) is at an address, and where a register of the caller is
found there. The table of functions is built at the first query, sorted by address; the program of one function is
run when somebody asks about an address inside it.
"""
from array import array

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memset

from inlinetrace.dwarf._cursor cimport (
    ERR_END, ERR_NONE, Cursor, error_text, fail, make_cursor, read_sleb, read_u8, read_u32, read_u64, read_uint,
    read_uleb, skip, skip_leb, skip_string,
)
from inlinetrace.dwarf._intervals cimport Interval, find_segment, make_segments
from inlinetrace.errors import FormatError

cdef enum:
    NO_MEMORY = 100
    NO_CIE = 101
    DEEP = 102
    UNBALANCED = 103
    OPCODE = 104
    BACKWARDS = 105
    ADDRESS_SIZE = 106
    MOVED_IN_CIE = 107
    NOT_A_REGISTER = 108
    ENCODING = 109

cdef enum:
    RULE_UNSPECIFIED = 0
    RULE_UNDEFINED = 1
    RULE_SAME_VALUE = 2
    RULE_OFFSET = 3
    RULE_VAL_OFFSET = 4
    RULE_REGISTER = 5
    RULE_EXPRESSION = 6
    RULE_VAL_EXPRESSION = 7

cdef enum:
    PE_ABSPTR = 0x00
    PE_ULEB128 = 0x01
    PE_UDATA2 = 0x02
    PE_UDATA4 = 0x03
    PE_UDATA8 = 0x04
    PE_SIGNED = 0x08
    PE_SLEB128 = 0x09
    PE_SDATA2 = 0x0a
    PE_SDATA4 = 0x0b
    PE_SDATA8 = 0x0c
    PE_PCREL = 0x10
    PE_TEXTREL = 0x20
    PE_DATAREL = 0x30
    PE_ALIGNED = 0x50
    PE_INDIRECT = 0x80
    PE_OMIT = 0xff

cdef uint64_t NO_REGISTER = 0xffffffffffffffff

cdef str _frame_error(int error):
    if error == NO_CIE:
        return "no common information entry at the offset that a frame description names"
    if error == DEEP:
        return f"more than {MAX_REMEMBERED} remembered states"
    if error == UNBALANCED:
        return "DW_CFA_restore_state without DW_CFA_remember_state"
    if error == OPCODE:
        return "unknown call frame instruction"
    if error == BACKWARDS:
        return "a call frame program moves backwards or past the end of the address space"
    if error == ADDRESS_SIZE:
        return "a common information entry has an impossible address or segment size"
    if error == MOVED_IN_CIE:
        return "a common information entry's program moves the location"
    if error == NOT_A_REGISTER:
        return "a call frame instruction changes register or offset of a CFA that is not register and offset"
    if error == ENCODING:
        return "a pointer has an encoding that its place does not allow"
    return error_text(error)


cdef inline uint64_t _mask(uint8_t address_size) noexcept nogil:
    return 0xffffffffffffffff if address_size >= 8 else (<uint64_t>1 << (8 * address_size)) - 1


cdef int _compare_fdes(const void* a, const void* b) noexcept nogil:
    cdef const Fde* x = <const Fde*>a
    cdef const Fde* y = <const Fde*>b
    if x.low != y.low:
        return -1 if x.low < y.low else 1
    if x.offset != y.offset:
        return -1 if x.offset < y.offset else 1
    return 0


cdef inline bint _valid_format(uint8_t encoding) noexcept nogil:
    cdef uint8_t form = encoding & 0x0f
    return form <= PE_UDATA8 or PE_SIGNED <= form <= PE_SDATA8


cdef uint64_t _read_form(Cursor* c, uint8_t form, uint8_t address_size) noexcept nogil:
    """The number of a pointer encoding's low four bits, signed ones extended to 64 bits."""
    if form == PE_ABSPTR:
        return read_uint(c, address_size)
    if form == PE_SIGNED:
        if address_size == 2:
            form = PE_SDATA2
        elif address_size == 4:
            form = PE_SDATA4
        else:
            return read_uint(c, address_size)
    if form == PE_ULEB128:
        return read_uleb(c)
    if form == PE_SLEB128:
        return <uint64_t>read_sleb(c)
    if form == PE_UDATA2:
        return read_uint(c, 2)
    if form == PE_UDATA4:
        return read_uint(c, 4)
    if form == PE_SDATA2:
        return <uint64_t><int64_t><int16_t>read_uint(c, 2)
    if form == PE_SDATA4:
        return <uint64_t><int64_t><int32_t>read_uint(c, 4)
    return read_uint(c, 8)


cdef bint _read_entry(Cursor* c, bint eh, Entry* entry) noexcept nogil:
    """The next entry's frame; the cursor moves to its end. False at the end or after an error."""
    cdef uint64_t length, pointer, at
    cdef uint64_t wide_mark = 0xffffffff
    cdef bint wide = False
    if c.pos >= c.end:
        return False
    memset(entry, 0, sizeof(Entry))
    entry.offset = c.pos
    length = read_u32(c)
    if length == wide_mark:
        wide = True
        length = read_u64(c)
    if c.error != ERR_NONE:
        return False
    if length == 0:
        entry.is_terminator = True
        return True
    if length > c.end - c.pos:
        c.pos = entry.offset
        fail(c, ERR_END)
        return False
    entry.end = c.pos + length
    if length < (8 if wide and not eh else 4):
        c.pos = entry.offset
        fail(c, ERR_END)
        return False
    at = c.pos
    pointer = read_u64(c) if wide and not eh else read_u32(c)
    entry.body = c.pos
    if eh:
        entry.is_cie = pointer == 0
        entry.cie_offset = at - pointer
    else:
        entry.is_cie = pointer + 1 == 0 if wide else pointer == wide_mark
        entry.cie_offset = pointer
    c.pos = entry.end
    return True


cdef class FrameTable:
    """The call frame information of one section (see the stub for the interface)."""

    def __cinit__(self):
        self._cies = NULL
        self._fdes = NULL
        self._segments = NULL

    def __init__(self, const uint8_t[::1] data, *, bint eh, str section, path=None, uint64_t address=0,
                 int address_size=8, bint little_endian=True, text_address=None, data_address=None):
        if address_size not in (2, 4, 8):
            raise ValueError(f"address size {address_size}")
        self._data = data
        self._size = data.shape[0]
        self._start = &data[0] if self._size else NULL
        self._eh = eh
        self.section = section
        self.path = path
        self._address = address
        self._address_size = address_size
        self._swap = little_endian != _host_little()
        self._has_text = text_address is not None
        self._text_address = text_address if text_address is not None else 0
        self._has_data = data_address is not None
        self._data_address = data_address if data_address is not None else 0

    def __dealloc__(self):
        free(self._cies)
        free(self._fdes)
        free(self._segments)

    # ------------------------------------------------------------------ index

    cdef int _build_index(self) except -1:
        cdef Cie* cies = NULL
        cdef Fde* fdes = NULL
        cdef Interval* segments = NULL
        cdef uint64_t n_cies = 0, n_fdes = 0, n_skipped = 0, n_segments = 0, error_at = 0
        cdef int error
        if self._indexed:
            return 0
        with nogil:
            error = self._read_cies(&cies, &n_cies, &error_at)
            if error == ERR_NONE:
                error = self._read_fdes(cies, n_cies, &fdes, &n_fdes, &n_skipped, &error_at)
            if error == ERR_NONE:
                segments = _sort(fdes, n_fdes, &n_segments)
                if segments == NULL:
                    error = NO_MEMORY
        if error != ERR_NONE:
            free(cies)
            free(fdes)
            self._raise(error, error_at)
        # Another thread may have been faster while this one was without the GIL.
        if self._indexed:
            free(cies)
            free(fdes)
            free(segments)
            return 0
        self._cies = cies
        self._n_cies = n_cies
        self._fdes = fdes
        self._n_fdes = n_fdes
        self._segments = segments
        self._n_segments = n_segments
        self._n_skipped = n_skipped
        self._indexed = True
        return 0

    cdef _raise(self, int error, uint64_t at):
        if error == NO_MEMORY:
            raise MemoryError
        raise FormatError(_frame_error(error), path=self.path, section=self.section, offset=at)

    cdef int _read_cies(self, Cie** cies, uint64_t* count, uint64_t* error_at) noexcept nogil:
        cdef Cursor c = make_cursor(self._start, 0, self._size, self._swap)
        cdef Entry entry
        cdef Cie* grown
        cdef uint64_t capacity = 0
        cdef int error
        while _read_entry(&c, self._eh, &entry):
            if not entry.is_cie:
                continue
            if count[0] == capacity:
                capacity = 2 * capacity + 16
                grown = <Cie*>realloc(cies[0], capacity * sizeof(Cie))
                if grown == NULL:
                    return NO_MEMORY
                cies[0] = grown
            error = self._read_cie(&entry, &cies[0][count[0]], error_at)
            if error != ERR_NONE:
                return error
            count[0] += 1
        error_at[0] = c.error_at
        return c.error

    cdef int _read_cie(self, Entry* entry, Cie* cie, uint64_t* error_at) noexcept nogil:
        cdef Cursor c = make_cursor(self._start, entry.body, entry.end, self._swap)
        cdef uint64_t augmentation, length, data_end
        cdef uint8_t version, letter, encoding
        memset(cie, 0, sizeof(Cie))
        cie.offset = entry.offset
        cie.address_size = self._address_size
        cie.encoding = PE_ABSPTR
        cie.end = entry.end
        version = read_u8(&c)
        augmentation = c.pos
        skip_string(&c)
        error_at[0] = c.error_at
        if c.error != ERR_NONE:
            return c.error
        if version != 1 and version != 3 and version != 4:
            return ERR_NONE
        if c.data[augmentation] == c'e' and c.data[augmentation + 1] == c'h':
            skip(&c, self._address_size)
            augmentation += 2
        if version == 4:
            cie.address_size = read_u8(&c)
            cie.segment_size = read_u8(&c)
            if c.error == ERR_NONE and (cie.segment_size > 8 or (
                    cie.address_size != 2 and cie.address_size != 4 and cie.address_size != 8)):
                error_at[0] = c.pos - 2
                return ADDRESS_SIZE
        cie.code_alignment = read_uleb(&c)
        cie.data_alignment = read_sleb(&c)
        cie.return_register = read_u8(&c) if version == 1 else read_uleb(&c)
        cie.supported = True
        if c.error == ERR_NONE and c.data[augmentation] == c'z':
            augmentation += 1
            cie.augmented = True
            length = read_uleb(&c)
            if c.error == ERR_NONE and length > c.end - c.pos:
                fail(&c, ERR_END)
            data_end = c.pos + length
            while c.error == ERR_NONE and c.data[augmentation] != 0:
                letter = c.data[augmentation]
                augmentation += 1
                if letter == c'R':
                    cie.encoding = read_u8(&c)
                elif letter == c'L':
                    skip(&c, 1)
                elif letter == c'P':
                    encoding = read_u8(&c)
                    if encoding == PE_OMIT:
                        continue
                    if encoding & 0x70 == PE_ALIGNED:
                        self._align(&c)
                        encoding = PE_ABSPTR
                    if not _valid_format(encoding):
                        error_at[0] = c.pos - 1
                        return ENCODING
                    _read_form(&c, encoding & 0x0f, self._address_size)
                elif letter == c'S':
                    cie.signal_frame = True
                elif letter != c'B' and letter != c'G':
                    # A letter of an unknown meaning may change how pointers are read.
                    cie.supported = False
                    break
            if c.error == ERR_NONE:
                if c.pos > data_end:
                    c.pos = data_end
                    fail(&c, ERR_END)
                else:
                    c.pos = data_end
        elif c.error == ERR_NONE and c.data[augmentation] != 0:
            cie.supported = False
        if c.error != ERR_NONE:
            error_at[0] = c.error_at
            return c.error
        if not self._usable(cie.encoding):
            cie.supported = False
        cie.program = c.pos
        return ERR_NONE

    cdef bint _usable(self, uint8_t encoding) noexcept nogil:
        """Whether an address in this encoding can be computed from the section alone."""
        cdef uint8_t base = encoding & 0x70
        if encoding & PE_INDIRECT or not _valid_format(encoding):
            return False
        if base == PE_TEXTREL:
            return self._has_text
        if base == PE_DATAREL:
            return self._has_data
        return base == 0 or base == PE_PCREL or base == PE_ALIGNED

    cdef void _align(self, Cursor* c) noexcept nogil:
        cdef uint64_t over = (self._address + c.pos) % self._address_size
        if over:
            skip(c, self._address_size - over)

    cdef uint64_t _read_address(self, Cursor* c, Cie* cie) noexcept nogil:
        cdef uint8_t base = cie.encoding & 0x70
        cdef uint64_t at, value
        if base == PE_ALIGNED:
            self._align(c)
            return read_uint(c, cie.address_size)
        at = c.pos
        value = _read_form(c, cie.encoding & 0x0f, cie.address_size)
        if base == PE_PCREL:
            value += self._address + at
        elif base == PE_TEXTREL:
            value += self._text_address
        elif base == PE_DATAREL:
            value += self._data_address
        return value & _mask(cie.address_size)

    cdef int _read_fdes(self, Cie* cies, uint64_t n_cies, Fde** fdes, uint64_t* count, uint64_t* n_skipped,
                        uint64_t* error_at) noexcept nogil:
        cdef Cursor c = make_cursor(self._start, 0, self._size, self._swap)
        cdef Cursor body
        cdef Entry entry
        cdef Fde* grown
        cdef Fde* fde
        cdef Cie* cie
        cdef uint64_t capacity = 0, current = 0, length, mask
        while _read_entry(&c, self._eh, &entry):
            if entry.is_cie or entry.is_terminator:
                continue
            if n_cies == 0 or cies[current].offset != entry.cie_offset:
                current = _find_cie(cies, n_cies, entry.cie_offset)
                if current == n_cies:
                    error_at[0] = entry.offset
                    return NO_CIE
            cie = &cies[current]
            if not cie.supported:
                n_skipped[0] += 1
                continue
            if count[0] == capacity:
                capacity = 2 * capacity + 64
                grown = <Fde*>realloc(fdes[0], capacity * sizeof(Fde))
                if grown == NULL:
                    return NO_MEMORY
                fdes[0] = grown
            fde = &fdes[0][count[0]]
            body = make_cursor(self._start, entry.body, entry.end, self._swap)
            skip(&body, cie.segment_size)
            fde.low = self._read_address(&body, cie)
            mask = _mask(cie.address_size)
            if cie.encoding & 0x70 == PE_ALIGNED:
                length = read_uint(&body, cie.address_size)
            else:
                length = _read_form(&body, cie.encoding & 0x0f, cie.address_size) & mask
            fde.high = fde.low + length if length <= mask - fde.low else mask
            if cie.augmented:
                length = read_uleb(&body)
                skip(&body, length)
            if body.error != ERR_NONE:
                error_at[0] = body.error_at
                return body.error
            fde.offset = entry.offset
            fde.program = body.pos
            fde.end = entry.end
            fde.cie = <uint32_t>current
            count[0] += 1
        error_at[0] = c.error_at
        return c.error

    cdef Fde* find_fde(self, uint64_t pc) noexcept nogil:
        """The entry that covers pc, the one with the greatest start if there are several; NULL if there is none."""
        cdef const Interval* segment = find_segment(self._segments, self._n_segments, pc)
        return NULL if segment == NULL else &self._fdes[segment.index]

    # --------------------------------------------------------------- programs

    cdef void _start_machine(self, Machine* m, Fde* fde, uint64_t register_number) noexcept nogil:
        m.cie = &self._cies[fde.cie]
        m.fde = fde
        m.cursor = make_cursor(self._start, m.cie.program, m.cie.end, self._swap)
        memset(&m.row, 0, sizeof(Row))
        memset(&m.initial, 0, sizeof(Rule))
        m.register_number = register_number
        m.location = fde.low
        m.next_location = 0
        m.pending = False
        m.in_cie = True
        m.depth = 0

    cdef int row_at(self, Fde* fde, uint64_t pc, uint64_t register_number, Row* row, uint64_t* error_at) noexcept nogil:
        """The row of pc with the rule of one register; an error code, with its offset in error_at."""
        cdef Machine machine
        cdef int error
        self._start_machine(&machine, fde, register_number)
        error = self._run(&machine, pc, error_at)
        row[0] = machine.row
        return error

    cdef int _run(self, Machine* m, uint64_t pc, uint64_t* error_at) noexcept nogil:
        """Run until the next row would begin after pc. A later call with a greater pc goes on from there."""
        cdef Cursor* c = &m.cursor
        cdef uint64_t at
        cdef int error
        if m.pending:
            if m.next_location > pc:
                return ERR_NONE
            m.location = m.next_location
            m.pending = False
        while True:
            if c.pos >= c.end:
                if not m.in_cie:
                    return ERR_NONE
                m.in_cie = False
                m.initial = m.row.rule
                m.cursor = make_cursor(self._start, m.fde.program, m.fde.end, self._swap)
                continue
            at = c.pos
            error = self._step(m, pc)
            if error == ERR_NONE:
                error = c.error
            if error != ERR_NONE:
                error_at[0] = at
                return error
            if m.pending:
                if m.next_location > pc:
                    return ERR_NONE
                m.location = m.next_location
                m.pending = False

    cdef int _move(self, Machine* m, uint64_t steps) noexcept nogil:
        cdef uint64_t mask = _mask(m.cie.address_size)
        if m.in_cie:
            return MOVED_IN_CIE
        if m.cie.code_alignment and steps > (mask - m.location) // m.cie.code_alignment:
            return BACKWARDS
        m.next_location = m.location + steps * m.cie.code_alignment
        m.pending = True
        return ERR_NONE

    cdef int _step(self, Machine* m, uint64_t pc) noexcept nogil:
        """One instruction (DWARF 5, section 6.4.2)."""
        cdef Cursor* c = &m.cursor
        cdef uint8_t opcode = read_u8(c)
        cdef uint8_t operand = opcode & 0x3f
        cdef int64_t factor = m.cie.data_alignment
        cdef uint64_t register_number, number
        cdef Cfa* cfa = &m.row.cfa
        if opcode & 0xc0 == 0x40:  # DW_CFA_advance_loc
            return self._move(m, operand)
        if opcode & 0xc0 == 0x80:  # DW_CFA_offset
            number = read_uleb(c)
            _set_rule(m, operand, RULE_OFFSET, _scaled(number, factor))
            return ERR_NONE
        if opcode & 0xc0 == 0xc0:  # DW_CFA_restore
            _restore(m, operand)
            return ERR_NONE
        if opcode == 0x00:  # DW_CFA_nop
            return ERR_NONE
        if opcode == 0x02:  # DW_CFA_advance_loc1
            return self._move(m, read_u8(c))
        if opcode == 0x03:  # DW_CFA_advance_loc2
            return self._move(m, read_uint(c, 2))
        if opcode == 0x04:  # DW_CFA_advance_loc4
            return self._move(m, read_u32(c))
        if opcode == 0x0e:  # DW_CFA_def_cfa_offset
            number = read_uleb(c)
            if cfa.kind != CFA_REGISTER:
                return NOT_A_REGISTER
            cfa.offset = <int64_t>number
            return ERR_NONE
        if opcode == 0x0c:  # DW_CFA_def_cfa
            cfa.kind = CFA_REGISTER
            cfa.register_number = read_uleb(c)
            cfa.offset = <int64_t>read_uleb(c)
            return ERR_NONE
        if opcode == 0x0d:  # DW_CFA_def_cfa_register
            register_number = read_uleb(c)
            # RISC-V objects begin with it and mean offset 0.
            if cfa.kind == CFA_EXPRESSION:
                return NOT_A_REGISTER
            cfa.kind = CFA_REGISTER
            cfa.register_number = register_number
            return ERR_NONE
        if opcode == 0x0a:  # DW_CFA_remember_state
            if m.depth == MAX_REMEMBERED:
                return DEEP
            m.remembered[m.depth] = m.row
            m.depth += 1
            return ERR_NONE
        if opcode == 0x0b:  # DW_CFA_restore_state
            if m.depth == 0:
                return UNBALANCED
            m.depth -= 1
            m.row = m.remembered[m.depth]
            return ERR_NONE
        if opcode == 0x01:  # DW_CFA_set_loc
            number = self._read_address(c, m.cie)
            if m.in_cie:
                return MOVED_IN_CIE
            if number < m.location:
                return BACKWARDS
            m.next_location = number
            m.pending = True
            return ERR_NONE
        if opcode == 0x05:  # DW_CFA_offset_extended
            register_number = read_uleb(c)
            _set_rule(m, register_number, RULE_OFFSET, _scaled(read_uleb(c), factor))
            return ERR_NONE
        if opcode == 0x11:  # DW_CFA_offset_extended_sf
            register_number = read_uleb(c)
            _set_rule(m, register_number, RULE_OFFSET, _scaled(<uint64_t>read_sleb(c), factor))
            return ERR_NONE
        if opcode == 0x2f:  # DW_CFA_GNU_negative_offset_extended
            register_number = read_uleb(c)
            _set_rule(m, register_number, RULE_OFFSET, _scaled(0 - read_uleb(c), factor))
            return ERR_NONE
        if opcode == 0x14:  # DW_CFA_val_offset
            register_number = read_uleb(c)
            _set_rule(m, register_number, RULE_VAL_OFFSET, _scaled(read_uleb(c), factor))
            return ERR_NONE
        if opcode == 0x15:  # DW_CFA_val_offset_sf
            register_number = read_uleb(c)
            _set_rule(m, register_number, RULE_VAL_OFFSET, _scaled(<uint64_t>read_sleb(c), factor))
            return ERR_NONE
        if opcode == 0x06:  # DW_CFA_restore_extended
            _restore(m, read_uleb(c))
            return ERR_NONE
        if opcode == 0x07:  # DW_CFA_undefined
            _set_rule(m, read_uleb(c), RULE_UNDEFINED, 0)
            return ERR_NONE
        if opcode == 0x08:  # DW_CFA_same_value
            _set_rule(m, read_uleb(c), RULE_SAME_VALUE, 0)
            return ERR_NONE
        if opcode == 0x09:  # DW_CFA_register
            register_number = read_uleb(c)
            _set_rule(m, register_number, RULE_REGISTER, <int64_t>read_uleb(c))
            return ERR_NONE
        if opcode == 0x0f:  # DW_CFA_def_cfa_expression
            number = read_uleb(c)
            cfa.kind = CFA_EXPRESSION
            cfa.expression = c.pos
            cfa.length = number
            skip(c, number)
            return ERR_NONE
        if opcode == 0x10 or opcode == 0x16:  # DW_CFA_expression, DW_CFA_val_expression
            register_number = read_uleb(c)
            number = read_uleb(c)
            if register_number == m.register_number:
                m.row.rule.kind = RULE_EXPRESSION if opcode == 0x10 else RULE_VAL_EXPRESSION
                m.row.rule.expression = c.pos
                m.row.rule.length = number
            skip(c, number)
            return ERR_NONE
        if opcode == 0x12:  # DW_CFA_def_cfa_sf
            cfa.kind = CFA_REGISTER
            cfa.register_number = read_uleb(c)
            cfa.offset = _scaled(<uint64_t>read_sleb(c), factor)
            return ERR_NONE
        if opcode == 0x13:  # DW_CFA_def_cfa_offset_sf
            number = <uint64_t>read_sleb(c)
            if cfa.kind != CFA_REGISTER:
                return NOT_A_REGISTER
            cfa.offset = _scaled(number, factor)
            return ERR_NONE
        if opcode == 0x1d:  # DW_CFA_MIPS_advance_loc8
            return self._move(m, read_u64(c))
        if opcode == 0x2e:  # DW_CFA_GNU_args_size
            skip_leb(c)
            return ERR_NONE
        if opcode == 0x2c or opcode == 0x2d:  # DW_CFA_AARCH64_negate_ra_state_with_pc, DW_CFA_AARCH64_negate_ra_state
            return ERR_NONE
        return OPCODE

    # ---------------------------------------------------------------- queries

    def cfa(self, uint64_t pc):
        cdef Row row
        cdef uint64_t error_at = 0
        cdef Fde* fde
        cdef int error
        self._build_index()
        fde = self.find_fde(pc)
        if fde == NULL:
            return None
        error = self.row_at(fde, pc, NO_REGISTER, &row, &error_at)
        if error != ERR_NONE:
            self._raise(error, error_at)
        if row.cfa.kind == CFA_REGISTER:
            return (row.cfa.register_number, row.cfa.offset)
        if row.cfa.kind == CFA_EXPRESSION:
            return self._bytes(row.cfa.expression, row.cfa.length)
        return None

    def register_rule(self, uint64_t pc, uint64_t register_number):
        cdef Row row
        cdef uint64_t error_at = 0
        cdef Fde* fde
        cdef int error
        self._build_index()
        fde = self.find_fde(pc)
        if fde == NULL:
            return None
        error = self.row_at(fde, pc, register_number, &row, &error_at)
        if error != ERR_NONE:
            self._raise(error, error_at)
        if row.rule.kind == RULE_EXPRESSION or row.rule.kind == RULE_VAL_EXPRESSION:
            return (row.rule.kind, self._bytes(row.rule.expression, row.rule.length))
        return (row.rule.kind, row.rule.operand)

    cdef bytes _bytes(self, uint64_t offset, uint64_t length):
        return bytes(self._data[offset:offset + length]) if length else b""

    def function_range(self, uint64_t pc):
        cdef Fde* fde
        self._build_index()
        fde = self.find_fde(pc)
        return None if fde == NULL else (fde.low, fde.high)

    def return_register(self, uint64_t pc):
        cdef Fde* fde
        self._build_index()
        fde = self.find_fde(pc)
        return None if fde == NULL else self._cies[fde.cie].return_register

    def is_signal_frame(self, uint64_t pc):
        cdef Fde* fde
        self._build_index()
        fde = self.find_fde(pc)
        return fde != NULL and bool(self._cies[fde.cie].signal_frame)

    def cfa_many(self, const uint64_t[::1] pcs):
        cdef Py_ssize_t count = pcs.shape[0], i
        kinds_array = array("B", bytes(count))
        registers_array = array("Q", bytes(8 * count))
        offsets_array = array("q", bytes(8 * count))
        cdef uint8_t[::1] kinds = kinds_array
        cdef uint64_t[::1] registers = registers_array
        cdef int64_t[::1] offsets = offsets_array
        cdef Machine machine
        cdef Fde* fde
        cdef Fde* current = NULL
        cdef uint64_t pc, previous = 0, error_at = 0
        cdef int error = ERR_NONE
        self._build_index()
        with nogil:
            for i in range(count):
                pc = pcs[i]
                fde = self.find_fde(pc)
                if fde == NULL:
                    current = NULL
                    continue
                if fde != current or pc < previous:
                    self._start_machine(&machine, fde, NO_REGISTER)
                    current = fde
                previous = pc
                error = self._run(&machine, pc, &error_at)
                if error != ERR_NONE:
                    break
                kinds[i] = <uint8_t>machine.row.cfa.kind
                if machine.row.cfa.kind == CFA_REGISTER:
                    registers[i] = machine.row.cfa.register_number
                    offsets[i] = machine.row.cfa.offset
                elif machine.row.cfa.kind == CFA_EXPRESSION:
                    registers[i] = machine.row.cfa.length
                    offsets[i] = <int64_t>machine.row.cfa.expression
        if error != ERR_NONE:
            self._raise(error, error_at)
        return kinds_array, registers_array, offsets_array

    def functions(self):
        cdef uint64_t i
        self._build_index()
        return [(self._fdes[i].low, self._fdes[i].high) for i in range(self._n_fdes)]

    @property
    def skipped(self):
        self._build_index()
        return self._n_skipped

    def __len__(self):
        self._build_index()
        return self._n_fdes


cdef bint _host_little() noexcept:
    cdef uint32_t one = 1
    return (<uint8_t*>&one)[0] == 1


cdef inline int64_t _scaled(uint64_t number, int64_t factor) noexcept nogil:
    # Unsigned, because hostile numbers may overflow and unsigned arithmetic is defined then.
    return <int64_t>(number * <uint64_t>factor)


cdef inline void _set_rule(Machine* m, uint64_t register_number, int kind, int64_t operand) noexcept nogil:
    if register_number == m.register_number:
        m.row.rule.kind = kind
        m.row.rule.operand = operand


cdef inline void _restore(Machine* m, uint64_t register_number) noexcept nogil:
    if register_number == m.register_number:
        m.row.rule = m.initial


cdef uint64_t _find_cie(Cie* cies, uint64_t count, uint64_t offset) noexcept nogil:
    cdef uint64_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if cies[middle].offset < offset:
            low = middle + 1
        else:
            high = middle
    return low if low < count and cies[low].offset == offset else count


cdef Interval* _sort(Fde* fdes, uint64_t count, uint64_t* n_segments) noexcept nogil:
    """Sort by start; the segments that look-ups use, or NULL without memory."""
    cdef uint64_t i
    cdef Interval* intervals
    cdef Interval* segments
    for i in range(1, count):
        if _compare_fdes(&fdes[i - 1], &fdes[i]) > 0:
            qsort(fdes, count, sizeof(Fde), _compare_fdes)
            break
    intervals = <Interval*>malloc((count + 1) * sizeof(Interval))
    if intervals == NULL:
        return NULL
    for i in range(count):
        intervals[i].low = fdes[i].low
        intervals[i].high = fdes[i].high
        intervals[i].index = i
    segments = make_segments(intervals, count, n_segments)
    free(intervals)
    return segments
