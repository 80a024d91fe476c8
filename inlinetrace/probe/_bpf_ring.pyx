# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Records out of a BPF ring buffer (Documentation/bpf/ringbuf.rst) that is mapped into our memory.

Two counters run freely: the consumer's, ours to write, and the producer's. Behind each position between them is a header
of 8 bytes, the length with two flags on top (still being written; to be passed over), then the record. The data pages are
mapped twice in a row, so that a record is in one piece wherever it begins. Everything is checked before it is read.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcpy
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM

from inlinetrace.errors import FormatError

cdef extern from *:
    """
    #define inlinetrace_load64(at) __atomic_load_n((const uint64_t *)(at), __ATOMIC_ACQUIRE)
    #define inlinetrace_load32(at) __atomic_load_n((const uint32_t *)(at), __ATOMIC_ACQUIRE)
    #define inlinetrace_store64(at, value) __atomic_store_n((uint64_t *)(at), (value), __ATOMIC_RELEASE)
    """
    uint64_t inlinetrace_load64(const uint8_t* at) noexcept nogil
    uint32_t inlinetrace_load32(const uint8_t* at) noexcept nogil
    void inlinetrace_store64(uint8_t* at, uint64_t value) noexcept nogil

cdef enum:
    NUMBER = 0
    BYTES = 1
    TEXT = 2
    STACK = 3
    BUSY = 1 << 31
    DISCARDED = 1 << 30
    # The header of bpf_capture, which says what is where.
    TIME_AT = 0
    ADDRESS_AT = 8
    THREAD_AT = 16
    NUMBER_AT = 24
    CPU_AT = 28
    COMMAND_AT = 32
    FAULTS_AT = 48
    HEADER = 72
    COMMAND_SIZE = 16
    MAX_FIELDS = 512

cdef struct Field:
    uint32_t offset
    uint32_t size
    int kind
    uint64_t low, high


cdef class RecordLayout:
    """Where the fields of a probe's records are: (kind, offset, size, faults), kinds "number", "bytes", "text", "stack".

    A field is None if any bit of ``faults`` is set in the record. For text the offset is its index: all texts of a record
    have room for the same length, which follows from the record's. ``texts`` is how many there are, ``text_offset`` where
    they begin, ``longest`` the room of a text that may have been cut off.
    """

    cdef Field* fields
    cdef Py_ssize_t count
    cdef uint32_t end, texts, text_offset, longest

    def __cinit__(self, fields, uint32_t text_offset, uint32_t texts, uint32_t longest):
        cdef Py_ssize_t i
        if len(fields) > MAX_FIELDS:
            raise ValueError("too many fields")
        self.count = len(fields)
        self.fields = <Field*>malloc((self.count + 1) * sizeof(Field))
        if self.fields == NULL:
            raise MemoryError
        self.texts = texts
        self.text_offset = text_offset
        self.longest = longest
        self.end = max(HEADER, text_offset)
        for i, (kind, offset, size, faults) in enumerate(fields):
            self.fields[i].kind = {"number": NUMBER, "bytes": BYTES, "text": TEXT, "stack": STACK}[kind]
            self.fields[i].offset = offset
            self.fields[i].size = size
            self.fields[i].low = faults & 0xffffffffffffffff
            self.fields[i].high = faults >> 64
            if kind == "number" and size not in (1, 2, 4, 8):
                raise ValueError(f"a number of {size} bytes")
            if kind == "text" and offset >= texts:
                raise ValueError("a text that there is no room for")
            if kind == "stack":
                self.end = max(self.end, offset + 8 + size)
            elif kind != "text":
                self.end = max(self.end, offset + size)

    def __dealloc__(self):
        free(self.fields)


cdef inline uint64_t quad(const uint8_t* at) noexcept nogil:
    cdef uint64_t value
    memcpy(&value, at, 8)
    return value


cdef inline uint32_t word(const uint8_t* at) noexcept nogil:
    cdef uint32_t value
    memcpy(&value, at, 4)
    return value


