"""Many programs with many configurations: work is spread over processes, what they find is summed up."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle import plain, product
from tests.oracle.compare import Tally, Wrong, availability, compare
from tests.oracle.compilers import DWARF_VERSIONS, LEVELS, BuildError, Configuration, Toolchain
from tests.oracle.ptrace import TraceError
from tests.oracle.run import Discarded, Reader, Run, Workshop, workshop

READERS: dict[str, Reader] = {"ours": product.read, "plain": plain.read}

INVOCATIONS = 24

Key = tuple[str, str, bool, str]
"""(compiler, level, with LTO, reader)"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A wrong value with all that is needed to see it again."""

    seed: int
    configuration: Configuration
    reader: str
    wrong: Wrong
    times: int

    def command(self) -> str:
        """The command line that explains it."""
        c = self.configuration
        lto = " -flto" if c.lto else ""
        more = f' --options="{" ".join(c.options)}"' if c.options else ""
        return (
            f"python -m tests.oracle --seed {self.seed} --compiler {c.toolchain.name}"
            f' --flags="{c.level} -gdwarf-{c.dwarf}{lto}"{more} --explain'
        )


@dataclass(slots=True)
class Result:
    """The sum of any number of runs."""

    tallies: dict[Key, Tally] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    problems: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    stops: int = 0

    def add(self, other: Result) -> None:
        """Add the figures of other runs."""
        for key, tally in other.tallies.items():
            self.tallies.setdefault(key, Tally()).add(tally)
        self.findings += other.findings
        self.problems += other.problems
        self.runs += other.runs
        self.stops += other.stops

    def tally(self, reader: str, compiler: str | None = None, lto: bool | None = False) -> Tally:
        """The figures of a reader, of one compiler or of all, without LTO unless asked for (None: both)."""
        total = Tally()
        for (name, _, with_lto, rule), tally in self.tallies.items():
            if rule == reader and compiler in (None, name) and lto in (None, with_lto):
                total.add(tally)
        return total

    def shown(self, compiler: str | None = None) -> int:
        """Values shown without doubt by the product at inlined sites so far, without LTO."""
        return availability(self.tally("ours", compiler), ("inlined",))[1]


def measure(
    seed: int, configurations: Sequence[Configuration], invocations: int = INVOCATIONS, live: str | None = None
) -> Result:
    """Run one program (two of them if some configurations have LTO and others not) in every configuration.

    ``live`` names the backend that traces each once more through uprobes, as the reader "live"; see tests.oracle.live.
    """
    result = Result()
    for lto in (False, True):
        wanted = [c for c in configurations if c.lto is lto]
        if wanted:
            with workshop(seed, 2 if lto else 1, invocations) as shop:
                for configuration in wanted:
                    try:
                        binary = shop.build(configuration)
                        run = shop.run(binary, READERS)
                        again = _trace(shop, binary, live) if live else None
                    except Discarded:
                        result.problems[f"{configuration.toolchain.name}: discarded, results differ"] += 1
                        continue
                    except (BuildError, TraceError) as error:
                        result.problems[f"{configuration}, seed {seed}: {error}"] += 1
                        continue
                    except Exception as error:
                        # A reader failed: a finding of its own, which must not end a long measurement.
                        result.problems[f"{configuration}, seed {seed}: {type(error).__name__}: {error}"] += 1
                        continue
                    result.runs += 1
                    result.stops += run.stops
                    for reader in [*READERS, *(["live"] if again is not None else [])]:
                        tally = compare(again if again is not None and reader == "live" else run, reader)
                        for wrong, times in tally.records.items():
                            result.findings.append(Finding(seed, configuration, reader, wrong, times))
                        tally.records.clear()
                        key = (configuration.toolchain.name, configuration.level, lto, reader)
                        result.tallies.setdefault(key, Tally()).add(tally)
    return result


def _trace(shop: Workshop, binary: Path, backend: str) -> Run:
    from tests.oracle import live

    return live.trace(shop, binary, backend)


def matrix(
    toolchain: Toolchain,
    levels: Sequence[str] = LEVELS,
    dwarf: Sequence[int] = DWARF_VERSIONS,
    lto: Sequence[bool] = (False, True),
    options: Sequence[str] = (),
) -> list[Configuration]:
    """Every combination that the toolchain can build on this machine."""
    return [
        Configuration(toolchain, level, version, with_lto, options=tuple(options))
        for with_lto in lto
        if not with_lto or toolchain.lto()
        for level in levels
        for version in dwarf
    ]


def campaign(
    configurations: Sequence[Configuration],
    first_seed: int,
    values: int,
    programs: int,
    deadline: float,
    jobs: int,
    invocations: int = INVOCATIONS,
    live: str | None = None,
) -> Iterator[Result]:
    """Results of programs with consecutive seeds until enough values were shown without doubt, or out of time.

    Results come in the order of the seeds, whatever the number of ``jobs``, so that the same options measure the same
    programs (unless the deadline, a ``time.monotonic()`` value, ends it).
    """
    shown = 0
    with ProcessPoolExecutor(jobs) as pool:
        pending: list[Future[Result]] = []
        seed, last = first_seed, first_seed + programs
        while shown < values and time.monotonic() < deadline:
            while seed < last and len(pending) < 2 * jobs:
                pending.append(pool.submit(measure, seed, configurations, invocations, live))
                seed += 1
            if not pending:
                break
            wait(pending[:1], timeout=max(0.0, deadline - time.monotonic()), return_when=FIRST_COMPLETED)
            if not pending[0].done():
                break
            result = pending.pop(0).result()
            shown += result.shown()
            yield result
        for future in pending:
            future.cancel()
