# cython: language_level=3
"""Equivalence of type graphs, for the other passes of deduplication."""
from libc.stdint cimport uint32_t

from inlinetrace.btf._dedup_state cimport Dedup

cdef void forget(Dedup* d) noexcept nogil
cdef int equivalent(Dedup* d, uint32_t candidate, uint32_t canonical) noexcept nogil
cdef void keep_hypothesis(Dedup* d) noexcept nogil
cdef bint same_shape(const Dedup* d, uint32_t first, uint32_t second) noexcept nogil
