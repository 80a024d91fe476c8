# cython: language_level=3
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

cdef struct Slot:
    uint64_t key
    PyObject* value          # owned; NULL in a free slot

cdef class Map:
    cdef Slot* slots
    cdef uint64_t mask
    cdef Py_ssize_t count

    cdef inline uint64_t slot_of(self, uint64_t key) noexcept nogil:
        """Index of the slot that has ``key``, or of the free one where it belongs."""
        cdef uint64_t i = ((key ^ (key >> 32)) * 0x9e3779b97f4a7c15ULL) >> 24 & self.mask
        while self.slots[i].value != NULL and self.slots[i].key != key:
            i = (i + 1) & self.mask
        return i

    cdef inline object get(self, uint64_t key):
        """The object of ``key``, None if there is none."""
        cdef PyObject* value
        if self.count == 0:
            return None
        value = self.slots[self.slot_of(key)].value
        return None if value == NULL else <object>value

    cdef int set(self, uint64_t key, object value) except -1
    cdef int grow(self) except -1
    cdef int clear(self) except -1
