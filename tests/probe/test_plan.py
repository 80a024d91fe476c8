"""Plans of compiled programs: grouping, shapes, refusals, and their text."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace.errors import NotFoundError, UsageError
from inlinetrace.probe import emit
from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.fetch import Recipe
from inlinetrace.probe.fields import parse, parse_list
from inlinetrace.probe.plan import Refusal, definition
from inlinetrace.probe.refusals import program_check
from inlinetrace.probe.target import plan_image
from inlinetrace.sites.reasons import Mark, Reason, Unavailable
from inlinetrace.target import open_image
from inlinetrace.target.loaded import LoadedKernel
from tests.cases.runner import PROGRAMS
from tests.kernels import Kernel
from tests.probe.planning import plan_program
from tests.probe.programs import QUEUE

Compiler = Callable[..., Path]
compiled = pytest.mark.compiled


@compiled
def test_functions_at_one_address_are_one_probe_outermost_first(compiler: Compiler) -> None:
    plan, _, _ = plan_program(compiler((PROGRAMS / "same_address.c").read_text()), ["outer", "middle", "inner"])
    (probe,) = plan.probes
    assert [hit.site.function for hit in probe.hits] == ["outer", "middle", "inner"]
    # the three want the same register, which is fetched once
    assert len(probe.arguments) == 1
    assert plan.sites == 3


@compiled
def test_probes_of_one_shape_are_one_event_across_functions(compiler: Compiler) -> None:
    text = """
    volatile long sink;
    static inline __attribute__((always_inline)) void one(long x) { sink += x; }
    static inline __attribute__((always_inline)) void two(long y) { sink -= y; }
    __attribute__((noinline)) void a(long p) { one(p); }
    __attribute__((noinline)) void b(long p, long q) { two(q); }
    __attribute__((noinline)) void c(void) { one(5); }
    int main(int n, char **v) { a(n); b(n, n); c(); return 0; }
    """
    plan, _, _ = plan_program(compiler(text), ["one", "two"])
    assert sorted((event.types, len(event.probes)) for event in plan.events) == [((), 1), (("u64",), 2)]
    lines = [definition(plan, event, probe, "g") for event in plan.events for probe in event.probes]
    assert len({line.split(" k=")[1].split()[0] for line in lines}) == 3
    assert all(line.startswith("p:g/sites") and line.endswith(" comm=$comm:string") for line in lines)


@compiled
def test_offsets_are_those_in_the_file(compiler: Compiler) -> None:
    program = compiler(QUEUE)
    plan, _, _ = plan_program(program, ["push"])
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    loads = [line.split()[1:4] for line in headers.splitlines() if line.strip().startswith("LOAD")]
    for probe in plan.probes:
        (expected,) = [
            int(offset, 16) + probe.address - int(address, 16)
            for offset, address, _ in loads
            if int(address, 16) <= probe.address < int(address, 16) + 0x1000
        ]
        assert probe.offset == expected


@compiled
def test_a_site_off_a_boundary_is_refused(compiler: Compiler) -> None:
    _, _, image = plan_program(compiler(QUEUE), ["push"])
    check = program_check(image)
    site = next(iter(image.sites(["work"])))
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "--disassemble=work", image.path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    starts = {int(line.split(":")[0], 16) for line in listing.splitlines() if line.startswith(" ") and ":" in line}
    for address in range(min(starts), max(starts) + 1):
        problem = check(site._replace(address=address))
        assert (problem is None) == (address in starts)
        if problem is not None:
            assert problem[0] is Refusal.NOT_A_BOUNDARY
    unknown = check(site._replace(address=1 << 40))
    assert unknown is not None
    assert unknown[0] is Refusal.BOUNDARY_UNCERTAIN


@compiled
def test_limits_and_what_does_not_exist(compiler: Compiler) -> None:
    program = compiler(QUEUE)
    plan, _, _ = plan_program(program, maximum_probes=1)
    assert len(plan.probes) == 1
    assert {refused.refusal for refused in plan.refused} == {Refusal.LIMIT}
    with pytest.raises(NotFoundError, match="no parameter other of push: it has number, queue, what"):
        plan_program(program, ["push"], "other")
    for wrong, words in (
        ("queue->nothing", "has no member nothing"),
        ("queue->row[4]", "the array has 4 elements"),
        ("queue->len->x", "has no members"),
        ("queue->len[0]", "neither array nor pointer"),
        ("*number", "is no pointer"),
    ):
        with pytest.raises(UsageError) as caught:
            plan_program(program, ["push"], wrong)
        assert words in str(caught.value)


@compiled
def test_many_values_are_too_many(compiler: Compiler) -> None:
    members = ",".join(f"q->m[{number}]" for number in range(80))
    text = """
    struct q { long m[200]; };
    volatile long sink;
    static inline __attribute__((always_inline)) void f(struct q *q) { sink += q->m[3]; }
    __attribute__((noinline)) void g(struct q *q) { f(q); }
    int main(void) { static struct q q; g(&q); return 0; }
    """
    plan, _, _ = plan_program(compiler(text), ["f"], members)
    assert plan.events == []
    assert {refused.refusal for refused in plan.refused} == {Refusal.TOO_MANY_ARGUMENTS}


@compiled
def test_doubtful_values_are_fetched_only_if_asked_for(compiler: Compiler) -> None:
    program = compiler((PROGRAMS / "aggregates.c").read_text(), "-O2", command="clang-16")
    plan, _, _ = plan_program(program)
    doubted = [item for probe in plan.probes for hit in probe.hits for item in hit.items if item.doubt is not None]
    assert doubted
    for item in doubted:
        assert isinstance(item.recipe, Unavailable)
        assert item.recipe.reason in (Reason.DOUBTFUL, Reason.UNSUPPORTED)
    plan, _, _ = plan_program(program, doubtful=True)
    assert any(
        item.doubt is not None and isinstance(item.recipe, Recipe)
        for probe in plan.probes
        for hit in probe.hits
        for item in hit.items
    )


@compiled
def test_the_plan_as_text_and_for_other_tools(compiler: Compiler) -> None:
    plan, types, image = plan_program(compiler(QUEUE), ["push"], "queue->dev->id,number", maximum_probes=None)
    text = "\n".join(emit.plan_text(plan))
    assert "push in work+0x" in text
    assert "proved by" in text
    rows = [json.loads(line) for line in emit.plan_json(plan)]
    assert rows[0]["hits"][0]["function"] == "push"
    assert rows[0]["definition"].startswith("p:inlinetrace/sites0 ")
    for script in ("\n".join(emit.tracefs_script(plan)), "\n".join(emit.perf_script(plan))):
        assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
        assert all(row["definition"].removeprefix("p:inlinetrace/") in script for row in rows)
    program = "\n".join(emit.bpftrace_program(plan, image.debug.machine, types))
    assert f"uprobe:{plan.target}:{plan.probes[0].address:#x}" in program
    assert 'reg("' in program
    assert "queue->dev->id=?" in program


@compiled
def test_the_plan_says_how_hits_and_calls_can_differ(compiler: Compiler) -> None:
    _, types, image = plan_program(compiler(QUEUE), ["push"])
    sites = [site._replace(marks=(Mark.REENTERED, Mark.COPIES)) for site in image.sites(["push"]) if site.inlined]
    plan = plan_image(image, sites, types)
    marked = [line for line in emit.plan_text(plan) if line.endswith(" [reentered, copies]")]
    assert len(marked) == len(sites)
    assert all(line.startswith("    push in ") for line in marked)
    rows = [json.loads(line) for line in emit.plan_json(plan)]
    assert {tuple(hit["marks"]) for row in rows for hit in row["hits"]} == {("reentered", "copies")}


def test_references() -> None:
    reference = parse(" skb -> dev . name [ 0x2 ] ")
    assert reference.label == "skb->dev.name[0x2]"
    assert [(step.kind, step.member, step.number) for step in reference.steps] == [
        ("->", "dev", 0),
        (".", "name", 0),
        ("[]", "", 2),
    ]
    assert [step.kind for step in parse("**p").steps] == ["*", "*"]
    assert [item.label for item in parse_list("a, b->c,")] == ["a", "b->c"]
    for wrong in ("", "1a", "a b", "a->", "a[", "a[-1]", "a[x]", "a" + "->b" * 40):
        with pytest.raises(UsageError):
            parse(wrong)
    with pytest.raises(UsageError):
        parse_list(" , ")


@compiled
def test_a_site_that_is_described_twice_is_one(compiler: Compiler) -> None:
    _, types, image = plan_program(compiler(QUEUE), ["push"])
    sites = list(image.sites(["push"]))
    plan = plan_image(image, [*sites, sites[0]], types)
    assert [refused.refusal for refused in plan.refused] == [Refusal.DUPLICATE]
    assert plan.sites == len(sites)
    assert plan.notices == []


@compiled
def test_what_clang_compiled_has_a_notice(compiler: Compiler) -> None:
    plan, _, _ = plan_program(compiler(QUEUE, "-O2", command="clang-16"), ["push"])
    (notice,) = plan.notices
    assert notice.startswith("1 sites are not known to have been compiled by gcc")


@pytest.mark.kernel
def test_probes_in_a_kernel_do_not_depend_on_where_it_runs(kernel_6_1: Kernel) -> None:
    def definitions(moved: int | None) -> tuple[list[str], list[int]]:
        image = open_image(str(kernel_6_1.vmlinux))
        if moved is not None:
            (anchor,) = image.program.symbols().named("_stext")
            image.loaded = LoadedKernel("_stext", anchor.address, anchor.address + moved)
        types = DwarfTypes(image.dwarf.dies, image.debug.machine)
        sites = list(image.sites(["vfs_llseek"]))
        plan = plan_image(image, sites, types, kernel=True, everything=True)
        lines = [definition(plan, event, probe, "g") for event in plan.events for probe in event.probes]
        return lines, [site.address for site in sites]

    at_link_time, addresses = definitions(None)
    elsewhere, moved = definitions(0x1200000)
    assert moved == [address + 0x1200000 for address in addresses]
    assert at_link_time == elsewhere
    assert len(at_link_time) >= 3
