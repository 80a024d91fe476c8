"""The DWARF of one ELF file: its units wherever they stand, their records, line tables and call frames.

>>> dwarf = DebugInfo(ElfFile.open("vmlinux"))
>>> records = dwarf.records[0]              # of .debug_info; more for split and supplementary files
>>> records = dwarf.records_naming(["foo"]) # the same, but only what functions of that name need is scanned
>>> dwarf.cfa(0xffffffff81000123)           # (register, offset)

Units may stand in ``.debug_info`` (an object with type units has several sections of that name), in ``.debug_types``,
in the supplementary file that dwz makes, and in ``.dwo`` or ``.dwp`` files beside the program (split DWARF). Each place
is one Info; an entry is named by a key, the number of its Info above bit 44 and its offset below.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace._threads import in_order, processors
from inlinetrace.dwarf._dies import DieReader
from inlinetrace.dwarf._lines import LineProgram
from inlinetrace.dwarf._naming import Naming
from inlinetrace.dwarf._records import Records
from inlinetrace.dwarf._scan import Chunk, scan, unread
from inlinetrace.dwarf._units import Info
from inlinetrace.dwarf.frames import CallFrames, FrameTable
from inlinetrace.dwarf.split import SplitUnits, find_split_units
from inlinetrace.elf.constants import SHF_GROUP
from inlinetrace.errors import InlineTraceError

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.elf.sections import Section

KEY_SHIFT = 44
OFFSET_MASK = (1 << KEY_SHIFT) - 1
MISSING = (1 << 64) - 1
"""The key of an entry that stands in a file that is not there."""

# Enough units per task that starting it costs nothing, few enough that two threads end together.
_UNITS_PER_TASK = 32
# Of so few units all are scanned, whatever is asked for.
_FEW_UNITS = 64
# The decoded line tables of a whole kernel would take more memory than everything else.
_LINES_KEPT = 64


class Unit(NamedTuple):
    """One unit: what its header and root entry say. Strings are None and offsets None where absent."""

    info: int
    number: int
    offset: int
    version: int
    address_size: int
    offset_size: int
    language: int
    name: str | None
    comp_dir: str | None
    producer: str | None
    low_pc: int | None
    stmt_list: int | None
    str_offsets_base: int


class DebugInfo:
    """The DWARF of ``elf``; ``program`` is the file with the code if that is another one (separate debug files).

    ``alternate`` is the supplementary file (dwz). ``jobs`` is the number of threads that scan, by default one per
    processor. Reading is lazy; every access can raise FormatError.
    """

    def __init__(
        self, elf: ElfFile, *, program: ElfFile | None = None, alternate: ElfFile | None = None, jobs: int | None = None
    ) -> None:
        self.elf = elf
        self.program = program or elf
        self.jobs = jobs or processors()
        self.alternate_missing = alternate is None and elf.debug_alt_link is not None
        self.scanned: list[Records] = []
        """The records of every Info as far as they were asked for; empty before that."""
        # whether each unit is a chunk of its own
        self._one_by_one = False
        # number of the Info and of the chunk -> first unit, the one behind the last
        self._waiting: dict[tuple[int, int], tuple[int, int]] = {}
        # names whose units are all scanned, and the units of those that were asked for
        self._named: set[str] = set()
        self._searched: dict[frozenset[str], list[int] | None] = {}
        self._units: dict[tuple[int, int], Unit] = {}
        self._lines: dict[tuple[int, int | None, int, str | None], LineProgram] = {}
        supplement = None if alternate is None else self._make(alternate, alternate.section(".debug_info"), None)
        self.infos: list[Info] = [self._make(elf, section, supplement) for section in _sections_of_units(elf)]
        if supplement is not None:
            self.infos.append(supplement)
        self._supplement = supplement
        self.split: SplitUnits = find_split_units(elf, self.infos[0])
        self.infos += self.split.infos
        self.dies = DieReader(self.infos)

    @staticmethod
    def _make(elf: ElfFile, section: Section | None, alternate: Info | None) -> Info:
        return Info(
            elf.data(section),
            abbrev=elf.data(".debug_abbrev"),
            strings=elf.data(".debug_str"),
            line_strings=elf.data(".debug_line_str"),
            str_offsets=elf.data(".debug_str_offsets"),
            addresses=elf.data(".debug_addr"),
            rnglists=elf.data(".debug_rnglists"),
            loclists=elf.data(".debug_loclists"),
            ranges=elf.data(".debug_ranges"),
            locations=elf.data(".debug_loc"),
            swap=elf.little_endian != (sys.byteorder == "little"),
            path=elf.path,
            section=".debug_info" if section is None else section.name,
            alternate=alternate,
            discards_at_zero=elf.discards_at_zero,
        )

    @property
    def portions(self) -> list[tuple[int, int, int]]:
        """All units in portions for one thread each: number of the Info, first unit, the one behind the last."""
        return [
            (number, first, min(first + _UNITS_PER_TASK, info.count))
            for number, info in enumerate(self.infos)
            for first in range(0, info.count, _UNITS_PER_TASK)
        ]

    @property
    def records(self) -> list[Records]:
        """The records of every Info, in the order of ``infos``; scanned by all threads at the first use."""
        if not self.scanned:
            self._lay_out(self.portions)
        self._scan(list(self._waiting))
        return self.scanned

    def records_naming(self, names: Iterable[str]) -> list[Records]:
        """The same, but maybe only those units are scanned that have functions of these names, whole.

        Units that are scanned later change nobody's id.
        """
        new = frozenset(names) - self._named
        if new:
            found = self._units_naming(new)
            if found is None or (self.scanned and not self._one_by_one):
                return self.records
            if not self.scanned:
                self._one_by_one = True
                self._lay_out([(0, unit, unit + 1) for unit in range(self.infos[0].count)])
            self._scan([(0, unit) for unit in found])
            self._named.update(new)
        return self.scanned

    def _lay_out(self, places: list[tuple[int, int, int]]) -> None:
        """Make empty chunks: of which Info, first unit, the one behind the last."""
        for number, info in enumerate(self.infos):
            mine = [(first, last) for owner, first, last in places if owner == number]
            self.scanned.append(Records(info, [unread(*place) for place in mine]))
            self._waiting.update({(number, chunk): place for chunk, place in enumerate(mine)})

    def _scan(self, wanted: list[tuple[int, int]]) -> None:
        """Scan those of the wanted chunks that wait for it."""

        def work(chunk: tuple[int, int]) -> Chunk:
            return scan(self.infos[chunk[0]], *self._waiting[chunk])

        wanted = [chunk for chunk in wanted if chunk in self._waiting]
        for (number, index), chunk in zip(wanted, in_order(work, wanted, self.jobs), strict=True):
            self.scanned[number].put(index, chunk)
            del self._waiting[number, index]

    def bytes_to_scan(self, names: Iterable[str] | None) -> int:
        """How much ``records_naming`` reads for these names, for None ``records``: bytes of units."""
        found = None if names is None else self._units_naming(frozenset(names))
        if found is not None:
            return sum(map(self.infos[0].unit_size, found))
        return sum(info.unit_size(unit) for info in self.infos for unit in range(info.count))

    def _units_naming(self, names: frozenset[str]) -> list[int] | None:
        """Numbers of the units that can have functions of these names; None if that cannot be told cheaply."""
        if names not in self._searched:
            self._searched[names] = self._search(names)
        return self._searched[names]

    def _search(self, names: frozenset[str]) -> list[int] | None:
        info, *others = self.infos
        if others or info.count <= _FEW_UNITS or (self.scanned and not self._waiting):
            return None
        naming = Naming(info, [name.encode("utf-8", "surrogateescape") for name in names])
        if not naming.useful:
            return None
        parts = in_order(lambda portion: naming.units(*portion[1:]), self.portions, self.jobs)
        found: list[int] = []
        for part in parts:
            if part is None:
                return None
            found += part
        return found

    @property
    def supplement_number(self) -> int | None:
        """Number of the supplementary file's Info, None if there is none."""
        return None if self._supplement is None else self.infos.index(self._supplement)

    def unit(self, info: int, index: int) -> Unit:
        """Unit ``index`` of Info number ``info``."""
        unit = self._units.get((info, index))
        if unit is None:
            header = self.infos[info].header(index)
            stmt_list = header["stmt_list"]
            comp_dir = header["comp_dir"]
            str_offsets_base = header["str_offsets_base"]
            if self.infos[info].is_dwo:
                # call and declaration files of a split unit are those of its skeleton (DWARF 5 section 7.3.2.2)
                skeleton = self.split.skeletons.get(header["signature"])
                if skeleton is not None:
                    stmt_list, comp_dir = skeleton.stmt_list, comp_dir or skeleton.comp_dir
                    str_offsets_base = skeleton.str_offsets_base
            unit = self._units[info, index] = Unit(
                info,
                index,
                header["offset"],
                header["version"],
                header["address_size"],
                header["offset_size"],
                header["language"],
                header["name"],
                comp_dir,
                header["producer"],
                header["low_pc"],
                stmt_list,
                str_offsets_base,
            )
        return unit

    def unit_of(self, key: int) -> Unit | None:
        """The unit around the entry ``key``."""
        if key == MISSING:
            return None
        number = key >> KEY_SHIFT
        index = self.infos[number].find_unit(key & OFFSET_MASK)
        return None if index < 0 else self.unit(number, index)

    def read_lines(self, unit: Unit) -> LineProgram | None:
        """The line table of ``unit``, read anew; None if it has none."""
        if unit.stmt_list is None or (self._supplement is not None and self.infos[unit.info] is self._supplement):
            # dwz moves no line tables into the supplementary file.
            return None
        elf = self.elf
        data, line_str, strings, string_offsets = self._line_sections
        return LineProgram(
            data,
            unit.stmt_list,
            path=elf.path,
            little_endian=elf.little_endian,
            address_size=unit.address_size,
            comp_dir=unit.comp_dir,
            line_str=line_str,
            strings=strings,
            string_offsets=string_offsets,
            string_offsets_base=unit.str_offsets_base,
        )

    def lines(self, unit: Unit) -> LineProgram | None:
        """The line table of ``unit``; None if it has none. Only those that were asked for last are kept."""
        key = (unit.info, unit.stmt_list, unit.str_offsets_base, unit.comp_dir)
        program = self._lines.pop(key, None)
        if program is None:
            program = self.read_lines(unit)
            if program is None:
                return None
            if len(self._lines) >= _LINES_KEPT:
                self._lines.pop(next(iter(self._lines)), None)
        # A dict keeps the order of insertion: what was used last stands last.
        self._lines[key] = program
        return program

    @cached_property
    def _line_sections(self) -> tuple[memoryview, memoryview, memoryview, memoryview]:
        """The sections that line tables are read from."""
        data = self.elf.data
        return data(".debug_line"), data(".debug_line_str"), data(".debug_str"), data(".debug_str_offsets")

    def forget_lines(self) -> None:
        """Let go of the line tables that were read; those of a kernel take a hundred megabytes."""
        self._lines.clear()

    @cached_property
    def frames(self) -> CallFrames:
        """The call frames, from ``.debug_frame`` and ``.eh_frame`` of the file that has them."""
        tables = []
        for name, eh in ((".debug_frame", False), (".eh_frame", True)):
            for elf in (self.elf, self.program):
                section = elf.section(name)
                data = elf.data(section)
                if section is None or not len(data):
                    continue
                text = elf.section(".text")
                tables.append(
                    FrameTable(
                        data,
                        eh=eh,
                        section=name,
                        path=elf.path,
                        address=section.address,
                        address_size=elf.address_size,
                        little_endian=elf.little_endian,
                        text_address=text.address if text else None,
                    )
                )
                break
        return CallFrames(tables)

    def cfa(self, pc: int) -> tuple[int, int] | None:
        """The canonical frame address at ``pc`` as DWARF register number and offset in bytes.

        None if it is unknown, or computed by an expression.
        """
        found = self.frames.cfa(pc)
        return found if isinstance(found, tuple) else None


def _sections_of_units(elf: ElfFile) -> list[Section | None]:
    """The sections with units, that of the compile units first: an object file has one more for each type unit."""
    main = sorted(elf.sections_named(".debug_info"), key=lambda section: section.flags & SHF_GROUP)
    types = [section for section in elf.sections_named(".debug_types") if elf.data(section)]
    return [*main, *types] if main else [None, *types]


def no_debug_info(elf: ElfFile, what: str) -> InlineTraceError:
    """The error for a file that has no DWARF, with what to do."""
    from inlinetrace.errors import NotFoundError

    build_id = elf.build_id.hex() if elf.build_id else "none"
    return NotFoundError(f"no DWARF here and no separate debug file found (build id {build_id}): {what}", path=elf.path)
