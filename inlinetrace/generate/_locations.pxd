# cython: language_level=3
from libc.stdint cimport uint32_t, uint64_t

from inlinetrace.generate._expressions cimport Form
from inlinetrace.generate._tables cimport Table

# One site that is kept: its parameters are the slots from first_slot on, each 1 + index of a form or 0. The last two
# are for who puts the parts together.
cdef struct SiteItem:
    uint64_t address
    uint64_t origin
    uint64_t canonical       # where the chain of origins ends
    uint32_t first_slot
    uint32_t slot_count
    uint32_t section
    uint32_t function

cdef class FormTable:
    cdef Form* items
    cdef uint64_t count, capacity
    cdef Table numbers

    cdef uint32_t intern(self, const Form* form) except 0 nogil

cdef class Collected:
    cdef readonly FormTable forms
    cdef SiteItem* sites
    cdef uint64_t site_count, site_capacity
    cdef uint32_t* slots
    cdef uint64_t slot_count, slot_capacity
    # parameters that are doubtful if their address is jumped to: slot, address, form, doubt otherwise
    cdef list questions
    cdef uint64_t reasons[32]
    cdef uint64_t doubts[32]
    cdef readonly uint64_t transparent, without_address, of_other_languages, parameters
