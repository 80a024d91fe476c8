# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Which variables get a VAR."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcmp

from inlinetrace._arrays cimport grow
from inlinetrace.generate._collect cimport F_EXTERNAL, Collector, KeptVariable
from inlinetrace.generate._emit cimport ERR_MEMORY, ERR_NAME, NONE, Chosen, Emitter, Symbol
from inlinetrace.generate._functions cimport is_identifier
from inlinetrace.generate._graph cimport Held, Private, UnitPlace
from inlinetrace.generate._store cimport TAG, TAG_NAME, TAG_UNION, Names


cdef bint begins(const uint8_t* text, uint32_t length, const char* start, uint32_t size) noexcept nogil:
    return length >= size and memcmp(text, start, size) == 0


cdef bint is_noise(const uint8_t* text, uint32_t length) noexcept nogil:
    """Variables that macros make and nobody looks for."""
    return (begins(text, length, b"__UNIQUE_ID", 11) or begins(text, length, b"__tpstrtab_", 11)
            or begins(text, length, b"__exitcall_", 11)
            or begins(text, length, b"__func_stack_frame_non_standard_", 32))


cdef int by_address(const void* a, const void* b) noexcept nogil:
    cdef const Symbol* x = <const Symbol*>a
    cdef const Symbol* y = <const Symbol*>b
    if x.address != y.address:
        return 1 if x.address > y.address else -1
    return 0


cdef int by_section(const void* a, const void* b) noexcept nogil:
    cdef const Chosen* x = <const Chosen*>a
    cdef const Chosen* y = <const Chosen*>b
    if x.section != y.section:
        return 1 if x.section > y.section else -1
    if x.address != y.address:
        return 1 if x.address > y.address else -1
    return 1 if x.order > y.order else -1


cdef int names_of_variables(Emitter emitter, Collector c, uint32_t number) noexcept nogil:
    """Names of all variables, and of the structs that they are, as names of the graph."""
    cdef uint64_t i
    cdef uint32_t* names = <uint32_t*>calloc(c.kept_variable_count + 1, 4)
    cdef uint32_t* tags = <uint32_t*>calloc(c.kept_variable_count + 1, 4)
    emitter.variable_names[number] = names
    emitter.variable_tags[number] = tags
    if names == NULL or tags == NULL:
        return ERR_MEMORY
    for i in range(c.kept_variable_count):
        names[i] = emitter.graph.name_of(c, c.kept_variables[i].name)
        if c.kept_variables[i].node & <uint32_t>TAG:
            tags[i] = emitter.graph.name_of(c, c.kept_variables[i].node & TAG_NAME)
        if names[i] == NONE or tags[i] == NONE:
            return ERR_NAME
    return 0


cdef bint has_data_symbol(Emitter emitter, uint64_t address, uint32_t name) noexcept nogil:
    """The symbol table has a variable of this name at this address; the symbols are sorted by address."""
    cdef uint64_t low = 0, high = emitter.data_symbol_count, middle
    while low < high:
        middle = (low + high) >> 1
        if emitter.data_symbols[middle].address < address:
            low = middle + 1
        else:
            high = middle
    while low < emitter.data_symbol_count and emitter.data_symbols[low].address == address:
        if emitter.data_symbols[low].name == name:
            return True
        low += 1
    return False


cdef int choose_variables(Emitter emitter, const uint64_t* sections, uint64_t count) noexcept nogil:
    """Choose the variables in ``sections``: rows of address and size."""
    cdef uint64_t i, k, n, last
    cdef UnitPlace* place
    cdef Held* held
    cdef KeptVariable* v
    cdef Chosen* chosen
    cdef Private* own
    cdef uint32_t name, type_
    for i in range(emitter.graph.place_count):
        place = &emitter.graph.places[i]
        held = &emitter.graph.held[place.collector]
        last = held.slices[place.slice].first_variable + held.slices[place.slice].variable_count
        for k in range(held.slices[place.slice].first_variable, last):
            v = &held.variables[k]
            if v.node == 0 or v.size == 0 or v.size > 0xffffffffU:
                continue
            for n in range(count):
                if v.address >= sections[2 * n] and v.address - sections[2 * n] < sections[2 * n + 1]:
                    break
            else:
                continue
            name = emitter.variable_names[place.collector][k]
            if emitter.symbols != NULL and not has_data_symbol(emitter, v.address, name):
                continue
            if is_noise(emitter.graph.names.at[name], emitter.graph.names.length[name]):
                continue
            if not is_identifier(emitter.graph.names.at[name], emitter.graph.names.length[name]):
                continue
            type_ = v.node
            if type_ & <uint32_t>TAG:
                type_ = (type_ & (<uint32_t>TAG | <uint32_t>TAG_UNION)) | emitter.variable_tags[place.collector][k]
            else:
                type_ = emitter.graph.maps[place.collector][type_]
            if place.private:
                own = &emitter.graph.privates[place.private - 1]
                if k - held.slices[place.slice].first_variable < own.variable_count:
                    if own.types[k - held.slices[place.slice].first_variable]:
                        type_ = own.types[k - held.slices[place.slice].first_variable]
            if grow(<void**>&emitter.chosen, &emitter.chosen_capacity, emitter.chosen_count + 1, sizeof(Chosen)):
                return ERR_MEMORY
            chosen = &emitter.chosen[emitter.chosen_count]
            chosen.address = v.address
            chosen.size = v.size
            chosen.order = emitter.chosen_count
            chosen.name = name
            chosen.type = type_
            chosen.linkage = 1 if v.flags & F_EXTERNAL else 0
            chosen.section = <uint32_t>n
            chosen.collector = place.collector
            chosen.index = <uint32_t>k
            emitter.chosen_count += 1
    return 0
