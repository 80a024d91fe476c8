# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""The walk over the entries of a unit: what each of them is, and the records, items and annotations that it becomes."""
from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_uleb, skip
from inlinetrace.dwarf._forms cimport (
    ERR_ABBREV, Abbreviation, UnitHeader, find_abbreviation, load_abbreviations, skip_form,
)
from inlinetrace.generate._collect cimport (
    ERR_FOREIGN, ERR_MANY, ERR_MEMORY, ERR_NO_TYPE, ERR_SIBLING, ERR_TOO_LARGE, F_ABSTRACT, F_ASSEMBLER,
    F_BITS_UNPLACED, F_CODE, F_DECLARATION, F_EXTERNAL, F_ODD, F_SIGNED, F_VARIADIC, KEY_SHIFT, OWN_FUNCTION,
    OWN_INDEX, OWN_ITEM, OWN_NONE, OWN_RECORD, OWN_SHIFT, OWN_UNIT, OWN_VARIABLE, R_PASS, R_VOID, UNRESOLVED,
    Annotation, Collector, Function, Item, Note, NoteUse, Record, Variable,
)
from inlinetrace.generate._entries cimport decode
from inlinetrace.generate._shapes cimport (
    SLOTS, S_A, S_ANNOTATION, S_B, S_C, S_D, S_E, S_F, S_NAME, S_TYPE, W_ANNOTATION, W_ARRAY, W_BASE, W_ENUM,
    W_ENUMERATOR, W_FUNCTION, W_MEMBER, W_NOTE, W_OTHER, W_PARAMETER, W_RANGE, W_REFERENCE, W_SKIP, W_STRUCT,
    W_SUBROUTINE, W_VARIABLE, W_VARIADIC, W_VOID, Op, Shape, compile_shapes,
)
from inlinetrace.generate._store cimport (
    B_ARRAY, B_ENUM, B_FUNC_PROTO, B_INT, B_PTR, B_STRUCT, B_TYPEDEF, B_UNION, TAG, TAG_UNION, push,
    room,
)


cdef int scan_unit(Collector reader) noexcept nogil:
    """Turn the entries of the unit into records, items, functions, variables and annotations."""
    cdef int error = begin_unit(reader)
    return error if error else walk(reader, reader.unit.first_die)


cdef int read_functions(Collector reader, const uint64_t* offsets, uint64_t count) noexcept nogil:
    """Read the entries at ``offsets`` and what they refer to, until nothing is missing."""
    cdef uint64_t i, offset
    cdef int64_t index
    cdef int error
    reader.pending.n = 0
    for i in range(count):
        if i and offsets[i] == offsets[i - 1]:
            continue
        if offsets[i] < reader.unit.first_die:
            continue
        error = walk(reader, offsets[i])
        if error:
            return error
    while reader.pending.n:
        reader.pending.n -= 1
        offset = reader.pending.v[reader.pending.n]
        if offset >= reader.unit.end - reader.unit.offset or reader.unit.offset + offset < reader.unit.first_die:
            continue                      # resolving will find that there is no type
        index = reader.map[offset]
        if <uint64_t>index < reader.record_count and reader.records[index].key == reader.unit_key + offset:
            continue
        if <uint64_t>index < reader.function_count and reader.functions[index].key == reader.unit_key + offset:
            continue
        if <uint64_t>index < reader.note_count and reader.notes[index].key == reader.unit_key + offset:
            continue
        error = walk(reader, reader.unit.offset + offset)
        if error:
            return error
    return 0


