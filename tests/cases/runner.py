"""Build a case, run it under ptrace with a breakpoint at every site, and hold what is shown against what it prints.

Each program prints one line per call of an inlined function, ``function name=value ...``. The printed names are those
of the parameters, or of members of a parameter that is a structure (:data:`MEMBERS`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryFile

from inlinetrace.sites.model import Encoding, Parameter, Site
from inlinetrace.sites.reasons import Mark, Unavailable
from inlinetrace.sites.values import decode_value
from inlinetrace.target import open_image
from tests.oracle.compilers import Configuration, build
from tests.oracle.ptrace import Tracee
from tests.oracle.reader import Memory
from tests.oracle.run import load_bias

PROGRAMS = Path(__file__).with_name("programs")
MANY = 300

Shown = int | bool | float | str | bytes
Values = Mapping[str, Shown | Unavailable]

CASES: Mapping[str, tuple[str, ...]] = {
    "address": ("address.c",),
    "aggregates": ("aggregates.c",),
    "many": ("many.c",),
    "order": ("order.c",),
    "reassigned": ("reassigned.c",),
    "reg_plus_const": ("reg_plus_const.c",),
    "same_address": ("same_address.c",),
    "two_units": ("unit_a.c", "unit_b.c"),
    "view_only": ("view_only.c",),
}

MEMBERS: Mapping[tuple[str, str], Mapping[str, tuple[int, int]]] = {
    ("cut", "s"): {"from": (0, 8), "to": (8, 8)},
    ("mark", "t"): {"a": (0, 2), "b": (2, 1)},
    ("pour", "b"): {"w0": (0, 8), "w4": (32, 8)},
}
"""(function, parameter) to the printed members: offset and size in bytes, all signed."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One logical hit: the site and the values that are shown without doubt, by printed name."""

    site: Site
    values: Values


@dataclass(frozen=True, slots=True)
class CaseRun:
    """A traced execution: all sites, the hits in order, and the printed calls as (function, name to text)."""

    sites: Sequence[Site]
    hits: Sequence[Hit]
    printed: Sequence[tuple[str, Mapping[str, str]]]


def build_case(name: str, configuration: Configuration, folder: Path) -> Path:
    """Compile and link a case; the path of the program."""
    for source in CASES[name]:
        if source == "many.c":
            script = [sys.executable, str(PROGRAMS / "gen_many.py"), str(MANY)]
            text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
        else:
            text = (PROGRAMS / source).read_text()
        (folder / source).write_text(text)
    build(configuration, CASES[name], [], name, folder)
    return folder / name


def run_case(binary: Path) -> CaseRun:
    """Trace one execution without arguments."""
    sites = [site for site in open_image(str(binary)).sites() if Mark.TRANSPARENT not in site.marks]
    inlined = sorted((site for site in sites if site.inlined), key=lambda site: len(site.chain))
    at: dict[int, list[Site]] = defaultdict(list)
    hits = []
    with TemporaryFile() as output:
        with Tracee([str(binary)], output.fileno()) as tracee:
            bias = load_bias(tracee, binary)
            for site in inlined:
                at[site.address + bias].append(site)
            tracee.insert(at)
            for address in tracee.stops(30.0):
                registers = tracee.registers()
                for site in at[address]:
                    values: dict[str, Shown | Unavailable] = {}
                    for parameter in site.parameters:
                        values |= _values(site, parameter, registers, tracee.read, bias)
                    hits.append(Hit(site, values))
        os.lseek(output.fileno(), 0, os.SEEK_SET)
        lines = output.read().decode().splitlines()
    printed = [(line.split()[0], dict(word.split("=", 1) for word in line.split()[1:])) for line in lines]
    return CaseRun(sites, hits, printed)


def _values(site: Site, parameter: Parameter, registers: Mapping[int, int], memory: Memory, bias: int) -> Values:
    """What is shown for a parameter, under the names that the program prints."""
    location = parameter.location
    if isinstance(location, Unavailable) or parameter.doubt is not None:
        return {}
    raw = location.read(registers, memory, bias)
    if isinstance(raw, Unavailable):
        return {parameter.name: raw}
    members = MEMBERS.get((site.function, parameter.name))
    if members is not None:
        return {
            name: int.from_bytes(raw[offset : offset + size], "little", signed=True)
            for name, (offset, size) in members.items()
        }
    value = decode_value(raw, parameter.type)
    if parameter.type.encoding is Encoding.POINTER and "char" in parameter.type.text and isinstance(value, int):
        return {parameter.name: _string(memory, value)}
    return {parameter.name: float(value) if isinstance(value, Decimal) else value}


def _string(memory: Memory, address: int) -> str:
    text = bytearray()
    while (byte := memory(address + len(text), 1)) and byte != b"\0":
        text += byte
    return text.decode(errors="replace")


def agrees(values: Values, printed: Mapping[str, str]) -> bool:
    """True if everything that is shown is what the program printed; what is unavailable agrees with anything."""
    return all(
        isinstance(value, Unavailable) or name not in printed or _same(value, printed[name])
        for name, value in values.items()
    )


def _same(value: Shown, text: str) -> bool:
    if isinstance(value, str):
        return value == text
    try:
        return value == int(text, 0)
    except ValueError:
        return False


def contradictions(run: CaseRun) -> list[str]:
    """One text per hit that shows what no printed call of its function passed, or not the one it stands for.

    The hits of a function stand for its printed calls in order; where a compiler moved calls past each other or made
    the sites hit more or less often, each hit has to be one of the calls.
    """
    printed: dict[str, list[Mapping[str, str]]] = defaultdict(list)
    for function, values in run.printed:
        printed[function].append(values)
    shown: dict[str, list[Hit]] = defaultdict(list)
    for hit in run.hits:
        shown[hit.site.function].append(hit)
    wrong = []
    for function, hits in shown.items():
        calls = printed[function]
        if len(hits) == len(calls) and all(agrees(h.values, c) for h, c in zip(hits, calls, strict=True)):
            continue
        for hit in hits:
            if not any(agrees(hit.values, call) for call in calls):
                wrong.append(f"{function} at {hit.site.address:#x} shows {dict(hit.values)}, passed were {calls}")
    return wrong
