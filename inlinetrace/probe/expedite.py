"""Expedited grace periods of RCU while kprobes are removed.

Removing a thousand kprobes waits for a thousand grace periods, 18 seconds on a small machine, less than a second when
they are expedited. The switch is one for the whole machine: it is changed under a lock, and its old value is
kept in a file until it is restored, so that whoever comes after a crash can do it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.target.host import Host

SWITCH = "/sys/kernel/rcu_expedited"
DIRECTORY = "/run/inlinetrace"
SAVED = f"{DIRECTORY}/rcu_expedited"
_LOCK = f"{DIRECTORY}/lock"


@contextmanager
def _locked(host: Host) -> Iterator[None]:
    os.makedirs(host.path(DIRECTORY), mode=0o700, exist_ok=True)
    descriptor = host.open(_LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def restore(host: Host) -> str | None:
    """Put back the value that a process which is gone has left changed; return it, None if there is none."""
    if not host.exists(SAVED):
        return None
    with _locked(host):
        return _restore(host)


def _restore(host: Host) -> str | None:
    try:
        value = host.read_text(SAVED).strip()
    except FileNotFoundError:
        return None
    if value.isdecimal():
        host.write(SWITCH, f"{value}\n")
    host.remove(SAVED)
    return value


@contextmanager
def expedited(host: Host) -> Iterator[None]:
    """Have grace periods expedited inside of the block, if the machine lets us: else they only take longer."""
    with ExitStack() as stack:
        try:
            if host.exists(SWITCH):
                stack.enter_context(_locked(host))
                # a value that is still there was left by a process that died; it is the one to go back to
                if not host.exists(SAVED):
                    host.create(SAVED, host.read_text(SWITCH).strip())
                stack.callback(_restore, host)
                host.write(SWITCH, "1\n")
        except OSError:
            stack.close()
        yield
