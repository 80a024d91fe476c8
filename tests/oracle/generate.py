"""Random C programs from a seed: what is generated, before it is printed as C (:mod:`.emit`).

A program has functions on five levels; a function calls functions of lower levels only, so nothing recurses and
inlining nests up to four deep below the external entry functions. Undefined behaviour cannot occur: arithmetic is done
in unsigned types, shift counts are masked, divisors are made odd, pointers stay within their arrays, floating-point
values stay small, and nothing is read before it is written. Names that exist once per version (functions and the state
they change) are written with a ``$``, which the printer replaces by the prefix of the version.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.oracle.c_types import (
    BOOL,
    HUE,
    PAIRS,
    PARAMETER_WEIGHTS,
    S32,
    S64,
    STRUCT8,
    STRUCT16,
    TABLE_WORDS,
    U8,
    U32,
    U64,
    WORDS,
    CType,
    Kind,
)
from tests.oracle.prng import Prng

LEVELS = 5
CALL_BUDGET = 100
"""The most calls one invocation of an entry function makes (an upper bound, counted as if no guard ever failed)."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter or a local variable."""

    name: str
    type: CType


@dataclass(frozen=True, slots=True)
class Text:
    """A statement without calls of generated functions."""

    c: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a generated function; ``target`` is an assignment's left side, ``returned`` makes it a tail call."""

    callee: Function
    arguments: tuple[str, ...]
    target: str | None = None
    returned: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """``head { body } tail``."""

    head: str
    body: tuple[Statement, ...]
    tail: str = ""


Statement = Text | Call | Block


