"""From DWARF that a test writes to the BTF that it becomes, as lines of text in bpftool's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inlinetrace.btf._text import render
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.generate.base import Base
from inlinetrace.generate.types import Types, types_from_dwarf
from tests.dwarf.writer import REFERENCES, Die, Form, Unit, die, make_program
from tests.elf.elfwriter import Sec, Sym

C11 = 0x1D
INT = die("base_type", label="int", name="int", byte_size=4, encoding=5)
CHAR = die("base_type", label="char", name="char", byte_size=1, encoding=6)


def unit(*entries: Die, version: int = 5, language: int = C11, **options: Any) -> Unit:
    """A unit of C with these entries."""
    return Unit(die("compile_unit", *entries, name="a.c", language=language), version=version, **options)


def _labels(entry: Die) -> set[str]:
    found = {entry.label} if entry.label is not None else set()
    return found.union(*(_labels(child) for child in entry.children))


def _relabelled(entry: Die, names: dict[str, str]) -> Die:
    def value(name: str | int, old: Any) -> Any:
        if isinstance(old, str) and name in REFERENCES:
            return names.get(old, old)
        if isinstance(old, Form) and isinstance(old.name, str) and old.name.startswith("ref"):
            return Form(old.name, names.get(old.value, old.value))
        return old

    return Die(
        entry.tag,
        tuple(_relabelled(child, names) for child in entry.children),
        {name: value(name, old) for name, old in entry.attributes.items()},
        None if entry.label is None else names[entry.label],
        entry.sibling,
        entry.code,
    )


def apart(units: Sequence[Unit]) -> list[Unit]:
    """The units with labels that differ, so that one entry can stand in several of them."""
    labels = [_labels(unit.root) if unit.root is not None else set() for unit in units]
    everywhere = {label: f"{label} of {number}" for number, some in reversed(list(enumerate(labels))) for label in some}
    result = []
    for number, (old, some) in enumerate(zip(units, labels, strict=True)):
        names = everywhere | {label: f"{label} of {number}" for label in some}
        root = None if old.root is None else _relabelled(old.root, names)
        result.append(replace(old, root=root, type_label=old.type_label and names[old.type_label]))
    return result


def read(
    *units: Unit,
    little: bool = True,
    symbols: Sequence[Sym] = (),
    more: Sequence[Sec] = (),
    base: Base | Btf | None = None,
    **options: Any,
) -> Types:
    """The types of a program with these units."""
    data = make_program(apart(units), little=little, symbols=symbols, more=more)
    return types_from_dwarf(DebugInfo(ElfFile.from_bytes(data)), base=base, **options)


def btf(*units: Unit, base: Btf | None = None, **options: Any) -> Btf:
    """The same as an object, which has to be valid. A base that serves for many programs gives the same each time."""
    result = Btf(read(*units, base=base, **options).encode(), base)
    assert validate(result, strict=True) == []
    if base is not None:
        for_many = Base(base, many=True)
        assert {read(*units, base=for_many, **options).encode() for _ in range(2)} == {result.data}
    return result


def text(result: Btf) -> list[str]:
    """The object's own types as lines, without the indentation."""
    lines = render(result.index, range(result.start_id, result.end_id), False, True).decode().splitlines()
    return [line.strip() for line in lines]


def lines(*entries: Die, version: int = 5, **options: Any) -> list[str]:
    """The types of one unit as text."""
    return text(btf(unit(*entries, version=version), **options))
