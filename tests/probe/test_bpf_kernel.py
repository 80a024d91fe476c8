"""Offsets of what the kernel notes of the uprobe it is handling, out of its own types."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from inlinetrace.btf._types import Member
from inlinetrace.btf.builder import Builder
from inlinetrace.probe.bpf_kernel import DispatchNotes, dispatch_notes, member_offset
from inlinetrace.target.host import Host
from tests.kernels import Kernel


def kernel(tmp_path: Path, *, second: str = "bp_addr") -> Host:
    """A machine whose kernel has the four structures, one member in an unnamed structure of an unnamed union."""
    builder = Builder()
    long = builder.add_int("long unsigned int", 8)
    builder.add_struct("task_struct", 800, [Member("pid", long, 0), Member("utask", long, 8 * 600)])
    inner = builder.add_struct("", 24, [Member("autask", long, 0), Member("vaddr", long, 8 * 16)])
    union = builder.add_union("", 24, [Member("", inner, 0), Member("dup_xol_addr", long, 0)])
    builder.add_struct("uprobe_task", 64, [Member("state", long, 0), Member("", union, 8 * 32)])
    builder.add_struct("uprobe_dispatch_data", 16, [Member("tu", long, 0), Member(second, long, 64)])
    builder.add_struct("trace_uprobe", 300, [Member("offset", long, 8 * 120)])
    place = tmp_path / "sys" / "kernel" / "btf" / "vmlinux"
    place.parent.mkdir(parents=True)
    place.write_bytes(builder.to_bytes())
    return Host(tmp_path)


def test_members_are_found_in_unnamed_structures_too(tmp_path: Path) -> None:
    assert dispatch_notes(kernel(tmp_path)) == DispatchNotes(600, 48, 120)


def test_a_kernel_that_does_not_say_or_says_something_else(tmp_path: Path) -> None:
    assert dispatch_notes(kernel(tmp_path, second="address")) is None
    assert dispatch_notes(Host(tmp_path / "none")) is None
    (tmp_path / "sys/kernel/btf/vmlinux").write_bytes(b"damaged")
    assert dispatch_notes(Host(tmp_path)) is None


@pytest.mark.kernel
def test_offsets_are_those_that_pahole_says(distribution_kernel: Kernel) -> None:
    from inlinetrace.btf.load import load

    pahole = shutil.which("pahole")
    assert pahole is not None
    btf = load(str(distribution_kernel.vmlinux))
    for structure, name in (("uprobe_task", "vaddr"), ("trace_uprobe", "offset"), ("uprobe_dispatch_data", "bp_addr")):
        command = [pahole, "-F", "btf", "-C", structure, str(distribution_kernel.vmlinux)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found = re.search(rf"\b{name};\s*/\*\s*(\d+)\s", text)
        assert found is not None
        assert member_offset(btf, structure, name) == int(found[1])
