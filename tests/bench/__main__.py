"""Measure every row on every kernel in the cache and print one table.

``--runs`` repetitions of each command, ours and the peer's in turn so that both meet the same machine; the figures are
medians. Ratios are peer by ours: above 1 inlinetrace is the cheaper one. CPU is user + system time of whole processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from tabulate import tabulate

from tests.bench.measure import CommandError, Usage, median, run
from tests.bench.rows import ROWS, Row
from tests.kernels import SERIES, Kernel, RecipeError, kernel

HEADERS = (
    "kernel", "what", "CPU s", "limit", "wall s", "RSS MB", "peer", "CPU s", "wall s", "RSS MB",
    "CPU ratio", "wall ratio", "RSS ratio",
)  # fmt: skip


def _measure(row: Row, runs: int) -> tuple[Usage, Usage | None]:
    ours, peers = [], []
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(runs):
            ours.append(run(row.ours, Path(directory)))
            if row.peer:
                peers.append(run(row.peer, Path(directory)))
    return median(ours), median(peers) if peers else None


def _seconds(value: float) -> str:
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def _cells(kernel: Kernel, row: Row, runs: int) -> list[object]:
    ours, peer = _measure(row, runs)
    limit = "" if row.limit is None else f"{row.limit:g}{'' if ours.cpu <= row.limit else ' exceeded'}"
    cells: list[object] = [
        kernel.series, row.name, _seconds(ours.cpu), limit, _seconds(ours.wall), ours.memory >> 20,
    ]  # fmt: skip
    if row.peer and peer:
        cells += [
            row.peer_name or " ".join(argument for argument in row.peer if "/" not in argument),
            _seconds(peer.cpu),
            _seconds(peer.wall),
            peer.memory >> 20,
            f"{peer.cpu / ours.cpu:.1f}",
            f"{peer.wall / ours.wall:.1f}",
            f"{peer.memory / ours.memory:.1f}",
        ]
    return cells


def main() -> int:
    """Print the table; 1 if a command failed or no kernel is there."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="repetitions of each command (default: 3)")
    parser.add_argument("--kernel", choices=SERIES, action="append", help="only this kernel; may be repeated")
    parser.add_argument("--only", metavar="TEXT", default="", help="only rows whose name contains TEXT")
    args = parser.parse_args()
    before = os.getloadavg()[0]
    table, failed = [], False
    for series in args.kernel or SERIES:
        try:
            found = kernel(series)
        except RecipeError as error:
            print(error, file=sys.stderr)
            failed = True
            continue
        for make in ROWS:
            row = make(found)
            if args.only not in row.name:
                continue
            print(f"{series}: {row.name}", file=sys.stderr)
            try:
                table.append(_cells(found, row, max(args.runs, 1)))
            except CommandError as error:
                print(error, file=sys.stderr)
                failed = True
    print(tabulate(table, headers=HEADERS, disable_numparse=True, colalign=None))
    print(f"{os.cpu_count()} processors, load {before:.1f} before and {os.getloadavg()[0]:.1f} after")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
