# cython: language_level=3
"""What is known of the types of some units, for the modules that put it together."""
cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from inlinetrace.dwarf._cursor cimport Cursor
from inlinetrace.dwarf._forms cimport Abbreviations, UnitHeader, Value
from inlinetrace.dwarf._units cimport Info
from inlinetrace.generate._shapes cimport Shapes
from inlinetrace.generate._store cimport Names, Store, Words, push, room

cdef enum:
    KEY_SHIFT = 44

cdef enum:
    # kinds of records that are no kind of BTF
    R_UNDEFINED = 0
    R_PASS = 40          # means the type that it refers to
    R_VOID = 41

cdef enum:
    # a reference that is not resolved yet: 0 for void, an offset from the unit's start, or a record with this bit
    REF_RECORD = 0x80000000
    UNRESOLVED = 0xffffffff

cdef enum:
    # the names of a thread, 0 for none: offset in .debug_str + 1, up to three bytes, or a number in its table
    NAME_PACKED = 0x20000000
    NAME_NUMBER = 0x21000000
    NAME_LIMIT = 0x3ffffff0

cdef enum:
    F_DECLARATION = 1
    F_ODD = 2            # an integer that no C type has
    F_BITS_UNPLACED = 4  # some member's place depends on the size of its type
    F_VARIADIC = 8
    F_EXTERNAL = 16
    F_CODE = 32          # has instructions of its own
    F_ABSTRACT = 64      # says that it may be inlined
    F_NAMELESS = 128     # a parameter has no name
    F_SIGNED = 256
    F_REORDERED = 512    # its own parameters stand in another order than those of what it is an instance of
    F_ASSEMBLER = 2048   # its unit knows no prototypes
    F_UNEXPECTED = 1024  # a parameter is not where a caller puts it

cdef struct Record:
    uint64_t key             # where the entry is, for messages and look-ups
    uint32_t name
    uint32_t reference
    uint32_t size            # bytes; number of elements of an array
    uint32_t first           # its items
    uint32_t last
    uint32_t count
    uint32_t word            # what refers to it writes this
    uint32_t node
    uint16_t flags
    uint8_t kind
    uint8_t state

cdef struct Item:
    uint64_t key
    uint64_t value           # bit offset of a member, value of an enumerator, origin of a parameter
    uint32_t name
    uint32_t reference
    uint64_t location        # of a parameter, as ROLE_LOCATION
    uint32_t bits            # of a bitfield
    uint32_t next

cdef struct Function:
    uint64_t key
    uint64_t address
    uint64_t origin          # key of the entry that describes it, 0 if it does so itself
    uint32_t name
    uint32_t reference       # return type
    uint32_t first
    uint32_t last
    uint32_t count
    uint32_t flags

cdef struct Variable:
    uint64_t key
    uint64_t address
    uint64_t origin
    uint32_t name
    uint32_t reference
    uint32_t flags

cdef struct Note:
    uint64_t key             # DW_TAG_GNU_annotation
    uint64_t next            # key of the next one of the chain, 0 for none
    uint32_t name
    uint32_t value

cdef struct NoteUse:
    uint64_t first           # key of the first Note of the chain
    uint64_t key             # of the entry that refers to it
    uint32_t owner           # as of an Annotation
    int32_t component

cdef struct Annotation:
    uint32_t owner           # what stands above it, as in levels
    int32_t component
    uint32_t name
    uint32_t value

# What stays of a unit when the next one is read.
cdef struct KeptFunction:
    uint64_t key
    uint64_t address
    uint32_t name
    uint32_t prototype       # a node
    uint32_t described       # index of the function whose parameters it has
    uint32_t flags

cdef struct KeptVariable:
    uint64_t key
    uint64_t address
    uint64_t size
    uint32_t name
    uint32_t node            # word of its type
    uint32_t reference
    uint32_t flags

