"""Kprobe events at true inline sites give the values that were passed: what the product relies on, tried by hand.

The addresses and registers come from llvm-dwarfdump, the values from the system calls the test makes itself.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.guest import oracle
from tests.guest.host import from_host
from tests.guest.state import TRACING, append
from tests.kernels import Kernel

both_kernels_and_layouts = pytest.mark.guest(kaslr=(True, False))


@from_host
def llseek_sites(kernel: Kernel) -> list[dict[str, Any]]:
    """vfs_llseek, inlined into ksys_lseek: three parameters, each in a register."""
    return oracle.inlined(kernel.vmlinux, caller="ksys_lseek", function="vfs_llseek")


@contextmanager
def kprobe_event(definition: str) -> Iterator[Path]:
    """An enabled event in a group of its own; gives its directory."""
    append(TRACING / "kprobe_events", f"p:byhand/site {definition}\n")
    event = TRACING / "events" / "byhand" / "site"
    try:
        (event / "enable").write_text("1\n")
        yield event
    finally:
        (event / "enable").write_text("0\n")
        append(TRACING / "kprobe_events", "-:byhand/site\n")
        (TRACING / "trace").write_text("\n")


def fetch(register: str) -> str:
    """A register's name in the kernel's spelling: RDI is %di, R12 is %r12."""
    low = register.lower()
    return f"%{low if low[1].isdigit() else low[1:]}"


@both_kernels_and_layouts
@pytest.mark.parametrize("by", ["symbol", "offset from _stext"])
def test_an_inline_site_gives_the_values_of_the_system_call(by: str, tmp_path: Path) -> None:
    (site,) = llseek_sites()
    place = f"ksys_lseek+{site['symbol_offset']}" if by == "symbol" else f"_stext+{site['offset']}"
    registers = site["registers"]
    file = tmp_path / "file"
    file.write_bytes(bytes(100))
    passed = [(7, os.SEEK_SET), (50, os.SEEK_CUR), (-3, os.SEEK_END), (0, os.SEEK_SET)]
    with (
        kprobe_event(f"{place} offset={fetch(registers['offset'])}:s64 whence={fetch(registers['whence'])}:s32"),
        open(file, "rb", buffering=0) as handle,
    ):
        for offset, whence in passed:
            os.lseek(handle.fileno(), offset, whence)
        mine = [line for line in (TRACING / "trace").read_text().splitlines() if f"-{os.getpid()} " in line]
    seen = [(int(o), int(w)) for o, w in re.findall(r"offset=(-?\d+) whence=(-?\d+)", "\n".join(mine))]
    assert [pair for pair in seen if pair in passed] == passed


@both_kernels_and_layouts
def test_an_address_inside_an_instruction_is_refused() -> None:
    (site,) = llseek_sites()
    with pytest.raises(OSError) as refusal:
        append(TRACING / "kprobe_events", f"p:byhand/site _stext+{site['offset'] + 1}\n")
    assert refusal.value.errno == errno.EILSEQ
