# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Questions about the records of a whole section of units: which functions have a name, which sites are theirs.

A record is named by its *id*: number of the chunk in the top 32 bits, index in the chunk below.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcmp

from inlinetrace.dwarf._forms cimport STR_INLINE, STR_LINE, STR_NONE, STR_SHIFT, STR_STR
from inlinetrace.dwarf._scan cimport (
    ABSTRACT, ALT_ORIGIN, DECLARATION, EXTERNAL, HAS_ENTRY, HAS_LOW, HAS_RANGES, HAS_VIEW, LIST_INDEX, NO_PARENT,
    NONE32, Chunk, FunctionRecord, ParameterRecord, SiteRecord,
)
from inlinetrace.dwarf._units cimport Info

from array import array


class SiteEntry:
    """One DW_TAG_inlined_subroutine; addresses in bytes, None where absent, ``origin`` a section offset."""

    __slots__ = ("alternate_origin", "call_column", "call_file", "call_line", "die", "entry_pc", "high_pc", "low_pc",
                 "origin", "parent_function", "parent_site", "ranges", "ranges_indexed", "unit", "view")


class FunctionEntry:
    """One DW_TAG_subprogram; ``frame_base`` is the bytes of its expression, ``origin`` 0 where it has none."""

    __slots__ = ("abstract", "alternate_origin", "declaration", "die", "entry_pc", "external", "frame_base", "high_pc",
                 "id", "linkage_name", "low_pc", "name", "origin", "ranges", "ranges_indexed", "unit")


cdef int _compare(const void* a, const void* b) noexcept nogil:
    cdef uint64_t x = (<const uint64_t*>a)[0]
    cdef uint64_t y = (<const uint64_t*>b)[0]
    return (x > y) - (x < y)


