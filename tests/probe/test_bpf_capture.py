"""Fetch arguments as reads of memory for a BPF program."""

from __future__ import annotations

import pytest

from inlinetrace.elf.machine import AARCH64, S390X, X86_64
from inlinetrace.errors import UnsupportedError
from inlinetrace.probe import bpf_capture
from inlinetrace.probe.bpf_capture import Capture, Read, Source
from inlinetrace.probe.fetch import Argument
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe
from inlinetrace.sites.model import Site

FIRST = bpf_capture.HEADER_SIZE // 8
SITE = Site("f", True, 0x1000, ".text", 0, "g", 0, "void", ())


def plan(*probes: tuple[Argument, ...], kernel: bool = False, shift: int = 0, anchor: str | None = None) -> Plan:
    made = [
        Probe(number, 0x1000 + number, 0x200 + number, (LogicalHit(SITE, ()),), arguments, anchor, shift)
        for number, arguments in enumerate(probes)
    ]
    return Plan("_stext" if kernel else "/bin/x", kernel, [Event("sites0", (), made)], [])


def test_registers_are_kept_once_for_all_probes() -> None:
    capture = Capture.of(plan((Argument("%di", "u64"),), (Argument("%si", "s32"), Argument("%di", "u64"))), X86_64)
    assert capture.registers == ("di", "si")
    assert [entry.sources for entry in capture.entries] == [
        [Source("register", 0, 8)],
        [Source("register", 1, 4), Source("register", 0, 8)],
    ]
    assert capture.size(0) == bpf_capture.HEADER_SIZE + 16


def test_a_chain_of_pointers_is_read_link_by_link_and_each_link_once() -> None:
    arguments = (
        Argument("+8(+0(%di))", "u32"),
        Argument("+0(%di)", "u64"),
        Argument("+16(+8(+0(%di)))", "u8"),
        Argument("+4(+0(%di))", "string"),
    )
    (entry,) = Capture.of(plan(arguments), X86_64).entries
    # one register, then the slots of the reads: a pointer, its member, the pointer there, what that points at
    assert entry.reads == [
        Read(FIRST, 0, 8, 0b1),
        Read(FIRST + 1, 8, 4, 0b11),
        Read(FIRST + 1, 8, 8, 0b101),
        Read(FIRST + 3, 16, 1, 0b1101),
    ]
    assert entry.texts == [Read(FIRST + 1, 4, 0, 0b1)]
    assert entry.sources == [
        Source("number", 1, 4),
        Source("number", 0, 8),
        Source("number", 3, 1),
        Source("text", 0, 0),
    ]


def test_slots_have_room_for_the_largest_of_all_sites() -> None:
    capture = Capture.of(plan((Argument("+0(%di)", "x8[13]"),), (Argument("+0(%si)", "x64[2]"),)), X86_64)
    assert capture.read_sizes == [16]
    assert [entry.sources[0] for entry in capture.entries] == [Source("bytes", 0, 13), Source("bytes", 0, 16)]


def test_memory_at_fixed_addresses_is_counted_from_the_address_that_was_hit() -> None:
    (entry,) = Capture.of(plan((Argument("@+4096", "u32"), Argument("@0x600000", "u32"))), X86_64).entries
    assert entry.reads == [
        Read(bpf_capture.ADDRESS // 8, 4096 - 0x200, 4, 1),
        Read(bpf_capture.ZERO // 8, 0x600000, 4, 2),
    ]


@pytest.mark.parametrize("anchor", [None, "mod:symbol"])
def test_memory_of_a_kernel_is_counted_from_where_the_kernel_puts_the_probe(anchor: str | None) -> None:
    text = f"@{anchor or '_stext'}+{0x300}"
    one = plan((Argument(text, "u64"),), kernel=True, shift=4, anchor=anchor)
    (entry,) = Capture.of(one, X86_64).entries
    assert entry.reads == [Read(bpf_capture.ADDRESS // 8, 0x100 - 4, 8, 1)]


def test_what_a_program_cannot_fetch_is_refused_with_the_reason() -> None:
    many = tuple(Argument(f"+{8 * number}(%di)", "u64") for number in range(bpf_capture.MAXIMUM_READS + 1))
    capture = Capture.of(plan(many, (Argument("@other+1", "u64"),), (Argument("%di", "u64"),)), X86_64)
    assert [(probe.number, reason) for probe, reason in capture.refused] == [
        (0, "129 reads, 128 are possible"),
        (1, "memory at @other+1 cannot be fetched by a BPF program"),
    ]
    assert [entry.probe.number for entry in capture.entries] == [2]


def test_machines() -> None:
    capture = Capture.of(plan((Argument("%x3", "u64"),)), AARCH64)
    assert capture.known.offsets["x3"] == 24
    assert (capture.known.pc, capture.known.behind) == (256, 0)
    with pytest.raises(UnsupportedError, match=r"s390x.*tracefs"):
        Capture.of(plan(), S390X)


def test_stacks_lie_between_reads_and_texts() -> None:
    arguments = (Argument("+0(%di)", "u64"), Argument("+0(%di)", "string"))
    for kernel, stacks in ((False, 1), (True, 2)):
        capture = Capture.of(plan(arguments, kernel=kernel), X86_64, frames=10)
        assert capture.stacks == stacks
        assert capture.stack_offset == bpf_capture.HEADER_SIZE + 16
        assert capture.text_offset == capture.stack_offset + stacks * 88
        assert capture.size(100) == capture.text_offset + 108
