"""What only the bcc backend does, live on this machine: counts, histograms, stacks, following, many sites.

That both backends show the same is tested where the command line and the compiled corpus are, once with each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.probe.bcc import BccBackend, Wanted
from inlinetrace.probe.bcc_library import open_library
from inlinetrace.probe.events import Decoder
from inlinetrace.target.host import Host
from tests.cases.runner import PROGRAMS
from tests.probe.conftest import Compiler, run, trace
from tests.probe.planning import plan_program

pytestmark = [pytest.mark.compiled, pytest.mark.uprobes, pytest.mark.usefixtures("tracefs")]

BCC = ("--backend", "bcc")
LOGGING = r"""
#include <stdio.h>
#include <stdlib.h>
struct node { short value; struct node *next; };
static volatile long sink;
static inline __attribute__((always_inline)) void tick(long number, unsigned char small, struct node *node, int kind)
{
    sink += number + small + (long)node + kind;
}
__attribute__((noipa)) void one(long number, unsigned char small, struct node *node)
{
    tick(number, small, node, 7);
}
__attribute__((noipa)) void two(long number, unsigned char small, struct node *node, int kind)
{
    tick(number, small, node, kind);
}
__attribute__((noipa)) void keep(struct node *node) { sink += (long)node; }
static void call(long number, unsigned char small, struct node *node, int kind)
{
    printf("%s %ld %d %s %s %d\n", kind == 7 ? "one" : "two", number, small,
           node ? (char[]){ 'v', 0 } : "fault", node && node->next ? "v" : "fault", kind);
    printf("  %d %d\n", node ? node->value : 0, node && node->next ? node->next->value : 0);
    fflush(stdout);
    if (kind == 7)
        one(number, small, node);
    else
        two(number, small, node, kind);
}
int main(int argc, char **argv)
{
    struct node last = { -300, 0 }, first = { 5, &last };
    keep(&last);
    keep(&first);
    long numbers[] = { 0, 1, -1, 2, 3, 1000, -1000, 1L << 40, -(1L << 62), ~0UL >> 1, -(~0UL >> 1) - 1 };
    for (int i = 0; i < (int)(sizeof numbers / sizeof *numbers); i++) {
        struct node *node = i % 3 == 0 ? 0 : i % 3 == 1 ? &first : &last;
        call(numbers[i], i * 31, node, 7);
        call(numbers[i] / 2, i * 7, node, i - 4);
    }
    return 0;
}
"""


class Call:
    """One line of the program's log: what ``tick`` was given, None where memory cannot be read."""

    def __init__(self, line: str, values: str) -> None:
        where, number, small, first, second, kind = line.split()
        value, following = values.split()
        self.where = where
        self.values: dict[str, int | None] = {
            "number": int(number),
            "small": int(small),
            "kind": int(kind),
            "node->value": int(value) if first == "v" else None,
            "node->next->value": int(following) if second == "v" else None,
        }


@pytest.fixture
def logged(compiler: Compiler, tmp_path: Path) -> tuple[Path, list[Call]]:
    """The program, and what it says it passes."""
    program = compiler(LOGGING)
    output = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    return program, [Call(*pair) for pair in zip(output[::2], output[1::2], strict=True)]


def totals(*arguments: str, program: Path) -> tuple[dict[str, int], dict[str, Any]]:
    """Counts by symbol, and the histogram."""
    rows = trace("tick", "--count", *arguments, "-x", str(program), "--")
    counts = {row["symbol"]: row["hits"] for row in rows if "hits" in row}
    found = [row for row in rows if "buckets" in row]
    return counts, found[0] if found else {}


def expected(calls: list[Call], label: str) -> tuple[dict[tuple[int, int], int], int]:
    """The histogram of what was logged, by its own arithmetic."""
    buckets: Counter[tuple[int, int]] = Counter()
    for call in calls:
        value = call.values[label]
        if value is None:
            continue
        low = high = abs(value)
        while low & (low - 1):
            low &= low - 1
        high = 2 * low - 1 if low else 0
        buckets[(low, high) if value >= 0 else (-high, -low)] += 1
    return dict(buckets), sum(call.values[label] is None for call in calls)


