#!/usr/bin/env python3
"""Which functions of a program were inlined most often, and how many of their parameters can be had.

usage: list_sites.py PROGRAM [HOW_MANY]
"""

import sys
from collections import Counter

from inlinetrace.target import open_image


def main() -> None:
    image = open_image(sys.argv[1])
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    sites: Counter[str] = Counter()
    parameters: Counter[str] = Counter()
    available: Counter[str] = Counter()
    for site in image.sites():
        if site.inlined:
            sites[site.function] += 1
            parameters[site.function] += len(site.parameters)
            available[site.function] += sum(parameter.available for parameter in site.parameters)
    for name, count in sites.most_common(wanted):
        print(f"{count:6} {name}: {available[name]} of {parameters[name]} parameters")


if __name__ == "__main__":
    main()
