# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""From the records of a unit to nodes: children first, references to named structs and unions cut at their names.

A cycle of C types goes through a named struct or union, so what is left has none, and equal types become equal nodes.
"""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.generate._annotations cimport add_declaration_tags, add_type_tags, follow_notes
from inlinetrace.generate._collect cimport (
    ERR_CYCLE, ERR_MEMORY, ERR_NO_TYPE, ERR_TOO_LARGE, F_BITS_UNPLACED, F_CODE, F_DECLARATION, F_EXTERNAL,
    F_NAMELESS, F_ODD, F_REORDERED, F_SIGNED, F_UNEXPECTED, F_VARIADIC, R_PASS, R_UNDEFINED, UNRESOLVED,
    Collector, Function, Item, KeptFunction, KeptVariable, Record, UnitSlice, Variable,
)
from inlinetrace.generate._places cimport register_at_entry
from inlinetrace.generate._store cimport (
    B_ARRAY, B_CONST, B_ENUM, B_ENUM64, B_FLOAT, B_FUNC_PROTO, B_FWD, B_INT, B_PTR, B_RESTRICT, B_STRUCT, B_TYPEDEF,
    B_TYPE_TAG, B_UNION, B_VOLATILE, HEAD_FLAG, HEAD_VLEN, MAX_VLEN, push, reserve, store_intern,
)

cdef enum:
    NEW = 0
    OPEN = 1             # waits for what it refers to
    DONE = 2
    BUILT = 0
    WAITS = 1            # what it needs is on the stack
    MAX_STEPS = 64       # typedefs and qualifiers in a row


cdef inline int _missing(Collector c, int64_t index, Record* by) noexcept nogil:
    """Put a record that is needed first on the stack; an error if it waits for the one that needs it."""
    if c.records[index].state == OPEN:
        c.error_at = by.key
        return ERR_CYCLE
    if push(&c.stack, <uint32_t>index):
        return ERR_MEMORY
    return WAITS


cdef inline int _word(Collector c, uint32_t reference, Record* by, uint32_t* word) noexcept nogil:
    """The word for a reference: BUILT, WAITS, or an error."""
    cdef int64_t index
    cdef Record* target
    word[0] = 0
    if reference == 0:
        return BUILT
    index = c.record_of(reference)
    if index < 0:
        c.error_at = by.key
        return ERR_NO_TYPE
    target = &c.records[index]
    word[0] = target.word
    if target.word == UNRESOLVED:
        return _missing(c, index, by)
    if target.flags & F_ODD and target.node:
        # such an integer is worth a place only if something refers to it
        if push(&c.nodes, target.node):
            return ERR_MEMORY
    return BUILT


cdef int _keep(Collector c, Record* r, uint32_t n) noexcept nogil:
    """Make the node of the ``n`` words in scratch."""
    cdef uint32_t node = store_intern(&c.store, c.scratch.v, n)
    if node == 0:
        return ERR_MEMORY
    r.node = node
    if r.word == UNRESOLVED:
        r.word = node
    r.state = DONE
    if not (r.flags & F_ODD and r.kind == B_INT):
        if push(&c.nodes, node):
            return ERR_MEMORY
    return BUILT


cdef int64_t _bits_of(Collector c, uint32_t reference) noexcept nogil:
    """Size in bits of the integer or enum behind typedefs and qualifiers, -1 if it has none."""
    cdef int steps
    cdef int64_t index
    cdef Record* r
    for steps in range(MAX_STEPS):
        index = c.record_of(reference)
        if index < 0:
            return -1
        r = &c.records[index]
        if r.kind == B_INT or r.kind == B_ENUM:
            return 8 * <int64_t>r.size
        if r.kind == B_TYPEDEF or r.kind == B_CONST or r.kind == B_VOLATILE or r.kind == R_PASS or r.kind == B_TYPE_TAG:
            reference = r.reference
        else:
            return -1
    return -1


cdef int _place_bits(Collector c, Record* r) noexcept nogil:
    """Give members with DW_AT_bit_offset their place, from the size of their types."""
    cdef uint32_t at = r.first, i
    cdef Item* item
    cdef int64_t bits
    for i in range(r.count):
        item = &c.items[at - 1]
        if item.bits & 0x100:
            bits = _bits_of(c, item.reference)
            if bits < 0 or <int64_t>item.value + bits < 0:
                c.error_at = r.key
                return ERR_TOO_LARGE
            item.value = <uint64_t>(<int64_t>item.value + bits)
            item.bits &= 0xff
        at = item.next
    r.flags &= <unsigned short>~F_BITS_UNPLACED
    return 0


cdef int _build_base(Collector c, Record* r) noexcept nogil:
    cdef uint32_t* w = c.scratch.v
    cdef uint32_t encoding = r.reference, size = r.size
    cdef bint is_float = encoding == 3 or encoding == 4 or encoding == 9 or encoding == 0x0f
    w[1] = r.name
    w[2] = size
    if is_float and c.floats and (size == 2 or size == 4 or size == 8 or size == 12 or size == 16):
        w[0] = B_FLOAT
        return _keep(c, r, 3)
    if size > 16 or size == 0 or size & (size - 1):
        # no kind says this; its size is what can be told
        w[0] = B_STRUCT
        w[1] = 0
        return _keep(c, r, 3)
    w[0] = B_INT
    w[3] = 8 * size
    if encoding == 5 or encoding == 6:
        w[3] |= 1 << 24
    elif encoding == 2:
        w[3] |= 4 << 24
    return _keep(c, r, 4)


cdef int _build_enum(Collector c, Record* r) noexcept nogil:
    cdef uint32_t* w
    cdef uint32_t at = r.first, i, n = 3
    cdef int64_t index
    cdef bint wide = r.size > 4 and c.enum64s, is_signed = r.flags & F_SIGNED != 0
    cdef Item* item
    cdef int steps
    cdef uint32_t reference = r.reference
    if wide:
        # the type that holds the values decides; without one, the values do
        for steps in range(MAX_STEPS):
            index = c.record_of(reference) if reference else -1
            if index < 0:
                break
            if c.records[index].kind == B_INT:
                is_signed = c.records[index].flags & F_SIGNED != 0
                break
            reference = c.records[index].reference
    w = c.scratch.v
    w[1] = r.name
    w[2] = r.size
    if r.flags & F_DECLARATION:
        w[0] = B_ENUM
        return _keep(c, r, 3)
    for i in range(r.count):
        item = &c.items[at - 1]
        w[n] = item.name
        w[n + 1] = <uint32_t>item.value
        w[n + 2] = <uint32_t>(item.value >> 32) if wide else 0
        n += 3
        at = item.next
    w[0] = (B_ENUM64 if wide else B_ENUM) | (HEAD_FLAG if is_signed and (wide or r.size <= 4) else 0) | r.count << HEAD_VLEN
    return _keep(c, r, n)


cdef int _build_members(Collector c, Record* r) noexcept nogil:
    cdef uint32_t* w = c.scratch.v
    cdef uint32_t at = r.first, i, n = 3, head = r.kind
    cdef Item* item
    cdef bint flag = False
    cdef int error, result = BUILT
    w[1] = r.name
    w[2] = r.size
    if r.flags & F_DECLARATION:
        w[0] = B_FWD | (HEAD_FLAG if r.kind == B_UNION else 0)
        w[2] = 0
        if r.name == 0:
            w[0] = B_STRUCT
        return _keep(c, r, 3)
    if r.flags & F_BITS_UNPLACED:
        error = _place_bits(c, r)
        if error:
            return error
    for i in range(r.count):
        item = &c.items[at - 1]
        w[n] = item.name
        error = _word(c, item.reference, r, &w[n + 1])
        if error < 0 or error > WAITS:
            return error
        if error == WAITS:
            result = WAITS
        w[n + 2] = <uint32_t>item.value
        if item.bits:
            flag = True
        n += 3
        at = item.next
    if result == WAITS:
        return WAITS
    if flag:
        at = r.first
        for i in range(r.count):
            item = &c.items[at - 1]
            if item.value > 0xffffff:
                c.error_at = r.key
                return ERR_TOO_LARGE
            w[3 * i + 5] |= item.bits << 24
            at = item.next
        head |= HEAD_FLAG
    w[0] = head | r.count << HEAD_VLEN
    return _keep(c, r, n)


cdef int _build_prototype(Collector c, Record* r) noexcept nogil:
    cdef uint32_t* w = c.scratch.v
    cdef uint32_t at = r.first, i, n = 3, count = r.count
    cdef Item* item
    cdef int error, result
    w[1] = 0
    result = _word(c, r.reference, r, &w[2])
    if result > WAITS or result < 0:
        return result
    for i in range(r.count):
        item = &c.items[at - 1]
        w[n] = item.name
        error = _word(c, item.reference, r, &w[n + 1])
        if error < 0 or error > WAITS:
            return error
        if error == WAITS:
            result = WAITS
        n += 2
        at = item.next
    if result == WAITS:
        return WAITS
    if r.flags & F_VARIADIC:
        w[n] = w[n + 1] = 0
        n += 2
        count += 1
    w[0] = B_FUNC_PROTO | count << HEAD_VLEN
    return _keep(c, r, n)


cdef int _build_array(Collector c, Record* r) noexcept nogil:
    cdef uint32_t* w = c.scratch.v
    cdef uint32_t at = r.first, i
    cdef uint64_t elements = 1
    cdef Item* item
    cdef int result = _word(c, r.reference, r, &w[2])
    if result:
        return result
    for i in range(r.count):
        item = &c.items[at - 1]
        if item.value > 0xffffffffU:
            c.error_at = r.key
            return ERR_TOO_LARGE
        elements *= item.value
        if elements > 0xffffffffU:
            c.error_at = r.key
            return ERR_TOO_LARGE
        at = item.next
    w[0] = B_ARRAY
    w[1] = 0
    w[3] = <uint32_t>elements
    return _keep(c, r, 4)


cdef int _build(Collector c, Record* r) noexcept nogil:
    """Make the node of a record: BUILT, WAITS, or an error."""
    cdef int result
    cdef uint32_t word
    cdef uint32_t* w
    if r.count > MAX_VLEN - 1:
        c.error_at = r.key
        return ERR_TOO_LARGE
    if reserve(&c.scratch, 8 + 3 * <uint64_t>r.count):
        return ERR_MEMORY
    w = c.scratch.v
    if r.kind == B_PTR or r.kind == B_CONST or r.kind == B_VOLATILE or r.kind == B_RESTRICT or r.kind == B_TYPEDEF or r.kind == B_TYPE_TAG:
        result = _word(c, r.reference, r, &w[2])
        if result:
            return result
        w[0] = r.kind
        w[1] = r.name if r.kind == B_TYPEDEF or r.kind == B_TYPE_TAG else 0
        return _keep(c, r, 3)
    if r.kind == B_STRUCT or r.kind == B_UNION:
        return _build_members(c, r)
    if r.kind == B_FUNC_PROTO:
        return _build_prototype(c, r)
    if r.kind == B_ARRAY:
        return _build_array(c, r)
    if r.kind == B_ENUM:
        return _build_enum(c, r)
    if r.kind == B_INT:
        return _build_base(c, r)
    if r.kind == R_PASS:
        result = _word(c, r.reference, r, &word)
        if result:
            return result
        r.word = word
        r.state = DONE
        return BUILT
    # R_VOID is done from the start; R_UNDEFINED is something that is no type
    c.error_at = r.key
    return ERR_NO_TYPE


cdef int _resolve(Collector c, uint32_t index) noexcept nogil:
    """Make the nodes of a record and of all that it needs, without recursion."""
    cdef uint64_t bottom = c.stack.n
    cdef int result
    cdef Record* r
    result = _build(c, &c.records[index])
    if result == BUILT:
        return 0
    if result != WAITS:
        return result
    c.records[index].state = OPEN
    while c.stack.n > bottom:
        r = &c.records[c.stack.v[c.stack.n - 1]]
        if r.state == DONE:
            c.stack.n -= 1
            continue
        result = _build(c, r)
        if result == BUILT:
            # what it waited for is above it on the stack and done
            continue
        if result != WAITS:
            return result
        r.state = OPEN
    result = _build(c, &c.records[index])
    return result if result != WAITS else ERR_CYCLE


cdef Function* function_at(Collector c, uint64_t key) noexcept nogil:
    cdef int64_t index = c.index_of(key)
    if index >= 0 and <uint64_t>index < c.function_count and c.functions[index].key == key:
        return &c.functions[index]
    return NULL


cdef Item* _parameter_at(Collector c, uint64_t key) noexcept nogil:
    cdef int64_t index = c.index_of(key)
    if index >= 0 and <uint64_t>index < c.item_count and c.items[index].key == key:
        return &c.items[index]
    return NULL


cdef Item* parameter_of(Collector c, Item* item) noexcept nogil:
    """The item that has a parameter's name and type: itself, or what it is an instance of."""
    cdef Item* origin = item
    cdef int steps
    for steps in range(4):
        if origin.name or origin.reference or origin.value == 0:
            return origin
        origin = _parameter_at(c, origin.value)
        if origin == NULL:
            return item
    return origin


