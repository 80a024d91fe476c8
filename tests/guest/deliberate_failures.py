"""Tests that fail on purpose, for ``test_plugin.py``, which runs this file by name; pytest does not collect it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.guest.faults import run
from tests.guest.host import from_host
from tests.guest.state import TRACING, append
from tests.guest.testmodule import InlineShapes
from tests.kernels import Kernel

pytestmark = pytest.mark.guest(kernel="6.12", timeout=60)


@from_host
def impossible(kernel: Kernel) -> int:
    """A value that the host cannot give."""
    raise LookupError(f"no such thing in {kernel.series}")


def test_passes() -> None:
    assert Path("/job").is_dir()


def test_fails_with_output() -> None:
    print("said before failing")
    left, right = 1, 2
    assert left == right


def test_leaves_an_event() -> None:
    append(TRACING / "kprobe_events", "p:inlinetrace/left ksys_lseek\n")


def test_is_not_blamed_for_its_predecessor() -> None:
    assert "inlinetrace/left" in (TRACING / "kprobe_events").read_text()


def test_leaves_a_knob() -> None:
    Path("/sys/kernel/rcu_expedited").write_text("1\n")


def test_leaves_a_module() -> None:
    InlineShapes().load()


def test_makes_the_kernel_warn() -> None:
    Path("/dev/kmsg").write_text("<4>WARNING: CPU: 0 PID: 1 at kernel/somewhere.c:1\n")


def test_asks_for_what_the_host_does_not_have() -> None:
    impossible()


@pytest.mark.guest(kernel="6.12", timeout=6)
def test_hangs() -> None:
    time.sleep(1000)


def test_kills_the_kernel() -> None:
    Path("/proc/sys/kernel/sysrq").write_text("1\n")
    Path("/proc/sysrq-trigger").write_text("c\n")


def test_passes_after_a_new_boot() -> None:
    assert run("cat", "/proc/uptime").returncode == 0
