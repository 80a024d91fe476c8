"""A thousand sites come and go, and leave what is not theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace.probe import groups
from inlinetrace.probe.plan import Plan, definition
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.target.host import Host
from tests.cases.runner import PROGRAMS
from tests.probe.planning import plan_program

pytestmark = [pytest.mark.compiled, pytest.mark.uprobes]

Compiler = Callable[..., Path]
SITES = 1000


@pytest.fixture
def plan(compiler: Compiler) -> Plan:
    script = [sys.executable, str(PROGRAMS / "gen_many.py"), str(SITES)]
    text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return plan_program(compiler(text), ["tick"])[0]


def by_hand(host: Host, tracefs: str, plan: Plan, name: str) -> float:
    """Define and enable the same probes with one open file; the time it took. Removes them again."""
    lines = [definition(plan, event, probe, name).encode() + b"\n" for event in plan.events for probe in event.probes]
    host.make_directory(f"{tracefs}/instances/{name}")
    begin = time.monotonic()
    descriptor = host.open(f"{tracefs}/uprobe_events", os.O_WRONLY | os.O_APPEND)
    for line in lines:
        os.write(descriptor, line)
    os.close(descriptor)
    host.write(f"{tracefs}/instances/{name}/events/{name}/enable", "1\n")
    taken = time.monotonic() - begin
    assert groups.remove(host, tracefs, name) == []
    return taken


def test_a_thousand_sites_are_attached_and_removed_whole(plan: Plan, tracefs: str) -> None:
    host = Host()
    assert plan.sites >= SITES
    hand, ours, detach = [], [], []
    for _ in range(3):
        backend = TracefsBackend(host, plan)
        assert backend.attach() == []
        ours.append(backend.attach_seconds)
        begin = time.monotonic()
        assert backend.detach() == []
        detach.append(time.monotonic() - begin)
        hand.append(by_hand(host, tracefs, plan, groups.group_name(host, tracefs)))
    # for whoever runs it with -s: the best of several tries, taken in turns
    print(f"by hand {min(hand):.4f} s, attach {min(ours):.4f} s, detach {min(detach):.4f} s")
    assert f"inlinetrace_{os.getpid()}_" not in host.read_text(f"{tracefs}/uprobe_events")


def test_a_name_that_is_taken_is_not_used(compiler: Compiler, plan: Plan, tracefs: str) -> None:
    host = Host()
    taken = groups.group_name(host, tracefs)
    probe = plan.events[0].probes[0]
    host.write(f"{tracefs}/uprobe_events", f"p:{taken}/sites0 {plan.target}:{probe.offset:#x}\n", append=True)
    try:
        backend = TracefsBackend(host, plan)
        assert backend.attach() == []
        assert backend.group == f"{taken}_1"
        assert backend.detach() == []
        assert f"{taken}/sites0" in host.read_text(f"{tracefs}/uprobe_events")
    finally:
        assert groups.remove(host, tracefs, taken) == []


def test_one_event_for_all_sites_of_one_shape(plan: Plan) -> None:
    shapes = {event.types for event in plan.events}
    assert len(plan.events) == len(shapes) < 8


def test_events_that_a_perf_event_may_be_on_are_left(plan: Plan, tracefs: str) -> None:
    """Another process opens perf events while a trace runs: nobody can tell on what."""
    host = Host()
    backend = TracefsBackend(host, plan)
    backend.attach()
    name = backend.group
    assert name is not None
    # cycles of itself, in a process that keeps it open until its input ends
    script = (
        "import ctypes, sys\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "attribute = bytearray(128)\n"
        "attribute[0:4] = (1).to_bytes(4, 'little')\n"
        "attribute[4:8] = (128).to_bytes(4, 'little')\n"
        "buffer = (ctypes.c_char * 128).from_buffer(attribute)\n"
        "fd = libc.syscall(298, buffer, 0, -1, -1, 0)\n"
        "print(fd, ctypes.get_errno(), flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdin is not None
    try:
        assert int(holder.stdout.readline().split()[0]) >= 0
        left = backend.detach()
        assert len(left) == 1
        assert str(holder.pid) in left[0]
        assert name in host.read_text(f"{tracefs}/uprobe_events")
        assert not host.exists(f"{tracefs}/instances/{name}")
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    assert groups.remove(host, tracefs, name) == []
    assert name not in host.read_text(f"{tracefs}/uprobe_events")
