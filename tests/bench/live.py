"""Both backends on one burst of hits: what a hit costs the traced program, and how fast hits are taken in.

    python -m tests.bench.live [--hits N] [--runs N]

A program calls an inlined function in a loop and measures the CPU time that it takes, the kernel's for its hits
included: untraced, with a bare uprobe event of tracefs that nobody reads, and traced by each backend. All cases run in
turns, so that they meet the same machine; figures are medians. Hits per CPU second are what the tracing process alone
can take in: reading, decoding, and writing one JSON object for each. Needs root.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tabulate import tabulate

from inlinetrace.probe.backend import Backend
from inlinetrace.probe.bcc import BccBackend, Wanted
from inlinetrace.probe.child import Child
from inlinetrace.probe.events import Decoder
from inlinetrace.probe.fields import parse
from inlinetrace.probe.groups import group_name, remove
from inlinetrace.probe.output import Output
from inlinetrace.probe.session import Limits, Session
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.target.host import Host
from tests.probe.planning import plan_program

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
struct item { long value; struct item *next; };
static volatile long sink;
static inline __attribute__((always_inline)) void tick(long number, struct item *item) { sink += number + (long)item; }
__attribute__((noipa)) void step(long number, struct item *item) { tick(number, item); }
int main(int argc, char **argv)
{
    static struct item last = { 7, 0 }, first = { 5, &last };
    long count = atol(argv[1]);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    for (long i = 0; i < count; i++)
        step(i, &first);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    fprintf(stderr, "%.1f\n", ((after.tv_sec - before.tv_sec) * 1e9 + after.tv_nsec - before.tv_nsec) / count);
    return 0;
}
"""
WANTED = {"number": "registers", "number,item->next->value": "two reads"}


class Figures:
    """What one run gave: CPU nanoseconds of the program per hit; CPU seconds of the tracer, hits taken in and lost."""

    def __init__(self, per_hit: float, cpu: float = 0.0, taken: int = 0, lost: int = 0) -> None:
        self.per_hit = per_hit
        self.cpu = cpu
        self.taken = taken
        self.lost = lost


def untraced(program: Path, hits: int) -> Figures:
    """The program by itself."""
    done = subprocess.run([program, str(hits)], capture_output=True, text=True, check=True)
    return Figures(float(done.stderr))


def bare(program: Path, hits: int) -> Figures:
    """With an event of tracefs that fetches one register and that nobody reads."""
    host = Host()
    tracefs = host.tracefs()
    name = group_name(host, tracefs)
    plan, _, _ = plan_program(program, ["tick"], "number")
    (probe,) = [probe for probe in plan.probes if probe.hits[0].site.inlined]
    register = probe.arguments[0].text
    host.make_directory(f"{tracefs}/instances/{name}")
    try:
        line = f"p:{name}/bare {program}:{probe.offset:#x} a={register}:u64\n"
        host.write(f"{tracefs}/uprobe_events", line, append=True)
        host.write(f"{tracefs}/instances/{name}/events/{name}/enable", "1\n")
        return untraced(program, hits)
    finally:
        left = remove(host, tracefs, name)
        if left:
            print("\n".join(left), file=sys.stderr)


def traced(backend_name: str, wanted: str, *, counts: bool = False) -> Callable[[Path, int], Figures]:
    """With one of the backends."""

    def run(program: Path, hits: int) -> Figures:
        host = Host()
        plan, types, image = plan_program(
            program, ["tick"], wanted, guarded=backend_name == "tracefs", hidden=[parse("number")] if counts else []
        )
        backend: Backend
        if backend_name == "tracefs":
            backend = TracefsBackend(host, plan)
        else:
            histogram = "number" if counts else None
            options = Wanted(follow=True, counts=counts, histogram=histogram)
            backend = BccBackend(host, plan, image.debug.machine, options)
        output = Output(host.realtime_ns() - host.monotonic_ns())
        with open(os.devnull, "w") as sink, captured() as said:
            session = Session(
                host,
                plan,
                backend,
                Decoder(plan, types),
                lambda hit, process: print(output.json(hit, process), file=sink),
                lambda give_up: True,
                lambda outcome: None,
            )
            child = Child(str(program), [str(hits)], to_stderr=True)
            before = time.process_time()
            outcome = session.run(Limits(), processes=[child.pid], child=child)
            cpu = time.process_time() - before
            text = said()
        return Figures(float(text), cpu, outcome.records, outcome.lost)

    return run


@contextmanager
def captured() -> Iterator[Callable[[], str]]:
    """What is written to stderr meanwhile, by whomever; what is yielded gives it as text."""
    with tempfile.TemporaryFile() as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)

        def text() -> str:
            file.seek(0)
            return file.read().decode()

        try:
            yield text
        finally:
            os.dup2(saved, 2)
            os.close(saved)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.live", description=__doc__)
    parser.add_argument("--hits", type=int, default=200_000, metavar="N", help="hits of a run (default: 200000)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each case (default: 3)")
    args = parser.parse_args()
    cases: dict[str, Callable[[Path, int], Figures]] = {"untraced": untraced, "bare event": bare}
    for backend in ("tracefs", "bcc"):
        for wanted, name in WANTED.items():
            cases[f"{backend}, {name}"] = traced(backend, wanted)
    cases["bcc --hist number"] = traced("bcc", "number", counts=True)
    found: dict[str, list[Figures]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "program"
        source = Path(folder) / "program.c"
        source.write_text(PROGRAM)
        subprocess.run(["gcc", "-g", "-O2", str(source), "-o", str(program)], check=True)
        for _ in range(max(args.runs, 1)):
            for name, case in cases.items():
                found[name].append(case(program, args.hits))
    base = statistics.median(figures.per_hit for figures in found["bare event"])
    rows = []
    for name, runs in found.items():
        per_hit = statistics.median(figures.per_hit for figures in runs)
        rates = [figures.taken / figures.cpu for figures in runs if figures.cpu and figures.taken]
        # counted in the kernel there is nothing to take in
        rate = f"{statistics.median(rates):,.0f}" if rates and "hist" not in name else ""
        lost = sum(figures.lost for figures in runs)
        rows.append([name, f"{per_hit:.0f}", f"{per_hit / base:.2f}", rate, lost if rates else ""])
    print(tabulate(rows, headers=["", "CPU ns per hit", "of the bare event", "hits per CPU second", "lost"]))
    print(f"{args.hits} hits, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
