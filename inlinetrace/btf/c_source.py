"""C source from BTF: a header with every type, or what one type needs, in an order that compiles.

::

    for text in c_source(btf):            # everything, as bpftool's "format c"
        file.write(text)
    print("".join(c_source(btf, btf.find("tcp_sock", Kind.STRUCT))))
    print(declaration(btf, type_id, "name"))  # "struct sk_buff *name"

A definition comes after those of the types it stores by value, a declaration before the first use through a pointer.
Sizes and offsets are those of BTF (see ``c_layout``). Nothing recurses: types are visited with a stack of their own,
and a source that would expand beyond all measure (anonymous types used again and again inside each other) is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inlinetrace.btf._types import (
    Array,
    Composite,
    DeclTag,
    Enum,
    Enum64,
    Float,
    Func,
    FuncProto,
    Fwd,
    Int,
    Ptr,
    Qualifier,
    Type,
    Typedef,
    TypeTag,
    Union,
    Var,
)
from inlinetrace.btf.c_declarator import Declarators
from inlinetrace.btf.c_names import C23_WORDS, COMPILER_TYPES, identifier, is_base_type
from inlinetrace.btf.kinds import INT_BOOL, INT_SIGNED, Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError

_PROLOGUE = """\
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

#if defined(__bpf__) && !defined(BPF_NO_PRESERVE_ACCESS_INDEX)
#pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)
#endif

"""
_EPILOGUE = """\
#if defined(__bpf__) && !defined(BPF_NO_PRESERVE_ACCESS_INDEX)
#pragma clang attribute pop
#endif

#endif /* __VMLINUX_H__ */
"""
_MACROS = """\
#ifndef __btf_type_tag
#ifdef __has_attribute
#if __has_attribute(btf_type_tag)
#define __btf_type_tag(x) __attribute__((btf_type_tag(x)))
#endif
#if __has_attribute(btf_decl_tag)
#define __btf_decl_tag(x) __attribute__((btf_decl_tag(x)))
#endif
#endif
#ifndef __btf_type_tag
#define __btf_type_tag(x)
#endif
#ifndef __btf_decl_tag
#define __btf_decl_tag(x)
#endif
#ifdef __bpf__
#define __btf_attribute(x) __attribute__((x))
#else
#define __btf_attribute(x)
#endif
#endif

