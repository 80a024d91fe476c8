# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""BTF as text and as JSON, in the words of ``bpftool btf dump``.

``render(index, ids, json)`` gives the text of some types as bytes; the caller cuts the whole into portions. Both forms come
from one description of each kind: ``field_*`` writes `` key=value`` or ``,"key":value``.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, strlen

from inlinetrace._arrays cimport grow
from inlinetrace.btf._index cimport (
    SHAPE_NEW, SHAPE_OTHER, SHAPE_RFC, Index, Layer, kind_of, layer_of, legal_flags, record_of, string_of, word_at,
)

from inlinetrace.errors import FormatError

cdef struct Output:
    char* data
    uint64_t size
    uint64_t room
    bint failed
    bint json
    bint first           # in JSON: no comma before the next element

cdef const char** KIND_NAMES = [
    "UNKNOWN", "INT", "PTR", "ARRAY", "STRUCT", "UNION", "ENUM", "FWD", "TYPEDEF", "VOLATILE", "CONST", "RESTRICT", "FUNC",
    "FUNC_PROTO", "VAR", "DATASEC", "FLOAT", "DECL_TAG", "TYPE_TAG", "ENUM64", "LOC_PARAM", "LOC_PROTO", "LOCSEC",
]
cdef const char* HEX = "0123456789abcdef"


cdef void put(Output* out, const char* text, uint64_t length) noexcept nogil:
    if grow(<void**>&out.data, &out.room, out.size + length, 1):
        out.failed = True
        return
    memcpy(out.data + out.size, text, length)
    out.size += length


cdef void puts(Output* out, const char* text) noexcept nogil:
    put(out, text, strlen(text))


cdef void put_unsigned(Output* out, uint64_t value) noexcept nogil:
    cdef char[20] digits
    cdef int at = 20
    while True:
        at -= 1
        digits[at] = 48 + <char>(value % 10)
        value //= 10
        if value == 0:
            break
    put(out, &digits[at], 20 - at)


cdef void put_signed(Output* out, int64_t value) noexcept nogil:
    if value < 0:
        put(out, b"-", 1)
        put_unsigned(out, <uint64_t>0 - <uint64_t>value)
    else:
        put_unsigned(out, <uint64_t>value)


cdef void put_hex(Output* out, uint64_t value) noexcept nogil:
    cdef char[16] digits
    cdef int at = 16
    while True:
        at -= 1
        digits[at] = HEX[value & 15]
        value >>= 4
        if value == 0:
            break
    put(out, b"0x", 2)
    put(out, &digits[at], 16 - at)


cdef uint32_t utf8_length(const uint8_t* s, uint32_t left) noexcept nogil:
    """Bytes of the well-formed UTF-8 sequence at ``s``; 0 if it is none."""
    cdef uint8_t c = s[0]
    if 0xC2 <= c <= 0xDF:
        return 2 if left >= 2 and s[1] >> 6 == 2 else 0
    if 0xE0 <= c <= 0xEF:
        if left < 3 or s[1] >> 6 != 2 or s[2] >> 6 != 2:
            return 0
        if (c == 0xE0 and s[1] < 0xA0) or (c == 0xED and s[1] > 0x9F):
            return 0
        return 3
    if 0xF0 <= c <= 0xF4:
        if left < 4 or s[1] >> 6 != 2 or s[2] >> 6 != 2 or s[3] >> 6 != 2:
            return 0
        if (c == 0xF0 and s[1] < 0x90) or (c == 0xF4 and s[1] > 0x8F):
            return 0
        return 4
    return 0


