# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Location lists and range lists (DWARF 5 sections 2.6.2 and 2.17.3, DWARF 4 .debug_loc and .debug_ranges).

Location lists carry gcc's view pairs where they have them (DW_AT_GNU_locviews, or DW_LLE_view_pair in the list).
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from inlinetrace._arrays cimport grow
from inlinetrace.dwarf._cursor cimport Cursor, make_cursor, read_u8, read_u16, read_uint, read_uleb, skip
from inlinetrace.dwarf._forms cimport UnitHeader
from inlinetrace.dwarf._lines cimport LineProgram
from inlinetrace.dwarf._units cimport Info, describe

from inlinetrace.errors import FormatError

cdef enum:
    ERR_MEMORY = -1
    ERR_INDEX = 32
    ERR_ENTRY = 33
    ERR_LIST = 34
    # Labels further apart than this are never one label that gcc left before alignment padding.
    PADDING = 16


cdef int _append(Entries* list_, Entry* entry) noexcept nogil:
    if grow(<void**>&list_.items, &list_.capacity, list_.count + 1, sizeof(Entry)):
        return ERR_MEMORY
    list_.items[list_.count] = entry[0]
    list_.count += 1
    return 0


cdef inline int _indexed(Info info, UnitHeader* unit, Cursor* c, uint64_t* address) noexcept nogil:
    cdef uint64_t index = read_uleb(c)
    if c.error:
        return 0
    return ERR_INDEX if info.resolve_address(unit, index, address) else 0


cdef int _next(Info info, UnitHeader* unit, Cursor* c, bint v5, bint locations, uint64_t* base, Entry* entry,
               bint* is_entry, bint* done) noexcept nogil:
    """Read one record of a list; ``is_entry`` tells whether it bounds anything, ``done`` that it was the last."""
    cdef uint64_t low, high, largest
    cdef int kind, error = 0
    memset(entry, 0, sizeof(Entry))
    is_entry[0] = False
    done[0] = False
    if not v5:
        largest = 0xffffffffffffffffULL if unit.address_size == 8 else (1ULL << (8 * unit.address_size)) - 1
        low = read_uint(c, unit.address_size)
        high = read_uint(c, unit.address_size)
        if low == 0 and high == 0:
            done[0] = True
        elif low == largest:
            base[0] = high
        else:
            is_entry[0] = True
            entry.begin = (base[0] + low) & largest
            entry.end = (base[0] + high) & largest
            if locations:
                entry.length = read_u16(c)
                entry.expression = c.pos
                skip(c, entry.length)
        return 0
    kind = read_u8(c)
    if kind == 0:
        done[0] = True
        return 0
    # DW_RLE numbers equal DW_LLE's but for default_location (5), which shifts the ones after it
    if not locations and kind >= 5:
        kind += 1
    if kind == 1:                             # base_addressx
        return _indexed(info, unit, c, base)
    if kind == 6:                             # base_address
        base[0] = read_uint(c, unit.address_size)
        return 0
    if kind == 9 and locations:               # view_pair: bounds the entry that follows
        entry.begin_view = read_uleb(c)
        entry.end_view = read_uleb(c)
        entry.is_default = 2
        return 0
    is_entry[0] = True
    if kind == 2:                             # startx_endx
        error = _indexed(info, unit, c, &entry.begin)
        if not error:
            error = _indexed(info, unit, c, &entry.end)
    elif kind == 3:                           # startx_length
        error = _indexed(info, unit, c, &entry.begin)
        entry.end = entry.begin + (read_uint(c, 4) if unit.version < 5 else read_uleb(c))
    elif kind == 4:                           # offset_pair
        entry.begin = base[0] + (read_uint(c, 4) if unit.version < 5 else read_uleb(c))
        entry.end = base[0] + (read_uint(c, 4) if unit.version < 5 else read_uleb(c))
    elif kind == 5:                           # default_location
        entry.is_default = 1
        entry.end = 0xffffffffffffffffULL
    elif kind == 7:                           # start_end
        entry.begin = read_uint(c, unit.address_size)
        entry.end = read_uint(c, unit.address_size)
    elif kind == 8:                           # start_length
        entry.begin = read_uint(c, unit.address_size)
        entry.end = entry.begin + read_uleb(c)
    else:
        return ERR_ENTRY
    if error:
        return error
    if locations:
        # the pre-standard lists of DWARF 4 split units have a 2-byte length
        entry.length = read_u16(c) if unit.version < 5 else read_uleb(c)
        entry.expression = c.pos
        skip(c, entry.length)
    return 0


