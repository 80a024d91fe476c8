"""Live traces of the case programs: what is shown is what the program says it passed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from inlinetrace.elf.constants import ET_EXEC
from inlinetrace.probe.backend import Backend
from inlinetrace.probe.bcc import BccBackend, Wanted
from inlinetrace.probe.child import Child
from inlinetrace.probe.events import Decoder, Hit
from inlinetrace.probe.plan import Plan
from inlinetrace.probe.session import Limits, Session
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.sites.reasons import Mark, Reason, Unavailable
from inlinetrace.target.host import Host
from inlinetrace.target.image import Image
from tests.cases.runner import CASES, MEMBERS, CaseRun, build_case, contradictions
from tests.cases.runner import Hit as CaseHit
from tests.oracle.compilers import DWARF_VERSIONS, LEVELS, Configuration, detect
from tests.probe.planning import plan_program

pytestmark = [pytest.mark.compiled, pytest.mark.uprobes]


def matrix() -> Iterator[Configuration]:
    for tool in detect():
        for level in LEVELS if tool.family == "gcc" else ("-O2",):
            for dwarf in DWARF_VERSIONS:
                yield Configuration(tool, level, dwarf, pie=dwarf == 5)


def live(binary: Path, backend: str) -> CaseRun:
    """Trace one execution with uprobes."""
    plan, types, image = plan_program(binary, strings=True, guarded=backend == "tracefs")
    sites = [site for site in image.sites() if Mark.TRANSPARENT not in site.marks]
    inlined = {id(probe) for probe in plan.probes if any(hit.site.inlined for hit in probe.hits)}
    for event in plan.events:
        event.probes = [probe for probe in event.probes if id(probe) in inlined]
        for probe in event.probes:
            probe.hits = tuple(hit for hit in probe.hits if hit.site.inlined)
    hits: list[CaseHit] = []
    host = Host()
    program = os.open(binary, os.O_RDONLY | os.O_CLOEXEC)
    session = Session(
        host,
        plan,
        make_backend(backend, host, plan, image, program),
        Decoder(plan, types),
        lambda hit, process: hits.append(CaseHit(hit.site, shown(hit))),
        lambda give_up: True,
        lambda outcome: None,
    )
    with TemporaryFile() as output:
        saved = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            child = Child(str(binary), [], to_stderr=True)
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        outcome = session.run(Limits(seconds=30), processes=[child.pid], child=child)
        output.seek(0)
        lines = output.read().decode().splitlines()
    os.close(program)
    assert outcome.lost == 0
    assert outcome.left == []
    check_reasons(plan)
    printed = [(line.split()[0], dict(word.split("=", 1) for word in line.split()[1:])) for line in lines]
    return CaseRun(sites, hits, printed)


def make_backend(name: str, host: Host, plan: Plan, image: Image, program: int) -> Backend:
    if name == "tracefs":
        return TracefsBackend(host, plan, program=program)
    wanted = Wanted(follow=True, fixed=image.program.type == ET_EXEC)
    return BccBackend(host, plan, image.debug.machine, wanted, program=program)


def shown(hit: Hit) -> Mapping[str, Any]:
    """The values of a hit under the names that the program prints."""
    values: dict[str, Any] = {}
    for name, value in hit.values.items():
        members = MEMBERS.get((hit.site.function, name))
        if isinstance(value, dict):
            members_shown: Any = value
            for printed in members or ():
                found = members_shown.get(printed)
                if found is None and isinstance(members_shown.get("w"), list):
                    found = members_shown["w"][int(printed[1:])]
                values[printed] = found
        elif members is None:
            values[name] = value
    return values


def check_reasons(plan: Plan) -> None:
    """Every value that is not fetched says why."""
    for probe in plan.probes:
        for hit in probe.hits:
            for item in hit.items:
                if isinstance(item.recipe, Unavailable):
                    assert isinstance(item.recipe.reason, Reason)


@pytest.mark.parametrize("backend", ["tracefs", "bcc"])
@pytest.mark.parametrize("configuration", list(matrix()), ids=str)
def test_every_value_shown_is_the_one_that_the_program_passed(
    configuration: Configuration, backend: str, tmp_path: Path, tracefs: str
) -> None:
    values = 0
    for name in CASES:
        if name == "two_units" and configuration.toolchain.family != "gcc":
            continue
        run = live(build_case(name, configuration, tmp_path), backend)
        assert run.printed
        assert contradictions(run) == [], name
        values += sum(not isinstance(value, Unavailable) for hit in run.hits for value in hit.values.values())
    assert values > 300
