# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Call frame information: .debug_frame (DWARF 5, section 6.4) and .eh_frame (Linux Standard Base, section 10.6).

A FrameTable answers what the canonical frame address (CFA) is at an address, and where a register of the caller is
found there. The program of one function is run when somebody asks about an address inside it.
"""
from array import array

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memset

from inlinetrace.dwarf._cursor cimport (
    ERR_NONE, Cursor, make_cursor, read_sleb, read_u8, read_u32, read_u64, read_uint, read_uleb, skip, skip_leb,
)
from inlinetrace.dwarf._frame_entries cimport (
    BACKWARDS, DEEP, MAX_REMEMBERED, MOVED_IN_CIE, NOT_A_REGISTER, OPCODE, UNBALANCED, Fde, FrameEntries,
    address_mask,
)

cdef enum:
    RULE_UNSPECIFIED = 0
    RULE_UNDEFINED = 1
    RULE_SAME_VALUE = 2
    RULE_OFFSET = 3
    RULE_VAL_OFFSET = 4
    RULE_REGISTER = 5
    RULE_EXPRESSION = 6
    RULE_VAL_EXPRESSION = 7

cdef uint64_t NO_REGISTER = 0xffffffffffffffff


cdef class FrameTable(FrameEntries):
    """The call frame information of one section (see the stub for the interface)."""

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
        cdef uint64_t mask = address_mask(m.cie.address_size)
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
