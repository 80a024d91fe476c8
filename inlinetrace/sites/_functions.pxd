# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t

from inlinetrace.dwarf._dies cimport DieReader, Prototype
from inlinetrace.dwarf._lines cimport LineProgram
from inlinetrace.dwarf._map cimport Map

cdef class Source:
    cdef readonly object unit
    cdef readonly LineProgram lines
    cdef Map files

    cpdef object position(self, uint32_t file, uint32_t line, uint32_t column)

cdef class Sources:
    cdef readonly object dwarf
    cdef list known

    cpdef int forget(self) except -1
    cpdef Source of_unit(self, Py_ssize_t info, Py_ssize_t index)

cdef class Function:
    cdef readonly uint64_t key
    cdef readonly str name, return_type
    cdef readonly tuple parameters
    cdef readonly bint variadic, missing
    cdef readonly object declared
    cdef uint64_t* keys
    cdef uint32_t* positions
    cdef Py_ssize_t key_count
    cdef uint64_t returned
    cdef tuple passed

    cdef int reserve(self, Py_ssize_t count) except -1
    cdef int describe(self, dict index_of) except -1
    cdef Py_ssize_t position_of(self, uint64_t key) noexcept nogil

cdef class Functions:
    cdef readonly Sources sources
    cdef DieReader dies
    cdef list infos
    cdef Map functions
    cdef Map types

    cpdef Function function(self, uint64_t key)
    cdef Function read(self, uint64_t key)
    cdef Function read_chain(self, uint64_t key, Prototype first)
    cdef Function make(self, uint64_t key, object name, uint64_t return_type, tuple parameters, bint variadic,
                       object declared, bint missing)
    cdef tuple passed_in(self, Function function, object machine)
    cdef object declared_at(self, uint64_t key, uint32_t file, uint32_t line)
    cpdef object type_name(self, uint64_t key)