cdef bint _is_float(Collector c, uint32_t reference) noexcept nogil:
    cdef int steps
    cdef int64_t index
    cdef Record* r
    for steps in range(MAX_STEPS):
        index = c.record_of(reference) if reference else -1
        if index < 0:
            return False
        r = &c.records[index]
        if r.kind == B_INT:
            return r.reference == 3 or r.reference == 4
        if r.kind != B_TYPEDEF and r.kind != B_CONST and r.kind != B_VOLATILE and r.kind != R_PASS:
            return False
        reference = r.reference
    return False


cdef bint _unexpected(Collector c, Function* f) noexcept nogil:
    """A parameter comes in another register than a caller puts it into.

    Functions with a parameter that takes several registers, or one of another class, say nothing.
    """
    cdef uint32_t at = f.first, k
    cdef Item* item
    cdef int found
    cdef bint result = False
    for k in range(f.count):
        item = &c.items[at - 1]
        at = item.next
        if k < <uint32_t>c.register_count and item.location:
            found = register_at_entry(c, item.location, c.registers[k])
            if found >= 0 and found != c.registers[k]:
                result = True
    if not result:
        return False
    at = f.first
    for k in range(f.count):
        item = parameter_of(c, &c.items[at - 1])
        at = c.items[at - 1].next
        if _size_of(c, item.reference) > c.unit.address_size or _is_float(c, item.reference):
            return False
    return True


