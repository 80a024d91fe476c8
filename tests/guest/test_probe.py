"""``inlinetrace probe`` on real kernels: kprobes on inline sites, and uprobes where a mistake may crash the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.guest.state import TRACING
from tests.guest.tracing import VMLINUX, end, tracing


@pytest.mark.guest(timeout=400)
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
