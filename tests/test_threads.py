"""Tasks by several threads: results in their order, the first fault, and nothing begun after it."""

from __future__ import annotations

import threading
import weakref
from contextlib import nullcontext

import pytest

from inlinetrace._threads import Ahead, in_order, spread


@pytest.mark.parametrize("jobs", [1, 2, 5, 100])
def test_results_are_in_the_order_of_the_tasks(jobs: int) -> None:
    assert in_order(lambda number: number * number, range(50), jobs) == [number * number for number in range(50)]
    assert in_order(str, [], jobs) == []


@pytest.mark.parametrize("count", [1, 3, 100])
def test_each_worker_has_one_task_at_a_time(count: int) -> None:
    class Worker:
        def __init__(self) -> None:
            self.done: list[int] = []
            self.busy = threading.Lock()

        def work(self, number: int) -> int:
            with self.busy:
                self.done.append(number)
            return -number

    workers = [Worker() for _ in range(count)]
    assert spread([worker.work for worker in workers], range(50)) == [-number for number in range(50)]
    assert sorted(number for worker in workers for number in worker.done) == list(range(50))
    assert all(worker.done == sorted(worker.done) for worker in workers)
    assert spread([workers[0].work], []) == []


def test_threads_work_at_once() -> None:
    together = threading.Barrier(3, timeout=60)
    assert sorted(in_order(lambda _: together.wait(), range(3), 3)) == [0, 1, 2]


@pytest.mark.parametrize("jobs", [1, 4])
def test_the_first_task_that_fails_is_told(jobs: int) -> None:
    def work(number: int) -> None:
        if number in (3, 5):
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        in_order(work, range(1000), jobs)


def test_after_a_failure_nothing_is_begun() -> None:
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        if number == 3:
            raise ValueError(number)

    with pytest.raises(ValueError, match="3"):
        in_order(work, range(1000), 1)
    assert begun == [0, 1, 2, 3]


def test_an_interruption_of_the_calling_thread_is_raised() -> None:
    interrupted = threading.Event()

    def work(_: int) -> None:
        if threading.current_thread() is threading.main_thread():
            interrupted.set()
            raise KeyboardInterrupt
        assert interrupted.wait(60)

    with pytest.raises(KeyboardInterrupt):
        in_order(work, range(100), 3)


def test_work_ahead_gives_what_it_returned_or_raised() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        may_end.wait(60)
        return 7

    ahead = Ahead(work, 2)
    assert begun.wait(60)
    may_end.set()
    assert (ahead.result(), ahead.result()) == (7, 7)
    with pytest.raises(ZeroDivisionError):
        Ahead(lambda: 1 // 0, 2).result()


class Held:
    """Something that a weak reference can lead to."""


@pytest.mark.parametrize("work", ["in order", "ahead", "ahead, not asked"])
def test_what_failed_work_had_at_hand_is_let_go_at_once(work: str) -> None:
    """Not by the collector of cycles: that takes a memoryview from under those who read it (CPython's memory_clear)."""
    seen: list[weakref.ref[Held]] = []

    def fail(_: int = 0) -> None:
        held = Held()
        seen.append(weakref.ref(held))
        raise ValueError(held)

    with pytest.raises(ValueError, match="Held") if work != "ahead, not asked" else nullcontext() as raised:
        if work == "in order":
            in_order(fail, range(1), 2)
        else:
            with Ahead(fail, 2) as ahead:
                if work == "ahead":
                    ahead.result()
    del raised
    assert [reference() for reference in seen] == [None]


def test_no_thread_outlasts_the_block() -> None:
    may_end = threading.Event()
    timer = threading.Timer(0.05, may_end.set)
    timer.start()
    with pytest.raises(KeyError), Ahead(lambda: may_end.wait(60), 2):
        raise KeyError
    assert may_end.is_set()
    timer.join()


def test_without_threads_work_ahead_is_done_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    done: list[int] = []
    ahead = Ahead(lambda: done.append(1), 2)
    assert not done
    ahead.result()
    ahead.result()
    assert done == [1]