cdef bint _reordered(Collector c, Function* f, Function* described) noexcept nogil:
    """The parameters of a concrete function are not the first ones of its abstract function, in order."""
    cdef uint32_t at = f.first, other = described.first, k
    for k in range(f.count):
        if k >= described.count:
            return True
        if c.items[at - 1].value and c.items[at - 1].value != c.items[other - 1].key:
            return True
        at = c.items[at - 1].next
        other = c.items[other - 1].next
    return False


cdef int _keep_functions(Collector c) noexcept nogil:
    """Keep the name and prototype of every function that has code or may be inlined."""
    cdef uint64_t i
    cdef Function* f
    cdef Function* described
    cdef Function* named
    cdef KeptFunction* kept
    cdef Item* item
    cdef Item* origin
    cdef Record by
    cdef uint32_t at, k, n, name, reference, node, word, count
    cdef uint32_t flags
    cdef int error, steps
    memset(&by, 0, sizeof(by))
    for i in range(c.function_count):
        f = &c.functions[i]
        if f.flags & F_DECLARATION:
            continue
        named = f
        described = f
        flags = f.flags
        # a concrete function tells what its abstract one does not, and the other way round
        for steps in range(4):
            if named.origin == 0:
                break
            named = function_at(c, named.origin)
            if named == NULL:
                break
            flags |= named.flags & (F_EXTERNAL | F_VARIADIC)
            if named.reference or named.count:
                described = named
        if named == NULL:
            named = f
        name = f.name if f.name else (described.name if described.name else named.name)
        if name == 0:
            continue
        if described.count > MAX_VLEN - 1:
            c.error_at = f.key
            return ERR_TOO_LARGE
        if reserve(&c.scratch, 8 + 2 * <uint64_t>described.count):
            return ERR_MEMORY
        if flags & F_CODE and c.register_count and _unexpected(c, f):
            flags |= F_UNEXPECTED
        if described != f and f.count and _reordered(c, f, described):
            flags |= F_REORDERED
        by.key = f.key
        error = _word(c, described.reference, &by, &word)
        if error:
            return error
        c.scratch.v[1] = 0
        c.scratch.v[2] = word
        n = 3
        at = described.first
        for k in range(described.count):
            item = &c.items[at - 1]
            at = item.next
            origin = parameter_of(c, item)
            error = _word(c, origin.reference, &by, &word)
            if error:
                return error
            if origin.name == 0:
                flags |= F_NAMELESS
            c.scratch.v[n] = origin.name
            c.scratch.v[n + 1] = word
            n += 2
        count = described.count
        if flags & F_VARIADIC:
            c.scratch.v[n] = c.scratch.v[n + 1] = 0
            n += 2
            count += 1
        c.scratch.v[0] = B_FUNC_PROTO | count << HEAD_VLEN
        node = store_intern(&c.store, c.scratch.v, n)
        if node == 0:
            return ERR_MEMORY
        if grow(<void**>&c.kept_functions, &c.kept_function_capacity, c.kept_function_count + 1, sizeof(KeptFunction)):
            return ERR_MEMORY
        kept = &c.kept_functions[c.kept_function_count]
        c.kept_function_count += 1
        kept.key = f.key
        kept.address = f.address
        kept.name = name
        kept.prototype = node
        kept.described = <uint32_t>(described - c.functions)
        kept.flags = flags
    return 0


