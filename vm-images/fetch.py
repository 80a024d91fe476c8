#!/usr/bin/env python3
"""Fetch the kernels that tests, benchmarks and guests use.

::

    python3 vm-images/fetch.py                          both series, with the debug files of a few modules
    python3 vm-images/fetch.py 6.12 --all-modules       one series with every module's debug file
    python3 vm-images/fetch.py --headers                the headers too
    python3 vm-images/fetch.py --print 6.1 vmlinux      the path, from the cache alone

Does nothing, and needs no network, if the cache has it all.
"""

from __future__ import annotations

import argparse
import sys

from vmimages import kernels
from vmimages.cache import RecipeError


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 if something cannot be fetched."""
    parser = argparse.ArgumentParser(description="Fetch Debian's cloud kernels with their debug files.")
    parser.add_argument("series", nargs="*", help=f"kernel series (default: {' '.join(kernels.SERIES)})")
    parser.add_argument("--modules", nargs="+", metavar="NAME", help="modules whose debug files are wanted")
    parser.add_argument("--all-modules", action="store_true", help="the debug files of all modules")
    parser.add_argument("--headers", action="store_true", help="the kernel headers too")
    parser.add_argument("--update", action="store_true", help="the newest release, also if the cache has an older one")
    parser.add_argument(
        "--print",
        nargs=2,
        metavar=("SERIES", "WHAT"),
        help="print a path and fetch nothing; WHAT: release, image, config, vmlinux, modules, debug_modules, headers",
    )
    options = parser.parse_args(arguments)
    try:
        if options.print:
            series, what = options.print
            if what not in ("release", "image", "config", "vmlinux", "modules", "debug_modules", "headers"):
                parser.error(f"nothing named {what!r} to print")
            print(getattr(kernels.find(series), what))
            return 0
        for series in options.series or kernels.SERIES:
            kernel = kernels.fetch(
                series, debug_modules=options.modules, all_debug_modules=options.all_modules, update=options.update
            )
            paths = [kernel.image, kernel.vmlinux, kernel.modules, kernel.debug_modules]
            if options.headers:
                paths.append(kernels.fetch_headers(kernel))
            print(kernel.release, *paths, sep="\n  ")
    except RecipeError as error:
        print(f"fetch: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