"""
_BEFORE_C23 = "#if !defined(__STDC_VERSION__) || __STDC_VERSION__ < 202311L\n"

_INTEGERS = {1: "char", 2: "short", 4: "int", 8: "long long", 16: "__int128"}
_FLOATS = {2: "_Float16", 4: "float", 8: "double", 16: "long double"}

_UNSEEN = 0
_OPEN = 1
_DONE = 2


def declaration(btf: Btf, type_id: int, name: str = "") -> str:
    """How C declares ``name`` with this type; without a name, the type itself as in a cast."""
    return Declarators(btf).text(type_id, name)


def c_source(btf: Btf, ids: Iterable[int] | None = None, *, asserts: bool = False) -> Iterator[str]:
    """Pieces of C source: for ``ids`` and what they need, or for every type of ``btf`` and its bases within a header
    guard.

    Functions and variables are written as declarations if they are among ``ids``. ``asserts`` adds static assertions
    of the size of every struct and union and the offset of every member, so that the compiler checks them. Errors:
    FormatError for types that C cannot have (they contain or name themselves), with the type id.
    """
    writer = _Writer(btf, asserts)
    if ids is None:
        yield _PROLOGUE
        yield from writer.everything()
        yield _EPILOGUE
    else:
        for type_id in ids:
            yield from writer.one(type_id)


class _Writer:
    """Emits definitions; remembers what has been emitted.

    Each type is visited at most twice: for being named (stage 0: a declaration is enough) and for being complete
    (stage 1).
    """

    def __init__(self, btf: Btf, asserts: bool) -> None:
        self._btf = btf
        self._asserts = asserts
        self._declarators = Declarators(btf)
        self._names = self._declarators.names
        self._state = bytearray(2 * btf.end_id)
        self._declared: set[int] = set()
        self._explicit: set[int] = set()
        self._macros = False
        self._referenced: bytearray | None = None

    def everything(self) -> Iterator[str]:
        """All types, in the order of their ids as far as dependencies allow."""
        defining = {Kind.STRUCT, Kind.UNION, Kind.ENUM, Kind.ENUM64, Kind.TYPEDEF, Kind.FWD}
        enums = {Kind.ENUM, Kind.ENUM64}
        for type_id in range(1, self._btf.end_id):
            kind = self._btf.kind(type_id)
            if kind in defining:
                yield from self._visit(type_id, 1)
                if kind in enums and not self._btf.name(type_id) and not self._is_referenced(type_id):
                    yield from self._top_level_enum(type_id)

    def one(self, type_id: int) -> Iterator[str]:
        """One type with what it needs, even if it has no name of its own."""
        found = self._btf.type(type_id)
        if isinstance(found, (Func, Var)):
            self._explicit.add(type_id)
        yield from self._visit(type_id, 1)
        if isinstance(found, Enum) and not found.name:
            yield from self._top_level_enum(type_id)
        elif not found.name and isinstance(found, (Composite, Ptr, Qualifier, Array, FuncProto)):
            yield from self._complete(self._declarators.definition(type_id, "") + ";\n\n")

    def _is_referenced(self, type_id: int) -> bool:
        """True if a type is part of another one: an anonymous enum of that kind is written where it is used."""
        if self._referenced is None:
            self._referenced = bytearray(self._btf.end_id)
            for other in range(1, self._btf.end_id):
                for part, _ in self._needs(self._btf.type(other), 1):
                    if part < len(self._referenced):
                        self._referenced[part] = 1
        return bool(self._referenced[type_id])

    def _needs(self, found: Type, stage: int) -> list[tuple[int, int]]:
        """(type id, stage) of what has to come before a type."""
        if isinstance(found, Ptr):
            return [(found.type_id, 0)]
        if isinstance(found, (Qualifier, TypeTag)):
            return [(found.type_id, stage)]
        if isinstance(found, Typedef):
            return [(found.type_id, 0)] if stage == 0 else [(found.id, 0), (found.type_id, 1)]
        if isinstance(found, Array):
            return [(found.type_id, 1)]
        if isinstance(found, Composite):
            if found.name and stage == 0:
                return []
            return [(member.type_id, 1) for member in found.members]
        if isinstance(found, FuncProto):
            return [(found.return_type_id, 0), *[(param.type_id, 0) for param in found.params]]
        if isinstance(found, (Func, DeclTag)):
            return [(found.type_id, 0)]
        if isinstance(found, Var):
            return [(found.type_id, 1)]
        return []

    def _visit(self, type_id: int, stage: int) -> Iterator[str]:
        """Emit what a type needs, then the type; depth first with an explicit stack."""
        state = self._state
        if type_id >= self._btf.end_id:
            raise self._error("there is no such type", type_id)
        if state[2 * type_id + stage] == _DONE:
            return
        stack = [(type_id, stage)]
        while stack:
            current, level = stack[-1]
            slot = 2 * current + level
            if state[slot] == _DONE:
                stack.pop()
                continue
            found = self._btf.type(current)
            if state[slot] == _OPEN:
                stack.pop()
                state[slot] = _DONE
                yield from self._emit(found, level)
                continue
            state[slot] = _OPEN
            for part, needed in reversed(self._needs(found, level)):
                if part == 0:
                    continue
                if part >= self._btf.end_id:
                    raise self._error(f"type [{part}] does not exist", current)
                below = state[2 * part + needed]
                if below == _OPEN:
                    raise self._error("a type that contains itself, or that no declaration can name", part)
                if below == _UNSEEN:
                    stack.append((part, needed))

    def _error(self, text: str, type_id: int) -> FormatError:
        return FormatError(text, path=self._btf.path, section=self._btf.section, type_id=type_id)

    def _emit(self, found: Type, stage: int) -> Iterator[str]:
        """The text of a type whose needs have been met; nothing for what is spelled where it is used."""
        if isinstance(found, Composite):
            if not found.name:
                return
            if stage == 1:
                text = self._declarators.definition(found.id, "") + ";\n\n"
                self._declared.add(found.id)
                yield from self._complete(text)
                if self._asserts:
                    yield self._assertions(found)
        elif isinstance(found, Fwd):
            self._declarators.mentioned[found.id] = found
            yield from self._complete("")
        elif isinstance(found, Enum):
            if found.name and found.id not in self._declared:
                self._declared.add(found.id)
                yield from self._enum(found)
                if self._asserts and found.enumerators:
                    tag = f"enum {self._names.tag(found)}"
                    yield f'_Static_assert(sizeof({tag}) == {found.size}, "size of {tag}");\n\n'
        elif isinstance(found, Typedef):
            if stage == 0:
                yield from self._typedef(found)
        elif isinstance(found, (Int, Float)):
            yield from self._alias(found)
        elif isinstance(found, Func) and found.id in self._explicit:
            text = self._declarators.text(found.type_id, self._names.ordinary(found))
            yield from self._complete(text + self._declarators.tags_of(found.id, -1) + ";\n\n")
        elif isinstance(found, Var) and found.id in self._explicit:
            text = self._declarators.text(found.type_id, self._names.ordinary(found))
            yield from self._complete("extern " + text + self._declarators.tags_of(found.id, -1) + ";\n\n")

    def _complete(self, text: str) -> Iterator[str]:
        """Text with what has to stand before it: declarations of the structs it names, the macros it uses."""
        mentioned = self._declarators.mentioned
        for type_id, found in mentioned.items():
            if type_id not in self._declared:
                self._declared.add(type_id)
                is_union = found.kind_flag if isinstance(found, Fwd) else isinstance(found, Union)
                yield f"{'union' if is_union else 'struct'} {self._names.tag(found)};\n\n"
        mentioned.clear()
        if not self._macros and "__btf_" in text:
            self._macros = True
            yield _MACROS
        yield text

    def _assertions(self, found: Composite) -> str:
        """What BTF says of a struct, for the compiler to check; bitfields have no offset that C can ask for."""
        tag = f"{'union' if isinstance(found, Union) else 'struct'} {self._names.tag(found)}"
        lines = [f'_Static_assert(sizeof({tag}) == {found.size}, "size of {tag}");\n']
        waiting = [(found, "", 0)]
        while waiting:
            inside, path, base = waiting.pop()
            if self._declarators.layouts.plan(inside.id).opaque:
                continue
            for member in inside.members:
                offset, width = self._declarators.layouts.bitfield(inside, member)
                if width:
                    continue
                if member.name:
                    place = f"__builtin_offsetof({tag}, {path}{identifier(member.name)})"
                    lines.append(f'_Static_assert({place} == {base + offset // 8}, "offset of {path}{member.name}");\n')
                below = self._btf.skip(member.type_id, typedefs=False)
                if isinstance(below, Composite) and not below.name:
                    step = f"{path}{identifier(member.name)}." if member.name else path
                    waiting.append((below, step, base + offset // 8))
        return "".join(lines) + "\n"

    def _typedef(self, found: Typedef) -> Iterator[str]:
        if found.name in COMPILER_TYPES:
            return
        name = self._names.ordinary(found)
        text = f"typedef {self._declarators.text(found.type_id, name)}{self._declarators.tags_of(found.id, -1)};\n"
        if found.name in C23_WORDS:
            text = f"{_BEFORE_C23}{text}#endif\n"
        yield from self._complete(text + "\n")

    def _enum(self, found: Enum) -> Iterator[str]:
        text = self._declarators.definition(found.id, "") + ";\n"
        if any(enumerator.name in C23_WORDS for enumerator in found.enumerators):
            text = f"{_BEFORE_C23}{text}#endif\n"
        yield from self._complete(text + "\n")

    def _top_level_enum(self, type_id: int) -> Iterator[str]:
        found = self._btf.type(type_id)
        assert isinstance(found, (Enum, Enum64))
        if type_id not in self._declared and found.enumerators:
            self._declared.add(type_id)
            yield from self._enum(found)

    def _alias(self, found: Int | Float) -> Iterator[str]:
        """A typedef for an arithmetic type whose name no C compiler knows (those of other languages, vector
        elements).
        """
        if is_base_type(found.name) or found.id in self._declared or not found.name:
            return
        self._declared.add(found.id)
        if isinstance(found, Float):
            base = _FLOATS.get(found.size)
        elif found.encoding & INT_BOOL and found.size == 1:
            base = "_Bool"
        else:
            base = _INTEGERS.get(found.size)
            if base is not None:
                base = f"{'signed' if found.encoding & INT_SIGNED else 'unsigned'} {base}"
        if base is None:
            base = f"struct {{ char bytes[{found.size_or_type}]; }}"
        text = f"typedef {base} {self._names.ordinary(found)};\n"
        yield (f"{_BEFORE_C23}{text}#endif\n" if found.name in C23_WORDS else text) + "\n"