cdef struct KeptTag:
    uint32_t function        # 1 + index of the kept function, 0: of the kept variable
    uint32_t variable
    uint32_t name
    int32_t component

cdef struct UnitSlice:
    uint32_t info
    uint32_t unit
    uint64_t first_node
    uint64_t node_count
    uint64_t first_function
    uint64_t function_count
    uint64_t first_variable
    uint64_t variable_count

cdef enum:
    # what an open entry is for those below it, in the top bits; an index in the others
    OWN_SHIFT = 28
    OWN_INDEX = 0x0fffffff
    OWN_NONE = 0
    OWN_UNIT = 1
    OWN_RECORD = 2
    OWN_FUNCTION = 3
    OWN_ITEM = 4
    OWN_VARIABLE = 5

cdef enum:
    ERR_MEMORY = -1
    ERR_SIBLING = 33
    ERR_INDEX = 34
    ERR_FOREIGN = 35         # a reference to another unit, where none was expected
    ERR_NO_TYPE = 36
    ERR_CYCLE = 37
    ERR_TOO_LARGE = 38
    ERR_STRING_AT = 39
    ERR_SUPPLEMENT = 40
    ERR_SIGNATURE = 41
    ERR_MANY = 42
    ERR_NOTE = 43            # DW_AT_GNU_annotation leads to no annotation
    ERR_NOTE_CYCLE = 44