cdef object field_of(RecordLayout layout, Field* field, const uint8_t* data, uint32_t length):
    cdef uint64_t value = 0
    cdef int64_t size
    cdef uint32_t room
    cdef const uint8_t* at
    if quad(data + FAULTS_AT) & field.low or quad(data + FAULTS_AT + 8) & field.high:
        return None
    if field.kind == NUMBER:
        memcpy(&value, data + field.offset, field.size)
        return value
    if field.kind == BYTES:
        return PyBytes_FromStringAndSize(<const char*>data + field.offset, field.size)
    if field.kind == TEXT:
        room = (length - layout.text_offset) // layout.texts
        at = data + layout.text_offset + field.offset * room
        size = <int64_t>quad(at)
        # the last byte is the NUL; text that fills the longest room was cut off
        if room < 9 or size < 1 or size > room - 8 or size >= layout.longest:
            return None
        return PyBytes_FromStringAndSize(<const char*>at + 8, size - 1)
    size = <int64_t>quad(data + field.offset)
    if size < 0 or size > field.size:
        size = 0
    return PyBytes_FromStringAndSize(<const char*>data + field.offset + 8, size)


cdef object fields_of(RecordLayout layout, const uint8_t* data, uint32_t length):
    """The fields of one record, and behind them the name of the process."""
    cdef Py_ssize_t i
    cdef tuple result = PyTuple_New(layout.count + 1)
    cdef object value
    cdef const uint8_t* command = data + COMMAND_AT
    cdef const uint8_t* nul
    for i in range(layout.count):
        value = field_of(layout, &layout.fields[i], data, length)
        Py_INCREF(value)
        PyTuple_SET_ITEM(result, i, value)
    nul = <const uint8_t*>memchr(command, 0, COMMAND_SIZE)
    value = PyBytes_FromStringAndSize(<const char*>command, COMMAND_SIZE if nul == NULL else nul - command)
    Py_INCREF(value)
    PyTuple_SET_ITEM(result, layout.count, value)
    return result


def decode_ring(uint8_t[::1] consumer not None, const uint8_t[::1] producer not None, Py_ssize_t page_size,
                list layouts not None, dict processes not None, list out not None, Py_ssize_t limit):
    """Append up to ``limit`` records to ``out`` and free their room; return whether there are more.

    ``consumer`` is the first page of the map; ``producer`` the page behind it and the data, twice. ``layouts`` has a
    RecordLayout for each number of a probe. A record is (time stamp, cpu, thread, number, address, fields); ``processes``
    learns which process each thread belongs to. Raises FormatError with the position for what is no ring buffer.
    """
    cdef Py_ssize_t size, count = 0
    cdef uint64_t position, end, step, mask, both, before = 0
    cdef uint32_t header, length, number
    cdef const uint8_t* base
    cdef const uint8_t* data
    cdef RecordLayout layout
    if page_size <= 8 or consumer.shape[0] < 8 or producer.shape[0] <= page_size:
        raise FormatError("a BPF ring buffer that is too short", offset=0)
    size = (producer.shape[0] - page_size) // 2
    if size < 8 or size & (size - 1):
        raise FormatError("a BPF ring buffer whose size is no power of two", offset=0)
    mask = size - 1
    base = &producer[page_size]
    position = inlinetrace_load64(&consumer[0])
    end = inlinetrace_load64(&producer[0])
    try:
        while position < end and count < limit:
            if position & 7 or end - position > <uint64_t>size:
                raise FormatError("a BPF ring buffer out of step", offset=position)
            header = inlinetrace_load32(base + (position & mask))
            if header & BUSY:
                return False
            length = header & 0x3fffffff
            step = (<uint64_t>length + 8 + 7) & ~<uint64_t>7
            if step > end - position:
                raise FormatError("a record of a BPF ring buffer that is cut off", offset=position)
            if not header & DISCARDED:
                data = base + (position & mask) + 8
                if length < HEADER:
                    raise FormatError("a record of a BPF ring buffer that is too short", offset=position)
                number = word(data + NUMBER_AT)
                if number >= <uint32_t>len(layouts) or layouts[number] is None:
                    raise FormatError("a record of a BPF ring buffer of no probe", offset=position)
                layout = <RecordLayout?>layouts[number]
                if length < layout.end:
                    raise FormatError("a record of a BPF ring buffer that is too short", offset=position)
                both = quad(data + THREAD_AT)
                if both != before:
                    processes[<uint32_t>(both & 0xffffffff)] = <uint32_t>(both >> 32)
                    before = both
                out.append((quad(data + TIME_AT), <int>word(data + CPU_AT), <uint32_t>(both & 0xffffffff), number,
                            quad(data + ADDRESS_AT), fields_of(layout, data, length)))
                count += 1
            position += step
        return position < end
    finally:
        inlinetrace_store64(&consumer[0], position)
