"""Show everything that belongs to a wrong value: the calls in C, the DWARF of the site, the instructions around it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.oracle.campaign import READERS
from tests.oracle.compare import Wrong, compare
from tests.oracle.compilers import Configuration
from tests.oracle.run import Workshop, workshop

BEFORE, AFTER = 96, 64
"""Bytes of code shown before and after a site."""


def explain(seed: int, configuration: Configuration, invocations: int, reader: str, keep: Path | None) -> Iterator[str]:
    """Build and run one program; one text per parameter that showed a wrong value.

    With ``keep``, the sources and the program are copied into that folder.
    """
    with workshop(seed, 2 if configuration.lto else 1, invocations) as shop:
        binary = shop.build(configuration)
        run = shop.run(binary, READERS)
        tally = compare(run, reader)
        every = sum(tally.values.values())
        yield f"{configuration}, seed {seed}: {every:,} values, {sum(tally.wrong.values()):,} wrong ({reader})"
        dwarf = _dwarf(binary)
        for wrong, times in sorted(tally.records.items(), key=lambda item: item[0].address):
            yield "\n\n".join(_parts(wrong, times, shop, binary, dwarf))
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            for path in shop.folder.iterdir():
                shutil.copy(path, keep / path.name)
            yield f"sources and program are in {keep}"


def _parts(wrong: Wrong, times: int, shop: Workshop, binary: Path, dwarf: str) -> Iterator[str]:
    where = (
        f"{wrong.address:#x} {wrong.copy or wrong.function}, calls at lines {', '.join(map(str, wrong.lines)) or '-'}"
    )
    doubt = f", doubtful: {wrong.doubt}" if wrong.doubt else ""
    yield (
        f"=== {where}\n{wrong.parameter} [{wrong.location}{doubt}]: passed {wrong.expected}, shown {wrong.actual}"
        f" in invocation {wrong.invocation}; {times} times wrong"
    )
    yield "\n".join(_calls(wrong, shop))
    yield from _dies(wrong, dwarf)
    start, stop = max(0, wrong.address - BEFORE), wrong.address + AFTER
    command = ["objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={stop}", str(binary)]
    yield _mark(subprocess.run(command, capture_output=True, text=True, check=True).stdout, wrong.address)


def _calls(wrong: Wrong, shop: Workshop) -> Iterator[str]:
    """The lines of the calls, outermost first, and the definition of the function."""
    texts: dict[int, str] = {}
    for text in shop.sources.traced:
        number = 0
        for line in text.splitlines():
            number += 1
            if line.startswith("#line "):
                number = int(line.split()[1]) - 1
            texts.setdefault(number, line)
    for call in reversed(wrong.lines):
        yield f"{call:6}: {texts.get(call, '?').strip()}"
    number = next((n for n, line in texts.items() if re.match(rf"\S.* {wrong.function}\(.*\)$", line)), 0)
    while number in texts:
        yield f"{number:6}: {texts[number]}"
        if texts[number] == "}":
            break
        number += 1


def _dwarf(binary: Path) -> str:
    """llvm-dwarfdump's text of .debug_info, or nothing if it is not installed."""
    tool = shutil.which("llvm-dwarfdump") or next(
        (t for n in range(30, 12, -1) if (t := shutil.which(f"llvm-dwarfdump-{n}"))), None
    )
    if tool is None:
        return ""
    return subprocess.run([tool, "--debug-info", str(binary)], capture_output=True, text=True, check=True).stdout


def _dies(wrong: Wrong, dwarf: str) -> Iterator[str]:
    """The DIEs of the site with their parameters."""
    lines = dwarf.splitlines()
    tag = "DW_TAG_inlined_subroutine" if wrong.lines else "DW_TAG_subprogram"
    for start, line in enumerate(lines):
        if tag not in line:
            continue
        indent = line.index("DW_TAG")
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or not _ends(lines[end], indent)):
            end += 1
        block = lines[start:end]
        own = "\n".join(block[: next((i for i, text in enumerate(block) if not text.strip()), len(block))])
        if f'"{wrong.function}"' not in own or (wrong.lines and f"DW_AT_call_line\t({wrong.lines[0]})" not in own):
            continue
        if f"{wrong.address:016x}" not in own:
            continue
        kept = [own]
        for die in "\n".join(block).split("\n\n")[1:]:
            if "DW_TAG_formal_parameter" in die and die.index("DW_TAG") == indent + 2:
                kept.append(die)
        yield "\n".join(kept)


def _ends(line: str, indent: int) -> bool:
    """True for the line of a DIE that is not below one with that indentation."""
    match = re.match(r"0x[0-9a-f]+: *(DW_TAG|NULL)", line)
    return bool(match) and match.start(1) <= indent if match else False


def _mark(listing: str, address: int) -> str:
    lines = [line for line in listing.splitlines() if line.strip()][1:]
    needle = f" {address:x}:"
    return "\n".join(f">{line[1:]}" if needle in line[:20] else line for line in lines)