@pytest.mark.parametrize("backend", ["bcc", "tracefs"])
@pytest.mark.parametrize("label", ["number", "small", "kind", "node->value", "node->next->value"])
def test_counts_and_histograms_are_those_of_the_log(label: str, backend: str, logged: tuple[Path, list[Call]]) -> None:
    program, calls = logged
    counts, histogram = totals("--hist", label, "--backend", backend, program=program)
    assert counts == dict(Counter(call.where for call in calls))
    buckets, unavailable = expected(calls, label)
    assert {(row["low"], row["high"]): row["hits"] for row in histogram["buckets"]} == buckets
    assert histogram["unavailable"] == unavailable


@pytest.mark.parametrize(
    ("filter_", "in_kernel"),
    [
        ("number > 0 and small < 100", True),
        ("not number > 0", True),
        ("number < -1 or (number >= 1000 and not small == 217)", True),
        ("small & 0x10", True),
        ("number != -1000", True),
        # which the kernel cannot decide for certain: the read may fail
        ("node->value == 5", False),
        ("kind == 7", False),
        ("number > small", False),
    ],
)
def test_filters_hold_for_counts(filter_: str, in_kernel: bool, logged: tuple[Path, list[Call]]) -> None:
    program, calls = logged
    text = filter_.replace("->", "_")

    def holds(call: Call) -> bool:
        values = {name.replace("->", "_"): value for name, value in call.values.items()}
        if any(name in text and value is None for name, value in values.items()):
            return False
        return bool(eval(text, {}, values))

    chosen = [call for call in calls if holds(call)]
    assert 0 < len(chosen) < len(calls)
    for label in ("number", "node->value"):
        counts, histogram = totals("--hist", label, "--where", filter_, *BCC, program=program)
        assert counts == dict(Counter(call.where for call in chosen))
        buckets, unavailable = expected(chosen, label)
        assert {(row["low"], row["high"]): row["hits"] for row in histogram["buckets"]} == buckets
        assert histogram["unavailable"] == unavailable
    assert counts_in_kernel(program, filter_) == in_kernel


def counts_in_kernel(program: Path, filter_: str) -> bool:
    """Whether a trace with this filter passes on no hits."""
    from inlinetrace.probe.where import parse_condition

    condition = parse_condition(filter_)
    names = {"number", "small", "node", "kind"}
    condition.settle(names)
    plan, _, image = plan_program(program, ["tick"], "number", guarded=False, hidden=condition.references)
    backend = BccBackend(Host(), plan, image.debug.machine, Wanted(counts=True, condition=condition))
    assert backend.attach() == []
    try:
        return backend.totals() is not None
    finally:
        assert backend.detach() == []


def test_a_filter_in_the_kernel_leaves_out_the_same_hits(logged: tuple[Path, list[Call]]) -> None:
    program, calls = logged
    for filter_ in ("number > 0 and small < 100", "node->value == 5", "not (small & 0x10) or number == 3"):
        found = {
            backend: [
                (hit["symbol"], hit["args"], hit["unavailable"])
                for hit in trace("tick", "--args", "--where", filter_, "--backend", backend, "-x", str(program), "--")
            ]
            for backend in ("tracefs", "bcc")
        }
        for hits in found.values():
            for _, arguments, _ in hits:
                arguments.pop("node", None)
        assert found["bcc"] == found["tracefs"]
        assert 0 < len(found["bcc"]) < len(calls)


STACK = r"""
#include <unistd.h>
static volatile long sink;
static inline __attribute__((always_inline)) void inner(long number) { sink += number; }
static inline __attribute__((always_inline)) void outer(long number) { inner(number + 1); }
__attribute__((noipa)) void third(long number) { outer(number); sink++; }
__attribute__((noipa)) void second(long number) { third(number); sink++; }
__attribute__((noipa)) void first(long number) { second(number); sink++; }
int main(void) { first(1); sink++; return 0; }
"""


