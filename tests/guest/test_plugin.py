"""Guest tests fail when they must: by assertion, by what they leave behind, by a kernel that warns, hangs or dies."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from vmimages.console import troubles

from tests.guest.outside import REPOSITORY
from tests.kernels import kernel


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of each deliberate failure: "passed", or the text of its failure or error."""
    kernel("6.12")
    report = tmp_path_factory.mktemp("plugin") / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    subprocess.run(
        [*command, "tests/guest/deliberate_failures.py"], cwd=REPOSITORY, capture_output=True, check=False, timeout=500
    )
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"].split("[")[0]
        texts = [f"{part.tag}: {part.attrib.get('message', '')} {part.text}" for part in case]
        found[name] = "\n".join(texts) or "passed"
    return found


boots_guests = pytest.mark.guest(outside=True)


@boots_guests
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("test_fails_with_output", "assert 1 == 2"),
        ("test_leaves_an_event", "groups: 'inlinetrace' is new"),
        ("test_leaves_a_knob", "rcu_expedited"),
        ("test_leaves_a_module", "'inline_shapes' is new"),
        ("test_makes_the_kernel_warn", "WARNING: CPU: 0 PID: 1"),
        ("test_asks_for_what_the_host_does_not_have", "LookupError: no such thing in 6.12"),
        ("test_hangs", "the guest reported nothing for 6 s"),
        ("test_kills_the_kernel", "sysrq triggered crash"),
    ],
)
def test_a_failure_is_reported_with_its_reason(outcomes: dict[str, str], name: str, text: str) -> None:
    assert text in outcomes[name]


@boots_guests
def test_captured_output_comes_with_the_failure(outcomes: dict[str, str]) -> None:
    assert "said before failing" in outcomes["test_fails_with_output"]


@boots_guests
@pytest.mark.parametrize(
    "name", ["test_passes", "test_is_not_blamed_for_its_predecessor", "test_passes_after_a_new_boot"]
)
def test_the_others_pass(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == "passed"


@pytest.mark.parametrize(
    "line",
    [
        "[    1.0] WARNING: CPU: 1 PID: 34 at kernel/trace/trace_kprobe.c:1",
        "[    1.0] BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "[    1.0] Oops: 0002 [#1] PREEMPT SMP NOPTI",
        "[    1.0] Call Trace:",
        "[    1.0] list_del corruption. prev->next should be ffff8880, but was 0",
        "[    1.0] general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]",
        "[    1.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[    1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!",
        "[    1.0] INFO: task cat:12 blocked for more than 120 seconds.",
        "[    1.0] WARNING: possible circular locking dependency detected",
        "[    1.0] traps: python3[99] trap int3 ip:55 sp:7f error:0 in python3.11",
        "[    1.0] python3[99]: segfault at 0 ip 0000 sp 0000 error 4",
        "[    1.0] Kernel panic - not syncing: Fatal exception",
    ],
)
def test_a_kernel_in_trouble_is_recognised(line: str) -> None:
    assert troubles(f"[    0.5] fine\n{line}\n[    2.0] fine") == [line]


@pytest.mark.parametrize(
    "line",
    [
        "[    0.0] Spectre V2 : WARNING: Unprivileged eBPF is enabled with eIBRS on, data leaks possible",
        "[    0.0] [Firmware Bug]: TSC doesn't count with P0 frequency!",
        "[    0.8] mtrr: your CPUs had inconsistent fixed MTRR settings",
        "[    3.0] inline_shapes: module verification failed: signature and/or required key missing - tainting kernel",
    ],
)
def test_ordinary_messages_are_no_trouble(line: str) -> None:
    assert troubles(line) == []


def test_kernels_not_in_the_cache_are_named_with_the_command_that_fetches_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from tests.kernels import kernel; kernel('6.1')"]
    environment = {"INLINETRACE_DEV_CACHE": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert "fetch it with `python3 vm-images/fetch.py 6.1`" in done.stderr
