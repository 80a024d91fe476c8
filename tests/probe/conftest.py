"""What tests that attach uprobes on this machine share: compiling, tracing, and a check that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.probe import groups
from inlinetrace.target.host import Host

Hits = list[dict[str, Any]]


# A trace of somebody else may be just ending when we look.
_PATIENCE = 5.0


Compiler = Callable[..., Path]


def orphans(host: Host, tracefs: str) -> set[str]:
    """Groups and instances with names of ours whose process is gone, or is this one."""
    return {
        name
        for name in groups.groups(host, tracefs)
        if not groups.is_alive(host, tracefs, name) or groups.owner(name) == (os.getpid(), host.start_time(os.getpid()))
    }


@pytest.fixture
def tracefs() -> Iterator[str]:
    """Where tracefs is; fails the test that leaves events or instances behind. Those of others are left alone."""
    host = Host()
    place = host.tracefs()
    before = orphans(host, place)
    yield place
    deadline = time.monotonic() + _PATIENCE
    while (left := orphans(host, place) - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == set()


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


_chosen: list[str] = []


@pytest.fixture(params=["tracefs", "bcc"])
def each_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Runs a test once with each backend: the name of the one that ``command`` asks for."""
    name: str = request.param
    monkeypatch.setattr(sys.modules[__name__], "_chosen", ["--backend", name])
    return name


def command(*arguments: str) -> list[str]:
    """The command line of a trace."""
    if arguments[0] == "probe" and "--emit" not in arguments:
        arguments = ("probe", *_chosen, *arguments[1:])
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