@pytest.mark.parametrize("option", ["-pie", "-no-pie"])
def test_a_stack_has_its_inlined_frames_and_its_callers(option: str, compiler: Compiler) -> None:
    program = compiler(STACK, "-O2", "-fno-omit-frame-pointer", *(("-fno-pie", option) if "no" in option else ()))
    (hit,) = trace("inner", "--stack", *BCC, "-x", str(program), "--")
    frames = hit["stack"]["user"]
    names = [frame["name"] for frame in frames]
    assert names[:3] == ["inner", "outer", "third"]
    # a function that has no frame of its own yet hides its caller
    assert "first" in names
    assert "main" in names
    assert [frame["inlined"] for frame in frames[:3]] == [True, True, False]
    assert frames[2]["address"] == hit["address"]
    symbols = subprocess.run(["nm", str(program)], capture_output=True, text=True, check=True).stdout
    starts = {line.split()[2]: int(line.split()[0], 16) for line in symbols.splitlines() if len(line.split()) == 3}
    bias = int(hit["address"], 16) - starts["third"] - hit["symbol_offset"]
    for frame in frames[2:]:
        if frame["name"] in ("third", "second", "first", "main"):
            assert int(frame["address"], 16) == bias + starts[frame["name"]] + frame["offset"]
    done = run("inner", "--stack", *BCC, "-x", str(program), "--")
    lines = done.stdout.splitlines()
    assert lines[1:3] == ["        inner (inlined)", "        outer (inlined)"]
    assert lines[3].startswith("        third+0x")


TEXTS = r"""
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile long sink;
static inline __attribute__((always_inline)) void say(const char *text, int length) { sink += (long)text + length; }
__attribute__((noipa)) void pass(const char *text, int length) { say(text, length); }
static const char never_read[] = "a literal on a page that nobody has touched";
__attribute__((aligned(4096))) static const char page[4096] = "first on its page";
int main(void)
{
    static char text[9000];
    int lengths[] = { 0, 1, 126, 127, 128, 129, 1000, 4000, 4094, 4095, 5000 };
    pass(page, sizeof "first on its page" - 1);
    pass(never_read, sizeof never_read - 1);
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i++) {
        memset(text, 'a' + i, lengths[i]);
        text[lengths[i]] = 0;
        pass(text, lengths[i]);
    }
    char *end = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(end + 4096, 4096);
    strcpy(end + 4096 - 6, "edge!");
    pass(end + 4096 - 6, 5);
    memset(end + 4096 - 6, 'x', 6);
    pass(end + 4096 - 6, -1);
    pass((char *)8, -1);
    return 0;
}
"""


def test_texts_of_all_lengths_also_where_nobody_has_been(compiler: Compiler) -> None:
    program = compiler(TEXTS)
    hits = trace("say", "--args", "--strings", *BCC, "-x", str(program), "--")
    assert len(hits) == 16
    for hit in hits:
        length, text = hit["args"]["length"], hit["args"].get("text")
        if 0 <= length < 4095:
            assert len(text) == length
        else:
            assert hit["unavailable"]["text"] == "fault", length
    assert hits[0]["args"]["text"] == "first on its page"
    assert hits[1]["args"]["text"] == "a literal on a page that nobody has touched"
    assert hits[-3]["args"]["text"] == "edge!"


FORKS = r"""
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long sink;
static inline __attribute__((always_inline)) void at(long depth) { sink += depth; }
__attribute__((noipa)) void step(long depth) { at(depth); }
static void *thread(void *depth) { step((long)depth); return 0; }
int main(int argc, char **argv)
{
    if (argc > 2) {
        step(9);
        return 0;
    }
    step(0);
    for (long depth = 1; depth < 4; depth++) {
        pid_t pid = fork();
        if (pid) {
            waitpid(pid, 0, 0);
            break;
        }
        step(depth);
        pthread_t other;
        pthread_create(&other, 0, thread, (void *)(depth + 10));
        pthread_join(other, 0);
    }
    if (argc > 1) {
        usleep(200000);
        execl(argv[0], argv[0], "x", "y", (char *)0);
    }
    return 0;
}
"""


