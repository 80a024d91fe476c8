"""Types, functions and variables of a program as BTF, from its DWARF: what ``pahole -J`` does.

::

    types = types_from_dwarf(DebugInfo(ElfFile.open("vmlinux")))
    data = types.encode()                       # the contents of .BTF
    inline = types.inline_object(origins)       # FUNCs of inlined functions, for .BTF.inline

Units are read by several threads, and equal types become one while they are read (``_collect``, ``_resolve``); then
the threads' types are brought together in the order of units (``_graph``), names that mean several things are told
apart (``_separate``), and the result is written (``_emit``). The bytes do not depend on the number of threads.

A function gets a FUNC if all its parameters have names and the file has a function symbol of its name (or, with
``optimized_func``, of its name with a suffix such as ``.isra.0``). Of several entries of one name those with code go
first, then those without, whose code was folded into that of an equal function, then those of assembler. With
``consistent_func`` a name gets no FUNC if its entries differ for a caller, if it has several addresses, or if its
parameters are not those that a caller passes. Linkage is static (0), as pahole writes.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace._threads import spread
from inlinetrace.btf.builder import object_bytes
from inlinetrace.btf.kinds import Dialect
from inlinetrace.dwarf.info import KEY_SHIFT, OFFSET_MASK
from inlinetrace.errors import MismatchError
from inlinetrace.generate._collect import Collector, ForeignReferenceError
from inlinetrace.generate._emit import Emitter
from inlinetrace.generate._graph import Graph
from inlinetrace.generate._separate import separate
from inlinetrace.generate.base import Base
from inlinetrace.generate.features import Features
from inlinetrace.generate.kfuncs import kernel_functions

if TYPE_CHECKING:
    from inlinetrace.btf.reader import Btf
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

EXCLUDED_LANGUAGES = ("rust", "c++")
"""Those whose types BTF cannot say, as the kernel's build has them."""

# Machines of which it is known how all functions are passed their parameters.
_BY_REGISTER = ("x86_64", "aarch64", "arm", "s390x")

# Enough functions per task that starting it costs nothing, few enough that the threads end together.
_FUNCTIONS_PER_TASK = 512
_SHT_PROGBITS, _SHT_NOBITS = 1, 8


class ImageFacts(NamedTuple):
    """What FUNC and VAR need to know of the file: ``elf`` has the symbols and the sections."""

    elf: ElfFile
    per_cpu: Sequence[str] = (".data..percpu",)
    """Sections of per-CPU variables."""


class InlineObject(NamedTuple):
    """The beginning of an object of location info: FUNCs and their prototypes."""

    func_ids: array[int]
    """For each origin the id of its FUNC: in the base if that has it, else in this object; 0 if there is none."""
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


class Types(NamedTuple):
    """The types of one program; see the module."""

    emitter: Emitter
    byte_order: str
    types: bytearray
    strings: bytearray
    counts: dict[str, int]
    """What was left out, and why."""

    def encode(self, *, layout: bool = False) -> bytes:
        """The contents of ``.BTF``. ``layout`` writes the newest header and a layout section."""
        return object_bytes(
            self.types,
            self.strings,
            byte_order=self.byte_order,
            classic=not layout,
            layout=Dialect.NEW if layout else None,
        )

    def inline_object(self, origins: array[int]) -> InlineObject:
        """FUNCs for the entries ``origins`` (keys of DW_TAG_subprogram, as sites name their functions).

        Functions of one name and prototype have one FUNC, whatever units they come from. Call it once: what it writes
        continues the base.
        """
        return _inline_object(self.emitter, origins)


