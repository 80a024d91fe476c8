# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Line number programs: header and rows (DWARF 5, section 6.2.4 and 6.2.5).

The base of LineProgram (inlinetrace.dwarf._lines), which adds queries and file names.
"""
from libc.stdint cimport int8_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport (
    ERR_END, ERR_NONE, ERR_SIZE, Cursor, error_text, fail, has, make_cursor, read_sleb, read_u8, read_u32, read_u64,
    read_uint, read_uleb, skip, skip_leb,
)
from inlinetrace.dwarf._intervals cimport Interval, make_segments
from inlinetrace.errors import FormatError, UnsupportedError


cdef str line_error(int error):
    if error == BAD_FORM:
        return "a file or directory entry has a form that is not allowed there"
    if error == EMPTY_FORMAT:
        return "a file or directory table has entries without content"
    return error_text(error)


cdef int _compare_runs(const void* a, const void* b) noexcept nogil:
    cdef const Run* x = <const Run*>a
    cdef const Run* y = <const Run*>b
    if x.low != y.low:
        return -1 if x.low < y.low else 1
    if x.first != y.first:
        return -1 if x.first < y.first else 1
    return 0


cdef class LineRows:
    """The header of one program, and its rows once they are decoded."""

    def __cinit__(self):
        memset(&self._table, 0, sizeof(Decoded))

    def __init__(self, const uint8_t[::1] data, uint64_t offset, *, str section=".debug_line", path=None,
                 bint little_endian=True, int address_size=8, comp_dir=None, line_str=None, strings=None,
                 string_offsets=None, uint64_t string_offsets_base=0):
        if not 1 <= address_size <= 8:
            raise ValueError(f"address size {address_size}")
        self._data = data
        self._start = &data[0] if data.shape[0] else NULL
        self.section = section
        self.path = path
        self.offset = offset
        self.comp_dir = comp_dir
        self.address_size = address_size
        self._swap = little_endian != _host_little()
        if line_str is not None:
            self._line_str = line_str
        if strings is not None:
            self._strings = strings
        if string_offsets is not None:
            self._string_offsets = string_offsets
        self._string_offsets_base = string_offsets_base
        self._read_header()

    def __dealloc__(self):
        _free_decoded(&self._table)

    cdef _error(self, str message, uint64_t at):
        return FormatError(message, path=self.path, section=self.section, offset=at)

    cdef _read_header(self):
        cdef Cursor c = make_cursor(self._start, self.offset, self._data.shape[0], self._swap)
        cdef uint64_t length, header_length
        length = read_u32(&c)
        self.offset_size = 4
        if length == 0xffffffff:
            length = read_u64(&c)
            self.offset_size = 8
        if c.error == ERR_NONE and length > c.end - c.pos:
            c.pos = self.offset
            fail(&c, ERR_END)
        if c.error == ERR_NONE:
            c.end = c.pos + length
        self.end = c.end
        self.version = <int>read_uint(&c, 2)
        if c.error == ERR_NONE and not 2 <= self.version <= 5:
            raise UnsupportedError(f"line table of version {self.version}: versions 2 to 5 can be read",
                                   path=self.path, section=self.section, offset=self.offset)
        if self.version >= 5:
            self.address_size = read_u8(&c)
            skip(&c, 1)
            if c.error == ERR_NONE and not 1 <= self.address_size <= 8:
                raise self._error(f"line table with addresses of {self.address_size} bytes", self.offset)
        header_length = read_uint(&c, self.offset_size)
        if c.error == ERR_NONE and header_length > c.end - c.pos:
            fail(&c, ERR_END)
        self._program = c.pos + header_length
        self._min_instruction_length = read_u8(&c)
        self._max_operations = read_u8(&c) if self.version >= 4 else 1
        self._default_is_stmt = read_u8(&c) != 0
        self._line_base = <int8_t>read_u8(&c)
        self._line_range = read_u8(&c)
        self._opcode_base = read_u8(&c)
        self._lengths = c.pos
        if self._opcode_base:
            skip(&c, self._opcode_base - 1)
        self._tables = c.pos
        if c.error == ERR_NONE and c.pos > self._program:
            c.pos = self.offset
            fail(&c, ERR_END)
        if c.error != ERR_NONE:
            raise self._error(line_error(c.error), c.error_at)
        if self._line_range == 0 or self._opcode_base == 0 or self._max_operations == 0:
            raise self._error("a line table's header has a line range, opcode base or operation count of 0", self.offset)

    # ------------------------------------------------------------------- rows

    cpdef decode(self):
        cdef Decoded table
        cdef uint64_t error_at = 0
        cdef int error
        if self._decoded:
            return
        with nogil:
            memset(&table, 0, sizeof(Decoded))
            error = self._read_program(&table, &error_at)
            if error == ERR_NONE:
                error = _sort(&table)
        if error != ERR_NONE:
            _free_decoded(&table)
            if error == NO_MEMORY:
                raise MemoryError
            raise self._error(line_error(error), error_at)
        # Another thread may have been faster while this one was without the GIL.
        if self._decoded:
            _free_decoded(&table)
            return
        self._table = table
        self._decoded = True

    cdef int _read_program(self, Decoded* out, uint64_t* error_at) noexcept nogil:
        """All rows and runs of the program (DWARF 5, section 6.2.5)."""
        cdef Cursor c = make_cursor(self._start, self._program, self.end, self._swap)
        cdef uint64_t mask = 0xffffffffffffffff if self.address_size >= 8 else (<uint64_t>1 << (8 * self.address_size)) - 1
        cdef uint64_t address_steps[256]
        cdef int line_steps[256]
        cdef LineRow* rows = NULL
        cdef LineRow* row
        cdef uint64_t n_rows = 0, capacity = 0
        cdef uint64_t address = 0, last_address = 0, number, steps, length, next_pos
        cdef uint32_t view = 0, last_view = 0, line = 1, column = 0, file = 1
        cdef uint32_t op_index = 0
        cdef uint32_t default_flags = FLAG_IS_STMT if self._default_is_stmt else 0
        cdef uint32_t flags = default_flags, emitted
        cdef uint64_t min_length = self._min_instruction_length
        cdef uint32_t max_operations = self._max_operations
        cdef uint8_t opcode_base = self._opcode_base
        cdef uint8_t opcode, operation
        cdef bint starts = True
        cdef int i
        for i in range(opcode_base, 256):
            address_steps[i] = <uint64_t>((i - opcode_base) // self._line_range)
            line_steps[i] = self._line_base + (i - opcode_base) % self._line_range
            if max_operations == 1:
                address_steps[i] *= min_length
        while c.pos < c.end:
            opcode = c.data[c.pos]
            c.pos += 1
            emitted = 0
            if opcode >= opcode_base:
                steps = address_steps[opcode]
                if max_operations != 1:
                    steps = _advance_operations(steps, min_length, max_operations, &op_index)
                if steps:
                    address = (address + steps) & mask
                    view = 0
                line += <uint32_t>line_steps[opcode]
            elif opcode == 1:  # DW_LNS_copy
                pass
            elif opcode == 2 or opcode == 8:  # DW_LNS_advance_pc, DW_LNS_const_add_pc
                if opcode == 2:
                    number = read_uleb(&c)
                else:
                    number = <uint64_t>((255 - opcode_base) // self._line_range)
                if max_operations == 1:
                    steps = number * min_length
                else:
                    steps = _advance_operations(number, min_length, max_operations, &op_index)
                if steps:
                    address = (address + steps) & mask
                    view = 0
                continue
            elif opcode == 3:  # DW_LNS_advance_line
                line += <uint32_t>read_sleb(&c)
                continue
            elif opcode == 4:  # DW_LNS_set_file
                file = <uint32_t>read_uleb(&c)
                continue
            elif opcode == 5:  # DW_LNS_set_column
                column = <uint32_t>read_uleb(&c)
                continue
            elif opcode == 6:  # DW_LNS_negate_stmt
                flags ^= FLAG_IS_STMT
                continue
            elif opcode == 7:  # DW_LNS_set_basic_block
                flags |= FLAG_BASIC_BLOCK
                continue
            elif opcode == 9:  # DW_LNS_fixed_advance_pc
                # The assembler uses it where it cannot know whether the address moves, so views go on counting.
                address = (address + read_uint(&c, 2)) & mask
                op_index = 0
                continue
            elif opcode == 10:  # DW_LNS_set_prologue_end
                flags |= FLAG_PROLOGUE_END
                continue
            elif opcode == 11:  # DW_LNS_set_epilogue_begin
                flags |= FLAG_EPILOGUE_BEGIN
                continue
            elif opcode == 12:  # DW_LNS_set_isa
                skip_leb(&c)
                continue
            elif opcode == 0:
                length = read_uleb(&c)
                if length == 0:
                    continue
                next_pos = c.pos + length
                if not has(&c, length):
                    break
                operation = read_u8(&c)
                if operation == 2:  # DW_LNE_set_address
                    if length < 2:
                        fail(&c, ERR_SIZE)
                        break
                    if length > 9:
                        fail(&c, ERR_SIZE)
                        break
                    address = read_uint(&c, <unsigned>(length - 1)) & mask
                    op_index = 0
                    view = 0
                elif operation == 3 and self.version < 5:  # DW_LNE_define_file
                    if not _append_definition(out, c.pos):
                        free(rows)
                        return NO_MEMORY
                c.pos = next_pos
                if operation != 1:
                    continue
                emitted = FLAG_END_SEQUENCE
            else:
                for i in range(c.data[self._lengths + opcode - 1]):
                    skip_leb(&c)
                continue

            if n_rows == capacity:
                # A row takes at least one byte of the program, so this is bounded by the input.
                if grow(<void**>&rows, &capacity, max(n_rows + 1, (self.end - self._program) // 3 + 16), sizeof(LineRow)):
                    free(rows)
                    return NO_MEMORY
            if (starts or address < last_address or (
                    address == last_address and view <= last_view)):
                if not _begin_run(out, rows, n_rows, address):
                    free(rows)
                    return NO_MEMORY
                starts = False
            row = &rows[n_rows]
            row.address = address
            row.view = view
            row.line = line
            row.column = column
            row.file = file
            row.flags = flags | emitted
            n_rows += 1
            last_address = address
            last_view = view
            view += 1
            flags &= FLAG_IS_STMT
            if emitted:
                address = 0
                op_index = 0
                view = 0
                line = 1
                column = 0
                file = 1
                flags = default_flags
                starts = True
        if c.error != ERR_NONE:
            free(rows)
            error_at[0] = c.error_at
            return c.error
        if n_rows:
            # Programs are kept; the room that was not needed goes back.
            row = <LineRow*>realloc(rows, n_rows * sizeof(LineRow))
            if row != NULL:
                rows = row
        out.rows = rows
        out.n_rows = n_rows
        if out.n_runs:
            out.runs[out.n_runs - 1].end = n_rows
            out.runs[out.n_runs - 1].high = rows[n_rows - 1].address
        return ERR_NONE


cdef bint _host_little() noexcept:
    cdef uint32_t one = 1
    return (<uint8_t*>&one)[0] == 1


cdef inline uint64_t _advance_operations(uint64_t operations, uint64_t min_length, uint32_t max_operations,
                                         uint32_t* op_index) noexcept nogil:
    """Bytes that the address moves for a number of operations of a VLIW machine (DWARF 5, section 6.2.5.1)."""
    cdef uint64_t instructions = operations // max_operations
    cdef uint32_t index = op_index[0] + <uint32_t>(operations % max_operations)
    op_index[0] = index % max_operations
    return min_length * (instructions + index // max_operations)


cdef bint _append_definition(Decoded* out, uint64_t at) noexcept nogil:
    if grow(<void**>&out.definitions, &out.definition_capacity, out.n_definitions + 1, sizeof(uint64_t)):
        return False
    out.definitions[out.n_definitions] = at
    out.n_definitions += 1
    return True


cdef bint _begin_run(Decoded* out, LineRow* rows, uint64_t row, uint64_t address) noexcept nogil:
    cdef uint64_t n = out.n_runs
    if grow(<void**>&out.runs, &out.run_capacity, n + 1, sizeof(Run)):
        return False
    if n:
        out.runs[n - 1].end = row
        out.runs[n - 1].high = rows[row - 1].address
    out.runs[n].low = address
    out.runs[n].first = row
    out.n_runs += 1
    return True


cdef int compare_keys(const void* a, const void* b) noexcept nogil:
    cdef const RowKey* x = <const RowKey*>a
    cdef const RowKey* y = <const RowKey*>b
    if x.address != y.address:
        return -1 if x.address < y.address else 1
    if x.view != y.view:
        return -1 if x.view < y.view else 1
    return 0


cdef inline uint64_t _last_address(Decoded* table, Run* run) noexcept nogil:
    """Address of the run's last row that does not end the sequence; a run has one."""
    cdef uint64_t last = run.end - 1
    if table.rows[last].flags & FLAG_END_SEQUENCE:
        last -= 1
    return table.rows[last].address


