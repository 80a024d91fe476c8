# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Relocations of one section of a relocatable file: applied to its contents, or as a list of what they refer to.

``Layout`` holds views of the relocation entries and the symbol table, ``apply`` patches a bytearray, ``values`` returns
places with what their symbols are.
Every offset is checked; trouble surfaces as RelocationError, which the caller turns into an error with a path.
"""
from array import array

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from inlinetrace.dwarf._cursor cimport host_is_little, inlinetrace_swap16, inlinetrace_swap32, inlinetrace_swap64

cdef enum:
    UNKNOWN = 0
    NONE = 1
    ABSOLUTE = 2
    RELATIVE = 3
    ADD = 4
    SUBTRACT = 5
    SET_ULEB128 = 6
    SUBTRACT_ULEB128 = 7
    SET_6 = 8
    SUBTRACT_6 = 9
    THREAD_LOCAL = 10

cdef enum:
    SHN_COMMON = 0xfff2

cdef enum:
    OK = 0
    BAD_PLACE = 1
    BAD_SYMBOL = 2
    BAD_TYPE = 3

# What the table of relocation types and this module must agree about.
OPERATIONS = {
    "UNKNOWN": UNKNOWN, "NONE": NONE, "ABSOLUTE": ABSOLUTE, "RELATIVE": RELATIVE, "ADD": ADD, "SUBTRACT": SUBTRACT,
    "SET_ULEB128": SET_ULEB128, "SUBTRACT_ULEB128": SUBTRACT_ULEB128, "SET_6": SET_6, "SUBTRACT_6": SUBTRACT_6,
    "THREAD_LOCAL": THREAD_LOCAL,
}


class RelocationError(Exception):
    """What is wrong, with ``kind`` (bounds, symbol or type), ``offset`` of the relocation entry and ``number``."""

    def __init__(self, kind, offset, number):
        super().__init__(kind)
        self.kind = kind
        self.offset = offset
        self.number = number


cdef struct Entry:
    uint64_t offset
    uint64_t value        # of the symbol
    uint64_t addend
    uint32_t symbol
    uint32_t section      # of the symbol; 0: none
    uint32_t type
    int operation
    unsigned size


cdef inline uint64_t load(const uint8_t* at, unsigned size, bint swap) noexcept nogil:
    cdef uint64_t wide
    cdef uint32_t word
    cdef uint16_t half
    if size == 8:
        memcpy(&wide, at, 8)
        return inlinetrace_swap64(wide) if swap else wide
    if size == 4:
        memcpy(&word, at, 4)
        return inlinetrace_swap32(word) if swap else word
    if size == 2:
        memcpy(&half, at, 2)
        return inlinetrace_swap16(half) if swap else half
    return at[0]


cdef inline void store(uint8_t* at, unsigned size, bint swap, uint64_t value) noexcept nogil:
    cdef uint64_t wide
    cdef uint32_t word
    cdef uint16_t half
    if size == 8:
        wide = inlinetrace_swap64(value) if swap else value
        memcpy(at, &wide, 8)
    elif size == 4:
        word = inlinetrace_swap32(<uint32_t>value) if swap else <uint32_t>value
        memcpy(at, &word, 4)
    elif size == 2:
        half = inlinetrace_swap16(<uint16_t>value) if swap else <uint16_t>value
        memcpy(at, &half, 2)
    else:
        at[0] = <uint8_t>value


cdef class Layout:
    """How the entries of one relocation section and of its symbol table are laid out."""

    cdef const uint8_t[::1] entries
    cdef const uint8_t[::1] symbols
    cdef const uint8_t[::1] extended
    cdef const uint8_t[::1] kinds
    cdef const uint64_t[::1] bases
    cdef uint64_t base_count
    cdef uint64_t place
    cdef uint64_t count
    cdef uint64_t symbol_count
    cdef uint64_t extended_count
    cdef uint64_t kind_count
    cdef unsigned entry_size
    cdef bint wide
    cdef bint with_addends
    cdef bint swap
    cdef bint lenient
    cdef uint64_t thread_local_bias

    def __init__(
        self, const uint8_t[::1] entries, const uint8_t[::1] symbols, const uint8_t[::1] extended,
        const uint8_t[::1] kinds, const uint64_t[::1] bases, *, uint64_t place, address_size, with_addends, little_endian, thread_local_bias, lenient,
    ):
        self.entries = entries
        self.symbols = symbols
        self.extended = extended
        self.kinds = kinds
        self.bases = bases
        self.base_count = bases.shape[0]
        self.place = place
        self.wide = address_size == 8
        self.with_addends = with_addends
        self.swap = bool(little_endian) != host_is_little()
        self.lenient = lenient
        self.thread_local_bias = thread_local_bias
        self.entry_size = (3 if with_addends else 2) * address_size
        self.count = <uint64_t>entries.shape[0] // self.entry_size
        self.symbol_count = <uint64_t>symbols.shape[0] // (24 if self.wide else 16)
        self.extended_count = <uint64_t>extended.shape[0] // 4
        self.kind_count = kinds.shape[0]

    cdef int read(self, uint64_t index, Entry* entry) noexcept nogil:
        cdef const uint8_t* at = &self.entries[0] + index * self.entry_size
        cdef uint64_t info
        cdef uint8_t kind
        if self.wide:
            entry.offset = load(at, 8, self.swap)
            info = load(at + 8, 8, self.swap)
            entry.symbol = <uint32_t>(info >> 32)
            entry.type = <uint32_t>info
            entry.addend = load(at + 16, 8, self.swap) if self.with_addends else 0
        else:
            entry.offset = load(at, 4, self.swap)
            info = load(at + 4, 4, self.swap)
            entry.symbol = <uint32_t>(info >> 8)
            entry.type = <uint32_t>(info & 0xff)
            entry.addend = <uint64_t><int64_t><int32_t>load(at + 8, 4, self.swap) if self.with_addends else 0
        kind = self.kinds[entry.type] if entry.type < self.kind_count else 0
        entry.operation = kind >> 4
        entry.size = kind & 15
        entry.value = 0
        entry.section = 0
        if entry.operation == UNKNOWN:
            return OK if self.lenient else BAD_TYPE
        return self.read_symbol(entry) if entry.operation != NONE else OK

    cdef int read_symbol(self, Entry* entry) noexcept nogil:
        cdef const uint8_t* symbol
        if entry.symbol == 0:
            return OK
        if entry.symbol >= self.symbol_count:
            return BAD_SYMBOL
        if self.wide:
            symbol = &self.symbols[0] + <uint64_t>entry.symbol * 24
            entry.section = <uint32_t>load(symbol + 6, 2, self.swap)
            entry.value = load(symbol + 8, 8, self.swap)
        else:
            symbol = &self.symbols[0] + <uint64_t>entry.symbol * 16
            entry.section = <uint32_t>load(symbol + 14, 2, self.swap)
            entry.value = load(symbol + 4, 4, self.swap)
        if entry.section == 0xffff:
            if entry.symbol >= self.extended_count:
                return BAD_SYMBOL
            entry.section = <uint32_t>load(&self.extended[0] + <uint64_t>entry.symbol * 4, 4, self.swap)
        elif entry.section >= 0xff00:
            if entry.section == SHN_COMMON:
                # There the value is an alignment; the address is not known before linking.
                entry.value = 0
            entry.section = 0
        if entry.section < self.base_count:
            entry.value += self.bases[entry.section]
        return OK


cdef inline uint64_t sign_extend(uint64_t value, unsigned size) noexcept nogil:
    if size == 4:
        return <uint64_t><int64_t><int32_t>value
    if size == 2:
        return <uint64_t><int64_t><int16_t>value
    if size == 1:
        return <uint64_t><int64_t><int8_t>value
    return value


cdef int patch_uleb(uint8_t* data, uint64_t size, uint64_t at, uint64_t value, bint subtract) noexcept nogil:
    cdef uint64_t end = at
    cdef uint64_t old = 0
    cdef unsigned shift = 0
    while True:
        if end >= size or shift > 63:
            return BAD_PLACE
        old |= <uint64_t>(data[end] & 0x7f) << shift
        shift += 7
        end += 1
        if data[end - 1] < 0x80:
            break
    if subtract:
        value = old - value
    while at < end:
        data[at] = (data[at] & 0x80) | <uint8_t>(value & 0x7f)
        value >>= 7
        at += 1
    return OK


cdef int apply_all(Layout layout, uint8_t* data, uint64_t size, uint64_t* failed, uint32_t* number) noexcept nogil:
    cdef uint64_t index
    cdef uint64_t value
    cdef uint8_t* place
    cdef Entry entry
    cdef int error
    for index in range(layout.count):
        error = layout.read(index, &entry)
        if error == OK and entry.operation > NONE:
            if entry.offset >= size or size - entry.offset < entry.size:
                error = BAD_PLACE
            else:
                place = data + entry.offset
                value = entry.value + entry.addend
                if not layout.with_addends:
                    value += sign_extend(load(place, entry.size, layout.swap), entry.size)
                if entry.operation == ABSOLUTE:
                    store(place, entry.size, layout.swap, value)
                elif entry.operation == RELATIVE:
                    store(place, entry.size, layout.swap, value - layout.place - entry.offset)
                elif entry.operation == ADD:
                    store(place, entry.size, layout.swap, load(place, entry.size, layout.swap) + value)
                elif entry.operation == SUBTRACT:
                    store(place, entry.size, layout.swap, load(place, entry.size, layout.swap) - value)
                elif entry.operation == THREAD_LOCAL:
                    store(place, entry.size, layout.swap, value - layout.thread_local_bias)
                elif entry.operation == SET_6:
                    place[0] = (place[0] & 0xc0) | <uint8_t>(value & 0x3f)
                elif entry.operation == SUBTRACT_6:
                    place[0] = (place[0] & 0xc0) | <uint8_t>((place[0] - value) & 0x3f)
                else:
                    error = patch_uleb(data, size, entry.offset, value, entry.operation == SUBTRACT_ULEB128)
        if error != OK:
            failed[0] = index
            number[0] = entry.symbol if error == BAD_SYMBOL else entry.type
            return error
    return OK


cdef raise_problem(int error, uint64_t offset, uint32_t number):
    raise RelocationError("bounds" if error == BAD_PLACE else "symbol" if error == BAD_SYMBOL else "type", offset, number)


def apply(Layout layout not None, bytearray data not None):
    """Apply the relocations to ``data``, the contents of the section they belong to."""
    cdef uint8_t[::1] view = data
    cdef uint64_t size = view.shape[0]
    cdef uint64_t failed = 0
    cdef uint32_t number = 0
    cdef int error
    cdef uint8_t* start = &view[0] if size else NULL
    with nogil:
        error = apply_all(layout, start, size, &failed, &number)
    if error != OK:
        raise_problem(error, failed * layout.entry_size, number)


def values(Layout layout not None):
    """Return arrays of every relocation's place (an address, ``Q``), symbol value + addend (``Q``) and symbol's section (``I``).

    Types do not matter here; 0 stands for no section. An addend that is in the section's contents is not included.
    """
    offsets = array("Q", bytes(8 * layout.count))
    sums = array("Q", bytes(8 * layout.count))
    sections = array("I", bytes(4 * layout.count))
    if not layout.count:
        return offsets, sums, sections
    cdef uint64_t[::1] to_offsets = offsets
    cdef uint64_t[::1] to_sums = sums
    cdef uint32_t[::1] to_sections = sections
    cdef uint64_t index
    cdef uint64_t failed = 0
    cdef Entry entry
    cdef int error = OK
    with nogil:
        for index in range(layout.count):
            error = layout.read(index, &entry)
            if error != OK:
                failed = index
                break
            if entry.operation == UNKNOWN:
                error = layout.read_symbol(&entry)
                if error != OK:
                    failed = index
                    break
            to_offsets[index] = layout.place + entry.offset
            to_sums[index] = entry.value + entry.addend
            to_sections[index] = entry.section
    if error != OK:
        raise_problem(error, failed * layout.entry_size, entry.symbol if error == BAD_SYMBOL else entry.type)
    return offsets, sums, sections
