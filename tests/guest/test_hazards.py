"""What could hurt a kernel, tried where that does no harm: busy events, killed traces, neighbours, faulting reads.

Every test here is also held to a kernel log without trouble and to a machine that is as before (``state.py``).
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.guest.faults import run
from tests.guest.load import Load
from tests.guest.state import TRACING, append
from tests.guest.tracing import VMLINUX, end, tracing

# A process number that cannot be (PID_MAX_LIMIT is 2^22): the owner of the group is gone.
GROUP = "inlinetrace_99999999_1"

_PERF_EVENT_OPEN = 298
_PERF_TYPE_TRACEPOINT = 2


@contextmanager
def perf_event(identity: int) -> Iterator[int]:
    """A perf event that this process has open on an event of tracefs, counting on processor 0."""
    # struct perf_event_attr: type, size, config
    attributes = struct.pack("<IIQ", _PERF_TYPE_TRACEPOINT, 128, identity).ljust(128, b"\0")
    libc = ctypes.CDLL(None, use_errno=True)
    minus_one = ctypes.c_long(-1)
    descriptor = libc.syscall(ctypes.c_long(_PERF_EVENT_OPEN), attributes, minus_one, ctypes.c_long(0), minus_one, 0)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.guest
def test_busy_events_are_refused_by_the_kernel_and_left_by_clean() -> None:
    append(TRACING / "kprobe_events", f"p:{GROUP}/event ksys_lseek\n")
    event = TRACING / "events" / GROUP / "event"
    with perf_event(int((event / "id").read_text())):
        with pytest.raises(OSError) as refusal:
            append(TRACING / "kprobe_events", f"-:{GROUP}/event\n")
        assert refusal.value.errno == errno.EBUSY
        done = run("inlinetrace", "clean", "-v")
        assert done.returncode == 4, done.stderr
        assert f"process {os.getpid()} has perf events open" in done.stderr
        assert GROUP in (TRACING / "kprobe_events").read_text()
    done = run("inlinetrace", "clean", "-v")
    assert (done.returncode, done.stderr) == (0, f"inlinetrace: removed {GROUP}\n")


@pytest.mark.guest
def test_events_that_are_enabled_elsewhere_are_switched_off_first() -> None:
    append(TRACING / "kprobe_events", f"p:{GROUP}/event ksys_lseek\np:{GROUP}/event ksys_read\n")
    instance = TRACING / "instances" / "somebody"
    instance.mkdir()
    try:
        for place in (TRACING, instance):
            (place / "events" / GROUP / "event" / "enable").write_text("1\n")
        with pytest.raises(OSError) as refusal:
            append(TRACING / "kprobe_events", f"-:{GROUP}/event\n")
        assert refusal.value.errno == errno.EBUSY
        done = run("inlinetrace", "clean", "-v")
        assert (done.returncode, done.stderr) == (0, f"inlinetrace: removed {GROUP}\n")
        (TRACING / "trace").write_text("\n")
    finally:
        instance.rmdir()


@pytest.mark.guest(timeout=400)
def test_a_trace_is_killed_under_load_and_clean_leaves_its_neighbour_alone(tmp_path: Path) -> None:
    with (
        tracing("vfs_llseek", "--args", "-k", VMLINUX, "-p", str(os.getpid())) as neighbour,
        tracing("get_file", "find_vpid", "--args", "-k", VMLINUX) as killed,
        Load(tmp_path) as load,
        open(__file__, "rb", buffering=0) as file,
    ):
        load.wait_for_rounds()
        killed.kill()
        killed.communicate()
        groups = {trace: f"inlinetrace_{trace.pid}_" for trace in (neighbour, killed)}
        text = (TRACING / "kprobe_events").read_text()
        assert groups[killed] in text
        done = run("inlinetrace", "clean", "-v")
        assert done.returncode == 0, done.stderr
        assert f"removed {groups[killed]}" in done.stderr
        text = (TRACING / "kprobe_events").read_text()
        assert groups[killed] not in text
        assert groups[neighbour] in text
        os.lseek(file.fileno(), 5, os.SEEK_SET)
        hits = end(neighbour)
    assert (5, os.SEEK_SET) in [(hit["args"]["offset"], hit["args"]["whence"]) for hit in hits if hit["inlined"]]


@pytest.mark.guest(timeout=400)
def test_what_the_kernel_dies_of_is_left_out_and_a_trace_ended_under_load_leaves_nothing(tmp_path: Path) -> None:
    functions = ("get_file", "hpet_readl", "acpi_register_gsi")
    with tracing(*functions, "--args", "-k", VMLINUX) as trace, Load(tmp_path) as load:
        assert re.search(r"not hpet_readl in [^ ]+: deadlock: read_hpet holds a lock", trace.said), trace.said
        assert re.search(r"not acpi_register_gsi in [^ ]+: misemulated: ", trace.said), trace.said
        # the kernel makes jumps of what it has taken
        load.wait_for_rounds(2)
        trace.send_signal(signal.SIGTERM)
        output, _ = trace.communicate(timeout=200)
    assert '"function": "get_file"' in output
    assert trace.returncode == 128 + signal.SIGTERM
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
