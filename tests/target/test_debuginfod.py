"""debuginfod, with a client of our own making."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from inlinetrace.elf.debugfile import Attempt
from inlinetrace.errors import NotFoundError
from inlinetrace.target.debuginfod import Answer, download
from inlinetrace.target.running import open_running_kernel
from tests.target.machine import BUILD_ID, OTHER_BUILD_ID, Machine, elf

PLACE = f"/root/.cache/debuginfod_client/{BUILD_ID.hex()}/debuginfo"


def machine_with_client(root: Path, script: str, *, maximum: str = "") -> Machine:
    """A machine whose debuginfod-find is a shell script."""
    tools = root / "tools"
    tools.mkdir()
    client = tools / "debuginfod-find"
    client.write_text("#!/bin/sh\n" + script)
    client.chmod(0o755)
    machine = Machine(
        root,
        DEBUGINFOD_URLS="http://debuginfod.invalid",
        DEBUGINFOD_MAXTIME=maximum,
        PATH=f"{tools}:{os.environ['PATH']}",
    )
    machine.kernel()
    return machine


def test_a_download(tmp_path: Path) -> None:
    machine = machine_with_client(
        tmp_path,
        f"""
        [ "$1 $2" = "debuginfo {BUILD_ID.hex()}" ] || exit 9
        [ -z "$DEBUGINFOD_PROGRESS" ] || exit 8
        mkdir -p "$(dirname "{tmp_path}{PLACE}")"
        cp "{tmp_path}/server" "{tmp_path}{PLACE}"
        echo "{PLACE}"
        """,
    )
    machine.write("/server", elf(BUILD_ID))
    tried: list[Attempt] = []
    assert open_running_kernel(machine.host, report=tried.append).path == str(machine.path(PLACE))
    assert tried[-2:] == [Attempt(PLACE, "no such file"), Attempt(PLACE, "found")]
    tried.clear()
    open_running_kernel(machine.host, report=tried.append)
    assert tried == [Attempt(PLACE, "found")]


def test_a_server_that_gives_another_build(tmp_path: Path) -> None:
    machine = machine_with_client(tmp_path, "echo /srv/other\n")
    machine.write("/srv/other", elf(OTHER_BUILD_ID))
    with pytest.raises(Exception, match=f"{OTHER_BUILD_ID.hex()}.*{BUILD_ID.hex()}"):
        open_running_kernel(machine.host)


def test_progress(tmp_path: Path) -> None:
    machine = machine_with_client(
        tmp_path,
        r"""
        [ "$DEBUGINFOD_PROGRESS" = 1 ] || exit 9
        printf 'Downloading from \033[31mhttp://x 1/2\rDownloading from http://x 2/2\r\n' >&2
        echo /file
        """,
    )
    said: list[str] = []
    assert download(machine.host, BUILD_ID, progress=said.append) == Answer("/file", "found")
    assert said == ["Downloading from ?[31mhttp://x 1/2", "Downloading from http://x 2/2"]


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        ("echo 'Server query failed: No such file or directory' >&2; exit 1", "Server query failed: No such file"),
        ("exit 3", "failed with status 3"),
        ("exit 0", "failed with status 0"),
        ("echo relative", "failed with status 0"),
        ("kill -9 $$", "failed with status -9"),
    ],
)
def test_failures_are_outcomes(tmp_path: Path, script: str, outcome: str) -> None:
    machine = machine_with_client(tmp_path, script)
    answer = download(machine.host, BUILD_ID)
    assert answer.path is None
    assert outcome in answer.outcome
    with pytest.raises(NotFoundError):
        open_running_kernel(machine.host)


def test_a_client_that_says_very_much(tmp_path: Path) -> None:
    machine = machine_with_client(tmp_path, "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 1")
    answer = download(machine.host, BUILD_ID, limit=60)
    assert answer.path is None


def test_no_server_is_asked_without_the_variable(tmp_path: Path) -> None:
    machine = machine_with_client(tmp_path, f"touch {tmp_path}/asked; exit 1")
    machine.environment["DEBUGINFOD_URLS"] = " "
    assert download(machine.host, BUILD_ID) == Answer(None, "DEBUGINFOD_URLS is not set")
    assert not (tmp_path / "asked").exists()


def test_no_client(tmp_path: Path) -> None:
    machine = Machine(tmp_path, DEBUGINFOD_URLS="http://debuginfod.invalid", PATH=str(tmp_path))
    assert "debuginfod-find is not installed" in download(machine.host, BUILD_ID).outcome


def test_a_client_that_cannot_be_run(tmp_path: Path) -> None:
    machine = machine_with_client(tmp_path, "")
    (tmp_path / "tools/debuginfod-find").write_bytes(b"\x7fELF nonsense")
    assert "cannot be run" in download(machine.host, BUILD_ID).outcome


def test_a_time_out_ends_the_client(tmp_path: Path) -> None:
    machine = machine_with_client(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 100")
    began = time.monotonic()
    assert download(machine.host, BUILD_ID, limit=0.5) == Answer(None, "no answer within 0 seconds")
    assert time.monotonic() - began < 10
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_the_clients_own_time_out_is_honoured(tmp_path: Path) -> None:
    machine = machine_with_client(tmp_path, "exec sleep 100", maximum="1")
    began = time.monotonic()
    assert download(machine.host, BUILD_ID).outcome == "no answer within 6 seconds"
    assert time.monotonic() - began < 30


def test_a_client_that_does_not_want_to_end(tmp_path: Path) -> None:
    machine = machine_with_client(
        tmp_path, f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do read x < /dev/zero; done"
    )
    download(machine.host, BUILD_ID, limit=0.5)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_ctrl_c_ends_the_client(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    machine = machine_with_client(tmp_path, f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 100")

    def interrupt() -> None:
        while not pid.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        download(machine.host, BUILD_ID, limit=100)
    assert time.monotonic() - began < 30
    thread.join()
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
