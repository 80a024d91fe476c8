"""Inline sites as llvm-dwarfdump sees them: the independent word on addresses and registers.

Only the DIEs of one out-of-line function are printed, found by its symbol, so that a look costs a fraction of a second
even on a distribution kernel.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

_DWARFDUMPS = ("llvm-dwarfdump", "llvm-dwarfdump-19", "llvm-dwarfdump-16", "llvm-dwarfdump-14")
_DIE = re.compile(r"^(0x[0-9a-f]+):(\s+)(DW_TAG_\w+|NULL)")
_RANGE = re.compile(r"\[(0x[0-9a-f]+), (0x[0-9a-f]+)\)(?:: (.*?))?\)?$")


def symbol_addresses(file: Path, names: set[str]) -> dict[str, list[int]]:
    """The addresses that nm gives for each of ``names``."""
    found: dict[str, list[int]] = {name: [] for name in names}
    for line in _output("nm", str(file)).splitlines():
        words = line.split()
        if len(words) == 3 and words[2] in found:
            found[words[2]].append(int(words[0], 16))
    return found


def inlined(file: Path, *, caller: str, function: str) -> list[dict[str, Any]]:
    """The sites of ``function`` inlined into the out-of-line ``caller`` of a linked kernel, at any depth.

    One dictionary each: ``offset`` from _stext and ``symbol_offset`` from ``caller``, both of the entry pc, and
    ``registers``, the parameters that lie in one register there, by DWARF name ("RDI"). LookupError if there are none.
    """
    addresses = symbol_addresses(file, {caller, "_stext"})
    if len(addresses[caller]) != 1 or len(addresses["_stext"]) != 1:
        raise LookupError(f"{file} has {len(addresses[caller])} symbols {caller}")
    start, base = addresses[caller][0], addresses["_stext"][0]
    tool = next((name for name in _DWARFDUMPS if shutil.which(name)), "llvm-dwarfdump")
    lookup = _output(tool, f"--lookup={start:#x}", str(file))
    offset = re.search(r"^(0x[0-9a-f]+):\s+DW_TAG_subprogram", lookup, re.MULTILINE)
    if offset is None:
        raise LookupError(f"{file} has no DWARF for {caller}")
    sites = _sites(_output(tool, f"--debug-info={offset[1]}", "-c", str(file)), function)
    if not sites:
        raise LookupError(f"{function} is not inlined into {caller} in {file}")
    return [{"offset": pc - base, "symbol_offset": pc - start, "registers": registers} for pc, registers in sites]


def _sites(text: str, function: str) -> list[tuple[int, dict[str, str]]]:
    sites: list[tuple[int, dict[str, str]]] = []
    site_indent = -1
    for die in _dies(text):
        indent, tag, body = die
        if indent <= site_indent:
            site_indent = -1
        if tag == "DW_TAG_inlined_subroutine" and f'"{function}")' in body:
            entry = re.search(r"DW_AT_(?:entry_pc|low_pc)\s+\((0x[0-9a-f]+)\)", body)
            if entry is not None:
                sites.append((int(entry[1], 16), {}))
                site_indent = indent
        elif tag == "DW_TAG_formal_parameter" and site_indent >= 0 and indent == site_indent + 2:
            name = re.search(r'DW_AT_abstract_origin\s+\(0x[0-9a-f]+ "(\w+)"', body)
            register = _register_at(body, sites[-1][0])
            if name is not None and register is not None:
                sites[-1][1][name[1]] = register
    return sites


def _dies(text: str) -> list[tuple[int, str, str]]:
    found: list[tuple[int, str, list[str]]] = []
    for line in text.splitlines():
        start = _DIE.match(line)
        if start is not None:
            found.append((len(start[2]), start[3], []))
        elif found:
            found[-1][2].append(line)
    return [(indent, tag, "\n".join(lines)) for indent, tag, lines in found]


def _register_at(body: str, pc: int) -> str | None:
    for line in body.splitlines():
        found = _RANGE.search(line)
        if found is not None and int(found[1], 16) <= pc < int(found[2], 16):
            register = re.fullmatch(r"DW_OP_reg\d+ (\w+)", found[3] or "")
            return register[1] if register is not None else None
    return None


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
