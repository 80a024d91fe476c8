"""One trace from attaching to detaching: reads, filters, counts, and ends when it should.

>>> session = Session(host, backend, decoder, emit)
>>> session.run(limits)

Whatever happens in between, everything is detached: an error, a closed pipe, a signal. Signals are only noted while the
trace runs, so that none of them can interrupt the detaching; what waits for a reader looks at them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace._signals import handled
from inlinetrace.errors import PartialError
from inlinetrace.probe.plan import Refused

if TYPE_CHECKING:
    from inlinetrace.probe.backend import Backend, Totals
    from inlinetrace.probe.child import Child
    from inlinetrace.probe.events import Decoder, Hit
    from inlinetrace.probe.plan import Plan
    from inlinetrace.probe.where import Condition
    from inlinetrace.target.host import Host

_IDLE = (0.002, 0.05)
# A thread's number may be given to another one; what was looked up is not kept for longer.
_FORGET_AFTER = 5.0


class Limits(NamedTuple):
    """When a trace ends, and what of it is wanted. ``processes``: only these, None for all.

    ``watch`` is asked again and again whether what is traced is still there; what it says ends the trace. ``check``
    raises if what was recorded so far may be wrong.
    """

    hits: int | None = None
    seconds: float | None = None
    processes: frozenset[int] | None = None
    condition: Condition | None = None
    require_all: bool = False
    watch: Callable[[], str | None] | None = None
    check: Callable[[], None] = lambda: None


class Outcome:
    """What came of a trace. ``by_site`` counts what was shown by function, symbol and place; ``left`` was not removed.

    ``totals`` is what the kernel counted, where it did not pass on hits. ``gone`` says why what was traced is not there
    any more. ``unrecorded`` has hits of other processes too if ``others``; ``missed`` found the processor inside of
    another probe.
    """

    def __init__(self, why_unrecorded: str = "") -> None:
        self.refused: list[Refused] = []
        self.records = self.shown = self.lost = self.unrecorded = 0
        self.missed = 0
        self.others = False
        self.left: list[str] = []
        self.signal: int | None = None
        self.totals: Totals | None = None
        self.gone: str | None = None
        self.why_unrecorded = why_unrecorded
        self.by_site: Counter[tuple[str, str, int]] = Counter()
        self.attach_seconds = self.detach_seconds = 0.0


class Processes:
    """Which process a thread belongs to, also when it is gone already.

    Records have the machine's numbers: in a PID namespace /proc has other processes under them, and is not asked.
    """

    def __init__(self, host: Host, noted: Callable[[], dict[int, int]]) -> None:
        self._host = host
        self._noted = noted
        self._asks_host = host.sees_every_process
        self._known: dict[int, int | None] = {}
        self._since = time.monotonic()

    def learn(self, threads: Iterable[int]) -> None:
        """Find the processes of threads that have just been met, and forget what may have changed."""
        now = time.monotonic()
        if now - self._since > _FORGET_AFTER:
            self._known.clear()
            self._since = now
        gone = []
        for thread in threads:
            if thread not in self._known:
                process = self._known[thread] = self._host.process_of(thread) if self._asks_host else None
                if process is None:
                    gone.append(thread)
        if gone:
            # of other threads the kernel may have noted what their numbers were before
            noted = self._noted()
            self._known.update((thread, noted.get(thread)) for thread in gone)

    def of(self, thread: int) -> int | None:
        """The process of a thread that was learned, None if nobody knows."""
        return self._known.get(thread)


class Session:
    """One trace. ``emit`` gets each hit with its process; ``flush`` is called after each batch.

    While it waits for a reader, it asks what it is given whether to give up; it returns whether all was written.
    """

    def __init__(
        self,
        host: Host,
        plan: Plan,
        backend: Backend,
        decoder: Decoder,
        emit: Callable[[Hit, int | None], None],
        flush: Callable[[Callable[[], bool]], bool],
        attached: Callable[[Outcome], None],
    ) -> None:
        self._host = host
        self._plan = plan
        self._backend = backend
        self._decoder = decoder
        self._emit = emit
        self._flush = flush
        self._attached = attached
        self._processes = Processes(host, backend.process_names)
        self.outcome = Outcome(why_unrecorded=backend.why_unrecorded)

    def run(self, limits: Limits, *, processes: Sequence[int] | None = None, child: Child | None = None) -> Outcome:
        """Attach, trace until a limit, the end of ``child`` or a signal, detach.

        ``processes`` and what they start are traced, all if None. Raises PartialError under ``require_all``, before
        the child is started, and if nothing could be attached; and what ``limits.check`` raises.
        """
        outcome = self.outcome
        signals: list[int] = []
        with handled(lambda number, frame: signals.append(number)):
            try:
                started = time.monotonic()
                outcome.refused = [*self._plan.refused, *self._backend.attach(processes)]
                outcome.attach_seconds = time.monotonic() - started
                self._judge(limits)
                limits.check()
                self._attached(outcome)
                if child is not None:
                    child.start()
                self._loop(limits, child, signals)
                self._account(processes is None and limits.processes is None)
                limits.check()
            finally:
                started = time.monotonic()
                outcome.left = self._backend.detach()
                outcome.detach_seconds += time.monotonic() - started
                if child is not None:
                    child.end()
            outcome.signal = signals[0] if signals else None
        return outcome

    def _judge(self, limits: Limits) -> None:
        refused = self.outcome.refused
        total = self._plan.sites + len(self._plan.refused)
        if refused and (limits.require_all or len(refused) >= total):
            first = refused[0]
            why = f"{first.refusal.value}{': ' if first.detail else ''}{first.detail}"
            raise PartialError(f"{total - len(refused)} of {total} sites can be attached ({why}); nothing is attached")

    def _loop(self, limits: Limits, child: Child | None, signals: list[int]) -> None:
        begin = time.monotonic()
        idle = _IDLE[0]
        while True:
            ending = bool(signals) or (child is not None and child.ended())
            ending = ending or (limits.seconds is not None and time.monotonic() - begin >= limits.seconds)
            if limits.watch is not None:
                self.outcome.gone = limits.watch()
                ending = ending or self.outcome.gone is not None
            if ending:
                break
            if self._batch(limits, signals, False):
                return
            if self._backend.busy:
                idle = _IDLE[0]
            else:
                idle = min(idle * 2, _IDLE[1])
                time.sleep(idle)
        self._disable()
        while True:
            if self._batch(limits, signals, True) or not self._backend.busy:
                return

    def _disable(self) -> None:
        """Stop recording, which is the first part of detaching."""
        started = time.monotonic()
        self._backend.disable()
        self.outcome.detach_seconds += time.monotonic() - started

    def _batch(self, limits: Limits, signals: list[int], last: bool) -> bool:
        """Read and show what there is; whether that was the last: the count is reached, or nobody reads any more."""
        records = self._backend.read(last=last)
        # after they were read, so that it holds for all of them
        limits.check()
        if not records:
            return False
        outcome, processes, emit, condition = self.outcome, self._processes, self._emit, limits.condition
        processes.learn({record[2] for record in records})
        # what a trace of everything does itself is no news
        own = os.getpid() if limits.processes is None and self._plan.kernel else None
        outcome.records += len(records)
        done = False
        for record in records:
            process = processes.of(record[2])
            if process is not None and process == own:
                continue
            if limits.processes is not None and process is not None and process not in limits.processes:
                continue
            for hit in self._decoder.hits(record):
                if condition is not None and not condition.holds(hit.values):
                    continue
                emit(hit, process)
                outcome.shown += 1
                site = hit.site
                outcome.by_site[site.function, site.symbol or "", site.address] += 1
                if limits.hits is not None and outcome.shown >= limits.hits:
                    done = True
                    break
            if done:
                break
        return not self._flush(lambda: bool(signals)) or done

    def _account(self, everything: bool) -> None:
        """What the kernel counted and we did not see."""
        outcome = self.outcome
        self._disable()
        outcome.totals = self._backend.totals()
        if outcome.totals is not None:
            self._count(outcome.totals)
        outcome.lost = self._backend.lost()
        outcome.others = not everything
        told = not self._backend.filtered and (everything or self._backend.may_lose_text)
        hits = self._backend.hits() if told else None
        if hits is not None:
            # with --count some records are left unread
            outcome.unrecorded = max(0, hits.hits - outcome.records - outcome.lost - self._backend.unread())
            outcome.missed = hits.missed

    def _count(self, totals: Totals) -> None:
        """What the kernel has counted, as if it had been shown."""
        outcome = self.outcome
        for probe in self._plan.probes:
            hits = totals.hits.get(probe.number, 0)
            outcome.records += hits
            for logical in probe.hits if hits else ():
                site = logical.site
                outcome.shown += hits
                outcome.by_site[site.function, site.symbol or "", site.address] += hits
