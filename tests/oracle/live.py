"""``inlinetrace probe`` as a reader of the harness: one execution traced through uprobes, with every value decoded.

What it shows is turned back into bytes by the generator's own types, so that it can be held against the model's log as
the other readers' values are. Needs root and tracefs. The stops of this reader are those of one more execution: the
program is not under ptrace, which would put its own breakpoints there.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

from inlinetrace.elf.constants import ET_EXEC
from inlinetrace.probe.backend import Backend
from inlinetrace.probe.bcc import BccBackend, Wanted
from inlinetrace.probe.child import Child
from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.events import Decoder
from inlinetrace.probe.events import Hit as ProbeHit
from inlinetrace.probe.plan import Plan, Refusal
from inlinetrace.probe.session import Limits, Session
from inlinetrace.probe.target import plan_image
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.probe.types import Decoded, Enumerator
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Mark, Unavailable
from inlinetrace.target import open_image
from inlinetrace.target.host import Host
from inlinetrace.target.image import Image
from tests.oracle import product
from tests.oracle.c_types import CType, Kind
from tests.oracle.emit import EXIT_MISMATCH
from tests.oracle.generate import Program
from tests.oracle.ptrace import TraceError
from tests.oracle.reader import TracedSite
from tests.oracle.run import SECONDS_PER_RUN, Discarded, Hit, Run, Workshop, read_log, symbol

READER = "live"
_ANCHOR = "oracle_anchor"
# Where the kernel puts stacks and mappings; the programs' own data is far below.
_STACK = (0x7F0000000000, 1 << 47)


def trace(shop: Workshop, binary: Path, backend: str = "tracefs") -> Run:
    """Trace one execution with one of the backends.

    Raises Discarded as Workshop.run does, TraceError if the trace is not whole.
    """
    image = open_image(str(binary))
    types = DwarfTypes(image.dwarf.dies, image.debug.machine)
    sites = [site for site in image.sites() if Mark.TRANSPARENT not in site.marks]
    anchor = Site(_ANCHOR, False, symbol(binary, _ANCHOR), ".text", None, _ANCHOR, 0, "void", ())
    plan = plan_image(image, [*sites, anchor], types, everything=True, doubtful=True, guarded=backend == "tracefs")
    # a site on an instruction that the kernel cannot step over has no hits: its calls count as missing
    expected = (Refusal.DUPLICATE, Refusal.INSTRUCTION)
    unexpected = [refused for refused in plan.refused if refused.refusal not in expected]
    if unexpected:
        raise TraceError(f"{unexpected[0].refusal.value} at {unexpected[0].site.address:#x}")
    reader = _Reader(shop.program)
    run = Run(sites={READER: [reader.traced(site) for site in sites]}, hits={READER: reader.hits}, stack=_STACK)
    log = shop.folder / "log"
    host = Host()
    descriptor = os.open(binary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        session = Session(
            host,
            plan,
            _backend(backend, host, plan, image, descriptor),
            Decoder(plan, types),
            lambda hit, process: reader.take(hit),
            lambda give_up: True,
            lambda outcome: None,
        )
        child = Child(str(binary), [str(log), str(shop.program.seed)], to_stderr=True)
        outcome = session.run(Limits(seconds=SECONDS_PER_RUN), processes=[child.pid], child=child)
    finally:
        os.close(descriptor)
    status = child.wait()
    if status == EXIT_MISMATCH:
        raise Discarded("the traced version computed something else than the model")
    if status or outcome.refused != plan.refused or outcome.left:
        raise TraceError(f"status {status}, {len(outcome.refused)} sites refused, {outcome.left}")
    if outcome.lost:
        raise TraceError(f"{outcome.lost} hits were lost")
    run.stops = outcome.records
    run.events = list(read_log(log.read_bytes(), shop.program))
    return run


def _backend(name: str, host: Host, plan: Plan, image: Image, program: int) -> Backend:
    if name == "tracefs":
        return TracefsBackend(host, plan, program=program)
    wanted = Wanted(follow=True, fixed=image.program.type == ET_EXEC)
    return BccBackend(host, plan, image.debug.machine, wanted, program=program)


class _Reader:
    """Turns the hits of a trace into those of the harness."""

    def __init__(self, program: Program) -> None:
        self._types = {
            (function.name, parameter.name): parameter.type
            for function in program.functions
            for parameter in function.parameters
        }
        self._sites: dict[int, TracedSite] = {}
        self._kept: list[Site] = []
        self._invocation = -1
        self.hits: list[Hit] = []

    def traced(self, site: Site) -> TracedSite:
        """A site as the harness has it; the same object for the same site."""
        found = self._sites.get(id(site))
        if found is None:
            found = self._sites[id(site)] = product.convert(site)
            self._kept.append(site)
        return found

    def take(self, hit: ProbeHit) -> None:
        """One hit; each of the anchor starts the next invocation."""
        if hit.site.function == _ANCHOR:
            self._invocation += 1
            return
        site = self.traced(hit.site)
        values = tuple(self._value(hit, parameter.name) for parameter in site.parameters)
        self.hits.append(Hit(site, self._invocation, values))

    def _value(self, hit: ProbeHit, name: str) -> bytes | str:
        value = hit.values[name]
        if isinstance(value, Unavailable):
            return value.reason.value
        type_ = self._types.get((hit.site.function, name))
        return b"" if type_ is None else encode(value, type_)


_FLOATS = {4: "<f", 8: "<d"}


def encode(value: Decoded, type_: CType) -> bytes:
    """The bytes of a value that was decoded, by the type that the generator gave it."""
    if type_.kind is Kind.STRUCT:
        assert isinstance(value, Mapping)
        members = [encode(value[chr(97 + number)], member) for number, member in enumerate(type_.members)]
        return b"".join(members)
    if type_.kind is Kind.FLOAT:
        assert isinstance(value, float)
        return struct.pack(_FLOATS[type_.size], value)
    number = value.number if isinstance(value, Enumerator) else value
    assert isinstance(number, int)
    return (number & ((1 << 8 * type_.size) - 1)).to_bytes(type_.size, "little")
