"""Defining a plan's probes in tracefs and enabling them: what every backend begins with.

>>> events, refused = define(host, tracefs, plan, plan.events, group)
>>> with mapped(program):
...     events, more = enable(events, switch, again)
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inlinetrace.errors import InlineTraceError, NotPermittedError
from inlinetrace.probe.plan import Event, Plan, Refusal, Refused, definition, refuse

if TYPE_CHECKING:
    from inlinetrace.target.host import Host

FULL = (errno.ENOMEM, errno.ENOSPC, errno.ENODEV)
"""What the kernel answers when it has no room: for buffers, events, identifiers of events."""

# 524 is ENOTSUPP of include/linux/errno.h, which is for the kernel alone.
_OF_INSTRUCTIONS = {524: "the kernel cannot step over this instruction", errno.ENOEXEC: "the kernel cannot decode it"}

Define = Callable[[list[Event]], tuple[list[Event], list[Refused]]]
"""Defines events, as ``define`` does for one group."""


class RejectedError(Exception):
    """The kernel does not take an event's probes; the text says why."""


def define(
    host: Host,
    tracefs: str,
    plan: Plan,
    events: Iterable[Event],
    group: str,
    target: str | None = None,
    *,
    fetches: bool = True,
) -> tuple[list[Event], list[Refused]]:
    """Define events in a group; return them with the probes that the kernel accepted, and what it did not.

    ``target`` is how the kernel finds the program, by default the plan's. See plan.definition for ``fetches``.
    Raises OSError if the kernel has no room for more (``FULL``).
    """
    accepted: list[Event] = []
    refused: list[Refused] = []
    with host.writer(f"{tracefs}/{'kprobe_events' if plan.kernel else 'uprobe_events'}") as write:
        for planned in events:
            # the kernel's counts of hits name only the event, not the group
            event = Event(planned.name + group.removeprefix("inlinetrace"), planned.types, [], planned.filter)
            for probe in planned.probes:
                try:
                    write(definition(plan, event, probe, group, target, fetches=fetches) + "\n")
                except OSError as error:
                    if error.errno in FULL:
                        raise
                    detail = _reason(host, tracefs, error)
                    refused += refuse([probe], Refusal.REJECTED, detail)
                else:
                    event.probes.append(probe)
            if event.probes:
                accepted.append(event)
    return accepted, refused


def enable(
    events: Iterable[Event],
    switch: Callable[[Event], None],
    again: Define,
) -> tuple[list[Event], list[Refused]]:
    """Enable events by ``switch``; return those that are, and the probes that the kernel does not take.

    It takes all probes of an event or none. Where ``switch`` raises RejectedError, the event is defined ``again`` in
    halves, until what is rejected is alone.
    """
    enabled: list[Event] = []
    refused: list[Refused] = []
    waiting = list(events)[::-1]
    while waiting:
        event = waiting.pop()
        try:
            switch(event)
        except RejectedError as error:
            if len(event.probes) == 1:
                refused += refuse(event.probes, Refusal.REJECTED, str(error))
                continue
            halves, more = again(_halves(event))
            waiting += halves[::-1]
            refused += more
        else:
            enabled.append(event)
    return enabled, refused


def _halves(event: Event) -> list[Event]:
    middle = len(event.probes) // 2
    return [
        Event(f"{event.name}{side}", event.types, probes, event.filter)
        for side, probes in (("a", event.probes[:middle]), ("b", event.probes[middle:]))
    ]


@contextmanager
def rejections() -> Iterator[None]:
    """Makes RejectedError of what the kernel says when an event is enabled, but for its having no room."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise
        raise RejectedError(_OF_INSTRUCTIONS.get(error.errno or 0) or error.strerror or str(error)) from error


@contextmanager
def mapped(program: int | None) -> Iterator[None]:
    """Keep the program's file in memory as code, as a process that runs it has it; it is not run.

    The kernel looks at an instruction when it is in the memory of a process. Where there is none yet, it takes every
    probe, and silently leaves out in programs that are started later what it cannot do.
    """
    if program is None:
        yield
        return
    try:
        code = mmap.mmap(program, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    except (OSError, ValueError):
        # on file systems without execution nobody can run it either
        yield
        return
    with code:
        yield


def problem(error: OSError) -> InlineTraceError:
    """What an error of tracefs means for the trace as a whole."""
    if error.errno in (errno.EPERM, errno.EACCES, errno.EROFS):
        where = f" ({error.filename})" if error.filename else ""
        return NotPermittedError(f"tracing is not permitted here: {error.strerror}{where}")
    if error.errno in FULL:
        advice = "take a smaller --buffer-size, or fewer sites with --max-probes"
        return InlineTraceError(
            f"the kernel has no room for the trace: {error.strerror}; {advice}", path=error.filename
        )
    return InlineTraceError(error.strerror or str(error), path=error.filename)


def _reason(host: Host, tracefs: str, error: OSError) -> str:
    """What the kernel says of the last definition it did not take."""
    detail = error.strerror or str(error)
    try:
        lines = host.read_text(f"{tracefs}/error_log").splitlines()
    except OSError:
        return detail
    errors = [line for line in lines if ": error: " in line]
    return f"{detail}: {errors[-1].partition(': error: ')[2]}" if errors and error.errno == 22 else detail
