# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Which functions get a FUNC, by symbols and prototypes, and the FUNCs of functions that are inlined."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_u16, read_u32, read_u64, read_u8
from inlinetrace.elf._search cimport count_items
from inlinetrace.generate._collect cimport (
    F_ASSEMBLER, F_CODE, F_EXTERNAL, F_NAMELESS, F_REORDERED, F_UNEXPECTED, Collector, KeptFunction, UnitSlice,
)
from inlinetrace.generate._emit cimport (
    AMBIGUOUS, ERR_MEMORY, ERR_NAME, F_INCONSISTENT, HAS_SUFFIXED, HAS_SYMBOL, NONE, Emitter, Symbol,
)
from inlinetrace.generate._graph cimport Held, Private, Selected, UnitPlace, reference_count
from inlinetrace.generate._store cimport (
    B_ARRAY, B_CONST, B_ENUM, B_ENUM64, B_FLOAT, B_FUNC, B_FUNC_PROTO, B_FWD, B_INT, B_STRUCT, B_TYPEDEF, B_UNION,
    HEAD_FLAG, names_find,
)


cdef bint contains(const uint8_t* text, uint64_t length, const char* part, uint64_t size) noexcept nogil:
    cdef uint64_t i
    for i in range(length):
        if i + size <= length and memcmp(text + i, part, size) == 0:
            return True
    return False


cdef bint is_part(const uint8_t* suffix, uint64_t length) noexcept nogil:
    """A symbol with this suffix is a piece of a function (.cold, .part.0), not a variant of it."""
    return contains(suffix, length, b".cold", 5) or contains(suffix, length, b".part", 5)


cdef bint is_identifier(const uint8_t* text, uint32_t length) noexcept nogil:
    """A name that the kernel accepts for functions and variables (btf_name_valid_identifier, with dots)."""
    cdef uint32_t i
    cdef uint8_t c
    if length == 0 or length >= 512:
        return False
    for i in range(length):
        c = text[i]
        if not (c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c == c'_' or c == c'.' or (i and c'0' <= c <= c'9')):
            return False
    return True


cdef int names_of_functions(Emitter emitter, Collector c, uint32_t number) noexcept nogil:
    cdef uint64_t i
    cdef uint32_t* list_ = <uint32_t*>calloc(c.kept_function_count + 1, 4)
    cdef uint32_t* tags = <uint32_t*>calloc(c.kept_tag_count + 1, 4)
    cdef uint32_t* heads
    emitter.tag_names[number] = tags
    if tags == NULL:
        free(list_)
        return ERR_MEMORY
    for i in range(c.kept_tag_count):
        tags[i] = emitter.graph.name_of(c, c.kept_tags[i].name)
        if tags[i] == NONE:
            free(list_)
            return ERR_NAME
    if c.kept_tag_count:
        # those of one function or variable stand together
        heads = <uint32_t*>calloc(c.kept_function_count + c.kept_variable_count + 1, 4)
        emitter.tag_heads[number] = heads
        if heads == NULL:
            free(list_)
            return ERR_MEMORY
        for i in range(c.kept_tag_count, 0, -1):
            if c.kept_tags[i - 1].function:
                heads[c.kept_tags[i - 1].function - 1] = <uint32_t>i
            else:
                heads[c.kept_function_count + c.kept_tags[i - 1].variable - 1] = <uint32_t>i
    if list_ == NULL:
        return ERR_MEMORY
    emitter.function_names[number] = list_
    for i in range(c.kept_function_count):
        list_[i] = emitter.graph.name_of(c, c.kept_functions[i].name)
        if list_[i] == NONE:
            return ERR_NAME
    return 0


cdef uint32_t prototype_of(Emitter emitter, UnitPlace* place, uint64_t k) noexcept nogil:
    """Cell of the prototype of function ``k`` of a collector, in the view of its unit."""
    cdef Private* own
    cdef uint32_t cell, node
    cdef Held* held = &emitter.graph.held[place.collector]
    if place.private:
        own = &emitter.graph.privates[place.private - 1]
        cell = 0
        if k - held.slices[place.slice].first_function < own.function_count:
            cell = own.prototypes[k - held.slices[place.slice].first_function]
        if cell:
            return emitter.graph.final[cell]
    node = emitter.graph.maps[place.collector][held.functions[k].prototype]
    if emitter.graph.final != NULL:
        return emitter.graph.final[node]
    return node


