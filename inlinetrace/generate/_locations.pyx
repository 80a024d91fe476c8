# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Sites with the forms of their parameters, collected from the records of DWARF without the GIL.

What a listing makes objects of (sites._builder) goes into flat arrays here: the address of each site, the entry of its
function, and for each parameter of the prototype the form of a LOC_PARAM or none. The rules are the same, step by
step; equal expressions are resolved once, the simple ones in _expressions.pyx, the rest by sites.locate under a lock.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, memset

from inlinetrace._arrays cimport make_room
from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._lines cimport LineProgram
from inlinetrace.dwarf._lists cimport LINES_NEEDED, Entry, live_entry, raise_list_error, resolve_list
from inlinetrace.dwarf._ranges cimport RangeReader
from inlinetrace.dwarf._scan cimport (
    ALT_ORIGIN, HAS_ENTRY, HAS_LOW, HAS_RANGES, LOC_BYTES, LOC_EXPRESSION, LOC_LIST, LOC_LIST_INDEX, LOC_NONE,
    NO_PARENT, NONE32, Chunk, FunctionRecord, ParameterRecord, SiteRecord,
)
from inlinetrace.dwarf._units cimport Info
from inlinetrace.generate._signatures cimport Position, Signature, Signatures, TypeInfo
from inlinetrace.generate._expressions cimport (
    C_CLANG, C_GCC, C_OTHER, S_CONSTANT, S_PIECES, S_PLAIN, Form, Frames, Outcome, Place, Target, constant_outcome,
    doubt_of, fits, resolve_simple, same_form, status_of,
)
from inlinetrace.generate._tables cimport add_number, mix, next_number

from inlinetrace.btf.kinds import Dialect
from inlinetrace.dwarf._scan import scan
from inlinetrace.errors import FormatError
from inlinetrace.generate._expressions import DOUBTS, REASONS
from inlinetrace.generate.forms import Form as PythonForm
from inlinetrace.generate.forms import form_of
from inlinetrace.sites.locate import Spot, compiler_of
from inlinetrace.sites.location import Location, Shape
from inlinetrace.sites.reasons import Compiler, Doubt, Reason

cdef enum:
    KEY_SHIFT = 44
    # Which parameters a prototype has is looked at in arrays of this size at first.
    FEW = 64
    # Memoised outcomes are dropped when there are this many: other units have other expressions.
    MAX_MEMO = 1 << 19

cdef uint64_t MISSING = 0xffffffffffffffffULL
cdef uint64_t ALTERNATE = 1ULL << 63

cdef uint8_t NO_LOCATION = status_of(Reason.NO_LOCATION)
cdef uint8_t NOT_LIVE = status_of(Reason.NOT_LIVE)
cdef uint8_t PARTLY = status_of(Reason.PARTLY)
cdef uint8_t UNSUPPORTED = status_of(Reason.UNSUPPORTED)
cdef uint8_t NO_FORM = status_of(Reason.NO_FORM)
cdef uint8_t COMPILER = doubt_of(Doubt.COMPILER)
cdef uint8_t NO_ENTRY = doubt_of(Doubt.NO_ENTRY)
cdef uint8_t JUMP_TARGET = doubt_of(Doubt.JUMP_TARGET)
cdef uint8_t NO_VIEW = doubt_of(Doubt.NO_VIEW)

# What equal expressions share: the memo's key besides the bytes.
cdef struct Circumstance:
    uint64_t size
    uint32_t flavour         # of the unit
    uint8_t is_signed
    uint8_t single

cdef struct Memo:
    const uint8_t* data      # NULL in a free slot
    uint32_t length
    uint32_t form            # 1 + index
    Circumstance key
    uint8_t status, doubt, shape

cdef struct Found:
    uint8_t status, doubt, shape
    bint unless_target       # without a doubt, unless a jump goes to the site
    uint32_t form