cdef int64_t _size_of(Collector c, uint32_t reference) noexcept nogil:
    """Size of a type in bytes, 0 if it has none here."""
    cdef int64_t index
    cdef uint64_t count = 1
    cdef int steps
    cdef uint32_t at, k
    cdef Record* r
    for steps in range(MAX_STEPS):
        index = c.record_of(reference) if reference else -1
        if index < 0:
            return 0
        r = &c.records[index]
        if r.kind == B_PTR:
            return <int64_t>(count * c.unit.address_size)
        if r.kind == B_INT or r.kind == B_ENUM or ((r.kind == B_STRUCT or r.kind == B_UNION) and not r.flags & F_DECLARATION):
            return <int64_t>(count * r.size)
        if r.kind == B_ARRAY:
            at = r.first
            for k in range(r.count):
                count *= c.items[at - 1].value
                at = c.items[at - 1].next
                if count > 0xffffffffU:
                    return 0
        elif r.kind != B_TYPEDEF and r.kind != B_CONST and r.kind != B_VOLATILE and r.kind != B_RESTRICT and r.kind != R_PASS and r.kind != B_TYPE_TAG:
            return 0
        reference = r.reference
    return 0


cdef int _keep_variables(Collector c) noexcept nogil:
    """Keep every variable that has an address."""
    cdef uint64_t i
    cdef int64_t index
    cdef Variable* v
    cdef Variable* described
    cdef KeptVariable* kept
    cdef Record by
    cdef uint32_t word
    cdef int error
    memset(&by, 0, sizeof(by))
    for i in range(c.variable_count):
        v = &c.variables[i]
        if v.flags & F_DECLARATION:
            continue
        described = v
        if v.origin:
            index = c.index_of(v.origin)
            if index >= 0 and <uint64_t>index < c.variable_count and c.variables[index].key == v.origin:
                described = &c.variables[index]
        if described.name == 0:
            continue
        by.key = v.key
        error = _word(c, v.reference if v.reference else described.reference, &by, &word)
        if error:
            return error
        if grow(<void**>&c.kept_variables, &c.kept_variable_capacity, c.kept_variable_count + 1, sizeof(KeptVariable)):
            return ERR_MEMORY
        kept = &c.kept_variables[c.kept_variable_count]
        c.kept_variable_count += 1
        kept.key = v.key
        kept.address = v.address
        # the definition may be more complete than what it defines: int x[]; int x[4];
        kept.size = <uint64_t>_size_of(c, v.reference if v.reference else described.reference)
        kept.name = described.name
        kept.node = word
        kept.reference = v.reference if v.reference else described.reference
        kept.flags = (v.flags | described.flags) & F_EXTERNAL
    return 0


