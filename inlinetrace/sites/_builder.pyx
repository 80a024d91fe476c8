# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From the records of DWARF to Sites: the path that every row of a listing takes."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy

from inlinetrace._arrays cimport make_room
from inlinetrace.code._flow cimport COPIES, REENTERED, SHARED_ADDRESS, Flow, Range
from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._lists cimport Entry, find_live, raise_list_error, resolve_list
from inlinetrace.dwarf._map cimport Map
from inlinetrace.dwarf._records cimport FunctionEntry, Records
from inlinetrace.dwarf._scan cimport (
    ALT_ORIGIN, HAS_ENTRY, HAS_LOW, HAS_RANGES, LOC_BYTES, LOC_EXPRESSION, LOC_LIST, LOC_LIST_INDEX, LOC_NONE,
    LOC_SINT, LOC_UINT, NO_PARENT, NONE32, Chunk, ParameterRecord, SiteRecord,
)
from inlinetrace.sites._functions cimport Function, Functions, Source, Sources
from inlinetrace.sites._named cimport named

from inlinetrace.sites.doubt import entry_doubt
from inlinetrace.sites.locate import NO_LOCATION, NOT_LIVE, Spot, compiler_of, is_untracked
from inlinetrace.sites.location import Location, Shape
from inlinetrace.sites.model import InlineFrame, Parameter, Site
from inlinetrace.sites.reasons import Compiler, Doubt, Mark

cdef extern from "Python.h":
    unsigned long long PyLong_AsUnsignedLongLongMask(object) except? 0xffffffffffffffff

cdef enum:
    KEY_SHIFT = 44
    TRANSPARENT = 8
    HOISTED = 16
    # Prototypes with more parameters than this are looked at on the heap.
    FEW = 32
    # Rows come unit by unit: what was read for units that are done can go.
    KEPT = 20000
    # Of the jumps that so few rows meet, most code has nothing to tell.
    FEW_ROWS = 4096

cdef tuple _COMPUTED = (Shape.EXPRESSION, Shape.PIECES)

cdef uint64_t MISSING = 0xffffffffffffffffULL
cdef uint64_t ALTERNATE = 1ULL << 63

# Every combination of the bits of _flow.pxd and of those above.
cdef list _MARKS = [
    tuple([
        mark for bit, mark in (
            (TRANSPARENT, Mark.TRANSPARENT), (HOISTED, Mark.HOISTED), (REENTERED, Mark.REENTERED),
            (SHARED_ADDRESS, Mark.SHARED_ADDRESS), (COPIES, Mark.COPIES),
        ) if bits & bit
    ])
    for bits in range(32)
]


cdef struct RowRecord:
    uint64_t address
    uint64_t id
    uint32_t info
    uint32_t inlined


cdef int _compare(const void* a, const void* b) noexcept nogil:
    cdef const RowRecord* x = <const RowRecord*>a
    cdef const RowRecord* y = <const RowRecord*>b
    if x.address != y.address:
        return 1 if x.address > y.address else -1
    if x.inlined != y.inlined:
        return 1 if x.inlined > y.inlined else -1
    if x.info != y.info:
        return 1 if x.info > y.info else -1
    return (x.id > y.id) - (x.id < y.id)


cdef class Rows:
    """Sites and out-of-line copies before they are built: (number of the Info, id of the record, inlined)."""

    cdef RowRecord* items
    cdef Py_ssize_t count
    cdef uint64_t room

    def __dealloc__(self):
        free(self.items)

    cdef int reserve(self, Py_ssize_t more) except -1:
        return make_room(<void**>&self.items, &self.room, self.count + more, sizeof(RowRecord))

    def extend(self, uint32_t info, list ids not None, bint inlined):
        """Append records of one Info by their ids."""
        cdef RowRecord* row
        self.reserve(len(ids))
        for id_ in ids:
            row = &self.items[self.count]
            row.address = 0
            row.id = id_
            row.info = info
            row.inlined = inlined
            self.count += 1

    def __len__(self):
        return self.count

    def __iter__(self):
        cdef Py_ssize_t i = 0
        while i < self.count:
            yield self.items[i].info, self.items[i].id, self.items[i].inlined != 0
            i += 1

    @property
    def inlined(self):
        """How many rows are inlined sites."""
        cdef Py_ssize_t i, found = 0
        for i in range(self.count):
            found += self.items[i].inlined
        return found

    def by_address(self, list records not None):
        """These rows ordered by address, see DwarfSites.by_address; ``records`` has the Records of each Info."""
        cdef Rows result = Rows()
        cdef Py_ssize_t i
        cdef RowRecord row
        result.reserve(self.count)
        for i in range(self.count):
            row = self.items[i]
            if (<Records?>records[row.info]).address_of(row.id, row.inlined, &row.address):
                result.items[result.count] = row
                result.count += 1
        if result.count:
            with nogil:
                qsort(result.items, result.count, sizeof(RowRecord), _compare)
        return result