cdef void put_json_string(Output* out, const char* text, uint32_t length) noexcept nogil:
    """A JSON string; bytes that are no UTF-8 become lone surrogates, as Python's surrogateescape has them."""
    cdef const uint8_t* s = <const uint8_t*>text
    cdef uint32_t i = 0, start = 0, n
    cdef char[6] escape
    put(out, b'"', 1)
    while i < length:
        n = 1
        if s[i] >= 0x80:
            n = utf8_length(s + i, length - i)
        elif s[i] < 0x20 or s[i] == 34 or s[i] == 92 or s[i] == 0x7F:
            n = 0
        if n == 0:
            put(out, text + start, i - start)
            memcpy(escape, b"\\u00", 4)
            if s[i] >= 0x80:
                memcpy(escape, b"\\udc", 4)
            escape[4] = HEX[s[i] >> 4]
            escape[5] = HEX[s[i] & 15]
            put(out, escape, 6)
            i += 1
            start = i
        else:
            i += n
    put(out, text + start, length - start)
    put(out, b'"', 1)


cdef void put_name(Output* out, const Layer* layer, uint32_t offset) noexcept nogil:
    """A name in quotes: '(anon)' for offset 0, '(invalid)' for an offset that leads to no string."""
    cdef uint32_t length = 0
    cdef const char* text
    if offset == 0:
        text = b"(anon)"
        length = 6
    else:
        text = string_of(layer, offset, &length)
        if text == NULL:
            text = b"(invalid)"
            length = 9
    if out.json:
        put_json_string(out, text, length)
    else:
        put(out, b"'", 1)
        put(out, text, length)
        put(out, b"'", 1)


cdef void key(Output* out, const char* name) noexcept nogil:
    """What stands before a value."""
    if out.json:
        if out.first:
            out.first = False
        else:
            put(out, b",", 1)
        put(out, b'"', 1)
        puts(out, name)
        put(out, b'":', 2)
    else:
        put(out, b" ", 1)
        puts(out, name)
        put(out, b"=", 1)


cdef void field_unsigned(Output* out, const char* name, uint64_t value) noexcept nogil:
    key(out, name)
    put_unsigned(out, value)


cdef void field_signed(Output* out, const char* name, int64_t value) noexcept nogil:
    key(out, name)
    put_signed(out, value)


cdef void field_word(Output* out, const char* name, const char* value) noexcept nogil:
    """A field whose value is one of our own words: quoted in JSON only."""
    key(out, name)
    if out.json:
        put(out, b'"', 1)
    puts(out, value)
    if out.json:
        put(out, b'"', 1)


cdef void begin_list(Output* out, const char* name) noexcept nogil:
    if out.json:
        key(out, name)
        put(out, b"[", 1)
        out.first = True


cdef void end_list(Output* out) noexcept nogil:
    if out.json:
        put(out, b"]", 1)
        out.first = False


cdef void begin_entry(Output* out, const char* margin) noexcept nogil:
    """Begin an element: an object in JSON, a line of its own in text. The next field needs no separator."""
    if out.json:
        if not out.first:
            put(out, b",", 1)
        put(out, b"{", 1)
        out.first = True
    else:
        puts(out, margin)


cdef void end_entry(Output* out) noexcept nogil:
    if out.json:
        put(out, b"}", 1)
        out.first = False


cdef void named_entry(Output* out, const Layer* layer, uint32_t offset, const char* margin) noexcept nogil:
    """Begin an element that starts with its name."""
    begin_entry(out, margin)
    if out.json:
        key(out, b"name")
    put_name(out, layer, offset)


cdef const char* linkage_name(uint32_t linkage) noexcept nogil:
    if linkage == 0:
        return b"static"
    if linkage == 1:
        return b"global"
    if linkage == 2:
        return b"extern"
    return b"(unknown)"


cdef const char* encoding_name(uint32_t encoding) noexcept nogil:
    if encoding == 0:
        return b"(none)"
    if encoding == 1:
        return b"SIGNED"
    if encoding == 2:
        return b"CHAR"
    if encoding == 4:
        return b"BOOL"
    return b"UNKN"


cdef void put_register(Output* out, uint32_t number) noexcept nogil:
    if number == <uint32_t>0xFFFFFFFF:
        puts(out, b"fbreg")
    else:
        puts(out, b"reg")
        put_unsigned(out, number)


