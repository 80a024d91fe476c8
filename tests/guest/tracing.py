"""``inlinetrace probe`` as guest tests run it: started, waited for until it has attached, ended, its hits as objects.

::

    with tracing("vfs_llseek", "--args", "-p", str(os.getpid())) as trace:
        os.lseek(descriptor, 7, os.SEEK_SET)
        hits = end(trace)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VMLINUX = f"/usr/lib/debug/boot/vmlinux-{os.uname().release}"

_PATIENCE = 250.0


class Trace(subprocess.Popen[str]):
    """A running ``inlinetrace probe``; ``said`` is what came on stderr until everything was attached."""

    said = ""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__(
            ["inlinetrace", "probe", *arguments, "-v", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.stderr is not None
        for line in self.stderr:
            self.said += line
            if "sites attached" in line:
                break
        else:
            self.wait()
            pytest.fail(f"did not attach: {self.said}")
        keep(self.said)


@contextmanager
def tracing(*arguments: str) -> Iterator[Trace]:
    """A trace that has attached everything, ended with the block if it was not before."""
    trace = Trace(arguments)
    try:
        yield trace
    finally:
        if trace.poll() is None:
            trace.send_signal(signal.SIGINT)
            trace.communicate(timeout=_PATIENCE)
        assert trace.stdout is not None
        trace.stdout.close()
        assert trace.stderr is not None
        trace.stderr.close()


def keep(text: str) -> None:
    """Print what the command said, and keep it with the guest's results: times are read there."""
    print(text)
    # Not by a file object: that one seeks, which may be what is being traced.
    file = os.open(Path(os.environ["OUT"]) / "probe.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, text.encode())
    os.close(file)


def end(trace: Trace) -> list[dict[str, Any]]:
    """End a trace as Ctrl-C does, and return its hits."""
    trace.send_signal(signal.SIGINT)
    output, errors = trace.communicate(timeout=_PATIENCE)
    keep(errors)
    assert trace.returncode == 128 + signal.SIGINT, errors
    return [json.loads(line) for line in output.splitlines()]
