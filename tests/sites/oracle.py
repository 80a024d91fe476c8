"""What a program's DWARF says of its inlined functions, read by pyelftools and llvm-dwarfdump."""

from __future__ import annotations

import io
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.dwarf.locationlists import LocationEntry
from elftools.elf.elffile import ELFFile

DWARFDUMP = "llvm-dwarfdump-19"


def counted_sites(*files: Path) -> int:
    """How many inlined functions llvm-dwarfdump counts in ``files``."""
    total = 0
    for file in files:
        text = subprocess.run([DWARFDUMP, "--statistics", str(file)], capture_output=True, text=True, check=True).stdout
        total += json.loads(text)["#inlined functions"]
    return total


@dataclass
class OtherSite:
    """One inlined subroutine as pyelftools reads it. ``expressions`` maps names to what is live at the address."""

    offset: int
    function: str
    address: int | None
    view: int
    line: int
    column: int
    parents: list[str] = field(default_factory=list)
    prototype: list[str] = field(default_factory=list)
    expressions: dict[str, bytes | None] = field(default_factory=dict)


class OtherReader:
    """Reads one linked file. Slow and simple: every entry is visited."""

    def __init__(self, path: Path) -> None:
        elf = ELFFile(io.BytesIO(path.read_bytes()))
        self._dwarf: Any = elf.get_dwarf_info(relocate_dwarf_sections=elf["e_type"] == "ET_REL")
        self._locations: Any = self._dwarf.location_lists()
        self._ranges: Any = self._dwarf.range_lists()

    def sites(self) -> Iterator[OtherSite]:
        for unit in self._dwarf.iter_CUs():
            names: list[str] = []
            pending = [(unit.get_top_DIE(), names)]
            while pending:
                entry, parents = pending.pop()
                if entry.tag == "DW_TAG_inlined_subroutine":
                    yield self._site(unit, entry, parents)
                if entry.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_subprogram"):
                    parents = [self.name(entry), *parents]
                pending += [(child, parents) for child in entry.iter_children()]

    def name(self, entry: Any) -> str:
        return str(self._attribute(entry, "DW_AT_name").decode())

    def _attribute(self, entry: Any, name: str) -> Any:
        for _ in range(8):
            if name in entry.attributes:
                return entry.attributes[name].value
            for link in ("DW_AT_abstract_origin", "DW_AT_specification"):
                if link in entry.attributes:
                    entry = entry.get_DIE_from_attribute(link)
                    break
            else:
                break
        return b""

    def _prototype(self, entry: Any) -> list[tuple[int, str]]:
        for _ in range(8):
            own = [
                (child.offset, self.name(child))
                for child in entry.iter_children()
                if child.tag == "DW_TAG_formal_parameter"
            ]
            link = next((a for a in ("DW_AT_abstract_origin", "DW_AT_specification") if a in entry.attributes), None)
            if link is None:
                return own
            following = entry.get_DIE_from_attribute(link)
            if own and link == "DW_AT_specification":
                return own
            entry = following
        return []

    def _base(self, unit: Any) -> int:
        attribute = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
        return int(attribute.value) if attribute else 0

    def _first_range(self, unit: Any, offset: int) -> int | None:
        base = self._base(unit)
        first: int | None = None
        for item in self._ranges.get_range_list_at_offset(offset, unit):
            if not hasattr(item, "begin_offset"):
                base = item.base_address
                continue
            begin = item.begin_offset + (0 if item.is_absolute else base)
            end = item.end_offset + (0 if item.is_absolute else base)
            if begin != end:
                return int(begin)
            first = begin if first is None else first
        return first

    def _site(self, unit: Any, entry: Any, parents: list[str]) -> OtherSite:
        attributes = entry.attributes
        address = None
        if "DW_AT_entry_pc" in attributes:
            address = attributes["DW_AT_entry_pc"].value
            if not attributes["DW_AT_entry_pc"].form.startswith("DW_FORM_addr"):
                address += attributes["DW_AT_low_pc"].value if "DW_AT_low_pc" in attributes else self._base(unit)
        elif "DW_AT_low_pc" in attributes:
            address = attributes["DW_AT_low_pc"].value
        elif "DW_AT_ranges" in attributes:
            address = self._first_range(unit, attributes["DW_AT_ranges"].value)
        view = attributes["DW_AT_GNU_entry_view"].value if "DW_AT_GNU_entry_view" in attributes else 0
        origin = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
        site = OtherSite(
            entry.offset,
            self.name(entry),
            address,
            view,
            attributes["DW_AT_call_line"].value if "DW_AT_call_line" in attributes else 0,
            attributes["DW_AT_call_column"].value if "DW_AT_call_column" in attributes else 0,
            parents,
            [name for _, name in self._prototype(origin)],
        )
        for child in entry.iter_children():
            if child.tag == "DW_TAG_formal_parameter" and "DW_AT_abstract_origin" in child.attributes:
                expression = self._live(unit, child, site.address or 0, view)
                if site.expressions.get(self.name(child)) is None:
                    site.expressions[self.name(child)] = expression
        return site

    def _live(self, unit: Any, entry: Any, pc: int, view: int) -> bytes | None:
        attribute = entry.attributes.get("DW_AT_location")
        if attribute is None:
            return None
        if attribute.form in ("DW_FORM_exprloc", "DW_FORM_block1", "DW_FORM_block"):
            return bytes(attribute.value)
        offset = attribute.value
        views: list[tuple[int, int]] = []
        if "DW_AT_GNU_locviews" in entry.attributes:
            views = self._views(entry.attributes["DW_AT_GNU_locviews"].value, offset)
        base = self._base(unit)
        number = 0
        for item in self._locations.get_location_list_at_offset(offset, entry):
            if not isinstance(item, LocationEntry):
                base = getattr(item, "base_address", base)
                continue
            begin = item.begin_offset + (0 if item.is_absolute else base)
            end = item.end_offset + (0 if item.is_absolute else base)
            first, last = views[number] if views else (0, 0)
            number += 1
            if (begin, first) <= (pc, view if views else 0) < (end, last):
                return bytes(item.loc_expr)
        return None

    def _views(self, offset: int, end: int) -> list[tuple[int, int]]:
        section = self._dwarf.debug_loclists_sec or self._dwarf.debug_loc_sec
        data = section.stream.getvalue()[offset:end]
        numbers, value, shift = [], 0, 0
        for byte in data:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                numbers.append(value)
                value = shift = 0
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def differences(path: Path) -> tuple[int, list[str]]:
    """Compare every site of ``path`` with pyelftools': how many there are, and what differs."""
    from inlinetrace.target import open_image

    other = {site.offset: site for site in OtherReader(path).sites()}
    image = open_image(path)
    found: list[str] = []
    records = image.dwarf.records[0]
    ids = records.all_sites()
    for id_ in ids:
        entry = records.site(id_)
        wanted = other.pop(entry.die, None)
        if wanted is None:
            found.append(f"{entry.die:#x}: no such site")
            continue
        mine = (entry.address if entry.has_address else None, entry.view, entry.call_line, entry.call_column)
        theirs = (wanted.address, wanted.view, wanted.line, wanted.column)
        if mine != theirs:
            found.append(f"{entry.die:#x} {wanted.function}: {mine} is {theirs}")
        expressions: dict[str, bytes | None] = {}
        function = image.reader.function_of(0, entry)
        names = [name for name, _ in function.parameters]
        if (function.name, names) != (wanted.function, [n or f"arg{i}" for i, n in enumerate(wanted.prototype)]):
            found.append(f"{entry.die:#x} {wanted.function}{wanted.prototype} is {function.name}{names}")
        for origin, kind, value, _ in records.parameters(id_, True, entry.address, entry.view):
            position = function.index_of(origin)
            if position < 0:
                found.append(f"{entry.die:#x} {wanted.function}: {origin:#x} is no parameter")
            elif kind not in (4, 5, 6) and expressions.get(names[position]) is None:
                expressions[names[position]] = value if isinstance(value, bytes) else None
        if expressions != {name: value for name, value in wanted.expressions.items() if name in expressions}:
            found.append(f"{entry.die:#x} {wanted.function}: {expressions} is {wanted.expressions}")
    found += [f"{offset:#x} {site.function}: missed" for offset, site in other.items()]
    built = Counter((s.function, s.address, tuple(p.name for p in s.parameters)) for s in image.sites() if s.inlined)
    expected = Counter(
        (s.function, s.address, tuple(n or f"arg{i}" for i, n in enumerate(s.prototype)))
        for s in OtherReader(path).sites()
        if s.address is not None
    )
    if built != expected:
        found.append(f"sites built: {built - expected} instead of {expected - built}")
    return len(ids), found
