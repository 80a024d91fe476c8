"""The faulty machines are as faulty as they claim, and whole again afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.guest.faults import LOCKDOWN, Run, run
from tests.guest.state import TRACING, append
from tests.guest.testmodule import InlineShapes, kallsyms


@pytest.mark.guest
def test_kptr_restrict_hides_addresses(kptr_restrict_2: None) -> None:
    with pytest.raises(LookupError):
        kallsyms("no_such_symbol")
    assert {line.split()[0] for line in Path("/proc/kallsyms").read_text().splitlines()} == {"0" * 16}


@pytest.mark.guest
def test_nobody_may_not_read_tracefs(as_nobody: Run) -> None:
    assert as_nobody("id", "-u").stdout == "65534\n"
    assert as_nobody("cat", str(TRACING / "kprobe_events")).returncode == 1
    assert as_nobody("python3", "-c", "import inlinetrace").stderr == ""


@pytest.mark.guest
def test_no_tracefs(no_tracefs: None) -> None:
    assert not list(TRACING.iterdir())
    assert "tracefs" not in Path("/proc/mounts").read_text()


@pytest.mark.guest
def test_read_only_root(read_only_root: Sequence[str]) -> None:
    for place in read_only_root:
        with pytest.raises(OSError, match="Read-only"):
            (Path(place) / "file").write_text("")


@pytest.mark.guest(cmdline=LOCKDOWN)
def test_lockdown_leaves_tracefs_empty() -> None:
    assert "[confidentiality]" in Path("/sys/kernel/security/lockdown").read_text()
    assert "tracefs /sys/kernel/tracing" in Path("/proc/mounts").read_text()
    with pytest.raises(FileNotFoundError):
        append(TRACING / "kprobe_events", "p:byhand/site ksys_lseek\n")


@pytest.mark.guest(cmdline=LOCKDOWN)
def test_lockdown_refuses_an_unsigned_module() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="insmod"):
        InlineShapes().load()


@pytest.mark.guest(memory=256)
def test_256_megabytes() -> None:
    assert os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 256 << 20
    assert run("python3", "-c", "import inlinetrace").returncode == 0