cdef void put_location(Output* out, const Layer* layer, uint64_t at) noexcept nogil:
    """The value of the LOC_PARAM record at ``at`` (newest shape), as the newest bpftool words it."""
    cdef uint32_t vlen = word_at(layer, at + 4) & 0xFFFFFF
    cdef uint32_t size = word_at(layer, at + 8)
    cdef uint32_t flags = word_at(layer, at + 12)
    cdef uint64_t value = 0
    cdef int64_t offset
    cdef uint32_t i, unused
    at += 16
    if not legal_flags(flags, vlen):
        puts(out, b"?")
        for i in range(vlen):
            put(out, b" ", 1)
            put_hex(out, word_at(layer, at + 4 * i))
        return
    if flags & 0x02:
        value = word_at(layer, at)
        if vlen > 1:
            value |= <uint64_t>word_at(layer, at + 4) << 32
        elif flags & 0x01:
            value = <uint64_t><int64_t><int32_t><uint32_t>value
        if flags & 0x04:
            put_hex(out, value)
            puts(out, b" (addr)")
        elif flags & 0x01:
            if 0 < size < 8:
                unused = 64 - 8 * size
                put_signed(out, <int64_t>(value << unused) >> unused)
            else:
                put_signed(out, <int64_t>value)
        else:
            put_hex(out, value)
        return
    if flags & 0x10:
        puts(out, b"*(")
    put_register(out, word_at(layer, at))
    if flags & 0x20:
        if vlen == 3:
            offset = <int64_t>(word_at(layer, at + 4) | <uint64_t>word_at(layer, at + 8) << 32)
        else:
            offset = <int32_t>word_at(layer, at + 4)
        puts(out, b" - " if offset < 0 else b" + ")
        put_hex(out, <uint64_t>0 - <uint64_t>offset if offset < 0 else <uint64_t>offset)
    elif vlen == 2:
        puts(out, b", ")
        put_register(out, word_at(layer, at + 4))
    if flags & 0x10:
        put(out, b")", 1)


cdef void put_loc_param(Output* out, const Layer* layer, uint64_t at, uint32_t vlen, bint kind_flag) noexcept nogil:
    cdef uint32_t size = word_at(layer, at + 8)
    cdef uint32_t first = word_at(layer, at + 12)
    cdef uint32_t i, one = 1
    cdef uint64_t value
    cdef bint little = ((<uint8_t*>&one)[0] == 1) != layer.swap
    if layer.shape == SHAPE_RFC:
        field_signed(out, b"size", <int32_t>size)
        if kind_flag:
            value = first | <uint64_t>word_at(layer, at + 16) << 32
            if <int32_t>size < 0:
                field_signed(out, b"value", <int64_t>value)
            else:
                field_unsigned(out, b"value", value)
            return
        field_unsigned(out, b"reg", first & 0xFFFF if little else first >> 16)
        key(out, b"flags")
        i = first >> 16 if little else first & 0xFFFF
        if out.json:
            put_unsigned(out, i)
        else:
            put_hex(out, i)
        field_signed(out, b"offset", <int32_t>word_at(layer, at + 16))
        return
    field_unsigned(out, b"size", size)
    key(out, b"flags")
    if out.json:
        put_unsigned(out, first)
    else:
        put_hex(out, first)
    field_unsigned(out, b"vlen", vlen)
    if out.json:
        begin_list(out, b"values")
        for i in range(vlen):
            if i:
                put(out, b",", 1)
            put_unsigned(out, word_at(layer, at + 16 + 4 * i))
        end_list(out)
        put(out, b',"value":"', 10)
        put_location(out, layer, at)
        put(out, b'"', 1)
    else:
        puts(out, b" values='")
        put_location(out, layer, at)
        put(out, b"'", 1)


