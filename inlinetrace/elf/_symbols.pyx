# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The index behind SymbolTable: which symbols are functions, sorted by address, and how far each reaches.

Section numbers of symbols are widened: real ones come out as they are, however large; the reserved ones (absolute, common)
as 0xffff0000U | number, which no file reaches.
"""
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from inlinetrace.dwarf._cursor cimport host_is_little, inlinetrace_swap16, inlinetrace_swap32, inlinetrace_swap64

cdef enum:
    STT_NOTYPE = 0
    STT_FUNC = 2
    STT_SECTION = 3
    STT_FILE = 4
    STB_WEAK = 2
    STT_GNU_IFUNC = 10
    UNDERSCORES = 16      # no name has more in front
    # Names are hashed up to this length: hostile ones all point into one endless string.
    HASHED = 256
    # Going over all names takes a fifth of the time that hashing them does.
    FEW_SEARCHES = 3

cdef uint32_t NOWHERE = 0xffffffffU


cdef struct Fields:
    uint64_t address
    uint64_t size
    uint32_t name
    uint32_t section
    uint8_t type
    uint8_t binding


cdef struct Function:
    uint64_t address
    uint64_t end          # first address behind it
    uint32_t symbol
    uint32_t section
    uint32_t enclosing    # the function that its start lies in, or NOWHERE
    uint32_t rank         # which of several at one address is the best: the higher


cdef class Index:
    """The symbols of one table, and its functions sorted by address."""

    cdef const uint8_t[::1] symbols
    cdef const uint8_t[::1] strings
    cdef const uint8_t[::1] extended
    cdef uint64_t extended_count
    cdef bint wide
    cdef bint swap
    cdef const uint64_t[::1] bases
    cdef uint64_t base_count
    cdef bint thumb
    cdef readonly uint32_t count
    cdef readonly uint32_t function_count
    cdef uint32_t start_count
    cdef Function* all
    cdef uint32_t* starts     # positions in all, the best of each address
    cdef uint32_t* buckets
    cdef uint32_t* chain      # the next symbol of the same bucket; chains cost nothing for many equal names
    cdef uint32_t bucket_mask
    cdef uint32_t searches

    def __cinit__(self):
        self.all = NULL
        self.starts = NULL
        self.buckets = NULL
        self.chain = NULL

    def __dealloc__(self):
        PyMem_RawFree(self.all)
        PyMem_RawFree(self.starts)
        PyMem_RawFree(self.buckets)
        PyMem_RawFree(self.chain)

    def __init__(
        self, const uint8_t[::1] symbols, const uint8_t[::1] strings, const uint8_t[::1] extended,
        const uint64_t[::1] limits, const uint64_t[::1] bases, *, address_size, little_endian, thumb,
    ):
        """``limits``: for each section the address behind its end if it is executable, else 0.

        ``bases``: for each section what the values of its symbols are relative to; empty if they are addresses.
        """
        if self.all != NULL:
            raise RuntimeError("an index is made once")
        self.symbols = symbols
        self.strings = strings
        self.extended = extended
        self.extended_count = <uint64_t>extended.shape[0] // 4
        self.wide = address_size == 8
        self.swap = bool(little_endian) != host_is_little()
        self.bases = bases
        self.base_count = bases.shape[0]
        self.thumb = thumb
        count = <uint64_t>symbols.shape[0] // (24 if self.wide else 16)
        if count >= 0xfffffff0:
            raise MemoryError("too many symbols")
        self.count = count
        self.all = <Function*>PyMem_RawMalloc((<size_t>self.count + 1) * sizeof(Function))
        cdef Function* spare = <Function*>PyMem_RawMalloc((<size_t>self.count + 1) * sizeof(Function))
        self.starts = <uint32_t*>PyMem_RawMalloc((<size_t>self.count + 1) * sizeof(uint32_t))
        if self.all == NULL or spare == NULL or self.starts == NULL:
            PyMem_RawFree(spare)
            raise MemoryError
        with nogil:
            self.collect(limits)
            sort_by_address(&self.all, &spare, self.function_count)
            self.measure(limits)
        PyMem_RawFree(spare)
        # Most symbols of a large table are no functions or none that is kept.
        self.all = <Function*>shrink(self.all, (<size_t>self.function_count + 1) * sizeof(Function))
        self.starts = <uint32_t*>shrink(self.starts, (<size_t>self.start_count + 1) * sizeof(uint32_t))

    cdef void read(self, uint32_t number, Fields* f) noexcept nogil:
        cdef const uint8_t* at
        cdef uint16_t half
        cdef uint32_t word
        cdef uint64_t wide
        cdef uint8_t info
        at = &self.symbols[0] + <uint64_t>number * (24 if self.wide else 16)
        memcpy(&word, at, 4)
        f.name = inlinetrace_swap32(word) if self.swap else word
        if self.wide:
            info = at[4]
            memcpy(&half, at + 6, 2)
            memcpy(&wide, at + 8, 8)
            f.address = inlinetrace_swap64(wide) if self.swap else wide
            memcpy(&wide, at + 16, 8)
            f.size = inlinetrace_swap64(wide) if self.swap else wide
        else:
            memcpy(&word, at + 4, 4)
            f.address = inlinetrace_swap32(word) if self.swap else word
            memcpy(&word, at + 8, 4)
            f.size = inlinetrace_swap32(word) if self.swap else word
            info = at[12]
            memcpy(&half, at + 14, 2)
        half = inlinetrace_swap16(half) if self.swap else half
        f.section = half
        if half == 0xffff:
            f.section = 0xffffffffU
            if number < self.extended_count:
                memcpy(&word, &self.extended[0] + <uint64_t>number * 4, 4)
                f.section = inlinetrace_swap32(word) if self.swap else word
        elif half >= 0xff00:
            f.section = 0xffff0000U | half
        f.type = info & 15
        f.binding = info >> 4
        if self.thumb and f.type in (STT_FUNC, STT_GNU_IFUNC):
            f.address &= ~<uint64_t>1
        if f.section < self.base_count:
            f.address += self.bases[f.section]

    cdef bint is_label(self, uint32_t name) noexcept nogil:
        """Tell whether an untyped symbol is worth knowing: nothing that kallsyms leaves out, no compiler's L0^A."""
        return self.is_kept(name) and not (self.strings[name] == c'L' and self.strings[name + 1] == c'0')

    cdef void collect(self, const uint64_t[::1] limits) noexcept nogil:
        cdef uint32_t number
        cdef Fields f
        cdef Function* out = self.all
        cdef uint32_t n = 0
        for number in range(1, self.count):
            self.read(number, &f)
            if f.section == 0 or f.section >= <uint64_t>limits.shape[0]:
                continue
            if f.type != STT_FUNC and f.type != STT_GNU_IFUNC:
                if f.type != STT_NOTYPE or limits[f.section] == 0 or not self.is_label(f.name):
                    continue
            out[n].address = f.address
            out[n].end = f.address + f.size
            if out[n].end < f.address:
                out[n].end = 0xffffffffffffffffULL
            if self.base_count and limits[f.section] and out[n].end > limits[f.section]:
                # It must not reach into the next section.
                out[n].end = max(limits[f.section], f.address)
            out[n].symbol = number
            out[n].section = f.section
            out[n].enclosing = NOWHERE
            out[n].rank = (4 if f.type != STT_NOTYPE else 0) | (2 if f.size else 0) | (1 if f.binding else 0)
            n += 1
        self.function_count = n

    cdef void measure(self, const uint64_t[::1] limits) noexcept nogil:
        """Find the best symbol of each address, how far those without size reach, and which lie inside others."""
        cdef Function* all = self.all
        cdef uint32_t count = self.function_count
        cdef uint32_t i = 0
        cdef uint32_t best
        cdef uint32_t longest
        cdef uint32_t enclosing = NOWHERE
        cdef uint32_t n = 0
        cdef uint32_t j
        cdef uint64_t limit
        while i < count:
            best = i
            longest = i
            j = i + 1
            while j < count and all[j].address == all[i].address:
                if all[j].rank > all[best].rank or all[j].rank == all[best].rank and all[j].end > all[best].end:
                    best = j
                if all[j].end > all[longest].end:
                    longest = j
                j += 1
            while enclosing != NOWHERE and all[enclosing].end <= all[best].address:
                enclosing = all[enclosing].enclosing
            if all[longest].end > all[best].end:
                # Reached through the better name wherever that one is too short.
                all[longest].enclosing = enclosing
                enclosing = longest
            if not all[best].rank & 2:
                # A label without type and size inside a function is part of that function.
                if enclosing != NOWHERE and not all[best].rank & 4:
                    i = j
                    continue
                limit = limits[all[best].section]
                if limit <= all[best].address:
                    limit = all[best].address + (1 if all[best].address < 0xffffffffffffffffULL else 0)
                if enclosing != NOWHERE and all[enclosing].end < limit:
                    limit = all[enclosing].end
                all[best].end = limit
                if j < count and all[j].address < limit:
                    all[best].end = all[j].address
                all[best].enclosing = enclosing
            else:
                all[best].enclosing = enclosing
                enclosing = best
            self.starts[n] = best
            n += 1
            i = j
        self.start_count = n

    def fields(self, uint32_t number):
        """Return name offset, address, size, section, type and binding of symbol ``number``."""
        cdef Fields f
        if number >= self.count:
            raise IndexError(number)
        self.read(number, &f)
        return f.name, f.address, f.size, f.section, f.type, f.binding

    def lookup(self, uint64_t address):
        """Return the number of the function symbol that contains ``address``, -1 if there is none."""
        cdef uint32_t low = 0
        cdef uint32_t high = self.start_count
        cdef uint32_t middle
        cdef uint32_t at
        cdef Function* f
        while low < high:
            middle = (low + high) >> 1
            f = &self.all[self.starts[middle]]
            if f.address <= address:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return -1
        at = self.starts[low - 1]
        while at != NOWHERE:
            if address < self.all[at].end:
                return self.all[at].symbol
            at = self.all[at].enclosing
        return -1

    def functions(self):
        """Return the numbers of all function symbols, aliases too, by address."""
        from array import array

        numbers = array("I", bytes(4 * self.function_count))
        cdef uint32_t[::1] view
        cdef uint32_t i
        if self.function_count:
            view = numbers
            for i in range(self.function_count):
                view[i] = self.all[i].symbol
        return memoryview(numbers).toreadonly()

    def function_starts(self, uint32_t section):
        """Return the addresses (``Q``) of the typed functions of ``section``, ascending, without repetition."""
        from array import array

        addresses = array("Q", bytes(8 * self.function_count))
        cdef uint64_t[::1] view
        cdef uint32_t i
        cdef uint32_t used = 0
        if self.function_count:
            view = addresses
            for i in range(self.function_count):
                if self.all[i].section == section and self.all[i].rank & 4 and (
                    used == 0 or view[used - 1] != self.all[i].address
                ):
                    view[used] = self.all[i].address
                    used += 1
            view = None
            del addresses[used:]
        return addresses

    def kallsyms(self, const uint8_t[::1] code):
        """Return the addresses (``Q``) of the symbols of code, ascending, each once, and the numbers (``I``) of the symbols.

        ``code`` tells for each section whether symbols of it count.
        """
        from array import array

        cdef Function* rows = <Function*>PyMem_RawMalloc((<size_t>self.count + 1) * sizeof(Function))
        cdef Function* spare = <Function*>PyMem_RawMalloc((<size_t>self.count + 1) * sizeof(Function))
        cdef uint32_t number, count = 0, i, used = 0
        cdef Fields f
        cdef uint64_t[::1] addresses
        cdef uint32_t[::1] numbers
        cdef bint relocatable = self.base_count != 0
        if rows == NULL or spare == NULL:
            PyMem_RawFree(rows)
            PyMem_RawFree(spare)
            raise MemoryError
        with nogil:
            for number in range(self.count):
                self.read(number, &f)
                if f.section >= <uint64_t>code.shape[0] or not code[f.section]:
                    continue
                if f.type == STT_SECTION or f.type == STT_FILE or not self.is_kept(f.name):
                    continue
                rows[count].address = f.address
                rows[count].symbol = number
                rows[count].rank = (UNDERSCORES + 1 if f.binding == STB_WEAK else 0) + self.underscores(f.name)
                count += 1
            sort_by_address(&rows, &spare, count)
            for i in range(count):
                if used and rows[used - 1].address == rows[i].address:
                    # of several at one address the kernel takes the first of its table (scripts/kallsyms.c,
                    # compare_symbols); of a module's, the first of the file's, which is the one that is there already
                    if not relocatable and rows[i].rank < rows[used - 1].rank:
                        rows[used - 1] = rows[i]
                    continue
                rows[used] = rows[i]
                used += 1
        found = array("Q", bytes(8 * used)), array("I", bytes(4 * used))
        if used:
            addresses, numbers = found
            for i in range(used):
                addresses[i] = rows[i].address
                numbers[i] = rows[i].symbol
        PyMem_RawFree(rows)
        PyMem_RawFree(spare)
        return found

    cdef bint is_kept(self, uint32_t name) noexcept nogil:
        """Whether scripts/mksysmap keeps a name: mapping symbols and local labels are not in kallsyms."""
        cdef const uint8_t* text
        if name + <uint64_t>1 >= <uint64_t>self.strings.shape[0]:
            return False
        text = &self.strings[name]
        return text[0] != 0 and text[0] != c'$' and not (text[0] == c'.' and text[1] == c'L')

    cdef uint32_t underscores(self, uint32_t name) noexcept nogil:
        """How many underscores a name begins with."""
        cdef uint32_t count = 0
        while count < UNDERSCORES and self.strings[name + count] == c'_':
            count += 1
        return count

    def with_prefix(self, bytes prefix not None):
        """Return the numbers of all symbols whose names start with ``prefix``."""
        cdef const char* wanted = prefix
        cdef uint64_t length = len(prefix)
        cdef uint64_t size = self.strings.shape[0]
        cdef uint32_t number
        cdef Fields f
        found = []
        for number in range(1, self.count):
            self.read(number, &f)
            if f.name < size and size - f.name > length and \
                    memcmp(&self.strings[0] + f.name, wanted, length) == 0:
                found.append(number)
        return found

    cdef uint64_t length_of(self, uint32_t name) noexcept nogil:
        """Length of a name within the table as far as it is hashed."""
        cdef uint64_t size = <uint64_t>self.strings.shape[0] - name
        cdef const uint8_t* end
        if size > HASHED:
            size = HASHED
        end = <const uint8_t*>memchr(&self.strings[0] + name, 0, size)
        return size if end == NULL else end - (&self.strings[0] + name)

    cdef int hash_names(self) except -1:
        cdef uint32_t buckets = 64
        cdef uint32_t number
        cdef uint32_t slot
        cdef uint32_t* table
        cdef uint32_t* chain
        cdef Fields f
        cdef const uint8_t* text
        while buckets < 2 * <uint64_t>self.count:
            buckets *= 2
        table = <uint32_t*>PyMem_RawCalloc(buckets, sizeof(uint32_t))
        chain = <uint32_t*>PyMem_RawCalloc(<size_t>self.count + 1, sizeof(uint32_t))
        if table == NULL or chain == NULL:
            PyMem_RawFree(table)
            PyMem_RawFree(chain)
            raise MemoryError
        self.bucket_mask = buckets - 1
        with nogil:
            for number in range(1, self.count):
                self.read(number, &f)
                if f.name == 0 or f.name >= <uint64_t>self.strings.shape[0]:
                    continue
                text = &self.strings[0] + f.name
                slot = hash_text(text, self.length_of(f.name)) & self.bucket_mask
                chain[number] = table[slot]
                table[slot] = number
        self.buckets = table
        self.chain = chain
        return 0

    def named(self, bytes name not None):
        """Return the numbers of all symbols called ``name``, ascending."""
        cdef const uint8_t* wanted = name
        cdef uint64_t length = len(name)
        cdef uint64_t size = self.strings.shape[0]
        cdef uint32_t slot
        cdef uint32_t number
        cdef Fields f
        if not length:
            return []
        found = []
        if self.buckets == NULL:
            if self.searches < FEW_SEARCHES:
                self.searches += 1
                for number in range(1, self.count):
                    self.read(number, &f)
                    if f.name and f.name < size and size - f.name > length and \
                            memcmp(&self.strings[0] + f.name, wanted, length) == 0 and \
                            self.strings[f.name + length] == 0:
                        found.append(number)
                return found
            self.hash_names()
        slot = hash_text(wanted, min(length, <uint64_t>HASHED)) & self.bucket_mask
        number = self.buckets[slot]
        while number:
            self.read(number, &f)
            if size - f.name > length and self.strings[f.name + length] == 0 and \
                    memcmp(&self.strings[0] + f.name, wanted, length) == 0:
                found.append(number)
            number = self.chain[number]
        found.reverse()
        return found