@dataclass(eq=False, slots=True)
class Function:
    """One generated function."""

    number: int
    level: int
    parameters: tuple[Variable, ...]
    returns: CType | None
    storage: str
    unit: int
    body: list[Statement] = field(default_factory=list)
    calls: int = 1

    @property
    def external(self) -> bool:
        """True for the entry functions, which the driver calls."""
        return self.level == LEVELS - 1

    @property
    def name(self) -> str:
        """The C name without the prefix of a version."""
        return f"{'entry' if self.external else 'f'}{self.number}"


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program; ``functions`` are in an order in which callees come before callers."""

    seed: int
    units: int
    functions: tuple[Function, ...]

    @property
    def entries(self) -> tuple[Function, ...]:
        """The functions that the driver calls."""
        return tuple(f for f in self.functions if f.external)


class _Body:
    """Writes the body of one function."""

    def __init__(self, prng: Prng, function: Function, callees: list[Function]) -> None:
        self.prng = prng
        self.function = function
        self.callees = callees
        self.scope: list[Variable] = list(function.parameters)
        self.counters: list[Variable] = []
        self.locals = 0
        self.multiplier = 1

    def u64(self, depth: int = 2) -> str:
        """An expression of type u64."""
        prng = self.prng
        if depth == 0 or prng.chance(20):
            return self.leaf()
        a, b = self.u64(depth - 1), self.u64(depth - 1)
        choice = prng.below(12)
        if choice < 5:
            return f"({a} {prng.pick('+-*^&|')} {b})"
        if choice == 5:
            return f"({a} {prng.pick(('<<', '>>'))} {prng.between(1, 40)})"
        if choice == 6:
            return f"({a} {prng.pick('/%')} ({b} | 1))"
        if choice == 7:
            return f"(u64)((s64){a} {prng.pick(('/', '%', '>>'))} {prng.between(2, 9)})"
        if choice == 8:
            return f"(u64)({a} {prng.pick(('<', '==', '>='))} {b})"
        if choice == 9:
            return f"({self.condition()} ? {a} : {b})"
        return f"(u64){self.u32(depth - 1)}"

    def u32(self, depth: int = 2) -> str:
        """An expression of type u32."""
        prng = self.prng
        if depth == 0 or prng.chance(20):
            return f"(u32){self.leaf()}"
        a, b = self.u32(depth - 1), self.u32(depth - 1)
        choice = prng.below(10)
        if choice < 4:
            return f"({a} {prng.pick('+-*^&|')} {b})"
        if choice == 4:
            return f"({a} {prng.pick(('<<', '>>'))} {prng.between(1, 20)})"
        if choice == 5:
            return f"({a} {prng.pick('/%')} ({b} | 1))"
        if choice == 6:
            return f"(u32)((s32){a} {prng.pick(('/', '%', '>>'))} {prng.between(2, 9)})"
        if choice == 7:
            return f"(u32)((s32){a} {prng.pick(('<', '==', '>='))} (s32){b})"
        if choice == 8:
            return f"(u32)({a} >> ({b} & 31))"
        return f"(u32)(u{prng.pick((8, 16))}){a}"

    def leaf(self) -> str:
        """A variable as u64, or a constant."""
        prng = self.prng
        if not self.scope or prng.chance(25):
            return f"{prng.pick((prng.below(10), prng.below(256), prng.word() >> prng.between(1, 60)))}ul"
        return self.read(prng.pick(self.scope))

    def read(self, variable: Variable) -> str:
        """Something of the variable's value, as u64."""
        prng, name, kind = self.prng, variable.name, variable.type.kind
        if kind is Kind.FLOAT:
            return f"(u64)({name} > {prng.between(-9, 9)}.5)"
        if kind is Kind.WIDE:
            return prng.pick((f"(u64){name}", f"(u64)({name} >> 64)"))
        if kind is Kind.POINTER:
            if variable.type is WORDS:
                return f"{name}[{prng.below(4)}]"
            return f"(u64){name}[{prng.below(2)}].{prng.pick('ab')}"
        if kind is Kind.STRUCT:
            i = prng.below(len(variable.type.members))
            return self.read(Variable(f"{name}.{chr(97 + i)}", variable.type.members[i]))
        return f"(u64){name}"

    def condition(self) -> str:
        """An expression to branch on."""
        prng = self.prng
        choice = prng.below(6)
        if choice == 5:
            return f"__builtin_expect(({self.leaf()} & 7) == {prng.below(8)}, 0)"
        if choice == 0:
            return f"({self.leaf()} & {1 << prng.below(3)})"
        if choice == 1:
            return f"((s32){self.leaf()} {prng.pick(('<', '>', '!='))} {prng.between(-3, 9)})"
        if choice == 2:
            return f"({self.u32(1)} % {prng.between(2, 5)}u)"
        if choice == 3:
            return f"((s64){self.leaf()} {prng.pick(('<', '>='))} (s64){self.leaf()})"
        return f"({self.leaf()} {prng.pick(('<', '>'))} {self.leaf()})"

    def value(self, wanted: CType) -> str:
        """An expression of any type: a variable as it is, a constant, or something computed."""
        prng = self.prng
        same = [v for v in self.scope if v.type is wanted]
        if same and prng.chance(50):
            return prng.pick(same).name
        constant = prng.chance(25)
        if wanted.kind is Kind.INTEGER:
            if constant:
                return f"({wanted.c}){prng.pick((prng.below(4), prng.below(300), prng.word() >> 1))}ul"
            if wanted.size == 4 and prng.chance(15) and wanted.signed:
                return f"(s32)({self.u32(1)} & 0xffff) - {prng.between(1, 70000)}"
            return f"({wanted.c}){self.u32() if wanted.size < 8 or prng.chance(20) else self.u64()}"
        if wanted is BOOL:
            return f"{prng.below(2)}" if constant else f"(bool){self.condition()}"
        if wanted.kind is Kind.ENUM:
            if wanted is HUE:
                return prng.pick(("RED", "GREEN", "GREY")) if constant else f"(enum hue)({self.u32(1)} & 3)"
            return prng.pick(("LOWEST", "ZERO", "HIGH")) if constant else f"(enum level)((s32)({self.u32(1)} % 7) - 3)"
        if wanted.kind is Kind.FLOAT:
            if constant:
                return f"({wanted.c}){prng.between(-20, 20)}.{prng.pick(('0', '25', '5'))}"
            if same and prng.chance(30):
                return f"({wanted.c})({prng.pick(same).name} * 0.5 + {prng.below(5)})"
            return f"({wanted.c})(s16){self.u32(1)} * 0.25f"
        if wanted.kind is Kind.WIDE:
            if constant:
                return f"({wanted.c}){prng.between(-5, 5)}"
            if prng.chance(50):
                return f"({wanted.c})(s64){self.u64(1)}"
            return f"({wanted.c})((u128){self.u64(1)} << 64 | {self.u64(1)})"
        if wanted.kind is Kind.POINTER:
            return self.pointer(wanted)
        members = ", ".join(self.value(member) for member in wanted.members)
        return f"({wanted.c}){{ {members} }}"

    def pointer(self, wanted: CType) -> str:
        """A pointer into one of the arrays, at least four elements from the end."""
        prng = self.prng
        if wanted is PAIRS:
            return f"&pairs[{prng.below(8) if prng.chance(30) else f'{self.leaf()} & 7'}]"
        if prng.chance(35):
            return prng.pick(("table", f"&table[{prng.below(TABLE_WORDS - 4)}]"))
        return f"&pool[{prng.below(32) if prng.chance(30) else f'{self.leaf()} & 31'}]"

    def local(self, kind: CType | None = None) -> Text:
        """The declaration of a new local variable."""
        wanted = kind or self.prng.weighted(PARAMETER_WEIGHTS)
        text = Text(f"{wanted.c} v{self.locals} = {self.value(wanted)};")
        self.scope.append(Variable(f"v{self.locals}", wanted))
        self.locals += 1
        return text

    def effect(self) -> Text:
        """A statement that changes the state of the program."""
        choice = self.prng.below(10)
        if choice < 4:
            return Text(f"$state {self.prng.pick(('+=', '^=', '-='))} {self.u64()};")
        if choice < 7:
            return Text(f"$state = $state * {self.prng.between(3, 99) | 1} + {self.u64(1)};")
        if choice == 7:
            return Text(f"$store[{self.leaf()} & 7] ^= {self.u64(1)};")
        if choice == 8:
            return Text(f"$sink = {self.u64(1)};")
        return Text(f"$state ^= opaque({self.u64(1)});")

    def changeable(self) -> list[Variable]:
        """The variables that may be assigned to: all but those that count the rounds of a loop around."""
        return [v for v in self.scope if v not in self.counters]

    def reassign(self) -> Text:
        """An assignment to a parameter or a local variable."""
        changeable = self.changeable()
        if not changeable:
            return self.effect()
        variable = self.prng.pick(changeable)
        if variable.type.kind is Kind.INTEGER and self.prng.chance(40):
            operation = self.prng.pick(("^=", "|=", "&=", "+="))
            if variable.type.signed and operation == "+=":
                operation = "^="
            return Text(f"{variable.name} {operation} ({variable.type.c}){self.u32(1)};")
        return Text(f"{variable.name} = {self.value(variable.type)};")

    def result(self) -> str:
        """The text of a return statement."""
        if self.function.returns is None:
            return "return;"
        return f"return {self.value(self.function.returns)};"

    def call(self, tail: bool = False) -> list[Statement]:
        """A call of some callee that the budget allows, perhaps guarded; what is returned is used."""
        prng = self.prng
        fitting = [f for f in self.callees if self.function.calls + f.calls * self.multiplier <= CALL_BUDGET]
        if not fitting:
            return [self.effect()]
        near = [f for f in fitting if f.level == self.function.level - 1]
        callee = prng.pick(near if near and prng.chance(75) else fitting)
        self.function.calls += callee.calls * self.multiplier
        arguments = tuple(self.argument(p.type) for p in callee.parameters)
        if callee.returns is None:
            return [Call(callee, arguments)]
        if tail and callee.returns is self.function.returns:
            return [Call(callee, arguments, returned=True)]
        same = [v for v in self.changeable() if v.type is callee.returns]
        if same and prng.chance(35):
            return [Call(callee, arguments, target=prng.pick(same).name)]
        self.locals += 1
        variable = Variable(f"v{self.locals - 1}", callee.returns)
        call = Call(callee, arguments, target=f"{variable.type.c} {variable.name}")
        statements: list[Statement] = [call, Text(f"$state += {self.read(variable)};")]
        self.scope.append(variable)
        return statements

    def argument(self, wanted: CType) -> str:
        """An argument; a pointer may point at a local variable."""
        if wanted is PAIRS and self.prng.chance(15):
            own = [v for v in self.scope if v.type is STRUCT16]
            if own:
                return f"(const struct s16 [2]){{ {own[0].name}, {own[0].name} }}"
        return self.value(wanted)

    def nested(self, head: str, length: int, times: int = 1, tail: str = "", last: str | None = None) -> Block:
        """A block with statements of its own scope that runs up to ``times`` times."""
        scope, self.multiplier = len(self.scope), self.multiplier * times
        body = [s for _ in range(length) for s in self.statement(depth=1)]
        if last is not None:
            body.append(Text(last))
        del self.scope[scope:]
        self.multiplier //= times
        return Block(head, tuple(body), tail)

    def loop(self) -> list[Statement]:
        """A loop of at most four rounds, counted by a new variable or by one that is there already."""
        prng = self.prng
        own = [v for v in self.changeable() if v.type in (U32, U64, U8, S32)]
        if own and prng.chance(50):
            counter = prng.pick(own)
            name, kind = counter.name, counter.type.c
            self.counters.append(counter)
            # Nothing stands before the loop, so that its head can be the entry of the function.
            if prng.chance(60):
                step = f"{name} = ({kind})(((u32){name} & 7) >> 1);"
                block = self.nested("do", prng.between(1, 2), 4, f" while ({name});", step)
            else:
                step = f"{name} = ({kind})(((u32){name} & 3) - 1);"
                block = self.nested(f"while ((s32){name} > 0)", prng.between(1, 2), 4, "", step)
            self.counters.pop()
            return [block]
        self.locals += 1
        index = Variable(f"i{self.locals}", U32)
        bound = prng.pick(("2", "3", "4", f"({self.u32(0)} & 3)", f"1 + ({self.u32(0)} & 3)"))
        head = f"for (u32 {index.name} = 0; {index.name} < {bound}; {index.name}++)"
        if "(" in bound:
            # The bound is evaluated once, for the body may change what it is computed from.
            head = (
                f"for (u32 {index.name} = 0, n{self.locals} = {bound}; {index.name} < n{self.locals}; {index.name}++)"
            )
        return [self.nested(head, prng.between(1, 2), 4)]

    def statement(self, depth: int = 0) -> list[Statement]:
        """One or a few statements."""
        choice = self.prng.below(100)
        if choice < 36:
            return self.call()
        if choice < 46:
            return [self.reassign()]
        if choice < 58:
            return [self.local()]
        if choice < 64 and depth == 0:
            return [Block(f"if ({self.condition()})", (Text(self.result()),))]
        if choice < 76 and depth == 0:
            block = self.nested(f"if ({self.condition()})", self.prng.between(1, 2))
            return [block, self.nested("else", 1)] if self.prng.chance(35) else [block]
        if choice < 88 and depth == 0:
            return self.loop()
        return [self.effect()]

    def write(self) -> None:
        """Fill the function's body."""
        prng, body = self.prng, self.function.body
        if prng.chance(20):
            body.extend(self.loop())
        elif prng.chance(25):
            body.append(self.reassign())
        for _ in range(prng.between(1, (2, 3, 4, 4, 6)[self.function.level])):
            body.extend(self.statement())
        if self.function.level and self.function.calls == 1:
            body.extend(self.call())
        if prng.chance(70):
            body.append(self.effect())
        unused = [p for p in self.function.parameters if not _mentions(body, p.name)]
        if unused and prng.chance(85):
            text = f"$state {prng.pick(('+=', '^='))} {' * '.join(map(self.read, unused))};"
            body.insert(0 if prng.chance(50) else len(body), Text(text))
        if prng.chance(25):
            body.extend(self.call(tail=True))
        if not (isinstance(body[-1], Call) and body[-1].returned):
            body.append(Text(self.result()))


