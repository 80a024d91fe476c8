"""What a guest's kernel must be like after a test: as it was before.

:func:`guest_state` is one look at everything a tracer may leave behind; the autouse fixture of ``conftest.py`` compares
the looks before and after each test, so that a test need not ask for it.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from vmimages.console import troubles

TRACING = Path("/sys/kernel/tracing")
KPROBES = Path("/sys/kernel/debug/kprobes")


@dataclass(frozen=True, slots=True)
class GuestState:
    """The kernel's tracing state and its knobs; equal if nothing was left behind."""

    kprobe_events: str
    uprobe_events: str
    dynamic_events: str
    groups: tuple[str, ...]
    instances: tuple[str, ...]
    enabled_probes: str
    current_tracer: str
    tracing_on: str
    knobs: tuple[tuple[str, str], ...]
    modules: tuple[str, ...]
    mounts: tuple[str, ...]


_KNOBS = (
    "/sys/kernel/rcu_expedited",
    "/sys/kernel/rcu_normal",
    "/proc/sys/kernel/kptr_restrict",
    "/proc/sys/kernel/perf_event_paranoid",
    "/proc/sys/debug/kprobes-optimization",
    "/sys/kernel/debug/kprobes/enabled",
    "/sys/kernel/tracing/events/enable",
)


def guest_state() -> GuestState:
    """Look at the kernel that runs here; needs root and a mounted tracefs."""
    return GuestState(
        kprobe_events=_text(TRACING / "kprobe_events"),
        uprobe_events=_text(TRACING / "uprobe_events"),
        dynamic_events=_text(TRACING / "dynamic_events"),
        groups=tuple(sorted(entry.name for entry in (TRACING / "events").iterdir() if entry.is_dir())),
        instances=tuple(sorted(entry.name for entry in (TRACING / "instances").iterdir())),
        enabled_probes=_text(KPROBES / "list"),
        current_tracer=_text(TRACING / "current_tracer"),
        tracing_on=_text(TRACING / "tracing_on"),
        knobs=tuple((name, _text(Path(name))) for name in _KNOBS),
        modules=tuple(sorted(line.split()[0] for line in _text(Path("/proc/modules")).splitlines())),
        mounts=tuple(" ".join(line.split()[1:4]) for line in _text(Path("/proc/mounts")).splitlines()),
    )


def differences(before: GuestState, after: GuestState) -> list[str]:
    """What is not as before, one line each; and what must never be left, whatever was there before."""
    found = [
        f"{name}: was {getattr(before, name)!r}, is {getattr(after, name)!r}"
        for name in GuestState.__dataclass_fields__
        if getattr(before, name) != getattr(after, name)
    ]
    found += [f"event group {group} exists" for group in after.groups if group.startswith("inlinetrace")]
    return found


class KernelLog:
    """The kernel's log from the moment this object is made."""

    def __init__(self) -> None:
        self._descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self._descriptor, 0, os.SEEK_END)
        self._lines: list[str] = []

    def text(self) -> str:
        """All that was logged since."""
        while True:
            try:
                record = os.read(self._descriptor, 8192).decode(errors="replace")
            except BlockingIOError:
                return "\n".join(self._lines)
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                self._lines.append("(the log's buffer has run over)")
                continue
            self._lines.append(re.sub(r"^[^;]*;", "", record.splitlines()[0]))

    def troubles(self) -> list[str]:
        """The lines that tell of something wrong with the kernel."""
        return troubles(self.text())

    def close(self) -> None:
        """Stop reading."""
        os.close(self._descriptor)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return f"({errno.errorcode.get(error.errno or 0, 'error')})"
