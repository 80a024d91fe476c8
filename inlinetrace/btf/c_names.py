"""Names in C source that was made from BTF: unique, and no words of the language.

BTF may have several types of one name (of different source files); the second one gets ``___2``, as bpftool does. Tags
(struct, union, enum) and ordinary names (typedefs, enumerators, functions) are two name spaces.
"""

from __future__ import annotations

from inlinetrace.btf._types import Fwd, Struct, Type, Union

_KEYWORDS = frozenset(
    [
        "asm",
        "auto",
        "break",
        "case",
        "const",
        "continue",
        "default",
        "do",
        "else",
        "enum",
        "extern",
        "for",
        "goto",
        "if",
        "inline",
        "register",
        "restrict",
        "return",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "typeof",
        "union",
        "volatile",
        "while",
        "char",
        "short",
        "int",
        "long",
        "signed",
        "unsigned",
        "float",
        "double",
        "void",
        "_Alignas",
        "_Alignof",
        "_Atomic",
        "_Bool",
        "_Complex",
        "_Generic",
        "_Imaginary",
        "_Noreturn",
        "_Static_assert",
        "_Thread_local",
    ]
)
_BASE_WORDS = frozenset(
    [
        "char",
        "short",
        "int",
        "long",
        "signed",
        "unsigned",
        "float",
        "double",
        "_Bool",
        "_Complex",
        "__int128",
        "_Float16",
        "__bf16",
        "__fp16",
        "__float128",
        "__ibm128",
    ]
)

COMPILER_TYPES = frozenset(
    [
        "__builtin_va_list",
        "__int128",
        "_Float16",
        "_Float32",
        "_Float64",
        "_Float128",
        "_Float32x",
        "_Float64x",
        "__float128",
        "__bf16",
        "__fp16",
    ]
)
"""Typedef names that the compilers define themselves; defining them again is an error."""

C23_WORDS = frozenset(("bool", "true", "false", "nullptr", "constexpr", "alignas", "alignof", "thread_local", "typeof"))
"""Names that were free before C23."""


def is_base_type(name: str) -> bool:
    """True for the spelling of an arithmetic type that every compiler knows (``long unsigned int``)."""
    return bool(name) and all(word in _BASE_WORDS for word in name.split(" "))


def identifier(name: str) -> str:
    """The name itself if C can have it, else the nearest thing."""
    if name.isascii() and name.isidentifier():
        return name + "_" if name in _KEYWORDS else name
    changed = "".join(c if c.isascii() and (c.isalnum() or c in "_$") else "_" for c in name)
    return "_" + changed if changed[:1].isdigit() or not changed else changed


class Names:
    """Hands out the names of one C source, in the order in which they are asked for."""

    def __init__(self) -> None:
        self._tags: dict[str, int] = {}
        self._ordinary: dict[str, int] = {}
        self._given: dict[int, str] = {}
        self._shared: dict[tuple[str, bool], str] = {}

    def tag(self, found: Type) -> str:
        """The tag of a struct, union, enum or forward declaration. A declaration shares that of its definition."""
        given = self._given.get(found.id)
        if given is not None:
            return given
        shared = None
        if isinstance(found, (Fwd, Struct, Union)):
            shared = (found.name, found.kind_flag if isinstance(found, Fwd) else isinstance(found, Union))
            if shared in self._shared:
                given = self._shared[shared] if isinstance(found, Fwd) else self._shared.pop(shared)
        if given is None:
            given = self._unique(self._tags, identifier(found.name))
            if shared is not None and isinstance(found, Fwd):
                self._shared[shared] = given
        self._given[found.id] = given
        return given

    def ordinary(self, found: Type) -> str:
        """The name of a typedef, function or variable, or the alias of an arithmetic type."""
        given = self._given.get(found.id)
        if given is None:
            given = self._given[found.id] = self._unique(self._ordinary, identifier(found.name))
        return given

    def enumerator(self, name: str) -> str:
        """The name of an enumerator, once for each definition."""
        return self._unique(self._ordinary, identifier(name))

    @staticmethod
    def _unique(used: dict[str, int], name: str) -> str:
        count = used.get(name, 0) + 1
        used[name] = count
        if count == 1:
            return name
        while f"{name}___{count}" in used:
            count += 1
        used[f"{name}___{count}"] = 1
        used[name] = count
        return f"{name}___{count}"
