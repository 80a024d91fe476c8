"""The model: a Site and its Parameters. Pure data, the same whether it was read from DWARF or from BTF.

Named tuples: a kernel has 350,000 rows with 600,000 parameters, and a frozen dataclass takes five times as long to
make.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from inlinetrace.sites.location import Location
from inlinetrace.sites.reasons import Compiler, Doubt, Mark
from inlinetrace.sites.reasons import Unavailable as Unavailable


class Encoding(enum.Enum):
    """How the bytes of a value are to be read."""

    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"
    CHAR = "char"
    UCHAR = "uchar"
    FLOAT = "float"
    POINTER = "pointer"
    ENUM = "enum"
    AGGREGATE = "aggregate"
    OTHER = "other"


class TypeName(NamedTuple):
    """A parameter's type as far as listing and cutting a value need it.

    ``text`` is C source (``struct file *``); ``size`` is in bytes, 0 where unknown; ``encoding`` is that of the type
    below typedefs and qualifiers; ``signed`` tells it for integers and enums; ``die`` is the type's offset in
    .debug_info (DWARF) or its id (BTF), for whoever wants members or enumerators.
    """

    text: str
    size: int
    encoding: Encoding
    signed: bool
    die: int


def distinct(parameters: tuple[tuple[str, TypeName], ...]) -> tuple[tuple[str, TypeName], ...]:
    """Names and types of parameters with names to tell them by: ``v``, ``v#2``, ``v#3`` of a C++ pack ``v``."""
    if len({name for name, _ in parameters}) == len(parameters):
        return parameters
    seen: dict[str, int] = {}
    result = []
    for name, type_ in parameters:
        seen[name] = number = seen.get(name, 0) + 1
        result.append((name if number == 1 else f"{name}#{number}", type_))
    return tuple(result)


class Parameter(NamedTuple):
    """One parameter of the prototype, with its location at the site or the reason why there is none."""

    name: str
    type: TypeName
    location: Location | Unavailable
    doubt: Doubt | None = None

    @property
    def available(self) -> bool:
        """True if there is a location, doubtful or not."""
        return isinstance(self.location, Location)


class CallSite(NamedTuple):
    """Where in the source the call stands; a line or column of 0 is unknown."""

    file: str | None
    line: int
    column: int


class InlineFrame(NamedTuple):
    """One level of the inline chain: the function and where it was called."""

    function: str
    call: CallSite | None


class Site(NamedTuple):
    """One inlined copy (``inlined``), or one out-of-line copy, of a function.

    ``address`` is a link-time address, in a relocatable object the offset in the section. ``chain`` has the inlined
    functions around the site, innermost first; ``container`` is the function all of them were inlined into (None
    for out-of-line copies and where it is unknown). ``symbol`` and ``symbol_offset`` come from the symbol table.
    ``copy`` is the name of an out-of-line copy where it has a suffix (``foo.isra.0``).
    """

    function: str
    inlined: bool
    address: int
    section: str | None
    section_offset: int | None
    symbol: str | None
    symbol_offset: int | None
    return_type: str
    parameters: tuple[Parameter, ...]
    variadic: bool = False
    call: CallSite | None = None
    chain: tuple[InlineFrame, ...] = ()
    container: str | None = None
    copy: str | None = None
    declared: CallSite | None = None
    marks: tuple[Mark, ...] = ()
    compiler: Compiler = Compiler.OTHER
    module: str | None = None
    source: str = "dwarf"
