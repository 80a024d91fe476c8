# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Line number programs: .debug_line of DWARF 2 to 5 (DWARF 5, section 6.2).

A LineProgram is the table of one unit. Rows carry the view numbers that gcc's location views (DW_AT_GNU_locviews,
DW_AT_GNU_entry_view) refer to. Rows are decoded at the first query, file names when somebody asks for one.
"""
from array import array

from libc.stdint cimport int8_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memchr, memset

from inlinetrace.dwarf._cursor cimport (
    ERR_END, ERR_NONE, ERR_SIZE, ERR_STRING, Cursor, error_text, fail, has, make_cursor, read_sleb, read_u8, read_u32,
    read_u64, read_uint, read_uleb, skip, skip_leb, skip_string,
)
from inlinetrace.dwarf._intervals cimport Interval, find_segment, make_segments
from inlinetrace.errors import FormatError, UnsupportedError

cdef enum:
    NO_MEMORY = 100
    BAD_FORM = 101
    EMPTY_FORMAT = 102

cdef enum:
    INLINE_STRING = 1
    LINE_STRING = 2
    DEBUG_STRING = 3
    STRING_INDEX = 4

cdef enum:
    FORM_BLOCK2 = 0x03
    FORM_BLOCK4 = 0x04
    FORM_DATA2 = 0x05
    FORM_DATA4 = 0x06
    FORM_DATA8 = 0x07
    FORM_STRING = 0x08
    FORM_BLOCK = 0x09
    FORM_BLOCK1 = 0x0a
    FORM_DATA1 = 0x0b
    FORM_SDATA = 0x0d
    FORM_STRP = 0x0e
    FORM_UDATA = 0x0f
    FORM_SEC_OFFSET = 0x17
    FORM_STRX = 0x1a
    FORM_DATA16 = 0x1e
    FORM_LINE_STRP = 0x1f
    FORM_STRX1 = 0x25
    FORM_STRX2 = 0x26
    FORM_STRX3 = 0x27
    FORM_STRX4 = 0x28


cdef str _line_error(int error):
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


cdef class LineProgram:
    """The line table of one unit (see the stub for the interface)."""

    def __cinit__(self):
        memset(&self._table, 0, sizeof(Decoded))
        self._directories = NULL
        self._files = NULL

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
        free(self._directories)
        free(self._files)

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
            raise self._error(_line_error(c.error), c.error_at)
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
            raise self._error(_line_error(error), error_at)
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
                capacity = 2 * capacity if capacity else (self.end - self._program) // 3 + 16
                row = <LineRow*>realloc(rows, capacity * sizeof(LineRow))
                if row == NULL:
                    free(rows)
                    return NO_MEMORY
                rows = row
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

    # ---------------------------------------------------------------- queries

    cdef uint64_t _runs_up_to(self, uint64_t address) noexcept nogil:
        """Number of runs that sort before or begin at (address)."""
        cdef uint64_t low = 0, high = self._table.n_runs, middle
        cdef Run* run
        while low < high:
            middle = (low + high) >> 1
            run = &self._table.runs[middle]
            if run.low <= address:
                low = middle + 1
            else:
                high = middle
        return low

    cdef uint64_t _first_key(self, uint64_t address, uint32_t view) noexcept nogil:
        """Index of the first key at or after (address, view)."""
        cdef uint64_t low = 0, high = self._table.n_keys, middle
        cdef RowKey wanted
        wanted.address = address
        wanted.view = view
        while low < high:
            middle = (low + high) >> 1
            if _compare_keys(&self._table.keys[middle], &wanted) < 0:
                low = middle + 1
            else:
                high = middle
        return low

    cdef uint64_t _first_in(self, Run* run, uint64_t address, uint32_t view) noexcept nogil:
        """Index of the run's first row at or after (address, view)."""
        cdef uint64_t low = run.first, high = run.end, middle
        cdef LineRow* row
        while low < high:
            middle = (low + high) >> 1
            row = &self._table.rows[middle]
            if row.address < address or (row.address == address and row.view < view):
                low = middle + 1
            else:
                high = middle
        return low

    cdef uint64_t _after(self, Run* run, uint64_t address) noexcept nogil:
        """Index of the run's first row after address."""
        cdef uint64_t low = run.first, high = run.end, middle
        while low < high:
            middle = (low + high) >> 1
            if self._table.rows[middle].address <= address:
                low = middle + 1
            else:
                high = middle
        return low

    cdef bint has_row_at(self, uint64_t address, uint32_t view) noexcept nogil:
        cdef uint64_t i, upto, back
        cdef Run* run
        cdef LineRow* row
        if self._table.keys != NULL:
            i = self._first_key(address, view)
            return (i < self._table.n_keys and self._table.keys[i].address == address
                    and self._table.keys[i].view == view)
        upto = self._runs_up_to(address)
        # Without keys only the last two runs can have rows at the address.
        for back in range(1, 3):
            if upto < back:
                return False
            run = &self._table.runs[upto - back]
            i = self._first_in(run, address, view)
            if i < run.end:
                row = &self._table.rows[i]
                if row.address == address and row.view == view and not row.flags & FLAG_END_SEQUENCE:
                    return True
        return False

    cdef bint next_row_at(self, uint64_t address, uint64_t* found) noexcept nogil:
        """Address of the first row after address in the sequence that find takes."""
        cdef const Interval* segment = find_segment(self._table.segments, self._table.n_segments, address)
        cdef LineRow* row
        if segment == NULL:
            return False
        row = &self._table.rows[self._after(&self._table.runs[segment.index], address)]
        found[0] = row.address
        return not row.flags & FLAG_END_SEQUENCE

    cdef LineRow* row_of(self, uint64_t address) noexcept nogil:
        """The row whose instructions include address; NULL if there is none."""
        cdef const Interval* segment = find_segment(self._table.segments, self._table.n_segments, address)
        if segment == NULL:
            return NULL
        return &self._table.rows[self._after(&self._table.runs[segment.index], address) - 1]

    def has_row(self, uint64_t address, uint64_t view=0):
        self.decode()
        return view <= 0xffffffff and bool(self.has_row_at(address, <uint32_t>view))

    def next_row(self, uint64_t address):
        cdef uint64_t found = 0
        self.decode()
        return found if self.next_row_at(address, &found) else None

    def first_row_at_or_after(self, uint64_t address):
        cdef uint64_t i, at
        cdef Run* run
        self.decode()
        if self._table.keys != NULL:
            i = self._first_key(address, 0)
            return self._table.keys[i].address if i < self._table.n_keys else None
        i = self._runs_up_to(address)
        if i:
            run = &self._table.runs[i - 1]
            at = self._first_in(run, address, 0)
            if at < run.end and not self._table.rows[at].flags & FLAG_END_SEQUENCE:
                return self._table.rows[at].address
        if i < self._table.n_runs:
            return self._table.runs[i].low
        return None

    def find(self, uint64_t address):
        cdef LineRow* row
        self.decode()
        row = self.row_of(address)
        return None if row == NULL else (row.file, row.line, row.column)

    @property
    def rows(self):
        cdef uint64_t i, count
        self.decode()
        count = self._table.n_rows
        columns = (array("Q", bytes(8 * count)), array("I", bytes(4 * count)), array("I", bytes(4 * count)),
                   array("I", bytes(4 * count)), array("I", bytes(4 * count)), array("B", bytes(count)))
        cdef uint64_t[::1] addresses = columns[0]
        cdef uint32_t[::1] views = columns[1]
        cdef uint32_t[::1] lines = columns[2]
        cdef uint32_t[::1] column_numbers = columns[3]
        cdef uint32_t[::1] files = columns[4]
        cdef uint8_t[::1] flags = columns[5]
        with nogil:
            for i in range(count):
                addresses[i] = self._table.rows[i].address
                views[i] = self._table.rows[i].view
                lines[i] = self._table.rows[i].line
                column_numbers[i] = self._table.rows[i].column
                files[i] = self._table.rows[i].file
                flags[i] = <uint8_t>self._table.rows[i].flags
        return columns

    @property
    def sequences(self):
        cdef uint64_t i
        self.decode()
        return [(self._table.runs[i].low, self._table.runs[i].high) for i in range(self._table.n_runs)]

    def __len__(self):
        self.decode()
        return self._table.n_rows

    # ------------------------------------------------------------------ names

    cdef _read_names(self):
        cdef Cursor c = make_cursor(self._start, self._tables, self._program, self._swap)
        cdef Cursor definition
        cdef Name* directories = NULL
        cdef Name* files = NULL
        cdef uint64_t n_directories = 0, n_files = 0, capacity, i
        cdef int error
        if self._named:
            return
        if self.version < 5:
            # DW_LNE_define_file in the program adds to the header's table.
            self.decode()
        if self.version >= 5:
            error = self._read_entries(&c, &directories, &n_directories)
            if error == ERR_NONE:
                error = self._read_entries(&c, &files, &n_files)
        else:
            error = self._read_old_entries(&c, &directories, &n_directories, False)
            if error == ERR_NONE:
                error = self._read_old_entries(&c, &files, &n_files, True)
            capacity = n_files
            for i in range(self._table.n_definitions):
                if error != ERR_NONE:
                    break
                definition = make_cursor(self._start, self._table.definitions[i], self.end, self._swap)
                if not _append_old_entry(&definition, &files, &n_files, &capacity, True):
                    error = NO_MEMORY
                elif definition.error != ERR_NONE:
                    c = definition
                    error = c.error
        if error != ERR_NONE:
            free(directories)
            free(files)
            if error == NO_MEMORY:
                raise MemoryError
            raise self._error(_line_error(error), c.error_at if c.error != ERR_NONE else c.pos)
        self._directories = directories
        self._n_directories = n_directories
        self._files = files
        self._n_files = n_files
        self._named = True

    cdef int _read_old_entries(self, Cursor* c, Name** names, uint64_t* count, bint is_file) noexcept nogil:
        cdef uint64_t capacity = 0
        while True:
            if not has(c, 1):
                return c.error
            if c.data[c.pos] == 0:
                c.pos += 1
                return ERR_NONE
            if not _append_old_entry(c, names, count, &capacity, is_file):
                return NO_MEMORY
            if c.error != ERR_NONE:
                return c.error

    cdef int _read_entries(self, Cursor* c, Name** names, uint64_t* count) noexcept nogil:
        """One table of DWARF 5: its format, then its entries (section 6.2.4.1)."""
        cdef uint64_t contents[256]
        cdef uint64_t forms[256]
        cdef uint64_t total, capacity = 0, i, number
        cdef int n_formats = read_u8(c), k, kind
        cdef Name* name
        for k in range(n_formats):
            contents[k] = read_uleb(c)
            forms[k] = read_uleb(c)
        total = read_uleb(c)
        if c.error != ERR_NONE:
            return c.error
        if total and not n_formats:
            return EMPTY_FORMAT
        for i in range(total):
            if count[0] == capacity:
                capacity = 2 * capacity + 16
                name = <Name*>realloc(names[0], capacity * sizeof(Name))
                if name == NULL:
                    return NO_MEMORY
                names[0] = name
            name = &names[0][count[0]]
            memset(name, 0, sizeof(Name))
            for k in range(n_formats):
                kind = self._read_form(c, forms[k], &number)
                if c.error != ERR_NONE:
                    return c.error
                if kind < 0:
                    return BAD_FORM
                if contents[k] == 1:  # DW_LNCT_path
                    if kind == 0:
                        return BAD_FORM
                    name.kind = kind
                    name.value = number
                elif contents[k] == 2:  # DW_LNCT_directory_index
                    name.directory = number
            count[0] += 1
        return ERR_NONE

    cdef int _read_form(self, Cursor* c, uint64_t form, uint64_t* number) noexcept nogil:
        """Kind of string (0: a number or a block); -1 for a form that no entry may have."""
        number[0] = c.pos
        if form == FORM_STRING:
            skip_string(c)
            return INLINE_STRING
        if form == FORM_LINE_STRP or form == FORM_STRP:
            number[0] = read_uint(c, self.offset_size)
            return LINE_STRING if form == FORM_LINE_STRP else DEBUG_STRING
        if form == FORM_STRX:
            number[0] = read_uleb(c)
            return STRING_INDEX
        if FORM_STRX1 <= form <= FORM_STRX4:
            number[0] = read_uint(c, <unsigned>(form - FORM_STRX1 + 1))
            return STRING_INDEX
        if form == FORM_UDATA:
            number[0] = read_uleb(c)
        elif form == FORM_DATA1:
            number[0] = read_u8(c)
        elif form == FORM_DATA2:
            number[0] = read_uint(c, 2)
        elif form == FORM_DATA4:
            number[0] = read_u32(c)
        elif form == FORM_DATA8:
            number[0] = read_u64(c)
        elif form == FORM_SEC_OFFSET:
            number[0] = read_uint(c, self.offset_size)
        elif form == FORM_SDATA:
            number[0] = <uint64_t>read_sleb(c)
        elif form == FORM_DATA16:
            skip(c, 16)
        elif form == FORM_BLOCK:
            skip(c, read_uleb(c))
        elif form == FORM_BLOCK1:
            skip(c, read_u8(c))
        elif form == FORM_BLOCK2:
            skip(c, read_uint(c, 2))
        elif form == FORM_BLOCK4:
            skip(c, read_u32(c))
        else:
            return -1
        return 0

    cdef str _text(self, Name* name):
        cdef const uint8_t[::1] data
        cdef uint64_t at = name.value
        cdef Cursor c
        cdef str section
        if name.kind == 0:
            return ""
        if name.kind == INLINE_STRING:
            data = self._data
            section = self.section
        elif name.kind == LINE_STRING:
            data = self._line_str
            section = ".debug_line_str"
        else:
            data = self._strings
            section = ".debug_str"
            if name.kind == STRING_INDEX:
                at = self._string_offset(at)
        if data is None or at >= <uint64_t>data.shape[0]:
            raise FormatError(f"a file name of the line table at {self.offset:#x} lies outside this section",
                              path=self.path, section=section, offset=at)
        c = make_cursor(&data[0], at, data.shape[0], False)
        skip_string(&c)
        if c.error != ERR_NONE:
            raise FormatError(_line_error(c.error), path=self.path, section=section, offset=at)
        return bytes(data[at:c.pos - 1]).decode("utf-8", "backslashreplace")

    cdef uint64_t _string_offset(self, uint64_t index) except? 0xffffffffffffffff:
        cdef uint64_t size = 0 if self._string_offsets is None else self._string_offsets.shape[0]
        cdef uint64_t base = self._string_offsets_base
        cdef uint64_t offset
        cdef Cursor c
        if base > size or index >= (size - base) // <unsigned>self.offset_size:
            raise FormatError(f"a file name of the line table at {self.offset:#x} has index {index}, which is not there",
                              path=self.path, section=".debug_str_offsets", offset=base)
        c = make_cursor(&self._string_offsets[0], base + index * <unsigned>self.offset_size, size, self._swap)
        offset = read_uint(&c, self.offset_size)
        return offset

    def directory_name(self, uint64_t index):
        self._read_names()
        if self.version >= 5:
            if index >= self._n_directories:
                return None
            name = self._text(&self._directories[index])
            base = self._text(&self._directories[0]) if index else ""
        else:
            if index > self._n_directories:
                return None
            name = self._text(&self._directories[index - 1]) if index else ""
            base = ""
        if self.comp_dir is not None:
            base = self.comp_dir
        return _relative(_tidy(name), base)

    def file_name(self, uint64_t index):
        cdef Name* entry
        self._read_names()
        if self.version < 5:
            if index == 0:
                return None
            index -= 1
        if index >= self._n_files:
            return None
        entry = &self._files[index]
        name = self._text(entry)
        if name.startswith("/"):
            directory = ""
        else:
            directory = self.directory_name(entry.directory)
            if directory is None:
                raise self._error(f"file {name!r} lies in directory {entry.directory}, which is not there", self._tables)
        full = f"{directory}/{name}" if directory else name
        return _relative(_tidy(full), "" if self.comp_dir is None else self.comp_dir)

    @property
    def file_count(self):
        """Number of entries of the file table; the first has number 0 in version 5 and 1 before."""
        self._read_names()
        return self._n_files

    @property
    def files(self):
        self._read_names()
        first = 0 if self.version >= 5 else 1
        return [self.file_name(first + i) for i in range(self._n_files)]


