"""Defining a plan's probes in tracefs: what every backend begins with.

>>> events, refused = define(host, tracefs, plan, plan.events, group)
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from inlinetrace.errors import InlineTraceError, NotPermittedError
from inlinetrace.probe.plan import Event, Plan, Refusal, Refused, definition, refuse

if TYPE_CHECKING:
    from inlinetrace.target.host import Host

FULL = (errno.ENOMEM, errno.ENOSPC, errno.ENODEV)
"""What the kernel answers when it has no room: for buffers, events, identifiers of events."""


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
            event = Event(f"{planned.name}_{os.getpid()}", planned.types, [], planned.filter)
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
