"""Which filters the kernel gets, and that they let the right hits through."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace.probe.kernel_filter import set_filters
from inlinetrace.probe.where import parse_condition
from tests.probe.conftest import run, trace
from tests.probe.planning import plan_program

pytestmark = pytest.mark.compiled

Compiler = Callable[..., Path]

PROGRAM = """
#include <stdlib.h>
struct s { unsigned char byte; short half; long word; unsigned bits : 3; };
volatile long sink;
static inline __attribute__((always_inline)) void take(int n, unsigned u, long l, struct s *s)
{ sink += n + u + l + s->word + s->half + s->byte + s->bits; }
__attribute__((noinline)) void one(int n, unsigned u, long l, struct s *s) { take(n, u, l, s); }
static inline __attribute__((always_inline)) void deep(int n) { sink += n; }
static inline __attribute__((always_inline)) void wide(int n) { deep(n); }
__attribute__((noinline)) void two(int n) { wide(n); }
__attribute__((noinline)) void three(int n) { deep(7); sink += n; }
int main(int argc, char **argv)
{
    for (int i = -3; i < 4; i++) {
        struct s s = { i, i * 10, i * 1000L, i & 7 };
        one(i, i, i * -5L, &s);
        two(i);
        three(i);
    }
    return 0;
}
"""


def filters(program: Path, functions: list[str], where: str) -> list[str | None]:
    condition = parse_condition(where)
    plan, _, _ = plan_program(program, functions, "s" if "s->" in where else "n", hidden=condition.references)
    for event in plan.events:
        event.probes = [probe for probe in event.probes if probe.hits[0].site.inlined]
    plan.events = [event for event in plan.events if event.probes]
    set_filters(plan, condition)
    return [event.filter for event in plan.events]


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        ("n < 0", "a{} < 0"),
        ("not n == -1", "!(a{} == -1)"),
        ("n == 5 and n != 3 or n > 9", "((a{0} == 5 && a{0} != 3) || a{0} > 9)"),
        ("n & 4", "a{} & 4"),
        ("n", "a{} != 0"),
    ],
)
def test_what_the_kernel_gets(where: str, kind: str, compiler: Compiler) -> None:
    (text,) = filters(compiler(PROGRAM), ["take"], where)
    assert text in {kind.format(number) for number in range(8)}


@pytest.mark.parametrize(
    "where",
    ["u == -1", "u == 4294967296", "s->byte == 300", "n & 4 == 4", "n == u", "n == 1.5", "s->bits == 3", "5 < n"],
)
def test_what_it_does_not_get(where: str, compiler: Compiler) -> None:
    assert filters(compiler(PROGRAM), ["take"], where) == [None]


def test_probes_of_several_hits_or_with_a_constant_are_not_filtered_by_the_kernel(compiler: Compiler) -> None:
    program = compiler(PROGRAM)
    assert filters(program, ["deep", "wide"], "n == 7") == [None, None]


@pytest.mark.uprobes
@pytest.mark.usefixtures("tracefs")
@pytest.mark.parametrize(
    "where",
    [
        "n < 0",
        "not n == -1",
        "u > 4294967293",
        "l >= 10",
        "s->byte >= 253",
        "s->half == -20",
        "s->word < -1000 or n & 2",
    ],
)
def test_the_right_hits_pass(where: str, compiler: Compiler) -> None:
    program = str(compiler(PROGRAM))
    # what a filter of Python's says of the same numbers
    names = {
        n: {"n": n, "u": n & 0xFFFFFFFF, "l": -5 * n, "byte": n & 255, "half": 10 * n, "word": 1000 * n}
        for n in range(-3, 4)
    }
    text = where.replace("s->", "")
    expected = [n for n, values in names.items() if eval(text, {}, values)]
    hits = trace("take", "--args", "n", "--inline-only", "--where", where, "-x", program, "--")
    assert [hit["args"]["n"] for hit in hits] == expected
    assert "  filter " in run("take", "--where", where, "--inline-only", "--dry-run", "-x", program).stdout
