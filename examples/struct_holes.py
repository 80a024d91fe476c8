#!/usr/bin/env python3
"""Which structs of a kernel waste most memory in holes and padding.

usage: struct_holes.py [FILE] [HOW_MANY]
"""

import sys

from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.layout import analyse
from inlinetrace.btf.load import load


def main() -> None:
    btf = load(sys.argv[1] if len(sys.argv) > 1 else "/sys/kernel/btf/vmlinux")
    wanted = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    wasted = []
    for type_id in btf.of_kind(Kind.STRUCT):
        if name := btf.name(type_id):
            layout = analyse(btf, type_id)
            wasted.append((sum(layout.holes) + layout.padding, layout.found.size, name))
    for lost, size, name in sorted(wasted, reverse=True)[:wanted]:
        print(f"{lost:6} of {size:7} bytes  struct {name}")


if __name__ == "__main__":
    main()
