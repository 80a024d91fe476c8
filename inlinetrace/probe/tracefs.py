"""The tracefs backend: probe events of the kernel, in a trace instance and a group of our own.

>>> backend = TracefsBackend(Host(), plan)
>>> backend.attach()
>>> for record in backend.read(): ...
>>> backend.detach()

It needs no compiler and works on every kernel since 6.1. Records are read in binary from ``trace_pipe_raw`` through
the formats of the events. What was lost is counted by the kernel and asked for with ``lost``.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from inlinetrace.errors import FormatError, NotPermittedError
from inlinetrace.probe import groups
from inlinetrace.probe._ring import Layout, decode_page
from inlinetrace.probe.definitions import Define, define, enable, mapped, problem, rejections
from inlinetrace.probe.expedite import expedited
from inlinetrace.probe.fetch import STRING, WORD, Argument, Recipe
from inlinetrace.probe.plan import COMMAND, NUMBER, Event, Plan, Probe, Refused
from inlinetrace.target.memory import available_memory
from inlinetrace.target.requirements import require_kprobes, require_uprobes

if TYPE_CHECKING:
    from inlinetrace.probe._ring import Record
    from inlinetrace.target.host import Host

_FIELD = re.compile(r"\tfield:(.*?)([A-Za-z_]\w*)(?:\[[^;]*\])?;\toffset:(\d+);\tsize:(\d+);")
_PAGE_FIELD = re.compile(r"\tfield:.*?(\w+);\toffset:(\d+);\tsize:(\d+);")
# All processors together; each gets its part, but no less than is useful.
_BUFFERS_KB = 64 << 10
_LEAST_KB, _MOST_KB = 1024, 16 << 10
# Where memory is short. A kernel that cannot have a buffer says so with a stack trace in its log.
_SHARE_OF_MEMORY = 8
_SMALLEST_KB = 64
# Pages read from one processor before the others get their turn: bounds what is held in memory.
_PAGES_PER_ROUND = 256
# A record may still be written by another processor that took its time before we looked.
_SLACK_NS = 2_000_000


class _Cpu:
    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self.descriptor = descriptor
        self.pending: list[Record] = []
        self.drained = False
        self.resting = False


class TracefsBackend:
    """See the module. ``program`` is a descriptor of the program's file: the probes go to that very file."""

    why_unrecorded = "their text was too long"

    def __init__(self, host: Host, plan: Plan, *, program: int | None = None, buffer_kb: int | None = None) -> None:
        self._host = host
        self._plan = plan
        self._program = program
        self._buffer_kb = buffer_kb
        self._tracefs = ""
        self._group: str | None = None
        self._claim = -1
        self._cpus: list[_Cpu] = []
        self._layouts: dict[int, Layout] = {}
        self._page_size = 4096
        self._page_layout = (8, 8, 16)
        self._known: list[groups.Descriptor] = []
        self._enabled = False
        self.events: list[Event] = []
        self.attach_seconds = 0.0
        """From the first definition to the last event enabled."""

    @property
    def group(self) -> str | None:
        """Name of the group and of the instance, None when nothing is attached."""
        return self._group

    @property
    def _instance(self) -> str:
        return f"{self._tracefs}/instances/{self._group}"

    # Attaching

    def attach(self, processes: Sequence[int] | None = None) -> list[Refused]:
        """Define and enable everything; on any error all of it is removed again.

        Raises NotPermittedError, and InlineTraceError if the kernel has no room for it.
        """
        require = require_kprobes if self._plan.kernel else require_uprobes
        self._tracefs = require(self._host)
        self._check_text()
        try:
            groups.clean(self._host, self._tracefs)
            self._known = list(groups.perf_descriptors(self._host))
            self._group, self._claim = groups.claim(self._host, self._tracefs)
            return self._attach(processes)
        except OSError as error:
            self.detach()
            raise problem(error) from error
        except BaseException:
            self.detach()
            raise

    def _check_text(self) -> None:
        """Refuse text where too much of it would be a warning that stops the machine."""
        try:
            fatal = self._host.read_text("/proc/sys/kernel/panic_on_warn").strip() not in ("", "0")
        except OSError:
            fatal = False
        if fatal and self.may_lose_text:
            raise NotPermittedError(
                "kernel.panic_on_warn is set, and kernels warn when the text of a uprobe is longer than a page: "
                "trace without memory reads (name arguments that are in registers), or clear it"
            )

    def _attach(self, processes: Sequence[int] | None) -> list[Refused]:
        host, instance = self._host, self._instance
        host.make_directory(instance)
        host.write(f"{instance}/trace_clock", "mono\n")
        cpus = sorted(
            int(name[3:]) for name in host.names(f"{instance}/per_cpu") if name.startswith("cpu") and name[3:].isdigit()
        )
        host.write(f"{instance}/buffer_size_kb", f"{self._buffer_kb or self._buffer_size(len(cpus))}\n")
        self._set_option("record-tgid")
        if processes is not None:
            self._follow(processes)
        self._read_page_layout()
        for number in cpus:
            path = f"{instance}/per_cpu/cpu{number}/trace_pipe_raw"
            self._cpus.append(_Cpu(number, host.open(path, os.O_RDONLY | os.O_NONBLOCK)))
        begin = time.monotonic()
        assert self._group is not None
        target = None if self._program is None else f"/proc/self/fd/{self._program}"
        define_events = partial(define, host, self._tracefs, self._plan, group=self._group, target=target)
        defined, refused = define_events(self._plan.events)
        self._enabled = True
        refused += self._enable(defined, define_events)
        self.attach_seconds = time.monotonic() - begin
        return refused

    def _follow(self, processes: Sequence[int]) -> None:
        """Record hits of these processes alone, and of what they start."""
        self._set_option("event-fork")
        filter_ = f"{self._instance}/set_event_pid"
        # those of a process that is gone meanwhile too: without any number everybody would be traced
        new = set(processes)
        while new:
            self._host.write(filter_, " ".join(map(str, sorted(new))) + "\n", append=True)
            # what a thread started before it was in the filter; the kernel adds what those in it start
            threads = {thread for process in processes for thread in self._host.threads(process)}
            new = threads - set(map(int, self._host.read_text(filter_).split()))

    def _buffer_size(self, cpus: int) -> int:
        """KB for each processor: part of all that is wanted, but no more than an eighth of the memory there is."""
        have = available_memory(self._host)
        wanted = min(_MOST_KB, max(_LEAST_KB, _BUFFERS_KB // max(cpus, 1)))
        possible = wanted if have is None else (have >> 10) // _SHARE_OF_MEMORY // max(cpus, 1)
        return max(_SMALLEST_KB, min(wanted, possible))

    def _set_option(self, name: str) -> None:
        path = f"{self._instance}/options/{name}"
        if self._host.exists(path):
            self._host.write(path, "1\n")

    def _read_page_layout(self) -> None:
        offsets = {
            found[1]: (int(found[2]), int(found[3]))
            for found in _PAGE_FIELD.finditer(self._host.read_text(f"{self._tracefs}/events/header_page"))
        }
        if "commit" not in offsets or "data" not in offsets:
            raise FormatError("unknown layout", path=f"{self._tracefs}/events/header_page")
        commit, data = offsets["commit"], offsets["data"]
        self._page_layout = (commit[0], commit[1], data[0])
        self._page_size = data[0] + data[1]

    def _read_format(self, event: Event) -> None:
        path = f"{self._tracefs}/events/{self._group}/{event.name}/format"
        text = self._host.read_text(path)
        found = {match[2]: (match[1], int(match[3]), int(match[4])) for match in _FIELD.finditer(text)}
        identity = re.search(r"^ID: (\d+)$", text, re.MULTILINE)
        names = [f"a{number}" for number in range(len(event.types))]
        missing = [name for name in ("__probe_ip", NUMBER, COMMAND, *names) if name not in found]
        if identity is None or missing:
            raise FormatError(f"unknown layout: {', '.join(missing) or 'no ID'}", path=path)
        shown = shown_texts(event.probes)
        fields = []
        for number, name in enumerate(names):
            kind, offset, size = found[name]
            if "__data_loc" in kind:
                hidden = "word" if event.types[number] == WORD else "guard"
                fields.append((offset, size, "text" if number in shown else hidden))
            else:
                fields.append((offset, size, "bytes" if "[" in event.types[number] else "number"))
        fields.append((*found[COMMAND][1:], "text"))
        self._layouts[int(identity[1])] = Layout(fields, found[NUMBER][1], *found["__probe_ip"][1:])

    def _enable(self, defined: list[Event], again: Define) -> list[Refused]:
        """Enable the events; what the kernel refuses is not among ``events``."""
        with mapped(self._program):
            self.events, refused = enable(defined, self._switch_on, again)
        return refused

    def _switch_on(self, event: Event) -> None:
        """Enable an event. Raises RejectedError if the kernel does not take its probes."""
        self._read_format(event)
        place = f"{self._instance}/events/{self._group}/{event.name}"
        if event.filter is not None:
            # a filter that the kernel does not take is only slower: every hit is looked at again
            with suppress(OSError):
                self._host.write(f"{place}/filter", f"{event.filter}\n")
        with rejections():
            self._host.write(f"{place}/enable", "1\n")

    # Reading

    def read(self, *, last: bool = False) -> list[Record]:
        """See Backend. Records of different processors are merged by their time."""
        horizon = self._host.monotonic_ns() - _SLACK_NS
        for cpu in self._cpus:
            self._read_cpu(cpu, last)
            if not cpu.drained and cpu.pending:
                horizon = min(horizon, cpu.pending[-1][0])
        ready: list[Record] = []
        for cpu in self._cpus:
            if last and all(other.drained for other in self._cpus):
                ready += cpu.pending
                cpu.pending = []
                continue
            count = len(cpu.pending)
            while count and cpu.pending[count - 1][0] > horizon:
                count -= 1
            ready += cpu.pending[:count]
            del cpu.pending[:count]
        ready.sort()
        return ready

    @property
    def busy(self) -> bool:
        """Whether the last read left records behind that are worth having at once."""
        return any(not cpu.drained and not cpu.resting for cpu in self._cpus)

    def _read_cpu(self, cpu: _Cpu, last: bool) -> None:
        cpu.drained = cpu.resting = False
        own = threading.get_native_id()
        for _ in range(_PAGES_PER_ROUND):
            try:
                page = os.read(cpu.descriptor, self._page_size)
            except BlockingIOError:
                page = b""
            if not page:
                cpu.drained = True
                return
            known = len(cpu.pending)
            decode_page(page, self._layouts, cpu.number, cpu.pending, *self._page_layout)
            if self._plan.kernel and not last and all(record[2] == own for record in cpu.pending[known:]):
                # what reading leaves, which to read at once would leave more of
                cpu.resting = True
                return

    def lost(self) -> int:
        """Records that the kernel had no room for, by its own count."""
        total = 0
        for cpu in self._cpus:
            text = self._host.read_text(f"{self._instance}/per_cpu/cpu{cpu.number}/stats")
            counts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            total += sum(int(counts.get(name, 0)) for name in ("overrun", "commit overrun", "dropped events"))
        return total

    @property
    def may_lose_text(self) -> bool:
        """Whether the kernel drops hits whose text is longer than a page, without counting them."""
        return not self._plan.kernel and any(
            STRING in event.types or WORD in event.types for event in self._plan.events
        )

    @property
    def filtered(self) -> bool:
        """Whether the kernel leaves out hits that do not match."""
        return any(event.filter is not None for event in self._plan.events)

    def totals(self) -> None:
        """Nothing is aggregated in the kernel: every hit is passed on."""

    def unread(self) -> int:
        """Records that are still in the buffers, and those that were read and not passed on."""
        total = 0
        for cpu in self._cpus:
            text = self._host.read_text(f"{self._instance}/per_cpu/cpu{cpu.number}/stats")
            counts = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            total += int(counts.get("entries", 0)) + len(cpu.pending)
        return total

    def hits(self) -> groups.Hits | None:
        """How often the probes were hit by the kernel's count; see groups."""
        names = {event.name for event in self.events}
        return groups.hits(self._host, self._tracefs, names, kernel=self._plan.kernel)

    def process_names(self) -> dict[int, int]:
        """Processes of the threads that the kernel has noted: thread to process."""
        result = {}
        try:
            text = self._host.read_text(f"{self._tracefs}/saved_tgids")
        except OSError:
            return {}
        for line in text.splitlines():
            thread, _, process = line.partition(" ")
            if thread.isdecimal() and process.strip().isdecimal():
                result[int(thread)] = int(process)
        return result

    # Detaching

    def disable(self) -> None:
        """Stop recording; what was recorded can still be read."""
        if self._group is not None and self._enabled:
            self._enabled = False
            with self._quick(), suppress(OSError):
                self._host.write(f"{self._instance}/events/{self._group}/enable", "0\n")

    def detach(self) -> list[str]:
        """Disable, close, remove the instance, then the events; see groups."""
        if self._group is None:
            return []
        group = self._group
        for cpu in self._cpus:
            os.close(cpu.descriptor)
        self._cpus = []
        self._group = None
        try:
            with self._quick():
                return groups.remove(self._host, self._tracefs, group, self._known)
        finally:
            os.close(self._claim)

    def _quick(self) -> AbstractContextManager[None]:
        """Where waiting for grace periods is what takes the time: kprobes."""
        return expedited(self._host) if self._plan.kernel else nullcontext()


def argument_index(probe: Probe) -> dict[Argument, int]:
    """Positions of a probe's arguments in the fields of its records."""
    return {argument: number for number, argument in enumerate(probe.arguments)}


def shown_texts(probes: Sequence[Probe]) -> set[int]:
    """Positions of arguments whose text is wanted by any probe, not only whether it can be read."""
    shown = set()
    for probe in probes:
        index = argument_index(probe)
        for hit in probe.hits:
            for item in hit.items:
                if isinstance(item.recipe, Recipe) and item.recipe.string is not None:
                    shown.add(index[item.recipe.string])
    return shown