@cython.final
cdef class Collector:
    cdef readonly list infos
    cdef readonly bint joint
    cdef bint floats, enum64s, decl_tags, type_tags
    cdef frozenset excluded
    cdef Store store
    cdef Names names
    cdef Abbreviations table
    cdef Shapes shapes
    cdef Record* records
    cdef uint64_t record_count, record_capacity
    cdef Item* items
    cdef uint64_t item_count, item_capacity
    cdef Function* functions
    cdef uint64_t function_count, function_capacity
    cdef Variable* variables
    cdef uint64_t variable_count, variable_capacity
    cdef Annotation* annotations
    cdef uint64_t annotation_count, annotation_capacity
    cdef Note* notes
    cdef uint64_t note_count, note_capacity
    cdef NoteUse* note_uses
    cdef uint64_t note_use_count, note_use_capacity
    cdef uint32_t* map           # offset in the unit -> index of the record, item or function that stands there
    cdef uint64_t map_capacity
    cdef uint64_t* keys          # joint: the same for all units, an open table
    cdef uint32_t* key_values
    cdef uint64_t key_mask, key_count
    cdef uint64_t* signatures    # joint: pairs of signature and key, sorted
    cdef uint64_t signature_count
    cdef Words levels, stack, scratch, nodes
    cdef KeptFunction* kept_functions
    cdef uint64_t kept_function_count, kept_function_capacity
    cdef KeptVariable* kept_variables
    cdef uint64_t kept_variable_count, kept_variable_capacity
    cdef KeptTag* kept_tags
    cdef uint64_t kept_tag_count, kept_tag_capacity
    cdef UnitSlice* slices
    cdef uint64_t slice_count, slice_capacity
    cdef Info info
    cdef Info main               # names that are offsets count in its .debug_str
    cdef UnitHeader* unit
    cdef Cursor cursor
    cdef uint8_t registers[16]   # DWARF numbers of those that parameters are passed in
    cdef int register_count
    cdef const uint8_t* loclists # what lists of locations are read from
    cdef uint64_t loclists_size
    cdef const uint8_t* locations
    cdef uint64_t locations_size
    cdef const uint8_t* abbrev_data
    cdef uint64_t abbrev_size
    cdef uint64_t unit_key       # of the unit's first byte
    cdef uint32_t info_number, unit_number, language
    cdef int64_t alternate_number
    cdef bint own_strings        # the Info has the .debug_str of main
    cdef uint64_t error_at
    cdef bint error_in_abbrev
    cdef bint lacks_supplement
    cdef readonly uint64_t entries

    cdef bint lazily             # entries are read one by one, as they are referred to
    cdef Words pending           # offsets in the unit that wait to be read

    cdef uint32_t name_of(self, Value* value) noexcept nogil
    cdef uint32_t name_of_text(self, const uint8_t* text, uint64_t length) noexcept nogil
    cdef const uint8_t* text_of(self, uint32_t name, uint32_t* length, uint8_t* buffer) noexcept nogil
    cdef inline int64_t index_of(self, uint64_t key) noexcept nogil:
        """What set_index said of the entry ``key`` (of this unit, if not joint); the caller checks that it is right."""
        if self.joint:
            return self.joint_index_of(key)
        if key - self.unit_key >= self.unit.end - self.unit.offset:
            return -1
        return self.map[key - self.unit_key]

    cdef inline int64_t record_of(self, uint32_t reference) noexcept nogil:
        """Index of the record that a reference means, -1 if there is none."""
        cdef int64_t index
        if reference & <uint32_t>REF_RECORD:
            index = reference & 0x7fffffff
            return index if <uint64_t>index < self.record_count and self.records[index].kind != R_UNDEFINED else -1
        if reference >= self.unit.end - self.unit.offset:
            return -1
        index = self.map[reference]
        if <uint64_t>index < self.record_count and self.records[index].key == self.unit_key + reference:
            return index
        return -1

    cdef int64_t joint_index_of(self, uint64_t key) noexcept nogil
    cdef inline int set_index(self, uint64_t key, uint32_t index) noexcept nogil:
        if self.joint:
            return self.set_joint_index(key, index)
        self.map[key - self.unit_key] = index
        return 0

    cdef int set_joint_index(self, uint64_t key, uint32_t index) noexcept nogil
    cdef inline uint32_t reference_to(self, uint64_t key) noexcept nogil:
        """How records refer to the type entry ``key``; UNRESOLVED if that cannot be."""
        cdef int64_t index
        if self.joint:
            index = self.new_record(key)
            return <uint32_t>UNRESOLVED if index < 0 else <uint32_t>index | <uint32_t>REF_RECORD
        if self.lazily and push(&self.pending, <uint32_t>(key - self.unit_key)):
            return <uint32_t>UNRESOLVED
        return <uint32_t>(key - self.unit_key)

    cdef inline int64_t new_record(self, uint64_t key) noexcept nogil:
        """Index of the record of an entry, made if it is new; -1 without memory."""
        cdef Record* r
        cdef int64_t known
        if self.joint:
            known = self.index_of(key)
            if known >= 0 and <uint64_t>known < self.record_count and self.records[known].key == key:
                return known
        if room(<void**>&self.records, &self.record_capacity, self.record_count, sizeof(Record)):
            return -1
        r = &self.records[self.record_count]
        memset(r, 0, sizeof(Record))
        r.key = key
        r.word = <uint32_t>UNRESOLVED
        if self.set_index(key, <uint32_t>self.record_count):
            return -1
        self.record_count += 1
        return <int64_t>self.record_count - 1

    cdef inline Item* new_item(self, uint32_t* first, uint32_t* last, uint32_t* count) noexcept nogil:
        """A new item at the end of an owner's chain; NULL without memory. Chains are of indexes + 1."""
        cdef Item* item
        if room(<void**>&self.items, &self.item_capacity, self.item_count, sizeof(Item)):
            return NULL
        item = &self.items[self.item_count]
        memset(item, 0, sizeof(Item))
        self.item_count += 1
        if count[0] == 0:
            first[0] = <uint32_t>self.item_count
        else:
            self.items[last[0] - 1].next = <uint32_t>self.item_count
        last[0] = <uint32_t>self.item_count
        count[0] += 1
        return item

    cdef int _enter(self, Info info, uint32_t number) except -1
    cdef int _unit(self, Py_ssize_t index) noexcept nogil
    cdef int _raise(self, int error) except -1
