"""Programs that the kernel has to accept: the largest ones, for uprobes and for kprobes, that record and that count."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from inlinetrace.elf.machine import X86_64
from inlinetrace.probe import bpf_capture
from inlinetrace.probe.bcc_library import (
    ARRAY,
    HASH,
    KPROBE_PROGRAM,
    NO_PREALLOCATION,
    RING,
    SLEEPABLE,
    TRACEPOINT_PROGRAM,
    Library,
    open_library,
)
from inlinetrace.probe.bpf_capture import Capture
from inlinetrace.probe.bpf_kernel import DispatchNotes
from inlinetrace.probe.bpf_program import (
    BUCKETS,
    MAXIMUM_DEPTH,
    Comparison,
    Maps,
    Options,
    Table,
    Value,
    aggregates_on_stack,
    exit_program,
    fork_program,
    site_program,
)
from inlinetrace.probe.fetch import Argument
from inlinetrace.probe.plan import Event, LogicalHit, Plan, Probe
from inlinetrace.sites.model import Site

pytestmark = pytest.mark.uprobes

SITE = Site("f", True, 0x1000, ".text", 0, "g", 0, "void", ())
FIRST = bpf_capture.HEADER_SIZE // 8
REGISTERS = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ip"]


def chain(links: int) -> str:
    text = "%di"
    for link in range(links):
        text = f"+{8 * link}({text})"
    return text


SHAPES: dict[str, list[Argument]] = {
    "nothing": [],
    "every register": [Argument(f"%{name}", "u64") for name in REGISTERS],
    "as many reads as an event has arguments": [Argument(f"+{8 * number}(%di)", "u64") for number in range(126)],
    "the longest chain": [Argument(chain(14), "u32"), Argument(chain(13), "string")],
    "as many texts": [Argument(f"+{8 * number}(%di)", "string") for number in range(126)],
    "large structures": [Argument("+0(%di)", "x64[64]"), Argument("+8(%si)", "x8[63]")],
}


class Kernel:
    """Makes maps and loads programs; closes all of them."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.descriptors: list[int] = []

    def map(self, kind: int, key: int, value: int, entries: int, flags: int = 0) -> int:
        self.descriptors.append(self.library.make_map(kind, "test", key, value, entries, flags))
        return self.descriptors[-1]

    def load(self, kind: int, code: bytes, flags: int = 0) -> None:
        self.descriptors.append(self.library.load_program(kind, "test", code, flags))


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    made = Kernel(open_library())
    yield made
    for descriptor in made.descriptors:
        os.close(descriptor)


def capture(arguments: list[Argument], *, in_kernel: bool, frames: int = 0) -> Capture:
    probe = Probe(0, 0x1000, 0x200, (LogicalHit(SITE, ()),), tuple(arguments))
    target = "_stext" if in_kernel else "/bin/x"
    return Capture.of(Plan(target, in_kernel, [Event("sites0", (), [probe])], []), X86_64, frames=frames)


def maps(kernel: Kernel, table: Table, *, histograms: bool = False) -> Maps:
    return Maps(
        kernel.map(HASH, 8, table.size, 10),
        kernel.map(RING, 0, 0, 1 << 20),
        kernel.map(ARRAY, 4, 8, 1),
        kernel.map(HASH, 4, 4, 100, NO_PREALLOCATION),
        kernel.map(ARRAY, 4, 8, BUCKETS) if histograms else None,
    )


def deepest() -> tuple[Comparison | str, ...]:
    """A filter that keeps as many truths at once as there is room for, with every comparison."""
    symbols = ("==", "!=", "<", "<=", ">", ">=", "&")
    tests = [Comparison(0, symbol, (1 << 63) - 1, signed) for symbol in symbols for signed in (True, False)]
    program: list[Comparison | str] = [*tests[:MAXIMUM_DEPTH], *["and"] * (MAXIMUM_DEPTH - 1)]
    for test in tests[MAXIMUM_DEPTH:]:
        program += [test, "not", "or"]
    return tuple(program)


@pytest.mark.parametrize("frames", [0, bpf_capture.MAXIMUM_FRAMES])
@pytest.mark.parametrize("in_kernel", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_programs_that_record(shape: str, in_kernel: bool, frames: int, kernel: Kernel) -> None:
    fetched = capture(SHAPES[shape], in_kernel=in_kernel, frames=frames)
    assert fetched.refused == []
    filtered = "%di" in str(SHAPES[shape])
    table = Table(fetched, {0: [Value(FIRST, 4, True, 1 | 1 << 100, -1)]} if filtered else {})
    options = Options(
        in_kernel,
        0xFFF,
        None if in_kernel else DispatchNotes(2000, 100, 300),
        condition=deepest() if filtered else (),
        wait=not in_kernel,
    )
    code = site_program(fetched, table, maps(kernel, table), options)
    kernel.load(KPROBE_PROGRAM, code, 0 if in_kernel else SLEEPABLE)


@pytest.mark.parametrize("in_kernel", [False, True])
def test_programs_that_count(in_kernel: bool, kernel: Kernel) -> None:
    arguments = [*SHAPES["every register"], Argument(chain(14), "s16"), Argument("+0(%si)", "u8")]
    fetched = capture(arguments, in_kernel=in_kernel)
    assert aggregates_on_stack(fetched)
    values = [
        Value(FIRST, 8, True, 0, -1),
        Value(FIRST + 17 + 13, 2, True, (1 << 14) - 1, 0),
        Value(FIRST + 1, 8, False, 0, 0),
    ]
    table = Table(fetched, {0: values})
    options = Options(in_kernel, 0xFFF, aggregate=True, condition=deepest(), wait=not in_kernel)
    code = site_program(fetched, table, maps(kernel, table, histograms=True), options)
    kernel.load(KPROBE_PROGRAM, code, 0 if in_kernel else SLEEPABLE)


def test_more_than_fits_on_the_stack_is_not_counted_there() -> None:
    assert not aggregates_on_stack(capture(SHAPES["large structures"], in_kernel=False))
    assert not aggregates_on_stack(capture([Argument("+0(%di)", "string")], in_kernel=False))


def test_programs_that_follow_processes(kernel: Kernel) -> None:
    processes = kernel.map(HASH, 4, 4, 100, NO_PREALLOCATION)
    kernel.load(TRACEPOINT_PROGRAM, fork_program(processes, 44))
    kernel.load(TRACEPOINT_PROGRAM, exit_program(processes))


def test_a_program_that_the_kernel_does_not_accept_is_an_error(
    kernel: Kernel, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(OSError, match="does not accept"):
        kernel.load(KPROBE_PROGRAM, bytes([0x95]) + bytes(7))
    # the library has said why
    assert "R0" in capfd.readouterr().err
