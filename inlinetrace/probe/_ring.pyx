# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Records out of the pages of the kernel's ring buffer, as ``trace_pipe_raw`` gives them.

The layout of a page is that of ``events/header_page`` and ``events/header_event`` (kernel/trace/ring_buffer.c): a time
stamp, the length of what was committed with two flags on top, then records with a header of 5 bits of type or length
and 27 bits of time. Everything is checked against the page before it is read.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

from inlinetrace.errors import FormatError

cdef enum:
    NUMBER = 0
    BYTES = 1
    TEXT = 2
    GUARD = 3
    WORD = 4
    PADDING = 29
    TIME_EXTEND = 30
    TIME_STAMP = 31
    MAX_FIELDS = 256

cdef struct Field:
    uint32_t offset
    uint32_t size
    int kind


cdef class Layout:
    """Where the fields of one event are: ``fields`` has (offset, size, kind), kinds "number", "bytes", "text", "guard", "word".

    A guard is text of which only matters whether it could be read: True or None. A word is text of which only matters
    whether the word that leads to it could be read. The last field is the name of the process.

    ``number`` and ``address`` are offset and size of the probe's number and of the address that was hit.
    """

    cdef Field* fields
    cdef Py_ssize_t count
    cdef uint32_t number_offset, ip_offset, ip_size, end

    def __cinit__(self, fields, uint32_t number_offset, uint32_t ip_offset, uint32_t ip_size):
        cdef Py_ssize_t i
        if len(fields) > MAX_FIELDS or ip_size not in (4, 8):
            raise ValueError("not the layout of a probe event")
        self.count = len(fields)
        self.fields = <Field*>malloc((self.count + 1) * sizeof(Field))
        if self.fields == NULL:
            raise MemoryError
        self.number_offset = number_offset
        self.ip_offset = ip_offset
        self.ip_size = ip_size
        self.end = max(8, number_offset + 4, ip_offset + ip_size)
        for i, (offset, size, kind) in enumerate(fields):
            self.fields[i].offset = offset
            self.fields[i].size = size
            self.fields[i].kind = {"number": NUMBER, "bytes": BYTES, "text": TEXT, "guard": GUARD, "word": WORD}[kind]
            if self.fields[i].kind == NUMBER and size not in (1, 2, 4, 8):
                raise ValueError(f"a number of {size} bytes")
            if self.fields[i].kind >= TEXT and size != 4:
                raise ValueError("text is a word that says where it is")
            self.end = max(self.end, offset + size)

    def __dealloc__(self):
        free(self.fields)