cdef class _Unit:
    """What the sites of one unit share."""

    cdef Source source
    cdef object compiler
    cdef bint gcc, untracked
    cdef uint64_t flavour
    cdef uint32_t index


cdef class _Container:
    """The function that everything around a site was inlined into."""

    cdef FunctionEntry entry
    cdef Function function


cdef class _Link:
    """A site that other sites are inside of: the inlined functions from it outwards, and its own function."""

    cdef tuple frames
    cdef Function function


cdef class _Spot:
    """Where locations are wanted; ``python`` is the same as locate.py knows it, made when it is first needed."""

    cdef _Unit unit
    cdef _Container container
    cdef uint64_t address, view
    cdef bint inlined
    # of an out-of-line copy: the register in which each parameter is passed, None where the compiler may have changed that
    cdef tuple passed_in
    cdef object python


cdef class Builder:
    """Makes Sites of rows. ``surroundings`` and ``locator`` as in DwarfSites."""

    cdef object dwarf, surroundings, symbol_of, locator, module
    cdef list records
    cdef Sources sources
    cdef readonly Functions functions
    cdef uint64_t supplement            # its number above KEY_SHIFT
    cdef bint has_supplement
    cdef list units                     # for each Info a list by number
    cdef list containers, links         # for each Info a Map by id
    cdef Py_ssize_t kept
    # locations by size, flavour and expression, of those that depend on nothing else; and by size and constant
    cdef dict located, constants
    cdef dict entry_doubts              # by the key of what was located, and where it was passed
    cdef object machine
    # the surroundings of the address asked for last
    cdef uint64_t region_start, region_end, region_known_as, symbol_address
    cdef object section, symbol
    cdef Flow flow, near_flow
    cdef bint region_known, symbol_known, flow_known
    cdef Range* ranges
    cdef uint64_t range_room

    def __cinit__(self, dwarf, surroundings, locator, module):
        self.dwarf = dwarf
        self.surroundings = surroundings
        self.symbol_of = surroundings.symbol
        self.locator = locator
        self.module = module
        self.records = dwarf.scanned
        self.sources = Sources(dwarf)
        self.functions = Functions(dwarf, self.sources)
        number = dwarf.supplement_number
        self.has_supplement = number is not None
        self.supplement = <uint64_t>(number or 0) << KEY_SHIFT
        self.units = [[None] * info.count for info in dwarf.infos]
        self.containers = [Map() for _ in dwarf.infos]
        self.links = [Map() for _ in dwarf.infos]
        self.located = {}
        self.constants = {}
        self.entry_doubts = {}
        self.machine = dwarf.elf.machine

    def __dealloc__(self):
        free(self.ranges)

    def build(self, Rows rows not None):
        """Yield the Sites of ``rows`` in their order, without those that have no address."""
        cdef Py_ssize_t i = 0
        cdef RowRecord row
        cdef Flow near = self.surroundings.flow_near(self.spans(rows)) if rows.count <= FEW_ROWS else None
        while i < rows.count:
            row = rows.items[i]
            i += 1
            if self.near_flow is not near:
                # another listing came between
                self.near_flow = near
                self.flow_known = False
            if self.functions.functions.count + self.functions.types.count > KEPT or self.kept > KEPT:
                self.forget()
            site = self.inlined(row.info, row.id) if row.inlined else self.copy(row.info, row.id)
            if site is not None:
                yield site

    cdef list spans(self, Rows rows):
        """The code of the sites among ``rows``: their addresses and ranges."""
        cdef Py_ssize_t i, j, count
        cdef uint64_t address
        cdef Records records
        cdef Chunk chunk
        cdef SiteRecord* s
        cdef list found = []
        for i in range(rows.count):
            if not rows.items[i].inlined:
                continue
            records = <Records>self.records[rows.items[i].info]
            chunk = records.chunk_for(rows.items[i].id)
            s = &chunk.sites[rows.items[i].id & 0xffffffff]
            address = 0
            if not records.lists.first_address(s.unit, s.entry, s.low, s.ranges, s.flags, &address):
                continue
            found.append((address, address))
            count = self.ranges_of(records, s)
            for j in range(count):
                found.append((self.ranges[j].begin, self.ranges[j].end))
        return found

    cdef int forget(self) except -1:
        self.functions.forget()
        for kept in self.containers:
            (<Map>kept).clear()
        for kept in self.links:
            (<Map>kept).clear()
        self.sources.forget()
        self.units = [[None] * info.count for info in self.dwarf.infos]
        self.kept = 0
        return 0

    cdef uint64_t origin_key(self, uint64_t number, uint64_t origin, uint32_t flags) noexcept:
        if not flags & ALT_ORIGIN:
            return number << KEY_SHIFT | origin
        return self.supplement | origin if self.has_supplement else MISSING

    cdef _Unit unit(self, Py_ssize_t number, uint32_t index):
        cdef list units = <list>self.units[number]
        cdef _Unit made
        known = units[index]
        if known is not None:
            return <_Unit>known
        made = _Unit.__new__(_Unit)
        made.source = self.sources.of_unit(number, index)
        made.compiler = compiler_of(made.source.unit.producer)
        made.gcc = made.compiler is Compiler.GCC
        made.untracked = made.gcc and is_untracked(made.source.unit.producer)
        made.index = index
        made.flavour = self.locator.flavour(made.source.unit, made.compiler)
        units[index] = made
        return made

    cdef _Container container(self, Py_ssize_t number, uint64_t id_):
        cdef Map containers = <Map>self.containers[number]
        cdef _Container made
        known = containers.get(id_)
        if known is not None:
            return <_Container>known
        made = _Container.__new__(_Container)
        made.entry = (<Records>self.records[number]).function(id_)
        made.function = self.functions.function(<uint64_t>number << KEY_SHIFT | made.entry.die)
        containers.set(id_, made)
        self.kept += 1
        return made

    cdef _Link link(self, Py_ssize_t number, Chunk chunk, uint64_t top, int32_t index):
        """The _Link of site ``index`` of a chunk; ``top`` is the chunk's part of the id."""
        cdef Map links = <Map>self.links[number]
        cdef _Link made
        cdef SiteRecord* s
        cdef Py_ssize_t i
        cdef tuple frames = ()
        known = links.get(top | <uint64_t>index)
        if known is not None:
            return <_Link>known
        pending = []
        while index >= 0:
            known = links.get(top | <uint64_t>index)
            if known is not None:
                frames = (<_Link>known).frames
                break
            pending.append(index)
            index = chunk.sites[index].parent
        for i in range(len(pending) - 1, -1, -1):
            index = pending[i]
            s = &chunk.sites[index]
            made = _Link.__new__(_Link)
            made.function = self.functions.function(self.origin_key(number, s.origin, s.flags))
            call = self.unit(number, s.unit).source.position(s.call_file, s.call_line, s.call_column)
            frames = (named(InlineFrame, (made.function.name, call)), *frames)
            made.frames = frames
            links.set(top | <uint64_t>index, made)
            self.kept += 1
        return made

    cdef int surround(self, uint64_t address) except -1:
        """Set section and symbol for ``address``."""
        if not self.region_known or not self.region_start <= address < self.region_end:
            region = self.surroundings.region(address)
            self.region_known = False
            self.section, self.region_start, self.region_end, self.region_known_as = region
            self.region_known = True
            self.flow = None
            self.flow_known = False
        if not self.symbol_known or self.symbol_address != address:
            self.symbol = self.symbol_of(address)
            self.symbol_address = address
            self.symbol_known = True
        return 0

    cdef inline uint64_t shown(self, uint64_t address) noexcept:
        """What people call ``address``, which ``surround`` was called for."""
        return address - self.region_start + self.region_known_as

    cdef Flow flow_at(self, uint64_t address):
        """The jumps around ``address``, which ``surround`` was called for."""
        if not self.flow_known:
            if self.near_flow is None:
                self.flow = self.surroundings.flow(address)
            else:
                self.flow = self.near_flow if self.surroundings.has_code(address) else None
            self.flow_known = True
        return self.flow

    cdef Py_ssize_t ranges_of(self, Records records, SiteRecord* s) except -1:
        """Read the ranges of a site; return how many there are."""
        cdef Py_ssize_t i, count
        if not s.flags & HAS_RANGES:
            count = 1 if s.flags & HAS_LOW else 0
        else:
            records.lists.read(s.unit, s.ranges, s.flags)
            count = records.lists.found.count
            # what is asked of ranges takes far longer than reading them
            records.lists.charge(255 * <uint64_t>count)
        make_room(<void**>&self.ranges, &self.range_room, count, sizeof(Range))
        if not s.flags & HAS_RANGES:
            if count:
                self.ranges[0].begin = s.low
                self.ranges[0].end = s.high
            return count
        for i in range(count):
            self.ranges[i].begin = records.lists.found.items[i].begin
            self.ranges[i].end = records.lists.found.items[i].end
        return count

    cdef object inlined(self, Py_ssize_t number, uint64_t id_):
        cdef Records records = <Records>self.records[number]
        cdef Chunk chunk = records.chunk_for(id_)
        cdef uint64_t i = id_ & 0xffffffff, top = id_ & ~0xffffffffULL, address = 0
        cdef SiteRecord* s
        cdef int32_t root
        cdef _Unit unit
        cdef Function function, outer
        cdef _Container container = None
        cdef _Link link = None
        cdef Flow flow
        cdef int marks = 0
        cdef Py_ssize_t count
        if i >= chunk.site_count:
            raise IndexError(id_)
        s = &chunk.sites[i]
        if not records.lists.first_address(s.unit, s.entry, s.low, s.ranges, s.flags, &address):
            return None
        unit = self.unit(number, s.unit)
        function = self.functions.function(self.origin_key(number, s.origin, s.flags))
        outer = None
        root = s.parent
        while root >= 0:
            root = chunk.sites[root].parent
        if root != <int32_t>NO_PARENT:
            container = self.container(number, top | <uint64_t>(-1 - root))
            outer = container.function
        if s.parent >= 0:
            link = self.link(number, chunk, top, s.parent)
            outer = link.function
        if outer is not None and outer.key == function.key:
            marks |= TRANSPARENT
        if not s.flags & HAS_ENTRY and unit.gcc:
            marks |= HOISTED
        self.surround(address)
        flow = self.flow_at(address)
        if flow is not None:
            count = self.ranges_of(records, s)
            marks |= flow.marks_of(self.ranges, count, address)
        parameters = self.parameters(
            number, records, chunk, s.first, function, unit, container, address,
            s.view if s.flags & HAS_ENTRY else 0, True, None, Doubt.NO_ENTRY if marks & HOISTED else None,
        ) if function.parameters else ()
        symbol, symbol_offset = self.symbol if self.symbol is not None else (None, None)
        return named(Site, (
            function.name,
            True,
            self.shown(address),
            self.section,
            address - self.region_start if self.section is not None else None,
            symbol,
            symbol_offset,
            function.return_type,
            parameters,
            function.variadic,
            unit.source.position(s.call_file, s.call_line, s.call_column),
            link.frames if link is not None else (),
            container.function.name if container is not None else None,
            None,
            function.declared,
            _MARKS[marks],
            unit.compiler,
            self.module,
            "dwarf",
        ))

    cdef object copy(self, Py_ssize_t number, uint64_t id_):
        cdef Records records = <Records>self.records[number]
        cdef _Container container = self.container(number, id_)
        cdef Function function = container.function
        cdef FunctionEntry entry = container.entry
        cdef Chunk chunk
        cdef _Unit unit
        if not entry.has_address:
            return None
        chunk = records.chunk_for(id_)
        unit = self.unit(number, entry.unit)
        self.surround(entry.address)
        symbol, symbol_offset = self.symbol if self.symbol is not None else (None, None)
        copy = None
        for name in (entry.linkage_name, None if symbol_offset else symbol):
            if name and name.startswith(function.name + "."):
                copy = name
                break
        parameters = self.parameters(
            number, records, chunk, chunk.functions[id_ & 0xffffffff].first, function, unit, container, entry.address, 0,
            False, self.functions.passed_in(function, self.machine) if unit.gcc and copy is None else None, None,
        ) if function.parameters else ()
        return named(Site, (
            function.name,
            False,
            self.shown(entry.address),
            self.section,
            entry.address - self.region_start if self.section is not None else None,
            symbol,
            symbol_offset,
            function.return_type,
            parameters,
            function.variadic,
            None,
            (),
            None,
            copy,
            function.declared,
            (),
            unit.compiler,
            self.module,
            "dwarf",
        ))

    cdef tuple parameters(self, Py_ssize_t number, Records records, Chunk chunk, uint32_t first, Function function,
                          _Unit unit, _Container container, uint64_t address, uint64_t view, bint inlined, tuple passed_in,
                          doubt):
        """The parameters of the prototype with what the record's entries say of them.

        The entries stand in any order and name those of the prototype; the last one with a location counts. ``doubt``
        is that of every location which has none of its own; ``passed_in`` as Functions has it, or None.
        """
        cdef uint32_t few[FEW]
        cdef uint32_t* chosen = few
        cdef Py_ssize_t count = len(function.parameters), position
        cdef uint32_t at = first
        cdef uint64_t key
        cdef ParameterRecord* p
        cdef tuple declared
        if count > FEW:
            chosen = <uint32_t*>malloc(count * sizeof(uint32_t))
            if chosen == NULL:
                raise MemoryError
        try:
            for position in range(count):
                chosen[position] = <uint32_t>NONE32
            while at != <uint32_t>NONE32:
                p = &chunk.parameters[at]
                key = p.origin if p.origin else p.die
                if key & ALTERNATE:
                    key = self.supplement | (key & ~ALTERNATE)
                else:
                    key |= <uint64_t>number << KEY_SHIFT
                position = function.position_of(key)
                if 0 <= position < count and (p.kind != LOC_NONE or chosen[position] == <uint32_t>NONE32):
                    chosen[position] = at
                at = p.next
            result = []
            spot = None
            for position in range(count):
                declared = <tuple>function.parameters[position]
                located = NO_LOCATION
                if chosen[position] != <uint32_t>NONE32:
                    p = &chunk.parameters[chosen[position]]
                    if p.kind == LOC_LIST or p.kind == LOC_LIST_INDEX or p.kind == LOC_EXPRESSION:
                        if spot is None:
                            spot = _Spot.__new__(_Spot)
                            (<_Spot>spot).unit = unit
                            (<_Spot>spot).container = container
                            (<_Spot>spot).address = address
                            (<_Spot>spot).view = view
                            (<_Spot>spot).inlined = inlined
                            (<_Spot>spot).passed_in = passed_in
                        located = self.locate(records, p, <_Spot>spot, position, <tuple>declared[1])
                    elif p.kind != LOC_NONE:
                        located = self.constant(records, p, <tuple>declared[1])
                    raised = doubt
                    if p.kind >= LOC_UINT:
                        if not unit.gcc:
                            raised = Doubt.COMPILER
                        elif not inlined:
                            raised = Doubt.COPY_CONSTANT
                    if raised is not None and (<tuple>located)[1] is None and type((<tuple>located)[0]) is Location:
                        located = ((<tuple>located)[0], raised)
                result.append(named(Parameter, (declared[0], declared[1], (<tuple>located)[0], (<tuple>located)[1])))
            return tuple(result)
        finally:
            if chosen != few:
                free(chosen)

    cdef object constant(self, Records records, ParameterRecord* p, tuple type_):
        """Location of a DW_AT_const_value."""
        if p.kind == LOC_BYTES:
            if not p.length:
                return NO_LOCATION
            value = PyBytes_FromStringAndSize(<const char*>records.info.data + p.value, p.length)
        elif p.kind == LOC_SINT:
            value = <int64_t>p.value
        else:
            value = p.value
        key = (value, type_[1])
        located = self.constants.get(key)
        if located is None:
            located = self.constants[key] = self.locator.constant(value, type_[1])
        return located

    cdef object locate(self, Records records, ParameterRecord* p, _Spot spot, Py_ssize_t position, tuple type_):
        """Location of parameter ``position``: an expression, or of the entry of a list that is live at the spot."""
        cdef UnitHeader* header = &records.info.headers[spot.unit.index]
        cdef uint64_t offset = p.value, length = p.length, size
        cdef uint64_t flavour = spot.unit.flavour << 2 | spot.inlined
        cdef Entry live
        cdef uint64_t entries = 0
        cdef bint empty = False, viewed = True, found
        cdef int error
        cdef const uint8_t* data = records.info.data
        cdef char* key_data
        cdef Flow flow
        if p.kind == LOC_EXPRESSION:
            flavour |= 2
        else:
            if p.kind == LOC_LIST_INDEX:
                error = resolve_list(records.info, header, offset, True, &offset)
                if error:
                    raise_list_error(records.info, error, header.version >= 5, True, header.loclists_base)
            found = find_live(records.info, header, &records.lists.found, offset, p.views, spot.address, spot.view,
                              spot.unit.source.lines, &live, &empty)
            entries = records.lists.found.count
            viewed = records.lists.found.viewed
            records.lists.charge(entries)
            if not found:
                return NOT_LIVE
            if header.version >= 5:
                data = &records.info.loclists[0]
            else:
                data = &records.info.locations[0]
            offset = live.expression
            length = live.length
        size = PyLong_AsUnsignedLongLongMask(type_[1])
        key = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>length + 16)
        key_data = PyBytes_AS_STRING(key)
        memcpy(key_data, &size, 8)
        memcpy(key_data + 8, &flavour, 8)
        memcpy(key_data + 16, data + offset, length)
        located = self.located.get(key)
        if located is None:
            expression = PyBytes_FromStringAndSize(<const char*>data + offset, <Py_ssize_t>length)
            if spot.python is None:
                spot.python = Spot(
                    spot.unit.source.unit,
                    spot.unit.compiler,
                    spot.address,
                    spot.container.entry.frame_base if spot.container is not None else None,
                    spot.inlined,
                    not spot.inlined or (spot.container is not None and spot.container.entry.address == spot.address),
                )
            located, independent = self.locator.locate(key, expression, spot.python, type_[1], flavour & 2 != 0)
            if independent:
                self.located[key] = located
        if empty and spot.inlined and (<tuple>located)[1] is None and type((<tuple>located)[0]) is Location:
            if (<tuple>located)[0].shape in _COMPUTED:
                flow = self.flow_at(spot.address)
                if flow is None or flow.targeted(spot.address):
                    return ((<tuple>located)[0], Doubt.JUMP_TARGET)
        if entries > 1 and not spot.unit.gcc and (<tuple>located)[1] is None:
            if type((<tuple>located)[0]) is Location and (<tuple>located)[0].shape is Shape.CONSTANT:
                return ((<tuple>located)[0], Doubt.COMPILER)
        if (spot.unit.gcc and (not viewed or (flavour & 2 and not spot.inlined)) and (<tuple>located)[1] is None
                and type((<tuple>located)[0]) is Location):
            doubt = Doubt.NO_VIEW if spot.inlined else self.entry_doubt(key, (<tuple>located)[0], spot, position, viewed)
            if doubt is not None:
                return ((<tuple>located)[0], doubt)
        return located

    cdef object entry_doubt(self, bytes key, location, _Spot spot, Py_ssize_t position, bint single):
        """See sites.doubt.entry_doubt; ``key`` is that of the location."""
        register = spot.passed_in[position] if spot.passed_in is not None else None
        known = (key, register, spot.unit.untracked)
        if known not in self.entry_doubts:
            self.entry_doubts[known] = entry_doubt(
                location, single_expression=single, untracked=spot.unit.untracked, passed_in=register,
                arguments=self.machine.arguments,
            )
        return self.entry_doubts[known]
