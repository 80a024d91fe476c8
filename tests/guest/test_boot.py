"""The guest is the machine it says it is, and has what tests need."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

import pytest

from tests.guest.configs import GuestConfig
from tests.guest.host import from_host
from tests.guest.oracle import symbol_addresses
from tests.guest.testmodule import kallsyms
from tests.kernels import Kernel

both_kernels_and_layouts = pytest.mark.guest(kaslr=(True, False))


@from_host
def stext(kernel: Kernel) -> int:
    """Where the kernel was linked to begin."""
    (address,) = symbol_addresses(kernel.vmlinux, {"_stext"})["_stext"]
    return address


@from_host
def release(kernel: Kernel) -> str:
    """The release that should be running."""
    return kernel.release


@both_kernels_and_layouts
def test_the_kernel_asked_for_runs() -> None:
    assert os.uname().release == release()


@both_kernels_and_layouts
def test_kaslr_is_as_asked_for(guest_machine: GuestConfig) -> None:
    assert (kallsyms("_stext") != stext()) == guest_machine.options.kaslr


@both_kernels_and_layouts
def test_debug_files_modules_and_headers_are_where_a_system_has_them() -> None:
    running = os.uname().release
    with open(f"/usr/lib/debug/boot/vmlinux-{running}", "rb") as vmlinux:
        assert vmlinux.read(4) == b"\x7fELF"
    assert list(Path(f"/usr/lib/debug/lib/modules/{running}").rglob("dummy.ko"))
    assert Path(f"/lib/modules/{running}/build/Makefile").is_file()


@both_kernels_and_layouts
def test_the_package_is_the_wheel_as_installed() -> None:
    import inlinetrace
    import inlinetrace.sites.model

    assert inlinetrace.__file__.startswith("/job/site/")
    files = importlib.metadata.files("inlinetrace") or []
    assert any(str(file).endswith("bin/inlinetrace") for file in files)


@both_kernels_and_layouts
def test_a_module_of_the_distribution_loads_and_goes() -> None:
    subprocess.run(["modprobe", "dummy"], check=True)
    assert "dummy" in Path("/proc/modules").read_text()
    subprocess.run(["rmmod", "dummy"], check=True)


@pytest.mark.guest(root="bcc", timeout=200)
def test_bcc_compiles_against_the_headers_and_attaches() -> None:
    program = """
from bcc import BPF
import os
b = BPF(text='BPF_ARRAY(hits, u64, 1); int hit(struct pt_regs *ctx) { hits.increment(0); return 0; }')
b.attach_kprobe(event='ksys_lseek', fn_name='hit')
with open('/proc/self/cmdline') as f:
    for _ in range(5): os.lseek(f.fileno(), 0, os.SEEK_SET)
assert b['hits'][0].value >= 5, b['hits'][0].value
b.cleanup()
"""
    done = subprocess.run(["python3", "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
