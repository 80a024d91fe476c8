"""Machines that do not let a tracer work, or only just: each is told in one clear line with the right exit code."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import pytest

from tests.guest.faults import LOCKDOWN, Run, memory_left, run
from tests.guest.testmodule import FILE, InlineShapes
from tests.guest.tracing import end, tracing

NOT_PERMITTED = 3
COMMANDS = [("probe", "vfs_llseek"), ("probe", "main", "-x", "/bin/true"), ("clean",)]


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The command said one line with ``words`` in it, and ended with ``code``."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("inlinetrace: ")
    for word in words:
        assert word in line


def assert_a_trace_works() -> str:
    """The running kernel, found by inlinetrace itself, is traced and the values are right; what it said meanwhile."""
    with (
        open(__file__, "rb", buffering=0) as file,
        tracing("vfs_llseek", "--args", "-p", str(os.getpid())) as trace,
    ):
        os.lseek(file.fileno(), 5, os.SEEK_SET)
        hits = end(trace)
    assert (5, os.SEEK_SET) in [(hit["args"]["offset"], hit["args"]["whence"]) for hit in hits if hit["inlined"]]
    return trace.said


@pytest.mark.guest
@pytest.mark.parametrize("command", COMMANDS)
def test_without_root(as_nobody: Run, command: tuple[str, ...]) -> None:
    assert_refused(as_nobody("inlinetrace", *command), NOT_PERMITTED, "needs root")


@pytest.mark.guest
@pytest.mark.parametrize("command", COMMANDS)
def test_without_tracefs(no_tracefs: None, command: tuple[str, ...]) -> None:
    assert_refused(run("inlinetrace", *command), NOT_PERMITTED, "mount -t tracefs", "/sys/kernel/tracing")


@pytest.mark.guest(cmdline=LOCKDOWN)
@pytest.mark.parametrize("command", COMMANDS)
def test_under_lockdown(command: tuple[str, ...]) -> None:
    assert_refused(run("inlinetrace", *command), NOT_PERMITTED, "locked down", "lockdown=confidentiality")


@pytest.mark.guest(timeout=300)
def test_with_hidden_addresses_a_trace_works(kptr_restrict_2: None) -> None:
    assert "kernel.kptr_restrict is 2" in assert_a_trace_works()


@pytest.mark.guest(timeout=300)
def test_with_nothing_to_write_to_a_trace_works(inline_shapes: InlineShapes, read_only_root: Sequence[str]) -> None:
    assert_a_trace_works()
    done = run("inlinetrace", "probe", "take_u32", "-m", str(FILE), "-c", "1", "-o", "/hits")
    assert_refused(done, 1, "/hits: Read-only file system")


@pytest.mark.guest(memory=256, timeout=500)
def test_with_little_memory_a_few_functions_work_and_more_are_refused() -> None:
    listed = run("inlinetrace", "list", "vfs_llseek")
    assert listed.returncode == 0, listed.stderr
    assert "ksys_lseek" in listed.stdout
    words = ("reading its DWARF takes about", "MB of memory", "MB are available")
    with memory_left(90 << 20):
        assert_refused(run("inlinetrace", "list", "vfs_*"), 1, *words)


@pytest.mark.guest(memory=256, timeout=500)
def test_with_little_memory_a_module_is_traced(inline_shapes: InlineShapes) -> None:
    with tracing("take_u32", "--args", "-m", str(FILE)) as trace:
        inline_shapes.call("take_u32", 5)
        (hit,) = end(trace)
    assert hit["args"] == {"value": 5}
