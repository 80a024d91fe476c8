# cython: language_level=3
"""Strings and ids of the records, for the other passes of deduplication."""
from inlinetrace.btf._dedup_state cimport Dedup

cdef object new_strings(Dedup* d)
