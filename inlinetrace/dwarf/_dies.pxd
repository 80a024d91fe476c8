# cython: language_level=3
from libc.stdint cimport int64_t, uint32_t, uint64_t

from inlinetrace.dwarf._forms cimport Abbreviations, UnitHeader, Value
from inlinetrace.dwarf._map cimport Map
from inlinetrace.dwarf._units cimport Info

cdef struct Entry:
    uint64_t offset
    uint64_t next            # offset behind the attributes: the first child, or the next sibling
    uint64_t name            # packed string reference
    uint64_t type            # key, valid if has_type
    uint64_t origin          # key of the abstract origin, 0 without
    uint64_t signature       # key of the type in a unit of its own that this stands for, 0 without
    uint64_t byte_size
    uint64_t encoding
    uint64_t sibling
    int64_t count            # of a subrange; -1 unknown
    int64_t const_value
    uint32_t tag
    bint children
    bint has_name
    bint has_type
    bint has_size
    bint missing_type        # its type stands in a file that is not there
    bint declaration
    bint null

cdef struct Formal:
    uint64_t key             # of its entry
    uint64_t name            # packed string reference, 0 without
    uint64_t type            # key, 0 without
    uint64_t origin          # key, 0 without

# What a function's entry itself says; keys and packed string references, 0 where absent.
cdef struct Signature:
    uint64_t name
    uint64_t linkage_name
    uint64_t return_type
    uint64_t origin          # abstract origin or specification
    uint32_t decl_file
    uint32_t decl_line
    bint variadic
    bint external
    Formal* formals
    Py_ssize_t count
    uint64_t capacity

cdef class Prototype:
    cdef readonly object name, linkage_name
    cdef readonly uint64_t return_type, origin
    cdef readonly uint32_t decl_file, decl_line
    cdef readonly bint variadic, external
    cdef readonly tuple parameters

cdef class DieReader:
    cdef readonly list infos
    cdef Abbreviations table
    cdef object table_info
    cdef Map texts
    cdef Map shapes
    cdef dict simple
    cdef list names
    cdef Signature signature

    cdef Info info_of(self, uint64_t key)
    cdef UnitHeader* open_unit(self, Info info, uint64_t offset) except NULL
    cdef uint64_t target(self, Info info, Value* value, uint64_t key) except? 0xffffffffffffffff
    cdef int read(self, Info info, UnitHeader* unit, uint64_t key, Entry* entry) except -1
    cdef Info read_type(self, uint64_t* key, UnitHeader** unit, Entry* entry)
    cdef uint64_t after(self, Info info, UnitHeader* unit, Entry* entry, uint64_t key) except 0
    cdef object name_at(self, Info info, uint64_t key, uint64_t reference)
    cdef int read_signature(self, uint64_t key) except -1
    cdef int more_formals(self) except -1
    cpdef Prototype prototype(self, uint64_t key)
    cdef str _text(self, uint64_t key, int nesting)
    cdef str _simple_text(self, uint64_t key)
    cdef str _base_name(self, Info info, Entry* entry, uint64_t key)
    cdef str _dimensions(self, Info info, UnitHeader* unit, uint64_t key, Entry* array)
    cdef str _signature(self, Info info, uint64_t key, int nesting)
    cdef tuple _shape(self, uint64_t key, int nesting)
    cdef bint _has_negative(self, Info info, UnitHeader* unit, uint64_t key, Entry* enumeration) except -1
    cdef object _array_size(self, Info info, UnitHeader* unit, uint64_t key, Entry* array, int nesting)