cdef void put_loc_proto(Output* out, const Layer* layer, uint64_t at, uint32_t vlen) noexcept nogil:
    cdef uint32_t i, slot
    cdef const Layer* owner
    field_unsigned(out, b"vlen", vlen)
    begin_list(out, b"params")
    for i in range(vlen):
        slot = word_at(layer, at + 12 + 4 * i)
        begin_entry(out, b"\n\t" if layer.shape == SHAPE_RFC else b"\n\t")
        if out.json:
            field_unsigned(out, b"type_id", slot)
        else:
            puts(out, b" type_id=" if layer.shape == SHAPE_RFC else b"type_id=")
            put_unsigned(out, slot)
        if layer.shape != SHAPE_RFC:
            owner = layer_of(layer, slot)
            puts(out, b',"value":"' if out.json else b" value='")
            if slot == 0:
                puts(out, b"unavailable")
            elif owner == NULL or kind_of(layer, slot) != 20 or owner.shape != SHAPE_NEW:
                puts(out, b"(invalid)")
            else:
                put_location(out, owner, record_of(owner, slot))
            put(out, b'"' if out.json else b"'", 1)
        end_entry(out)
    end_list(out)


cdef void put_locsec(Output* out, const Layer* layer, uint64_t at, uint32_t vlen) noexcept nogil:
    cdef uint32_t i, function
    cdef const Layer* owner
    field_unsigned(out, b"vlen", vlen)
    begin_list(out, b"locs")
    at += 12
    for i in range(vlen):
        if layer.shape == SHAPE_RFC:
            named_entry(out, layer, word_at(layer, at), b"\n\t ")
            field_unsigned(out, b"func_proto_type_id", word_at(layer, at + 4))
            field_unsigned(out, b"loc_proto_type_id", word_at(layer, at + 8))
            field_unsigned(out, b"offset", word_at(layer, at + 12))
            at += 16
        else:
            function = word_at(layer, at)
            owner = layer_of(layer, function)
            if out.json:
                begin_entry(out, b"")
                key(out, b"name")
            else:
                puts(out, b"\n\tname=")
            if owner == NULL:
                puts(out, b'"(invalid)"' if out.json else b"'(invalid)'")
            else:
                put_name(out, owner, word_at(owner, record_of(owner, function)))
            field_unsigned(out, b"func_type_id", function)
            field_unsigned(out, b"loc_proto_type_id", word_at(layer, at + 4))
            field_unsigned(out, b"offset", word_at(layer, at + 8))
            at += 12
        end_entry(out)
    end_list(out)


cdef void put_members(Output* out, const Layer* layer, uint64_t at, uint32_t vlen, bint kind_flag) noexcept nogil:
    cdef uint32_t i, word
    field_unsigned(out, b"size", word_at(layer, at + 8))
    field_unsigned(out, b"vlen", vlen)
    begin_list(out, b"members")
    at += 12
    for i in range(vlen):
        named_entry(out, layer, word_at(layer, at), b"\n\t")
        field_unsigned(out, b"type_id", word_at(layer, at + 4))
        word = word_at(layer, at + 8)
        field_unsigned(out, b"bits_offset", word & 0xFFFFFF if kind_flag else word)
        if kind_flag and word >> 24:
            field_unsigned(out, b"bitfield_size", word >> 24)
        end_entry(out)
        at += 12
    end_list(out)


cdef void put_enumerators(Output* out, const Layer* layer, uint64_t at, uint32_t vlen, bint is_signed, bint wide) noexcept nogil:
    cdef uint32_t i
    cdef uint64_t value
    field_word(out, b"encoding", b"SIGNED" if is_signed else b"UNSIGNED")
    field_unsigned(out, b"size", word_at(layer, at + 8))
    field_unsigned(out, b"vlen", vlen)
    begin_list(out, b"values")
    at += 12
    for i in range(vlen):
        named_entry(out, layer, word_at(layer, at), b"\n\t")
        value = word_at(layer, at + 4)
        if wide:
            value |= <uint64_t>word_at(layer, at + 8) << 32
        elif is_signed:
            value = <uint64_t><int64_t><int32_t><uint32_t>value
        if is_signed:
            field_signed(out, b"val", <int64_t>value)
        else:
            field_unsigned(out, b"val", value)
        if wide and not out.json:
            puts(out, b"LL" if is_signed else b"ULL")
        end_entry(out)
        at += 12 if wide else 8
    end_list(out)


