"""``inlinetrace probe`` on real kernels: kprobes on inline sites, and uprobes where a mistake may crash the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.guest.state import TRACING
from tests.guest.tracing import VMLINUX, end, tracing


@pytest.mark.guest(kaslr=(True, False), timeout=400)
def test_arguments_of_an_inlined_function_are_those_of_the_system_call(tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.write_bytes(bytes(100))
    passed = [(7, os.SEEK_SET), (50, os.SEEK_CUR), (-3, os.SEEK_END), (0, os.SEEK_SET)]
    wanted = "offset,whence,file,file->f_path.dentry->d_name.name,file->f_inode->i_size"
    with (
        open(file, "rb", buffering=0) as handle,
        tracing("vfs_llseek", "--args", wanted, "--strings", "-k", VMLINUX, "-p", str(os.getpid())) as trace,
    ):
        for offset, whence in passed:
            os.lseek(handle.fileno(), offset, whence)
        hits = end(trace)
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
    functions = ("inode_lock", "inode_unlock", "inode_lock_nested", "d_is_dir")  # 300 sites
    limits = ("--max-probes", "1000", "-p", str(os.getpid()))
    with tracing(*functions, "--args", "--inline-only", "-k", VMLINUX, *limits) as trace:
        for number in range(5):
            os.mkdir(tmp_path / str(number))
            os.listdir(tmp_path)
        assert end(trace)
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
    assert Path("/sys/kernel/rcu_expedited").read_text().strip() == "0"
