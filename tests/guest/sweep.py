"""Every entry address of a kernel as a probe: planned on the host, attached and removed in the guest by the product.

On the host, :func:`planned` makes the plan of ``inlinetrace probe "*" --args``, reduced to what the guest needs. In the
guest, :class:`Sweep` attaches it batch by batch with the product's own backend while the machine works, tries by hand
what the plan refuses, and counts what was predicted against what the kernel did.
"""

from __future__ import annotations

import errno
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inlinetrace.probe.definitions import Define
from inlinetrace.probe.fetch import Argument
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe, Refusal, Refused
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.sites.model import Site
from inlinetrace.target.host import Host
from tests.guest.load import Load
from tests.guest.state import KPROBES, TRACING, KernelLog, append
from tests.guest.testmodule import kallsyms

if TYPE_CHECKING:
    from inlinetrace.target.image import Image
    from tests.kernels import Kernel

ACCEPTED = "accepted"
BATCH = 1000

# While the kernel turns probes into jumps it holds the lock that defining and enabling need, and waits for every task
# to have run, for the few probes that it found so far: attaching takes three times as long. So it is told not to while
# a batch comes and goes, and does all of the batch at once in between.
_OPTIMIZATION = Path("/proc/sys/debug/kprobes-optimization")

# What the plan itself leaves out, whatever the kernel would do: of a duplicate the first description counts.
_OUR_OWN = (Refusal.DUPLICATE, Refusal.TOO_MANY_ARGUMENTS, Refusal.DEADLOCK, Refusal.MISEMULATED)


def planned(kernel: Kernel, wanted: str) -> dict[str, Any]:
    """What to attach to ``kernel``, and which addresses the plan refuses.

    ``wanted`` is a number of addresses (drawn always alike), ``all``, or ``FIRST:LAST``, a part of the order of all.
    ``probes`` have an offset from _stext and fetch arguments (text, type), ``refused`` an offset and a reason.
    """
    from inlinetrace.probe.dwarf_types import DwarfTypes
    from inlinetrace.probe.target import plan_image
    from inlinetrace.sites._builder import Rows
    from inlinetrace.target.image import open_image

    image = open_image(kernel.vmlinux)
    first, colon, last = wanted.partition(":")
    sample = None if wanted == "all" or colon else _sample(image, int(wanted))
    rows = Rows()
    for number, id_, inlined, address in _rows(image):
        if sample is None or address in sample:
            rows.extend(number, [id_], inlined)
    types = DwarfTypes(image.dwarf.dies, image.debug.machine, image.debug.little_endian)
    plan = plan_image(image, image.reader.build(rows), types, kernel=True, everything=True)
    anchor = plan.probes[0].address - plan.probes[0].offset
    # By event, so that a batch is few events; what is entered all the time is spread over the batches.
    draw = random.Random(len(plan.events))
    probes = [
        [probe.offset, *map(list, probe.arguments)]
        for event in sorted(plan.events, key=lambda event: len(event.probes))
        for probe in draw.sample(event.probes, len(event.probes))
    ]
    have = {probe[0] for probe in probes}
    refused: dict[int, str] = {}
    for item in plan.refused:
        offset = item.site.address - anchor
        if item.refusal not in _OUR_OWN:
            refused[offset] = item.refusal.value
        elif item.refusal is Refusal.TOO_MANY_ARGUMENTS and offset not in have:
            have.add(offset)
            probes.append([offset])
    if colon:
        probes, refused = probes[int(first) : int(last)], {}
    return {"probes": probes, "refused": sorted(refused.items())}


def _rows(image: Image) -> Iterator[tuple[int, int, bool, int]]:
    """Every site and copy that has an address: number of the Info, id, whether it is inlined, address."""
    for number, records in enumerate(image.dwarf.records):
        for ids, inlined in ((records.all_sites(), True), (records.copies(), False)):
            for id_, address in zip(ids, records.addresses(ids, inlined), strict=True):
                yield number, id_, inlined, address


def _sample(image: Image, count: int) -> frozenset[int]:
    addresses = sorted({address for *_, address in _rows(image) if image.region(address).section is not None})
    return frozenset(random.Random(count).sample(addresses, min(count, len(addresses))))


class _Backend(TracefsBackend):
    """The product's, with the load going on while the kernel's code is patched."""

    def __init__(self, load: Load, plan: Plan) -> None:
        super().__init__(Host(), plan, buffer_kb=1024)
        self._load = load

    def _enable(self, defined: list[Event], again: Define) -> list[Refused]:
        with self._load.going_on():
            return super()._enable(defined, again)


