"""Reading BTF: ``Btf`` is one object on top of its bases, immutable, and makes types only when they are asked for.

::

    vmlinux = Btf(data)
    module = Btf(module_data, base=vmlinux)
    for type_id in module.find("tcp_sock", Kind.STRUCT):
        print(module.type(type_id).members)

Type ids and string offsets run through the whole chain: those below ``start_id`` belong to the base. Names are text;
bytes that are no UTF-8 survive as surrogate escapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inlinetrace.btf._index import Index
from inlinetrace.btf._types import (
    Array,
    Composite,
    Datasec,
    DeclTag,
    Enum,
    Float,
    Fwd,
    Int,
    Ptr,
    Qualifier,
    Reference,
    Type,
    Typedef,
    TypeTag,
    Var,
    make,
)
from inlinetrace.btf.dialect import build_index, dialect_of
from inlinetrace.btf.header import Header
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.errors import FormatError, InlineTraceError, NotFoundError

_ALL_KINDS = (1 << 64) - 1


class Btf:
    """One BTF object and the chain of its bases.

    ``data`` is the whole object (header, types, strings); it is not copied and must not change. ``base`` is the
    object that this one is split from. ``path`` and ``section`` say where it came from, for messages. ``dialect``
    forces how the location kinds are read; it is detected otherwise.

    Errors: FormatError with the byte offset; UnsupportedError for what only looks like BTF.
    """

    __slots__ = ("_cache", "base", "data", "dialect", "header", "index", "path", "section")

    def __init__(
        self,
        data: bytes | memoryview,
        base: Btf | None = None,
        *,
        path: str | None = None,
        section: str | None = None,
        dialect: Dialect | None = None,
    ) -> None:
        self.data = data
        self.base = base
        self.path = path
        self.section = section
        try:
            self.header = Header(data)
            if base is None:
                self._check_stands_alone()
            self.index: Index = build_index(data, self.header, None if base is None else base.index, dialect)
            self.dialect: Dialect | None = (dialect if self.index.has_locations else None) or dialect_of(self.index)
        except InlineTraceError as error:
            raise self._located(error) from None
        self._cache: dict[int, Type] = {}

    def _check_stands_alone(self) -> None:
        header = self.header
        if header.type_len and not header.string_len:
            raise FormatError(
                "the object has no strings: it is split from a base, name it (-B)", offset=header.string_at
            )
        if header.string_len and self.data[header.string_at] != 0:
            raise FormatError(
                "the strings do not begin with an empty one: this object is split from a base, name it (-B)",
                offset=header.string_at,
            )

    def _located(self, error: InlineTraceError) -> InlineTraceError:
        if error.path is None:
            error.path = self.path
        if error.section is None:
            error.section = self.section
        return error

    @property
    def start_id(self) -> int:
        """Id of the first type that this object stores itself."""
        return self.index.start_id

    @property
    def end_id(self) -> int:
        """First id after the last one: the number of types of the chain, void included."""
        return self.index.end_id

    @property
    def byte_order(self) -> str:
        """``little`` or ``big``."""
        return self.header.byte_order

    @property
    def chain(self) -> list[Btf]:
        """This object and its bases, outermost base first."""
        chain = [self]
        while chain[-1].base is not None:
            chain.append(chain[-1].base)
        chain.reverse()
        return chain

    @property
    def layout(self) -> tuple[tuple[int, int], ...] | None:
        """The object's own layout section as (fixed, element) sizes by kind; None if it has none."""
        header = self.header
        if not header.layout_len:
            return None
        view = self.data[header.layout_at : header.layout_at + header.layout_len]
        return tuple((view[at], view[at + 1]) for at in range(0, header.layout_len, 4))

    @property
    def strings(self) -> bytes:
        """The object's own string section."""
        return bytes(self.data[self.header.string_at : self.header.string_at + self.header.string_len])

    def type(self, type_id: int) -> Type:
        """The type with this id, of this object or a base. Errors: FormatError for an id that does not exist."""
        found = self._cache.get(type_id)
        if found is None:
            if type_id < 0 or type_id >= self.end_id:
                raise self._located(FormatError("there is no such type", type_id=type_id))
            try:
                found = self._cache[type_id] = make(self.index, type_id)
            except InlineTraceError as error:
                raise self._located(error) from None
        return found

    def types(self) -> Iterator[Type]:
        """The types that this object stores itself, in order; they are not kept."""
        for type_id in range(self.start_id, self.end_id):
            try:
                yield make(self.index, type_id)
            except InlineTraceError as error:
                raise self._located(error) from None

    def kind(self, type_id: int) -> int:
        """Kind number of a type, without making an object."""
        try:
            return self.index.kind(type_id)
        except InlineTraceError as error:
            raise self._located(error) from None

    def name(self, type_id: int) -> str:
        """Name of a type, empty if it has none, without making an object."""
        try:
            return self.index.name(type_id).decode("utf-8", "surrogateescape")
        except InlineTraceError as error:
            error.type_id = type_id
            raise self._located(error) from None

    def find(self, name: str, *kinds: Kind) -> list[int]:
        """Ids of the types with this name, bases first; ``kinds`` narrows it (none: all)."""
        mask = sum({1 << kind for kind in kinds}) if kinds else _ALL_KINDS
        wanted = name.encode("utf-8", "surrogateescape")
        return [type_id for layer in self.chain for type_id in layer.index.find(wanted, mask)]

    def get(self, name: str, *kinds: Kind) -> Type:
        """The first type with this name. Errors: NotFoundError."""
        found = self.find(name, *kinds)
        if not found:
            what = "/".join(kind.name.lower() for kind in kinds) or "type"
            raise NotFoundError(f"no {what} {name!r}", path=self.path, section=self.section)
        return self.type(found[0])

    def of_kind(self, kind: Kind) -> list[int]:
        """Ids of this object's own types of one kind."""
        return self.index.of_kind(kind)

    def skip(self, type_id: int, *, typedefs: bool = True) -> Type:
        """The type below qualifiers and type tags (and typedefs). Errors: FormatError for a loop of them."""
        skipped = (Qualifier, TypeTag, Typedef) if typedefs else (Qualifier, TypeTag)
        seen = 0
        result = self.type(type_id)
        while isinstance(result, skipped):
            seen += 1
            if seen > self.end_id:
                raise self._located(FormatError("a loop of typedefs or qualifiers", type_id=type_id))
            assert isinstance(result, Reference)
            result = self.type(result.type_id)
        return result

    @property
    def pointer_size(self) -> int:
        """4 or 8, from the size of ``unsigned long``, which is as wide as a pointer on Linux; 8 if there is none."""
        for name in ("long unsigned int", "unsigned long", "long int", "long"):
            for type_id in self.find(name, Kind.INT):
                size = self.type(type_id).size_or_type
                if size in (4, 8):
                    return size
        return 8

    def size_of(self, type_id: int) -> int:
        """Size in bytes. Errors: FormatError for what has no size (functions, declarations) and for loops."""
        count = 1
        seen = 0
        while True:
            found = self.skip(type_id)
            seen += 1
            if seen > self.end_id:
                raise self._located(FormatError("a loop of arrays", type_id=type_id))
            if isinstance(found, Array):
                count *= found.length
                type_id = found.type_id
                if count > 1 << 64:
                    raise self._located(FormatError("an array larger than the address space", type_id=type_id))
            elif isinstance(found, Ptr):
                return count * self.pointer_size
            elif isinstance(found, (Var, DeclTag)):
                type_id = found.type_id
            elif isinstance(found, (Int, Float, Composite, Enum, Datasec)):
                return count * found.size_or_type
            else:
                what = "a declaration" if isinstance(found, Fwd) else "a type"
                raise self._located(FormatError(f"{what} that has no size", type_id=type_id))

    def __repr__(self) -> str:
        where = self.path or "memory"
        return f"<Btf {where} {self.section or ''} types {self.start_id} to {self.end_id - 1}>"


def chain_of(objects: Iterable[bytes | memoryview]) -> Btf:
    """Stack objects on each other, outermost base first; the result is the last one. Errors: as of Btf."""
    result: Btf | None = None
    for data in objects:
        result = Btf(data, result)
    if result is None:
        raise NotFoundError("no BTF object was given")
    return result
