#!/usr/bin/env python3
"""How much of a module's types its kernel has: the module's BTF deduplicated on that of the kernel.

usage: units_in_common.py MODULE.btf [VMLINUX]

MODULE.btf is split from the kernel's BTF and not deduplicated yet, which is what an encoder has before its last step.
"""

import sys
from collections import Counter

from inlinetrace.btf.dedup import dedup
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.load import load


def main() -> None:
    vmlinux = sys.argv[2] if len(sys.argv) > 2 else "/sys/kernel/btf/vmlinux"
    module = load(sys.argv[1], [vmlinux])
    result = dedup(module)
    kinds: Counter[str] = Counter()
    for old, new in enumerate(result.ids, module.start_id):
        if new < result.start_id:
            kinds[Kind(module.kind(old)).name] += 1
    print(f"{len(result.ids)} types, {sum(kinds.values())} of them in {vmlinux}, {result.kept} stay")
    for name, count in kinds.most_common():
        print(f"{count:8} {name}")


if __name__ == "__main__":
    main()
