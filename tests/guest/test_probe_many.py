"""A thousand kprobes come and go; how long it takes, and by hand, is kept with the guest's results."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from inlinetrace.probe import expedite
from inlinetrace.probe.fetch import Argument
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe, definition
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.sites.model import Site
from inlinetrace.target.host import Host
from tests.guest.host import from_host
from tests.guest.state import TRACING, append
from tests.guest.tracing import keep
from tests.kernels import Kernel

SITES = 1000


@from_host
def comparisons(kernel: Kernel) -> int:
    """How often to do the same by hand, too: times are kept, not judged."""
    return int(os.environ.get("INLINETRACE_BY_HAND", "0"))


@from_host
def offsets(kernel: Kernel) -> list[int]:
    """Distances from _stext of sites that the kernel takes, spread over its text."""
    from inlinetrace.probe.refusals import kernel_check
    from inlinetrace.target import open_image

    image = open_image(str(kernel.vmlinux))
    (start,) = image.program.symbols().named("_stext")
    check = kernel_check(image)
    sites = image.sites(["*_lock", "*_unlock", "get_*", "put_*", "set_*"])
    taken = sorted({site.address for site in sites if check(site) is None})
    return [address - start.address for address in taken[:: len(taken) // SITES][:SITES]]


class Times(NamedTuple):
    """Seconds."""

    attach: float
    disable: float
    remove: float

    @property
    def detach(self) -> float:
        return self.disable + self.remove

    def __str__(self) -> str:
        return f"attach {self.attach:.2f} s, disable {self.disable:.2f} s, remove {self.remove:.2f} s"


def make_plan() -> Plan:
    """All probes in one event with one argument."""
    argument = (Argument("%di", "u64"),)
    probes = [
        Probe(
            number,
            offset,
            offset,
            (LogicalHit(Site("f", True, offset, None, None, None, None, "void", ()), ()),),
            argument,
        )
        for number, offset in enumerate(offsets())
    ]
    return Plan("_stext", True, [Event("sites0", ("u64",), probes)], [])


def with_the_product(plan: Plan) -> Times:
    host = Host()
    backend = TracefsBackend(host, plan)
    assert backend.attach() == []
    begin = time.monotonic()
    backend.disable()
    disabled = time.monotonic()
    assert backend.detach() == []
    return Times(backend.attach_seconds, disabled - begin, time.monotonic() - disabled)


@contextmanager
def expedited() -> Iterator[None]:
    """What somebody who knows would do."""
    knob = Path(expedite.SWITCH)
    knob.write_text("1\n")
    yield
    knob.write_text("0\n")


def by_hand(plan: Plan) -> Times:
    lines = [
        definition(plan, event, probe, "byhand").encode() + b"\n" for event in plan.events for probe in event.probes
    ]
    instance = TRACING / "instances" / "byhand"
    instance.mkdir()
    begin = time.monotonic()
    descriptor = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
    for line in lines:
        os.write(descriptor, line)
    os.close(descriptor)
    switch = instance / "events" / "byhand" / "enable"
    switch.write_text("1\n")
    attached = time.monotonic()
    with expedited():
        switch.write_text("0\n")
        disabled = time.monotonic()
        instance.rmdir()
        append(TRACING / "kprobe_events", "-:byhand/sites0\n")
    return Times(attached - begin, disabled - attached, time.monotonic() - disabled)


# With several processors each change of an instruction interrupts the others, which emulation does very slowly.
@pytest.mark.guest(cmdline="maxcpus=1", timeout=600)
def test_a_thousand_kprobes_are_attached_and_removed_whole() -> None:
    plan = make_plan()
    keep(f"{len(plan.probes)} kprobes, product: {with_the_product(plan)}\n")
    for _ in range(comparisons()):
        keep(f"by hand: {by_hand(plan)}; product: {with_the_product(plan)}\n")
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
    assert Path(expedite.SWITCH).read_text().strip() == "0"
