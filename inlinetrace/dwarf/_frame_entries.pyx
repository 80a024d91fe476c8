# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Call frame information: the entries of .debug_frame (DWARF 5, section 6.4.1) and .eh_frame (LSB, section 10.6).

The base of FrameTable (inlinetrace.dwarf._frames), which runs the programs of the entries. The table of functions is
built at the first query and sorted by address.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport (
    ERR_END, ERR_NONE, Cursor, error_text, fail, make_cursor, read_sleb, read_u8, read_u32, read_u64, read_uint,
    read_uleb, skip, skip_string,
)
from inlinetrace.dwarf._intervals cimport Interval, find_segment, make_segments
from inlinetrace.elf._search cimport count_items
from inlinetrace.errors import FormatError

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


cdef class FrameEntries:
    """The entries of one section, as a table of functions."""

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
        cdef uint64_t capacity = 0
        cdef int error
        while _read_entry(&c, self._eh, &entry):
            if not entry.is_cie:
                continue
            if grow(<void**>cies, &capacity, count[0] + 1, sizeof(Cie)):
                return NO_MEMORY
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
        return value & address_mask(cie.address_size)

    cdef int _read_fdes(self, Cie* cies, uint64_t n_cies, Fde** fdes, uint64_t* count, uint64_t* n_skipped,
                        uint64_t* error_at) noexcept nogil:
        cdef Cursor c = make_cursor(self._start, 0, self._size, self._swap)
        cdef Cursor body
        cdef Entry entry
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
            if grow(<void**>fdes, &capacity, count[0] + 1, sizeof(Fde)):
                return NO_MEMORY
            fde = &fdes[0][count[0]]
            body = make_cursor(self._start, entry.body, entry.end, self._swap)
            skip(&body, cie.segment_size)
            fde.low = self._read_address(&body, cie)
            mask = address_mask(cie.address_size)
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


cdef bint _host_little() noexcept:
    cdef uint32_t one = 1
    return (<uint8_t*>&one)[0] == 1


cdef uint64_t _find_cie(Cie* cies, uint64_t count, uint64_t offset) noexcept nogil:
    cdef uint64_t begun = count_items(&cies[0].offset, sizeof(Cie), count, offset)
    return begun - 1 if begun and cies[begun - 1].offset == offset else count


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
