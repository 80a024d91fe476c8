"""The bcc backend on real kernels: kprobes with BPF programs give what tracefs gives, and go away as quickly."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64decode, b64encode
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.guest.host import from_host
from tests.guest.state import TRACING
from tests.guest.test_probe_module import FUNCTIONS, compare, installed, run_all
from tests.guest.testmodule import FILE, NAME, InlineShapes
from tests.guest.tracing import VMLINUX, end, keep, tracing
from tests.kernels import Kernel

__all__ = ["installed"]

PASSED = [(7, os.SEEK_SET), (50, os.SEEK_CUR), (-3, os.SEEK_END), (0, os.SEEK_SET), (2**40, os.SEEK_SET)]
WANTED = "offset,whence,file,file->f_path.dentry->d_name.name,file->f_inode->i_size,file->f_inode->i_sb->s_type->name"


def seek(path: Path) -> None:
    """Move in a file."""
    with open(path, "rb", buffering=0) as handle:
        for offset, whence in PASSED:
            os.lseek(handle.fileno(), offset, whence)


def of_file(hits: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """What does not depend on who traced, of the hits for one file."""
    keys = ("function", "address", "symbol", "symbol_offset", "inlined", "args", "unavailable", "pid", "comm")
    return [
        {key: hit[key] for key in keys} for hit in hits if hit["args"].get("file->f_path.dentry->d_name.name") == name
    ]


def nothing_is_left() -> bool:
    """Whether no event of ours is defined."""
    return "inlinetrace" not in (TRACING / "kprobe_events").read_text()


def total(*arguments: str, work: Any) -> list[dict[str, Any]]:
    """What a trace that only counts says at its end."""
    with tracing(*arguments, "-p", str(os.getpid())) as process:
        work()
        return end(process)


# each of them is held against the values that were passed on every kernel (test_values.py)
@pytest.mark.guest(kernel="6.12", root="bcc", timeout=600)
def test_both_backends_show_the_same_of_the_same_calls(tmp_path: Path) -> None:
    arguments = ("vfs_llseek", "fput", "--args", WANTED, "--strings", "-k", VMLINUX, "-p", str(os.getpid()))
    (tmp_path / "a-file").write_bytes(bytes(100))
    with tracing(*arguments) as one, tracing(*arguments, "--backend", "bcc") as other:
        seek(tmp_path / "a-file")
        tracefs, bcc = end(one), end(other)
    mine = of_file(bcc, "a-file")
    assert mine == of_file(tracefs, "a-file")
    seeks = [hit for hit in mine if hit["function"] == "vfs_llseek" and hit["inlined"]]
    # Python seeks, too, when it opens a file
    assert [pair for hit in seeks if (pair := (hit["args"]["offset"], hit["args"]["whence"])) in PASSED] == PASSED
    assert {hit["args"]["file->f_inode->i_size"] for hit in seeks} == {100}
    assert {hit["symbol"] for hit in seeks} == {"ksys_lseek"}
    assert nothing_is_left()


@pytest.mark.guest(root="bcc", timeout=600)
def test_values_of_a_module_are_those_that_it_passed(inline_shapes: InlineShapes, installed: list[str]) -> None:
    arguments = (*FUNCTIONS, "--args", "--strings", "-m", NAME, *installed, "-p", str(os.getpid()))
    with tracing(*arguments) as one, tracing(*arguments, "--backend", "bcc") as other:
        logged = run_all(inline_shapes)
        tracefs, bcc = end(one), end(other)
    assert compare(bcc, logged) == compare(tracefs, logged)
    assert nothing_is_left()


@pytest.mark.guest(root="bcc", timeout=600)
def test_counts_and_histograms_are_made_in_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "a-file").write_bytes(bytes(100))

    def work() -> None:
        seek(tmp_path / "a-file")

    filter_ = ("--where", "whence == 0 and offset >= 0")
    arguments = ("vfs_llseek", "--inline-only", "--count", "--hist", "offset", "-k", VMLINUX, *filter_)
    found = {backend: total(*arguments, "--backend", backend, work=work) for backend in ("bcc", "tracefs")}
    assert found["bcc"] == found["tracefs"]
    (histogram,) = [row for row in found["bcc"] if "buckets" in row]
    counted = Counter({(row["low"], row["high"]): row["hits"] for row in histogram["buckets"]})
    for offset in (offset for offset, whence in PASSED if whence == os.SEEK_SET):
        (bucket,) = [bounds for bounds in counted if bounds[0] <= offset <= bounds[1]]
        counted[bucket] -= 1
    assert histogram["argument"] == "offset"
    # Python itself seeks when it opens a file
    assert all(low <= 0 <= high or not hits for (low, high), hits in counted.items()), histogram
    (site,) = [row for row in found["bcc"] if row.get("symbol") == "ksys_lseek"]
    assert site["hits"] == sum(row["hits"] for row in histogram["buckets"])


@pytest.mark.guest(root="bcc", timeout=600)
def test_calls_of_a_module_are_counted_in_the_kernel(inline_shapes: InlineShapes) -> None:
    passed = [1, 5, 5, 6, 70000]

    def work() -> None:
        for value in passed:
            inline_shapes.call("take_u32", value)

    arguments = ("take_u32", "--count", "--hist", "value", "-m", str(FILE))
    found = {backend: total(*arguments, "--backend", backend, work=work) for backend in ("bcc", "tracefs")}
    assert found["bcc"] == found["tracefs"]
    (histogram,) = [row for row in found["bcc"] if "buckets" in row]
    counted = [(row["low"], row["high"], row["hits"]) for row in histogram["buckets"] if row["hits"]]
    assert counted == [(1, 1, 1), (4, 7, 3), (65536, 131071, 1)]


@pytest.mark.guest(root="bcc", timeout=600)
def test_stacks_lead_to_the_system_call(tmp_path: Path) -> None:
    arguments = ("vfs_llseek", "--inline-only", "--stack", "--backend", "bcc", "-k", VMLINUX, "-p", str(os.getpid()))
    (tmp_path / "a-file").write_bytes(bytes(100))
    with tracing(*arguments) as process:
        seek(tmp_path / "a-file")
        hits = end(process)
    (hit, *_) = [hit for hit in hits if hit["symbol"] == "ksys_lseek"]
    names = [frame["name"] for frame in hit["stack"]["kernel"]]
    assert names[:2] == ["vfs_llseek", "ksys_lseek"]
    assert hit["stack"]["kernel"][0]["inlined"]
    assert "do_syscall_64" in names
    assert hit["stack"]["user"]


@pytest.mark.guest(root="bcc", timeout=600)
def test_many_sites_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    functions = ("inode_lock", "inode_unlock", "inode_lock_nested", "d_is_dir")  # 300 sites
    limits = ("--max-probes", "1000", "-p", str(os.getpid()), "--backend", "bcc")
    with tracing(*functions, "--args", "--inline-only", "-k", VMLINUX, *limits) as process:
        for number in range(5):
            os.mkdir(tmp_path / str(number))
            os.listdir(tmp_path)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=250)
    keep(errors)
    assert process.returncode == 130
    assert [json.loads(line) for line in output.splitlines()]
    assert re.search(r"detached in ([0-9.]+) s", errors)
    assert nothing_is_left()
    assert Path("/sys/kernel/rcu_expedited").read_text().strip() == "0"


@pytest.mark.guest(root="bcc", timeout=600)
def test_a_trace_that_is_killed_is_cleaned_up() -> None:
    with tracing("vfs_llseek", "--args", "-k", VMLINUX, "--backend", "bcc") as process:
        process.kill()
        process.wait()
    assert not nothing_is_left()
    done = subprocess.run(["inlinetrace", "clean", "-v"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert nothing_is_left()


@pytest.mark.guest(timeout=300)
def test_without_bcc_one_line_says_what_to_install() -> None:
    done = subprocess.run(
        ["inlinetrace", "probe", "vfs_llseek", "--backend", "bcc", "-k", VMLINUX],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "python3-bpfcc" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@from_host
def many_sites(kernel: Kernel) -> str:
    """A position-independent program with 200 sites, as text: guests have no compiler."""
    with TemporaryDirectory() as folder:
        source, program = Path(folder) / "many.c", Path(folder) / "many"
        script = [sys.executable, str(Path(__file__).parents[1] / "cases" / "programs" / "gen_many.py"), "200"]
        source.write_text(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
        subprocess.run(["gcc", "-g", "-O2", "-pie", str(source), "-o", str(program)], check=True)
        return b64encode(program.read_bytes()).decode()


@pytest.mark.guest(root="bcc", timeout=600)
def test_sites_of_a_user_program_are_told_apart_wherever_it_is_mapped(tmp_path: Path) -> None:
    program = tmp_path / "many"
    program.write_bytes(b64decode(many_sites()))
    program.chmod(0o755)
    found = {}
    for backend in ("tracefs", "bcc"):
        command = ["inlinetrace", "probe", "tick", "--args", "--json", "-v", "--backend", backend, "-x", str(program)]
        done = subprocess.run([*command, "--"], capture_output=True, text=True, check=True)
        keep(done.stderr)
        hits = [json.loads(line) for line in done.stdout.splitlines()]
        found[backend] = [(hit["symbol"], hit["symbol_offset"], hit["args"], hit["unavailable"]) for hit in hits]
    assert len({place for place, *_ in found["bcc"]}) >= 200
    assert found["bcc"] == found["tracefs"]
    assert "inlinetrace" not in (TRACING / "uprobe_events").read_text()