def types_from_dwarf(
    debug: DebugInfo,
    *,
    features: Features | None = None,
    base: Base | Btf | None = None,
    threads: int | None = None,
    image: ImageFacts | None = None,
    excluded_languages: Iterable[str] = EXCLUDED_LANGUAGES,
) -> Types:
    """Read the types of ``debug``.

    With ``base`` the result is split: types that the base has are not repeated, ids and strings continue the base's.
    ``threads`` is by default the number that ``debug`` was made for. ``image`` is by default the file with the DWARF.
    ``excluded_languages`` are names of LANGUAGES. Errors: FormatError with section and offset for what cannot be
    read, UnsupportedError for what BTF cannot say, MismatchError for a base of the other byte order.
    """
    features = features or Features()
    elf = debug.elf
    byte_order = "little" if elf.little_endian else "big"
    beneath = None if base is None else _base_of(base, byte_order)
    graph = Graph() if beneath is None else beneath.graph()
    collectors, joint = _collect(debug, features, threads or debug.jobs, language_numbers(excluded_languages))
    graph.prepare(collectors)
    _tell_apart(graph, debug, features, collectors if joint else None)
    for collector in collectors:
        collector.forget()
    emitter = Emitter(graph, swap=byte_order != sys.byteorder) if beneath is None else beneath.emitter(graph)
    emitter.write_types()
    image = image or ImageFacts(elf)
    counts = _write_functions(emitter, image.elf, features)
    if features.decl_tag_kfuncs:
        missing = emitter.tag_functions(kernel_functions(image.elf))
        if missing:
            counts["kfuncs without FUNC"] = len(missing)
    _write_variables(emitter, image, features)
    types, text = emitter.take()
    return Types(emitter, byte_order, types, text, counts)


def functions_onto_base(
    debug: DebugInfo,
    origins: array[int],
    base: Base | Btf,
    *,
    features: Features | None = None,
    threads: int | None = None,
    excluded_languages: Iterable[str] = EXCLUDED_LANGUAGES,
) -> InlineObject:
    """FUNCs for the entries ``origins`` (keys) on top of ``base``, and nothing else of the program.

    The result is split from ``base``: functions and types that the base has are named by its ids. Only the types of
    parameters are read, up to named structs and unions, which mean those of the base. So ``base`` has to be that of
    this program's build; units with a name of which the base has not exactly one definition are read whole.
    Errors: as of ``types_from_dwarf``.
    """
    features = features or Features()
    beneath = _base_of(base, "little" if debug.elf.little_endian else "big")
    graph = beneath.graph()
    excluded = language_numbers(excluded_languages)
    whole: list[Collector] = []
    joint = False
    try:
        collectors = _collect_functions(debug, features, threads or debug.jobs, origins)
        units = graph.units_to_read(collectors)
        if units:
            whole = [_collector(debug, features, excluded)]
            for collector in collectors:
                collector.forget_units(units)
            for info, unit in sorted(units):
                whole[0].collect((info, unit, unit + 1))
        collectors += whole
    except ForeignReferenceError:
        collectors, joint = _collect(debug, features, threads or debug.jobs, excluded)
    graph.prepare(collectors)
    _tell_apart(graph, debug, features, collectors if joint else None)
    emitter = beneath.emitter(graph)
    emitter.know_base()
    emitter.know_functions()
    return _inline_object(emitter, origins)


def _inline_object(emitter: Emitter, origins: array[int]) -> InlineObject:
    first = emitter.next_id
    func_ids = emitter.inline_functions(origins)
    types, strings = emitter.take()
    return InlineObject(func_ids, strings, types, first, emitter.next_id, emitter.string_offset)