cdef int read_locations(Info info, UnitHeader* unit, uint64_t offset, uint64_t views, Entries* out,
                         uint64_t* error_at) noexcept nogil:
    cdef bint v5 = unit.version >= 5
    cdef bint split = unit.is_dwo and not v5
    # a view of the section would count references, which threads that share it wait for
    cdef uint64_t size = info.loclists.shape[0] if v5 else info.locations.shape[0]
    cdef const uint8_t* data = NULL
    cdef Cursor c
    # bit 63 tells an offset of 0 from none
    cdef bint has_views = views != 0
    cdef Cursor v
    cdef uint64_t base = unit.low_pc, pair_begin = 0, pair_end = 0
    cdef Entry entry
    cdef bint is_entry = False, done = False, paired = False
    cdef int error = 0
    if size:
        data = &info.loclists[0] if v5 else &info.locations[0]
    c = make_cursor(data, offset, size, info.swap)
    v = make_cursor(data, views & 0x7fffffffffffffffULL, size, info.swap)
    out.count = 0
    out.viewed = has_views
    while not c.error:
        if has_views and v.pos >= offset and (views & 0x7fffffffffffffffULL) < offset:
            # the pairs end where the list begins: only the end of the list may follow
            has_views = False
        error = _next(info, unit, &c, v5 or split, True, &base, &entry, &is_entry, &done)
        if error or c.error or done:
            break
        if not is_entry:
            if entry.is_default == 2:
                pair_begin = entry.begin_view
                pair_end = entry.end_view
                paired = out.viewed = True
            continue
        if paired:
            entry.begin_view = pair_begin
            entry.end_view = pair_end
            paired = False
        elif has_views and not entry.is_default:
            entry.begin_view = read_uleb(&v)
            entry.end_view = read_uleb(&v)
            if v.error:
                error_at[0] = v.error_at
                return v.error
        error = _append(out, &entry)
        if error:
            break
    if not error and c.error:
        error = c.error
        error_at[0] = c.error_at
    elif error:
        error_at[0] = c.pos
    return error


cdef raise_list_error(Info info, int error, bint v5, bint locations, uint64_t offset):
    if error == ERR_MEMORY:
        raise MemoryError
    if error == ERR_INDEX:
        text = "an address index leads outside of .debug_addr"
    elif error == ERR_LIST:
        text = "a list index leads outside of the section"
    elif error == ERR_ENTRY:
        text = "a list entry is of a kind that DWARF does not define"
    else:
        text = describe(error)
    if locations:
        section = ".debug_loclists" if v5 else ".debug_loc"
    else:
        section = ".debug_rnglists" if v5 else ".debug_ranges"
    raise FormatError(text, path=info.path, section=section + (".dwo" if info.is_dwo else ""), offset=offset)


cdef int resolve_list(Info info, UnitHeader* unit, uint64_t index, bint locations, uint64_t* offset) noexcept nogil:
    """Section offset of list number ``index`` of a unit (DW_FORM_loclistx, DW_FORM_rnglistx)."""
    cdef const uint8_t[::1] section = info.loclists if locations else info.rnglists
    cdef uint64_t base = unit.loclists_base if locations else unit.rnglists_base
    cdef uint64_t size = section.shape[0]
    cdef Cursor c
    if index >= size or base > size:
        return ERR_LIST
    c = make_cursor(&section[0], base + index * unit.offset_size, size, info.swap)
    offset[0] = base + read_uint(&c, unit.offset_size)
    return c.error


def location_list(Info info, Py_ssize_t unit_index, uint64_t offset, uint64_t views=0):
    """Entries of the location list at ``offset``: (begin, begin view, end, end view, expression bytes).

    ``views`` is the offset of DW_AT_GNU_locviews, 0 if there is none. A default entry has begin 0 and the largest end.
    """
    cdef Entries found
    cdef uint64_t at = 0, i
    cdef Entry* e
    cdef int error
    cdef UnitHeader* unit = &info.headers[unit_index]
    cdef const uint8_t[::1] section = info.loclists if unit.version >= 5 else info.locations
    memset(&found, 0, sizeof(found))
    try:
        error = read_locations(info, unit, offset, views, &found, &at)
        if error:
            raise_list_error(info, error, unit.version >= 5, True, at)
        result = []
        for i in range(found.count):
            e = &found.items[i]
            result.append((e.begin, e.begin_view, e.end, e.end_view,
                           bytes(section[e.expression:e.expression + e.length])))
        return result
    finally:
        free(found.items)


