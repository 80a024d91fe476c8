"""Work on many tasks by several threads, and on one while this thread goes on.

>>> in_order(scan, tasks, jobs=2)                # [scan(task) for task in tasks]
>>> spread([first.scan, second.scan], tasks)     # the same, by readers that keep what they have found
>>> with Ahead(load, jobs=2) as ahead:           # begins now
...     ahead.result()                           # what load() has returned or raised

concurrent.futures does this too, and costs every start of a command a tenth of its time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, NoReturn, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def in_order(work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> list[Result]:
    """Return what ``work`` gives for each task, in their order, by as many threads as ``jobs``; else as ``spread``."""
    return spread([work] * max(1, min(jobs, len(tasks))), tasks)


def spread(workers: Sequence[Callable[[Task], Result]], tasks: Sequence[Task]) -> list[Result]:
    """Return what was made of each task, in their order, by one of ``workers``: each has a thread of its own.

    The first one's is the calling thread. Tasks are begun in order, by whoever is free. After an exception no more are
    begun, and that of the first task which failed is raised.
    """
    results: dict[int, Result] = {}
    failed: dict[int, BaseException] = {}
    waiting = iter(range(len(tasks)))
    lock = threading.Lock()

    def next_task() -> int | None:
        with lock:
            return None if failed else next(waiting, None)

    def run(work: Callable[[Task], Result]) -> None:
        while (number := next_task()) is not None:
            try:
                results[number] = work(tasks[number])
            except BaseException as error:
                failed[number] = error

    threads: list[threading.Thread] = []
    try:
        # where no more threads can be had, fewer do it
        with suppress(RuntimeError):
            for worker in workers[1 : len(tasks)]:
                thread = threading.Thread(target=run, args=(worker,))
                thread.start()
                threads.append(thread)
        run(workers[0])
        for thread in threads:
            thread.join()
    except BaseException as error:
        # Ctrl-C outside of the work itself: the others end with what they are at
        failed[-1] = error
        for thread in threads:
            thread.join()
    if failed:
        raise_once(failed, min(failed))
    return [results[number] for number in range(len(tasks))]


def raise_once(failed: dict[int, BaseException], number: int) -> NoReturn:
    """Raise one of the exceptions and forget them all.

    One that is remembered where its traceback leads is freed by the collector of cycles only, which lets go of a
    memoryview before those who still read it (CPython's memory_clear).
    """
    error = failed[number]
    failed.clear()
    try:
        raise error
    finally:
        del error


class Ahead(Generic[Result]):
    """``work``, begun in a thread of its own.

    With one of ``jobs``, or where no thread can be had, it waits until ``result`` is asked for.
    """

    def __init__(self, work: Callable[[], Result], jobs: int) -> None:
        self._work = work
        self._done: list[Result] = []
        self._failed: dict[int, BaseException] = {}
        self._thread: threading.Thread | None = None
        if jobs > 1:
            thread = threading.Thread(target=self._run)
            with suppress(RuntimeError):
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        try:
            self._done.append(self._work())
        except BaseException as error:
            self._failed[0] = error

    def __enter__(self) -> Ahead[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        """Wait, so that no thread goes on behind a failure elsewhere; what it has raised then is not told."""
        if self._thread is not None:
            self._thread.join()
        self._failed.clear()

    def result(self) -> Result:
        """Wait for the work and return what it returned, or raise what it raised; not to be asked again then."""
        if self._thread is not None:
            self._thread.join()
        elif not self._done and not self._failed:
            self._run()
        if self._failed:
            raise_once(self._failed, 0)
        return self._done[0]
