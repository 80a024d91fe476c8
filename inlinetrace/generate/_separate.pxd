# cython: language_level=3
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from inlinetrace.generate._store cimport Words

# One unit as a graph of its entries; references in the order of a node's own.
cdef struct Local:
    uint32_t count
    uint32_t* node           # of the graph, 0 for what is no type of its own
    uint64_t* first          # first reference; count + 1 entries
    Words target             # 1 + entry that is meant, 0 if word says it
    Words word               # as a node of the graph refers to it
    uint8_t* reach           # HARD, SOFT
    uint32_t* cell           # private cell, 0 for none
