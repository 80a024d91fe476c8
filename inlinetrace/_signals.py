"""The signals that end a command, and who handles them.

>>> with handled(raise_interrupted): ...     # they raise Interrupted in the main thread, so that ``with`` blocks end
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Interrupted(KeyboardInterrupt):
    """A signal has come that ends the command; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def raise_interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """A handler that ends what is going on."""
    raise Interrupted(number)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have the signals that end a command handled inside of the block; only the main thread can."""
    before = {}
    try:
        for number in ENDING:
            known = signal.getsignal(number)
            # whoever started us with a signal ignored (nohup) wants it ignored
            if known is signal.SIG_IGN:
                continue
            try:
                signal.signal(number, handler)
            except ValueError:
                break
            before[number] = known
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, signal.SIG_DFL if known is None else known)