cdef void put_datasec(Output* out, const Layer* layer, const Layer* top, uint64_t at, uint32_t vlen) noexcept nogil:
    cdef uint32_t i, variable, kind
    cdef const Layer* owner
    field_unsigned(out, b"size", word_at(layer, at + 8))
    field_unsigned(out, b"vlen", vlen)
    begin_list(out, b"vars")
    at += 12
    for i in range(vlen):
        variable = word_at(layer, at)
        begin_entry(out, b"\n\t")
        if out.json:
            field_unsigned(out, b"type_id", variable)
        else:
            puts(out, b"type_id=")
            put_unsigned(out, variable)
        field_unsigned(out, b"offset", word_at(layer, at + 4))
        field_unsigned(out, b"size", word_at(layer, at + 8))
        if not out.json:
            owner = layer_of(top, variable)
            if owner != NULL:
                kind = kind_of(owner, variable)
                puts(out, b" (")
                puts(out, KIND_NAMES[kind if kind <= 22 else 0])
                put(out, b" ", 1)
                put_name(out, owner, word_at(owner, record_of(owner, variable)))
                put(out, b")", 1)
            elif variable == 0:
                puts(out, b" (UNKNOWN '(anon)')")
        end_entry(out)
        at += 12
    end_list(out)


cdef void put_unknown(Output* out, const Layer* layer, uint64_t at, uint64_t end, bint kind_flag, uint32_t vlen) noexcept nogil:
    """A kind that was skipped by the layout section: its words as they are."""
    field_unsigned(out, b"kind_flag", kind_flag)
    field_unsigned(out, b"vlen", vlen)
    field_unsigned(out, b"size_or_type", word_at(layer, at + 8))
    if out.json:
        begin_list(out, b"words")
    else:
        puts(out, b" words=")
    at += 12
    while at < end:
        if out.json:
            if not out.first:
                put(out, b",", 1)
            out.first = False
            put_unsigned(out, word_at(layer, at))
        else:
            put_hex(out, word_at(layer, at))
            if at + 4 < end:
                put(out, b",", 1)
        at += 4
    end_list(out)