cdef class FormTable:
    """Forms, each once."""

    def __dealloc__(self):
        free(self.items)
        free(self.numbers.slots)

    def __len__(self):
        return self.count

    cdef uint32_t intern(self, const Form* form) except 0 nogil:
        """1 + index of ``form``."""
        cdef uint64_t hash_ = mix(mix(form.size, form.flags), form.count), at
        cdef uint32_t k, number
        for k in range(form.count):
            hash_ = mix(hash_, form.values[k])
        at = hash_
        number = next_number(&self.numbers, hash_, &at)
        while number:
            if same_form(&self.items[number - 1], form):
                return number
            number = next_number(&self.numbers, hash_, &at)
        make_room(<void**>&self.items, &self.capacity, self.count + 1, sizeof(Form))
        self.items[self.count] = form[0]
        add_number(&self.numbers, hash_)
        self.count += 1
        return <uint32_t>self.count


cdef class Collected:
    """See the stub."""

    def __dealloc__(self):
        free(self.sites)
        free(self.slots)

    def __len__(self):
        return self.site_count

    def counts(self):
        cdef int i
        return (
            {REASONS[i]: self.reasons[i + 1] for i in range(len(REASONS)) if self.reasons[i + 1]},
            {DOUBTS[i]: self.doubts[i + 1] for i in range(len(DOUBTS)) if self.doubts[i + 1]},
        )

    def questions_asked(self):
        return {address for _, address, _, _ in self.questions}

    def answer(self, targets, bint doubtful):
        cdef uint8_t doubt
        cdef uint64_t slot
        for slot, address, form, otherwise in self.questions:
            # None where the instructions are not at hand
            doubt = otherwise if targets[address] is False else JUMP_TARGET
            if doubt:
                self.doubts[doubt] += 1
            if not doubt or doubtful:
                self.slots[slot] = form
        self.questions.clear()

    def rows(self):
        cdef uint64_t i, j
        cdef SiteItem* site
        cdef Form* form
        result = []
        for i in range(self.site_count):
            site = &self.sites[i]
            forms = []
            for j in range(site.first_slot, site.first_slot + site.slot_count):
                if self.slots[j]:
                    form = &self.forms.items[self.slots[j] - 1]
                    forms.append(PythonForm(form.size, form.flags, tuple([form.values[k] for k in range(form.count)])))
                else:
                    forms.append(None)
            result.append((site.address, site.origin, forms))
        return result


cdef class Settings:
    """See the stub."""

    cdef object dwarf, surroundings, locator, functions, lock, dialect, image_base
    # what expressions give that depend on nothing else, for all threads
    cdef dict resolved
    cdef Frames frames
    cdef Target target
    cdef bint low, doubtful
    cdef frozenset excluded

    def __init__(self, dwarf, surroundings, *, locator, functions, lock, Frames frames not None, dialect, image_base,
                 bint low, bint doubtful, frozenset excluded not None):
        cdef int number
        elf = dwarf.elf
        self.dwarf = dwarf
        self.surroundings = surroundings
        self.locator = locator
        self.functions = functions
        self.lock = lock
        self.frames = frames
        self.dialect = dialect
        self.image_base = image_base
        self.low = low
        self.doubtful = doubtful
        self.excluded = excluded
        self.resolved = {}
        memset(&self.target, 0, sizeof(self.target))
        for number in range(512):
            self.target.vector[number] = elf.machine.is_vector(number)
        self.target.stack_pointer = elf.machine.stack_pointer
        self.target.address_size = elf.address_size
        self.target.little_endian = elf.little_endian
        self.target.swap = dwarf.infos[0].swap
        self.target.relocatable = elf.relocatable
        self.target.has_image_base = image_base is not None
        self.target.image_base = image_base or 0
        self.target.rfc = dialect is Dialect.RFC


