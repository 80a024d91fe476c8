"""The tables of a campaign, and its findings as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from tests.oracle.campaign import Result
from tests.oracle.compare import Tally, availability


def percent(part: int, whole: int) -> str:
    """``part`` of ``whole`` in per cent, with as many digits as small rates need."""
    if not whole:
        return "-"
    rate = 100 * part / whole
    return f"{rate:.3f} %" if rate < 1 else f"{rate:.1f} %"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows as aligned columns; the first column is text, the others are numbers."""
    texts = [list(head), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    lines = []
    for row in texts:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def report(result: Result) -> str:
    """The whole report as text."""
    parts = [f"{result.runs:,} runs, {result.stops:,} stops"]
    compilers = sorted({name for name, *_ in result.tallies}, key=lambda n: (n != "gcc", n))
    for lto in (False, True):
        if any(key[2] is lto for key in result.tallies):
            title = "with -flto, two units" if lto else "without LTO"
            parts.append(f"Values at inlined sites, {title}\n\n{_rates(result, lto, ('inlined',))}")
            parts.append(
                f"Values at the entry of out-of-line copies, {title}\n\n{_rates(result, lto, ('out of line',))}"
            )
    if any(key[3] == "live" for key in result.tallies):
        parts.append(f"The same programs traced through uprobes (live), against ptrace (ours)\n\n{_live(result)}")
    for compiler in compilers:
        parts.append(
            f"{compiler}: values at inlined sites by what the rules say, without LTO\n\n{_kinds(result, compiler)}"
        )
    parts.append(f"Hits and calls, without LTO\n\n{_counts(result, compilers)}")
    if result.problems:
        parts.append(
            "Runs without result\n\n" + "\n".join(f"{n:5} {text}" for text, n in result.problems.most_common(20))
        )
    return "\n\n\n".join(parts) + "\n"


def _rates(result: Result, lto: bool, kinds: tuple[str, ...]) -> str:
    totals: dict[tuple[str, str], dict[str, Tally]] = {}
    for (compiler, level, with_lto, reader), tally in result.tallies.items():
        if with_lto is lto:
            for row in ((compiler, level), (compiler, "all")):
                totals.setdefault(row, {}).setdefault(reader, Tally()).add(tally)
    rows = []
    for (compiler, level), readers in sorted(totals.items(), key=lambda item: (item[0][0] != "gcc", item[0])):
        every, shown, wrong, doubtful = availability(readers["ours"], kinds)
        doubted = sum(n for (k, v), n in readers["ours"].wrong.items() if k in kinds and v.startswith("doubtful"))
        plain_every, plain_shown, plain_wrong, _ = availability(readers["plain"], kinds)
        rows.append(
            (
                f"{compiler} {level}",
                f"{every:,}",
                percent(shown, every),
                f"{wrong:,}",
                percent(wrong, shown),
                percent(doubtful, every),
                percent(doubted, doubtful),
                percent(plain_shown, plain_every),
                percent(plain_wrong, plain_shown),
            )
        )
    head = ("", "values", "shown", "wrong", "rate", "doubtful", "wrong there", "plain rule shows", "wrong there")
    return table(head, rows)


def _live(result: Result) -> str:
    """Values, rates and hits of the live traces beside those under ptrace, over all kinds of sites."""
    totals: dict[tuple[str, bool, str], Tally] = {}
    for (compiler, _, lto, reader), tally in result.tallies.items():
        if reader in ("ours", "live"):
            totals.setdefault((compiler, lto, reader), Tally()).add(tally)
    rows = []
    for (compiler, lto, reader), tally in sorted(totals.items(), key=lambda item: (item[0][0] != "gcc", item[0])):
        every, shown, wrong, doubtful = availability(tally)
        cells = (f"{every:,}", f"{shown:,}", f"{wrong:,}", percent(wrong, shown), f"{doubtful:,}")
        hits = (f"{tally.counts['calls']:,}", f"{tally.counts['hits']:,}")
        rows.append((f"{compiler}{' -flto' if lto else ''}, {reader}", *cells, *hits))
    return table(("", "values", "shown", "wrong", "rate", "doubtful", "calls", "hits"), rows)


def _kinds(result: Result, compiler: str) -> str:
    rows: list[tuple[str, ...]] = []
    for reader in ("ours", "plain"):
        tally = result.tally(reader, compiler)
        values = Counter({value: n for (kind, value), n in tally.values.items() if kind == "inlined"})
        total = sum(values.values())
        for value, n in sorted(values.items(), key=lambda item: (item[0].split(":")[0] != "shown", item[0])):
            wrong = tally.wrong["inlined", value]
            rate = "" if value.startswith("unavailable") else percent(wrong, n)
            rows.append((f"{reader}, {value}", f"{n:,}", percent(n, total), f"{wrong:,}" if rate else "", rate))
    return table(("", "values", "share", "wrong", "rate"), rows)


def _counts(result: Result, compilers: Sequence[str]) -> str:
    rows = []
    words = ("surplus predicted", "surplus unpredicted", "missing predicted", "missing unpredicted")
    for compiler in compilers:
        tally = result.tally("ours", compiler)
        calls = tally.counts["calls"]
        explained, unexplained = (
            sum(n for (value, w), n in tally.loose.items() if w == word and value == "shown")
            for word in ("explained", "unexplained")
        )
        cells = [percent(tally.counts[word], calls) for word in words]
        loose = percent(unexplained, explained + unexplained)
        rows.append((compiler, f"{calls:,}", *cells, f"{explained + unexplained:,}", loose))
    return table(("", "calls", *words, "values shown there", "unexplained"), rows)


def json_lines(result: Result, readers: Sequence[str] = ("ours",)) -> Iterator[str]:
    """One JSON object per parameter of a site that showed wrong values."""
    for finding in result.findings:
        if finding.reader in readers:
            wrong, configuration = finding.wrong, finding.configuration
            yield json.dumps(
                {
                    "seed": finding.seed,
                    "compiler": configuration.toolchain.name,
                    "level": configuration.level,
                    "dwarf": configuration.dwarf,
                    "lto": configuration.lto,
                    "reader": finding.reader,
                    "address": f"{wrong.address:#x}",
                    "function": wrong.function,
                    "copy": wrong.copy,
                    "lines": wrong.lines,
                    "parameter": wrong.parameter,
                    "location": wrong.location,
                    "doubt": wrong.doubt,
                    "expected": wrong.expected,
                    "actual": wrong.actual,
                    "invocation": wrong.invocation,
                    "times": finding.times,
                    "command": finding.command(),
                }
            )