@dataclass(slots=True)
class Sweep:
    """The outcome, as it grows. ``seconds`` are those of attaching, working and detaching."""

    load: Load
    log: KernelLog
    outcome: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    records: int = 0
    hit: int = 0
    optimized: int = 0

    def attach(self, probes: Sequence[list[Any]]) -> None:
        """Attach one batch, let the machine work on it, remove it; AssertionError as soon as something is amiss."""
        base = kallsyms("_stext")
        backend = _Backend(self.load, _plan(probes))
        try:
            with self._timed("attach"), self.load.paused(), self.load.aside():
                _OPTIMIZATION.write_text("0")
                refused = backend.attach()
            with self._timed("enabled"):
                there = (KPROBES / "list").read_text().splitlines()
                self._optimize()
                records = backend.read()
        finally:
            with self._timed("detach"), self.load.aside():
                _OPTIMIZATION.write_text("0")
                backend.disable()
                with self.load.paused():
                    left = backend.detach()
                _OPTIMIZATION.write_text("1")
        assert not left, left
        for item in refused:
            self._count(item.site.address, ACCEPTED, item.detail)
        taken = len(probes) - len(refused)
        self.outcome[ACCEPTED, ACCEPTED] += taken
        assert len(there) == taken, f"the kernel has {len(there)} kprobes of {taken}: {there[:3]}"
        assert not [line for line in there if "[DISABLED]" in line or "[GONE]" in line]
        for record in records:
            # The kernel moves a probe on a function behind its endbr64.
            where = record[4] - base - probes[record[3]][0]
            assert where in (0, 4), f"a hit {where:#x} bytes from the probe that it has the number of"
        self.records += len(records)
        self.hit += len({record[3] for record in records})
        assert not self.log.troubles(), self.log.troubles()

    def _optimize(self) -> None:
        """Let the kernel turn into jumps what it can, while the machine works."""
        _OPTIMIZATION.write_text("1")
        deadline = time.monotonic() + 10
        optimized = 0
        while not optimized and time.monotonic() < deadline:
            self.load.wait_for_rounds()
            optimized = (KPROBES / "list").read_text().count("[OPTIMIZED]")
        self.optimized += optimized

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        begin = time.monotonic()
        yield
        self.seconds[what] = self.seconds.get(what, 0.0) + time.monotonic() - begin

    def try_refused(self, refused: Sequence[list[Any]]) -> None:
        """Ask the kernel for what the plan refuses, without enabling it."""
        for offset, reason in refused:
            try:
                append(TRACING / "kprobe_events", f"p:byhand/refused _stext+{offset:#x}\n")
            except OSError as error:
                self._count(offset, reason, errno.errorcode.get(error.errno or 0, "error"))
            else:
                append(TRACING / "kprobe_events", "-:byhand/refused\n")
                self._count(offset, reason, ACCEPTED)

    def _count(self, offset: int, predicted: str, actual: str) -> None:
        self.outcome[predicted, actual] += 1
        if (predicted == ACCEPTED) != (actual == ACCEPTED):
            self.wrong.append(f"_stext+{offset:#x}: predicted {predicted}, the kernel says {actual}")

    @property
    def right(self) -> float:
        """The share of addresses for which acceptance or refusal was predicted."""
        return 1 - len(self.wrong) / max(sum(self.outcome.values()), 1)

    def report(self) -> str:
        """The table, as text."""
        lines = [f"{'predicted':20} {'actual':60} addresses"]
        for (predicted, actual), count in sorted(self.outcome.items(), key=lambda item: -item[1]):
            lines.append(f"{predicted:20} {actual:60} {count:9}")
        seconds = ", ".join(f"{name} {value:.1f} s" for name, value in self.seconds.items())
        lines.append(
            f"predicted right: {self.right:.3%}; {self.hit} probes were hit, {self.records} records, "
            f"{self.optimized} probes became jumps; {seconds}"
        )
        return "\n".join(lines)


def batches(probes: Sequence[list[Any]]) -> Iterator[Sequence[list[Any]]]:
    """The probes in portions; each tells the console where it begins, for the case that the kernel dies of it."""
    for first in range(0, len(probes), BATCH):
        portion = probes[first : first + BATCH]
        say(f"{first}:{first + len(portion)} of {len(probes)}, {time.monotonic():.0f} s")
        yield portion


def say(text: str) -> None:
    """Tell the console how far things are."""
    Path("/dev/console").write_text(f"every site: {text}\n")


def _plan(probes: Sequence[list[Any]]) -> Plan:
    events: dict[tuple[str, ...], Event] = {}
    for number, (offset, *fetched) in enumerate(probes):
        arguments = tuple(Argument(text, type_) for text, type_ in fetched)
        shape = tuple(argument.type for argument in arguments)
        event = events.setdefault(shape, Event(f"sites{len(events)}", shape))
        site = Site("", True, offset, None, None, None, None, "", ())
        event.probes.append(Probe(number, offset, offset, (LogicalHit(site, ()),), arguments))
    return Plan("_stext", True, list(events.values()), [])
