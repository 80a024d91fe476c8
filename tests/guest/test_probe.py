"""``inlinetrace probe`` on real kernels: kprobes on inline sites, and uprobes where a mistake may crash the machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.guest.state import TRACING

VMLINUX = f"/usr/lib/debug/boot/vmlinux-{os.uname().release}"


@contextmanager
def tracing(*arguments: str, patience: float = 250) -> Iterator[subprocess.Popen[str]]:
    """A trace that has attached everything."""
    process = subprocess.Popen(
        ["inlinetrace", "probe", *arguments, "-v", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "sites attached" in line:
            break
    else:
        process.wait()
        pytest.fail(f"did not attach: {said}")
    keep(said)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(patience)
        assert process.stdout is not None
        process.stdout.close()
        process.stderr.close()


def keep(text: str) -> None:
    """Print what the command said, and keep it with the guest's results: times are read there."""
    print(text)
    with open(Path(os.environ["OUT"]) / "probe.txt", "a") as file:
        file.write(text)


def end(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """End a trace and return its hits."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=250)
    keep(errors)
    return [json.loads(line) for line in output.splitlines()]


@pytest.mark.guest(kaslr=(True, False), timeout=400)
def test_arguments_of_an_inlined_function_are_those_of_the_system_call(tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.write_bytes(bytes(100))
    passed = [(7, os.SEEK_SET), (50, os.SEEK_CUR), (-3, os.SEEK_END), (0, os.SEEK_SET)]
    wanted = "offset,whence,file,file->f_path.dentry->d_name.name,file->f_inode->i_size"
    with (
        open(file, "rb", buffering=0) as handle,
        tracing("vfs_llseek", "--args", wanted, "--strings", "-k", VMLINUX, "-p", str(os.getpid())) as process,
    ):
        for offset, whence in passed:
            os.lseek(handle.fileno(), offset, whence)
        hits = end(process)
    mine = [hit for hit in hits if hit["args"].get("file->f_path.dentry->d_name.name") == "a-file"]
    seen = [(hit["args"].get("offset"), hit["args"].get("whence")) for hit in mine]
    assert [pair for pair in seen if pair in passed] == passed
    assert any(hit["inlined"] and hit["symbol"] == "ksys_lseek" for hit in mine)
    assert {hit["args"]["file->f_inode->i_size"] for hit in mine} == {100}
    assert {hit["pid"] for hit in hits} == {os.getpid()}
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()


@pytest.mark.guest(timeout=400)
def test_many_sites_of_a_kernel_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    functions = ("inode_lock*", "inode_unlock*", "d_is_*", "d_really_is_*", "d_inode")
    limits = ("--max-probes", "1000", "-p", str(os.getpid()))
    with tracing(*functions, "--args", "--inline-only", "-k", VMLINUX, *limits) as process:
        for number in range(5):
            os.mkdir(tmp_path / str(number))
            os.listdir(tmp_path)
        assert end(process)
    assert process.returncode == 130
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
    assert Path("/sys/kernel/rcu_expedited").read_text().strip() == "0"


@pytest.mark.guest(timeout=400)
def test_a_trace_that_is_killed_under_load_is_cleaned_up(tmp_path: Path) -> None:
    load = subprocess.Popen(["sh", "-c", "while :; do cat /dev/null | tail -c 1 > /dev/null; done"])
    try:
        with tracing("vfs_llseek", "fput", "--args", "-k", VMLINUX) as process:
            process.kill()
            process.wait()
        assert "inlinetrace" in (TRACING / "kprobe_events").read_text()
        done = subprocess.run(["inlinetrace", "clean", "-v"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
    finally:
        load.kill()
        load.wait()