cdef void note_symbol(Emitter emitter, uint32_t name, uint64_t address, uint8_t how) noexcept nogil:
    if emitter.symbols[name] == 0:
        emitter.symbol_addresses[name] = address
    elif emitter.symbol_addresses[name] != address:
        emitter.symbols[name] |= AMBIGUOUS
    emitter.symbols[name] |= how


cdef int read_symbols(Emitter emitter, const uint8_t* table, uint64_t size, const uint8_t* strings,
                      uint64_t string_size, bint wide, bint swap) noexcept nogil:
    """Note which names have a function symbol, and where the data symbols are."""
    cdef Cursor c = make_cursor(table, 0, size, swap)
    cdef uint32_t name, number, section
    cdef uint8_t info, other
    cdef uint64_t value
    cdef const uint8_t* nul
    cdef const uint8_t* dot
    cdef uint64_t length
    while c.end - c.pos >= (24 if wide else 16):
        name = read_u32(&c)
        if wide:
            info = read_u8(&c)
            other = read_u8(&c)
            section = read_u16(&c)
            value = read_u64(&c)
            read_u64(&c)
        else:
            value = read_u32(&c)
            read_u32(&c)
            info = read_u8(&c)
            other = read_u8(&c)
            section = read_u16(&c)
        if section == 0 or name >= string_size or (info & 15 != 2 and info & 15 != 1 and info & 15 != 10):
            continue
        nul = <const uint8_t*>memchr(strings + name, 0, min(string_size - name, 4096ULL))
        if nul == NULL:
            continue
        if section < emitter.section_count:
            value += emitter.section_bases[section]
        length = nul - (strings + name)
        number = names_find(&emitter.graph.names, strings + name, <uint32_t>length)
        dot = <const uint8_t*>memchr(strings + name, c'.', length)
        if info & 15 == 1:
            if number == 0 and dot != NULL:
                number = names_find(&emitter.graph.names, strings + name, <uint32_t>(dot - (strings + name)))
            if number == 0:
                continue
            if grow(<void**>&emitter.data_symbols, &emitter.data_symbol_capacity, emitter.data_symbol_count + 1,
                    sizeof(Symbol)):
                return ERR_MEMORY
            emitter.data_symbols[emitter.data_symbol_count].address = value
            emitter.data_symbols[emitter.data_symbol_count].name = number
            emitter.data_symbols[emitter.data_symbol_count].section = section
            emitter.data_symbol_count += 1
            continue
        if number and number < emitter.symbol_names:
            note_symbol(emitter, number, value, HAS_SYMBOL)
        if dot != NULL and not is_part(dot, length - (dot - (strings + name))):
            number = names_find(&emitter.graph.names, strings + name, <uint32_t>(dot - (strings + name)))
            if number and number < emitter.symbol_names:
                note_symbol(emitter, number, value, HAS_SUFFIXED)
    return 0


cdef bint same_for_callers(Emitter emitter, uint32_t one, uint32_t other, int depth) noexcept nogil:
    """Two types are the same for a caller: names of structs and typedefs decide, const does not matter."""
    cdef const uint32_t* a
    cdef const uint32_t* b
    cdef uint32_t ka, kb, i
    while True:
        if one == other:
            return True
        if one == 0 or other == 0 or depth > 8:
            return False
        a = emitter.graph.store.words + emitter.graph.store.start[emitter.graph.node_of(one)]
        b = emitter.graph.store.words + emitter.graph.store.start[emitter.graph.node_of(other)]
        ka = a[0] & 63
        kb = b[0] & 63
        if ka == B_FWD:
            ka = B_UNION if a[0] & HEAD_FLAG else B_STRUCT
        if kb == B_FWD:
            kb = B_UNION if b[0] & HEAD_FLAG else B_STRUCT
        if ka != kb:
            if ka == B_CONST:
                one = emitter._target(one, 0)
                continue
            if kb == B_CONST:
                other = emitter._target(other, 0)
                continue
            return False
        if ka == B_INT:
            return a[1] == b[1] and a[2] == b[2] and a[3] == b[3]
        if ka == B_FLOAT:
            return a[1] == b[1] and a[2] == b[2]
        if ka == B_STRUCT or ka == B_UNION or ka == B_ENUM or ka == B_ENUM64 or ka == B_TYPEDEF:
            return a[1] == b[1]
        if ka == B_FUNC_PROTO:
            if a[0] != b[0]:
                return False
            for i in range(reference_count(a[0])):
                if not same_for_callers(emitter, emitter._target(one, i), emitter._target(other, i), depth + 1):
                    return False
            return True
        if ka == B_ARRAY and a[3] != b[3]:
            return False
        one = emitter._target(one, 0)
        other = emitter._target(other, 0)


