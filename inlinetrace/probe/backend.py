"""What a backend is: it attaches a plan, delivers what was hit, and removes everything.

There are two, tracefs and bcc. A session needs nothing else of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from inlinetrace.probe._ring import Record
    from inlinetrace.probe.groups import Hits
    from inlinetrace.probe.plan import Refused


class Totals(NamedTuple):
    """What the kernel has counted instead of passing on hits: hits by the number of the probe, histograms by function.

    A histogram has one count for each number of bits, see inlinetrace.probe.bpf_program.
    """

    hits: dict[int, int]
    histograms: dict[str, list[int]]


class Backend(Protocol):
    """One backend, for one trace."""

    @property
    def why_unrecorded(self) -> str:
        """Why the kernel may have counted hits that it did not record."""

    @property
    def busy(self) -> bool:
        """Whether the last read left records behind that can be had at once."""

    @property
    def may_lose_text(self) -> bool:
        """Whether the kernel drops hits whose text is long, without counting them."""
        ...

    @property
    def filtered(self) -> bool:
        """Whether the kernel leaves out hits that do not match."""

    def attach(self, processes: Sequence[int] | None = None) -> list[Refused]:
        """Attach everything, for these processes and what they start, or for all; return what was not accepted."""

    def read(self, *, last: bool = False) -> list[Record]:
        """The next records in the order of time, few or none; with ``last`` also those that may not be complete."""

    def disable(self) -> None:
        """Stop recording; what was recorded can still be read."""

    def totals(self) -> Totals | None:
        """What was counted in the kernel, once disabled; None if every hit is passed on."""

    def lost(self) -> int:
        """How many records were lost so far."""

    def hits(self) -> Hits | None:
        """How often the probes were hit by the kernel's count; None if it cannot be told."""

    def unread(self) -> int:
        """How many records were recorded and not passed on."""

    def process_names(self) -> dict[int, int]:
        """Processes of the threads that are known to have been there: thread to process."""

    def detach(self) -> list[str]:
        """Remove everything; return what had to be left, one line each. May be called at any time, and again."""