cdef int finish(Collector c) noexcept nogil:
    """Make the nodes of everything that scan_unit has read; 0 or an error."""
    cdef uint64_t i, known
    cdef int error
    cdef UnitSlice* s
    cdef uint64_t first_node = c.nodes.n, first_function = c.kept_function_count
    cdef uint64_t first_variable = c.kept_variable_count
    c.stack.n = 0
    c.store.last = 0
    known = c.record_count
    if c.note_use_count:
        error = follow_notes(c)
        if error:
            return error
    if c.annotation_count:
        error = add_type_tags(c)
        if error:
            return error
    for i in range(known):
        if c.records[i].state == NEW and c.records[i].kind != R_UNDEFINED:
            error = _resolve(c, <uint32_t>i)
            if error:
                return error
    error = _keep_functions(c)
    if error:
        return error
    error = _keep_variables(c)
    if error:
        return error
    if c.annotation_count:
        error = add_declaration_tags(c, first_function, first_variable)
        if error:
            return error
    if grow(<void**>&c.slices, &c.slice_capacity, c.slice_count + 1, sizeof(UnitSlice)):
        return ERR_MEMORY
    s = &c.slices[c.slice_count]
    c.slice_count += 1
    s.info = c.info_number
    s.unit = c.unit_number
    s.first_node = first_node
    s.node_count = c.nodes.n - first_node
    s.first_function = first_function
    s.function_count = c.kept_function_count - first_function
    s.first_variable = first_variable
    s.variable_count = c.kept_variable_count - first_variable
    return 0
