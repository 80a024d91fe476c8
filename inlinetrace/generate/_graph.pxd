# cython: language_level=3
"""The types of all units as one graph of cells.

A *node* is a record by its words. A *cell* is a type as it comes out: nearly always a node itself, but where a named
struct or union has several definitions, units that see one of them have cells of their own for what leads to it.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from inlinetrace.generate._collect cimport Collector, KeptFunction, KeptTag, KeptVariable, UnitSlice
from inlinetrace.generate._store cimport Names, Store, Words

cdef struct UnitPlace:
    uint64_t order           # Info above bit 32, unit below
    uint64_t first_key       # key of the unit's first byte
    uint32_t collector
    uint32_t slice
    uint32_t private         # 1 + number of its own cells' list, 0 if it has none
    uint64_t first_node
    uint64_t node_count

# The cells of one unit that has some of its own.
cdef struct Private:
    Words list               # cells in the order of the unit
    uint64_t function_count
    uint64_t variable_count
    uint32_t* prototypes     # by function of the unit: cell, 0 to take the node
    uint32_t* types          # by variable

cdef struct Selected:
    uint64_t address
    uint32_t name
    uint32_t prototype       # a cell
    uint32_t collector
    uint32_t index           # of the kept function
    uint32_t place
    uint32_t linkage

# What a collector keeps, to be read without the GIL.
cdef struct Held:
    uint32_t* nodes
    KeptFunction* functions
    uint64_t function_count
    KeptVariable* variables
    uint64_t variable_count
    KeptTag* tags
    uint64_t tag_count
    UnitSlice* slices

cdef struct Block:
    Block* next
    uint32_t used
    uint8_t data[65520]

cdef enum:
    # a tag has several definitions, or only the base declares what a unit defines
    HARD = 1
    SOFT = 2
    # private cells before the number of nodes is final
    PRIVATE = 0x40000000

cdef class Graph:
    cdef readonly list collectors
    cdef Store store
    cdef Names names
    cdef Block* blocks
    cdef uint32_t* memo_keys     # name words of the collectors that need no collector to be read
    cdef uint32_t* memo_values
    cdef uint64_t memo_mask, memo_count
    cdef Held* held              # by collector
    cdef uint32_t** maps         # by collector: node -> node of the graph
    cdef uint32_t map_count
    cdef UnitPlace* places
    cdef uint64_t place_count
    cdef uint32_t* enums         # name -> 1 + the only definition's node, NONE if there are several
    cdef uint64_t enum_names
    cdef uint64_t enum_changes   # how often what an enum's name means has changed
    cdef uint32_t* definitions   # 2 * name + is_union -> first definition's node
    cdef uint32_t* forwards      # the same -> node of the declaration
    cdef uint8_t* ambiguous      # the same -> HARD, SOFT
    cdef uint32_t tag_names      # how many names the three have room for
    cdef Words order             # cells in the order in which they come out
    cdef Words scratch
    cdef uint32_t* canon         # node -> the cell that stands for it
    cdef uint32_t* final         # cell -> cell that it is equal to
    cdef uint32_t cell_count
    cdef Words cell_node         # private cells, from store.count on: their nodes
    cdef Words cell_first        # first of their references
    cdef Words cell_refs
    cdef Private* privates
    cdef uint32_t private_count
    cdef uint32_t nodes_at_freeze
    cdef uint32_t index_node     # "int", which arrays are indexed with
    cdef uint32_t bad_name       # offset in .debug_str of the name that could not be had
    cdef readonly object base    # what keeps the bytes of the base alive
    cdef uint32_t base_end       # first id that the base does not have, 0 without one
    cdef uint32_t* base_node_of  # id -> node, 0 for what has none
    cdef uint32_t* base_cell_of  # id -> private cell, 0 for none
    cdef uint32_t* base_first    # id -> first of its references
    cdef Words base_refs         # ids
    cdef uint32_t* base_ids      # node -> lowest id
    cdef uint32_t base_nodes     # nodes that base_ids has room for
    cdef Words base_functions    # name, id of the prototype, id: one after the other

    cdef uint32_t name_of(self, Collector c, uint32_t word) noexcept nogil
    cdef uint32_t stored_text(self, const uint8_t* text, uint32_t length) noexcept nogil
    cdef int translate(self, Collector c, uint32_t* m) noexcept nogil
    cdef uint32_t* nodes_of(self, Collector c) except NULL
    cdef int _merge(self, list collectors) except -1
    cdef void _forget_maps(self) noexcept
    cdef int make_order(self) noexcept nogil
    cdef uint32_t node_of(self, uint32_t cell) noexcept nogil
    cdef const uint32_t* references_of(self, uint32_t cell) noexcept nogil
    cdef int _translate_names(self, Collector c, uint32_t* w) noexcept nogil
    cdef int _copy(self, Collector c, uint32_t node, uint32_t* n) noexcept nogil
    cdef int learn_enum(self, uint32_t name, uint32_t node) noexcept nogil
    cdef int _learn_enums(self, Collector c) noexcept nogil
    cdef int _room_for_tags(self) noexcept nogil
    cdef int _order_base(self, uint8_t* seen) noexcept nogil
    cdef int _see(self, uint32_t node, bint in_base) noexcept nogil
    cdef int _order_unit(self, UnitPlace* place, uint8_t* seen) noexcept nogil
    cdef int _slice(self, UnitPlace* place, uint32_t** nodes, uint64_t* count) noexcept nogil
    cdef int _check(self, int error) except -1
    cdef uint32_t target_of(self, uint32_t reference) noexcept nogil

cdef uint32_t reference_count(uint32_t head) noexcept nogil
cdef uint32_t reference_at(uint32_t head, uint32_t number) noexcept nogil
