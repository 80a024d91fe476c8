# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Questions about the records of a whole section of units: which functions have a name, which sites are theirs.

A record is named by its *id*: number of the chunk in the top 32 bits, index in the chunk below.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp

from inlinetrace.dwarf._forms cimport STR_ALT, STR_INLINE, STR_LINE, STR_NONE, STR_SHIFT, STR_STR, UnitHeader
from inlinetrace.dwarf._lines cimport LineProgram
from inlinetrace.dwarf._lists cimport (
    Entry, find_live, raise_list_error, read_locations, resolve_list,
)
from inlinetrace.dwarf._ranges cimport RangeReader
from inlinetrace.dwarf._scan cimport (
    ABSTRACT, ALT_ORIGIN, DECLARATION, EXTERNAL, HAS_ENTRY, HAS_LOW, HAS_RANGES, LOC_BYTES, LOC_EXPRESSION, LOC_LIST,
    LOC_LIST_INDEX, LOC_SINT, LOC_UINT, NO_PARENT, NONE32, Chunk, FunctionRecord, ParameterRecord, SiteRecord,
)
from inlinetrace.dwarf._units cimport Info
from inlinetrace.elf._search cimport is_among

from array import array

from inlinetrace.errors import FormatError


cdef class SiteEntry:
    """One DW_TAG_inlined_subroutine; ``origin`` is a section offset, parents are ids or -1."""


cdef class FunctionEntry:
    """One DW_TAG_subprogram; ``frame_base`` is the bytes of its expression, ``origin`` 0 where it has none."""


cdef int _compare(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0]
    cdef uint64_t y = (<const uint64_t*>b)[0]
    return (x > y) - (x < y)


