"""Spelling C declarations and definitions of single types, without recursion.

A declaration is taken apart into text and smaller declarations, which wait on a stack: parameters of function
pointers, members of anonymous structs. ``Declarators`` counts its steps: anonymous types inside each other can
describe more text than any machine holds, and such input is refused.
"""

from __future__ import annotations

from inlinetrace.btf._types import (
    Array,
    Composite,
    Const,
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
    Restrict,
    Type,
    Typedef,
    TypeTag,
    Union,
    Void,
    Volatile,
)
from inlinetrace.btf.c_names import COMPILER_TYPES, Names, identifier, is_base_type
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError

# Importing typing, or the rules of layout where nothing is defined, would cost a tenth of the time of a short listing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from inlinetrace.btf.c_layout import Layouts, Padding

_UNITS = {64: "long long", 32: "int", 16: "short", 8: "char"}


class _Declare:
    """A declaration still to be spelled: of ``name`` with a type, members indented by ``depth``."""

    __slots__ = ("define", "depth", "name", "type_id")

    def __init__(self, type_id: int, name: str, depth: int, define: bool = False) -> None:
        self.type_id = type_id
        self.name = name
        self.depth = depth
        self.define = define


class Declarators:
    """Spells types of one object; ``names`` are the names that it gives out.

    ``brief`` is for people: anonymous types are ``struct { ... }``, and names are what BTF says, even if two are equal.
    """

    def __init__(self, btf: Btf, *, brief: bool = False) -> None:
        self._btf = btf
        self._brief = brief
        self.names = Names()
        self._layouts: Layouts | None = None
        self.mentioned: dict[int, Type] = {}
        """Structs and unions that were named but not defined; whoever writes the text takes them out."""
        self._tags: dict[int, list[DeclTag]] | None = None
        self._steps = 0
        self._most_steps = 50_000 + 8 * sum(layer.header.type_len // 4 for layer in btf.chain)

    @property
    def layouts(self) -> Layouts:
        """Where the members of structs go; needed for definitions only."""
        if self._layouts is None:
            from inlinetrace.btf.c_layout import Layouts

            self._layouts = Layouts(self._btf)
        return self._layouts

    def text(self, type_id: int, name: str) -> str:
        """``name`` declared with a type."""
        return self._spell(_Declare(type_id, name, 0))

    def definition(self, type_id: int, name: str) -> str:
        """The definition of a struct, union or enum with its members; any other type as ``text`` spells it."""
        return self._spell(_Declare(type_id, name, 0, True))

    def tags_of(self, type_id: int, component: int) -> str:
        """The declaration tags of a type, or of one of its members or parameters, as attributes to append."""
        if self._tags is None:
            self._tags = {}
            for layer in self._btf.chain:
                for tag_id in layer.of_kind(Kind.DECL_TAG):
                    tag = self._btf.type(tag_id)
                    if isinstance(tag, DeclTag):
                        self._tags.setdefault(tag.type_id, []).append(tag)
        found = self._tags.get(type_id)
        if not found:
            return ""
        return "".join(
            f" __btf_attribute({tag.name})" if tag.kind_flag else f" __btf_decl_tag({_quoted(tag.name)})"
            for tag in found
            if tag.component_index == component
        )

    def _error(self, text: str, type_id: int) -> FormatError:
        return FormatError(text, path=self._btf.path, section=self._btf.section, type_id=type_id)

    def _count(self, steps: int, type_id: int) -> None:
        self._steps += steps
        if self._steps > self._most_steps:
            raise self._error("written out in C, types inside each other become larger than is sensible", type_id)

    def _spell(self, whole: _Declare) -> str:
        out: list[str] = []
        stack: list[str | _Declare] = [whole]
        while stack:
            task = stack.pop()
            if isinstance(task, str):
                out.append(task)
            else:
                pieces = self._pieces(task)
                self._count(len(pieces), task.type_id)
                pieces.reverse()
                stack += pieces
        return "".join(out)

    def _pieces(self, task: _Declare) -> list[str | _Declare]:
        """A declaration as text and smaller declarations: specifiers, declarator from the outside in."""
        left: list[str] = []
        right: list[str | _Declare] = []
        qualifiers: list[str] = []
        after_pointer = False
        type_id = task.type_id
        steps = 0
        while True:
            steps += 1
            if steps > self._btf.end_id + 1:
                raise self._error("no declaration can name this type, because it refers to itself", type_id)
            found = self._btf.type(type_id)
            if isinstance(found, Ptr):
                left.append(
                    "*" + "".join(f" {qualifier}" for qualifier in reversed(qualifiers)) + (" " if qualifiers else "")
                )
                qualifiers = []
                after_pointer = True
                type_id = found.type_id
            elif isinstance(found, (Qualifier, TypeTag)):
                word = _qualifier(found)
                if word not in qualifiers:
                    qualifiers.append(word)
                type_id = found.type_id
            elif isinstance(found, (Array, FuncProto)):
                if after_pointer:
                    left.append("(")
                    right.append(")")
                    after_pointer = False
                if isinstance(found, Array):
                    right.append(f"[{found.length}]")
                    type_id = found.type_id
                else:
                    right += self._parameters(found, task.depth)
                    qualifiers = []
                    type_id = found.return_type_id
            else:
                break
        self._count(steps, task.type_id)
        left.reverse()
        declarator = "".join(left) + task.name
        specifiers = self._specifiers(found, task.depth, task.define and found.id == task.type_id)
        before = "".join(f"{word} " for word in reversed(qualifiers) if not word.startswith("__"))
        after = "".join(f" {word}" for word in reversed(qualifiers) if word.startswith("__"))
        return [before, *specifiers, after, " " if declarator else "", declarator, *right]

    def _parameters(self, found: FuncProto, depth: int) -> list[str | _Declare]:
        if not found.params:
            return ["(void)"]
        pieces: list[str | _Declare] = ["("]
        last = len(found.params) - 1
        for position, param in enumerate(found.params):
            if param.type_id == 0 and position == last and not param.name:
                pieces.append("...")
            else:
                pieces.append(_Declare(param.type_id, identifier(param.name) if param.name else "", depth))
            pieces.append(", " if position < last else ")")
        return pieces

    def _specifiers(self, found: Type, depth: int, define: bool) -> list[str | _Declare]:
        """What stands in front of a declarator: the name of a type, or the definition of one that has none."""
        if isinstance(found, Void):
            return ["void"]
        if self._brief:
            return [self._brief_name(found)]
        if isinstance(found, (Int, Float)):
            return [found.name if is_base_type(found.name) else self.names.ordinary(found) if found.name else "int"]
        if isinstance(found, Typedef):
            return [found.name if found.name in COMPILER_TYPES else self.names.ordinary(found)]
        if isinstance(found, Fwd):
            self.mentioned[found.id] = found
            return [f"{'union' if found.is_union else 'struct'} {self.names.tag(found)}"]
        if isinstance(found, Composite):
            return self._composite(found, depth, define)
        if isinstance(found, Enum):
            return self._enum(found, depth, define)
        if isinstance(found, Func):
            return [self.names.ordinary(found)]
        raise self._error(
            f"a {Kind(found.kind).name if found.kind < 23 else 'record'} cannot be declared in C", found.id
        )

    def _brief_name(self, found: Type) -> str:
        if isinstance(found, (Int, Float, Typedef, Func)):
            return found.name
        if isinstance(found, (Composite, Fwd, Enum)):
            is_union = found.is_union if isinstance(found, Fwd) else isinstance(found, Union)
            keyword = "enum" if isinstance(found, Enum) else "union" if is_union else "struct"
            return f"{keyword} {found.name or '{ ... }'}"
        raise self._error("a record that cannot be declared in C", found.id)

    def _composite(self, found: Composite, depth: int, define: bool) -> list[str | _Declare]:
        keyword = "union" if isinstance(found, Union) else "struct"
        if found.name:
            keyword += f" {self.names.tag(found)}"
            if not define:
                self.mentioned[found.id] = found
                return [keyword]
        plan = self.layouts.plan(found.id)
        margin = "\t" * (depth + 1)
        attributes = [
            word
            for word in ("packed" if plan.packed else "", f"aligned({plan.aligned})" if plan.aligned else "")
            if word
        ]
        attribute = f" __attribute__(({', '.join(attributes)}))" if attributes else ""
        attribute += self.tags_of(found.id, -1)
        if plan.opaque:
            return [f"{keyword} {{\n{margin}/* {plan.opaque} */\n{margin}char __opaque[{found.size}];\n{margin[1:]}}}"]
        if not found.members and plan.tail is None:
            return [f"{keyword} {{}}{attribute}"]
        pieces: list[str | _Declare] = [f"{keyword} {{\n"]
        for position, member in enumerate(found.members):
            if position in plan.holes:
                pieces += _filling(plan.holes[position], margin)
            width = plan.bitfields[position][1]
            name = identifier(member.name) if member.name else ""
            pieces += [margin, _Declare(member.type_id, name, depth + 1)]
            pieces.append(f"{f': {width}' if width else ''}{self.tags_of(found.id, position)};\n")
        if plan.tail is not None:
            pieces += _filling(plan.tail, margin)
        pieces.append(f"{margin[1:]}}}{attribute}")
        return pieces

    def _enum(self, found: Enum, depth: int, define: bool) -> list[str | _Declare]:
        keyword = "enum"
        if found.name:
            keyword += f" {self.names.tag(found)}"
            if not define:
                return [keyword]
        margin = "\t" * (depth + 1)
        if not found.enumerators:
            return (
                ["int" if found.size == 4 else f"__attribute__((mode({_mode(found.size)}))) int"]
                if not found.name
                else [keyword]
            )
        self._count(len(found.enumerators), found.id)
        suffix = ("LL" if found.signed else "ULL") if isinstance(found, Enum64) else ""
        lines = [f"{margin}{self.names.enumerator(e.name)} = {_literal(e.value, suffix)},\n" for e in found.enumerators]
        attribute = ""
        if found.size in (1, 2) or (
            found.size == 8 and not any(_is_wide(e.value, found.signed) for e in found.enumerators)
        ):
            attribute = f" __attribute__((mode({_mode(found.size)})))"
        return [f"{keyword} {{\n{''.join(lines)}{margin[1:]}}}{attribute}"]


def _is_wide(value: int, signed: bool) -> bool:
    """True if an enumerator alone makes the compiler take 8 bytes."""
    return not (-(1 << 31) <= value < 1 << 31) if signed else value >= 1 << 32


def _literal(value: int, suffix: str) -> str:
    """An enumerator's value; the smallest number of 64 bits has no literal of its own."""
    if value == -(1 << 63):
        return f"-{(1 << 63) - 1}{suffix} - 1"
    return f"{value}{suffix}"


def _mode(size: int) -> str:
    return {1: "byte", 2: "HI", 8: "word"}.get(size, "SI")


def _qualifier(found: Type) -> str:
    if isinstance(found, Const):
        return "const"
    if isinstance(found, Volatile):
        return "volatile"
    if isinstance(found, Restrict):
        return "restrict"
    if found.kind_flag:
        return f"__btf_attribute({found.name})"
    return f"__btf_type_tag({_quoted(found.name)})"


def _quoted(text: str) -> str:
    """A C string literal; whatever is no printable ASCII becomes an octal escape."""
    data = text.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:03o}" for c in data) + '"'


def _filling(padding: Padding, margin: str) -> list[str | _Declare]:
    return [
        f"{margin}{_UNITS[unit]}: {width};\n" if unit else f"{margin}char __hole_{padding.start // 8}[{width}];\n"
        for unit, width in padding.pieces
    ]