cdef void put_type(Output* out, const Layer* top, uint32_t type_id) noexcept nogil:
    cdef const Layer* layer = layer_of(top, type_id)
    cdef uint64_t at = record_of(layer, type_id)
    cdef uint64_t end = record_of(layer, type_id + 1) if type_id + 1 < layer.end_id else layer.type_end
    cdef uint32_t info = word_at(layer, at + 4)
    cdef uint32_t kind = (info >> 24) & 0x7F
    cdef uint32_t vlen = info & 0xFFFFFF
    cdef bint kind_flag = info >> 31
    cdef uint32_t third = word_at(layer, at + 8)
    cdef uint32_t word, i
    cdef bint known = kind <= 19 or (kind <= 22 and layer.shape != SHAPE_OTHER)
    if out.json:
        begin_entry(out, b"")
        field_unsigned(out, b"id", type_id)
        puts(out, b',"kind":"')
    else:
        put(out, b"[", 1)
        put_unsigned(out, type_id)
        put(out, b"] ", 2)
    if known:
        puts(out, KIND_NAMES[kind])
    else:
        puts(out, b"UNKNOWN(")
        put_unsigned(out, kind)
        puts(out, b")")
    puts(out, b'","name":' if out.json else b" ")
    put_name(out, layer, word_at(layer, at))
    if not known:
        put_unknown(out, layer, at, end, kind_flag, vlen)
    elif kind == 1:
        word = word_at(layer, at + 12)
        field_unsigned(out, b"size", third)
        field_unsigned(out, b"bits_offset", (word >> 16) & 0xFF)
        field_unsigned(out, b"nr_bits", word & 0xFF)
        field_word(out, b"encoding", encoding_name((word >> 24) & 0xF))
    elif kind == 2 or 8 <= kind <= 11 or kind == 18:
        field_unsigned(out, b"type_id", third)
    elif kind == 3:
        field_unsigned(out, b"type_id", word_at(layer, at + 12))
        field_unsigned(out, b"index_type_id", word_at(layer, at + 16))
        field_unsigned(out, b"nr_elems", word_at(layer, at + 20))
    elif kind == 4 or kind == 5:
        put_members(out, layer, at, vlen, kind_flag)
    elif kind == 6 or kind == 19:
        put_enumerators(out, layer, at, vlen, kind_flag, kind == 19)
    elif kind == 7:
        field_word(out, b"fwd_kind", b"union" if kind_flag else b"struct")
    elif kind == 12:
        field_unsigned(out, b"type_id", third)
        field_word(out, b"linkage", linkage_name(vlen))
    elif kind == 13:
        field_unsigned(out, b"ret_type_id", third)
        field_unsigned(out, b"vlen", vlen)
        begin_list(out, b"params")
        for i in range(vlen):
            named_entry(out, layer, word_at(layer, at + 12 + 8 * i), b"\n\t")
            field_unsigned(out, b"type_id", word_at(layer, at + 16 + 8 * i))
            end_entry(out)
        end_list(out)
    elif kind == 14:
        field_unsigned(out, b"type_id", third)
        if not out.json:
            put(out, b",", 1)
        field_word(out, b"linkage", linkage_name(word_at(layer, at + 12)))
    elif kind == 15:
        put_datasec(out, layer, top, at, vlen)
    elif kind == 16:
        field_unsigned(out, b"size", third)
    elif kind == 17:
        field_unsigned(out, b"type_id", third)
        field_signed(out, b"component_idx", <int32_t>word_at(layer, at + 12))
    elif kind == 20:
        put_loc_param(out, layer, at, vlen, kind_flag)
    elif kind == 21:
        put_loc_proto(out, layer, at, vlen)
    else:
        put_locsec(out, layer, at, vlen)
    if out.json:
        end_entry(out)
    else:
        put(out, b"\n", 1)


def render(Index index, ids, bint json, bint first):
    """The text of the types ``ids`` (a range or a list): lines, or the elements of a JSON list.

    ``first`` says that nothing stands before them in that list. Errors: FormatError for an id that does not exist.
    """
    cdef Output out
    cdef uint32_t type_id, start, stop
    out.data = NULL
    out.size = out.room = 0
    out.failed = False
    out.json = json
    out.first = first
    try:
        if isinstance(ids, range):
            start, stop = ids.start, ids.stop
            if start == 0 or stop > index.layer.end_id or ids.step != 1:
                raise FormatError("there is no such type", type_id=ids.stop)
            with nogil:
                for type_id in range(start, stop):
                    put_type(&out, &index.layer, type_id)
        else:
            for type_id in ids:
                if layer_of(&index.layer, type_id) == NULL:
                    raise FormatError("there is no such type", type_id=type_id)
                put_type(&out, &index.layer, type_id)
        if out.failed:
            raise MemoryError
        return out.data[:out.size] if out.size else b""
    finally:
        free(out.data)


def location_text(Index index, uint32_t type_id):
    """The words for the location that a LOC_PARAM of v2 or newest describes (``*(reg2 + 0x10)``)."""
    cdef const Layer* layer = layer_of(&index.layer, type_id)
    cdef Output out
    if layer == NULL or kind_of(layer, type_id) != 20 or layer.shape != SHAPE_NEW:
        raise FormatError("this type is no LOC_PARAM", type_id=type_id)
    out.data = NULL
    out.size = out.room = 0
    out.failed = out.json = out.first = False
    put_location(&out, layer, record_of(layer, type_id))
    try:
        return out.data[:out.size].decode()
    finally:
        free(out.data)
