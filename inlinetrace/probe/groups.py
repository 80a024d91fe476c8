"""Groups of probe events of our own, whose they are, and how they are removed without harm.

>>> name, lock = claim(host, tracefs)        # "inlinetrace_4242_81733": process and its start time
>>> remove(host, tracefs, name)              # returns what had to be left, one line each
>>> os.close(lock)

Who made a group holds a lock on a byte of its own in a file of tracefs. The kernel lets go of it when the process ends,
and everybody who has this tracefs sees it, whatever namespaces he is in: numbers of processes and their start times are
others in each. A group is left alone as long as its lock is held.

A uprobe event with several probes that something still has enabled must not be deleted: some kernels free probes that
are still linked and crash at the next probe (list corruption; seen on 6.18). So the order is always: disable the group
in every trace instance, remove the own instance, make sure that no perf event is open anywhere that could be on it, and
only then delete. What cannot be proved idle stays and is named: in a PID namespace, where the processes of others are
not seen, all that is not our own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import struct
import time
import zlib
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inlinetrace.target.host import Host

_GROUP = re.compile(r"inlinetrace_(\d{1,10})_(\d{1,20})(?:_\d{1,6})?\Z")
DEFINITIONS = ("uprobe_events", "kprobe_events")
_LOCKS = "dynamic_events"
# struct flock (fcntl(2)): type, whence, start, length, pid
_FLOCK = struct.Struct("hhqqi4x")
# A reader that is just about to close its file keeps an instance busy for a moment.
_BUSY_TRIES = 20
_BUSY_WAIT = 0.01


class Descriptor(NamedTuple):
    """A perf event that a process has open."""

    pid: int
    start: int
    number: int


def claim(host: Host, tracefs: str) -> tuple[str, int]:
    """A name for a new group and instance, and a descriptor that keeps it ours as long as it is open."""
    descriptor = host.open(f"{tracefs}/{_LOCKS}", os.O_RDWR)
    try:
        while True:
            name = group_name(host, tracefs)
            with suppress(BlockingIOError):
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _lock(name))
                return name, descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _lock(name: str) -> bytes:
    """The lock of a group. Two that have the same byte, one pair in four billion, are only kept for longer."""
    return _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, zlib.crc32(name.encode()), 1, 0)


def _is_held(host: Host, tracefs: str, name: str) -> bool:
    """Whether anybody has the lock of a group."""
    descriptor = host.open(f"{tracefs}/{_LOCKS}", os.O_RDONLY)
    try:
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _lock(name))
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)


def group_name(host: Host, tracefs: str) -> str:
    """A name for a new group and instance of this process; it has the pid and start time, and is not in use."""
    pid = os.getpid()
    base = f"inlinetrace_{pid}_{host.start_time(pid) or 0}"
    name, number = base, 1
    while (
        host.exists(f"{tracefs}/events/{name}")
        or host.exists(f"{tracefs}/instances/{name}")
        or _is_held(host, tracefs, name)
    ):
        name = f"{base}_{number}"
        number += 1
    return name


def owner(name: str) -> tuple[int, int] | None:
    """Pid and start time of the process that made a group; None if it is no group of ours."""
    found = _GROUP.match(name)
    return (int(found[1]), int(found[2])) if found else None


def is_alive(host: Host, tracefs: str, name: str) -> bool:
    """Whether the process that made the group is, or may be, still there."""
    found = owner(name)
    return found is not None and (_is_held(host, tracefs, name) or host.start_time(found[0]) == found[1])


def groups(host: Host, tracefs: str) -> list[str]:
    """Every group or instance that has a name of ours, whoever made it."""
    names = set(host.names(f"{tracefs}/events")) | set(host.names(f"{tracefs}/instances"))
    return sorted(name for name in names if owner(name) is not None)


def perf_descriptors(host: Host) -> Iterator[Descriptor]:
    """Perf events that other processes have open, on whatever; links of BPF programs to perf events among them."""
    for pid in host.processes():
        if pid == os.getpid():
            continue
        start = host.start_time(pid)
        if start is None:
            continue
        try:
            numbers = host.names(f"/proc/{pid}/fd")
        except OSError:
            continue
        for number in numbers:
            try:
                link = host.read_link(f"/proc/{pid}/fd/{number}")
                if "perf_event" in link or ("bpf_link" in link and _is_perf_link(host, pid, number)):
                    yield Descriptor(pid, start, int(number))
            except OSError:
                continue


def _is_perf_link(host: Host, pid: int, number: str) -> bool:
    text = host.read_text(f"/proc/{pid}/fdinfo/{number}")
    return any(line.startswith("link_type:") and "perf" in line for line in text.splitlines())


def remove(host: Host, tracefs: str, name: str, known: Iterable[Descriptor] = ()) -> list[str]:
    """Remove a group with its instance, in the order that does no harm; return what had to be left, and why.

    ``known`` are perf events that were open before the group came into being, which therefore are not on it.
    """
    left = _disable(host, tracefs, name)
    left += _remove_instance(host, tracefs, name)
    if not host.exists(f"{tracefs}/events/{name}"):
        return left
    if left:
        return [*left, f"the events {name} stay, somebody uses them"]
    before = set(known)
    # another trace of ours opens perf events on its own group only
    traces = {owner(other) for other in groups(host, tracefs) if other != name and is_alive(host, tracefs, other)}
    users = [
        descriptor
        for descriptor in perf_descriptors(host)
        if descriptor not in before and (host.number_inside(descriptor.pid), descriptor.start) not in traces
    ]
    if users:
        pids = ", ".join(str(pid) for pid in sorted({user.pid for user in users}))
        return [f"the events {name} stay: process {pids} has perf events open that may be on them"]
    return _delete(host, tracefs, name)


def _places(host: Host, tracefs: str) -> Iterator[str]:
    yield tracefs
    for instance in host.names(f"{tracefs}/instances"):
        yield f"{tracefs}/instances/{instance}"


def _disable(host: Host, tracefs: str, name: str) -> list[str]:
    """Disable the group wherever it is enabled, and read back that it is."""
    left = []
    for place in _places(host, tracefs):
        switch = f"{place}/events/{name}/enable"
        try:
            if host.read_text(switch).strip() != "0":
                host.write(switch, "0\n")
            for event in host.names(f"{place}/events/{name}"):
                single = f"{place}/events/{name}/{event}/enable"
                if host.exists(single) and host.read_text(single).strip() != "0":
                    left.append(f"{single} cannot be switched off")
        except FileNotFoundError:
            continue
        except OSError as error:
            left.append(f"{switch}: {error.strerror}")
    return left


def _remove_instance(host: Host, tracefs: str, name: str) -> list[str]:
    place = f"{tracefs}/instances/{name}"
    for _ in range(_BUSY_TRIES):
        try:
            host.remove_directory(place)
            return []
        except FileNotFoundError:
            return []
        except OSError as error:
            if error.errno != errno.EBUSY:
                return [f"{place}: {error.strerror}"]
            time.sleep(_BUSY_WAIT)
    return [f"{place} stays: a process has a file in it open"]


def _delete(host: Host, tracefs: str, name: str) -> list[str]:
    left = []
    for definitions in DEFINITIONS:
        path = f"{tracefs}/{definitions}"
        if not host.exists(path):
            continue
        found = {
            line.split(None, 1)[0].split("/", 1)[1]
            for line in host.read_text(path).splitlines()
            if line.split(None, 1)[0].partition(":")[2].partition("/")[0] == name
        }
        for event in sorted(found):
            try:
                host.write(path, f"-:{name}/{event}\n", append=True)
            except OSError as error:
                left.append(f"the event {name}/{event} stays: {error.strerror}")
    return left


class Hits(NamedTuple):
    """How often probes were hit; ``missed`` found the processor inside of another probe, none of them is recorded."""

    hits: int
    missed: int


def hits(host: Host, tracefs: str, events: Collection[str], *, kernel: bool) -> Hits | None:
    """How often the probes of events were hit by the kernel's count, recorded or not; None where it is not counted."""
    profile = f"{tracefs}/{'kprobe_profile' if kernel else 'uprobe_profile'}"
    if not host.exists(profile):
        return None
    total = missed = 0
    for line in host.read_text(profile).splitlines():
        words = line.split()
        if kernel and len(words) == 3 and words[0] in events:
            total += int(words[1])
            missed += int(words[2])
        elif not kernel and len(words) >= 3 and words[-2] in events:
            total += int(words[-1])
    return Hits(total, missed)


def clean(host: Host, tracefs: str) -> tuple[list[str], list[str]]:
    """Remove the groups whose process is gone: names of what was removed, and what had to be left."""
    removed, left = [], []
    for name in groups(host, tracefs):
        if is_alive(host, tracefs, name):
            continue
        if not host.sees_every_process:
            left.append(f"{name} stays: whether anybody uses it cannot be seen from inside of a PID namespace")
            continue
        remaining = remove(host, tracefs, name)
        left += remaining
        if not remaining:
            removed.append(name)
    return removed, left
