"""Damaged objects by the thousand: ``python -m tests.btf.mutants FIRST COUNT`` tries that many under limits.

Each one is read, validated, printed in all forms, encoded again and deduplicated, within 512 MB of address space beyond
the start and 2 seconds. Only errors of the package may come out. Prints one line per failure; exit code 1 if there was
any.
"""

from __future__ import annotations

import contextlib
import random
import resource
import struct
import sys
import time
import traceback
from collections.abc import Callable

from inlinetrace.btf._text import render
from inlinetrace.btf._types import Composite
from inlinetrace.btf.c_source import c_source
from inlinetrace.btf.dedup import Rules, dedup
from inlinetrace.btf.encode import reencode
from inlinetrace.btf.kinds import Dialect
from inlinetrace.btf.layout import analyse, layout_text
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import Rule, validate
from inlinetrace.errors import InlineTraceError
from tests.btf import examples
from tests.btf.random_btf import random_btf
from tests.btf.samples import everything

SECONDS = 2.0
MEGABYTES = 512


def seeds() -> list[tuple[bytes, bytes | None]]:
    """Objects to damage, some with a base."""
    found: list[tuple[bytes, bytes | None]] = [
        (everything(byte_order=order, classic=not layout, layout=layout, dialect=dialect), None)
        for order in ("little", "big")
        for layout in (False, True)
        for dialect in Dialect
    ]
    found += [(data, None) for data in (examples.RFC_OBJECT, examples.NEW_OBJECT, examples.APRIL_BLOB)]
    found += [(examples.SPLIT_INLINE, examples.SPLIT_MAIN)] * 3
    for number in range(6):
        source = random.Random(number)
        base = random_btf(source)
        found += [(base, None), (random_btf(source, Btf(base)), base)]
    return found


def mutate(data: bytes, source: random.Random) -> bytes:
    """A few changes: bits, words with telling values, words copied from elsewhere, pieces cut, doubled or moved."""
    changed = bytearray(data)
    for _ in range(source.choice((1, 1, 1, 2, 3, 8))):
        way = source.randrange(7)
        at = source.randrange(len(changed) + 1)
        word = at & ~3
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << source.randrange(8)
        elif way == 1 and word + 4 <= len(changed):
            value = source.choice(
                (0, 1, 2, 0xFF, 0xFFFF, 0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, source.getrandbits(32))
            )
            struct.pack_into("<I", changed, word, value)
        elif way == 2 and word + 4 <= len(changed):
            other = source.randrange(len(changed) // 4) * 4
            changed[word : word + 4] = changed[other : other + 4]
        elif way == 3:
            del changed[at : at + source.choice((1, 4, 12, 64))]
        elif way == 4:
            changed[at:at] = changed[at : at + source.choice((1, 4, 12, 64))]
        elif way == 5 and source.randrange(4) == 0:
            del changed[at:]
        elif word + 4 <= len(changed):
            small = source.randrange(64)
            struct.pack_into(source.choice("<>") + "I", changed, word, small)
        if not changed:
            break
    return bytes(changed)


def validated(data: bytes, base: Btf | None) -> None:
    """What a step makes has ids and names that exist."""
    faults = validate(Btf(data, base))
    assert not {Rule.TYPE_ID, Rule.NAME_OFFSET} & {fault.rule for fault in faults}, faults


def use(data: bytes, base_data: bytes | None) -> None:
    """Everything that can be done with an object; errors of the package end each step."""
    try:
        base = Btf(base_data) if base_data is not None else None
        btf = Btf(data, base)
    except InlineTraceError:
        return
    ids = range(btf.start_id, btf.end_id)

    def encode() -> None:
        assert reencode(btf) == data, "encoded differently"

    steps: list[Callable[[], object]] = [
        lambda: validate(btf, strict=True),
        lambda: render(btf.index, ids, False, True),
        lambda: render(btf.index, ids, True, True),
        lambda: [list(btf.types()), btf.find("node"), btf.find("")],
        encode,
        lambda: "".join(c_source(btf)),
        lambda: validated(dedup(btf).data, base),
        lambda: dedup(btf, rules=Rules.LIBBPF_1_1),
    ]
    for step in steps:
        with contextlib.suppress(InlineTraceError):
            step()
    for type_id in ids:
        with contextlib.suppress(InlineTraceError):
            "".join(c_source(btf, [type_id]))
        with contextlib.suppress(InlineTraceError):
            btf.size_of(type_id)
        with contextlib.suppress(InlineTraceError):
            found = btf.type(type_id)
            if isinstance(found, Composite):
                analyse(btf, type_id)
                layout_text(btf, found.name)


def main(first: int, count: int) -> int:
    """Try mutants ``first`` to ``first + count``; returns the number of failures."""
    started = seeds()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    limit = MEGABYTES * 1024 * 1024 + used + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    failures = 0
    slowest = 0.0
    for number in range(first, first + count):
        source = random.Random(number)
        data, base = source.choice(started)
        mutant = mutate(data, source)
        if base is not None and source.randrange(3) == 0:
            base = mutate(base, source)
        begin = time.process_time()
        try:
            use(mutant, base)
        except BaseException:
            failures += 1
            print(f"mutant {number}: {traceback.format_exc(limit=-3)}")
            if failures > 20:
                break
        spent = time.process_time() - begin
        slowest = max(slowest, spent)
        if spent > SECONDS:
            failures += 1
            print(f"mutant {number}: {spent:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{count} mutants from {first}: slowest {slowest:.3f} s, peak {peak} MB")
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1]), int(sys.argv[2])) else 0)
