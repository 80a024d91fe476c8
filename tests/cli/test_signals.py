"""Signals that end a command: what it was writing goes, whoever does not read is not waited for."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace._signals import ENDING

# dump, with something else in its place
_COMMAND = """
import os, sys
from inlinetrace import cli
from inlinetrace.cli import dump
from inlinetrace.generate.output import Output
def run(args):
    {body}
    return 0
dump.run = run
sys.exit(cli.run(["dump", "types"]))
"""
_WRITES_A_FILE = """with Output(sys.argv[1]) as output:
        output.write(b"half")
        os.kill(os.getpid(), int(sys.argv[2]))"""
_WRITES_TO_STDOUT = "print('x' * 10_000_000)"


def have(number: signal.Signals, handler: signal.Handlers) -> Callable[[], None]:
    """What whoever starts us hands down."""

    def set_handler() -> None:
        signal.signal(number, handler)

    return set_handler


@pytest.mark.parametrize("number", ENDING)
def test_a_file_that_is_half_written_goes(number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "out"
    for handler, code, left in ((signal.SIG_DFL, 128 + number, []), (signal.SIG_IGN, 0, ["out"])):
        done = subprocess.run(
            [sys.executable, "-c", _COMMAND.format(body=_WRITES_A_FILE), path, str(int(number))],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=have(number, handler),
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
        assert os.listdir(tmp_path) == left


def test_stdout_that_nobody_reads_is_not_waited_for() -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND.format(body=_WRITES_TO_STDOUT)],
        stdout=writing,
        stderr=subprocess.PIPE,
        preexec_fn=have(signal.SIGTERM, signal.SIG_DFL),
    )
    room = select.poll()
    room.register(writing, select.POLLOUT)
    while room.poll(0):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 128 + signal.SIGTERM
    os.close(reading)
    os.close(writing)
