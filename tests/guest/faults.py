"""Machines that do not let a tracer work, as fixtures: each makes its fault and takes it back.

``lockdown`` and little memory cannot be had after the boot; those are options of the marker::

    @pytest.mark.guest(cmdline="lockdown=confidentiality")
    @pytest.mark.guest(memory=256)
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from inlinetrace.target.host import Host
from inlinetrace.target.memory import available_memory

LOCKDOWN = "lockdown=confidentiality"

# Seconds that a command may take: reading a kernel's DWARF takes five where nobody else is at work.
_PATIENCE = 250


class Run(Protocol):
    """Runs a command and returns its outcome with the output as text."""

    def __call__(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run ``command``."""


def run(*command: str, check: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command in the guest as root."""
    return subprocess.run(
        command, check=check, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE
    )


@pytest.fixture
def as_nobody() -> Run:
    """A function that runs a command as an ordinary user without any privilege."""

    def run_as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_PATIENCE,
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
        )

    return run_as_nobody


@pytest.fixture
def kptr_restrict_2() -> Iterator[None]:
    """Kernel addresses are hidden from everybody, root included."""
    knob = Path("/proc/sys/kernel/kptr_restrict")
    before = knob.read_text()
    knob.write_text("2\n")
    yield
    knob.write_text(before)


@contextmanager
def memory_left(size: int) -> Iterator[None]:
    """No more than ``size`` bytes of memory are available inside of the block."""
    available = available_memory(Host())
    assert available is not None
    held = b"\1" * max(available - size, 0)
    yield
    del held


@pytest.fixture
def no_tracefs() -> Iterator[None]:
    """Neither tracefs nor debugfs (which brings a tracefs of its own) is mounted."""
    run("umount", "/sys/kernel/debug/tracing")
    run("umount", "/sys/kernel/tracing", check=True)
    run("umount", "/sys/kernel/debug", check=True)
    yield
    run("mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing", check=True)
    run("mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug", check=True)


@pytest.fixture
def read_only_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sequence[str]]:
    """No place on disk can be written: the root, /tmp and /dev/shm are read-only; gives their names."""
    # pytest itself keeps its open files elsewhere.
    monkeypatch.delenv("TMPDIR")
    places = ("/", "/tmp", "/dev/shm")
    for place in places:
        run("mount", "-o", "remount,ro", place, check=True)
    yield places
    for place in places:
        run("mount", "-o", "remount,rw", place, check=True)