cdef class Records:
    """The chunks of one Info, in the order of its units; those that are not scanned yet are empty."""

    def __cinit__(self, Info info, list chunks):
        expected = 0
        self.info = info
        self.alternate = info.alternate
        self.chunks = chunks
        self.lists = RangeReader(info)
        for part in chunks:
            if (<Chunk>part).first_unit != expected:
                raise ValueError("the chunks are not those of all units in order")
            expected = (<Chunk>part).last_unit
        if expected != info.count:
            raise ValueError("the chunks are not those of all units in order")

    def put(self, Py_ssize_t number, Chunk chunk not None):
        """Replace an empty chunk by that of the same units, scanned."""
        cdef Chunk before = self.chunks[number]
        if before.entries or before.first_unit != chunk.first_unit or before.last_unit != chunk.last_unit:
            raise ValueError("the chunk is not that of these units")
        self.chunks[number] = chunk

    @property
    def site_count(self):
        """Number of DW_TAG_inlined_subroutine entries."""
        return sum(chunk.sites_found for chunk in self.chunks)

    def name_references(self):
        """Packed references of all names that functions have, each once, sorted ("Q" array)."""
        cdef Chunk chunk
        cdef uint64_t total = 0, i, used = 0, kept = 0
        cdef uint64_t* all_
        for part in self.chunks:
            chunk = part
            total += chunk.function_count
        all_ = <uint64_t*>malloc(max(total, 1) * sizeof(uint64_t))
        if all_ == NULL:
            raise MemoryError
        try:
            for part in self.chunks:
                chunk = part
                for i in range(chunk.function_count):
                    if chunk.functions[i].name >> STR_SHIFT != STR_NONE:
                        all_[used] = chunk.functions[i].name
                        used += 1
            qsort(all_, used, sizeof(uint64_t), _compare)
            for i in range(used):
                if i == 0 or all_[i] != all_[kept - 1]:
                    all_[kept] = all_[i]
                    kept += 1
            result = array("Q")
            result.frombytes((<const uint8_t*>all_)[:kept * sizeof(uint64_t)])
            return result
        finally:
            free(all_)

    def references_to(self, bytes name):
        """Packed references of all function names that equal ``name``, sorted ("Q" array)."""
        cdef Chunk chunk
        cdef uint64_t i, last = 0
        cdef size_t length
        cdef size_t wanted = len(name)
        cdef const uint8_t* text
        cdef const uint8_t* compared = <const uint8_t*>name
        found = set()
        for part in self.chunks:
            chunk = part
            for i in range(chunk.function_count):
                if chunk.functions[i].name == last or chunk.functions[i].name >> STR_SHIFT == STR_NONE:
                    continue
                if self._equal(chunk.functions[i].name, compared, wanted):
                    last = chunk.functions[i].name
                    found.add(last)
        return array("Q", sorted(found))

    cdef bint _equal(self, uint64_t reference, const uint8_t* text, size_t length) noexcept nogil:
        cdef uint64_t section = reference >> STR_SHIFT
        cdef uint64_t offset = reference & 0x00ffffffffffffffULL
        cdef const uint8_t* base
        cdef uint64_t size
        if section == STR_STR:
            size = self.info.strings.shape[0]
            base = &self.info.strings[0] if size else NULL
        elif section == STR_LINE:
            size = self.info.line_strings.shape[0]
            base = &self.info.line_strings[0] if size else NULL
        elif section == STR_INLINE:
            size = self.info.size
            base = self.info.data
        elif section == STR_ALT and self.alternate is not None:
            size = self.alternate.strings.shape[0]
            base = &self.alternate.strings[0] if size else NULL
        else:
            return False
        if offset >= size or size - offset <= length:
            return False
        return base[offset + length] == 0 and memcmp(base + offset, text, length) == 0

    def functions_named(self, const uint64_t[::1] references):
        """Offsets of the entries of all functions that have one of these names, themselves or by their origin.

        Sorted ("Q" array). Three levels of origins are followed: copy, abstract instance, declaration.
        """
        cdef Chunk chunk
        cdef uint64_t i
        cdef FunctionRecord* function
        cdef const uint64_t* names = &references[0] if references.shape[0] else NULL
        cdef const uint64_t[::1] known
        cdef int level
        found = set()
        for part in self.chunks:
            chunk = part
            for i in range(chunk.function_count):
                function = &chunk.functions[i]
                if function.name >> STR_SHIFT != STR_NONE and is_among(names, references.shape[0], function.name):
                    found.add(function.die)
        for level in range(3):
            before = len(found)
            if not before:
                break
            known = array("Q", sorted(found))
            for part in self.chunks:
                chunk = part
                for i in range(chunk.function_count):
                    function = &chunk.functions[i]
                    if (function.origin and not function.flags & ALT_ORIGIN
                            and is_among(&known[0], known.shape[0], function.origin)):
                        found.add(function.die)
            if len(found) == before:
                break
        return array("Q", sorted(found))

    def with_alternate_origins(self, const uint64_t[::1] origins):
        """Offsets of the functions whose origin is one of these offsets of the supplementary file ("Q" array)."""
        cdef Chunk chunk
        cdef uint64_t i
        found = set()
        for part in self.chunks:
            chunk = part
            for i in range(chunk.function_count):
                if (chunk.functions[i].flags & ALT_ORIGIN and origins.shape[0]
                        and is_among(&origins[0], origins.shape[0], chunk.functions[i].origin)):
                    found.add(chunk.functions[i].die)
        return array("Q", sorted(found))

    def sites_of(self, const uint64_t[::1] functions, bint alternate=False):
        """Ids of the sites whose origin is one of ``functions`` (sorted offsets of entries), in the order of the file.

        With ``alternate`` the offsets are those of the supplementary file.
        """
        cdef Chunk chunk
        cdef uint64_t i, number = 0
        cdef SiteRecord* site
        self.lists.work = 0
        result = []
        if not functions.shape[0]:
            return result
        for part in self.chunks:
            chunk = part
            for i in range(chunk.site_count):
                site = &chunk.sites[i]
                if ((site.flags & ALT_ORIGIN != 0) == alternate
                        and is_among(&functions[0], functions.shape[0], site.origin)):
                    result.append(number << 32 | i)
            number += 1
        return result

    def sites_inside(self, const uint64_t[::1] functions):
        """Ids of the sites inside of a copy, inlined or not, of one of ``functions`` (sorted offsets of entries)."""
        cdef Chunk chunk
        cdef uint64_t i, number = 0
        cdef int32_t parent
        cdef FunctionRecord* function
        self.lists.work = 0
        result = []
        if not functions.shape[0]:
            return result
        for part in self.chunks:
            chunk = part
            for i in range(chunk.site_count):
                parent = chunk.sites[i].parent
                while parent >= 0:
                    if (not chunk.sites[parent].flags & ALT_ORIGIN
                            and is_among(&functions[0], functions.shape[0], chunk.sites[parent].origin)):
                        break
                    parent = chunk.sites[parent].parent
                else:
                    if parent == <int32_t>NO_PARENT:
                        continue
                    function = &chunk.functions[-1 - parent]
                    if not is_among(&functions[0], functions.shape[0], function.die):
                        continue
                result.append(number << 32 | i)
            number += 1
        return result

    def all_sites(self):
        """Ids of all sites in the order of the file."""
        cdef Chunk chunk
        cdef uint64_t i, number = 0
        self.lists.work = 0
        result = []
        for part in self.chunks:
            chunk = part
            for i in range(chunk.site_count):
                result.append(number << 32 | i)
            number += 1
        return result

    def copies(self, functions=None):
        """Ids of the functions that have code: all, or those whose entries are in the sorted array ``functions``."""
        cdef Chunk chunk
        cdef uint64_t i, number = 0
        cdef FunctionRecord* function
        cdef const uint64_t[::1] wanted
        cdef bint every = functions is None
        wanted = array("Q") if every else functions
        self.lists.work = 0
        result = []
        for part in self.chunks:
            chunk = part
            for i in range(chunk.function_count):
                function = &chunk.functions[i]
                if not function.flags & (HAS_LOW | HAS_RANGES) or function.flags & DECLARATION:
                    continue
                if every or (wanted.shape[0] and is_among(&wanted[0], wanted.shape[0], function.die)):
                    result.append(number << 32 | i)
            number += 1
        return result

    cdef Chunk chunk_for(self, uint64_t id_):
        if (id_ >> 32) >= <uint64_t>len(self.chunks):
            raise IndexError(id_)
        return <Chunk>self.chunks[id_ >> 32]

    cdef int address_of(self, uint64_t id_, bint of_site, uint64_t* address) except -1:
        """Address of a site or function; 0 if it has none."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef SiteRecord* s
        cdef FunctionRecord* f
        if i >= (chunk.site_count if of_site else chunk.function_count):
            raise IndexError(id_)
        if of_site:
            s = &chunk.sites[i]
            return self.lists.first_address(s.unit, s.entry, s.low, s.ranges, s.flags, address)
        f = &chunk.functions[i]
        return self.lists.first_address(f.unit, f.entry, f.low, f.ranges, f.flags, address)

    def addresses(self, list ids, bint of_sites):
        """Address of each site or function; all ones for one that has none ("Q" array)."""
        cdef uint64_t address
        cdef uint64_t[::1] out
        cdef Py_ssize_t position = 0
        result = array("Q", bytes(8 * len(ids)))
        out = result
        for id_ in ids:
            address = 0xffffffffffffffffULL
            self.address_of(id_, of_sites, &address)
            out[position] = address
            position += 1
        return result

    def ranges(self, uint64_t id_, bint of_site):
        """Ranges of a site or function as (begin, end) addresses in the order of the file, empty ones too."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff, low, high, where
        cdef uint32_t flags, unit
        if i >= (chunk.site_count if of_site else chunk.function_count):
            raise IndexError(id_)
        if of_site:
            flags, unit, where = chunk.sites[i].flags, chunk.sites[i].unit, chunk.sites[i].ranges
            low, high = chunk.sites[i].low, chunk.sites[i].high
        else:
            flags, unit, where = chunk.functions[i].flags, chunk.functions[i].unit, chunk.functions[i].ranges
            low, high = chunk.functions[i].low, chunk.functions[i].high
        if flags & HAS_RANGES:
            self.lists.read(unit, where, flags)
            self.lists.charge(255 * self.lists.found.count)
            return [(self.lists.found.items[i].begin, self.lists.found.items[i].end) for i in range(self.lists.found.count)]
        return [(low, high)] if flags & HAS_LOW else []

    def site(self, uint64_t id_):
        """The SiteEntry with this id. Raises FormatError for a range list that cannot be read."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef SiteRecord* s
        cdef SiteEntry entry
        if i >= chunk.site_count:
            raise IndexError(id_)
        s = &chunk.sites[i]
        entry = SiteEntry()
        entry.die = s.die
        entry.unit = s.unit
        entry.origin = s.origin
        entry.alternate_origin = s.flags & ALT_ORIGIN != 0
        entry.has_entry = s.flags & HAS_ENTRY != 0
        entry.has_address = self.lists.first_address(s.unit, s.entry, s.low, s.ranges, s.flags, &entry.address)
        entry.view = s.view
        entry.call_file = s.call_file
        entry.call_line = s.call_line
        entry.call_column = s.call_column
        entry.parent_site = entry.parent_function = -1
        if s.parent >= 0:
            entry.parent_site = <int64_t>((id_ & ~0xffffffffULL) | <uint64_t>s.parent)
        elif s.parent != <int32_t>NO_PARENT:
            entry.parent_function = <int64_t>((id_ & ~0xffffffffULL) | <uint64_t>(-1 - s.parent))
        return entry

    def root(self, uint64_t id_):
        """Id of the function that contains the site, -1 if none does."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef int32_t parent
        if i >= chunk.site_count:
            raise IndexError(id_)
        parent = chunk.sites[i].parent
        while parent >= 0:
            parent = chunk.sites[parent].parent
        if parent == <int32_t>NO_PARENT:
            return -1
        return <int64_t>((id_ & ~0xffffffffULL) | <uint64_t>(-1 - parent))

    cpdef FunctionEntry function(self, uint64_t id_):
        """The FunctionEntry with this id; its names are those of its own entry."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef FunctionRecord* f
        cdef FunctionEntry entry
        if i >= chunk.function_count:
            raise IndexError(id_)
        f = &chunk.functions[i]
        entry = FunctionEntry()
        entry.id = id_
        entry.die = f.die
        entry.unit = f.unit
        entry.name = self.info.string(f.name) if f.name >> STR_SHIFT != STR_NONE else None
        entry.linkage_name = self.info.string(f.linkage_name) if f.linkage_name >> STR_SHIFT != STR_NONE else None
        entry.origin = f.origin
        entry.alternate_origin = f.flags & ALT_ORIGIN != 0
        entry.has_address = self.lists.first_address(f.unit, f.entry, f.low, f.ranges, f.flags, &entry.address)
        entry.frame_base = bytes(self.info.info[f.frame_base:f.frame_base + f.frame_base_length])
        entry.declaration = f.flags & DECLARATION != 0
        entry.abstract = f.flags & ABSTRACT != 0
        entry.external = f.flags & EXTERNAL != 0
        return entry

    def parameters(self, uint64_t id_, bint of_site, uint64_t pc, uint64_t view, LineProgram lines=None):
        """What each parameter of a site or function is at (``pc``, ``view``): (origin, kind, value, empty).

        ``origin`` is the offset of the prototype's entry (its own if it has no origin); one in the supplementary file
        has bit 63 set. ``kind`` is 0 no location, 1 a single expression, 2 the expression of the list entry that is
        live, 3 a list of which no entry is live, 4 unsigned or 5 signed constant, 6 constant bytes; ``value`` is the
        expression, the constant, or None. ``empty``: the live entry's range has no bytes. ``lines`` as in
        find_live. Raises FormatError for a list that cannot be read.
        """
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff, offset = 0
        cdef uint32_t number
        cdef ParameterRecord* p
        cdef UnitHeader* unit
        cdef Entry live
        cdef int error
        cdef bint empty = False
        cdef const uint8_t[::1] section
        if i >= (chunk.site_count if of_site else chunk.function_count):
            raise IndexError(id_)
        number = chunk.sites[i].first if of_site else chunk.functions[i].first
        unit = &self.info.headers[chunk.sites[i].unit if of_site else chunk.functions[i].unit]
        result = []
        while number != <uint32_t>NONE32:
            p = &chunk.parameters[number]
            number = p.next
            origin = p.origin if p.origin else p.die
            if p.kind == LOC_LIST or p.kind == LOC_LIST_INDEX:
                offset = p.value
                if p.kind == LOC_LIST_INDEX:
                    error = resolve_list(self.info, unit, offset, True, &offset)
                    if error:
                        raise_list_error(self.info, error, unit.version >= 5, True, unit.loclists_base)
                if find_live(self.info, unit, &self.lists.found, offset, p.views, pc, view, lines, &live, &empty):
                    self.lists.charge(self.lists.found.count)
                    section = self.info.loclists if unit.version >= 5 else self.info.locations
                    text = bytes(section[live.expression:live.expression + live.length])
                    result.append((origin, 2, text, empty))
                else:
                    self.lists.charge(self.lists.found.count)
                    result.append((origin, 3, None, False))
            elif p.kind == LOC_EXPRESSION:
                result.append((origin, 1, <bytes>self.info.data[p.value:p.value + p.length], False))
            elif p.kind == LOC_BYTES:
                result.append((origin, 6, <bytes>self.info.data[p.value:p.value + p.length], False))
            elif p.kind == LOC_SINT:
                result.append((origin, 5, <int64_t>p.value, False))
            elif p.kind == LOC_UINT:
                result.append((origin, 4, p.value, False))
            else:
                result.append((origin, 0, None, False))
        return result

    def location_lists(self, uint64_t id_, bint of_site):
        """Entries of every location list of a record: (origin, [(begin, view, end, view, expression bytes)])."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff, offset = 0, at = 0, j
        cdef uint32_t number
        cdef ParameterRecord* p
        cdef UnitHeader* unit
        cdef Entry* e
        cdef int error
        cdef const uint8_t[::1] section
        if i >= (chunk.site_count if of_site else chunk.function_count):
            raise IndexError(id_)
        number = chunk.sites[i].first if of_site else chunk.functions[i].first
        unit = &self.info.headers[chunk.sites[i].unit if of_site else chunk.functions[i].unit]
        section = self.info.loclists if unit.version >= 5 else self.info.locations
        result = []
        while number != <uint32_t>NONE32:
            p = &chunk.parameters[number]
            number = p.next
            if p.kind != LOC_LIST and p.kind != LOC_LIST_INDEX:
                continue
            offset = p.value
            error = resolve_list(self.info, unit, offset, True, &offset) if p.kind == LOC_LIST_INDEX else 0
            if not error:
                error = read_locations(self.info, unit, offset, p.views, &self.lists.found, &at)
            if error:
                raise_list_error(self.info, error, unit.version >= 5, True, at)
            entries = []
            for j in range(self.lists.found.count):
                e = &self.lists.found.items[j]
                entries.append((e.begin, e.begin_view, e.end, e.end_view,
                                bytes(section[e.expression:e.expression + e.length])))
            result.append((p.origin if p.origin else p.die, entries))
        return result