cdef class Collector:
    """See the stub."""

    cdef Settings settings
    cdef Info info
    cdef uint64_t number, supplement
    cdef bint has_supplement
    cdef Signatures signatures
    cdef FormTable forms
    cdef Memo* memo
    cdef uint64_t memo_count, memo_mask
    cdef RangeReader lists
    cdef Chunk records
    # of the unit at hand
    cdef LineProgram lines
    cdef object unit
    cdef bint skipped
    cdef object compiler
    cdef int family
    cdef uint32_t flavour
    cdef uint32_t* chosen
    cdef uint64_t chosen_capacity
    # the function around the site before: whether its entry leads on
    cdef uint64_t outer
    cdef bint outer_has_chain

    def __init__(self, Settings settings not None, uint64_t number):
        cdef Info info = settings.dwarf.infos[number]
        self.settings = settings
        self.info = info
        self.number = number
        supplement = settings.dwarf.supplement_number
        self.has_supplement = supplement is not None
        self.supplement = <uint64_t>(supplement or 0) << KEY_SHIFT
        self.signatures = Signatures(info, number, settings.functions, settings.lock)
        self.forms = FormTable()
        self.lists = RangeReader(info)

    def __dealloc__(self):
        free(self.memo)
        free(self.chosen)

    def collect(self, Py_ssize_t first, Py_ssize_t last):
        cdef Collected out = Collected()
        cdef Chunk chunk = scan(self.info, first, last, self.records)
        # what the next units are read into
        self.records = chunk
        out.forms = self.forms
        out.questions = []
        memset(out.reasons, 0, sizeof(out.reasons))
        memset(out.doubts, 0, sizeof(out.doubts))
        make_room(<void**>&out.sites, &out.site_capacity, chunk.site_count, sizeof(SiteItem))
        make_room(<void**>&out.slots, &out.slot_capacity, 2 * chunk.site_count, sizeof(uint32_t))
        with nogil:
            self.run(chunk, out)
        return out

    cdef uint64_t origin_key(self, uint64_t origin, uint32_t flags) noexcept nogil:
        if not flags & ALT_ORIGIN:
            return self.number << KEY_SHIFT | origin
        return self.supplement | origin if self.has_supplement else MISSING

    cdef int open_unit(self, uint32_t index) except -1:
        settings = self.settings
        with settings.lock:
            self.unit = settings.dwarf.unit(self.number, index)
            self.skipped = self.unit.language in settings.excluded
            if self.skipped:
                return 0
            self.lines = settings.dwarf.read_lines(self.unit)
            self.compiler = compiler_of(self.unit.producer)
            self.family = C_GCC if self.compiler is Compiler.GCC else C_CLANG if self.compiler is Compiler.CLANG else C_OTHER
            self.flavour = settings.locator.flavour(self.unit, self.compiler)
        return 0

    cdef int run(self, Chunk chunk, Collected out) except -1 nogil:
        cdef uint64_t i
        cdef uint32_t current = 0xffffffff
        cdef SiteRecord* s
        cdef uint64_t address, origin
        cdef bint at_entry
        for i in range(chunk.site_count):
            s = &chunk.sites[i]
            if s.unit != current:
                with gil:
                    self.open_unit(s.unit)
                current = s.unit
            if self.skipped:
                out.of_other_languages += 1
                continue
            at_entry = True
            address = 0
            if not self.address_of(s, &address, &at_entry):
                out.without_address += 1
                continue
            origin = self.origin_key(s.origin, s.flags)
            if self.is_transparent(chunk, s, origin):
                out.transparent += 1
                continue
            self.add_site(chunk, s, address, at_entry, origin, out)
        return 0

    cdef int address_of(self, SiteRecord* s, uint64_t* address, bint* at_entry) except -1 nogil:
        """The address that stands for a site; 0 if it has none. ``at_entry`` tells that it is DW_AT_entry_pc or as good.

        By its entry, or as pahole takes it: low_pc, else the first range that does not begin at 0.
        """
        cdef uint64_t i
        cdef bint has_entry = s.flags & HAS_ENTRY != 0
        if not self.settings.low:
            return self.lists.first_address(s.unit, s.entry, s.low, s.ranges, s.flags, address)
        if s.flags & HAS_LOW:
            address[0] = s.low
            at_entry[0] = not has_entry or s.entry == s.low
            return s.low != 0
        if not s.flags & HAS_RANGES:
            address[0] = s.entry
            return has_entry
        self.lists.read(s.unit, s.ranges, s.flags)
        for i in range(self.lists.found.count):
            address[0] = self.lists.found.items[i].begin
            if address[0]:
                at_entry[0] = not has_entry or s.entry == address[0]
                return 1
        return 0

    cdef int is_transparent(self, Chunk chunk, SiteRecord* s, uint64_t origin) except -1 nogil:
        """Whether the function directly around a site is the inlined one itself."""
        cdef FunctionRecord* f
        cdef uint64_t outer, canonical
        cdef Py_ssize_t at
        if s.parent == <int32_t>NO_PARENT:
            return False
        if s.parent >= 0:
            outer = self.origin_key(chunk.sites[s.parent].origin, chunk.sites[s.parent].flags)
            if outer == origin:
                return True
        else:
            f = &chunk.functions[-1 - s.parent]
            if not f.origin:
                outer = self.number << KEY_SHIFT | f.die
            else:
                outer = self.origin_key(f.origin, f.flags)
                if outer == origin:
                    return True
        canonical = self.signatures.find(origin).canonical
        if canonical == origin:
            if outer != self.outer:
                self.outer_has_chain = self.has_chain(chunk, outer)
                self.outer = outer
            if not self.outer_has_chain:
                return outer == origin
        return self.signatures.find(outer).canonical == canonical

    cdef bint has_chain(self, Chunk chunk, uint64_t outer) noexcept nogil:
        """Whether the function's entry ``outer`` leads on to another one, or may do so."""
        cdef Py_ssize_t at
        if outer >> KEY_SHIFT != self.number:
            return True
        at = chunk.function_at(outer & 0x00000fffffffffffULL)
        return at < 0 or chunk.functions[at].origin != 0

    cdef int add_site(self, Chunk chunk, SiteRecord* s, uint64_t address, bint at_entry, uint64_t origin,
                      Collected out) except -1 nogil:
        cdef SiteItem* site
        # what find() returns is valid until it is called again, which nothing below does
        cdef Signature* signature = self.signatures.find(origin)
        cdef uint64_t count = signature.count, position, first
        cdef uint64_t key
        cdef uint32_t at
        cdef ParameterRecord* p
        cdef Found found
        cdef uint8_t raised = 0
        cdef uint8_t doubt
        if (self.family == C_GCC and not s.flags & HAS_ENTRY) or not at_entry:
            raised = NO_ENTRY
        make_room(<void**>&out.sites, &out.site_capacity, out.site_count + 1, sizeof(SiteItem))
        make_room(<void**>&out.slots, &out.slot_capacity, out.slot_count + count + 1, sizeof(uint32_t))
        make_room(<void**>&self.chosen, &self.chosen_capacity, count, sizeof(uint32_t))
        first = out.slot_count
        site = &out.sites[out.site_count]
        site.address = address
        site.origin = origin
        site.canonical = signature.canonical
        site.first_slot = <uint32_t>first
        site.slot_count = <uint32_t>(count + (1 if signature.variadic else 0))
        if first + site.slot_count > 0xffffffffULL:
            with gil:
                raise FormatError("more parameters than can be counted", path=self.info.path, section=self.info.section)
        if count:
            for position in range(count):
                self.chosen[position] = <uint32_t>NONE32
            at = s.first
            while at != <uint32_t>NONE32:
                p = &chunk.parameters[at]
                key = p.origin if p.origin else p.die
                if key & ALTERNATE:
                    key = self.supplement | (key & ~ALTERNATE)
                else:
                    key |= self.number << KEY_SHIFT
                position = self.position_of(signature, key)
                if position < count and (p.kind != LOC_NONE or self.chosen[position] == <uint32_t>NONE32):
                    self.chosen[position] = at
                at = p.next
        for position in range(count):
            memset(&found, 0, sizeof(found))
            found.status = NO_LOCATION
            if self.chosen[position] != <uint32_t>NONE32:
                p = &chunk.parameters[self.chosen[position]]
                doubt = raised
                if p.kind == LOC_LIST or p.kind == LOC_LIST_INDEX or p.kind == LOC_EXPRESSION:
                    self.locate(chunk, s, p, address, at_entry, &self.signatures.types[signature.first_type + position],
                                &found)
                elif p.kind != LOC_NONE:
                    self.constant(p, &self.signatures.types[signature.first_type + position], &found)
                    if self.family != C_GCC:
                        doubt = COMPILER
                if not found.doubt:
                    found.doubt = doubt
            if found.status:
                out.reasons[found.status] += 1
                out.slots[first + position] = 0
            elif found.unless_target:
                out.slots[first + position] = 0
                with gil:
                    out.questions.append((first + position, address, found.form, found.doubt))
            elif found.doubt:
                out.doubts[found.doubt] += 1
                out.slots[first + position] = found.form if self.settings.doubtful else 0
            else:
                out.slots[first + position] = found.form
        if signature.variadic:
            out.slots[first + count] = 0
        out.slot_count += site.slot_count
        out.parameters += count
        out.site_count += 1
        return 0

    cdef inline uint64_t position_of(self, const Signature* signature, uint64_t key) noexcept nogil:
        cdef uint32_t i
        cdef Position* positions = &self.signatures.positions[signature.first_position]
        for i in range(signature.position_count):
            if positions[i].key == key:
                return positions[i].number
        return 0xffffffffffffffffULL

    cdef int keep(self, Outcome* outcome, Found* found) except -1 nogil:
        found.status = outcome.status
        found.doubt = outcome.doubt
        found.shape = outcome.shape
        if not outcome.status and not fits(&self.settings.target, &outcome.form):
            found.status = NO_FORM
        found.form = 0 if found.status else self.forms.intern(&outcome.form)
        return 0

    cdef int constant(self, ParameterRecord* p, const TypeInfo* type_, Found* found) except -1 nogil:
        """What a DW_AT_const_value gives, as resolve.constant has it."""
        cdef uint64_t size = type_.size, number = p.value, i
        cdef const uint8_t* data = self.info.data + p.value
        cdef Outcome outcome
        memset(&outcome, 0, sizeof(outcome))
        if p.kind == LOC_BYTES and not p.length:
            return 0
        if size > 1 << 20:
            found.status = UNSUPPORTED
            return 0
        if p.kind == LOC_BYTES:
            if not size:
                size = p.length
            if p.length < size:
                found.status = PARTLY
                return 0
            number = 0
            if size <= 8:
                for i in range(size):
                    number |= <uint64_t>data[i if self.settings.target.little_endian else size - 1 - i] << (8 * i)
        elif not size:
            size = self.settings.target.address_size
        constant_outcome(&self.settings.target, number, size, type_.is_signed, &outcome)
        return self.keep(&outcome, found)

    cdef int locate(self, Chunk chunk, SiteRecord* s, ParameterRecord* p, uint64_t address, bint at_entry,
                    const TypeInfo* type_, Found* found) except -1 nogil:
        """What an expression gives, or the entry of a list that is live at the site."""
        cdef UnitHeader* header = &self.info.headers[s.unit]
        cdef uint64_t offset = p.value, length = p.length, entries = 0, at = 0
        cdef const uint8_t* data = self.info.data
        cdef Entry live
        cdef bint is_live = False, empty = False
        cdef int error = 0
        if p.kind != LOC_EXPRESSION:
            if p.kind == LOC_LIST_INDEX:
                error = resolve_list(self.info, header, offset, True, &offset)
                at = header.loclists_base
            if not error:
                error = live_entry(self.info, header, &self.lists.found, offset, p.views, address,
                                   s.view if s.flags & HAS_ENTRY and at_entry else 0, self.lines, &live, &is_live, &empty,
                                   &at)
                if error == LINES_NEEDED:
                    with gil:
                        self.lines.decode()
                    error = live_entry(self.info, header, &self.lists.found, offset, p.views, address,
                                       s.view if s.flags & HAS_ENTRY and at_entry else 0, self.lines, &live, &is_live,
                                       &empty, &at)
            if error:
                with gil:
                    raise_list_error(self.info, error, header.version >= 5, True, at)
            entries = self.lists.found.count
            self.lists.charge(entries)
            if not is_live:
                found.status = NOT_LIVE
                return 0
            data = &self.info.loclists[0] if header.version >= 5 else &self.info.locations[0]
            offset = live.expression
            length = live.length
        self.resolve(chunk, s, data + offset, length, address, type_, p.kind == LOC_EXPRESSION, found)
        if found.status or found.doubt:
            return 0
        if empty and found.shape == S_PIECES:
            found.unless_target = True
        elif self.family == C_GCC and p.kind != LOC_EXPRESSION and not self.lists.found.viewed:
            found.doubt = NO_VIEW
        elif entries > 1 and self.family != C_GCC and found.shape == S_CONSTANT:
            found.doubt = COMPILER
        return 0

    cdef int resolve(self, Chunk chunk, SiteRecord* s, const uint8_t* data, uint64_t length, uint64_t address,
                     const TypeInfo* type_, bint single, Found* found) except -1 nogil:
        """The outcome of an expression, from the memo if it depends on nothing but itself."""
        cdef Circumstance key
        cdef Memo* memo
        cdef uint64_t hash_, i
        cdef Outcome outcome
        cdef Place place
        cdef int32_t root
        cdef FunctionRecord* f
        cdef bint depends = False
        memset(&key, 0, sizeof(key))
        key.size = type_.size
        key.flavour = self.flavour
        key.is_signed = type_.is_signed
        key.single = single
        hash_ = mix(mix(key.size, key.flavour), key.is_signed << 1 | key.single)
        for i in range(length):
            hash_ = mix(hash_, data[i])
        if self.memo != NULL:
            i = hash_ & self.memo_mask
            while self.memo[i].data != NULL:
                memo = &self.memo[i]
                if memo.length == length and memcmp(&memo.key, &key, sizeof(key)) == 0 and memcmp(memo.data, data, length) == 0:
                    found.status = memo.status
                    found.doubt = memo.doubt
                    found.shape = memo.shape
                    found.form = memo.form
                    return 0
                i = (i + 1) & self.memo_mask
        memset(&place, 0, sizeof(place))
        place.address = address
        place.compiler = self.family
        place.single = single
        root = s.parent
        while root >= 0:
            root = chunk.sites[root].parent
        if root != <int32_t>NO_PARENT:
            f = &chunk.functions[-1 - root]
            place.frame_base = self.info.data + f.frame_base
            place.frame_base_length = f.frame_base_length
            # an entry value is nothing else than the register there
            place.at_entry = (memchr(data, 0xa3, length) != NULL or memchr(data, 0xf3, length) != NULL) \
                and self.is_entry(f, address)
        if resolve_simple(&self.settings.target, self.settings.frames, &self.info.headers[s.unit], data, length,
                          type_.size, type_.is_signed, &place, &outcome) == 0:
            depends = outcome.framed
        else:
            with gil:
                depends = not self.ask(chunk, s, root, data, length, address, type_, single, &outcome)
        self.keep(&outcome, found)
        if not depends and length and length <= 0xffffffffULL:
            self.remember(hash_, data, <uint32_t>length, &key, found)
        return 0

    cdef int remember(self, uint64_t hash_, const uint8_t* data, uint32_t length, const Circumstance* key,
                      const Found* found) except -1 nogil:
        cdef uint64_t i, j, k, size
        cdef Memo* memo
        cdef Memo* old = self.memo
        if self.memo_count >= MAX_MEMO:
            memset(self.memo, 0, (self.memo_mask + 1) * sizeof(Memo))
            self.memo_count = 0
        if old == NULL or 2 * (self.memo_count + 1) > self.memo_mask:
            size = 4 * (self.memo_mask + 1) if old != NULL else 4096
            memo = <Memo*>calloc(size, sizeof(Memo))
            if memo == NULL:
                with gil:
                    raise MemoryError
            for j in range(self.memo_mask + 1 if old != NULL else 0):
                if old[j].data != NULL:
                    i = mix(mix(old[j].key.size, old[j].key.flavour), old[j].key.is_signed << 1 | old[j].key.single)
                    for k in range(old[j].length):
                        i = mix(i, old[j].data[k])
                    i &= size - 1
                    while memo[i].data != NULL:
                        i = (i + 1) & (size - 1)
                    memo[i] = old[j]
            free(old)
            self.memo = memo
            self.memo_mask = size - 1
        i = hash_ & self.memo_mask
        while self.memo[i].data != NULL:
            i = (i + 1) & self.memo_mask
        memo = &self.memo[i]
        # the section stays as long as the collector
        memo.data = data
        memo.length = length
        memo.key = key[0]
        memo.status = found.status
        memo.doubt = found.doubt
        memo.shape = found.shape
        memo.form = found.form
        self.memo_count += 1
        return 0

    cdef bint is_entry(self, const FunctionRecord* f, uint64_t address) except? -1 nogil:
        """Whether ``address`` is that of a function's entry."""
        cdef uint64_t entry = 0
        return self.lists.first_address(f.unit, f.entry, f.low, f.ranges, f.flags, &entry) and entry == address

    cdef bint ask(self, Chunk chunk, SiteRecord* s, int32_t root, const uint8_t* data, uint64_t length,
                  uint64_t address, const TypeInfo* type_, bint single, Outcome* outcome) except? -1:
        """Resolve an expression as a listing does; return whether it is that wherever the expression stands."""
        settings = self.settings
        cdef uint32_t i
        cdef FunctionRecord* f
        cdef bint at_entry = False
        expression = PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>length)
        memset(outcome, 0, sizeof(Outcome))
        with settings.lock:
            frame_base = None
            if root != <int32_t>NO_PARENT:
                f = &chunk.functions[-1 - root]
                frame_base = bytes(self.info.info[f.frame_base:f.frame_base + f.frame_base_length])
                at_entry = self.is_entry(f, address)
            spot = Spot(self.unit, self.compiler, address, frame_base, True, at_entry)
            key = b"%d/%d/%d/" % (type_.size, self.flavour, single) + expression
            known = settings.resolved.get(key)
            if known is None:
                known = settings.locator.locate(key, expression, spot, type_.size, single)
                if known[1]:
                    settings.resolved[key] = known
            (location, doubt), independent = known
        if not isinstance(location, Location):
            outcome.status = status_of(location.reason)
            return independent
        outcome.doubt = doubt_of(doubt)
        shape = location.shape
        outcome.shape = S_PIECES if shape is Shape.PIECES else S_CONSTANT if shape is Shape.CONSTANT else S_PLAIN
        form = form_of(location, settings.dialect, signed=type_.is_signed != 0, image_base=settings.image_base)
        if form is None:
            outcome.status = NO_FORM
            return independent
        outcome.form.size = form.size
        outcome.form.flags = int(form.flags)
        outcome.form.count = <uint32_t>len(form.values)
        for i in range(outcome.form.count):
            outcome.form.values[i] = form.values[i]
        return independent