cdef uint64_t _moved(LineProgram lines, uint64_t address, uint64_t view) noexcept nogil:
    """The address that a label belongs to which gcc may have left before alignment padding.

    If the line table has no row with the label's view at its address, the label is that of the next row.
    """
    cdef uint64_t following = 0
    cdef bint found = False
    if view <= 0xffffffffULL:
        found = lines.has_row_at(address, <uint32_t>view)
    if found:
        return address
    found = lines.next_row_at(address, &following)
    if found and following - address < PADDING:
        return following
    return address


cdef int live_entry(Info info, UnitHeader* unit, Entries* found, uint64_t offset, uint64_t views, uint64_t pc,
                    uint64_t view, LineProgram lines, Entry* live, bint* is_live, bint* empty,
                    uint64_t* error_at) noexcept nogil:
    """What find_live does, without the GIL; ``is_live`` tells whether there is one.

    Returns 0, LINES_NEEDED if ``lines`` has to be decoded first, or an error for raise_list_error.
    """
    cdef uint64_t i, begin, end
    cdef Entry* e
    cdef Entry* default = NULL
    cdef bint corrected
    cdef int error = read_locations(info, unit, offset, views, found, error_at)
    is_live[0] = False
    if error:
        return error
    for i in range(found.count):
        e = &found.items[i]
        if e.is_default:
            default = e
            continue
        if e.begin > pc or e.end + PADDING < pc:
            continue
        begin = e.begin
        end = e.end
        if views and lines is not None:
            corrected = begin + PADDING > pc or (end + PADDING > pc and end <= pc)
            if corrected and not lines._decoded:
                return LINES_NEEDED
            if begin + PADDING > pc:
                begin = _moved(lines, begin, e.begin_view)
            if end + PADDING > pc and end <= pc:
                end = _moved(lines, end, e.end_view)
        if views == 0 and e.begin_view == 0 and e.end_view == 0:
            if not begin <= pc < end:
                continue
        elif not ((begin < pc or (begin == pc and e.begin_view <= view))
                  and (pc < end or (pc == end and view < e.end_view))):
            continue
        live[0] = e[0]
        empty[0] = begin == end
        is_live[0] = True
        return 0
    if default != NULL:
        live[0] = default[0]
        empty[0] = False
        is_live[0] = True
    return 0


cdef int find_live(Info info, UnitHeader* unit, Entries* found, uint64_t offset, uint64_t views, uint64_t pc,
                   uint64_t view, LineProgram lines, Entry* live, bint* empty) except -1:
    """Find the entry of a location list that is live at (``pc``, ``view``); ``found`` is reused by the caller.

    An entry is live if (begin, begin view) <= (pc, view) < (end, end view). Without view pairs the views of all labels
    are 0 and so is the one that counts. ``lines``, the unit's line table, corrects labels that were left before
    alignment padding; None leaves them. Returns 1 with the entry in ``live``, ``empty`` telling that its range has no
    bytes, or 0 if none is live.
    """
    cdef uint64_t at = 0
    cdef bint is_live = False
    cdef int error = live_entry(info, unit, found, offset, views, pc, view, lines, live, &is_live, empty, &at)
    if error == LINES_NEEDED:
        lines.decode()
        error = live_entry(info, unit, found, offset, views, pc, view, lines, live, &is_live, empty, &at)
    if error:
        raise_list_error(info, error, unit.version >= 5, True, at)
    return is_live


cdef int read_ranges(Info info, UnitHeader* unit, uint64_t offset, Entries* out, uint64_t* error_at) noexcept nogil:
    """Read a range list; 0, or an error whose place is ``error_at``."""
    cdef bint v5 = unit.version >= 5
    cdef uint64_t size = info.rnglists.shape[0] if v5 else info.ranges.shape[0]
    cdef const uint8_t* data = NULL
    cdef uint64_t base = unit.low_pc
    cdef Cursor c
    cdef Entry entry
    cdef bint is_entry = False, done = False
    cdef int error = 0
    if not v5:
        offset += unit.ranges_base
    if size:
        data = &info.rnglists[0] if v5 else &info.ranges[0]
    out.count = 0
    c = make_cursor(data, offset, size, info.swap)
    while not c.error:
        error = _next(info, unit, &c, v5, False, &base, &entry, &is_entry, &done)
        if error or c.error or done:
            break
        if is_entry:
            error = _append(out, &entry)
            if error:
                break
    error_at[0] = c.pos if error else c.error_at
    return error if error else c.error
