#!/usr/bin/env python3
"""Location info of a program made and read back: how many sites each function has, and how many of its parameters.

usage: location_info.py PROGRAM [HOW_MANY]
"""

import sys
from collections import Counter

from inlinetrace.btf.reader import Btf
from inlinetrace.generate.pipeline import generate
from inlinetrace.sites.from_btf import BtfSites, ElfSurroundings
from inlinetrace.target import open_image


def main() -> None:
    image = open_image(sys.argv[1])
    made = generate(image)
    assert made.base is not None
    assert made.inline is not None
    reader = BtfSites(Btf(made.inline, Btf(made.base)), image.machine, surroundings=ElfSurroundings(image.program))
    sites: Counter[str] = Counter()
    located: Counter[str] = Counter()
    for site in reader.build(reader.select(["*"])):
        sites[site.function] += 1
        located[site.function] += sum(parameter.available for parameter in site.parameters)
    for name, count in sites.most_common(int(sys.argv[2]) if len(sys.argv) > 2 else 10):
        print(f"{count:6} {name}: {located[name]} parameters located")


if __name__ == "__main__":
    main()
