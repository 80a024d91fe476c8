"""What tracing needs: each lack is one sentence and exit code 3."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from inlinetrace.errors import NotPermittedError
from inlinetrace.target.requirements import lockdown, require_kprobes, require_root, require_tracefs, require_uprobes
from tests.target.machine import Machine

TRACING = "/sys/kernel/tracing"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine that lacks nothing."""
    machine = Machine(tmp_path, user=0)
    machine.write("/proc/mounts", f"proc /proc proc rw 0 0\ntracefs {TRACING} tracefs rw 0 0\n")
    machine.write(f"{TRACING}/events/enable", "0\n")
    machine.write(f"{TRACING}/kprobe_events", "p:mine/site _stext\n")
    machine.write(f"{TRACING}/uprobe_events", "")
    machine.write("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
    machine.write("/sys/kernel/debug/kprobes/enabled", "1\n")
    return machine


def refusal(machine: Machine) -> str:
    """Why there are no kprobes: one sentence."""
    with pytest.raises(NotPermittedError) as caught:
        require_kprobes(machine.host)
    assert caught.value.exit_code == 3
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_nothing_is_missing_and_nothing_is_changed(machine: Machine) -> None:
    assert require_kprobes(machine.host) == TRACING
    assert require_uprobes(machine.host) == TRACING
    assert machine.path(f"{TRACING}/kprobe_events").read_text() == "p:mine/site _stext\n"


def test_tracefs_below_debugfs(machine: Machine) -> None:
    machine.path("/sys/kernel/debug").mkdir(exist_ok=True)
    machine.path(TRACING).rename(machine.path("/sys/kernel/debug/tracing"))
    assert require_kprobes(machine.host) == "/sys/kernel/debug/tracing"


def test_no_root(tmp_path: Path, machine: Machine) -> None:
    machine.host.user = 1000
    assert "needs root" in refusal(machine)
    with pytest.raises(NotPermittedError):
        require_root(machine.host)


@pytest.mark.parametrize("empty", [True, False])
def test_lockdown_confidentiality(machine: Machine, empty: bool) -> None:
    machine.write("/sys/kernel/security/lockdown", "none integrity [confidentiality]\n")
    if empty:
        clear(machine)
    assert lockdown(machine.host) == "confidentiality"
    assert "locked down (confidentiality)" in refusal(machine)


def test_lockdown_that_cannot_be_read(machine: Machine) -> None:
    machine.path("/sys/kernel/security/lockdown").unlink()
    clear(machine)
    assert lockdown(machine.host) is None
    assert "locked down (confidentiality)" in refusal(machine)


def test_lockdown_integrity_forbids_nothing(machine: Machine) -> None:
    machine.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    assert require_kprobes(machine.host) == TRACING


def test_no_tracefs(machine: Machine) -> None:
    clear(machine)
    machine.write("/proc/mounts", "proc /proc proc rw 0 0\n")
    assert "mount -t tracefs" in refusal(machine)


def test_no_kprobes(machine: Machine) -> None:
    machine.path(f"{TRACING}/kprobe_events").unlink()
    assert "CONFIG_KPROBES" in refusal(machine)
    machine.path(f"{TRACING}/uprobe_events").unlink()
    with pytest.raises(NotPermittedError, match="CONFIG_UPROBES"):
        require_uprobes(machine.host)


def test_kprobes_switched_off(machine: Machine) -> None:
    machine.write("/sys/kernel/debug/kprobes/enabled", "0\n")
    assert "echo 1 > /sys/kernel/debug/kprobes/enabled" in refusal(machine)
    assert require_uprobes(machine.host) == TRACING


def test_without_debugfs(machine: Machine) -> None:
    machine.path("/sys/kernel/debug/kprobes/enabled").unlink()
    assert require_kprobes(machine.host) == TRACING


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EROFS, "mount -o remount,rw"), (errno.EPERM, "Operation not permitted")]
)
def test_events_that_may_not_be_written(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(path: str, flags: int) -> int:
        assert flags == os.O_WRONLY | os.O_APPEND
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(machine.host, "open", refuse)
    assert words in refusal(machine)


def test_tracefs_alone(machine: Machine) -> None:
    machine.path(f"{TRACING}/kprobe_events").unlink()
    assert require_tracefs(machine.host) == TRACING


def clear(machine: Machine) -> None:
    """Empty tracefs."""
    for name in ("events/enable", "kprobe_events", "uprobe_events"):
        machine.path(f"{TRACING}/{name}").unlink()
    machine.path(f"{TRACING}/events").rmdir()
