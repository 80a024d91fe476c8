"""Deduplication: every type once, every name once, with the result that libbpf's ``btf__dedup`` has.

::

    result = dedup(Btf(data))
    result.data                     # the object, deduplicated
    result.new_id(17)               # what was type 17 before

Of equal types the first stays, in the order of the input. Structs are equal if everything that they are made of is,
cycles included; declarations become the definition that they stand for. The types of a base never change: an object
that is split from one loses what the base has. VARs, DATASECs and LOCSECs always stay; LOC_PARAMs and LOC_PROTOs are
deduplicated as other types are.

The algorithm and its peculiarities are libbpf's (tools/lib/bpf/btf.c), with the order in which it tries candidates;
``Rules`` names its two forms. Where libbpf's newest form has a fault the result is the right one: docs/btf.md lists it.
"""

from __future__ import annotations

import enum
import os
import struct
from array import array
from typing import NamedTuple

from inlinetrace.btf._dedup import run
from inlinetrace.btf.kinds import LAYOUT_HEADER
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import InlineTraceError, UnsupportedError

# Steps that comparisons may take: a kernel needs 3 for each word of its types.
_STEPS = 100_000_000
_STEPS_PER_WORD = 100


class Rules(enum.Enum):
    """Which form of the algorithm is followed."""

    NEWEST = "newest"
    """libbpf 1.7: typedefs are compared by what they stand for, as structs are, which allows loops of them; what a
    compiler wrote twice inside of one struct is recognised by content."""
    LIBBPF_1_1 = "1.1"
    """libbpf 1.1, which pahole 1.24 uses: typedefs are compared last, and what was written twice is recognised for
    arrays, structs and unions only."""


class Deduplicated(NamedTuple):
    """``data`` is the object, ``kept`` how many types it stores; ``ids`` has for each type that the input stored its
    new id, which may be the base's; ``start_id`` is the id of the first of them.
    """

    data: bytes
    ids: array[int]
    start_id: int
    kept: int

    def new_id(self, type_id: int) -> int:
        """The new id of a type of the input or its bases. Errors: IndexError."""
        return type_id if type_id < self.start_id else self.ids[type_id - self.start_id]


def dedup(btf: Btf, *, rules: Rules = Rules.NEWEST) -> Deduplicated:
    """Deduplicate ``btf``; its header (and with it byte order, form and layout section) stays as it is.

    Errors: FormatError with the id and offset of the type for ids and names that do not exist, loops that nothing can
    name, and types or names that resemble each other so much that the work would have no bounds; UnsupportedError for
    kinds that are not known and for headers with fields that are not.
    """
    header = btf.header
    if any(btf.data[LAYOUT_HEADER : header.length]):
        raise UnsupportedError(
            "the header has fields that are not known and may not be copied", path=btf.path, section=btf.section
        )
    newest = rules is Rules.NEWEST
    limit = _STEPS + _STEPS_PER_WORD * sum(layer.header.type_len // 4 for layer in btf.chain)
    try:
        types, strings, ids, kept = run(btf.index, newest, newest, int.from_bytes(os.urandom(8), "little"), limit)
    except InlineTraceError as error:
        error.path, error.section = btf.path, btf.section
        if error.type_id is not None:
            error.offset = btf.index.offset(error.type_id)
        raise
    layout = bytes(btf.data[header.layout_at : header.layout_at + header.layout_len])
    head = bytearray(btf.data[: header.length])
    order = "<" if btf.byte_order == "little" else ">"
    struct.pack_into(order + "4I", head, 8, 0, len(types), len(types) + len(layout), len(strings))
    if header.length >= LAYOUT_HEADER:
        struct.pack_into(order + "2I", head, 24, len(types) if layout else 0, len(layout))
    return Deduplicated(b"".join((head, types, layout, strings)), array("I", bytes(ids)), btf.start_id, kept)
