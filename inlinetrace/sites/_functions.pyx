# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""Prototypes: what a function is called and takes, whichever of its entries one starts from; and source positions.

A copy refers to the abstract instance, that one perhaps to a declaration or, after link-time optimisation, to an entry
of another unit. The chain of these entries is one Function; its parameters are those of the entry that names them.
"""
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from inlinetrace.dwarf._dies cimport Prototype, Signature
from inlinetrace.dwarf._lines cimport LineProgram
from inlinetrace.dwarf._map cimport Map
from inlinetrace.dwarf._units cimport Info
from inlinetrace.sites._named cimport named

from inlinetrace.errors import FormatError
from inlinetrace.sites.model import CallSite, Encoding, TypeName, distinct

cdef enum:
    KEY_SHIFT = 44
    MAX_CHAIN = 8

cdef uint64_t OFFSET_MASK = 0x00000fffffffffffULL
# The key of an entry that stands in a file that is not there.
cdef uint64_t MISSING = 0xffffffffffffffffULL

cdef frozenset _INTEGERS = frozenset({
    Encoding.SIGNED, Encoding.UNSIGNED, Encoding.BOOL, Encoding.CHAR, Encoding.UCHAR, Encoding.POINTER, Encoding.ENUM,
})
cdef dict _ENCODINGS = {encoding.value: encoding for encoding in Encoding}


cdef class Source:
    """The line table of one unit, and the names of its files."""

    def __cinit__(self, unit, LineProgram lines):
        self.unit = unit
        self.lines = lines
        self.files = Map()

    cpdef object position(self, uint32_t file, uint32_t line, uint32_t column):
        """A CallSite by the numbers that an entry of the unit has for it; None where the line is unknown."""
        if not line:
            return None
        name = self.files.get(file)
        # file number 0 means "no file" before DWARF 5
        if name is None and self.lines is not None and (file or self.lines.version >= 5):
            name = self.lines.file_name(file)
            self.files.set(file, name)
        return named(CallSite, (name, line, column))


cdef class Sources:
    """The Source of each unit of ``dwarf`` (a DebugInfo), made once."""

    def __cinit__(self, dwarf):
        self.dwarf = dwarf
        self.forget()

    cpdef int forget(self) except -1:
        """Let go of all line tables."""
        self.dwarf.forget_lines()
        self.known = [[None] * info.count for info in self.dwarf.infos]
        return 0

    cpdef Source of_unit(self, Py_ssize_t info, Py_ssize_t index):
        """The Source of unit ``index`` of Info number ``info``."""
        cdef list units = <list>self.known[info]
        source = units[index]
        if source is None:
            unit = self.dwarf.unit(info, index)
            source = units[index] = Source(unit, self.dwarf.lines(unit))
        return <Source>source


cdef class Function:
    """A function as its prototype says it: ``parameters`` has a name and a TypeName for each.

    ``key`` is that of the entry at the end of the chain, the same for all copies that are of one definition.
    ``missing`` tells that the entry stands in a file that is not there.
    """

    def __dealloc__(self):
        free(self.keys)
        free(self.positions)

    cdef int reserve(self, Py_ssize_t count) except -1:
        """Make room for the keys of ``count`` entries."""
        if count:
            self.keys = <uint64_t*>malloc(count * sizeof(uint64_t))
            self.positions = <uint32_t*>malloc(count * sizeof(uint32_t))
            if self.keys == NULL or self.positions == NULL:
                raise MemoryError
        return 0

    cdef int describe(self, dict index_of) except -1:
        """Keep which parameter each entry is: ``index_of`` has positions by the keys of the entries."""
        cdef Py_ssize_t i = 0
        self.reserve(len(index_of))
        for key, position in index_of.items():
            self.keys[i] = key
            self.positions[i] = position
            i += 1
        self.key_count = i
        return 0

    cdef Py_ssize_t position_of(self, uint64_t key) noexcept nogil:
        cdef Py_ssize_t i
        for i in range(self.key_count):
            if self.keys[i] == key:
                return self.positions[i]
        return -1

    def index_of(self, uint64_t key):
        """Position of the parameter that the entry ``key`` describes, -1 if it describes none."""
        return self.position_of(key)


cdef class Functions:
    """Makes Functions and TypeNames from keys of entries; each is made once."""

    def __cinit__(self, dwarf, Sources sources):
        self.sources = sources
        self.dies = dwarf.dies
        self.infos = dwarf.infos
        self.functions = Map()
        self.types = Map()

    cpdef Function function(self, uint64_t key):
        """The Function that the entry ``key`` belongs to. Raises FormatError for an entry that cannot be read."""
        known = self.functions.get(key)
        if known is None:
            known = self.read(key)
            self.functions.set(key, known)
        return <Function>known

    cdef Function make(self, uint64_t key, object name, uint64_t return_type, tuple parameters, bint variadic,
                       object declared, bint missing):
        cdef Function made = Function.__new__(Function)
        made.key = key
        made.name = name or ""
        made.returned = return_type
        made.return_type = self.dies._text(return_type, 0) if key != MISSING else ""
        made.parameters = distinct(parameters) if len(parameters) > 1 else parameters
        made.variadic = variadic
        made.declared = declared
        made.missing = missing
        return made

    cdef Function read(self, uint64_t key):
        cdef Signature* said = &self.dies.signature
        cdef Function made
        cdef Py_ssize_t i
        cdef Info info
        if key == MISSING:
            return self.make(key, "", 0, (), False, None, True)
        self.dies.read_signature(key)
        if said.origin:
            return self.read_chain(key, self.dies.prototype(key))
        info = self.dies.info_of(key)
        parameters = ()
        if said.count:
            described = []
            for i in range(said.count):
                name = self.dies.name_at(info, key, said.formals[i].name) if said.formals[i].name else None
                described.append((name or f"arg{i}", self.type_name(said.formals[i].type)))
            parameters = tuple(described)
        made = self.make(
            key, self.dies.name_at(info, key, said.name) if said.name else None, said.return_type, parameters,
            said.variadic, self.declared_at(key, said.decl_file, said.decl_line), False,
        )
        made.reserve(said.count)
        for i in range(said.count):
            made.keys[i] = said.formals[i].key
            made.positions[i] = <uint32_t>i
        made.key_count = said.count
        return made

    cdef Function read_chain(self, uint64_t key, Prototype first):
        """Read a copy and what it refers to: the abstract instance, a declaration, an entry of another unit."""
        cdef Prototype level, chosen
        cdef Function made
        cdef Info info
        levels = [(key, first)]
        level = first
        while level.origin and level.origin != MISSING and len(levels) < MAX_CHAIN:
            origin = level.origin
            level = self.dies.prototype(origin)
            levels.append((origin, level))
        if level.origin and level.origin != MISSING:
            info = self.dies.info_of(key)
            raise FormatError("the origins of a function go round in a circle", path=info.path, section=info.section,
                              offset=key & OFFSET_MASK)
        chosen = first
        name = declared = None
        return_type = 0
        variadic = False
        for entry, step in levels:
            level = step
            for parameter in level.parameters:
                if parameter[1]:
                    chosen = level
                    break
            if not name and level.name:
                name = level.name
            if not return_type and level.return_type:
                return_type = level.return_type
            variadic = variadic or level.variadic
        for entry, step in levels:
            level = step
            if level.decl_line:
                declared = self.declared_at(entry, level.decl_file, level.decl_line)
                break
        index_of = {parameter[0]: position for position, parameter in enumerate(chosen.parameters)}
        for _, step in reversed(levels):
            level = step
            for position, (parameter_key, _, _, origin) in enumerate(level.parameters):
                if parameter_key in index_of:
                    continue
                if origin in index_of:
                    index_of[parameter_key] = index_of[origin]
                elif not origin and len(level.parameters) == len(chosen.parameters):
                    # a declaration and its definition list the same parameters
                    index_of[parameter_key] = position
        last_key, step = levels[len(levels) - 1]
        level = step
        parameters = tuple([
            (parameter[1] or f"arg{position}", self.type_name(parameter[2]))
            for position, parameter in enumerate(chosen.parameters)
        ])
        made = self.make(last_key, name, return_type, parameters, variadic, declared,
                         level.origin == MISSING and not name)
        made.describe(index_of)
        return made

    cdef tuple passed_in(self, Function function, object machine):
        """The register in which each parameter is passed: None if that is not known, -1 if it is in none.

        Known where everything up to it is an integer or a pointer that fills one register, and where no address for
        what is returned is passed before them.
        """
        cdef list found
        cdef tuple registers = machine.arguments
        cdef Py_ssize_t position
        if function.passed is not None:
            return function.passed
        found = [None] * len(function.parameters)
        if machine.by_position and registers and not (function.returned and self.type_name(function.returned).encoding in
                                                      (Encoding.AGGREGATE, Encoding.OTHER)):
            for position in range(len(found)):
                type_ = (<tuple>function.parameters[position])[1]
                if position >= len(registers):
                    found[position] = -1
                elif type_.encoding in _INTEGERS and 0 < type_.size <= machine.address_size:
                    found[position] = registers[position]
                else:
                    break
        function.passed = tuple(found)
        return function.passed

    cdef object declared_at(self, uint64_t key, uint32_t file, uint32_t line):
        cdef Py_ssize_t number = <Py_ssize_t>(key >> KEY_SHIFT)
        cdef Py_ssize_t index
        if key == MISSING or not line:
            return None
        index = (<Info>self.infos[number]).unit_index(key & OFFSET_MASK)
        if index < 0:
            return None
        return self.sources.of_unit(number, index).position(file, line, 0)

    cpdef object type_name(self, uint64_t key):
        """The TypeName of the type entry ``key``; key 0 is void."""
        known = self.types.get(key)
        if known is None:
            size, encoding, signed = (0, "other", False) if key == MISSING else self.dies._shape(key, 0)
            known = named(TypeName, (self.dies._text(key, 0), size, _ENCODINGS[encoding], signed, key))
            self.types.set(key, known)
        return known

    def forget(self):
        """Drop what was read: the next units have other entries."""
        self.functions.clear()
        self.types.clear()
        self.dies.forget()

    @property
    def known(self):
        """How many functions and types are kept."""
        return len(self.functions) + len(self.types)
