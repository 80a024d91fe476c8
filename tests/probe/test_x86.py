"""Which instructions take no uprobe, by their bytes."""

from __future__ import annotations

import pytest

from inlinetrace.probe.x86 import CANNOT, RED_ZONE, WRONGLY, can_be_emulated, is_misemulated, obstacle

FINE = {
    "nop": "90",
    "xchg %ax,%ax": "6690",
    "rex.w nop": "4890",
    "pause": "f390",
    "endbr64": "f30f1efa",
    "mov %rsp,%rbp": "4889e5",
    "fs nop": "6490",
    "nopl (%rax)": "0f1f00",
    "popf": "9d",
    "lahf": "9f",
    "ud2": "0f0b",
    "rdtsc": "0f31",
    "cpuid": "0fa2",
    "xgetbv": "0f01d0",
    "rdtscp": "0f01f9",
    "rep movsb": "f3a4",
    "mov x(%rip),%rax": "488b0500000000",
    "call *x(%rip)": "ff1500000000",
    "jmp *x(%rip)": "ff2500000000",
    "call *%rax": "ffd0",
    "bnd call": "f2e800000000",
    "push (%rax)": "ff30",
    "je": "7400",
    "jne": "0f8500000000",
    "loop": "e200",
    "jecxz": "67e300",
    "enter": "c8100000",
    "leave": "c9",
    "rep ret": "f3c3",
    "xabort": "c6f801",
    "mov %eax,%ds": "8ed8",
    "mov %ss,%eax": "8cd0",
    "pop %rax": "8fc0",
    "movdqu %xmm0,(%rdi)": "f30f7f07",
    "data16 lea": "66488d3d00000000",
    "vxorps": "c5f857c0",
    "vcvtsi2sd": "c4e1fb2ac6",
    "vpternlogd": "62f37548 25c9ff",
    "andn": "c4e2e8f2c6",
    "an xop": "8fe97801c8",
}
CANNOT_STEP = {
    "nothing": "",
    "no opcode": "66",
    "lock": "f048ff00",
    "66 lock": "66f0ff00",
    "cs nop": "2e90",
    "a long nop": "662e0f1f840000000000",
    "notrack jmp *%rax": "3effe0",
    "syscall": "0f05",
    "66 syscall": "660f05",
    "rex syscall": "480f05",
    "sysenter": "0f34",
    "sysexit": "0f35",
    "sysret": "480f07",
    "getsec": "0f37",
    "rsm": "0faa",
    "int3": "cc",
    "66 int3": "66cc",
    "int $0x80": "cd80",
    "into": "ce",
    "iret": "48cf",
    "icebp": "f1",
    "hlt": "f4",
    "cli": "fa",
    "sti": "fb",
    "in": "e401",
    "sldt": "0f00c0",
    "str": "0f00c8",
    "sgdt": "0f0100",
    "smsw": "0f01e0",
    "vmcall": "0f01c1",
    "uiret": "f30f01ec",
    "mov %eax,%ss": "8ed0",
    "66 mov %eax,%ss": "668ed0",
    "far call": "ff18",
    "far jmp": "48ff28",
    "xbegin": "c7f800000000",
    "66 je": "667400",
    "66 jne": "660f850000",
    "66 jmp": "66eb00",
    "66 call": "66e80000",
    "call __tls_get_addr": "666648e800000000",
    "66 call *%rax": "66ffd0",
    "66 loop": "66e200",
    "66 ret": "66c3",
    "vmovdqu (%rdi),%xmm0": "c5fa6f07",
    "vpxor": "c5f9efc0",
}
STEPPED_WRONGLY = {
    "pushf": "9c",
    "pushfw": "669c",
    "rex pushf": "489c",
    "repnz pushf": "f29c",
    "xchg %rax,%r8": "4990",
    "xchg %eax,%r8d": "4190",
    "vmovdqu %xmm0,(%rdi)": "c5fa7f07",
    "vmovd %xmm0,%eax": "c5f97ec0",
    "vzeroupper": "c5f877",
    "vpshufd": "c5f970c801",
    "vpcmpeqb": "c5f974c8",
    "vpor": "c5f9ebc8",
    "vpsubsb": "c5f9e8c8",
    "kmovw": "c5f890ca",
    "vpgatherdd": "c4e269900c00",
    "vpbroadcastb": "c4e27978c8",
    "vmovdqu64 %zmm0,(%rdi)": "62f1fe487f07",
    "vpbroadcastd %eax,%zmm1": "62f27d487cc8",
}
NOPS = ["0f1f440000", "660f1f0400", "6666666690", "480f1f0400", "6666664890", "f30f1f0400"]


@pytest.mark.parametrize("code", FINE.values(), ids=FINE)
def test_instructions_that_may_be_probed(code: str) -> None:
    assert obstacle(bytes.fromhex(code)) is None
    assert obstacle(bytes.fromhex(code) + bytes(4), entry=False) is None


@pytest.mark.parametrize("code", CANNOT_STEP.values(), ids=CANNOT_STEP)
def test_instructions_that_the_kernel_cannot_step_over(code: str) -> None:
    assert obstacle(bytes.fromhex(code)) == CANNOT


@pytest.mark.parametrize("code", STEPPED_WRONGLY.values(), ids=STEPPED_WRONGLY)
def test_instructions_that_become_others(code: str) -> None:
    assert obstacle(bytes.fromhex(code)) == WRONGLY


@pytest.mark.parametrize("code", NOPS)
def test_a_nop_of_five_bytes_may_be_probed_only_where_a_function_is_entered(code: str) -> None:
    assert obstacle(bytes.fromhex(code)) is None
    assert obstacle(bytes.fromhex(code), entry=False) == RED_ZONE
    assert obstacle(bytes.fromhex(code) + b"\xc3", entry=False) == RED_ZONE


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("9c", WRONGLY),
        ("c5fa7f07", WRONGLY),
        ("c5f8c2c800", WRONGLY),
        ("62f27d487cc8", WRONGLY),
        ("cd80", CANNOT),
        ("0f34", CANNOT),
        ("667500", CANNOT),
        ("cf", CANNOT),
        ("8ed0", CANNOT),
        ("c5fa6f07", CANNOT),
        ("f0ff00", CANNOT),
        ("40", None),
        ("419c", None),
        ("60", None),
        ("06", None),
        ("c50500000000", None),
        ("c470ff", None),
        ("6205", None),
        ("8f00", None),
        ("0f1f440000", None),
        ("c5f857c0", None),
    ],
)
def test_instructions_of_32_bits(code: str, why: str | None) -> None:
    assert obstacle(bytes.fromhex(code), wide=False, entry=False) == why


@pytest.mark.parametrize(
    ("code", "wrong"),
    [("c5fa7f07", True), ("c5f9fac8", True), ("c5f857c0", False), ("f30f7f07", False), ("8fc0", False)],
)
def test_a_kprobe_takes_vector_instructions_for_others(code: str, wrong: bool) -> None:
    assert is_misemulated(bytes.fromhex(code)) is wrong
    assert can_be_emulated(bytes.fromhex(code))
