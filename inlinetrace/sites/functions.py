"""Prototypes: what a function is called and takes, whichever of its entries one starts from.

A copy refers to the abstract instance, that one perhaps to a declaration or, after link-time optimisation, to an entry
of another unit. The chain of these entries is one Function; its parameters are those of the entry that names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.dwarf.info import KEY_SHIFT, MISSING, OFFSET_MASK
from inlinetrace.errors import FormatError
from inlinetrace.sites.model import CallSite, Encoding, TypeName

if TYPE_CHECKING:
    from inlinetrace.dwarf._dies import Prototype
    from inlinetrace.dwarf.info import DebugInfo
    from inlinetrace.sites.sources import Sources

_MAX_CHAIN = 8
_ENCODINGS = {encoding.value: encoding for encoding in Encoding}


class Function(NamedTuple):
    """A function as its prototype says it; ``index_of`` maps the keys of parameter entries to positions.

    ``key`` is that of the entry at the end of the chain, the same for all copies that are of one definition.
    ``missing`` tells that the entry stands in a file that is not there.
    """

    key: int
    name: str
    return_type: str
    parameters: tuple[tuple[str, TypeName], ...]
    index_of: dict[int, int]
    variadic: bool
    declared: CallSite | None
    missing: bool


class Functions:
    """Makes Functions and TypeNames from keys of entries; each is made once."""

    def __init__(self, dwarf: DebugInfo, sources: Sources) -> None:
        self._dwarf = dwarf
        self._sources = sources
        self._functions: dict[int, Function] = {}
        self._types: dict[int, TypeName] = {}

    def function(self, key: int) -> Function:
        """The Function that the entry ``key`` belongs to. Raises FormatError for an entry that cannot be read."""
        known = self._functions.get(key)
        if known is None:
            known = self._functions[key] = self._read(key)
        return known

    def _read(self, key: int) -> Function:
        if key == MISSING:
            return Function(key, "", "", (), {}, False, None, True)
        first = self._dwarf.dies.prototype(key)
        if first.origin:
            return self._read_chain(key, first)
        index_of = {}
        parameters = []
        for position, (parameter_key, name, type_key, _) in enumerate(first.parameters):
            index_of[parameter_key] = position
            parameters.append((name or f"arg{position}", self.type_name(type_key)))
        return Function(
            key,
            first.name or "",
            self._dwarf.dies.type_text(first.return_type),
            tuple(parameters),
            index_of,
            first.variadic,
            self._declared(key, first),
            False,
        )

    def _read_chain(self, key: int, first: Prototype) -> Function:
        """Read a copy and what it refers to: the abstract instance, a declaration, an entry of another unit."""
        levels = [(key, first)]
        while levels[-1][1].origin and levels[-1][1].origin != MISSING and len(levels) < _MAX_CHAIN:
            origin = levels[-1][1].origin
            levels.append((origin, self._dwarf.dies.prototype(origin)))
        if levels[-1][1].origin not in (0, MISSING):
            info = self._dwarf.infos[key >> KEY_SHIFT]
            raise FormatError(
                "the origins of a function go round in a circle", path=info.path, section=info.section,
                offset=key & OFFSET_MASK,
            )  # fmt: skip
        described = [level for _, level in levels if any(parameter[1] for parameter in level.parameters)]
        chosen = described[-1] if described else first
        index_of = {parameter[0]: position for position, parameter in enumerate(chosen.parameters)}
        for _, level in reversed(levels):
            for position, (parameter_key, _, _, origin) in enumerate(level.parameters):
                if parameter_key in index_of:
                    continue
                if origin in index_of:
                    index_of[parameter_key] = index_of[origin]
                elif not origin and len(level.parameters) == len(chosen.parameters):
                    # a declaration and its definition list the same parameters
                    index_of[parameter_key] = position
        name = next((level.name for _, level in levels if level.name), None)
        located = next(((entry, level) for entry, level in levels if level.decl_line), None)
        return Function(
            levels[-1][0],
            name or "",
            self._dwarf.dies.type_text(next((level.return_type for _, level in levels if level.return_type), 0)),
            tuple(
                (parameter_name or f"arg{position}", self.type_name(type_key))
                for position, (_, parameter_name, type_key, _) in enumerate(chosen.parameters)
            ),
            index_of,
            any(level.variadic for _, level in levels),
            self._declared(*located) if located else None,
            levels[-1][1].origin == MISSING and not name,
        )

    def _declared(self, key: int, prototype: Prototype) -> CallSite | None:
        unit = self._dwarf.unit_of(key)
        return None if unit is None else self._sources.position(unit, prototype.decl_file, prototype.decl_line, 0)

    def type_name(self, key: int) -> TypeName:
        """The TypeName of the type entry ``key``; key 0 is void."""
        known = self._types.get(key)
        if known is None:
            dies = self._dwarf.dies
            size, encoding, signed = (0, "other", False) if key == MISSING else dies.type_shape(key)
            known = self._types[key] = TypeName(dies.type_text(key), size, _ENCODINGS[encoding], signed, key)
        return known

    def forget(self) -> None:
        """Drop what was read: the next units have other entries."""
        self._functions.clear()
        self._types.clear()
        self._dwarf.dies.forget()

    @property
    def known(self) -> int:
        """How many functions and types are kept."""
        return len(self._functions) + len(self._types)
