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
    "/sys/kernel/tracing/set_event_pid",
    "/sys/kernel/tracing/trace_clock",
    "/proc/sys/kernel/panic_on_warn",
    "/proc/sys/kernel/ftrace_enabled",
    # where a trace keeps what it has to put back
    "/run/inlinetrace/rcu_expedited",
)


def guest_state() -> GuestState:
    """Look at the kernel that runs here; what cannot be read is noted as such, with the error."""
    return GuestState(
        kprobe_events=_text(TRACING / "kprobe_events"),
        uprobe_events=_text(TRACING / "uprobe_events"),
        dynamic_events=_text(TRACING / "dynamic_events"),
        groups=_names(TRACING / "events"),
        instances=_names(TRACING / "instances"),
        enabled_probes=_text(KPROBES / "list"),
        current_tracer=_text(TRACING / "current_tracer"),
        tracing_on=_text(TRACING / "tracing_on"),
        knobs=tuple((name, _text(Path(name))) for name in _KNOBS),
        modules=tuple(sorted(line.split()[0] for line in _text(Path("/proc/modules")).splitlines())),
        mounts=_mounts(),
    )


def differences(before: GuestState, after: GuestState) -> list[str]:
    """What is not as before, one line each."""
    found = []
    for name in GuestState.__dataclass_fields__:
        was, now = getattr(before, name), getattr(after, name)
        if isinstance(was, tuple):
            found += [f"{name}: {entry!r} is new" for entry in now if entry not in was]
            found += [f"{name}: {entry!r} is gone" for entry in was if entry not in now]
        elif was != now:
            found.append(f"{name}: was {was!r}, is {now!r}")
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


def append(path: Path, text: str) -> None:
    """Write to a file of tracefs without emptying it first, which for ``kprobe_events`` would remove all events."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _names(directory: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(os.listdir(directory)))
    except OSError as error:
        return (f"({errno.errorcode.get(error.errno or 0, 'error')})",)


def _mounts() -> tuple[str, ...]:
    lines = [" ".join(line.split()[1:4]) for line in _text(Path("/proc/mounts")).splitlines()]
    # debugfs mounts it by itself when somebody looks there.
    return tuple(sorted(line for line in lines if not line.startswith("/sys/kernel/debug/tracing ")))


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        return f"({errno.errorcode.get(error.errno or 0, 'error')})"