cdef inline bint _contains(const uint64_t* sorted_, Py_ssize_t count, uint64_t value) noexcept nogil:
    cdef Py_ssize_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) >> 1
        if sorted_[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < count and sorted_[low] == value


cdef class Records:
    """The chunks of one Info, in the order of its units."""

    cdef readonly Info info
    cdef readonly list chunks
    cdef uint32_t* chunk_of                  # unit -> chunk

    def __cinit__(self, Info info, list chunks):
        cdef Py_ssize_t unit, number
        cdef Chunk chunk
        self.info = info
        self.chunks = chunks
        self.chunk_of = <uint32_t*>malloc(max(info.count, 1) * sizeof(uint32_t))
        if self.chunk_of == NULL:
            raise MemoryError
        expected = 0
        for number, part in enumerate(chunks):
            chunk = part
            if chunk.first_unit != expected:
                raise ValueError("the chunks are not those of all units in order")
            for unit in range(chunk.first_unit, chunk.last_unit):
                self.chunk_of[unit] = <uint32_t>number
            expected = chunk.last_unit
        if expected != info.count:
            raise ValueError("the chunks are not those of all units in order")

    def __dealloc__(self):
        free(self.chunk_of)

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
                if function.name >> STR_SHIFT != STR_NONE and _contains(names, references.shape[0], function.name):
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
                            and _contains(&known[0], known.shape[0], function.origin)):
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
                        and _contains(&origins[0], origins.shape[0], chunk.functions[i].origin)):
                    found.add(chunk.functions[i].die)
        return array("Q", sorted(found))

    def sites_of(self, const uint64_t[::1] functions, bint alternate=False):
        """Ids of the sites whose origin is one of ``functions`` (sorted offsets of entries), in the order of the file.

        With ``alternate`` the offsets are those of the supplementary file.
        """
        cdef Chunk chunk
        cdef uint64_t i, number = 0
        cdef SiteRecord* site
        result = []
        if not functions.shape[0]:
            return result
        for part in self.chunks:
            chunk = part
            for i in range(chunk.site_count):
                site = &chunk.sites[i]
                if ((site.flags & ALT_ORIGIN != 0) == alternate
                        and _contains(&functions[0], functions.shape[0], site.origin)):
                    result.append(number << 32 | i)
            number += 1
        return result

    def sites_inside(self, const uint64_t[::1] functions):
        """Ids of the sites inside of a copy, inlined or not, of one of ``functions`` (sorted offsets of entries)."""
        cdef Chunk chunk
        cdef uint64_t i, number = 0
        cdef int32_t parent
        cdef FunctionRecord* function
        result = []
        if not functions.shape[0]:
            return result
        for part in self.chunks:
            chunk = part
            for i in range(chunk.site_count):
                parent = chunk.sites[i].parent
                while parent >= 0:
                    if (not chunk.sites[parent].flags & ALT_ORIGIN
                            and _contains(&functions[0], functions.shape[0], chunk.sites[parent].origin)):
                        break
                    parent = chunk.sites[parent].parent
                else:
                    if parent == <int32_t>NO_PARENT:
                        continue
                    function = &chunk.functions[-1 - parent]
                    if not _contains(&functions[0], functions.shape[0], function.die):
                        continue
                result.append(number << 32 | i)
            number += 1
        return result

    def all_sites(self):
        """Ids of all sites in the order of the file."""
        cdef Chunk chunk
        cdef uint64_t i, number = 0
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
        result = []
        for part in self.chunks:
            chunk = part
            for i in range(chunk.function_count):
                function = &chunk.functions[i]
                if not function.flags & (HAS_LOW | HAS_RANGES) or function.flags & DECLARATION:
                    continue
                if every or (wanted.shape[0] and _contains(&wanted[0], wanted.shape[0], function.die)):
                    result.append(number << 32 | i)
            number += 1
        return result

    cdef Chunk chunk_for(self, uint64_t id_):
        if (id_ >> 32) >= <uint64_t>len(self.chunks):
            raise IndexError(id_)
        return <Chunk>self.chunks[id_ >> 32]

    def site(self, uint64_t id_):
        """The SiteEntry with this id."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef SiteRecord* s
        if i >= chunk.site_count:
            raise IndexError(id_)
        s = &chunk.sites[i]
        entry = SiteEntry()
        entry.die = s.die
        entry.unit = s.unit
        entry.origin = s.origin
        entry.alternate_origin = s.flags & ALT_ORIGIN != 0
        entry.entry_pc = s.entry if s.flags & HAS_ENTRY else None
        entry.low_pc = s.low if s.flags & HAS_LOW else None
        entry.high_pc = s.high if s.flags & HAS_LOW else None
        entry.ranges = s.ranges if s.flags & HAS_RANGES else None
        entry.ranges_indexed = s.flags & LIST_INDEX != 0
        entry.view = s.view
        entry.call_file = s.call_file
        entry.call_line = s.call_line
        entry.call_column = s.call_column
        entry.parent_site = entry.parent_function = None
        if s.parent >= 0:
            entry.parent_site = (id_ & ~0xffffffffULL) | <uint64_t>s.parent
        elif s.parent != <int32_t>NO_PARENT:
            entry.parent_function = (id_ & ~0xffffffffULL) | <uint64_t>(-1 - s.parent)
        return entry

    def function(self, uint64_t id_):
        """The FunctionEntry with this id; its names are those of its own entry."""
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef FunctionRecord* f
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
        entry.entry_pc = f.entry if f.flags & HAS_ENTRY else None
        entry.low_pc = f.low if f.flags & HAS_LOW else None
        entry.high_pc = f.high if f.flags & HAS_LOW else None
        entry.ranges = f.ranges if f.flags & HAS_RANGES else None
        entry.ranges_indexed = f.flags & LIST_INDEX != 0
        entry.frame_base = bytes(self.info.info[f.frame_base:f.frame_base + f.frame_base_length])
        entry.declaration = f.flags & DECLARATION != 0
        entry.abstract = f.flags & ABSTRACT != 0
        entry.external = f.flags & EXTERNAL != 0
        return entry

    def parameters(self, uint64_t id_, bint of_site):
        """Parameters of a site or function: (die, origin, kind, value, views) in the order of the file.

        ``kind`` is 0 no location, 1 expression (``value``: its bytes), 2 offset of a list, 3 index of a list,
        4 unsigned or 5 signed constant, 6 constant bytes. An origin in the supplementary file has bit 63 set.
        """
        cdef Chunk chunk = self.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff
        cdef uint32_t number
        cdef ParameterRecord* p
        if i >= (chunk.site_count if of_site else chunk.function_count):
            raise IndexError(id_)
        number = chunk.sites[i].first if of_site else chunk.functions[i].first
        result = []
        while number != <uint32_t>NONE32:
            p = &chunk.parameters[number]
            if p.kind == 1 or p.kind == 6:
                value = bytes(self.info.info[p.value:p.value + p.length])
            elif p.kind == 5:
                value = <long long>p.value
            else:
                value = p.value
            result.append((p.die, p.origin, p.kind, value, p.views))
            number = p.next
        return result
