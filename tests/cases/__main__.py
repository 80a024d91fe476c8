"""Run every case with every compiler, level, DWARF version, as PIE and not: ``python -m tests.cases``."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.cases.runner import CASES, build_case, contradictions, run_case
from tests.oracle.compilers import DWARF_VERSIONS, LEVELS, Configuration, detect


def main() -> int:
    """Print one line per contradiction and a count per compiler; 1 if there is any."""
    failed = 0
    for tool in detect():
        counts: Counter[str] = Counter()
        for name in CASES:
            for lto in (True,) if name == "two_units" else (False,):
                if lto and not tool.lto():
                    continue
                for level in LEVELS:
                    for dwarf in DWARF_VERSIONS:
                        for pie in (True, False):
                            configuration = Configuration(tool, level, dwarf, lto, pie)
                            with TemporaryDirectory(prefix="cases-") as folder:
                                run = run_case(build_case(name, configuration, Path(folder)))
                            counts["programs"] += 1
                            counts["hits"] += len(run.hits)
                            counts["values"] += sum(len(hit.values) for hit in run.hits)
                            for text in contradictions(run):
                                failed += 1
                                print(f"{name}, {configuration}: {text}")
        print(f"{tool.name}: {counts['programs']} programs, {counts['hits']} hits, {counts['values']} values shown")
    print(f"{failed} contradictions")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
