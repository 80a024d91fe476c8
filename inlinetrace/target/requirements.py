"""What tracing needs of the machine, checked before anything is attached: each lack is one sentence.

>>> require_kprobes(Host())        # "/sys/kernel/tracing"; raises NotPermittedError
"""

from __future__ import annotations

import errno
import os

from inlinetrace.errors import NotPermittedError
from inlinetrace.target.host import TRACEFS_PLACES, Host

LOCKDOWN = "/sys/kernel/security/lockdown"


def require_root(host: Host) -> None:
    """Raise NotPermittedError unless we run as root."""
    if not host.is_root:
        raise NotPermittedError("tracing needs root: run it as root or with sudo")


def lockdown(host: Host) -> str | None:
    """The kernel's lockdown: ``none``, ``integrity`` or ``confidentiality``; None if it does not say."""
    try:
        text = host.read_text(LOCKDOWN)
    except OSError:
        return None
    # none [integrity] confidentiality
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), None)


def _mounted_at(host: Host, path: str) -> bool:
    try:
        lines = host.read_text("/proc/mounts").splitlines()
    except OSError:
        return False
    return any(line.split()[1:3] == [path, "tracefs"] for line in lines)


def require_tracefs(host: Host) -> str:
    """Return where tracefs is. Raises NotPermittedError without root, under lockdown, or if it is not mounted.

    ``confidentiality`` forbids all reading of kernel memory; ``integrity`` leaves tracing alone. Where the lockdown
    cannot be read (securityfs is not mounted), a tracefs that is mounted and empty tells it.
    """
    require_root(host)
    locked = lockdown(host) == "confidentiality"
    for place in TRACEFS_PLACES:
        if not locked and host.exists(f"{place}/events"):
            return place
    if locked or any(_mounted_at(host, place) and not host.names(place) for place in TRACEFS_PLACES):
        raise NotPermittedError(
            "the kernel is locked down (confidentiality), which forbids tracing: boot without lockdown=confidentiality"
        )
    raise NotPermittedError("tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing")


def _require_events(host: Host, file: str, what: str, config: str) -> str:
    tracefs = require_tracefs(host)
    path = f"{tracefs}/{file}"
    if not host.exists(path):
        raise NotPermittedError(f"the kernel was built without {what} ({config}): {path} is not there")
    try:
        # Opened for appending nothing happens; O_TRUNC would remove every event.
        os.close(host.open(path, os.O_WRONLY | os.O_APPEND))
    except OSError as error:
        if error.errno == errno.EROFS:
            raise NotPermittedError(f"tracefs is read-only: mount -o remount,rw {tracefs}") from None
        raise NotPermittedError(f"the kernel refuses to open {path}: {error.strerror}") from None
    return tracefs


def require_kprobes(host: Host) -> str:
    """Return where tracefs is, if kprobe events can be made there. Raises NotPermittedError with what is missing."""
    tracefs = _require_events(host, "kprobe_events", "kprobe events", "CONFIG_KPROBES, CONFIG_KPROBE_EVENTS")
    try:
        enabled = host.read_text("/sys/kernel/debug/kprobes/enabled").strip()
    except OSError:
        # debugfs is not needed, and without it nobody switched them off.
        return tracefs
    if enabled == "0":
        raise NotPermittedError("kprobes are switched off: echo 1 > /sys/kernel/debug/kprobes/enabled")
    return tracefs


def require_uprobes(host: Host) -> str:
    """Return where tracefs is, if uprobe events can be made there. Raises NotPermittedError with what is missing."""
    return _require_events(host, "uprobe_events", "uprobe events", "CONFIG_UPROBES, CONFIG_UPROBE_EVENTS")
