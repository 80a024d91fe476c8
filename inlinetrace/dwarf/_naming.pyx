# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Which units can have a function of some name, told without reading their entries.

A unit names a function by four bytes that are the offset of a string, or by the text itself; where neither of the two
occurs among its bytes, the unit has no such function. Its abbreviations tell whether that is all there is to know.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from inlinetrace.dwarf._forms cimport Abbreviation, Abbreviations, Spec, UnitHeader, free_abbreviations, load_abbreviations
from inlinetrace.dwarf._units cimport Info, describe
from inlinetrace.elf._search cimport is_among

from inlinetrace.errors import FormatError

cdef extern from "string.h":
    void* memmem(const void* haystack, size_t length, const void* needle, size_t needle_length) nogil

cdef extern from *:
    """
    static inline unsigned int it_swap(unsigned int value) { return __builtin_bswap32(value); }
    """
    uint32_t it_swap(uint32_t value) nogil

cdef enum:
    # What ends as many strings as this could stand anywhere.
    MANY = 1000
    PAIRS = 1 << 16

cdef enum:
    U_TEXT = 1          # some functions are named by the text itself
    U_OPAQUE = 2        # some functions are named in other ways
    U_FOREIGN = 4       # functions or copies refer to entries of other units, as far as their form tells


cdef int _habits(Abbreviations* table) noexcept nogil:
    """How a unit with these abbreviations names and refers to functions: a sum of U_*."""
    cdef Abbreviation* entry
    cdef Spec* spec
    cdef uint32_t i, j
    cdef int habits = 0
    for i in range(table.count):
        entry = &table.entries[i]
        if entry.tag != 0x2e and entry.tag != 0x1d:
            continue
        for j in range(entry.count):
            spec = &table.specs[entry.first + j]
            if spec.attribute == 0x31 or spec.attribute == 0x47:
                # DW_FORM_ref1 to DW_FORM_ref_udata stay inside of the unit
                if not 0x11 <= spec.form <= 0x15:
                    habits |= U_FOREIGN
            elif spec.attribute == 0x03 and entry.tag == 0x2e:
                if spec.form == 0x08:
                    habits |= U_TEXT
                elif spec.form != 0x0e:
                    habits |= U_OPAQUE
    return habits


cdef class Naming:
    """See the stub."""

    cdef Info info
    cdef list texts
    cdef uint64_t* wanted           # four bytes as the file has them, ascending as numbers of this machine
    cdef uint64_t count
    # For each pair of bytes 1 if wanted ones begin with it, 2 if it follows their first byte.
    cdef uint8_t* pairs
    cdef readonly bint useful

    def __cinit__(self, Info info not None, list names not None):
        cdef set offsets = set()
        cdef uint64_t i
        cdef uint16_t pair
        cdef uint32_t value
        cdef int place
        self.info = info
        self.texts = [name + b"\0" for name in names]
        self.useful = not info.is_dwo and info.alternate is None and all(names)
        for text in self.texts:
            if not self.useful or not self._find(text, offsets):
                self.useful = False
                return
        self.count = len(offsets)
        self.wanted = <uint64_t*>malloc(max(self.count, 1) * sizeof(uint64_t))
        self.pairs = <uint8_t*>calloc(PAIRS, 1)
        if self.wanted == NULL or self.pairs == NULL:
            raise MemoryError
        for i, offset in enumerate(sorted([it_swap(offset) if info.swap else offset for offset in offsets])):
            self.wanted[i] = offset
        for i in range(self.count):
            value = <uint32_t>self.wanted[i]
            for place in range(2):
                memcpy(&pair, <const uint8_t*>&value + place, 2)
                self.pairs[pair] |= 1 << place

    def __dealloc__(self):
        free(self.wanted)
        free(self.pairs)

    cdef bint _find(self, bytes text, set offsets):
        """Add where ``text`` stands in .debug_str, also as the end of longer strings; False if that is too often."""
        cdef uint64_t size = self.info.strings.shape[0], at = 0
        cdef const uint8_t* data = &self.info.strings[0] if size else NULL
        cdef const uint8_t* found
        if size >> 32:
            return False
        while at < size:
            found = <const uint8_t*>memmem(data + at, size - at, <const char*>text, len(text))
            if found == NULL:
                break
            offsets.add(found - data)
            if len(offsets) > MANY:
                return False
            at = found - data + 1
        return True

    def units(self, Py_ssize_t first, Py_ssize_t last):
        """See the stub."""
        cdef Abbreviations table
        cdef UnitHeader* unit
        cdef Info info = self.info
        cdef uint8_t* chosen
        cdef Py_ssize_t i
        cdef uint64_t where = 0
        cdef int error = 0, habits, foreign = 0
        if not self.useful:
            return None
        if not 0 <= first <= last <= info.count:
            raise IndexError("no such units")
        memset(&table, 0, sizeof(table))
        chosen = <uint8_t*>calloc(last - first + 1, 1)
        if chosen == NULL:
            raise MemoryError
        try:
            with nogil:
                for i in range(first, last):
                    unit = &info.headers[i]
                    error = load_abbreviations(&table, &info.abbrev[0] if info.abbrev.shape[0] else NULL,
                                               info.abbrev.shape[0], unit.abbrev_offset, 0, unit, &where)
                    if error:
                        break
                    habits = _habits(&table)
                    foreign |= habits & U_FOREIGN
                    chosen[i - first] = habits & U_OPAQUE or self._occurs(info.data + unit.first_die, unit.end - unit.first_die)
                    if not chosen[i - first] and habits & U_TEXT:
                        with gil:
                            chosen[i - first] = self._has_text(info.data + unit.first_die, unit.end - unit.first_die)
            if error:
                if error < 0:
                    raise MemoryError
                raise FormatError(describe(error), path=info.path, section=".debug_abbrev", offset=where)
            return None if foreign else [i for i in range(first, last) if chosen[i - first]]
        finally:
            free(chosen)
            free_abbreviations(&table)

    cdef bint _has_text(self, const uint8_t* data, uint64_t size):
        cdef bytes text
        for text in self.texts:
            if memmem(data, size, <const char*>text, len(text)) != NULL:
                return True
        return False

    cdef bint _occurs(self, const uint8_t* data, uint64_t size) noexcept nogil:
        """Whether one of the wanted offsets is among these bytes."""
        cdef uint64_t at = 0, eight
        cdef uint16_t pair
        cdef uint8_t place
        cdef const uint8_t* pairs = self.pairs
        # Whatever begins at an odd place has its second and third byte at an even one.
        while at + 2 <= size:
            if at + 8 <= size:
                memcpy(&eight, data + at, 8)
                if not (pairs[eight & 0xffff] | pairs[eight >> 16 & 0xffff] | pairs[eight >> 32 & 0xffff] | pairs[eight >> 48]):
                    at += 8
                    continue
            memcpy(&pair, data + at, 2)
            place = pairs[pair]
            if place & 1 and at + 4 <= size and self._wanted(data + at):
                return True
            if place & 2 and at and at + 3 <= size and self._wanted(data + at - 1):
                return True
            at += 2
        return False

    cdef bint _wanted(self, const uint8_t* data) noexcept nogil:
        cdef uint32_t value
        memcpy(&value, data, 4)
        return is_among(self.wanted, self.count, value)
