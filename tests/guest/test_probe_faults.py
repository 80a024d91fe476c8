"""Reads that fault in the kernel are never 0 and never what the hit before had; pointers of user space are followed."""

from __future__ import annotations

import ctypes
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from tests.guest.tracing import VMLINUX, end, tracing

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_LIBC.write.restype = ctypes.c_ssize_t


def seen(hit: dict[str, Any], label: str) -> Any:
    """The value of a hit, or why there is none."""
    return hit["args"].get(label, hit["unavailable"].get(label))


@pytest.mark.guest(timeout=400)
def test_a_null_in_a_chain_right_after_a_good_hit(tmp_path: Path) -> None:
    file = tmp_path / "a-file"
    file.write_bytes(bytes(100))
    reader, writer = os.pipe()
    # the number, a pointer on the way to it, and a text; i_pipe of what is no pipe is NULL
    labels = ["file->f_inode->i_pipe->readers", "file->f_inode->i_pipe->tmp_page[0]->flags", "file->f_inode->i_size"]
    arguments = ("vfs_llseek", "--inline-only", "--args", ",".join(labels), "-k", VMLINUX, "-p", str(os.getpid()))
    with open(file, "rb", buffering=0) as handle, tracing(*arguments) as process:
        for _ in range(5):
            with pytest.raises(OSError, match="Illegal seek"):
                os.lseek(reader, 0, os.SEEK_CUR)
            handle.seek(7)
        hits = [hit for hit in end(process) if hit["symbol"] == "ksys_lseek"]
    os.close(reader)
    os.close(writer)
    chains = [[seen(hit, label) for label in labels] for hit in hits]
    pairs = [(chain, after) for chain, after in itertools.pairwise(chains) if chain[0] == 1]
    assert len(pairs) >= 5
    for good, after in pairs:
        # nothing was written into the pipe: it has no page yet
        assert good == [1, "fault", 0]
        assert after == ["fault", "fault", 100]


@pytest.mark.guest(timeout=400)
def test_pointers_of_user_space(tmp_path: Path) -> None:
    sink = os.open(os.devnull, os.O_WRONLY)
    text = ctypes.create_string_buffer(b"from user space")
    pointers = [ctypes.addressof(text), 0, ctypes.addressof(text) + 5, 1 << 46, ctypes.addressof(text)]
    arguments = ("ksys_write", "--args", "fd,buf,*buf,count", "--strings", "-k", VMLINUX, "-p", str(os.getpid()))
    with tracing(*arguments) as process:
        for pointer in pointers:
            _LIBC.write(sink, pointer, 3)
        hits = [hit for hit in end(process) if hit["args"].get("fd") == sink and hit["args"].get("count") == 3]
    os.close(sink)
    wanted: list[tuple[Any, Any]] = [
        ("from user space", ord("f")),
        # a null pointer is shown as one
        ("0x0", "fault"),
        ("user space", ord("u")),
        ("fault", "fault"),
        ("from user space", ord("f")),
    ]
    assert [(seen(hit, "buf"), seen(hit, "*buf")) for hit in hits] == wanted
