# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From collected sites to LOC_PARAM, LOC_PROTO and LOCSEC records.

Records are written once: LOC_PARAMs in the order of the first site that has them, then LOC_PROTOs likewise, then one
LOCSEC for each section that has sites. The order of the sites is that of the file, so that nothing depends on threads.
"""
from cpython cimport array
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from inlinetrace._arrays cimport make_room
from inlinetrace.elf._search cimport count_up_to
from inlinetrace.generate._locations cimport Collected, FormTable, SiteItem
from inlinetrace.generate._expressions cimport Form
from inlinetrace.generate._tables cimport Table, add_number, mix, next_number

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

# A site: what it is sorted by, its LOC_PROTO, and which of the origins its function is.
cdef struct Item:
    uint64_t order
    uint32_t proto
    uint32_t origin

cdef uint32_t LOC_PARAM = Kind.LOC_PARAM, LOC_PROTO = Kind.LOC_PROTO, LOCSEC = Kind.LOCSEC

cdef struct Proto:
    uint64_t first           # slot in the pool
    uint32_t count


cdef int _sort(Item* items, uint64_t count, int least) except -1 nogil:
    """Sort by ``order``, 16 bits at a time from bit ``least`` on, then by LOC_PROTO; what is equal stays in order."""
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
    for shift in range(least, 64, 16):
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
    cdef _Encoder encoder
    cdef Item* items                 # of the sites that are in a section, by address
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
                    if section == <uint32_t>NOWHERE or not bounds[section] <= site.address < bounds[count + section] \
                            or section + 1 < count and bounds[section + 1] <= site.address:
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

    def __dealloc__(self):
        free(self.items)

    def __len__(self):
        return self.site_count

    def describe(self, *, bint rfc=False, uint32_t address_size=8):
        cdef Collected part
        cdef const SiteItem* site
        cdef uint64_t i, n = 0
        cdef _Encoder encoder = _Encoder(rfc, address_size)
        if self.encoder is not None and self.encoder.rfc == rfc:
            return
        if self.items == NULL:
            self.items = <Item*>malloc((self.site_count + 1) * sizeof(Item))
            if self.items == NULL:
                raise MemoryError
        for part in self.parts:
            encoder.turn_to(part)
            with nogil:
                for i in range(part.site_count):
                    site = &part.sites[i]
                    if site.section != <uint32_t>NOWHERE:
                        self.items[n].order = site.address
                        self.items[n].origin = site.function
                        self.items[n].proto = encoder.proto_of(site)
                        n += 1
        with nogil:
            _sort(self.items, n, 0)
        self.encoder = encoder

    def encode(self, func_ids, *, uint32_t first_id, names, bases, bint by_offset=False, bint little_endian=True,
               rfc=None):
        cdef _Encoder encoder = self.encoder
        cdef const uint32_t[::1] funcs = func_ids
        cdef const uint32_t[::1] rfc_names = rfc[0] if rfc is not None else func_ids
        cdef const uint32_t[::1] rfc_protos = rfc[1] if rfc is not None else func_ids
        cdef Item* items = NULL
        cdef const Item* item
        cdef uint64_t i, at = 0, end, first = 0, kept = 0, without_function = 0, out_of_range = 0, base
        cdef int64_t offset
        cdef uint32_t func
        cdef uint32_t* words
        if encoder is None or encoder.rfc != (rfc is not None):
            raise ValueError("the locations were not described, or for another dialect")
        if not len(self.section_sites) == len(names) == len(bases) or len(func_ids) != len(self.origins):
            raise ValueError("arrays of other lengths than there are functions or sections")
        if rfc is not None and (len(rfc[0]) != len(func_ids) or len(rfc[1]) != len(func_ids)):
            raise ValueError("arrays of other lengths than there are functions")
        by_offset = by_offset or encoder.rfc
        try:
            items = <Item*>malloc((self.site_count + 1) * sizeof(Item))
            if items == NULL:
                raise MemoryError
            encoder.forget_uses()
            lists = []               # first item, count, name
            # sections lie one behind the other, as their sites do
            for sites, start, name in zip(self.section_sites, bases, names):
                base = start
                end = at + <uint64_t>sites
                while at < end:
                    item = &self.items[at]
                    at += 1
                    func = funcs[item.origin]
                    if not func:
                        without_function += 1
                        continue
                    offset = <int64_t>(item.order - base)
                    # offsets of the RFC wrap around
                    if not 0 <= offset <= 0xffffffffLL and not (
                            encoder.rfc and -0x80000000LL <= offset < 0x80000000LL):
                        out_of_range += 1
                        continue
                    encoder.proto_ids[item.proto] = 1
                    items[kept] = item[0]
                    if by_offset:
                        items[kept].order = <uint64_t>(<uint32_t>offset) << 32 | func
                    else:
                        items[kept].order = <uint64_t>func << 32 | <uint32_t>offset
                    kept += 1
                if not encoder.rfc:
                    with nogil:
                        _sort(items + first, kept - first, 0 if by_offset else 32)
                    lists += [(i, min(kept - i, MAX_VLEN), name) for i in range(first, kept, MAX_VLEN)]
                    first = kept
            if encoder.rfc:
                with nogil:
                    _sort(items, kept, 0)
                lists = [(i, min(kept - i, CLASSIC_MAX_VLEN), names[0]) for i in range(0, kept, CLASSIC_MAX_VLEN)]
            next_id = encoder.give_ids(first_id) + len(lists)
            if next_id - 1 > MAX_TYPE_ID:
                raise FormatError(f"{next_id - 1} types: the format has ids up to {MAX_TYPE_ID}")
            encoder.allocate(3 * len(lists) + (4 if encoder.rfc else 3) * kept)
            encoder.write_forms(little_endian)
            encoder.write_protos()
            for first, sites, name in lists:
                encoder.begin(name, LOCSEC, sites, 0)
                words = encoder.more((4 if encoder.rfc else 3) * sites)
                for i in range(first, first + <uint64_t>sites):
                    if encoder.rfc:
                        words[0] = rfc_names[items[i].origin]
                        words[1] = rfc_protos[items[i].origin]
                        words += 2
                    else:
                        words[0] = <uint32_t>(items[i].order if by_offset else items[i].order >> 32)
                        words += 1
                    words[0] = encoder.proto_ids[items[i].proto]
                    words[1] = <uint32_t>(items[i].order >> 32 if by_offset else items[i].order)
                    words += 2
            return Encoded(encoder.words, next_id - first_id, kept, encoder.used_forms, encoder.used_protos,
                           without_function, out_of_range)
        finally:
            free(items)


cdef class _Encoder:
    """Gives forms and LOC_PROTOs their numbers, in the order of the first site that has them, and writes those used."""

    cdef bint rfc
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
    cdef uint32_t* proto_ids         # by number, 0 for what no written site has
    cdef uint32_t* form_ids
    cdef uint64_t used_forms, used_protos, word_count
    cdef array.array words

    def __cinit__(self, bint rfc, uint32_t address_size):
        self.rfc = rfc
        self.address_size = address_size
        self.forms = FormTable()
        self.maps = {}

    def __dealloc__(self):
        free(self.pool)
        free(self.protos)
        free(self.proto_numbers.slots)
        free(self.proto_ids)
        free(self.form_ids)

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

    cdef int forget_uses(self) except -1:
        """From here on the users of LOC_PROTOs set their ids to anything but 0; then comes ``give_ids``."""
        free(self.proto_ids)
        free(self.form_ids)
        self.proto_ids = <uint32_t*>calloc(self.proto_count + 1, sizeof(uint32_t))
        self.form_ids = <uint32_t*>calloc(self.forms.count + 1, sizeof(uint32_t))
        if self.proto_ids == NULL or self.form_ids == NULL:
            raise MemoryError
        return 0

    cdef uint64_t give_ids(self, uint64_t first_id) except 0:
        """Number what is used: forms, then LOC_PROTOs. Returns the id behind the last."""
        cdef uint64_t i, j, next_id = first_id
        cdef const Proto* proto
        for i in range(self.proto_count):
            proto = &self.protos[i]
            for j in range(proto.first, proto.first + proto.count):
                if self.proto_ids[i] and self.pool[j]:
                    self.form_ids[self.pool[j] - 1] = 1
        for i in range(self.forms.count):
            if self.form_ids[i]:
                self.form_ids[i] = <uint32_t>next_id
                next_id += 1
        self.used_forms = next_id - first_id
        for i in range(self.proto_count):
            if self.proto_ids[i]:
                self.proto_ids[i] = <uint32_t>next_id
                next_id += 1
        self.used_protos = next_id - first_id - self.used_forms
        return next_id

    cdef int allocate(self, uint64_t others) except -1:
        """Room for the records of all that is used and so many words of others."""
        cdef uint64_t i, total = others
        for i in range(self.forms.count):
            if self.form_ids[i]:
                total += 5 if self.rfc else 4 + self.forms.items[i].count
        for i in range(self.proto_count):
            if self.proto_ids[i]:
                total += 3 + self.protos[i].count
        self.words = array.clone(make_array("I"), <Py_ssize_t>total, zero=False)
        self.word_count = 0
        return 0

    cdef uint32_t* more(self, uint64_t count) except NULL:
        """The next so many words."""
        if self.word_count + count > <uint64_t>len(self.words):
            raise RuntimeError("more words than there is room for")
        self.word_count += count
        return &self.words.data.as_uints[self.word_count - count]

    cdef int begin(self, uint32_t name, uint32_t kind, uint32_t vlen, uint32_t third, bint kind_flag=False) except -1:
        cdef uint32_t* words = self.more(3)
        words[0] = name
        words[1] = kind << 24 | vlen
        if kind_flag:
            words[1] |= 1U << 31
        words[2] = third
        return 0

    cdef int write_forms(self, bint little_endian) except -1:
        cdef uint64_t i
        cdef uint32_t j
        cdef const Form* form
        cdef uint32_t* words
        for i in range(self.forms.count):
            if not self.form_ids[i]:
                continue
            form = &self.forms.items[i]
            if self.rfc:
                self.write_rfc(form, little_endian)
                continue
            self.begin(0, LOC_PARAM, form.count, form.size)
            words = self.more(1 + form.count)
            words[0] = form.flags
            for j in range(form.count):
                words[1 + j] = form.values[j]
        return 0

    cdef int write_rfc(self, const Form* form, bint little_endian) except -1:
        """The form that the RFC has for it: 20 bytes, see rfc in forms.fits."""
        cdef uint32_t* words
        cdef uint32_t flags = 0
        if form.flags & F_CONST:
            self.begin(0, LOC_PARAM, 0, 0 - form.size if form.flags & F_SIGNED else form.size, True)
            words = self.more(2)
            words[0] = form.values[0]
            words[1] = form.values[1] if form.count == 2 else 0xffffffffU if form.flags & F_SIGNED else 0
            return 0
        if form.flags & F_DEREF:
            flags |= RFC_DEREF
        if form.flags & F_CONTINUE:
            flags |= RFC_CONTINUE
        self.begin(0, LOC_PARAM, 0, form.size)
        words = self.more(2)
        words[0] = form.values[0] | flags << 16 if little_endian else form.values[0] << 16 | flags
        words[1] = form.values[1] if form.flags & F_OFFSET else 0
        return 0

    cdef int write_protos(self) except -1:
        cdef uint64_t i
        cdef uint32_t j, slot
        cdef uint32_t* words
        for i in range(self.proto_count):
            if not self.proto_ids[i]:
                continue
            self.begin(0, LOC_PROTO, self.protos[i].count, 0)
            words = self.more(self.protos[i].count)
            for j in range(self.protos[i].count):
                slot = self.pool[self.protos[i].first + j]
                words[j] = self.form_ids[slot - 1] if slot else 0
        return 0


def distinct(const uint32_t[::1] numbers):
    cdef uint64_t i, count = <uint64_t>numbers.shape[0], found = 0
    cdef uint32_t largest = 0
    cdef uint8_t* seen
    for i in range(count):
        largest = max(largest, numbers[i])
    seen = <uint8_t*>calloc(<size_t>largest + 1, 1)
    if seen == NULL:
        raise MemoryError
    for i in range(count):
        if numbers[i] and not seen[numbers[i]]:
            seen[numbers[i]] = 1
            found += 1
    free(seen)
    return found


cdef inline uint64_t _hash(const uint32_t* slots, uint32_t count) noexcept nogil:
    cdef uint64_t hash_ = count
    cdef uint32_t i
    for i in range(count):
        hash_ = mix(hash_, slots[i])
    return hash_
