"""Too little memory is told before it runs out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from inlinetrace.errors import InlineTraceError
from inlinetrace.target.host import Host
from inlinetrace.target.image import Image
from inlinetrace.target.memory import available_memory, require_memory
from tests.target.machine import Machine

MEMINFO = "MemTotal: 200000 kB\nMemFree:     4000 kB\nMemAvailable:  {} kB\nHugePages_Total: 0\nSwapFree:  {} kB\n"


def image(size: int) -> Image:
    """An image with so many bytes of units, of which functions of one name need 1 MB."""
    dwarf = SimpleNamespace(bytes_to_scan=lambda names: size if names is None else len(names) << 20)
    return cast(Image, SimpleNamespace(debug=SimpleNamespace(path="vmlinux"), dwarf=dwarf))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without /proc/meminfo."""
    return Machine(tmp_path, user=0)


def test_memory_and_swap_count(machine: Machine) -> None:
    machine.write("/proc/meminfo", MEMINFO.format(100_000, 50_000))
    assert available_memory(machine.host) == 150_000 << 10


def test_a_machine_that_does_not_say_has_enough(machine: Machine) -> None:
    assert available_memory(machine.host) is None
    require_memory(machine.host, image(1 << 40), None)
    machine.write("/proc/meminfo", "MemFree: 1 kB\n")
    require_memory(machine.host, image(1 << 40), None)


def test_too_little_is_one_line(machine: Machine) -> None:
    machine.write("/proc/meminfo", MEMINFO.format(100 << 10, 0))
    require_memory(machine.host, image(120 << 20), None)
    require_memory(machine.host, image(200 << 20), ["f"] * 120)
    with pytest.raises(InlineTraceError) as caught:
        require_memory(machine.host, image(200 << 20), None)
    with pytest.raises(InlineTraceError, match="takes about 102 MB"):
        require_memory(machine.host, image(50 << 20), None, every_site=True)
    assert caught.value.exit_code == 1
    assert str(caught.value) == "vmlinux: reading its DWARF takes about 150 MB of memory, 100 MB are available"


def test_this_machine_says() -> None:
    assert available_memory(Host())