cdef inline uint32_t hash_text(const uint8_t* text, uint64_t length) noexcept nogil:
    cdef uint64_t value = 0xcbf29ce484222325ULL
    cdef uint64_t i
    for i in range(length):
        value = (value ^ text[i]) * 0x100000001b3ULL
    return <uint32_t>(value ^ (value >> 32))


cdef extern from "Python.h":
    void* PyMem_RawRealloc(void*, size_t) nogil


cdef void* shrink(void* memory, size_t size) noexcept:
    cdef void* smaller = PyMem_RawRealloc(memory, size)
    return memory if smaller == NULL else smaller


cdef void sort_by_address(Function** items, Function** spare, uint32_t count) noexcept nogil:
    """Stable radix sort, 11 bits a pass; passes that would move nothing are left out."""
    cdef uint32_t counts[2048]
    cdef uint32_t i
    cdef uint32_t total
    cdef uint32_t next_total
    cdef uint32_t digit
    cdef unsigned shift = 0
    cdef uint64_t differing = 0
    cdef Function* swapped
    if count < 2:
        return
    for i in range(1, count):
        differing |= items[0][i].address ^ items[0][0].address
    while shift < 64:
        if (differing >> shift) & 2047:
            memset(counts, 0, sizeof(counts))
            for i in range(count):
                counts[(items[0][i].address >> shift) & 2047] += 1
            total = 0
            for digit in range(2048):
                next_total = total + counts[digit]
                counts[digit] = total
                total = next_total
            for i in range(count):
                digit = (items[0][i].address >> shift) & 2047
                spare[0][counts[digit]] = items[0][i]
                counts[digit] += 1
            swapped = items[0]
            items[0] = spare[0]
            spare[0] = swapped
        shift += 11