cdef inline uint32_t word(const uint8_t* at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef inline uint64_t quad(const uint8_t* at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint16_t event_id(const uint8_t* at) noexcept nogil:
    cdef uint16_t value
    memcpy(&value, at, 2)
    return value


cdef inline uint64_t number_at(const uint8_t* at, uint32_t size) noexcept nogil:
    cdef uint16_t half
    if size == 8:
        return quad(at)
    if size == 4:
        return word(at)
    if size == 2:
        memcpy(&half, at, 2)
        return half
    return at[0]


cdef object read_fields(Layout layout, const uint8_t* data, uint32_t length):
    """The fields of one record: numbers, bytes, and text or None where there is no room for any."""
    cdef Py_ssize_t i
    cdef uint32_t location, start, size, length_set, following
    cdef Field* field
    cdef tuple result = PyTuple_New(layout.count)
    cdef object value
    for i in range(layout.count):
        field = &layout.fields[i]
        if field.kind == NUMBER:
            value = number_at(data + field.offset, field.size)
        elif field.kind == BYTES:
            value = PyBytes_FromStringAndSize(<const char*>data + field.offset, field.size)
        else:
            location = word(data + field.offset)
            start = location & 0xffff
            size = length_set = location >> 16
            value = None
            # Text that could not be read has no room: the next text starts where it does, whatever its length says.
            if i + 1 < layout.count and layout.fields[i + 1].kind >= TEXT:
                following = word(data + layout.fields[i + 1].offset) & 0xffff
                size = following - start if start < following <= start + size else 0
            if size and start + size <= length:
                # the last byte is the NUL
                value = True if field.kind >= GUARD else PyBytes_FromStringAndSize(<const char*>data + start, size - 1)
            elif field.kind == WORD and length_set == 0 and word(data + layout.fields[layout.count - 1].offset) >> 16:
                # The kernel sets the length to all the room that is left, which there was: the last text has some. It
                # sets it to 0 where it found no text, but leaves it where it did not come to look for one.
                value = True
        Py_INCREF(value)
        PyTuple_SET_ITEM(result, i, value)
    return result


def decode_page(const uint8_t[::1] page not None, dict layouts, int cpu, list out, uint32_t commit_offset,
                uint32_t commit_size, uint32_t data_offset):
    """Append the records of a page to ``out``; return how many were lost before it, -1 if some and unknown how many.

    A record is (time stamp, cpu, thread, number of the probe, address, fields). ``layouts`` maps event ids to Layouts;
    records of other events are passed over. Raises FormatError with the offset for a page that is not one.
    """
    cdef Py_ssize_t total = page.shape[0]
    cdef const uint8_t* base
    cdef uint64_t time, commit, length, pos, end, size, extra, header
    cdef uint32_t kind, delta
    cdef const uint8_t* data
    cdef int64_t lost = 0
    cdef Layout layout
    cdef object known
    if total < 16 or data_offset > total or commit_offset + commit_size > total or commit_size not in (4, 8):
        raise FormatError("a page of the ring buffer that is too short", offset=0)
    base = &page[0]
    time = quad(base)
    commit = number_at(base + commit_offset, commit_size)
    length = commit & 0x3fffffff
    if length > total - data_offset:
        raise FormatError("a page of the ring buffer with more records than fit", offset=commit_offset)
    pos = data_offset
    end = data_offset + length
    if commit & 0x80000000:
        lost = -1
        if commit & 0x40000000 and end + 8 <= <uint64_t>total:
            lost = <int64_t>quad(base + end)
    while pos + 4 <= end:
        header = pos
        kind = word(base + pos) & 31
        delta = word(base + pos) >> 5
        pos += 4
        if kind == PADDING:
            if delta == 0:
                break
            if pos + 4 > end:
                raise FormatError("a record of the ring buffer that is cut off", offset=header)
            time += delta
            extra = word(base + pos)
            if extra < 4 or extra > end - pos:
                raise FormatError("a record of the ring buffer that is cut off", offset=header)
            pos += extra
            continue
        if kind == TIME_EXTEND or kind == TIME_STAMP:
            if pos + 4 > end:
                raise FormatError("a record of the ring buffer that is cut off", offset=header)
            extra = (<uint64_t>word(base + pos) << 27) + delta
            # An absolute time has only 59 bits; those above are the page's.
            time = time + extra if kind == TIME_EXTEND else (time & 0xf800000000000000ULL) | extra
            pos += 4
            continue
        time += delta
        if kind == 0:
            if pos + 4 > end or word(base + pos) < 4:
                raise FormatError("a record of the ring buffer that is cut off", offset=header)
            size = word(base + pos) - 4
            pos += 4
        else:
            size = 4 * kind
        if size > end - pos:
            raise FormatError("a record of the ring buffer that is cut off", offset=header)
        data = base + pos
        pos += (size + 3) & ~<uint64_t>3
        if size < 8:
            continue
        known = layouts.get(event_id(data))
        if known is None:
            continue
        layout = <Layout?>known
        if size < layout.end:
            raise FormatError("a record of the ring buffer that is shorter than its format", offset=header)
        out.append((time, cpu, <int>word(data + 4), word(data + layout.number_offset),
                    number_at(data + layout.ip_offset, layout.ip_size), read_fields(layout, data, <uint32_t>size)))
    return lost
