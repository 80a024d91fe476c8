"""The kernel's memory through /proc/kcore."""

from __future__ import annotations

from pathlib import Path

import pytest

from inlinetrace.target.kcore import KernelMemory
from tests.target.machine import Machine, core_file

TEXT = 0xFFFFFFFF81000000
CORE = core_file([(0xFFFF888000000000, b"direct"), (TEXT, b"kernel text")])


def memory(tmp_path: Path, content: bytes) -> KernelMemory | None:
    machine = Machine(tmp_path)
    machine.write("/proc/kcore", content)
    return KernelMemory.open(machine.host)


def test_bytes_at_an_address(tmp_path: Path) -> None:
    found = memory(tmp_path, CORE)
    assert found is not None
    assert found.read(TEXT, 6) == b"kernel"
    assert found.read(TEXT + 7, 100) == b"text"
    assert found.read(0xFFFF888000000002, 2) == b"re"
    assert found.read(TEXT + 11, 1) == found.read(TEXT - 1, 1) == found.read(0, 1) == b""


def test_where_the_kernel_is(tmp_path: Path) -> None:
    found = memory(tmp_path, CORE)
    assert found is not None
    assert found.stext is None
    notes = b"VMCOREINFO\0\0OSRELEASE=6.1.0\nSYMBOL(_stext)=ffffffff9a000000\nKERNELOFFSET=19000000\n"
    found = memory(tmp_path, core_file([(TEXT, b"kernel text")], notes))
    assert found is not None
    assert found.stext == 0xFFFFFFFF9A000000
    assert found.read(TEXT, 6) == b"kernel"


def test_a_machine_that_does_not_show_it(tmp_path: Path) -> None:
    assert KernelMemory.open(Machine(tmp_path).host) is None


@pytest.mark.parametrize("length", [0, 1, 63])
def test_a_header_that_is_cut_off(tmp_path: Path, length: int) -> None:
    assert memory(tmp_path, CORE[:length]) is None


@pytest.mark.parametrize(
    "content",
    [b"\x7fELF\x01" + CORE[5:], bytes(64), CORE[:64], CORE[:100], CORE[:130]],
    ids=["32-bit", "zeros", "header", "half-a-segment", "some-segments"],
)
def test_what_is_not_there_reads_as_nothing(tmp_path: Path, content: bytes) -> None:
    found = memory(tmp_path, content)
    assert found is not None
    assert found.read(TEXT, 5) == b""
