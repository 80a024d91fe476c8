"""Sites from BTF location info: the same model as from DWARF, from ``vmlinux.inline`` and its like.

>>> elf = ElfFile.open("vmlinux")
>>> sites = BtfSites(load("vmlinux.inline", ["vmlinux"]), elf.machine, surroundings=ElfSurroundings(elf))
>>> for site in sites.build(sites.select(["vfs_llseek"])): ...

BTF names neither the caller nor the section's address: both come from the symbol table of the file or of the running
kernel, given as ``surroundings``. Without them the address of a site is its offset in its section.

What an offset counts from is not written anywhere, and the postings differ: the start of the section, or of the
image. It is decided by evidence: sites must lie in functions. ``offset_base`` forces it.

What BTF cannot say: why a parameter has no location (``Reason.NO_FORM``), where the call stands in the source, the
chain of inlined functions, what the frame base is at a site (``Reason.NO_FRAME``). Register locations of the RFC of
October 2025 are doubtful, because its encoder lost whether the value is in the register or in memory.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from inlinetrace.btf._types import (
    Array,
    Composite,
    Enum,
    Float,
    Func,
    FuncProto,
    Int,
    LocParam,
    LocProto,
    Ptr,
    RfcLocParam,
    Type,
)
from inlinetrace.btf.c_declarator import Declarators
from inlinetrace.btf.kinds import (
    FRAME_BASE,
    INT_BOOL,
    INT_CHAR,
    RFC_CONTINUE,
    RFC_DEREF,
    RFC_FRAME_BASE,
    Dialect,
    Kind,
    LocFlag,
    legal_location,
)
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, MismatchError, NotFoundError
from inlinetrace.globs import divide
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Encoding, Parameter, Site, TypeName, distinct
from inlinetrace.sites.reasons import Doubt, Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.machine import Machine

_SAMPLED = 500
_QUALIFIED_POINTER = re.compile(r"\* (const|volatile|restrict)\b(?: (?=\)))?")
_PART = re.compile(r"\.(part|cold)\b")


class OffsetBase(enum.Enum):
    """What the offsets of a LOCSEC count from."""

    SECTION = "section"
    IMAGE = "image"


class SectionAddress(NamedTuple):
    """Where a section is: its address and size in bytes."""

    address: int
    size: int


class Copy(NamedTuple):
    """A function with code of its own: its symbol (``foo.isra.0``), section and address."""

    symbol: str
    section: str
    address: int


class Surroundings(Protocol):
    """What BTF does not know of the program: where sections and functions are."""

    @property
    def sections(self) -> Mapping[str, SectionAddress]:
        """The code sections by name."""

    @property
    def image_base(self) -> int | None:
        """Start of the image (``_text``), None where that means nothing."""

    def symbol(self, address: int) -> tuple[str, int] | None:
        """Name of the function around an address, and the offset in it."""

    def copies(self, name: str) -> list[Copy]:
        """The functions with this name, suffixed ones too."""


def start_of_image(program: ElfFile, *others: ElfFile) -> int | None:
    """Where addresses and offsets from the image count from: ``_text``, else the start of ``.text``.

    ``others`` may have the symbols that ``program`` lacks. None for a relocatable file: its sections are put anywhere.
    """
    if program.relocatable:
        return None
    for elf in (program, *others):
        for symbol in elf.symbols().named("_text"):
            return symbol.address
    text = program.section(".text")
    return text.address if text is not None and text.executable else None


def is_copy(symbol: str, function: str) -> bool:
    """Whether a symbol ``function`` or ``function.*`` is a copy and not a part of one (``.part.0``, ``.cold``)."""
    return _PART.search(symbol[len(function) :]) is None


class ElfSurroundings:
    """Sections and symbols of an ELF file."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self.sections = {
            section.name: SectionAddress(section.address, section.size)
            for section in reversed(elf.sections)
            if section.executable
        }

    @property
    def image_base(self) -> int | None:
        """See start_of_image."""
        return start_of_image(self._elf)

    def symbol(self, address: int) -> tuple[str, int] | None:
        """See Surroundings."""
        return self._elf.symbols().name_and_offset(address)

    def copies(self, name: str) -> list[Copy]:
        """See Surroundings. Parts (``.part.0``, ``.cold``) are no copies."""
        table = self._elf.symbols()
        found = [
            symbol for symbol in [*table.named(name), *table.names_starting_with(name + ".")] if symbol.is_function
        ]
        sections = self._elf.sections
        return [
            Copy(symbol.name, sections[symbol.section_index].name, symbol.address)
            for symbol in found
            if 0 < symbol.section_index < len(sections) and is_copy(symbol.name, name)
        ]


