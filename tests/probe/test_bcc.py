"""The bcc backend on a fake tracefs and with a library that only notes what is asked of it."""

from __future__ import annotations

import errno
import mmap
import os
import struct
from pathlib import Path

import pytest

from inlinetrace.elf.machine import X86_64
from inlinetrace.errors import FormatError, NotPermittedError
from inlinetrace.probe import emit
from inlinetrace.probe.bcc import BccBackend, Wanted
from inlinetrace.probe.bcc_library import ARRAY, HASH, KPROBE_PROGRAM, RING, SLEEPABLE, TRACEPOINT_PROGRAM
from inlinetrace.probe.fetch import Argument
from inlinetrace.probe.groups import Hits
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe, Refusal
from inlinetrace.sites.model import Site
from tests.probe.fake_tracefs import TRACEFS, FakeTracefs

ARGUMENTS = (Argument("%di", "u64"), Argument("+8(%di)", "u32"))
FORK = (
    "name: sched_process_fork\nID: 300\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
    "\tfield:pid_t child_pid;\toffset:44;\tsize:4;\tsigned:1;\n"
)


class FakeLibrary:
    """Hands out descriptors of empty files, and keeps the elements of maps."""

    def __init__(self, host: FakeTracefs) -> None:
        self.host = host
        self.elements: dict[int, dict[bytes, bytes]] = {}
        self.made: list[tuple[int, str]] = []
        self.programs: list[tuple[int, int]] = []
        self.attached: list[int] = []
        self.problem: OSError | None = None

    def make_map(self, kind: int, name: str, key_size: int, value_size: int, entries: int, flags: int = 0) -> int:
        self.made.append((kind, name))
        descriptor = os.memfd_create(name)
        if kind == RING:
            os.ftruncate(descriptor, 2 * mmap.PAGESIZE + 2 * entries)
        self.elements[descriptor] = {}
        return descriptor

    def update(self, table: int, key: bytes, value: bytes) -> None:
        self.elements[table][key] = value

    def lookup(self, table: int, key: bytes, size: int) -> bytes | None:
        return self.elements[table].get(key)

    def load_program(self, kind: int, name: str, code: bytes, flags: int = 0) -> int:
        assert len(code) % 8 == 0
        self.programs.append((kind, flags))
        return os.memfd_create(name)

    def attach_tracepoint(self, identity: int, program: int, processor: int) -> int:
        if self.problem is not None:
            raise self.problem
        self.attached.append(identity)
        self.host.done.append(f"perf event on {identity}")
        return os.memfd_create("perf")


def site(address: int) -> Site:
    return Site("f", True, address, ".text", 0, "g", 0, "void", ())


def plan(*addresses: int, kernel: bool = False) -> Plan:
    probes = [
        Probe(number, address, address - 0x1000, (LogicalHit(site(address), ()),), ARGUMENTS)
        for number, address in enumerate(addresses)
    ]
    return Plan("_stext" if kernel else "/bin/x", kernel, [Event("sites0", ("u64", "u32"), probes)], [])


@pytest.fixture
def host(tmp_path: Path) -> FakeTracefs:
    host = FakeTracefs(tmp_path)
    online = Path(host.path("/sys/devices/system/cpu/online"))
    online.parent.mkdir(parents=True)
    online.write_text("1-3\n")
    return host


def backend(host: FakeTracefs, plan: Plan, wanted: Wanted | None = None) -> tuple[BccBackend, FakeLibrary]:
    library = FakeLibrary(host)
    made = BccBackend(host, plan, X86_64, wanted, buffer_kb=4, library=library)  # type: ignore[arg-type]
    return made, library


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_attaching_and_detaching_a_program(host: FakeTracefs) -> None:
    before = descriptors()
    one, library = backend(host, plan(0x1000, 0x1010))
    assert one.attach() == []
    name = f"inlinetrace_{os.getpid()}_1000"
    assert one.group == name
    # nothing is fetched by the events: the program does that
    assert host.read_text(f"{TRACEFS}/uprobe_events").splitlines() == [
        f"p:{name}/sites0_{os.getpid()}_1000 /bin/x:0x0 k=\\0:u32",
        f"p:{name}/sites0_{os.getpid()}_1000 /bin/x:0x10 k=\\1:u32",
    ]
    assert library.made == [(ARRAY, "lost"), (RING, "hits"), (HASH, "sites")]
    assert library.programs == [(KPROBE_PROGRAM, SLEEPABLE)]
    assert library.attached == [77]
    assert one.read() == []
    assert one.detach() == []
    assert one.detach() == []
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""
    assert descriptors() == before


