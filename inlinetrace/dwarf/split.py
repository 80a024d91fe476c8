"""Split DWARF: the .dwo and .dwp files that hold the entries of a program (DWARF 5 sections 7.3.2 and 7.3.5).

The program keeps skeleton units, which name the file and carry an id; addresses and lines stay in the program. A .dwo
is looked for where the skeleton says, then beside the program; a .dwp beside the program (``prog.dwp``).
"""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.dwarf._units import Info
from inlinetrace.errors import FormatError, NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile

# Section ids of the package index: DWARF 5 table 7.1, and the older ones of the GNU format (version 2).
_SECTIONS_5 = {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 8: "rnglists"}
_SECTIONS_2 = {1: "info", 3: "abbrev", 4: "line", 5: "loc", 6: "str_offsets"}


class Skeleton(NamedTuple):
    """What the program says of one split unit."""

    dwo_name: str
    comp_dir: str | None
    stmt_list: int | None
    addr_base: int
    ranges_base: int
    low_pc: int | None
    str_offsets_base: int


class SplitUnits(NamedTuple):
    """The split units that were found, by their skeletons' ids, and the files that are missing."""

    infos: list[Info]
    skeletons: dict[int, Skeleton]
    missing: list[str]

    @property
    def what_is_missing(self) -> str | None:
        """The files that are missing, in a few words; None if none is."""
        if not self.missing:
            return None
        more = f" and {len(self.missing) - 1} more" if len(self.missing) > 1 else ""
        return f"split DWARF: {self.missing[0]}{more} not found"


def find_split_units(elf: ElfFile, info: Info) -> SplitUnits:
    """Open the split units of the skeletons in ``info``; what is not there is listed in ``missing``."""
    found = SplitUnits([], {}, [])
    for index in range(info.count):
        header = info.header(index) if info.has_dwo(index) else None
        if header is None:
            continue
        found.skeletons[header["signature"]] = Skeleton(
            header["dwo_name"] or "",
            header["comp_dir"],
            header["stmt_list"],
            header["addr_base"],
            header["ranges_base"],
            header["low_pc"],
            header["str_offsets_base"],
        )
    if not found.skeletons:
        return found
    package = _open(f"{elf.path}.dwp")
    packed = _package_units(package, elf, found.skeletons) if package is not None else {}
    by_file: dict[str, ElfFile | None] = {}
    for signature, skeleton in found.skeletons.items():
        if signature in packed:
            found.infos.append(packed[signature])
            continue
        if skeleton.dwo_name not in by_file:
            by_file[skeleton.dwo_name] = dwo = _find_dwo(elf, skeleton)
            if dwo is None:
                found.missing.append(skeleton.dwo_name)
            else:
                sections = {name: dwo.data(f".debug_{name}.dwo") for name in (*_SECTIONS_5.values(), "loc")}
                found.infos.append(_make(dwo, elf, sections, found.skeletons))
    return found


def _open(path: str) -> ElfFile | None:
    from inlinetrace.elf.file import ElfFile

    try:
        return ElfFile.open(path)
    except NotFoundError:
        return None


def _find_dwo(elf: ElfFile, skeleton: Skeleton) -> ElfFile | None:
    folder = os.path.dirname(os.path.abspath(elf.path))
    places = [
        os.path.join(skeleton.comp_dir or "", skeleton.dwo_name),
        os.path.join(folder, skeleton.dwo_name),
        os.path.join(folder, os.path.basename(skeleton.dwo_name)),
    ]
    for place in places:
        dwo = _open(place)
        if dwo is not None:
            return dwo
    return None


def _make(dwo: ElfFile, elf: ElfFile, sections: dict[str, memoryview], skeletons: dict[int, Skeleton]) -> Info:
    empty = memoryview(b"")
    return Info(
        sections.get("info", empty),
        abbrev=sections.get("abbrev", empty),
        strings=dwo.data(".debug_str.dwo"),
        line_strings=empty,
        str_offsets=sections.get("str_offsets", empty),
        addresses=elf.data(".debug_addr"),
        rnglists=sections.get("rnglists", empty),
        loclists=sections.get("loclists", empty),
        ranges=elf.data(".debug_ranges"),
        locations=sections.get("loc", empty),
        swap=dwo.little_endian != (sys.byteorder == "little"),
        path=dwo.path,
        section=".debug_info.dwo",
        is_dwo=True,
        skeletons={
            signature: (s.addr_base, s.ranges_base, s.low_pc or 0, s.low_pc is not None)
            for signature, s in skeletons.items()
        },
        discards_at_zero=elf.discards_at_zero,
    )


def _package_units(package: ElfFile, elf: ElfFile, skeletons: dict[int, Skeleton]) -> dict[int, Info]:
    """The units of a .dwp by their ids (DWARF 5 section 7.3.5.3)."""
    index = package.data(".debug_cu_index")
    order = "<" if package.little_endian else ">"

    def fault(text: str, offset: int) -> FormatError:
        return FormatError(text, path=package.path, section=".debug_cu_index", offset=offset)

    if len(index) < 16:
        raise fault("the index of the package is cut off", 0)
    version = struct.unpack_from(order + "I", index)[0]
    if version != 2:
        version = struct.unpack_from(order + "H", index)[0]
    if version not in (2, 5):
        raise UnsupportedError(f"package index version {version}", path=package.path, section=".debug_cu_index")
    columns, units, slots = struct.unpack_from(order + "III", index, 4)
    hashes, rows = 16, 16 + 8 * slots
    ids, offsets = rows + 4 * slots, rows + 4 * slots + 4 * columns
    sizes = offsets + 4 * columns * units
    if sizes + 4 * columns * units > len(index):
        raise fault("the index of the package is cut off", len(index))
    names = [
        (_SECTIONS_5 if version == 5 else _SECTIONS_2).get(number)
        for number in struct.unpack_from(f"{order}{columns}I", index, ids)
    ]
    whole = {name: package.data(f".debug_{name}.dwo") for name in names if name}
    found: dict[int, Info] = {}
    for slot in range(slots):
        row = struct.unpack_from(order + "I", index, rows + 4 * slot)[0]
        signature = struct.unpack_from(order + "Q", index, hashes + 8 * slot)[0]
        if not row or signature not in skeletons:
            continue
        if row > units:
            raise fault("a slot names a row that does not exist", rows + 4 * slot)
        starts = struct.unpack_from(f"{order}{columns}I", index, offsets + 4 * columns * (row - 1))
        lengths = struct.unpack_from(f"{order}{columns}I", index, sizes + 4 * columns * (row - 1))
        sections = {}
        for name, start, length in zip(names, starts, lengths, strict=True):
            if not name:
                continue
            if start + length > len(whole[name]):
                raise fault(f"a unit's part of .debug_{name}.dwo lies outside of it", offsets)
            sections[name] = whole[name][start : start + length]
        found[signature] = _make(package, elf, sections, skeletons)
    return found