cdef str _tidy(str path):
    """Without empty and "." parts; ".." stays, because a symbolic link before it may lead elsewhere."""
    if "//" not in path and "./" not in path and not path.endswith("/."):
        return path
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


cdef str _relative(str path, str base):
    base = base.rstrip("/")
    if base and path == base:
        return ""
    if base and path.startswith(base + "/"):
        return path[len(base) + 1:]
    return path


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
    cdef uint64_t* grown
    cdef uint64_t n = out.n_definitions
    if n & (n - 1) == 0:
        grown = <uint64_t*>realloc(out.definitions, (2 * n if n else 1) * sizeof(uint64_t))
        if grown == NULL:
            return False
        out.definitions = grown
    out.definitions[n] = at
    out.n_definitions += 1
    return True


cdef bint _begin_run(Decoded* out, LineRow* rows, uint64_t row, uint64_t address) noexcept nogil:
    cdef Run* grown
    cdef uint64_t n = out.n_runs
    if n & (n - 1) == 0:
        grown = <Run*>realloc(out.runs, (2 * n if n else 1) * sizeof(Run))
        if grown == NULL:
            return False
        out.runs = grown
    if n:
        out.runs[n - 1].end = row
        out.runs[n - 1].high = rows[row - 1].address
    out.runs[n].low = address
    out.runs[n].first = row
    out.n_runs += 1
    return True


cdef bint _append_old_entry(Cursor* c, Name** names, uint64_t* count, uint64_t* capacity, bint is_file) noexcept nogil:
    """A directory or file entry of versions before 5."""
    cdef Name* name
    if count[0] == capacity[0]:
        capacity[0] = 2 * capacity[0] + 16
        name = <Name*>realloc(names[0], capacity[0] * sizeof(Name))
        if name == NULL:
            return False
        names[0] = name
    name = &names[0][count[0]]
    name.kind = INLINE_STRING
    name.value = c.pos
    name.directory = 0
    skip_string(c)
    if is_file:
        name.directory = read_uleb(c)
        skip_leb(c)
        skip_leb(c)
    count[0] += 1
    return True


cdef int _compare_keys(const void* a, const void* b) noexcept nogil:
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
    qsort(table.keys, table.n_keys, sizeof(RowKey), _compare_keys)
    return ERR_NONE


cdef void _free_decoded(Decoded* table) noexcept nogil:
    free(table.rows)
    free(table.runs)
    free(table.segments)
    free(table.keys)
    free(table.definitions)
