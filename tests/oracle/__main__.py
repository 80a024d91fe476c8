"""Measure how often what is shown at an inline site is what was passed: ``python -m tests.oracle``.

Without options, gcc and every clang of this machine are measured. ``--seed N --compiler C --flags "-O2 -gdwarf-5"
--explain`` shows one program's wrong values with their DWARF and code.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.oracle.campaign import INVOCATIONS, Result, campaign, matrix
from tests.oracle.compilers import LEVELS, BuildError, Configuration, detect, toolchain
from tests.oracle.explain import explain
from tests.oracle.report import json_lines, report


def parser() -> argparse.ArgumentParser:
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__.splitlines()[0] if __doc__ else "")
    p.add_argument("--values", type=int, default=20_000, help="values to show without doubt with gcc (%(default)s)")
    p.add_argument("--clang-values", type=int, help="the same for each clang (default: a tenth of --values)")
    p.add_argument("--compiler", action="append", metavar="NAME", help="gcc, clang-19...; repeat for several")
    p.add_argument("--flags", default="", help="restrict the flags: any of -O1 -O2 -O3 -Os -gdwarf-4 -gdwarf-5 -flto")
    p.add_argument("--options", default="", help="further options for the compiler, e.g. -gno-variable-location-views")
    p.add_argument("--no-lto", action="store_true", help="leave out the programs with -flto")
    p.add_argument("--first-seed", type=int, default=1, metavar="N", help="seed of the first program (%(default)s)")
    p.add_argument("--programs", type=int, default=1_000_000, metavar="N", help="at most so many programs a compiler")
    p.add_argument("--seed", type=int, metavar="N", help="this program only")
    p.add_argument("--invocations", type=int, default=INVOCATIONS, metavar="N", help="calls of entries (%(default)s)")
    p.add_argument("--seconds", type=float, default=86_400, metavar="S", help="stop a compiler after so long")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)")
    p.add_argument("--json", type=Path, metavar="FILE", help="write every wrong parameter as a line of JSON")
    p.add_argument(
        "--live",
        nargs="?",
        const="tracefs",
        choices=("tracefs", "bcc"),
        help="trace each program through uprobes too, with this backend (tracefs), and compare (root)",
    )
    p.add_argument("--explain", action="store_true", help="show the wrong values of --seed with DWARF and code")
    p.add_argument("--reader", choices=("ours", "plain"), default="ours", help="whose values --explain shows")
    p.add_argument("--keep", type=Path, metavar="DIR", help="with --explain: leave sources and program there")
    return p


def configurations(
    names: Sequence[str] | None, flags: Sequence[str], no_lto: bool, options: Sequence[str] = ()
) -> list[list[Configuration]]:
    """The configurations to measure, one list per compiler."""
    levels = [flag for flag in flags if flag in LEVELS] or list(LEVELS)
    dwarf = [int(flag[-1]) for flag in flags if flag in ("-gdwarf-4", "-gdwarf-5")] or [4, 5]
    known = {*LEVELS, "-gdwarf-4", "-gdwarf-5", "-flto"}
    if unknown := [flag for flag in flags if flag not in known]:
        raise BuildError(f"--flags: {' '.join(unknown)} is not among {' '.join(sorted(known))}")
    lto = [True] if "-flto" in flags else [False] if no_lto or flags else [False, True]
    tools = [toolchain(name) for name in names] if names else detect()
    if not tools:
        raise BuildError("no compiler found")
    return [matrix(tool, levels, dwarf, lto, options) for tool in tools]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the harness; 0 if it measured something."""
    options = parser().parse_args(arguments)
    try:
        chosen = configurations(options.compiler, options.flags.split(), options.no_lto, options.options.split())
    except BuildError as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    if options.explain:
        if options.seed is None:
            print("oracle: --explain needs --seed", file=sys.stderr)
            return 2
        for configuration in (c for compiler in chosen for c in compiler):
            for text in explain(options.seed, configuration, options.invocations, options.reader, options.keep):
                print(text, end="\n\n")
        return 0
    total = Result()
    for compiler in chosen:
        total.add(_measure(compiler, options))
    print(report(total))
    if options.json:
        options.json.write_text("".join(f"{line}\n" for line in json_lines(total, ("ours", "plain", "live"))))
    return 0 if total.runs else 1


def _measure(compiler: list[Configuration], options: argparse.Namespace) -> Result:
    name = compiler[0].toolchain.name
    wanted = options.values
    if name != "gcc":
        wanted = options.clang_values if options.clang_values is not None else options.values // 10
    first, programs = (options.first_seed, options.programs) if options.seed is None else (options.seed, 1)
    total, started = Result(), time.monotonic()
    for result in campaign(
        compiler,
        first,
        wanted,
        programs,
        started + options.seconds,
        options.jobs,
        options.invocations,
        options.live,
    ):
        total.add(result)
        if sys.stderr.isatty():
            print(f"\r{name}: {total.shown(name):,} of {wanted:,} values", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return total


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        # The reader of a pipe (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(0)