class Row(NamedTuple):
    """One site before it is built: function (FUNC id, or string offset in the RFC), LOC_PROTO and FUNC_PROTO id."""

    section: str
    offset: int
    function: int
    loc_proto: int
    func_proto: int


class _Function(NamedTuple):
    """What all sites of one function share."""

    name: str
    return_type: str
    parameters: tuple[tuple[str, TypeName], ...]
    variadic: bool


class BtfSites:
    """The sites of one object with location info.

    ``btf`` holds the LOC kinds, on its bases. ``surroundings`` knows sections and symbols (``ElfSurroundings``);
    without it there are no addresses, callers and out-of-line copies. ``image_base`` is the address that address
    constants, and offsets from the image, count from, if it is not the one of ``surroundings``. ``section_offsets``:
    Site.address is the offset in the section, as it is for a relocatable file. ``module`` goes into every Site.

    Errors: NotFoundError for an object without location info, MismatchError for one on other types than its own.
    """

    def __init__(
        self,
        btf: Btf,
        machine: Machine,
        *,
        surroundings: Surroundings | None = None,
        image_base: int | None = None,
        offset_base: OffsetBase | None = None,
        section_offsets: bool = False,
        module: str | None = None,
    ) -> None:
        if btf.dialect is None:
            raise NotFoundError("the BTF has no location info of inlined functions", path=btf.path, section=btf.section)
        self.btf = btf
        self.machine = machine
        self.module = module
        self.surroundings = surroundings
        self._section_offsets = section_offsets
        self._sections: Mapping[str, SectionAddress] = surroundings.sections if surroundings is not None else {}
        if image_base is None and surroundings is not None:
            image_base = surroundings.image_base
        self._image_base = image_base
        self._rfc = btf.dialect is Dialect.RFC
        self._locsecs = [(type_id, section_of(btf.name(type_id))) for type_id in btf.of_kind(Kind.LOCSEC)]
        self._declarators = Declarators(btf, brief=True)
        self._functions: dict[tuple[int, int], _Function] = {}
        self._types: dict[int, TypeName] = {}
        self._locations: dict[tuple[int, int], tuple[Location | Unavailable, Doubt | None]] = {}
        self._samples = [(name, btf.index.sites(type_id, None, None, _SAMPLED)) for type_id, name in self._locsecs]
        self._check_base()
        self.offset_base = offset_base or self._decide()

    def function_names(self) -> set[str]:
        """Names of all functions that have sites."""
        return {self._name(function) for _, section_rows in self._all_rows() for function, *_ in section_rows}

    def _all_rows(self) -> Iterator[tuple[str, list[tuple[int, int, int, int]]]]:
        for type_id, section in self._locsecs:
            yield section, self.btf.index.sites(type_id, None, None)

    def _name(self, function: int) -> str:
        if self._rfc:
            return self.btf.index.string(function).decode("utf-8", "surrogateescape")
        return self.btf.name(function)

    def unknown(self, patterns: Sequence[str]) -> list[str]:
        """Those of ``patterns`` (shell globs) that no function's name here matches, with sites or without.

        The names in the symbol table count, globs aside.
        """
        return [
            pattern
            for pattern in patterns
            if not (self._wanted_ids([pattern]) or self.select([pattern]) or self._has_copy(pattern))
        ]

    def _has_copy(self, name: str) -> bool:
        return self.surroundings is not None and bool(self.surroundings.copies(name))

    def fully_inlined(self, function: int) -> bool | None:
        """True if a function has no copy of its own: its FUNC is in the inline object. None where that says nothing."""
        if self._rfc or self.btf.base is None:
            return None
        return function >= self.btf.start_id

    def select(self, patterns: Sequence[str]) -> list[Row]:
        """The sites of the functions that match one of ``patterns`` (shell globs), in the order of the object."""
        every = "*" in patterns
        names: set[bytes] | None = None
        ids: list[int] | None = None
        if not every and self._rfc:
            names = self._wanted_names(patterns)
        elif not every:
            ids = self._wanted_ids(patterns)
            if not ids:
                return []
        rows: list[Row] = []
        for type_id, section in self._locsecs:
            found = self.btf.index.sites(type_id, None if every else ids or (), names)
            rows += [Row(section, offset, function, slots, proto) for function, slots, offset, proto in found]
        return rows

    def _wanted_ids(self, patterns: Sequence[str]) -> list[int]:
        exact, matches = divide(patterns)
        wanted = [type_id for name in exact for type_id in self.btf.find(name, Kind.FUNC)]
        if matches is not None:
            for layer in self.btf.chain:
                wanted += [type_id for type_id in layer.of_kind(Kind.FUNC) if matches(self.btf.name(type_id))]
        return wanted

    def _wanted_names(self, patterns: Sequence[str]) -> set[bytes]:
        exact, matches = divide(patterns)
        wanted = set(exact)
        if matches is not None:
            wanted |= {name for name in self.function_names() if matches(name)}
        return {name.encode("utf-8", "surrogateescape") for name in wanted}

    def build(self, rows: Iterable[Row]) -> Iterator[Site]:
        """The sites of ``rows``. Errors: FormatError for ids that lead nowhere."""
        for row in rows:
            function = self._function(row)
            address = self._address(row.section, row.offset, self.offset_base)
            section, section_offset = self._place(row, address)
            symbol = None
            if self.surroundings is not None and address is not None:
                symbol = self.surroundings.symbol(address)
            yield Site(
                function=function.name,
                inlined=True,
                address=self._shown(row.offset if address is None else address, section_offset),
                section=section,
                section_offset=section_offset,
                symbol=symbol[0] if symbol else None,
                symbol_offset=symbol[1] if symbol else None,
                return_type=function.return_type,
                parameters=tuple(self._parameters(row, function)),
                variadic=function.variadic,
                container=symbol[0] if symbol else None,
                module=self.module,
                source="btf",
            )

    def copies(self, patterns: Sequence[str]) -> Iterator[Site]:
        """The out-of-line copies of matching functions. BTF says nothing of their parameters' locations at entry."""
        if self.surroundings is None:
            return
        unknown = Unavailable(Reason.NO_FORM, "BTF records no locations at the entry of a function")
        seen: set[str] = set()
        for type_id in self._wanted_ids(patterns):
            name = self.btf.name(type_id)
            found = self.btf.type(type_id)
            if name in seen or not isinstance(found, Func):
                continue
            seen.add(name)
            function = self._make_function(name, found.type_id)
            parameters = tuple(Parameter(*parameter, unknown) for parameter in function.parameters)
            for copy in self.surroundings.copies(name):
                where = self._sections.get(copy.section)
                offset = None if where is None else copy.address - where.address
                yield Site(
                    function=name,
                    inlined=False,
                    address=self._shown(copy.address, offset),
                    section=copy.section,
                    section_offset=offset,
                    symbol=copy.symbol,
                    symbol_offset=0,
                    return_type=function.return_type,
                    parameters=parameters,
                    variadic=function.variadic,
                    copy=copy.symbol if copy.symbol != name else None,
                    module=self.module,
                    source="btf",
                )

    def _shown(self, address: int, section_offset: int | None) -> int:
        return section_offset if self._section_offsets and section_offset is not None else address

    def _check_base(self) -> None:
        """Refuse types of another build as the base, in which ids lead to something, but not to what was meant."""
        if self._rfc or self.btf.base is None:
            return
        for _, found in self._samples:
            for function, slots, *_ in found:
                if not isinstance(self.btf.type(function), Func) or not isinstance(self.btf.type(slots), LocProto):
                    raise MismatchError(
                        "a site of something that is no function: the bases are not those that it was split from",
                        path=self.btf.path,
                        section=self.btf.section,
                        type_id=function,
                    )

    def _decide(self) -> OffsetBase:
        """Section or image: the base with which more of the sites lie in functions; the section if both do as well."""
        if self._rfc:
            return OffsetBase.IMAGE
        if self.surroundings is None or self._image_base is None:
            return OffsetBase.SECTION
        hits = dict.fromkeys(OffsetBase, 0)
        for section, found in self._samples:
            for _, _, offset, _ in found:
                for base in OffsetBase:
                    address = self._address(section, offset, base)
                    hits[base] += address is not None and self.surroundings.symbol(address) is not None
        return OffsetBase.IMAGE if hits[OffsetBase.IMAGE] > hits[OffsetBase.SECTION] else OffsetBase.SECTION

    def sampled_places(self) -> list[tuple[str, int]]:
        """Some hundred sites of each LOCSEC: the section and the offset in it."""
        places = []
        for section, found in self._samples:
            for function, slots, offset, prototype in found:
                row = Row(section, offset, function, slots, prototype)
                name, inside = self._place(row, self._address(section, offset, self.offset_base))
                if inside is not None:
                    places.append((name, inside))
        return places

    def _address(self, section: str, offset: int, base: OffsetBase) -> int | None:
        """The link-time address of a site, None where its base is not known. Offsets of the RFC may be negative."""
        mask = (1 << 8 * self.machine.address_size) - 1
        if base is OffsetBase.IMAGE:
            if self._image_base is None:
                return None
            if self._rfc and offset >= 1 << 31:
                offset -= 1 << 32
            return (self._image_base + offset) & mask
        found = self._sections.get(section)
        return None if found is None else (found.address + offset) & mask

    def _place(self, row: Row, address: int | None) -> tuple[str, int | None]:
        """Name of the section that the site is in and the offset in it."""
        if address is None or self.offset_base is OffsetBase.SECTION:
            return row.section, row.offset
        for name, where in self._sections.items():
            if where.address <= address < where.address + where.size:
                return name, address - where.address
        return row.section, None

    def _function(self, row: Row) -> _Function:
        key = (row.function, row.func_proto)
        known = self._functions.get(key)
        if known is None:
            prototype_id = row.func_proto
            if not self._rfc:
                function = self.btf.type(row.function)
                if not isinstance(function, Func):
                    raise self._error("a site of something that is no function", row.function)
                prototype_id = function.type_id
            known = self._functions[key] = self._make_function(self._name(row.function), prototype_id)
        return known

    def _make_function(self, name: str, prototype_id: int) -> _Function:
        prototype = self.btf.type(prototype_id)
        if not isinstance(prototype, FuncProto):
            raise self._error("a function whose type is no prototype", prototype_id)
        params = list(prototype.params)
        variadic = bool(params) and params[-1].type_id == 0 and not params[-1].name
        if variadic:
            params.pop()
        return _Function(
            name,
            _spelled(self._declarators.text(prototype.return_type_id, "")),
            distinct(tuple((param.name, self.type_name(param.type_id)) for param in params)),
            variadic,
        )

    def _error(self, text: str, type_id: int) -> FormatError:
        return FormatError(text, path=self.btf.path, section=self.btf.section, type_id=type_id)

    def type_name(self, type_id: int) -> TypeName:
        """Text, size and encoding of a type; ``die`` is its id."""
        known = self._types.get(type_id)
        if known is None:
            below = self.btf.skip(type_id)
            encoding, signed = _encoding(below)
            size = self.btf.size_of(type_id) if isinstance(below, (Int, Float, Enum, Ptr, Composite, Array)) else 0
            text = _spelled(self._declarators.text(type_id, ""))
            known = self._types[type_id] = TypeName(text, size, encoding, signed, type_id)
        return known

    def _parameters(self, row: Row, function: _Function) -> Iterator[Parameter]:
        slots = self.btf.type(row.loc_proto)
        if not isinstance(slots, LocProto):
            raise self._error("a site whose locations are no LOC_PROTO", row.loc_proto)
        ids = self._rfc_slots(slots.loc_param_ids) if self._rfc else [(slot, 0) for slot in slots.loc_param_ids]
        for position, (name, type_name) in enumerate(function.parameters):
            first, second = ids[position] if position < len(ids) else (0, 0)
            location, doubt = self._location(first, second, type_name)
            yield Parameter(name, type_name, location, doubt)

    def _rfc_slots(self, slots: tuple[int, ...]) -> list[tuple[int, int]]:
        """Slots by parameter: one with the flag "continue" takes the next one with it."""
        paired: list[tuple[int, int]] = []
        at = 0
        while at < len(slots):
            found = self.btf.type(slots[at]) if slots[at] else None
            both = isinstance(found, RfcLocParam) and not found.is_constant and found.flags & RFC_CONTINUE
            second = slots[at + 1] if both and at + 1 < len(slots) else 0
            paired.append((slots[at], second))
            at += 2 if second else 1
        return paired

    def _location(self, first: int, second: int, of: TypeName) -> tuple[Location | Unavailable, Doubt | None]:
        if first == 0:
            return Unavailable(Reason.NO_FORM, "BTF records no location"), None
        key = (first, second << 32 | of.die)
        known = self._locations.get(key)
        if known is None:
            found = self.btf.type(first)
            if isinstance(found, RfcLocParam):
                known = self._rfc_location(found, second, of)
            elif isinstance(found, LocParam):
                known = self._plain_location(found, of), None
            else:
                raise self._error("a slot of a LOC_PROTO that is no LOC_PARAM", first)
            self._locations[key] = known
        return known

    def _plain_location(self, found: LocParam, of: TypeName) -> Location | Unavailable:
        """The location that a LOC_PARAM of v2 or newest describes."""
        flags, values = found.flags, found.values
        if not legal_location(flags, found.vlen):
            return Unavailable(Reason.UNSUPPORTED, f"LOC_PARAM with flags {flags:#x} and {found.vlen} values")
        size = of.size or found.size
        if flags & LocFlag.CONST:
            number = values[0] | values[1] << 32 if len(values) > 1 else values[0]
            if flags & LocFlag.ADDR:
                if self._image_base is None:
                    return Unavailable(Reason.NO_FORM, f"an address {number:#x} behind the unknown start of the image")
                return self._made(Location.link_address, self._image_base + number, size)
            if flags & LocFlag.SIGNED:
                number = _sign_extended(number, min(found.size, 4 * len(values)) or 4)
            return self._made(Location.constant, number, size)
        register = values[0]
        if register == FRAME_BASE:
            return Unavailable(Reason.NO_FRAME, "BTF does not say what the frame base is")
        if self.machine.is_vector(register):
            return Unavailable(Reason.VECTOR_REGISTER, self.machine.register_name(register))
        if flags & LocFlag.OFFSET:
            wide = len(values) == 3
            offset = _sign_extended(values[1] | values[2] << 32 if wide else values[1], 8 if wide else 4)
            return self._at(register, offset, bool(flags & LocFlag.DEREF), size)
        if flags & LocFlag.DEREF:
            return self._at(register, 0, True, size)
        if len(values) == 2:
            return self._pair(register, values[1], of.size or found.size)
        return self._at(register, 0, False, size)

    def _rfc_location(
        self, found: RfcLocParam, second: int, of: TypeName
    ) -> tuple[Location | Unavailable, Doubt | None]:
        """The location that a LOC_PARAM of the RFC describes; only constants that are no pointers are beyond doubt."""
        size = of.size or abs(found.size)
        if found.is_constant:
            number = found.value - (1 << 64) if found.size < 0 and found.value >> 63 else found.value
            doubt = Doubt.COMPILER if of.encoding is Encoding.POINTER and abs(found.size) == 8 and number else None
            return self._made(Location.constant, number, size), doubt
        if found.register == RFC_FRAME_BASE:
            return Unavailable(Reason.NO_FRAME, "BTF does not say what the frame base is"), None
        if second:
            other = self.btf.type(second)
            if not isinstance(other, RfcLocParam) or other.is_constant or (found.flags | other.flags) & RFC_DEREF:
                return Unavailable(Reason.UNSUPPORTED, "a parameter in two parts of which one is no register"), None
            return self._pair(found.register, other.register, size), Doubt.COMPILER
        return self._at(found.register, found.offset, bool(found.flags & RFC_DEREF), size), Doubt.COMPILER

    def _made(self, make: Callable[..., Location], number: int, size: int) -> Location:
        order = self.btf.byte_order == "little"
        return make(number, size=size, address_size=self.machine.address_size, little_endian=order)

    def _at(self, register: int, offset: int, dereferenced: bool, size: int) -> Location:
        make = Location.memory if dereferenced else Location.value
        order = self.btf.byte_order == "little"
        return make(register, offset, size=size, address_size=self.machine.address_size, little_endian=order)

    def _pair(self, first: int, second: int, size: int) -> Location | Unavailable:
        address_size = self.machine.address_size
        if not address_size < size <= 2 * address_size:
            return Unavailable(Reason.UNSUPPORTED, f"two registers for a value of {size} bytes")
        little = self.btf.byte_order == "little"
        order = (first, second) if little else (second, first)
        return Location.registers(order, size=size, address_size=address_size, little_endian=little)


