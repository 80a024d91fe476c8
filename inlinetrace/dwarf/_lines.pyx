# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Line number programs: .debug_line of DWARF 2 to 5 (DWARF 5, section 6.2).

A LineProgram is the table of one unit. Rows carry the view numbers that gcc's location views (DW_AT_GNU_locviews,
DW_AT_GNU_entry_view) refer to. Rows are decoded at the first query, file names when somebody asks for one.
"""
from array import array

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport (
    ERR_NONE, Cursor, has, make_cursor, read_sleb, read_u8, read_u32, read_u64, read_uint, read_uleb, skip, skip_leb,
    skip_string,
)
from inlinetrace.dwarf._intervals cimport Interval, find_segment
from inlinetrace.dwarf._line_rows cimport (
    BAD_FORM, EMPTY_FORMAT, FLAG_END_SEQUENCE, NO_MEMORY, LineRow, LineRows, RowKey, Run, compare_keys, line_error,
)
from inlinetrace.elf._search cimport count_items
from inlinetrace.errors import FormatError

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


cdef class LineProgram(LineRows):
    """The line table of one unit (see the stub for the interface)."""

    def __cinit__(self):
        self._directories = NULL
        self._files = NULL

    def __dealloc__(self):
        free(self._directories)
        free(self._files)

    # ---------------------------------------------------------------- queries

    cdef uint64_t _runs_up_to(self, uint64_t address) noexcept nogil:
        """Number of runs that sort before or begin at (address)."""
        return count_items(&self._table.runs[0].low, sizeof(Run), self._table.n_runs, address)

    cdef uint64_t _first_key(self, uint64_t address, uint32_t view) noexcept nogil:
        """Index of the first key at or after (address, view)."""
        cdef uint64_t low = 0, high = self._table.n_keys, middle
        cdef RowKey wanted
        wanted.address = address
        wanted.view = view
        while low < high:
            middle = (low + high) >> 1
            if compare_keys(&self._table.keys[middle], &wanted) < 0:
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
        return run.first + count_items(&self._table.rows[run.first].address, sizeof(LineRow), run.end - run.first, address)

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
            raise self._error(line_error(error), c.error_at if c.error != ERR_NONE else c.pos)
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
            if grow(<void**>names, &capacity, count[0] + 1, sizeof(Name)):
                return NO_MEMORY
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
            raise FormatError(line_error(c.error), path=self.path, section=section, offset=at)
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


cdef bint _append_old_entry(Cursor* c, Name** names, uint64_t* count, uint64_t* capacity, bint is_file) noexcept nogil:
    """A directory or file entry of versions before 5."""
    cdef Name* name
    if grow(<void**>names, capacity, count[0] + 1, sizeof(Name)):
        return False
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
