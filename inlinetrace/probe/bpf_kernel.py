"""Where the kernel notes which uprobe it is handling, from the types that it carries.

>>> notes = dispatch_notes(host)             # None if this kernel does not say

A BPF program on a uprobe is told the address that was hit, not which probe it belongs to. While the kernel calls it, it
keeps that in ``current->utask->vaddr``: the address of a ``struct uprobe_dispatch_data`` with the probe and the address
(kernel/trace/trace_uprobe.c). The probe has its offset in the file, which tells it wherever the file is mapped. A
program can prove that it was not misled: the address noted is the one that was hit, and the offset has its low bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inlinetrace.btf.reader import Btf
    from inlinetrace.target.host import Host

_BTF = "/sys/kernel/btf/vmlinux"
_MAXIMUM_NESTING = 8


class DispatchNotes(NamedTuple):
    """Offsets of members: ``task_struct.utask``, ``uprobe_task.vaddr``, ``trace_uprobe.offset``."""

    task: int
    note: int
    offset: int


def dispatch_notes(host: Host) -> DispatchNotes | None:
    """The offsets in the running kernel; None if it has no such types, or they are not as expected."""
    from inlinetrace.btf.load import load
    from inlinetrace.errors import InlineTraceError

    try:
        btf = load(host.path(_BTF))
        # the note is read as a whole: the probe, then the address
        if member_offset(btf, "uprobe_dispatch_data", "tu") != 0:
            return None
        if member_offset(btf, "uprobe_dispatch_data", "bp_addr") != 8:
            return None
        return DispatchNotes(
            member_offset(btf, "task_struct", "utask"),
            member_offset(btf, "uprobe_task", "vaddr"),
            member_offset(btf, "trace_uprobe", "offset"),
        )
    except (InlineTraceError, LookupError, OSError):
        return None


def member_offset(btf: Btf, structure: str, name: str) -> int:
    """Offset in bytes of a member, which may be inside of unnamed structures. Raises LookupError if there is none."""
    from inlinetrace.btf._types import Composite
    from inlinetrace.btf.kinds import Kind

    pending: list[tuple[int, int, int]] = [(type_id, 0, 0) for type_id in btf.find(structure, Kind.STRUCT)]
    while pending:
        type_id, start, nesting = pending.pop(0)
        found = btf.type(type_id)
        if not isinstance(found, Composite):
            continue
        for member in found.members:
            offset = start + member.bit_offset
            if member.name == name and offset % 8 == 0:
                return offset // 8
            if not member.name and nesting < _MAXIMUM_NESTING:
                pending.append((member.type_id, offset, nesting + 1))
    raise LookupError(f"{structure} has no {name}")
