"""Hits as lines of text and as JSON objects; both show the same values."""

from __future__ import annotations

import json
import math
import re
import time
from decimal import Decimal
from typing import TYPE_CHECKING

from inlinetrace.probe.types import Character, Decoded, Enumerator, Pointer, Rest
from inlinetrace.sites.reasons import Unavailable

if TYPE_CHECKING:
    from inlinetrace.probe.events import Hit
    from inlinetrace.probe.stacks import Symbols
    from inlinetrace.sites.model import Site

# Names of processes that are kept.
_KEPT = 1000
_BACKSLASH = "\\"
_BYTES = re.compile("[\udc80-\udcff]")
_ENCODE = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


class Output:
    """Renders hits. ``epoch`` is what has to be added to the monotonic clock for the time of day, in nanoseconds.

    With ``symbols`` hits have their stacks: in the JSON object, or as the lines of ``stack`` behind their own.
    """

    def __init__(
        self,
        epoch: int,
        *,
        verbose: bool = False,
        hidden: frozenset[str] = frozenset(),
        symbols: Symbols | None = None,
    ) -> None:
        self._epoch = epoch
        self._symbols = symbols
        self._verbose = verbose
        self._hidden = hidden
        self._seconds = (-1, "")
        self._places: dict[int, tuple[Site, str]] = {}
        self._json_places: dict[int, tuple[Site, int, str, str]] = {}
        self._commands: dict[str, str] = {}
        self._labels = _Labels()

    def line(self, hit: Hit, process: int | None) -> str:
        """``17:02:41.123456 cat/4242 [001] vfs_llseek(file=0xffff8881, whence=0) ksys_lseek+0x4f``."""
        seconds, fraction = divmod((hit.time + self._epoch) // 1000, 1_000_000)
        if seconds != self._seconds[0]:
            self._seconds = (seconds, time.strftime("%H:%M:%S", time.localtime(seconds)))
        arguments = ", ".join(
            f"{label}={self._argument(hit, label, value)}"
            for label, value in hit.values.items()
            if label not in self._hidden
        )
        who = f"{_with_bytes(hit.command.replace(_BACKSLASH, 2 * _BACKSLASH))}/{'?' if process is None else process}"
        if process != hit.thread:
            who += f"/{hit.thread}"
        return (
            f"{self._seconds[1]}.{fraction:06d} {who} [{hit.cpu:03d}] {hit.site.function}({arguments}) "
            f"{self._place(hit.site)}"
        )

    def stack(self, hit: Hit, process: int | None) -> list[str]:
        """The stacks as lines that follow the hit's own, the kernel's before the user's; none without symbols."""
        if self._symbols is None:
            return []
        stacks = self._symbols.stacks(hit, process)
        return [f"        {frame.text()}" for frames in stacks.values() for frame in frames]

    def _argument(self, hit: Hit, label: str, value: Decoded | Unavailable) -> str:
        if isinstance(value, Unavailable):
            if not self._verbose:
                return "?"
            return f"?<{value.reason.value}{': ' if value.detail else ''}{value.detail}>"
        doubt = hit.doubts.get(label) if hit.doubts else None
        shown = text_of(value)
        if doubt is None:
            return shown
        return f"~{shown}<{doubt.value}>" if self._verbose else f"~{shown}"

    def _place(self, site: Site) -> str:
        known = self._places.get(id(site))
        if known is None:
            place = f"{site.symbol}+{site.symbol_offset:#x}" if site.symbol is not None else f"{site.address:#x}"
            if not site.inlined:
                place = f"{site.copy or place} (out of line)"
            elif self._verbose and site.chain:
                place += f" in {' < '.join(frame.function for frame in site.chain)}"
            known = self._places[id(site)] = (site, place)
        return known[1]

    def json(self, hit: Hit, process: int | None) -> str:
        """One object on one line; the keys are a contract and only grow."""
        # Millions of lines come from few sites: what is the same in all of them is encoded once.
        time_, cpu, thread, command, site, bias, values, doubts, _ = hit
        known = self._json_places.get(id(site))
        if known is None or known[1] != bias:
            known = self._json_places[id(site)] = (site, bias, *_constant(site, bias))
        name = self._commands.get(command)
        if name is None:
            if len(self._commands) >= _KEPT:
                self._commands.clear()
            name = self._commands[command] = _ENCODE(command)
        arguments: list[str] = []
        missing: list[str] = []
        for label, value in values.items():
            if label in self._hidden:
                continue
            kind = type(value)
            if kind is int:
                arguments.append(f"{self._labels[label]}: {value}")
            elif kind is Pointer:
                arguments.append(f'{self._labels[label]}: "{value:#x}"')
            elif isinstance(value, Unavailable):
                missing.append(f'{self._labels[label]}: "{value.reason.value}"')
            else:
                arguments.append(f"{self._labels[label]}: {_ENCODE(plain(value))}")
        end = known[3]
        if doubts:
            shown = {
                label: doubt.value
                for label, doubt in doubts.items()
                if label not in self._hidden and not isinstance(values[label], Unavailable)
            }
            if shown:
                end = f'{end[:-1]}, "doubt": {_ENCODE(shown)}}}'
        if self._symbols is not None:
            stacks = self._symbols.stacks(hit, process)
            frames = {name: [frame.json() for frame in found] for name, found in stacks.items()}
            end = f'{end[:-1]}, "stack": {_ENCODE(frames)}}}'
        micro = (time_ + self._epoch) // 1000
        pid = "null" if process is None else process
        return (
            f'{{"time": {micro // 1_000_000}.{micro % 1_000_000:06d}, "cpu": {cpu}, "pid": {pid}, "tid": {thread}, '
            f'"comm": {name}, {known[2]}, "args": {{{", ".join(arguments)}}}, "unavailable": '
            f"{{{', '.join(missing)}}}, {end}"
        )


def _constant(site: Site, bias: int) -> tuple[str, str]:
    """The parts of a line that are the same for all hits of a site, before and behind the values."""
    inlined_into = [frame[0] for frame in site.chain]
    if site.container is not None:
        inlined_into.append(site.container)
    before = {
        "function": site.function,
        "address": hex(site.address + bias),
        "symbol": site.symbol,
        "symbol_offset": site.symbol_offset,
        "inlined": site.inlined,
    }
    behind = {
        "inlined_into": inlined_into,
        "call": None if site.call is None else {"file": site.call.file, "line": site.call.line},
        "module": site.module,
    }
    return _ENCODE(before)[1:-1], _ENCODE(behind)[1:]


class _Labels(dict[str, str]):
    """Labels as JSON, encoded once."""

    def __missing__(self, label: str) -> str:
        text = self[label] = _ENCODE(label)
        return text


def plain(value: Decoded) -> object:
    """A value as JSON has it: pointers as hexadecimal strings, what is no number as null, what no double is as text."""
    if isinstance(value, Pointer):
        return hex(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(element) for element in value]
    return value


def _with_bytes(text: str) -> str:
    """The text with bytes that are not UTF-8, its surrogates, as ``\\xff``."""
    return text if text.isascii() else _BYTES.sub(lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def text_of(value: Decoded) -> str:
    """A value as text: C-like, strings quoted."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Pointer):
        return hex(value) if value else "NULL"
    if isinstance(value, Character):
        return f"'{chr(value)}'" if 32 <= value < 127 and value not in (39, 92) else str(int(value))
    if isinstance(value, (Enumerator, Rest)):
        return str(value)
    if isinstance(value, str):
        return _with_bytes(json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict):
        return "{" + ", ".join(_member_text(name, member) for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(text_of(element) for element in value) + "]"
    return "?" if value is None else str(value)


def _member_text(name: str, value: Decoded) -> str:
    return text_of(value) if isinstance(value, Rest) else f"{name}={text_of(value)}"
