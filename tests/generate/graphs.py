"""Comparing two BTF objects as graphs: which types each has that the other has not.

Every type gets a colour: first of what stands in its record, then, over and over, of that and the colours of what it
refers to, until no colour splits any more. Two types have one colour if and only if nothing that can be reached from
them differs. Ids and order do not matter.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf

_REFERENCES = {Kind.PTR, Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.FUNC, Kind.TYPE_TAG}
_NAME_STRIDES = {Kind.STRUCT: 3, Kind.UNION: 3, Kind.ENUM: 2, Kind.ENUM64: 3, Kind.FUNC_PROTO: 2}


def parts(btf: Btf, type_id: int) -> tuple[tuple[object, ...], list[int]]:
    """What a record says by itself, and the ids that it refers to."""
    record = btf.index.record(type_id)
    kind = Kind(btf.kind(type_id))
    string = btf.index.string
    own: list[object] = [int(kind), string(record[0]), record[1]]
    children: list[int] = []
    if kind in _REFERENCES:
        children.append(record[2])
    elif kind in (Kind.STRUCT, Kind.UNION):
        own.append(record[2])
        for at in range(3, len(record), 3):
            own += [string(record[at]), record[at + 2]]
            children.append(record[at + 1])
    elif kind is Kind.FUNC_PROTO:
        children.append(record[2])
        for at in range(3, len(record), 2):
            own.append(string(record[at]))
            children.append(record[at + 1])
    elif kind is Kind.ARRAY:
        children += [record[3], record[4]]
        own.append(record[5])
    elif kind in (Kind.ENUM, Kind.ENUM64):
        own.append(record[2])
        stride = _NAME_STRIDES[kind]
        for at in range(3, len(record), stride):
            own += [string(record[at]), *record[at + 1 : at + stride]]
    elif kind in (Kind.VAR, Kind.DECL_TAG):
        children.append(record[2])
        own.append(record[3])
    elif kind is Kind.DATASEC:
        for at in range(3, len(record), 3):
            children.append(record[at])
            own += record[at + 1 : at + 3]
    else:
        own += record[2:]
    return tuple(own), children


@dataclass(frozen=True)
class Coloured:
    """An object with the colour of each of its types (index 0 is void)."""

    btf: Btf
    colours: list[int]


def colour(*objects: Btf) -> list[Coloured]:
    """Colour objects together, so that their colours can be compared; types of bases count as their own."""
    read = [[parts(btf, type_id) for type_id in range(1, btf.end_id)] for btf in objects]
    numbers: dict[object, int] = {}
    colours = [[0] + [numbers.setdefault(own, len(numbers) + 1) for own, _ in types] for types in read]
    count = len(numbers)
    while True:
        numbers = {}
        for which, types in enumerate(read):
            old = colours[which]
            colours[which] = [0] + [
                numbers.setdefault((old[number], *[old[child] for child in children]), len(numbers) + 1)
                for number, (_, children) in enumerate(types, 1)
            ]
        if len(numbers) == count:
            return [Coloured(btf, found) for btf, found in zip(objects, colours, strict=True)]
        count = len(numbers)


def differences(ours: Btf, theirs: Btf) -> tuple[list[int], list[int]]:
    """Ids of our types that they lack, and of theirs that we lack; equal types that stand twice count twice."""
    left, right = colour(ours, theirs)
    found = []
    for one, other in ((left, right), (right, left)):
        have = Counter(other.colours[1:])
        lacking = []
        for type_id, which in enumerate(one.colours[1:], 1):
            if have[which]:
                have[which] -= 1
            else:
                lacking.append(type_id)
        found.append(lacking)
    return found[0], found[1]