cdef int begin_unit(Collector reader) noexcept nogil:
    """Load the abbreviations of the unit and forget the records of the one before."""
    cdef UnitHeader* unit = reader.unit
    cdef uint64_t at = 0
    cdef int error
    reader.error_in_abbrev = False
    error = load_abbreviations(&reader.table, reader.abbrev_data, reader.abbrev_size,
                               unit.abbrev_offset, 0, unit, &at)
    if error:
        reader.error_in_abbrev = True
        reader.error_at = at
        return error
    if compile_shapes(&reader.shapes, &reader.table, unit, reader.info.swap):
        return ERR_MEMORY
    if reader.shapes.foreign and not reader.joint:
        return ERR_FOREIGN
    if not reader.joint:
        reader.record_count = reader.item_count = reader.function_count = 0
        reader.variable_count = reader.annotation_count = reader.note_count = reader.note_use_count = 0
        if unit.end - unit.offset > 0x7ffffff0:
            reader.error_at = reader.unit_key
            return ERR_MANY
        if unit.end - unit.offset > reader.map_capacity:
            if grow(<void**>&reader.map, &reader.map_capacity, unit.end - unit.offset, 4):
                return ERR_MEMORY
            memset(reader.map, 0, reader.map_capacity * 4)
    return 0


cdef int walk(Collector reader, uint64_t start) noexcept nogil:
    """Read the entries from ``start`` to the unit's end; if lazily, the one at ``start`` with those below it."""
    cdef Cursor* c = &reader.cursor
    cdef UnitHeader* unit = reader.unit
    cdef Abbreviation* entry
    cdef Shape* shape
    cdef Record* r
    cdef Item* item
    cdef Function* function
    cdef Variable* variable
    cdef Annotation* annotation
    cdef int64_t v[SLOTS + 1]
    cdef uint64_t code, die, at = 0, key
    cdef uint32_t owner, own, word, grand
    cdef int64_t index
    cdef int error, kind
    reader.levels.n = 0
    c[0] = make_cursor(reader.info.data, start, unit.end, reader.info.swap)
    while c.pos < c.end:
        if reader.lazily and reader.levels.n == 0 and c.pos != start:
            break
        die = c.pos
        code = read_uleb(c)
        if code == 0:
            if reader.levels.n:
                reader.levels.n -= 1
            continue
        entry = find_abbreviation(&reader.table, code)
        key = reader.unit_key + (die - unit.offset)
        if entry == NULL:
            reader.error_at = key
            return ERR_ABBREV if not c.error else c.error
        shape = &reader.shapes.shape[entry - reader.table.entries]
        reader.entries += 1
        owner = reader.levels.v[reader.levels.n - 1] if reader.levels.n else 0
        own = OWN_NONE
        kind = shape.what
        if reader.lazily and reader.levels.n == 1 and owner >> OWN_SHIFT == OWN_FUNCTION and (
                kind == W_OTHER or kind == W_SKIP or kind == W_VARIABLE):
            break                         # behind the parameters stands the body
        if kind == W_OTHER or (kind == W_VARIABLE and owner >> OWN_SHIFT != OWN_UNIT):
            if shape.simple and not shape.name_first:
                skip(c, shape.fixed)
            else:
                error = pass_over(reader, shape)
                if error:
                    reader.error_at = key
                    return error
            if shape.children:
                if reader.levels.n == 0:
                    own = <uint32_t>OWN_UNIT << OWN_SHIFT
                if push(&reader.levels, own):
                    return ERR_MEMORY
            continue
        error = decode(reader, shape, v)
        if error:
            reader.error_at = key
            return error
        if kind == W_MEMBER:
            if owner >> OWN_SHIFT == OWN_RECORD:
                r = &reader.records[owner & OWN_INDEX]
                # a member that is only declared is a static one of C++, before DWARF 5
                if (r.kind == B_STRUCT or r.kind == B_UNION) and not shape.present & (1 << S_F):
                    item = reader.new_item(&r.first, &r.last, &r.count)
                    if item == NULL:
                        return ERR_MEMORY
                    own = <uint32_t>OWN_ITEM << OWN_SHIFT | <uint32_t>(reader.item_count - 1)
                    error = member(reader, shape, v, r, item)
                    if error:
                        reader.error_at = key
                        return error
        elif kind == W_REFERENCE or kind == W_ARRAY or kind == W_SUBROUTINE:
            index = reader.new_record(key)
            if index < 0:
                return ERR_MEMORY
            word = 0
            if shape.present & 2:
                word = reader.reference_to(<uint64_t>v[S_TYPE])
                if word == UNRESOLVED:
                    reader.error_at = key
                    return ERR_NO_TYPE
            r = &reader.records[index]
            r.kind = shape.kind
            r.reference = word
            if kind == W_REFERENCE:
                r.name = <uint32_t>v[S_NAME]
                if r.kind == B_TYPEDEF and r.name == 0:
                    r.kind = R_PASS
            own = <uint32_t>OWN_RECORD << OWN_SHIFT | <uint32_t>index
        elif kind == W_PARAMETER or kind == W_VARIADIC:
            item = NULL
            if owner >> OWN_SHIFT == OWN_RECORD and reader.records[owner & OWN_INDEX].kind == B_FUNC_PROTO:
                r = &reader.records[owner & OWN_INDEX]
                if kind == W_VARIADIC:
                    r.flags |= F_VARIADIC
                else:
                    item = reader.new_item(&r.first, &r.last, &r.count)
                    if item == NULL:
                        return ERR_MEMORY
            elif owner >> OWN_SHIFT == OWN_FUNCTION:
                function = &reader.functions[owner & OWN_INDEX]
                if kind == W_VARIADIC:
                    function.flags |= F_VARIADIC
                else:
                    item = reader.new_item(&function.first, &function.last, &function.count)
                    if item == NULL or reader.set_index(key, <uint32_t>(reader.item_count - 1)):
                        return ERR_MEMORY
            if item != NULL:
                item.key = key
                item.name = <uint32_t>v[S_NAME]
                if shape.present & 4:
                    item.value = <uint64_t>v[S_A]
                if shape.present & 8:
                    item.location = <uint64_t>v[S_B]
                if shape.present & 2:
                    item.reference = reader.reference_to(<uint64_t>v[S_TYPE])
                    if item.reference == UNRESOLVED:
                        reader.error_at = key
                        return ERR_NO_TYPE
                own = <uint32_t>OWN_ITEM << OWN_SHIFT | <uint32_t>(reader.item_count - 1)
        elif kind == W_STRUCT or kind == W_ENUM:
            error = compound(reader, shape, v, key, &own)
            if error:
                reader.error_at = key
                return error
        elif kind == W_ENUMERATOR:
            if owner >> OWN_SHIFT == OWN_RECORD and reader.records[owner & OWN_INDEX].kind == B_ENUM:
                r = &reader.records[owner & OWN_INDEX]
                item = reader.new_item(&r.first, &r.last, &r.count)
                if item == NULL:
                    return ERR_MEMORY
                item.name = <uint32_t>v[S_NAME]
                item.value = <uint64_t>v[S_A]
                if v[S_A] < 0:
                    r.flags |= F_SIGNED
        elif kind == W_RANGE:
            if owner >> OWN_SHIFT == OWN_RECORD and reader.records[owner & OWN_INDEX].kind == B_ARRAY:
                r = &reader.records[owner & OWN_INDEX]
                item = reader.new_item(&r.first, &r.last, &r.count)
                if item == NULL:
                    return ERR_MEMORY
                if shape.present & 4:
                    item.value = <uint64_t>v[S_A] + 1
                elif shape.present & 8:
                    item.value = <uint64_t>v[S_B]
        elif kind == W_BASE:
            index = reader.new_record(key)
            if index < 0:
                return ERR_MEMORY
            r = &reader.records[index]
            r.kind = B_INT
            r.name = <uint32_t>v[S_NAME]
            if <uint64_t>v[S_A] > 0xffffffffU or <uint64_t>v[S_C] > 0xffff:
                reader.error_at = key
                return ERR_TOO_LARGE
            r.size = <uint32_t>v[S_A]
            if r.size == 0 and v[S_C]:
                r.size = <uint32_t>((v[S_C] + 7) // 8)
            # the encoding waits in the place of a reference; fewer bits than the bytes have (_BitInt) no structure may hold
            r.reference = <uint32_t>v[S_B] & 0xff
            if r.reference == 5 or r.reference == 6:
                r.flags |= F_SIGNED
            if (r.size & (r.size - 1) or r.size > 16 or r.size == 0) and (r.reference == 5 or r.reference == 7):
                r.flags |= F_ODD
            own = <uint32_t>OWN_RECORD << OWN_SHIFT | <uint32_t>index
        elif kind == W_FUNCTION:
            if room(<void**>&reader.functions, &reader.function_capacity, reader.function_count, sizeof(Function)):
                return ERR_MEMORY
            function = &reader.functions[reader.function_count]
            memset(function, 0, sizeof(Function))
            own = <uint32_t>OWN_FUNCTION << OWN_SHIFT | <uint32_t>reader.function_count
            if reader.set_index(key, <uint32_t>reader.function_count):
                return ERR_MEMORY
            reader.function_count += 1
            function.key = key
            function.name = <uint32_t>v[S_NAME]
            if shape.present & 4:
                function.origin = <uint64_t>v[S_A]
                if reader.lazily and push(&reader.pending, <uint32_t>(function.origin - reader.unit_key)):
                    return ERR_MEMORY
            if shape.present & 2:
                function.reference = reader.reference_to(<uint64_t>v[S_TYPE])
                if function.reference == UNRESOLVED:
                    reader.error_at = key
                    return ERR_NO_TYPE
            if unit.language == 0x8001:
                function.flags |= F_ASSEMBLER
            if v[S_B]:
                function.flags |= F_DECLARATION
            if v[S_C]:
                function.flags |= F_EXTERNAL
            if shape.present & (1 << S_D | 1 << S_E):
                function.flags |= F_CODE
                if shape.present & 32:
                    function.address = <uint64_t>v[S_D]
            if v[S_F] == 1 or v[S_F] == 3:
                function.flags |= F_ABSTRACT
        elif kind == W_VARIABLE:
            if shape.present & 4 and v[S_A] != -1 and not v[S_E]:
                if room(<void**>&reader.variables, &reader.variable_capacity, reader.variable_count, sizeof(Variable)):
                    return ERR_MEMORY
                variable = &reader.variables[reader.variable_count]
                memset(variable, 0, sizeof(Variable))
                own = <uint32_t>OWN_VARIABLE << OWN_SHIFT | <uint32_t>reader.variable_count
                reader.variable_count += 1
                variable.key = key
                variable.address = <uint64_t>v[S_A]
                variable.name = <uint32_t>v[S_NAME]
                if shape.present & 2:
                    variable.reference = reader.reference_to(<uint64_t>v[S_TYPE])
                if shape.present & 32:
                    variable.origin = <uint64_t>v[S_D]
                if v[S_C]:
                    variable.flags |= F_EXTERNAL
            elif shape.present & 3 and not v[S_E]:
                # what a definition elsewhere may refer to
                if room(<void**>&reader.variables, &reader.variable_capacity, reader.variable_count, sizeof(Variable)):
                    return ERR_MEMORY
                variable = &reader.variables[reader.variable_count]
                memset(variable, 0, sizeof(Variable))
                own = <uint32_t>OWN_VARIABLE << OWN_SHIFT | <uint32_t>reader.variable_count
                if reader.set_index(key, <uint32_t>reader.variable_count):
                    return ERR_MEMORY
                reader.variable_count += 1
                variable.key = key
                variable.name = <uint32_t>v[S_NAME]
                variable.flags = F_DECLARATION
                if shape.present & 2:
                    variable.reference = reader.reference_to(<uint64_t>v[S_TYPE])
                if v[S_C]:
                    variable.flags |= F_EXTERNAL
        elif kind == W_VOID:
            index = reader.new_record(key)
            if index < 0:
                return ERR_MEMORY
            reader.records[index].kind = R_VOID
            reader.records[index].word = 0
            reader.records[index].state = 2
        elif kind == W_ANNOTATION:
            if owner >> OWN_SHIFT >= OWN_RECORD and v[S_NAME] and v[S_A]:
                if room(<void**>&reader.annotations, &reader.annotation_capacity, reader.annotation_count,
                         sizeof(Annotation)):
                    return ERR_MEMORY
                annotation = &reader.annotations[reader.annotation_count]
                reader.annotation_count += 1
                annotation.name = <uint32_t>v[S_NAME]
                annotation.value = <uint32_t>v[S_A]
                grand = reader.levels.v[reader.levels.n - 2] if reader.levels.n > 1 else 0
                place_annotation(reader, owner, grand, &annotation.owner, &annotation.component)
        elif kind == W_NOTE:
            if note(reader, key, v, shape.annotated):
                return ERR_MEMORY
        elif kind == W_SKIP:
            at = <uint64_t>v[S_F] - reader.unit_key + unit.offset
            if at <= c.pos or at > c.end:
                reader.error_at = key
                return ERR_SIBLING
            c.pos = at
            continue
        if shape.annotated and own != OWN_NONE:
            if use_note(reader, key, <uint64_t>v[S_ANNOTATION], own, owner):
                return ERR_MEMORY
        if reader.lazily and own == OWN_NONE and reader.levels.n == 0:
            break
        if shape.children and push(&reader.levels, own):
            return ERR_MEMORY
    if c.error:
        reader.error_at = (<uint64_t>reader.info_number << KEY_SHIFT) + c.error_at
        return c.error
    return 0


cdef void place_annotation(Collector reader, uint32_t own, uint32_t owner, uint32_t* above, int32_t* component) noexcept nogil:
    """What an annotation of ``own`` is for: members and parameters are components of their ``owner``."""
    above[0] = own
    component[0] = -1
    if own >> OWN_SHIFT == OWN_ITEM:
        above[0] = owner
        if owner >> OWN_SHIFT == OWN_RECORD:
            component[0] = <int32_t>reader.records[owner & OWN_INDEX].count - 1
        elif owner >> OWN_SHIFT == OWN_FUNCTION:
            component[0] = <int32_t>reader.functions[owner & OWN_INDEX].count - 1


cdef int note(Collector reader, uint64_t key, int64_t* v, bint annotated) noexcept nogil:
    """An annotation of gcc's, which stands beside what it annotates and says what follows it."""
    cdef Note* note
    if room(<void**>&reader.notes, &reader.note_capacity, reader.note_count, sizeof(Note)):
        return ERR_MEMORY
    note = &reader.notes[reader.note_count]
    note.key = key
    note.next = <uint64_t>v[S_ANNOTATION] if annotated else 0
    note.name = <uint32_t>v[S_NAME]
    note.value = <uint32_t>v[S_A]
    if reader.set_index(key, <uint32_t>reader.note_count):
        return ERR_MEMORY
    reader.note_count += 1
    if reader.lazily and note.next and push(&reader.pending, <uint32_t>(note.next - reader.unit_key)):
        return ERR_MEMORY
    return 0


cdef int use_note(Collector reader, uint64_t key, uint64_t first, uint32_t own, uint32_t owner) noexcept nogil:
    """Remember which chain of annotations an entry has; ``finish`` follows it."""
    cdef NoteUse* use
    if reader.lazily:
        # of parameters' types only pointers show theirs
        if own >> OWN_SHIFT != OWN_RECORD or reader.records[own & OWN_INDEX].kind != B_PTR:
            return 0
        if push(&reader.pending, <uint32_t>(first - reader.unit_key)):
            return ERR_MEMORY
    if room(<void**>&reader.note_uses, &reader.note_use_capacity, reader.note_use_count, sizeof(NoteUse)):
        return ERR_MEMORY
    use = &reader.note_uses[reader.note_use_count]
    reader.note_use_count += 1
    use.key = key
    use.first = first
    place_annotation(reader, own, owner, &use.owner, &use.component)
    return 0


cdef int pass_over(Collector reader, Shape* shape) noexcept nogil:
    """Skip the attributes of an entry that is not wanted."""
    cdef Cursor* c = &reader.cursor
    cdef uint32_t i
    cdef Op* op
    for i in range(shape.op_count):
        op = &reader.shapes.ops[shape.first_op + i]
        if op.skip:
            skip(c, op.skip)
        else:
            skip_form(c, reader.unit, op.form, op.width)
    return 0


cdef int member(Collector reader, Shape* shape, int64_t* v, Record* owner, Item* item) noexcept nogil:
    """Fill the item of a member (DWARF 5 section 5.7.6, DWARF 4 section 5.5.6 for DW_AT_bit_offset)."""
    cdef int64_t bits = 0
    item.name = <uint32_t>v[S_NAME]
    if <uint64_t>v[S_A] > 0x1fffffff:
        return ERR_TOO_LARGE
    if shape.present & (1 << S_B):
        if v[S_B] < 0 or v[S_B] > 255:
            return ERR_TOO_LARGE
        item.bits = <uint32_t>v[S_B]
    if shape.present & (1 << S_C):
        bits = v[S_C] + 8 * v[S_A]
    else:
        bits = 8 * v[S_A]
        if shape.present & (1 << S_D):
            if reader.info.swap == little(reader):
                # big-endian data count from the most significant bit, as BTF does
                bits += v[S_D]
            elif shape.present & (1 << S_E):
                bits += 8 * v[S_E] - v[S_D] - v[S_B]
            else:
                # the storage is as large as the type, which may not be known yet
                bits -= v[S_D] + v[S_B]
                item.bits |= 0x100
                owner.flags |= F_BITS_UNPLACED
    if bits > 0xffffffffLL or (bits < 0 and not item.bits & 0x100):
        return ERR_TOO_LARGE
    item.value = <uint64_t>bits
    if shape.present & 2:
        # in joint mode this may move the records: owner is not valid behind it
        item.reference = reader.reference_to(<uint64_t>v[S_TYPE])
        if item.reference == UNRESOLVED:
            return ERR_NO_TYPE
    return 0


cdef inline bint little(Collector reader) noexcept nogil:
    """This machine is little-endian."""
    cdef uint16_t one = 1
    return (<uint8_t*>&one)[0] == 1


cdef int compound(Collector reader, Shape* shape, int64_t* v, uint64_t key, uint32_t* own) noexcept nogil:
    """The record of a struct, union or enum, or of its declaration."""
    cdef int64_t index = reader.new_record(key)
    cdef Record* r
    cdef uint32_t word
    if index < 0:
        return ERR_MEMORY
    own[0] = <uint32_t>OWN_RECORD << OWN_SHIFT | <uint32_t>index
    if reader.lazily and v[S_NAME] and shape.kind != B_ENUM:
        # its members are not looked at, so it is as good as a declaration
        v[S_B] = 1
        own[0] = OWN_NONE
    if shape.present & (1 << S_C):
        # the definition is in a type unit (DWARF 5 section 5.7.1)
        word = reader.reference_to(<uint64_t>v[S_C])
        if word == UNRESOLVED:
            return ERR_NO_TYPE
        reader.records[index].kind = R_PASS
        reader.records[index].reference = word
        return 0
    r = &reader.records[index]
    r.kind = shape.kind
    r.name = <uint32_t>v[S_NAME]
    if <uint64_t>v[S_A] > 0xffffffffU:
        return ERR_TOO_LARGE
    r.size = <uint32_t>v[S_A]
    if v[S_B]:
        r.flags |= F_DECLARATION
    if r.kind == B_ENUM:
        if r.size == 0:
            r.size = 4
        if shape.present & 2:
            word = reader.reference_to(<uint64_t>v[S_TYPE])
            if word == UNRESOLVED:
                return ERR_NO_TYPE
            reader.records[index].reference = word
        return 0
    if r.name:
        r.word = <uint32_t>TAG | r.name | (<uint32_t>TAG_UNION if r.kind == B_UNION else 0)
    return 0
