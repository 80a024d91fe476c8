# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From collected sites to LOC_PARAM, LOC_PROTO and LOCSEC records.

Records are written once: LOC_PARAMs in the order of their first use, then LOC_PROTOs likewise, then one LOCSEC for
each section that has sites. The order of the sites is that of the file, so that nothing depends on threads.
"""
from cpython cimport array
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from inlinetrace.elf._search cimport count_up_to
from inlinetrace.generate._locations cimport Collected, FormTable, SiteItem
from inlinetrace.generate._expressions cimport Form
from inlinetrace.generate._tables cimport Table, add_number, make_room, mix, next_number

from array import array as make_array
from collections import namedtuple

from inlinetrace.btf.kinds import CLASSIC_MAX_VLEN, MAX_TYPE_ID, MAX_VLEN, RFC_CONTINUE, RFC_DEREF, Kind
from inlinetrace.errors import FormatError

Encoded = namedtuple("Encoded", "words types sites loc_params loc_protos without_function out_of_range")

cdef enum:
    F_SIGNED = 0x01
    F_CONST = 0x02
    F_REG = 0x08
    F_DEREF = 0x10
    F_OFFSET = 0x20
    # the first of two parts, in the RFC alone
    F_CONTINUE = 0x100
    NOWHERE = 0xffffffff

cdef struct Item:
    uint64_t order           # what is sorted by
    uint32_t func
    uint32_t proto
    uint32_t offset
    uint32_t origin

cdef struct Proto:
    uint64_t first           # slot in the pool
    uint32_t count


cdef int _sort(Item* items, uint64_t count) except -1 nogil:
    """Sort by ``order``, then by LOC_PROTO; 16 bits at a time, the least significant first."""
    cdef Item* other
    cdef Item* source = items
    cdef Item* target
    cdef Item* swapped
    cdef uint64_t* starts
    cdef uint64_t i, j, digit, at, total, any_, all_
    cdef int shift
    cdef Item held
    if count < 2:
        return 0
    other = <Item*>malloc(count * sizeof(Item))
    starts = <uint64_t*>malloc(65536 * sizeof(uint64_t))
    if other == NULL or starts == NULL:
        free(other)
        free(starts)
        with gil:
            raise MemoryError
    target = other
    any_ = 0
    all_ = 0xffffffffffffffffULL
    for i in range(count):
        any_ |= items[i].order
        all_ &= items[i].order
    for shift in range(0, 64, 16):
        if ((any_ ^ all_) >> shift) & 0xffff == 0:
            continue
        memset(starts, 0, 65536 * sizeof(uint64_t))
        for i in range(count):
            starts[(source[i].order >> shift) & 0xffff] += 1
        total = 0
        for digit in range(65536):
            at = starts[digit]
            starts[digit] = total
            total += at
        for i in range(count):
            digit = (source[i].order >> shift) & 0xffff
            target[starts[digit]] = source[i]
            starts[digit] += 1
        swapped = source
        source = target
        target = swapped
    if source != items:
        memcpy(items, source, count * sizeof(Item))
    free(other)
    free(starts)
    for i in range(1, count):
        j = i
        held = items[i]
        while j > 0 and items[j - 1].order == held.order and items[j - 1].proto > held.proto:
            items[j] = items[j - 1]
            j -= 1
        items[j] = held
    return 0


cdef uint32_t _section_of(const uint64_t* bounds, uint64_t count, uint64_t address) noexcept nogil:
    """Index of the section with ``address``, NOWHERE if none has it; ``bounds`` are the starts, then the ends."""
    cdef uint64_t begun = count_up_to(bounds, count, address)
    return <uint32_t>(begun - 1) if begun and address < bounds[count + begun - 1] else <uint32_t>NOWHERE


cdef uint32_t _number_of(Table* numbers, uint64_t** keys, uint64_t* capacity, uint64_t key) except 0xffffffff nogil:
    """Number of ``key`` among ``keys``, counted from 0; it is added if it is a new one."""
    cdef uint64_t hash_ = mix(0, key), at = hash_
    cdef uint32_t number = next_number(numbers, hash_, &at)
    while number:
        if keys[0][number - 1] == key:
            return number - 1
        number = next_number(numbers, hash_, &at)
    make_room(<void**>keys, capacity, numbers.count + 1, sizeof(uint64_t))
    keys[0][numbers.count] = key
    add_number(numbers, hash_)
    return <uint32_t>(numbers.count - 1)


cdef class Assembly:
    """See the stub."""

    cdef list parts
    cdef uint64_t site_count
    cdef readonly object origins, canonical
    cdef readonly list section_sites
    cdef readonly uint64_t without_section

    def __init__(self, parts, sections):
        cdef Collected part
        cdef uint64_t i, count = len(sections), capacity = 0, other_capacity = 0, known
        cdef uint64_t* bounds = NULL
        cdef uint64_t* sites = NULL
        cdef uint64_t* keys = NULL
        cdef uint64_t* ends = NULL
        cdef Table numbers
        cdef SiteItem* site
        cdef uint32_t section = <uint32_t>NOWHERE
        self.parts = list(parts)
        memset(&numbers, 0, sizeof(numbers))
        try:
            bounds = <uint64_t*>malloc((2 * count + 1) * sizeof(uint64_t))
            sites = <uint64_t*>calloc(count + 1, sizeof(uint64_t))
            if bounds == NULL or sites == NULL:
                raise MemoryError
            for i in range(count):
                bounds[i], bounds[count + i] = sections[i]
            for part in self.parts:
                for i in range(part.site_count):
                    site = &part.sites[i]
                    if section == <uint32_t>NOWHERE or not bounds[section] <= site.address < bounds[count + section]:
                        section = _section_of(bounds, count, site.address)
                    site.section = section
                    if section == <uint32_t>NOWHERE:
                        self.without_section += 1
                        continue
                    known = numbers.count
                    site.function = _number_of(&numbers, &keys, &capacity, site.origin)
                    if numbers.count > known:
                        make_room(<void**>&ends, &other_capacity, numbers.count, sizeof(uint64_t))
                        ends[site.function] = site.canonical
                    sites[section] += 1
                    self.site_count += 1
            self.origins = make_array("Q")
            self.origins.frombytes((<const uint8_t*>keys)[:numbers.count * sizeof(uint64_t)])
            self.canonical = make_array("Q")
            self.canonical.frombytes((<const uint8_t*>ends)[:numbers.count * sizeof(uint64_t)])
            self.section_sites = [sites[i] for i in range(count)]
        finally:
            free(bounds)
            free(sites)
            free(keys)
            free(ends)
            free(numbers.slots)

    def __len__(self):
        return self.site_count

    def encode(self, func_ids, *, uint32_t first_id, names, bases, bint by_offset=False, uint32_t address_size=8,
               bint little_endian=True, rfc=None):
        cdef _Encoder encoder = _Encoder(rfc is not None, address_size, little_endian)
        cdef const uint32_t[::1] funcs = func_ids
        cdef const uint32_t[::1] rfc_names = rfc[0] if rfc is not None else func_ids
        cdef const uint32_t[::1] rfc_protos = rfc[1] if rfc is not None else func_ids
        cdef Item* items = NULL
        cdef uint64_t i, count = 0, section, section_count = len(self.section_sites), first, kept = 0
        cdef uint64_t without_function = 0, out_of_range = 0, at
        cdef int64_t offset
        cdef Collected part
        cdef const SiteItem* site
        cdef uint64_t* base_of = NULL
        cdef uint64_t* ends = NULL
        cdef uint32_t* words
        if len(func_ids) != len(self.origins) or len(names) != section_count or len(bases) != section_count:
            raise ValueError("arrays of other lengths than there are functions or sections")
        if rfc is not None and (len(rfc[0]) != len(func_ids) or len(rfc[1]) != len(func_ids)):
            raise ValueError("arrays of other lengths than there are functions")
        try:
            items = <Item*>malloc((self.site_count + 1) * sizeof(Item))
            base_of = <uint64_t*>malloc((section_count + 1) * sizeof(uint64_t))
            ends = <uint64_t*>calloc(section_count + 2, sizeof(uint64_t))
            if items == NULL or base_of == NULL or ends == NULL:
                raise MemoryError
            for i in range(section_count):
                base_of[i] = bases[i]
                # the items of a section stand together; all of them in the RFC
                ends[i + 1] = ends[i] + (0 if rfc is not None else <uint64_t>self.section_sites[i])
            for part in self.parts:
                encoder.turn_to(part)
                for i in range(part.site_count):
                    site = &part.sites[i]
                    if site.section == <uint32_t>NOWHERE:
                        continue
                    if not funcs[site.function]:
                        without_function += 1
                        continue
                    offset = <int64_t>(site.address - base_of[site.section])
                    # offsets of the RFC wrap around
                    if not 0 <= offset <= 0xffffffffLL and not (
                            encoder.rfc and -0x80000000LL <= offset < 0x80000000LL):
                        out_of_range += 1
                        continue
                    at = ends[site.section]
                    if encoder.rfc:
                        at = kept
                    items[at].func = funcs[site.function]
                    items[at].offset = <uint32_t>offset
                    items[at].origin = site.function
                    items[at].proto = encoder.proto_of(site)
                    if by_offset or encoder.rfc:
                        items[at].order = <uint64_t>(<uint32_t>offset) << 32 | funcs[site.function]
                    else:
                        items[at].order = <uint64_t>funcs[site.function] << 32 | <uint32_t>offset
                    ends[site.section] += 1
                    kept += 1
            first_proto = first_id + encoder.forms.count
            locsecs = 0
            lists = []               # first item, count, name
            if rfc is not None:
                with nogil:
                    _sort(items, kept)
                for first in range(0, kept, CLASSIC_MAX_VLEN):
                    lists.append((first, min(kept - first, CLASSIC_MAX_VLEN), names[0]))
            else:
                first = 0
                for section in range(section_count):
                    # what is written lies from where the section began up to where it was filled
                    count = ends[section] - first
                    with nogil:
                        _sort(items + first, count)
                    at = first
                    while count:
                        i = min(count, <uint64_t>MAX_VLEN)
                        lists.append((at, i, names[section]))
                        at += i
                        count -= i
                    first += <uint64_t>self.section_sites[section]
            types = encoder.forms.count + encoder.proto_count + len(lists)
            if first_id + types - 1 > MAX_TYPE_ID:
                raise FormatError(f"{first_id + types - 1} types: the format has ids up to {MAX_TYPE_ID}")
            encoder.write_forms()
            encoder.write_protos(first_id)
            for at, count, name in lists:
                encoder.begin(name, Kind.LOCSEC, count, 0)
                words = encoder.more(count * (4 if encoder.rfc else 3))
                for i in range(at, at + count):
                    if encoder.rfc:
                        words[0] = rfc_names[items[i].origin]
                        words[1] = rfc_protos[items[i].origin]
                        words += 2
                    else:
                        words[0] = items[i].func
                        words += 1
                    words[0] = first_proto + items[i].proto
                    words[1] = items[i].offset
                    words += 2
            return Encoded(encoder.taken(), types, kept, encoder.forms.count, encoder.proto_count, without_function,
                           out_of_range)
        finally:
            free(items)
            free(base_of)
            free(ends)


cdef class _Encoder:
    """Gives forms and LOC_PROTOs their numbers, and writes them."""

    cdef bint rfc, little_endian
    cdef uint32_t address_size
    cdef FormTable forms
    cdef Collected part
    cdef dict maps
    cdef array.array known           # of the part at hand: number of each of its forms, 0 if it has none yet
    cdef uint32_t* numbers
    cdef uint32_t* pool
    cdef uint64_t pool_count, pool_capacity
    cdef Proto* protos
    cdef uint64_t proto_count, proto_capacity
    cdef Table proto_numbers
    cdef uint32_t* words
    cdef uint64_t word_count, word_capacity

    def __cinit__(self, bint rfc, uint32_t address_size, bint little_endian):
        self.rfc = rfc
        self.address_size = address_size
        self.little_endian = little_endian
        self.forms = FormTable()
        self.maps = {}

    def __dealloc__(self):
        free(self.pool)
        free(self.protos)
        free(self.proto_numbers.slots)
        free(self.words)

    cdef int turn_to(self, Collected part) except -1:
        """Make ``part`` the one at hand. Parts of one collector share their forms."""
        self.part = part
        known = self.maps.get(id(self.part.forms))
        if known is None:
            known = self.maps[id(self.part.forms)] = make_array("I", bytes(4 * max(self.part.forms.count, 1)))
        self.known = known
        self.numbers = self.known.data.as_uints
        return 0

    cdef uint32_t number_of(self, uint32_t slot) except 0 nogil:
        """Number of a form of the part at hand, counted from 1."""
        cdef uint32_t number = self.numbers[slot - 1]
        if not number:
            number = self.numbers[slot - 1] = self.forms.intern(&self.part.forms.items[slot - 1])
        return number

    cdef uint32_t proto_of(self, const SiteItem* site) except? 0xffffffff nogil:
        """Number of the LOC_PROTO of a site, counted from 0."""
        cdef uint64_t i, first = self.pool_count, hash_, at
        cdef uint32_t slot, count, number
        cdef const Form* form
        cdef Form half
        make_room(<void**>&self.pool, &self.pool_capacity, self.pool_count + 2 * <uint64_t>site.slot_count, sizeof(uint32_t))
        count = 0
        for i in range(site.slot_count):
            slot = self.part.slots[site.first_slot + i]
            if slot:
                form = &self.part.forms.items[slot - 1]
                if self.rfc and not form.flags & (F_CONST | F_DEREF):
                    # a register is described whole, two of them in a slot each
                    half = form[0]
                    half.size = self.address_size
                    if form.flags == F_REG and form.count == 2:
                        half.count = 1
                        half.flags = F_REG | F_CONTINUE
                        self.pool[first + count] = self.forms.intern(&half)
                        count += 1
                        half.values[0] = form.values[1]
                        half.flags = F_REG
                    slot = self.forms.intern(&half)
                else:
                    slot = self.number_of(slot)
            self.pool[first + count] = slot
            count += 1
        hash_ = _hash(&self.pool[first], count)
        at = hash_
        number = next_number(&self.proto_numbers, hash_, &at)
        while number:
            if self.protos[number - 1].count == count and memcmp(
                    &self.pool[self.protos[number - 1].first], &self.pool[first], count * sizeof(uint32_t)) == 0:
                return number - 1
            number = next_number(&self.proto_numbers, hash_, &at)
        make_room(<void**>&self.protos, &self.proto_capacity, self.proto_count + 1, sizeof(Proto))
        self.protos[self.proto_count].first = first
        self.protos[self.proto_count].count = count
        add_number(&self.proto_numbers, hash_)
        self.proto_count += 1
        self.pool_count += count
        return <uint32_t>(self.proto_count - 1)

    cdef uint32_t* more(self, uint64_t count) except NULL:
        """Room for so many words behind those that are written; they count as written."""
        make_room(<void**>&self.words, &self.word_capacity, self.word_count + count + 1, sizeof(uint32_t))
        self.word_count += count
        return &self.words[self.word_count - count]

    cdef int begin(self, uint32_t name, uint32_t kind, uint32_t vlen, uint32_t third, bint kind_flag=False) except -1:
        cdef uint32_t* words = self.more(3)
        words[0] = name
        words[1] = kind << 24 | vlen
        if kind_flag:
            words[1] |= 1U << 31
        words[2] = third
        return 0

    cdef int write_forms(self) except -1:
        cdef uint64_t i
        cdef uint32_t j
        cdef const Form* form
        cdef uint32_t* words
        for i in range(self.forms.count):
            form = &self.forms.items[i]
            if self.rfc:
                self.write_rfc(form)
                continue
            self.begin(0, Kind.LOC_PARAM, form.count, form.size)
            words = self.more(1 + form.count)
            words[0] = form.flags
            for j in range(form.count):
                words[1 + j] = form.values[j]
        return 0

    cdef int write_rfc(self, const Form* form) except -1:
        """The form that the RFC has for it: 20 bytes, see rfc in forms.fits."""
        cdef uint32_t* words
        cdef uint32_t flags = 0
        if form.flags & F_CONST:
            self.begin(0, Kind.LOC_PARAM, 0, 0 - form.size if form.flags & F_SIGNED else form.size, True)
            words = self.more(2)
            words[0] = form.values[0]
            words[1] = form.values[1] if form.count == 2 else 0xffffffffU if form.flags & F_SIGNED else 0
            return 0
        if form.flags & F_DEREF:
            flags |= RFC_DEREF
        if form.flags & F_CONTINUE:
            flags |= RFC_CONTINUE
        self.begin(0, Kind.LOC_PARAM, 0, form.size)
        words = self.more(2)
        words[0] = form.values[0] | flags << 16 if self.little_endian else form.values[0] << 16 | flags
        words[1] = form.values[1] if form.flags & F_OFFSET else 0
        return 0

    cdef int write_protos(self, uint32_t first_id) except -1:
        cdef uint64_t i
        cdef uint32_t j, slot
        cdef uint32_t* words
        for i in range(self.proto_count):
            self.begin(0, Kind.LOC_PROTO, self.protos[i].count, 0)
            words = self.more(self.protos[i].count)
            for j in range(self.protos[i].count):
                slot = self.pool[self.protos[i].first + j]
                words[j] = first_id + slot - 1 if slot else 0
        return 0

    cdef object taken(self):
        result = make_array("I")
        result.frombytes((<const uint8_t*>self.words)[:self.word_count * sizeof(uint32_t)])
        return result


cdef inline uint64_t _hash(const uint32_t* slots, uint32_t count) noexcept nogil:
    cdef uint64_t hash_ = count
    cdef uint32_t i
    for i in range(count):
        hash_ = mix(hash_, slots[i])
    return hash_
