"""A trace from attaching to detaching, with a backend that has nothing to do with a kernel."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inlinetrace.errors import InlineTraceError, NotFoundError, PartialError
from inlinetrace.probe.child import Child
from inlinetrace.probe.events import Hit
from inlinetrace.probe.groups import Hits
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe, Refusal, Refused
from inlinetrace.probe.session import Limits, Processes, Session
from inlinetrace.sites.model import Site
from inlinetrace.target.host import Host

if TYPE_CHECKING:
    from inlinetrace.probe._ring import Record
    from inlinetrace.probe.backend import Totals

SITE = Site("f", True, 0x1000, ".text", 0, "g", 0, "void", ())


class FakeBackend:
    """Gives batches of records, then nothing; or only counts, ``sums`` being what it says of them."""

    why_unrecorded = "nobody knows"
    filtered = False
    may_lose_text = False
    sums: Totals | None = None

    def __init__(self, *batches: list[Record], refused: list[Refused] | None = None) -> None:
        self.batches = list(batches)
        self.refused = refused or []
        self.done: list[str] = []
        self.busy = False

    def attach(self, processes: list[int] | None = None) -> list[Refused]:
        self.done.append("attach")
        return self.refused

    def read(self, *, last: bool = False) -> list[Record]:
        batch = self.batches.pop(0) if self.batches else []
        self.busy = bool(self.batches)
        return batch

    def disable(self) -> None:
        self.done.append("disable")

    def lost(self) -> int:
        return 3

    def hits(self) -> Hits | None:
        return Hits(10, 4)

    def unread(self) -> int:
        return 1

    def process_names(self) -> dict[int, int]:
        return {}

    def totals(self) -> Totals | None:
        return self.sums

    def detach(self) -> list[str]:
        self.done.append("detach")
        return []


class FakeDecoder:
    def hits(self, record: Record) -> list[Hit]:
        return [Hit(record[0], 0, record[2], "x", SITE, 0, {}, {})]


def session(backend: FakeBackend, seen: list[Hit], plan: Plan | None = None) -> Session:
    def emit(hit: Hit, process: int | None) -> None:
        if hit.time == 666:
            raise BrokenPipeError
        if hit.time == 777:
            os.kill(os.getpid(), signal.SIGTERM)
        seen.append(hit)

    one = Event("sites0", (), [Probe(0, 0x1000, 0, (LogicalHit(SITE, ()),))])
    return Session(
        Host(),
        plan or Plan("/bin/x", False, [one], []),
        backend,  # type: ignore[arg-type]
        FakeDecoder(),  # type: ignore[arg-type]
        emit,
        lambda give_up: True,
        lambda outcome: None,
    )


def records(*times: int) -> list[Record]:
    return [(time, 0, os.getpid(), 0, 0x1000, (b"x",)) for time in times]


def test_a_count_ends_a_trace() -> None:
    seen: list[Hit] = []
    backend = FakeBackend(records(1, 2), records(3, 4))
    outcome = session(backend, seen).run(Limits(hits=3))
    assert [hit.time for hit in seen] == [1, 2, 3]
    assert (outcome.shown, outcome.lost) == (3, 3)
    # ten by the kernel's count: four read, three lost, one still in the buffer
    assert (outcome.unrecorded, outcome.missed) == (2, 4)
    assert backend.done == ["attach", "disable", "detach"]


@pytest.mark.parametrize(("kernel", "named", "shown"), [(True, False, 0), (True, True, 2), (False, False, 2)])
def test_a_trace_of_the_kernel_does_not_show_itself(kernel: bool, named: bool, shown: int) -> None:
    """What it does to read hits would be hits again; a process that is named is one that is wanted."""
    seen: list[Hit] = []
    one = Event("sites0", (), [Probe(0, 0x1000, 0, (LogicalHit(SITE, ()),))])
    limits = Limits(seconds=0, processes=frozenset([os.getpid()]) if named else None)
    outcome = session(FakeBackend(records(1, 2)), seen, Plan("_stext", kernel, [one], [])).run(limits)
    assert (len(seen), outcome.shown, outcome.records) == (shown, shown, 2)


def test_hits_that_may_have_been_of_other_processes_are_told_where_text_is_lost() -> None:
    for loses, filtered, unrecorded in ((False, False, 0), (True, False, 2), (True, True, 0)):
        backend = FakeBackend(records(1, 2), records(3, 4))
        backend.may_lose_text, backend.filtered = loses, filtered
        outcome = session(backend, []).run(Limits(hits=4), processes=[os.getpid()])
        assert (outcome.unrecorded, outcome.others) == (unrecorded, True)


def test_what_the_kernel_has_counted_counts_as_shown() -> None:
    from inlinetrace.probe.backend import Totals

    backend = FakeBackend()
    backend.sums = Totals({0: 6}, {})
    outcome = session(backend, []).run(Limits(seconds=0.01))
    assert (outcome.shown, outcome.records, outcome.lost) == (6, 6, 3)
    assert outcome.by_site == {("f", "g", 0x1000): 6}
    assert outcome.totals is backend.sums
    assert outcome.unrecorded == 0
    assert outcome.why_unrecorded == "nobody knows"


def test_whatever_happens_all_is_detached() -> None:
    backend = FakeBackend(records(1, 666))
    with pytest.raises(BrokenPipeError):
        session(backend, []).run(Limits())
    assert backend.done[-1] == "detach"


def test_what_was_read_before_a_check_failed_is_not_shown() -> None:
    seen: list[Hit] = []
    backend = FakeBackend(records(1), records(2), records(3))

    def check() -> None:
        # attached, and read once
        if len(backend.batches) == 1:
            raise InlineTraceError("changed")

    with pytest.raises(InlineTraceError, match="changed"):
        session(backend, seen).run(Limits(check=check))
    assert [hit.time for hit in seen] == [1]
    assert backend.done[-1] == "detach"


def test_a_signal_ends_a_trace_after_the_records_that_are_there() -> None:
    seen: list[Hit] = []
    before = signal.getsignal(signal.SIGTERM)
    outcome = session(FakeBackend(records(777), records(2), records(3)), seen).run(Limits())
    assert outcome.signal == signal.SIGTERM
    assert [hit.time for hit in seen] == [777, 2, 3]
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_ends_a_trace_whose_reader_does_not_read() -> None:
    """All is detached; what was read and not written is given up."""
    backend = FakeBackend(records(777), records(2))
    one = session(backend, [])
    one._flush = lambda give_up: not give_up()
    outcome = one.run(Limits())
    assert outcome.signal == signal.SIGTERM
    assert outcome.shown == 1
    assert backend.done == ["attach", "disable", "detach"]


def test_a_trace_in_another_thread() -> None:
    seen: list[Hit] = []
    run = session(FakeBackend(records(1)), seen).run
    thread = threading.Thread(target=lambda: run(Limits(hits=1)))
    thread.start()
    thread.join()
    assert len(seen) == 1


def test_all_means_all_and_nothing_is_nothing() -> None:
    refused = [Refused(SITE, Refusal.REJECTED, "why")]
    for limits, plan in ((Limits(require_all=True), None), (Limits(), Plan("/bin/x", False, [], refused))):
        backend = FakeBackend(refused=[] if plan else refused)
        child = Child("/bin/true", [], to_stderr=True)
        with pytest.raises(PartialError, match=r"rejected: why.*nothing is attached"):
            session(backend, [], plan).run(limits, child=child)
        assert backend.done[-1] == "detach"
        with pytest.raises(ProcessLookupError):
            os.kill(child.pid, 0)


def test_a_program_is_held_until_all_is_attached(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child = Child("/bin/sh", ["-c", f"echo x > {mark}; exit 3"], to_stderr=True)
    assert not mark.exists()
    child.start()
    assert child.wait() == 3
    assert mark.exists()
    child.end()


def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    child = Child(str(tmp_path), [], to_stderr=True)
    with pytest.raises(NotFoundError, match="cannot be started: Permission denied"):
        child.start()
    child.end()


def test_a_program_that_goes_on_is_ended() -> None:
    child = Child("/bin/sleep", ["1000"], to_stderr=True)
    child.start()
    child.end()
    assert child.wait() == 128 + signal.SIGTERM


def test_in_a_pid_namespace_the_process_of_a_thread_is_what_the_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number is that of another thread in /proc."""
    monkeypatch.setattr(Host, "sees_every_process", False)
    noted = {os.getpid(): 7}
    processes = Processes(Host(), lambda: noted)
    processes.learn([os.getpid(), 1 << 30])
    assert processes.of(os.getpid()) == 7
    assert processes.of(1 << 30) is None


def test_processes_of_threads_that_are_gone() -> None:
    processes = Processes(Host(), lambda: {1 << 30: 5})
    processes.learn([os.getpid(), 1 << 30, (1 << 30) + 1])
    assert processes.of(os.getpid()) == os.getpid()
    assert processes.of(1 << 30) == 5
    assert processes.of((1 << 30) + 1) is None


def test_what_was_noted_of_a_number_before_a_thread_had_it_is_not_believed() -> None:
    gone, later = 1 << 30, (1 << 30) + 1
    noted = {gone: 5, later: 6}
    processes = Processes(Host(), lambda: noted)
    processes.learn([gone])
    noted[later] = 7
    processes.learn([gone, later])
    assert (processes.of(gone), processes.of(later)) == (5, 7)
