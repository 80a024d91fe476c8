"""The assembler, with LLVM's disassembler as the judge of what it makes."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from inlinetrace.errors import UnsupportedError
from inlinetrace.probe.bpf_code import FP, R0, R1, R2, R3, R6, R8, Assembler


def disassembled(code: bytes) -> list[str]:
    """The instructions in LLVM's words."""
    text = "".join(f"0x{byte:02x} " for byte in code)
    tool = shutil.which("llvm-mc")
    assert tool is not None
    done = subprocess.run(
        [tool, "--disassemble", "--triple=bpfel"], input=text, capture_output=True, text=True, check=True
    )
    return [line.strip() for line in done.stdout.splitlines() if line.strip() and not line.startswith("\t.")]


@pytest.mark.compiled
def test_instructions_are_what_llvm_takes_them_for() -> None:
    code = Assembler()
    code.move(R6, R1)
    code.load(R1, R6, 128, 8)
    code.load(R2, R8, 2, 2)
    code.load(R2, R8, 4, 1)
    code.store(FP, -16, R1, 8)
    code.store(FP, -4, R1, 4)
    for operation in ("+=", "-=", "|=", "&=", "<<=", ">>=", "s>>=", "^=", "*=", "="):
        code.compute(R2, operation, 9)
    code.compute_register(R2, "&=", R3)
    code.negate(R2)
    code.address(R1, FP, -8)
    code.constant(R0, -1)
    code.constant(R0, 0x1122334455667788)
    code.atomic_add(R0, 8, R1)
    code.call(131)
    code.exit()
    assert disassembled(code.assemble()) == [
        "r6 = r1",
        "r1 = *(u64 *)(r6 + 128)",
        "r2 = *(u16 *)(r8 + 2)",
        "r2 = *(u8 *)(r8 + 4)",
        "*(u64 *)(r10 - 16) = r1",
        "*(u32 *)(r10 - 4) = r1",
        "r2 += 9",
        "r2 -= 9",
        "r2 |= 9",
        "r2 &= 9",
        "r2 <<= 9",
        "r2 >>= 9",
        "r2 s>>= 9",
        "r2 ^= 9",
        "r2 *= 9",
        "r2 = 9",
        "r2 &= r3",
        "r2 = -r2",
        "r1 = r10",
        "r1 += -8",
        "r0 = -1",
        "r0 = 1234605616436508552 ll",
        "lock *(u64 *)(r0 + 8) += r1",
        "call 131",
        "exit",
    ]


@pytest.mark.compiled
def test_jumps_find_their_labels() -> None:
    code = Assembler()
    code.label("start")
    symbols = ("==", ">", ">=", "!=", "s>", "s>=", "<", "<=", "s<", "s<=")
    for symbol in symbols:
        code.jump(symbol, R1, 5, "end")
    code.jump_register("s<", R1, R2, "start")
    code.go("end")
    code.label("end")
    code.exit()
    lines = disassembled(code.assemble())
    count = len(symbols)
    assert lines[:count] == [f"if r1 {symbol} 5 goto +{count + 1 - at}" for at, symbol in enumerate(symbols)]
    assert lines[count:] == [f"if r1 s< r2 goto -{count + 1}", "goto +0", "exit"]


def test_a_jump_that_is_too_far_is_said() -> None:
    code = Assembler()
    code.go("end")
    for _ in range(1 << 15):
        code.move(R1, R2)
    code.label("end")
    code.exit()
    with pytest.raises(UnsupportedError, match="name fewer arguments"):
        code.assemble()


def test_instructions_that_not_every_llvm_knows() -> None:
    code = Assembler()
    code.store_number(FP, -24, 7, 8)
    code.jump("&", R1, 5, "end")
    code.label("end")
    # BPF_ST | BPF_MEM | BPF_DW and BPF_JMP | BPF_JSET | BPF_K
    assert code.assemble() == bytes([0x7A, 0x0A, 0xE8, 0xFF, 7, 0, 0, 0, 0x45, 0x01, 0, 0, 5, 0, 0, 0])


def test_a_map_is_named_by_its_descriptor() -> None:
    code = Assembler()
    code.map(R1, 77)
    assert code.assemble() == bytes([0x18, 0x11, 0, 0, 77, 0, 0, 0]) + bytes(8)
    assert len(code) == 2