def _spelled(text: str) -> str:
    """A type in the words of a listing from DWARF: ``char *const``, where the C printer has ``char * const``."""
    return _QUALIFIED_POINTER.sub(r"*\1", text).rstrip()


def section_of(name: str) -> str:
    """The ELF section that a LOCSEC stands for: ``inline.text`` and ``.text`` are ``.text``, the RFC's ``inline`` is
    too.
    """
    if name == "inline":
        return ".text"
    return name.removeprefix("inline") if name.startswith("inline.") else name


def _encoding(below: Type) -> tuple[Encoding, bool]:
    """How to read a value of a type that has no typedefs and qualifiers around it."""
    if isinstance(below, Ptr):
        return Encoding.POINTER, False
    if isinstance(below, Enum):
        return Encoding.ENUM, below.signed
    if isinstance(below, Float):
        return Encoding.FLOAT, False
    if isinstance(below, (Composite, Array)):
        return Encoding.AGGREGATE, False
    if isinstance(below, Int):
        if below.encoding & INT_BOOL:
            return Encoding.BOOL, False
        if below.encoding & INT_CHAR or (below.size == 1 and "char" in below.name):
            return (Encoding.CHAR, True) if below.signed or below.name == "char" else (Encoding.UCHAR, False)
        return (Encoding.SIGNED, True) if below.signed else (Encoding.UNSIGNED, False)
    return Encoding.OTHER, False


def _sign_extended(number: int, size: int) -> int:
    bits = 8 * size
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number
