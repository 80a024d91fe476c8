"""What tests that attach uprobes on this machine share: compiling, tracing, and a check that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.probe import groups
from inlinetrace.target.host import Host

Hits = list[dict[str, Any]]


def state(host: Host, tracefs: str) -> tuple[list[str], list[str]]:
    """The probe events and trace instances with names of ours whose process is gone, or is one that we started."""
    lines = host.read_text(f"{tracefs}/uprobe_events").splitlines()
    return [line for line in lines if "inlinetrace_" in line], groups.groups(host, tracefs)


@pytest.fixture
def tracefs() -> Iterator[str]:
    """Where tracefs is; fails the test that leaves events or instances behind."""
    host = Host()
    place = host.tracefs()
    before = state(host, place)
    yield place
    after = state(host, place)
    assert [line for line in after[0] if line not in before[0] and not _of_others(host, line)] == []
    assert [name for name in after[1] if name not in before[1] and not groups.is_alive(host, name)] == []


def _of_others(host: Host, line: str) -> bool:
    """Whether an event belongs to a trace that runs now, somebody else's."""
    return groups.is_alive(host, line.partition(":")[2].partition("/")[0])


@pytest.fixture
def compiler(tmp_path: Path) -> Callable[..., Path]:
    """Compiles C text to a program or library in a directory of the test."""

    def build(text: str, *options: str, name: str = "program", command: str = "gcc") -> Path:
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        output = tmp_path / name
        subprocess.run([command, "-g", str(source), *(options or ("-O2",)), "-o", str(output)], check=True)
        return output

    return build


def command(*arguments: str) -> list[str]:
    """The command line of a trace."""
    return [sys.executable, "-m", "inlinetrace", *arguments]


def trace(*arguments: str, code: int = 0) -> Hits:
    """Run ``inlinetrace probe --json`` and return the hits; the exit code must be ``code``."""
    done = run(*arguments, "--json") if "--" not in arguments else run(*_before_program(arguments))
    assert done.returncode == code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _before_program(arguments: tuple[str, ...]) -> list[str]:
    at = arguments.index("--")
    return [*arguments[:at], "--json", *arguments[at:]]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``inlinetrace probe`` to its end. A trace that takes too long is asked to end, never killed: it detaches."""
    environment = {**os.environ, "LC_ALL": "C"}
    with subprocess.Popen(
        command("probe", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            output, errors = process.communicate(timeout=180)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate()
            pytest.fail(f"took too long: {errors}")
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
