"""Whole processes measured: CPU time and peak memory of a command and everything it waited for."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = "{directory}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What one run cost: user + system and elapsed seconds, peak resident memory in bytes."""

    cpu: float
    wall: float
    memory: int


class CommandError(Exception):
    """A measured command failed."""


def _environment() -> dict[str, str]:
    """Ours, but bytecode is kept: an installed program has it."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(command: Sequence[str], directory: Path) -> Usage:
    """Run ``command``, its output into files in ``directory``; raises CommandError if it does not exit with 0.

    DIRECTORY in an argument stands for that directory.
    """
    command = [argument.replace(DIRECTORY, str(directory)) for argument in command]
    output, messages = directory / "stdout", directory / "stderr"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    actions = [
        (os.POSIX_SPAWN_OPEN, 1, str(output), flags, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, str(messages), flags, 0o600),
    ]
    started = time.perf_counter()
    try:
        process = os.posix_spawnp(command[0], list(command), _environment(), file_actions=actions)
    except OSError as error:
        raise CommandError(f"{command[0]}: {error.strerror}") from error
    _, status, used = os.wait4(process, 0)
    wall = time.perf_counter() - started
    if os.waitstatus_to_exitcode(status):
        last = messages.read_text(errors="replace").strip().splitlines()[-1:]
        raise CommandError(f"{' '.join(command)}: exit {os.waitstatus_to_exitcode(status)}: {' '.join(last)}")
    return Usage(used.ru_utime + used.ru_stime, wall, used.ru_maxrss * 1024)


def median(usages: Sequence[Usage]) -> Usage:
    """The median of each figure."""
    return Usage(
        statistics.median(usage.cpu for usage in usages),
        statistics.median(usage.wall for usage in usages),
        int(statistics.median(usage.memory for usage in usages)),
    )