def _mentions(body: Sequence[Statement], name: str) -> bool:
    """True if a statement uses the variable."""
    for statement in body:
        if isinstance(statement, Text):
            texts: tuple[str, ...] = (statement.c,)
        elif isinstance(statement, Call):
            texts = (*statement.arguments, statement.target or "")
        else:
            texts = (statement.head, statement.tail)
            if _mentions(statement.body, name):
                return True
        if any(re.search(rf"\b{name}\b", text) for text in texts):
            return True
    return False


def _parameters(prng: Prng, most: int) -> tuple[Variable, ...]:
    count = prng.weighted(((1, 0), (6, 1), (7, 2), (5, 3), (3, 4), (2, 6), (1, 9)))
    return tuple(Variable(chr(97 + i), prng.weighted(PARAMETER_WEIGHTS)) for i in range(min(count, most)))


def generate(seed: int, units: int = 1) -> Program:
    """The program of a seed; with two units, the functions of the lower levels live in the second one."""
    prng = Prng(seed * 2 + units)
    functions: list[Function] = []
    for level in range(LEVELS):
        for _ in range(prng.between(2, 4) if level < LEVELS - 1 else 3):
            callees = [f for f in functions if f.level < level]
            unit = 1 if units == 2 and level < 2 else 0
            storage = prng.weighted(
                (
                    (40, "static inline"),
                    (35, "static"),
                    (15, "static inline __attribute__((always_inline))"),
                    (10, "static __attribute__((noinline))"),
                )
            )
            if level == LEVELS - 1:
                storage = "__attribute__((noinline))"
            elif unit == 1 and level == 1:
                storage = ""
            function = Function(
                len(functions),
                level,
                _parameters(prng, 9),
                prng.weighted(((5, U64), (4, U32), (3, S32), (2, S64), (2, U8), (1, BOOL), (1, STRUCT8), (5, None)))
                if level < LEVELS - 1
                else U64,
                storage,
                unit,
            )
            if unit == 0 and units == 2:
                callees = [f for f in callees if f.level >= 1]
            _Body(prng, function, callees).write()
            functions.append(function)
    return Program(seed, units, tuple(functions))