cdef int take_candidate(Emitter emitter, uint64_t place_number, uint64_t k) noexcept nogil:
    """Take a function as that of its name, or hold it against the one that is."""
    cdef UnitPlace* place = &emitter.graph.places[place_number]
    cdef uint32_t name = emitter.function_names[place.collector][k]
    cdef uint32_t cell = prototype_of(emitter, place, k)
    cdef uint32_t flags = emitter.graph.held[place.collector].functions[k].flags
    cdef Selected* s
    if emitter.function_prototypes[name]:
        s = &emitter.selected[emitter.function_ids[name]]
        if flags & F_ASSEMBLER:
            return 0
        s.linkage |= flags & (F_REORDERED | F_UNEXPECTED)
        if s.prototype != cell and not same_for_callers(emitter, s.prototype, cell, 0):
            s.linkage |= F_INCONSISTENT
        return 0
    if grow(<void**>&emitter.selected, &emitter.selected_capacity, emitter.selected_count + 1, sizeof(Selected)):
        return ERR_MEMORY
    s = &emitter.selected[emitter.selected_count]
    s.name = name
    s.prototype = cell
    s.collector = place.collector
    s.index = <uint32_t>k
    s.place = <uint32_t>place_number
    s.linkage = flags & (F_REORDERED | F_UNEXPECTED)
    # until the FUNCs are written, the place among the selected
    emitter.function_ids[name] = <uint32_t>emitter.selected_count
    emitter.function_prototypes[name] = cell + 1
    emitter.selected_count += 1
    return 0


cdef int select_functions(Emitter emitter, bint optimized, bint consistent) noexcept nogil:
    """Choose the functions that may get a FUNC, one for each name, and note what speaks against them.

    First those with code. A name that has a symbol and no code is a function that was folded into an equal one.
    Last come functions of assembler units, which say nothing of parameters.
    """
    cdef uint64_t i, k, last, with_code = 0
    cdef UnitPlace* place
    cdef Held* held
    cdef KeptFunction* f
    cdef uint32_t name
    cdef int turn, belongs
    for turn in range(3):
        if turn == 1:
            with_code = emitter.selected_count
        for i in range(emitter.graph.place_count):
            place = &emitter.graph.places[i]
            held = &emitter.graph.held[place.collector]
            last = held.slices[place.slice].first_function + held.slices[place.slice].function_count
            for k in range(held.slices[place.slice].first_function, last):
                f = &held.functions[k]
                belongs = 2 if f.flags & F_ASSEMBLER else 0 if f.flags & F_CODE else 1
                if f.flags & F_NAMELESS or belongs != turn:
                    continue
                name = emitter.function_names[place.collector][k]
                if emitter.symbols != NULL:
                    if not emitter.symbols[name] & HAS_SYMBOL:
                        if turn == 1 or not (optimized and emitter.symbols[name] & HAS_SUFFIXED):
                            continue
                elif turn == 1 or not f.flags & F_EXTERNAL:
                    continue
                if turn == 1 and emitter.function_prototypes[name] and emitter.function_ids[name] < with_code:
                    continue
                if take_candidate(emitter, i, k):
                    return ERR_MEMORY
    return 0


cdef int function_tags(Emitter emitter, Selected* s) noexcept nogil:
    """The DECL_TAGs of a function and its parameters."""
    cdef Held* held = &emitter.graph.held[s.collector]
    cdef uint64_t i
    if held.tag_count == 0 or emitter.tag_heads[s.collector][s.index] == 0:
        return 0
    for i in range(emitter.tag_heads[s.collector][s.index] - 1, held.tag_count):
        if held.tags[i].function != s.index + 1:
            break
        if emitter._decl_tag(emitter.tag_names[s.collector][i], emitter.function_ids[s.name],
                          <uint32_t>held.tags[i].component):
            return ERR_MEMORY
    return 0


cdef int write_function(Emitter emitter, Selected* s) noexcept nogil:
    cdef uint32_t prototype, known = base_function(emitter, s.name, s.prototype)
    if known:
        emitter.function_ids[s.name] = known
        return 0
    prototype = prototype_id(emitter, s.prototype)
    if prototype == 0 or emitter._record(s.name, B_FUNC << 24, prototype):
        return ERR_MEMORY
    emitter.function_ids[s.name] = emitter.next_id
    emitter.next_id += 1
    return function_tags(emitter, s)


