"""Types, functions and variables of a program as BTF, from its DWARF: what ``pahole -J`` does.

::

    types = types_from_dwarf(DebugInfo(ElfFile.open("vmlinux")))
    data = types.encode()                       # the contents of .BTF
    inline = types.inline_object(origins)       # FUNCs of inlined functions, for .BTF.inline

Units are read by several threads, and equal types become one while they are read (``_collect``, ``_resolve``); then the
threads' types are brought together in the order of units (``_graph``) and written (``_emit``). The bytes do not depend on
the number of threads.

A function gets a FUNC if it has code, all its parameters have names, and the file has a function symbol of its name
(or, with ``optimized_func``, of its name with a suffix such as ``.isra.0``). Linkage is static (0), as pahole writes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.generate._collect import Collector, ForeignReference
from inlinetrace.generate._emit import Emitter
from inlinetrace.generate._graph import Graph
from inlinetrace.generate.features import Features

if TYPE_CHECKING:
    from inlinetrace.dwarf.info import DebugInfo
    from inlinetrace.elf.file import ElfFile

LANGUAGES = {
    "ada": (0x03, 0x0D, 0x2E, 0x2F),
    "c": (0x01, 0x02, 0x0C, 0x1D, 0x2C, 0x3E),
    "c++": (0x04, 0x1A, 0x21, 0x2B, 0x3A),
    "d": (0x13,),
    "fortran": (0x07, 0x08, 0x0E, 0x22, 0x23, 0x2D),
    "go": (0x16,),
    "rust": (0x1C,),
    "swift": (0x1E,),
    "zig": (0x27,),
}
"""DW_LANG numbers by the names that ``--lang_exclude`` takes."""

# Enough units per task that starting it costs nothing, few enough that the threads end together.
_UNITS_PER_TASK = 16
_MAGIC = 0xEB9F


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What FUNC and VAR need to know of the file: ``elf`` has the symbols and the sections."""

    elf: ElfFile
    per_cpu: Sequence[str] = (".data..percpu",)
    """Sections of per-CPU variables."""


class InlineObject(NamedTuple):
    """The beginning of an object of location info: FUNCs and their prototypes."""

    func_ids: array[int]
    """For each origin the id of its FUNC: in the base where the base has it, else in this object; 0 if there is none."""
    strings: bytearray
    """Strings so far; their offsets continue the base's."""
    types: bytearray
    """Types so far, in the target's byte order."""
    first_id: int
    """Id of the first type here."""
    next_id: int
    """Id that the next type gets."""
    string_offset: int
    """Offset that the next string gets."""


@dataclass(slots=True)
class Types:
    """The types of one program; see the module."""

    emitter: Emitter
    byte_order: str
    types: bytearray
    strings: bytearray
    counts: dict[str, int] = field(default_factory=dict)
    """What was left out, and why."""

    def encode(self, *, layout: bool = False) -> bytes:
        """The contents of ``.BTF``. ``layout`` writes the newest header and a layout section."""
        from inlinetrace.btf.kinds import CLASSIC_HEADER, LAYOUT, LAYOUT_HEADER, VERSION

        order = "<" if self.byte_order == "little" else ">"
        table = b"".join(struct.pack(order + "2BH", fixed, element, 0) for fixed, element in LAYOUT) if layout else b""
        length = LAYOUT_HEADER if layout else CLASSIC_HEADER
        words = [0, len(self.types), len(self.types) + len(table), len(self.strings)]
        if layout:
            words += [len(self.types), len(table)]
        head = struct.pack(f"{order}HBBI{len(words)}I", _MAGIC, VERSION, 0, length, *words)
        return b"".join((head, self.types, table, self.strings))

    def inline_object(self, origins: array[int]) -> InlineObject:
        """FUNCs for the entries ``origins`` (keys of DW_TAG_subprogram, as sites name their functions).

        Functions of one name and prototype have one FUNC, whatever units they come from. Call it once: what it writes
        continues the base.
        """
        first = self.emitter.next_id
        func_ids = self.emitter.inline_functions(origins)
        types, strings = self.emitter.take()
        return InlineObject(func_ids, strings, types, first, self.emitter.next_id, self.emitter.string_offset)


def types_from_dwarf(
    debug: DebugInfo,
    *,
    features: Features | None = None,
    threads: int | None = None,
    image: ImageFacts | None = None,
    excluded_languages: Iterable[str] = ("rust", "c++"),
) -> Types:
    """Read the types of ``debug``.

    ``threads`` is by default the number that ``debug`` was made for. ``image`` is by default the file with the DWARF.
    ``excluded_languages`` are names of LANGUAGES. Errors: FormatError with section and offset for what cannot be
    read, UnsupportedError for what BTF cannot say.
    """
    features = features or Features()
    elf = debug.elf
    excluded = frozenset(number for name in excluded_languages for number in LANGUAGES.get(name.lower(), ()))
    collectors = _collect(debug, features, threads or debug.jobs, excluded)
    graph = Graph()
    graph.prepare(collectors)
    swap = elf.little_endian != (sys.byteorder == "little")
    emitter = Emitter(graph, swap=swap)
    emitter.write_types()
    program = image.elf if image is not None else elf
    _write_functions(emitter, program, features)
    types, strings = emitter.take()
    return Types(emitter, "little" if elf.little_endian else "big", types, strings)


def _collect(debug: DebugInfo, features: Features, threads: int, excluded: frozenset[int]) -> list[Collector]:
    """Read all units, by several threads unless units refer to each other."""
    infos = debug.infos

    def collector(joint: bool = False) -> Collector:
        return Collector(
            infos,
            joint=joint,
            floats=features.floats,
            enum64s=features.enum64,
            decl_tags=features.decl_tag,
            type_tags=features.type_tag,
        )

    tasks = [
        (number, first, min(first + _UNITS_PER_TASK, info.count))
        for number, info in enumerate(infos)
        for first in range(0, info.count, _UNITS_PER_TASK)
    ]
    waiting = iter(tasks)
    count = max(1, min(threads, len(tasks)))
    collectors = [collector() for _ in range(count)]

    def work(mine: Collector) -> None:
        # next() of an iterator over a list is atomic
        for number, first, last in waiting:
            mine.collect(number, first, last, excluded)

    try:
        if count > 1:
            with ThreadPoolExecutor(count) as pool:
                for done in [pool.submit(work, mine) for mine in collectors]:
                    done.result()
        else:
            work(collectors[0])
    except ForeignReference:
        together = collector(joint=True)
        for number, first, last in tasks:
            together.collect(number, first, last, excluded)
        together.finish_joint()
        collectors = [together]
    for done_with in collectors:
        done_with.forget()
    return collectors


def _write_functions(emitter: Emitter, elf: ElfFile, features: Features) -> None:
    """Write the FUNCs, by the symbols of ``elf``."""
    table = elf.symbols().section
    symbols = strings = memoryview(b"")
    if table is not None:
        symbols = elf.raw_data(table)
        strings = elf.raw_data(elf.linked_section(table))
    swap = elf.little_endian != (sys.byteorder == "little")
    emitter.write_functions(symbols, strings, elf.address_size == 8, swap, features.optimized_func)


__all__ = ["LANGUAGES", "Features", "ImageFacts", "InlineObject", "Types", "types_from_dwarf"]

