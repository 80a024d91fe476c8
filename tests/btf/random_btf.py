"""Random BTF for comparing deduplications: few names and shapes, so that types meet, and copies of units, so that they
are equal, nearly equal, declared here and defined there.
"""

from __future__ import annotations

import random

from inlinetrace.btf._types import Enumerator, Member, SectionVariable
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf

_REFERENCES = (Kind.PTR, Kind.PTR, Kind.PTR, Kind.CONST, Kind.VOLATILE, Kind.RESTRICT, Kind.TYPEDEF, Kind.TYPE_TAG)
_TAGS = ("a", "b", "c", "")
_C_KINDS = frozenset(range(Kind.INT, Kind.TYPE_TAG)) - {Kind.FUNC, Kind.VAR, Kind.DATASEC, Kind.DECL_TAG} | {
    Kind.TYPE_TAG,
    Kind.ENUM64,
}


def random_btf(source: random.Random, base: Btf | None = None) -> bytes:
    """An object of a few units. Only pointers and members lead to what comes later, and that is a struct, a union or a
    FWD: there are no loops without one of them.
    """
    writer = _Writer(source, base)
    plans = [[source.random() for _ in range(400)] for _ in range(source.randrange(1, 3))]
    for _ in range(source.randrange(1, 5)):
        # The same plan gives the same unit, but for the few decisions that are taken anew.
        writer.unit(source.choice(plans))
    return writer.builder.to_bytes()


class _Writer:
    def __init__(self, source: random.Random, base: Btf | None) -> None:
        self.source = source
        self.builder = Builder(base, classic=True)
        self.kinds = [Kind.UNKN] + [
            Kind(record.kind) for layer in (base.chain if base else []) for record in layer.types()
        ]
        self.first = 0
        self.tags: list[int] = []
        self.made: list[tuple[Kind, str, tuple[object, ...]]] = []
        self.recipes: dict[int, str] = {}
        self.twins: dict[str, list[int]] = {}
        self.last = 0
        self.plan: list[float] = []
        self.at = 0
        self.changed = 0.0

    def pick(self, count: int) -> int:
        """A number below ``count``, as planned or, rarely, by chance."""
        self.at += 1
        chance = self.source.random() < self.changed
        return int((self.source.random() if chance else self.plan[self.at % len(self.plan)]) * count)

    def earlier(self, *wanted: Kind) -> int:
        """A type that is there already, mostly of this unit; any that C declarations can use unless ``wanted``."""
        start = 1 if self.source.random() < 0.02 else self.first
        found = start + self.pick(max(len(self.kinds) - start, 1))
        while found >= start:
            if found < len(self.kinds) and self.kinds[found] in (wanted or _C_KINDS):
                self.last = found
                return self.twin(found)
            found -= 1
        return 0

    def twin(self, type_id: int) -> int:
        """The type, or one of this unit that was made in the same way, whatever the plan."""
        return self.source.choice(self.twins.get(self.recipes.get(type_id, ""), [type_id]))

    def target(self) -> int:
        """As ``earlier``, or what was used last, or a struct, union or FWD that is still to come."""
        way = self.pick(6)
        if way < 2:
            return self.tags[self.pick(len(self.tags))]
        return self.twin(self.last) if way == 2 else self.earlier()

    def unit(self, plan: list[float]) -> None:
        self.plan, self.at, self.changed = plan, 0, self.source.random() * 0.06
        self.first = self.builder.end_id
        self.made = []
        self.last = 0
        simple = 4 + self.pick(14)
        tags = 1 + self.pick(4)
        self.tags = [self.first + 1 + simple + n for n in range(tags)]
        self.make(Kind.INT, "add_int", ("int", "long")[self.pick(2)], 4, self.pick(2))
        for _ in range(simple):
            self.simple()
        for _ in range(tags):
            self.tag()
        self.make(Kind.VAR, "add_var", "v", self.target())
        if self.pick(4) == 0:
            variable = SectionVariable(len(self.kinds) - 1, 0, 4)
            self.make(Kind.DATASEC, "add_datasec", ".data", 4, [variable])

    def make(self, kind: Kind, method: str, *arguments: object) -> None:
        """Call a method of the builder and remember how."""
        type_id = getattr(self.builder, method)(*arguments)
        assert type_id == len(self.kinds)
        self.kinds.append(kind)
        self.made.append((kind, method, arguments))
        self.recipes[type_id] = f"{self.first} {method} {arguments}"
        self.twins.setdefault(self.recipes[type_id], []).append(type_id)

    def tag(self) -> None:
        if self.pick(5) == 0:
            self.make(Kind.FWD, "add_fwd", _TAGS[self.pick(3)], self.pick(6) == 0)
            return
        kind = Kind.UNION if self.pick(6) == 0 else Kind.STRUCT
        members = [
            Member(("x", "y", "")[self.pick(3)], self.target(), 32 * n, 3 if self.pick(12) == 0 else 0)
            for n in range(self.pick(4))
        ]
        self.make(kind, "add_composite", kind, _TAGS[self.pick(4)], 8 + 4 * self.pick(2), members)

    def simple(self) -> None:
        pick = self.pick
        way = pick(17)
        if way < 6:
            kind = _REFERENCES[pick(len(_REFERENCES))]
            named = kind in (Kind.TYPEDEF, Kind.TYPE_TAG)
            type_id = self.target() if kind is Kind.PTR else self.earlier()
            self.make(kind, "add_reference", kind, type_id, ("t", "u")[pick(2)] if named else "")
        elif way < 8:
            self.make(Kind.ARRAY, "add_array", self.earlier(), self.earlier(Kind.INT), pick(3))
        elif way < 9:
            params = [(("p", "q")[pick(2)], self.target()) for _ in range(pick(3))]
            self.make(Kind.FUNC_PROTO, "add_func_proto", self.earlier(), params)
        elif way < 11:
            values = [Enumerator("E" if pick(3) else "F", pick(2) + n) for n in range(pick(3))]
            if pick(3) == 0:
                self.make(Kind.ENUM64, "add_enum64", ("e", "")[pick(2)], 8, values, pick(2) == 0)
            else:
                self.make(Kind.ENUM, "add_enum", ("e", "")[pick(2)], (4, 8)[pick(2)], values, pick(2) == 0)
        elif way < 12:
            self.make(Kind.FWD, "add_fwd", _TAGS[pick(3)], pick(6) == 0)
        elif way < 13 and (prototype := self.earlier(Kind.FUNC_PROTO)):
            self.make(Kind.FUNC, "add_func", "f", prototype, pick(3))
        elif way < 13:
            self.make(Kind.FLOAT, "add_float", ("float", "double")[pick(2)], (4, 8)[pick(2)])
        elif way < 16:
            # compilers write a type twice, too
            kind, method, arguments = self.made[pick(len(self.made))]
            self.make(kind, method, *arguments)
        else:
            tagged = self.earlier(Kind.FUNC, Kind.STRUCT, Kind.UNION, Kind.TYPEDEF, Kind.VAR)
            self.make(Kind.DECL_TAG, "add_decl_tag", "tag", tagged, -1)