cdef int _sort(Decoded* table) noexcept nogil:
    """Runs in order of their starts, and what look-ups need; runs without code are dropped."""
    cdef uint64_t i, k, n = 0, last = 0, before = 0, address
    cdef Run* runs = table.runs
    cdef Interval* intervals
    cdef bint separate = True
    cdef bint has_before = False
    for i in range(table.n_runs):
        if not table.rows[runs[i].first].flags & FLAG_END_SEQUENCE:
            runs[n] = runs[i]
            n += 1
    table.n_runs = n
    for i in range(1, n):
        if _compare_runs(&runs[i - 1], &runs[i]) > 0:
            qsort(runs, n, sizeof(Run), _compare_runs)
            break
    intervals = <Interval*>malloc((n + 1) * sizeof(Interval))
    if intervals == NULL:
        return NO_MEMORY
    for i in range(n):
        intervals[i].low = runs[i].low
        intervals[i].high = runs[i].high
        intervals[i].index = i
        address = _last_address(table, &runs[i])
        if i:
            # Sequences often meet at one address; three or more at one address need the keys.
            separate = separate and runs[i].low >= last and not (has_before and runs[i].low <= before)
            before = max(before, last) if has_before else last
            has_before = True
            last = address
        else:
            has_before = False
            last = address
    table.segments = make_segments(intervals, n, &table.n_segments)
    free(intervals)
    if table.segments == NULL:
        return NO_MEMORY
    if separate:
        return ERR_NONE
    table.keys = <RowKey*>malloc((table.n_rows + 1) * sizeof(RowKey))
    if table.keys == NULL:
        return NO_MEMORY
    for i in range(n):
        for k in range(runs[i].first, runs[i].end):
            if not table.rows[k].flags & FLAG_END_SEQUENCE:
                table.keys[table.n_keys].address = table.rows[k].address
                table.keys[table.n_keys].view = table.rows[k].view
                table.n_keys += 1
    qsort(table.keys, table.n_keys, sizeof(RowKey), compare_keys)
    return ERR_NONE


cdef void _free_decoded(Decoded* table) noexcept nogil:
    free(table.rows)
    free(table.runs)
    free(table.segments)
    free(table.keys)
    free(table.definitions)
