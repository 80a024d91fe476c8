# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A dictionary from 64-bit numbers (offsets, keys of entries) to objects, for other compiled modules."""
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t


cdef class Map:
    """Open addressing with linear probing; nothing is ever taken out but by ``clear``."""

    def __dealloc__(self):
        self.clear()

    def __len__(self):
        return self.count

    cdef int set(self, uint64_t key, object value) except -1:
        """Let ``key`` lead to ``value``."""
        cdef uint64_t i
        cdef PyObject* old
        if 2 * <uint64_t>(self.count + 1) > self.mask:
            self.grow()
        i = self.slot_of(key)
        old = self.slots[i].value
        Py_INCREF(value)
        self.slots[i].key = key
        self.slots[i].value = <PyObject*>value
        if old == NULL:
            self.count += 1
        else:
            Py_XDECREF(old)
        return 0

    cdef int grow(self) except -1:
        cdef uint64_t old_size = self.mask + 1 if self.slots != NULL else 0
        cdef uint64_t size = 2 * old_size if old_size else 64
        cdef Slot* old = self.slots
        cdef Slot* slots = <Slot*>PyMem_RawCalloc(size, sizeof(Slot))
        cdef uint64_t i
        if slots == NULL:
            raise MemoryError
        self.slots = slots
        self.mask = size - 1
        for i in range(old_size):
            if old[i].value != NULL:
                slots[self.slot_of(old[i].key)] = old[i]
        PyMem_RawFree(old)
        return 0

    cdef int clear(self) except -1:
        """Let go of all objects."""
        cdef uint64_t i, size = self.mask + 1 if self.slots != NULL else 0
        cdef Slot* slots = self.slots
        self.slots = NULL
        self.mask = 0
        self.count = 0
        for i in range(size):
            Py_XDECREF(slots[i].value)
        PyMem_RawFree(slots)
        return 0