cdef int chain_base_functions(Emitter emitter) noexcept nogil:
    """Chain the functions of the base by name."""
    cdef uint64_t i, count = emitter.graph.base_functions.n // 3
    cdef uint32_t name
    if count == 0:
        return 0
    emitter.base_heads = <uint32_t*>calloc(emitter.graph.names.count, 4)
    emitter.base_next = <uint32_t*>calloc(count + 1, 4)
    if emitter.base_heads == NULL or emitter.base_next == NULL:
        return ERR_MEMORY
    for i in range(count):
        name = emitter.graph.base_functions.v[3 * i]
        emitter.base_next[i] = emitter.base_heads[name]
        emitter.base_heads[name] = <uint32_t>i + 1
    return 0


cdef uint32_t base_function(Emitter emitter, uint32_t name, uint32_t cell) noexcept nogil:
    """Id of the base's FUNC of this name and prototype, 0 if it has none."""
    cdef uint32_t i, other, found = 0
    if emitter.base_heads == NULL or emitter.ids[cell] == 0 or emitter.ids[cell] >= emitter.graph.base_end:
        return 0
    i = emitter.base_heads[name]
    while i:
        other = emitter.graph.base_functions.v[3 * (i - 1) + 1]
        if other < emitter.graph.base_end:
            other = emitter.graph.base_cell_of[other] if emitter.graph.base_cell_of[other] else emitter.graph.base_node_of[other]
            if other and emitter.graph.final != NULL:
                other = emitter.graph.final[other]
            if other and emitter.ids[other] == emitter.ids[cell]:
                found = emitter.graph.base_functions.v[3 * (i - 1) + 2]
        i = emitter.base_next[i - 1]
    return found


cdef uint32_t prototype_id(Emitter emitter, uint32_t cell) noexcept nogil:
    """Id of a prototype, written if it has none yet; 0 without memory."""
    if emitter.ids[cell] == 0:
        if emitter._write(cell):
            return 0
        emitter.ids[cell] = emitter.next_id
        emitter.next_id += 1
    return emitter.ids[cell]


cdef KeptFunction* kept_function(Emitter emitter, uint64_t key, UnitPlace** where, uint64_t* index) noexcept nogil:
    """The function whose entry is ``key``, NULL if it was not kept. ``where`` is the place to look at first, or NULL."""
    cdef uint64_t begun, first
    cdef Held* held
    cdef UnitSlice* slice_
    cdef UnitPlace* place = where[0]
    cdef UnitPlace* end = emitter.graph.places + emitter.graph.place_count
    if place == NULL or key < place.first_key or (place + 1 != end and (place + 1).first_key <= key):
        begun = count_items(&emitter.graph.places[0].first_key, sizeof(UnitPlace), emitter.graph.place_count, key)
        if not begun:
            return NULL
        place = &emitter.graph.places[begun - 1]
    where[0] = place
    held = &emitter.graph.held[place.collector]
    slice_ = &held.slices[place.slice]
    first = slice_.first_function
    begun = count_items(&held.functions[first].key, sizeof(KeptFunction), slice_.function_count, key)
    if not begun or held.functions[first + begun - 1].key != key:
        return NULL
    index[0] = first + begun - 1
    return &held.functions[index[0]]


cdef int write_inlined(Emitter emitter, const uint64_t* origins, uint64_t count, uint32_t* out, uint32_t* map_keys,
                       uint32_t* map_values, uint64_t mask) noexcept nogil:
    cdef uint64_t i, k, h
    cdef uint32_t name, cell, prototype
    cdef UnitPlace* place = NULL
    cdef KeptFunction* f
    for i in range(count):
        out[i] = 0
        k = 0
        f = kept_function(emitter, origins[i], &place, &k)
        if f == NULL:
            continue
        name = emitter.function_names[place.collector][k]
        cell = prototype_of(emitter, place, k)
        if emitter.function_prototypes[name] == cell + 1 and emitter.function_ids[name]:
            out[i] = emitter.function_ids[name]
            continue
        h = ((<uint64_t>name << 32 | cell) * 0x9e3779b97f4a7c15ULL >> 24) & mask
        while map_values[h] and (map_keys[2 * h] != name or map_keys[2 * h + 1] != cell):
            h = (h + 1) & mask
        if map_values[h] == 0:
            map_values[h] = base_function(emitter, name, cell)
            map_keys[2 * h] = name
            map_keys[2 * h + 1] = cell
        if map_values[h] == 0:
            prototype = prototype_id(emitter, cell)
            if prototype == 0 or emitter._record(name, B_FUNC << 24, prototype):
                return ERR_MEMORY
            map_values[h] = emitter.next_id
            emitter.next_id += 1
        out[i] = map_values[h]
    return 0
