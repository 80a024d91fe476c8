# cython: language_level=3, boundscheck=True, wraparound=False, cdivision=True, initializedcheck=False
"""What a listing does for every row: count it, and write it as JSON.

JSON is put together from pieces that are made once (quoted names, locations) because the rows are many and the pieces
few; the text is what json.dumps(..., ensure_ascii=False) gives for the same keys.
"""
from libc.stdint cimport uint64_t

from inlinetrace.dwarf._map cimport Map

from inlinetrace.sites.location import Location
from inlinetrace.sites.reasons import Compiler, Doubt, Mark

cdef enum:
    SYMBOL
    SECTION
    MODULE
    SOURCE
    RETURN_TYPE
    CONTAINER
    CALL
    DECLARED
    COLUMNS

cdef object _GCC = Compiler.GCC
cdef dict _DOUBTS = {id(doubt): f', "doubt": "{doubt.value}"' for doubt in Doubt}
cdef dict _COMPILERS = {id(compiler): f'"{compiler.value}"' for compiler in Compiler}
cdef dict _MARKS = {id(mark): f'"{mark.value}"' for mark in Mark}


cdef class Counts:
    """How many copies of a function were listed: ``addresses`` are those of inlined sites, each counted once."""

    cdef readonly Py_ssize_t out_of_line, inlined, addresses, parameters, available, doubtful
    cdef object last

    cdef int add(self, tuple site) except -1:
        if not site[1]:
            self.out_of_line += 1
            return 0
        self.inlined += 1
        if self.last is None or self.last != site[2]:
            self.last = site[2]
            self.addresses += 1
        for parameter in <tuple>site[8]:
            self.parameters += 1
            if type((<tuple>parameter)[2]) is Location:
                self.available += 1
            if (<tuple>parameter)[3] is not None:
                self.doubtful += 1
        return 0


cdef class Tally:
    """Counts the Sites of a listing, which come in the order of their addresses: all of them, and by function."""

    cdef readonly Counts total
    cdef readonly dict functions
    cdef readonly Py_ssize_t shown
    cdef readonly Py_ssize_t not_gcc

    def __cinit__(self):
        self.total = Counts()
        self.functions = {}

    def add(self, site not None):
        """Count a Site that is listed."""
        cdef tuple fields
        if not isinstance(site, tuple):
            raise TypeError("not a Site")
        fields = <tuple>site
        counts = self.functions.get(fields[0])
        if counts is None:
            counts = self.functions[fields[0]] = Counts()
        (<Counts>counts).add(fields)
        self.total.add(fields)
        self.shown += 1
        if fields[1] and fields[16] is not _GCC and fields[18] == "dwarf":
            self.not_gcc += 1


cdef class JsonLines:
    """Sites as JSON objects of one line.

    ``text_of(location, type_name)`` gives the text of a Location, ``kind_of(section)`` the word for what the addresses
    in a section are.
    """

    cdef object text_of, kind_of, encode
    cdef dict quoted, kinds
    cdef Map tails
    # what the row before had in each column, and its quoted text: neighbours have much in common
    cdef list recent
    cdef list recent_quoted

    def __cinit__(self, text_of, kind_of):
        # a listing as text does without it
        from json.encoder import encode_basestring

        self.encode = encode_basestring
        self.text_of = text_of
        self.kind_of = kind_of
        self.quoted = {}
        self.kinds = {}
        # by identity: locations are shared and kept by their reader, and dear to hash
        self.tails = Map()
        self.recent = [None] * COLUMNS
        self.recent_quoted = ["null"] * COLUMNS

    cdef str quote(self, object text):
        if text is None:
            return "null"
        known = self.quoted.get(text)
        if known is None:
            known = self.quoted[text] = self.encode(text)
        return <str>known

    cdef str column(self, Py_ssize_t number, object text):
        """As quote, for the column ``number`` of a row."""
        if text is not self.recent[number]:
            self.recent_quoted[number] = self.quote(text)
            self.recent[number] = text
        return <str>self.recent_quoted[number]

    cdef str kind(self, object section):
        known = self.kinds.get(section)
        if known is None:
            known = self.kinds[section] = self.encode(self.kind_of(section))
        return <str>known

    cdef str position(self, Py_ssize_t number, object call):
        if call is None:
            return "null"
        file = self.column(number, (<tuple>call)[0])
        return f'{{"file": {file}, "line": {(<tuple>call)[1]}, "column": {(<tuple>call)[2] or "null"}}}'

    cdef str tail(self, tuple parameter):
        """The keys of a parameter that tell its location."""
        location = parameter[2]
        type_name = <tuple>parameter[1]
        key = <uint64_t><size_t><void*>location << 1 | <bint>type_name[3]
        known = self.tails.get(key)
        if known is None:
            if type(location) is Location:
                text = f'"location": {self.encode(self.text_of(location, parameter[1]))}'
            else:
                text = f'"unavailable": {self.encode(location.reason.value)}'
                if location.detail:
                    text += f', "detail": {self.encode(location.detail)}'
            known = (text, location)
            self.tails.set(key, known)
        return <str>(<tuple>known)[0]

    cdef str parameters(self, tuple parameters):
        cdef tuple parameter
        cdef str tail, doubt
        if not parameters:
            return ""
        texts = []
        for each in parameters:
            parameter = <tuple>each
            tail = self.tail(parameter)
            doubt = ""
            if parameter[3] is not None and type(parameter[2]) is Location:
                doubt = <str>_DOUBTS[id(parameter[3])]
            texts.append(
                f'{{"name": {self.quote(parameter[0])}, "type": {self.quote((<tuple>parameter[1])[0])}, {tail}{doubt}}}'
            )
        return ", ".join(texts)

    def line(self, site not None):
        """The JSON object of a Site, without a line end."""
        cdef tuple s
        cdef str inlined_into, marks
        if not isinstance(site, tuple):
            raise TypeError("not a Site")
        s = <tuple>site
        (function, inlined, address, section, section_offset, symbol, symbol_offset, return_type, parameters, variadic,
         call, chain, container, copy, declared, marked, compiler, module, source) = s
        if chain:
            frames = [self.quote((<tuple>frame)[0]) for frame in <tuple>chain]
            if container is not None:
                frames.append(self.column(CONTAINER, container))
            inlined_into = ", ".join(frames)
        else:
            inlined_into = "" if container is None else self.column(CONTAINER, container)
        marks = ", ".join([<str>_MARKS[id(mark)] for mark in <tuple>marked]) if marked else ""
        return (
            f'{{"function": {self.quote(function)}, "inlined": {"true" if inlined else "false"}, '
            f'"address": "0x{<uint64_t>address:x}", "symbol": {self.column(SYMBOL, symbol)}, '
            f'"symbol_offset": {"null" if symbol_offset is None else symbol_offset}, '
            f'"section": {self.column(SECTION, section)}, '
            f'"section_offset": {"null" if section_offset is None else section_offset}, '
            f'"inlined_into": [{inlined_into}], "call": {self.position(CALL, call)}, "module": {self.column(MODULE, module)}, '
            f'"source": {self.column(SOURCE, source)}, "parameters": [{self.parameters(<tuple>parameters)}], '
            f'"return_type": {self.column(RETURN_TYPE, return_type)}, "variadic": {"true" if variadic else "false"}, '
            f'"copy": {self.quote(copy)}, "declared": {self.position(DECLARED, declared)}, "marks": [{marks}], '
            f'"compiler": {_COMPILERS[id(compiler)]}, "address_kind": {self.kind(section)}}}'
        )