def test_perf_events_are_closed_before_the_events_are_deleted(
    host: FakeTracefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = backend(host, plan(0x1000))
    one.attach()
    close = os.close

    def noted(descriptor: int) -> None:
        link = os.readlink(f"/proc/self/fd/{descriptor}")
        if "memfd:perf" in link:
            host.done.append("close perf event")
        close(descriptor)

    monkeypatch.setattr(os, "close", noted)
    host.done.clear()
    assert one.detach() == []
    assert host.done == [
        "close perf event",
        f"uprobe_events <- -:inlinetrace_{os.getpid()}_1000/sites0_{os.getpid()}_1000",
    ]


def test_a_kernel_has_kprobes_whose_programs_do_not_sleep(host: FakeTracefs) -> None:
    Path(host.path("/sys/kernel/rcu_expedited")).write_text("0\n")
    one, library = backend(host, plan(0x1000, kernel=True))
    assert one.attach() == []
    assert library.programs == [(KPROBE_PROGRAM, 0)]
    assert host.read_text(f"{TRACEFS}/kprobe_events") == (
        f"p:{one.group}/sites0_{os.getpid()}_1000 _stext+0x0 k=\\0:u32\n"
    )
    host.done.clear()
    one.disable()
    one.disable()
    assert one.detach() == []
    assert [line for line in host.done if "rcu" in line] == [
        f"/sys/kernel/rcu_expedited <- {value}" for value in (1, 0, 1, 0)
    ]


@pytest.mark.parametrize(
    ("kernel", "fixed", "addresses", "events"),
    [
        (False, False, (0x1010, 0x2010, 0x2020, 0x3010), [[0, 2], [1], [3]]),
        (False, True, (0x401010, 0x402010), [[0, 1]]),
        (True, False, (0x1010, 0x2010, 0x201010), [[0, 1], [2]]),
    ],
)
def test_sites_that_only_uncertain_bits_tell_apart_are_in_events_of_their_own(
    kernel: bool, fixed: bool, addresses: tuple[int, ...], events: list[list[int]], host: FakeTracefs
) -> None:
    one, library = backend(host, plan(*addresses, kernel=kernel), Wanted(fixed=fixed))
    assert one.attach() == []
    assert [[probe.number for probe in event.probes] for event in one.events] == events
    assert len(library.attached) == len(events)
    mask = (1 << 64) - 1 if fixed else 0x1FFFFF if kernel else 0xFFF
    keys = [set(elements) for elements in library.elements.values() if elements]
    assert keys == [{struct.pack("=Q", addresses[number] & mask) for number in numbers} for numbers in events]
    assert one.detach() == []


def test_what_is_started_is_followed_only_if_that_is_wanted(host: FakeTracefs) -> None:
    for event in ("sched_process_fork", "sched_process_exit"):
        folder = Path(host.path(f"{TRACEFS}/events/sched/{event}"))
        folder.mkdir(parents=True)
        (folder / "format").write_text(FORK)
    host.add_process(500, 1)
    for follow, programs in ((False, 0), (True, 2)):
        one, library = backend(host, plan(0x1000), Wanted(follow=follow))
        assert one.attach([500]) == []
        assert [kind for kind, _ in library.programs].count(TRACEPOINT_PROGRAM) == programs
        assert {struct.pack("=I", 500): struct.pack("=I", 1)} in library.elements.values()
        assert one.detach() == []


def test_a_probe_that_the_kernel_refuses_leaves_the_others(host: FakeTracefs) -> None:
    host.reject = lambda line: errno.EINVAL if ":0x0 " in line else None
    one, _ = backend(host, plan(0x1000, 0x1010))
    (refused,) = one.attach()
    assert refused.refusal is Refusal.REJECTED
    assert [probe.number for event in one.events for probe in event.probes] == [1]
    assert one.detach() == []


def test_a_probe_that_the_kernel_refuses_when_it_is_attached_leaves_the_others(
    host: FakeTracefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, library = backend(host, plan(0x1000, 0x1010, 0x1020, 0x1030, 0x1040))
    host.reject_enabled = lambda line: 524 if ":0x20 " in line else None
    open_event = one._open

    def attach(library: object, identity: int, program: int) -> None:
        host.check_enabled(opened[-1])
        open_event(library, identity, program)  # type: ignore[arg-type]

    opened: list[str] = []
    identify = one._identity

    def identity(event: str) -> tuple[int, dict[str, int]]:
        opened.append(event.partition("/")[2])
        return identify(event)

    monkeypatch.setattr(one, "_open", attach)
    monkeypatch.setattr(one, "_identity", identity)
    assert [(item.site.address, item.refusal) for item in one.attach()] == [(0x1020, Refusal.REJECTED)]
    assert [probe.number for event in one.events for probe in event.probes] == [0, 1, 3, 4]
    assert len(library.attached) == 2
    assert one.detach() == []
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""


def test_an_event_that_cannot_be_attached_is_refused(host: FakeTracefs) -> None:
    one, library = backend(host, plan(0x1000, 0x1010))
    library.problem = OSError(errno.EINVAL, "Invalid argument")
    refused = one.attach()
    assert [(item.refusal, item.detail) for item in refused] == [(Refusal.REJECTED, "Invalid argument")] * 2
    assert one.detach() == []


def test_an_error_while_attaching_leaves_nothing(host: FakeTracefs, monkeypatch: pytest.MonkeyPatch) -> None:
    before = descriptors()
    one, library = backend(host, plan(0x1000))

    def fail(*arguments: object) -> int:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(library, "load_program", fail)
    with pytest.raises(NotPermittedError, match="not permitted"):
        one.attach()
    read = host.read_text
    monkeypatch.setattr(host, "read_text", lambda path: "nonsense" if path.endswith("format") else read(path))
    other, _ = backend(host, plan(0x1000))
    with pytest.raises(FormatError):
        other.attach()
    monkeypatch.undo()
    assert host.read_text(f"{TRACEFS}/uprobe_events") == ""
    assert descriptors() == before


def test_counts_are_read_from_the_entries_of_the_table(host: FakeTracefs) -> None:
    one, library = backend(host, plan(0x1000, 0x1010), Wanted(counts=True))
    assert one.attach() == []
    assert (RING, "hits") not in library.made
    (table,) = [elements for elements in library.elements.values() if elements]
    for key, value in table.items():
        table[key] = struct.pack("=Q", 3 + struct.unpack("=Q", key)[0]) + value[8:]
    totals = one.totals()
    assert totals is not None
    assert totals.hits == {0: 3, 1: 19}
    assert one.lost() == 0
    assert one.detach() == []


def test_hits_are_passed_on_if_the_kernel_cannot_count_them(host: FakeTracefs) -> None:
    texts = plan(0x1000)
    texts.events[0].probes[0].arguments = (Argument("+0(%di)", "string"),)
    one, library = backend(host, texts, Wanted(counts=True))
    assert one.attach() == []
    assert one.totals() is None
    assert (RING, "hits") in library.made
    assert one.detach() == []


def test_hits_are_counted_while_the_programs_are_on_the_probes(host: FakeTracefs) -> None:
    one, _ = backend(host, plan(0x1000))
    profile = Path(host.path(f"{TRACEFS}/uprobe_profile"))

    def count(hits: int) -> None:
        profile.write_text(f"  /bin/x {' ' * 20} sites0_{os.getpid()}_1000 {hits}\n  /bin/x another {hits}\n")

    count(100)
    assert one.attach() == []
    count(150)
    assert one.hits() is None
    one.disable()
    # the kernel takes the probes off after the programs
    count(170)
    assert one.hits() == Hits(50, 0)
    assert one.detach() == []


def test_the_plan_is_printed_as_it_is_attached(host: FakeTracefs) -> None:
    one, library = backend(host, plan(0x1010, 0x2010))
    planned = one.planned()
    assert [[probe.number for probe in event.probes] for event in planned.events] == [[0], [1]]
    assert list(emit.plan_text(planned, fetches=False))[:2] == [
        "event sites0: 1 probes",
        "  p:inlinetrace/sites0 /bin/x:0x10 k=\\0:u32",
    ]
    assert library.made == []
    assert one.attach() == []
    lines = host.read_text(f"{TRACEFS}/uprobe_events").splitlines()
    assert [line.split(maxsplit=1)[1] for line in lines] == ["/bin/x:0x10 k=\\0:u32", "/bin/x:0x1010 k=\\1:u32"]
    assert one.detach() == []