def test_what_the_program_starts_is_traced_and_nobody_else(compiler: Compiler) -> None:
    program = compiler(FORKS, "-O2", "-pthread")
    # another one, which was not started by the trace
    stranger = subprocess.Popen([program, "stay"])
    try:
        hits = trace("at", "--args", *BCC, "-x", str(program), "--")
    finally:
        stranger.wait()
    assert [hit["args"]["depth"] for hit in hits] == [0, 1, 11, 2, 12, 3, 13]
    pids = [hit["pid"] for hit in hits]
    assert len(set(pids)) == 4
    assert stranger.pid not in pids
    # the second of each pair is of another thread of the same process
    assert pids[1] == pids[2]
    assert hits[1]["tid"] != hits[2]["tid"]


@pytest.fixture
def many(compiler: Compiler) -> Path:
    script = [sys.executable, str(PROGRAMS / "gen_many.py"), "1000"]
    text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return compiler(text)


@pytest.mark.parametrize("kind", ["fixed", "noted", "unknown"])
def test_a_thousand_sites_are_one_event_and_leave_nothing(
    kind: str, many: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At fixed addresses; anywhere, on kernels that note what they handle; and on those that do not."""
    if kind == "fixed":
        text = (many.parent / "program.c").read_text()
        many = compiler(text, "-O2", "-fno-pie", "-no-pie", name="fixed")
    elif kind == "unknown":
        monkeypatch.setattr("inlinetrace.probe.bcc.dispatch_notes", lambda host: None)
    library = open_library()
    plan, types, image = plan_program(many, ["tick"], guarded=False)
    assert plan.sites >= 1000
    alike = max(Counter(probe.address & 0xFFF for probe in plan.probes).values())
    assert alike > 1
    attached, taken = [], []
    decoder = Decoder(plan, types)
    for _ in range(3):
        backend = BccBackend(Host(), plan, image.debug.machine, Wanted(fixed=kind == "fixed"), library=library)
        begin = time.monotonic()
        assert backend.attach() == []
        attached.append(time.monotonic() - begin)
        assert len(backend.events) == (alike if kind == "unknown" else 1)
        subprocess.run([many], check=True, stdout=subprocess.DEVNULL)
        begin = time.monotonic()
        backend.disable()
        taken.append(time.monotonic() - begin)
        hits = [hit for record in backend.read(last=True) for hit in decoder.hits(record)]
        assert backend.lost() == 0
        begin = time.monotonic()
        assert backend.detach() == []
        taken[-1] += time.monotonic() - begin
        assert {hit.site.address for hit in hits} == {probe.address for probe in plan.probes}
        assert len({hit.load_bias for hit in hits}) == 1
    # for whoever runs it with -s: each event takes some grace periods of the kernel
    print(f"{kind}: attach {min(attached):.3f} s, detach {min(taken):.3f} s")


def test_a_burst_into_a_small_buffer_is_seen_or_counted_as_lost(compiler: Compiler) -> None:
    from tests.probe.programs import BURST

    program = compiler(BURST)
    done = run("tick", "--args", "--json", *BCC, "--buffer-size", "4", "-x", str(program), "--", "100000")
    shown = len(done.stdout.splitlines())
    lost = [int(line.split()[1]) for line in done.stderr.splitlines() if "were lost" in line]
    assert shown + sum(lost) == 100_000
    numbers = [json.loads(line)["args"]["number"] for line in done.stdout.splitlines()]
    assert numbers == sorted(numbers)
    counted = trace("tick", "--count", *BCC, "-x", str(program), "--", "100000")
    assert [row["hits"] for row in counted] == [100_000]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--stack",), "--backend bcc"),
        (("--stack", "--count", *BCC), "one of the two"),
        (("--hist", "number", "--args"), "one of the two"),
        (("--emit", "tracefs", *BCC), "leave out --backend"),
    ],
)
def test_options_that_contradict_each_other(
    arguments: tuple[str, ...], text: str, logged: tuple[Path, list[Call]]
) -> None:
    done = run("tick", *arguments, "-x", str(logged[0]))
    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.splitlines()) == 1
