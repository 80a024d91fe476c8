"""The backend on a fake tracefs: what it writes where, for programs and for kernels."""

from __future__ import annotations

import errno
import os
import struct
import threading
from pathlib import Path

import pytest

from inlinetrace.errors import FormatError, InlineTraceError, NotPermittedError
from inlinetrace.probe import expedite
from inlinetrace.probe.fetch import Argument
from inlinetrace.probe.groups import Hits
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe, Refusal
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.sites.model import Site
from tests.probe.fake_tracefs import TRACEFS, FakeTracefs

ARGUMENTS = (Argument("%di", "u64"), Argument("+7(%di)", "string"))


def site(address: int) -> Site:
    return Site("f", True, address, ".text", 0, "g", 0, "void", ())


def plan(kernel: bool = False, count: int = 2) -> Plan:
    probes = [
        Probe(number, 0x1000 + number, 0x10 + number, (LogicalHit(site(0x1000 + number), ()),), ARGUMENTS)
        for number in range(count)
    ]
    return Plan("_stext" if kernel else "/bin/x", kernel, [Event("sites0", ("u64", "string"), probes)], [])


@pytest.fixture
def host(tmp_path: Path) -> FakeTracefs:
    return FakeTracefs(tmp_path)


def record(address: int, number: int, value: int, thread: int = 4242) -> bytes:
    # common_type, flags, preempt count, pid, ip, k, a0, a1 (guard), comm
    text = 16 + 4 + 8 + 4 + 4
    body = struct.pack("<HBBiQIQII", 77, 0, 0, thread, address, number, value, 1 << 16 | text, 4 << 16 | (text + 1))
    body += b"\0cat\0"
    body += bytes(-len(body) % 4)
    return struct.pack("<I", 5 << 5 | len(body) // 4) + body


def page(time: int, *records: bytes) -> bytes:
    data = b"".join(records)
    return (struct.pack("<QQ", time, len(data)) + data).ljust(4096, b"\0")


def test_attaching_and_detaching_a_program(host: FakeTracefs) -> None:
    backend = TracefsBackend(host, plan(), buffer_kb=512)
    assert backend.attach([4242, 4243]) == []
    name = f"inlinetrace_{os.getpid()}_1000"
    assert backend.group == name
    assert host.done == [
        f"mkdir instances/{name}",
        f"instances/{name}/trace_clock <- mono",
        f"instances/{name}/buffer_size_kb <- 512",
        f"instances/{name}/options/record-tgid <- 1",
        f"instances/{name}/options/event-fork <- 1",
        f"instances/{name}/set_event_pid <- 4242 4243",
        "open uprobe_events",
        f"instances/{name}/events/{name}/sites0_{os.getpid()}_1000/enable <- 1",
    ]
    assert host.read_text(f"{TRACEFS}/uprobe_events").splitlines() == [
        f"p:{name}/sites0_{os.getpid()}_1000 /bin/x:0x10 k=\\0:u32 a0=%di:u64 a1=+7(%di):string comm=$comm:string",
        f"p:{name}/sites0_{os.getpid()}_1000 /bin/x:0x11 k=\\1:u32 a0=%di:u64 a1=+7(%di):string comm=$comm:string",
    ]
    assert backend.lost() == 8
    assert backend.detach() == []
    assert backend.detach() == []
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""
    assert host.names(f"{TRACEFS}/instances") == []


def test_threads_that_were_started_before_the_filter_was_there_are_added(
    host: FakeTracefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was listed by nobody, and started by a thread that is gone."""
    listed = [[4242, 4243], [4244], [4245, 4246], [4246]]
    monkeypatch.setattr(host, "threads", lambda process: listed.pop(0))
    backend = TracefsBackend(host, plan())
    backend.attach([4242])
    filters = [line.partition(" <- ")[2] for line in host.done if "set_event_pid" in line]
    assert filters == ["4242", "4243", "4244", "4245 4246"]
    assert listed == []
    backend.detach()


def test_a_process_that_is_gone_is_no_trace_of_everybody(host: FakeTracefs) -> None:
    backend = TracefsBackend(host, plan())
    backend.attach([4242])
    assert host.read_text(f"{TRACEFS}/instances/{backend.group}/set_event_pid").split() == ["4242"]
    backend.detach()


def test_a_kernel_has_kprobes_and_expedited_grace_periods_only_while_they_go(host: FakeTracefs) -> None:
    Path(host.path("/sys/kernel/rcu_expedited")).write_text("0\n")
    backend = TracefsBackend(host, plan(kernel=True))
    assert backend.attach() == []
    name = backend.group
    assert host.read_text(f"{TRACEFS}/kprobe_events").splitlines()[1] == (
        f"p:{name}/sites0_{os.getpid()}_1000 _stext+0x11 k=\\1:u32 a0=%di:u64 a1=+7(%di):string comm=$comm:string"
    )
    assert not any("rcu" in line for line in host.done)
    assert backend.detach() == []
    order = [
        line for line in host.done if "rcu" in line or line.startswith("kprobe_events <-") or "enable <- 0" in line
    ]
    assert order == [
        "/sys/kernel/rcu_expedited <- 1",
        f"instances/{name}/events/{name}/enable <- 0",
        f"kprobe_events <- -:{name}/sites0_{os.getpid()}_1000",
        "/sys/kernel/rcu_expedited <- 0",
    ]
    backend.attach()
    host.done.clear()
    backend.disable()
    assert host.done == [
        "/sys/kernel/rcu_expedited <- 1",
        f"instances/{name}/events/{name}/enable <- 0",
        "/sys/kernel/rcu_expedited <- 0",
    ]
    backend.detach()
    assert not host.exists(expedite.SAVED)


def test_a_value_left_by_a_process_that_died_is_restored(host: FakeTracefs) -> None:
    Path(host.path("/sys/kernel/rcu_expedited")).write_text("1\n")
    host.create(expedite.SAVED, "0")
    assert expedite.restore(host) == "0"
    assert host.read_text("/sys/kernel/rcu_expedited") == "0\n"
    assert expedite.restore(host) is None
    host.create(expedite.SAVED, "0")
    with expedite.expedited(host):
        assert host.read_text("/sys/kernel/rcu_expedited") == "1\n"
    assert host.read_text("/sys/kernel/rcu_expedited") == "0\n"


def test_a_probe_that_the_kernel_refuses_leaves_the_others(host: FakeTracefs) -> None:
    host.reject = lambda line: errno.EINVAL if ":0x10 " in line else None
    Path(host.path(f"{TRACEFS}/error_log")).write_text("[ 1.0] trace_uprobe: error: Bad place\n  Command: p:...\n")
    backend = TracefsBackend(host, plan())
    (refused,) = backend.attach()
    assert refused.refusal is Refusal.REJECTED
    assert refused.detail == "Invalid argument: Bad place"
    assert [probe.number for event in backend.events for probe in event.probes] == [1]
    assert backend.detach() == []


def test_a_probe_that_the_kernel_refuses_when_it_is_enabled_leaves_the_others(host: FakeTracefs) -> None:
    host.reject_enabled = lambda line: {":0x12 ": 524, ":0x13 ": errno.EINVAL}.get(line.partition("/bin/x")[2][:6])
    backend = TracefsBackend(host, plan(count=7))
    assert [(item.site.address, item.refusal, item.detail) for item in backend.attach()] == [
        (0x1002, Refusal.REJECTED, "the kernel cannot step over this instruction"),
        (0x1003, Refusal.REJECTED, "Invalid argument"),
    ]
    enabled = [probe.number for event in backend.events for probe in event.probes]
    assert enabled == [0, 1, 4, 5, 6]
    place = f"{TRACEFS}/instances/{backend.group}/events/{backend.group}"
    assert [event for event in host.names(place) if host.exists(f"{place}/{event}/enable")] == sorted(
        {line.split()[0].partition("/")[2] for line in host.read_text(f"{TRACEFS}/uprobe_events").splitlines()}
    )
    assert {
        event for event in host.names(place) if event != "enable" and host.read_text(f"{place}/{event}/enable") == "1\n"
    } == {event.name for event in backend.events}
    assert backend.detach() == []
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""


def test_an_error_while_attaching_leaves_nothing(host: FakeTracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "read_text", _breaks_on("format", host.read_text))
    with pytest.raises(FormatError):
        TracefsBackend(host, plan()).attach()
    monkeypatch.undo()
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""
    assert host.names(f"{TRACEFS}/instances") == []


def test_a_kernel_without_room_is_one_line_and_nothing_is_left(
    host: FakeTracefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the instance, its buffers, the events."""
    place = f"{TRACEFS}/instances/inlinetrace_{os.getpid()}_1000"

    def no_room(path: str, *rest: object, **more: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory", path)

    write = host.write
    with monkeypatch.context() as patch:
        patch.setattr(host, "make_directory", no_room)
        with pytest.raises(InlineTraceError, match="no room for the trace: Cannot allocate memory; take a smaller"):
            TracefsBackend(host, plan()).attach()
    with monkeypatch.context() as patch:
        patch.setattr(
            host,
            "write",
            lambda path, *rest, **more: (no_room if "buffer_size" in path else write)(path, *rest, **more),
        )
        with pytest.raises(InlineTraceError) as caught:
            TracefsBackend(host, plan()).attach()
        assert caught.value.path == f"{place}/buffer_size_kb"
    for number in (errno.ENOMEM, errno.ENOSPC, errno.ENODEV):
        asked: list[str] = []

        def reject(line: str, number: int = number, asked: list[str] = asked) -> int | None:
            asked.append(line)
            return number if ":0x12 " in line else None

        host.reject = reject
        with pytest.raises(InlineTraceError, match="no room"):
            TracefsBackend(host, plan(count=5)).attach()
        # no more is asked of a kernel that is full
        assert len(asked) == 3
        assert host.read_text(f"{TRACEFS}/uprobe_events") == ""
        assert host.names(f"{TRACEFS}/instances") == []


def _breaks_on(name: str, read):  # type: ignore[no-untyped-def]
    return lambda path: "nonsense" if path.endswith(name) else read(path)


def test_a_machine_without_what_it_takes(tmp_path: Path) -> None:
    from inlinetrace.target.host import Host

    with pytest.raises(NotPermittedError, match="mount -t tracefs"):
        TracefsBackend(Host(tmp_path), plan()).attach()
    host = FakeTracefs(tmp_path / "other")
    host.remove(f"{TRACEFS}/uprobe_events")
    with pytest.raises(NotPermittedError, match="CONFIG_UPROBE_EVENTS"):
        TracefsBackend(host, plan()).attach()


def test_a_machine_that_panics_on_warnings_gets_no_text(host: FakeTracefs) -> None:
    os.makedirs(host.path("/proc/sys/kernel"))
    Path(host.path("/proc/sys/kernel/panic_on_warn")).write_text("1\n")
    with pytest.raises(NotPermittedError, match="panic_on_warn"):
        TracefsBackend(host, plan()).attach()


def test_what_reading_leaves_is_not_read_at_once(host: FakeTracefs) -> None:
    """A trace of what the kernel does to read a buffer would read for ever."""
    backend = TracefsBackend(host, plan(kernel=True))
    backend.attach()
    raw = Path(host.path(f"{TRACEFS}/instances/{backend.group}/per_cpu/cpu0/trace_pipe_raw"))
    own = page(100, record(0x5000, 0, 7, threading.get_native_id()))
    other = page(200, record(0x5000, 0, 7), record(0x5000, 0, 8, threading.get_native_id()))
    raw.write_bytes(own + other + own)
    assert [(len(backend.read()), backend.busy) for _ in range(3)] == [(1, False), (3, False), (0, False)]
    raw.write_bytes(own + own)
    os.lseek(backend._cpus[0].descriptor, 0, os.SEEK_SET)
    assert len(backend.read(last=True)) == 2
    backend.detach()


def test_records_are_read_in_the_order_of_time(host: FakeTracefs) -> None:
    backend = TracefsBackend(host, plan())
    backend.attach()
    raw = Path(host.path(f"{TRACEFS}/instances/{backend.group}/per_cpu/cpu0/trace_pipe_raw"))
    raw.write_bytes(page(100, record(0x5000, 0, 7), record(0x5001, 1, 8)))
    assert backend.read(last=True) == [
        (105, 0, 4242, 0, 0x5000, (7, True, b"cat")),
        (110, 0, 4242, 1, 0x5001, (8, True, b"cat")),
    ]
    backend.detach()


@pytest.mark.parametrize("kernel", [False, True])
def test_hits_by_the_count_of_the_kernel(kernel: bool, host: FakeTracefs) -> None:
    backend = TracefsBackend(host, plan(kernel))
    backend.attach()
    name = f"sites0_{os.getpid()}_1000"
    if kernel:
        text = f"  {name}    10   2\n  {name}  5  0\n  sites0_1  100  100\n"
    else:
        text = f"  /bin/x {name}    10\n  /bin/with blank {name}    7\n  /bin/x sites0_1  100\n"
    Path(host.path(f"{TRACEFS}/{'kprobe' if kernel else 'uprobe'}_profile")).write_text(text)
    assert backend.hits() == (Hits(15, 2) if kernel else Hits(17, 0))
    assert backend.unread() == 3
    backend.detach()


def test_a_machine_that_does_not_let_us_expedite_is_detached_all_the_same(host: FakeTracefs) -> None:
    Path(host.path("/sys/kernel/rcu_expedited")).write_text("0\n")
    Path(host.path("/run")).write_text("no directory")
    backend = TracefsBackend(host, plan(kernel=True))
    assert backend.attach() == []
    assert backend.detach() == []
    assert host.read_text(f"{TRACEFS}/kprobe_events") == ""
    assert host.read_text("/sys/kernel/rcu_expedited") == "0\n"


@pytest.mark.parametrize(("available_mb", "size"), [(100_000, 16384), (80, 10240), (1, 128), (0, 64)])
def test_buffers_leave_memory_to_others(host: FakeTracefs, available_mb: int, size: int) -> None:
    Path(host.path("/proc/meminfo")).write_text(f"MemAvailable: {available_mb << 10} kB\n")
    backend = TracefsBackend(host, plan())
    backend.attach()
    assert f"instances/{backend.group}/buffer_size_kb <- {size}" in host.done
    backend.detach()
