# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Where the code of a record is: its ranges, and the address that stands for it."""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._lists cimport raise_list_error, read_ranges, resolve_list
from inlinetrace.dwarf._scan cimport HAS_ENTRY, HAS_LOW, HAS_RANGES, LIST_INDEX
from inlinetrace.dwarf._units cimport Info

from inlinetrace.errors import FormatError


cdef class RangeReader:
    """Reads the range lists of one Info, for one thread; the entries read are counted."""

    def __cinit__(self, Info info not None):
        self.info = info
        memset(&self.found, 0, sizeof(self.found))
        self.work = 0
        self.most_work = 64_000_000 + 2 * <uint64_t>(info.loclists.shape[0] + info.rnglists.shape[0]
                                                    + info.locations.shape[0] + info.ranges.shape[0])

    def __dealloc__(self):
        free(self.found.items)

    cdef int charge(self, uint64_t count) except -1 nogil:
        """Count list entries that were read: huge lists that many records share end here."""
        self.work += count
        if self.work > self.most_work:
            with gil:
                raise FormatError("long lists are shared by more entries than any compiler makes", path=self.info.path,
                                  section=self.info.section)
        return 0

    cdef int read(self, uint32_t unit, uint64_t ranges, uint32_t flags) except -1 nogil:
        """The list of a record with these ``ranges`` and ``flags`` into ``found``."""
        cdef UnitHeader* header = &self.info.headers[unit]
        cdef uint64_t at = 0
        cdef int error = 0
        if flags & LIST_INDEX:
            error = resolve_list(self.info, header, ranges, False, &ranges)
            at = ranges
        if not error:
            error = read_ranges(self.info, header, ranges, &self.found, &at)
        if error:
            with gil:
                raise_list_error(self.info, error, header.version >= 5, False, at)
        return self.charge(self.found.count)

    cdef int first_address(self, uint32_t unit, uint64_t entry, uint64_t low, uint64_t ranges, uint32_t flags,
                           uint64_t* address) except -1 nogil:
        """Entry address, else low_pc, else the start of the first range that is not empty; 0 if there is none."""
        cdef uint64_t i
        if flags & HAS_ENTRY:
            address[0] = entry
            return 1
        if flags & HAS_LOW and not flags & HAS_RANGES:
            address[0] = low
            return 1
        if not flags & HAS_RANGES:
            return 0
        self.read(unit, ranges, flags)
        for i in range(self.found.count):
            if self.found.items[i].begin < self.found.items[i].end:
                address[0] = self.found.items[i].begin
                return 1
        if self.found.count:
            address[0] = self.found.items[0].begin
            return 1
        return 0