def _collect_functions(debug: DebugInfo, features: Features, threads: int, origins: array[int]) -> list[Collector]:
    """Read the functions ``origins``, by several threads; none reads a part of a unit."""
    tasks = []
    keys = array("Q", sorted(set(origins)))
    for number, info in enumerate(debug.infos):
        first = number << KEY_SHIFT
        offsets = keys[bisect_left(keys, first) : bisect_right(keys, first | OFFSET_MASK)]
        if number:
            offsets = array("Q", [key & OFFSET_MASK for key in offsets])
        at, step = 0, max(_FUNCTIONS_PER_TASK, len(offsets) // (8 * threads))
        while at < len(offsets):
            end = min(at + step, len(offsets))
            unit = info.find_unit(offsets[end - 1])
            while end < len(offsets) and info.find_unit(offsets[end]) == unit:
                end += 1
            tasks.append((number, offsets[at:end]))
            at = end
    collectors = [_collector(debug, features) for _ in range(max(1, min(threads, len(tasks))))]
    spread([mine.collect_functions for mine in collectors], tasks)
    return collectors


def language_numbers(languages: Iterable[str]) -> frozenset[int]:
    """The DW_LANG numbers of languages by their names in LANGUAGES."""
    return frozenset(number for name in languages for number in LANGUAGES.get(name.lower(), ()))


def _tell_apart(graph: Graph, debug: DebugInfo, features: Features, joint: list[Collector] | None) -> None:
    """Separate what one name means in several units; ``joint`` are the collectors if units were read as one."""

    def read_again(info: int, unit: int) -> Collector:
        if joint is not None:
            return joint[0]
        again = _collector(debug, features)
        again.collect((info, unit, unit + 1))
        return again

    separate(graph, read_again)


def _base_of(base: Base | Btf, byte_order: str) -> Base:
    """``base``, which has to be of that byte order."""
    found = Base.of(base)
    if found.btf.byte_order != byte_order:
        raise MismatchError(f"the base is {found.btf.byte_order}-endian, the program is not", path=found.btf.path)
    return found


def _collector(
    debug: DebugInfo, features: Features, excluded: frozenset[int] = frozenset(), *, joint: bool = False
) -> Collector:
    machine = debug.elf.machine
    return Collector(
        debug.infos,
        joint=joint,
        floats=features.floats,
        enum64s=features.enum64,
        decl_tags=features.decl_tag,
        type_tags=features.type_tag,
        registers=bytes(machine.arguments) if features.consistent_func and machine.name in _BY_REGISTER else b"",
        excluded=excluded,
    )


def _collect(
    debug: DebugInfo, features: Features, threads: int, excluded: frozenset[int]
) -> tuple[list[Collector], bool]:
    """Read all units, by several threads; True if units refer to each other and were read as one."""
    portions = debug.portions
    collectors = [_collector(debug, features, excluded) for _ in range(max(1, min(threads, len(portions))))]
    try:
        spread([mine.collect for mine in collectors], portions)
    except ForeignReferenceError:
        together = _collector(debug, features, excluded, joint=True)
        for portion in portions:
            together.collect(portion)
        together.finish_joint()
        return [together], True
    return collectors, False


def _write_functions(emitter: Emitter, elf: ElfFile, features: Features) -> dict[str, int]:
    """Write the FUNCs, by the symbols of ``elf``; the result counts what was left out, by reason."""
    table = elf.symbols().section
    symbols = strings = memoryview(b"")
    if table is not None:
        symbols = elf.raw_data(table)
        strings = elf.raw_data(elf.linked_section(table))
    swap = elf.little_endian != (sys.byteorder == "little")
    bases = array("Q", [section.address for section in elf.sections] if elf.relocatable else [])
    return emitter.write_functions(
        symbols, strings, bases, elf.address_size == 8, swap, features.optimized_func, features.consistent_func
    )


def _write_variables(emitter: Emitter, image: ImageFacts, features: Features) -> None:
    """Write the VARs of the sections that the features ask for, and their DATASECs."""
    wanted = []
    for section in image.elf.sections:
        if not section.allocated or not section.size or section.type not in (_SHT_PROGBITS, _SHT_NOBITS):
            continue
        if features.global_var or (features.var and section.name in image.per_cpu):
            wanted.append((section.name.encode("utf-8", "surrogateescape"), section.address, section.size))
    emitter.write_variables(wanted)


__all__ = [
    "EXCLUDED_LANGUAGES",
    "LANGUAGES",
    "Features",
    "ImageFacts",
    "InlineObject",
    "Types",
    "functions_onto_base",
    "language_numbers",
    "types_from_dwarf",
]
