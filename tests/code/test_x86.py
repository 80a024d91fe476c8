from __future__ import annotations

import itertools
import re
import subprocess
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inlinetrace.code import _x86
from inlinetrace.elf import ElfFile

NONE = array("Q")

# Encodings by class, with what they are in the comment; each is exactly one instruction.
ONE_INSTRUCTION = """
90                              nop
c3                              ret
c8 34 12 05                     enter $0x1234,$5
b8 01 00 00 00                  mov $1,%eax
66 b8 01 00                     mov $1,%ax
48 b8 01 02 03 04 05 06 07 08   movabs
66 48 b8 01 02 03 04 05 06 07 08 movabs, 66 without meaning
a1 01 02 03 04 05 06 07 08      movabs 0x0807060504030201,%eax
67 a1 01 02 03 04               addr32
48 a3 01 02 03 04 05 06 07 08   movabs %rax,0x0807060504030201
48 8b 04 25 00 00 00 00         mov 0x0,%rax (no base)
48 8b 05 01 00 00 00            mov 1(%rip),%rax
48 8b 44 24 08                  mov 8(%rsp),%rax
48 8b 84 24 08 00 00 00         mov 8(%rsp),%rax (long)
8b 04 85 00 00 00 00            mov 0(,%rax,4),%eax
8b 45 fc                        mov -4(%rbp),%eax
64 48 8b 04 25 28 00 00 00      mov %fs:0x28,%rax
f6 c1 01                        test $1,%cl
f6 d1                           not %cl
f7 c1 01 00 00 00               test $1,%ecx
66 f7 c1 01 00                  test $1,%cx
48 f7 d9                        neg %rcx
69 c0 01 00 00 00               imul
66 69 c0 01 00                  imul
6b c0 01                        imul
c7 45 00 01 00 00 00            movl
66 c7 45 00 01 00               movw
48 81 ec 00 01 00 00            sub
83 ec 08                        sub
68 01 00 00 00                  push
6a 01                           push
e8 00 00 00 00                  call
67 e8 00 00 00 00               addr32 call
e9 00 00 00 00                  jmp
66 66 48 e8 00 00 00 00         data16 data16 rex.W call (thread-local storage)
eb 00                           jmp
0f 84 00 00 00 00               je
e3 00                           jrcxz
f2 e9 00 00 00 00               bnd jmp
2e 74 00                        je,pn
3e ff e0                        notrack jmp *%rax
ff 24 c5 00 00 00 00            jmp *0(,%rax,8)
f3 0f 1e fa                     endbr64
66 2e 0f 1f 84 00 00 00 00 00   nopw
66 66 2e 0f 1f 84 00 00 00 00 00 nopw
0f 0b                           ud2
0f b9 cc                        ud1 %esp,%ecx
0f 01 e8                        serialize
f2 0f 01 ff                     pvalidate
0f 01 ca                        clac
0f 22 d8                        mov %rax,%cr3
0f 20 45                        mov %cr0,%rbp (no displacement)
0f 05                           syscall
0f a2                           cpuid
0f ae f0                        mfence
0f c7 0f                        cmpxchg8b
0f ba e0 05                     bt
0f 0f c1 9e                     pfadd
0f 71 d0 04                     psrlw
66 0f 78 c0 01 02               extrq
f2 0f 78 c1 01 02               insertq
0f 78 c1                        vmread
66 0f 38 db c0                  aesimc
66 0f 38 00 c1                  pshufb
66 0f 3a 0f c1 08               palignr
f2 0f 38 f0 c1                  crc32
c5 f8 77                        vzeroupper
c5 fc 28 c1                     vmovaps
c5 f8 c6 c1 01                  vshufps
c5 fd 71 d1 04                  vpsrlw
c4 e2 7d 18 05 00 00 00 00      vbroadcastss
c4 e3 7d 18 c1 01               vinsertf128
c4 e2 f0 f7 c1                  shlx
67 c5 fc 28 00                  vmovaps (%eax)
62 f1 7c 48 28 c1               vmovaps zmm
62 f1 7c 48 28 44 24 01         vmovaps 64(%rsp)
62 f3 7d 48 18 c1 01            vinsertf32x4
62 f2 7d 48 18 05 00 00 00 00   vbroadcastss
62 f5 74 48 58 c2               vaddph
62 f1 7d 48 72 f1 05            vpslld
8f e9 78 e1 c1                  xop vphaddwd? map 9
8f e8 78 c0 c1 05               vprotb map 8
8f ea 78 10 c1 01 00 00 00      bextr map 10
8f 00                           pop (%rax)
8f c0                           pop %rax
d5 18 89 c0                     rex2 mov
d5 80 af c0                     rex2 imul
d5 08 81 c0 01 00 00 00         rex2 add
62 f4 7c 08 f7 c1 01 00 00 00   apx test
62 f4 fc 18 81 c0 01 00 00 00   apx add
c7 f8 00 00 00 00               xbegin
c6 f8 01                        xabort
d9 c0                           fld
da e9                           fucompp
9b                              fwait
f0 48 0f b1 0f                  lock cmpxchg
f3 a4                           rep movsb
48 66 90                        REX without meaning before a prefix
"""

NOT_INSTRUCTIONS = """
06          push %es is gone
ea 00       far jmp is gone
d4 0a       aam is gone
82 c0 01    alias of 80 is gone
0f 0a       undefined
66 e8 00 00 00 00 Intel reads four bytes, AMD two
66 0f 84 00 00 00 00 the same
0f 24 c0    undefined
0f 38 ff c0 undefined
0f 3a 00 c0 undefined
0f b8 c0    popcnt without f3
fe d0       group 4 /2
ff f8       group 5 /7
ff e9       far jump through a register
8d c0       lea of a register
c6 c8 01    group 11 /1
da e8       undefined x87
66 c5 fc 28 c1 VEX behind 66
48 c5 fc 28 c1 VEX behind REX
f3 62 f1 7c 48 28 c1 EVEX behind f3
62 f0 7c 48 28 c1 EVEX map 0
c4 e0 7d 18 c0 VEX map 0
d5 00 0f 05 REX2 before an escape
d5 00 eb 00 REX2 before a short jump
66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90 sixteen bytes
"""


def lines(text: str) -> list[bytes]:
    """The leading pairs of hexadecimal digits of each line."""
    found = []
    for line in text.strip().splitlines():
        pairs = itertools.takewhile(lambda word: re.fullmatch(r"[0-9a-f]{2}", word), line.split())
        found.append(bytes.fromhex("".join(pairs)))
    return found


@pytest.mark.parametrize("code", lines(ONE_INSTRUCTION), ids=bytes.hex)
def test_length(code: bytes) -> None:
    assert _x86.decode(memoryview(code + bytes(16)), 0)[0] == len(code)
    assert _x86.decode(memoryview(code), 0)[0] == len(code)
    for size in range(len(code)):
        assert _x86.decode(memoryview(code[:size]), 0)[0] == 0


@pytest.mark.parametrize("code", lines(NOT_INSTRUCTIONS), ids=bytes.hex)
def test_undefined(code: bytes) -> None:
    assert _x86.decode(memoryview(code + bytes(16)), 0)[0] == 0


@pytest.mark.parametrize(
    ("code", "kind", "target"),
    [
        ("eb10", _x86.JUMP, 0x12),
        ("ebfe", _x86.JUMP, 0),
        ("7480", _x86.JUMP, 2 - 128),
        ("0f85fcffffff", _x86.JUMP, 2),
        ("e900010000", _x86.JUMP, 0x105),
        ("f2e900010000", _x86.JUMP, 0x106),
        ("e210", _x86.JUMP, 0x12),
        ("c7f810000000", _x86.JUMP, 0x16),
        ("e800010000", _x86.CALL, 0x105),
        ("ffe0", _x86.INDIRECT_JUMP, 0),
        ("3eff24c500000000", _x86.INDIRECT_JUMP, 0),
        ("ff2500000000", _x86.INDIRECT_JUMP, 0),
        ("ff28", _x86.INDIRECT_JUMP, 0),
        ("ffd0", _x86.OTHER, 0),
        ("c3", _x86.OTHER, 0),
    ],
)
def test_branches(code: str, kind: int, target: int) -> None:
    assert _x86.decode(memoryview(bytes.fromhex(code)), 0)[1:] == (kind, target)


def test_sweep_positions_are_addresses() -> None:
    code = bytes.fromhex("90 eb01 06 c3 ff e0")
    sweep = _x86.sweep(memoryview(code), 0x1000, NONE)
    assert list(sweep.boundaries()) == [0x1000, 0x1001, 0x1004, 0x1005]
    assert (list(sweep.sources), list(sweep.ends), list(sweep.targets)) == ([0x1001], [0x1003], [0x1004])
    assert list(sweep.indirect) == [0x1005]
    assert list(sweep.undecoded) == [0x1003, 0x1004]
    assert sweep.instruction_count == 4
    assert (sweep.starts(0), sweep.starts(2), sweep.starts(100)) == (True, False, False)
    assert (sweep.previous(0), sweep.previous(4), sweep.previous(1000)) == (-1, 1, 5)
    assert (sweep.following(1), sweep.following(5)) == (4, -1)


def test_sweep_keeps_to_known_starts() -> None:
    # 48 b8 would swallow the function that starts behind it.
    code = bytes.fromhex("90 48b8 55 c3 90 90 90 90 90 90 90")
    sweep = _x86.sweep(memoryview(code), 0, array("Q", [3]))
    assert list(sweep.boundaries())[:3] == [0, 3, 4]
    assert list(sweep.undecoded) == [1, 3]


def test_empty_code() -> None:
    sweep = _x86.sweep(memoryview(b""), 0, NONE)
    assert sweep.instruction_count == 0
    assert list(sweep.boundaries()) == []
    assert sweep.previous(0) == sweep.following(0) == -1


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.lists(st.integers(0, 250), max_size=5))
def test_any_bytes_are_instructions_or_undecoded(code: bytes, known: list[int]) -> None:
    sweep = _x86.sweep(memoryview(code), 0, array("Q", sorted(set(known))))
    starts = list(sweep.boundaries())
    covered: set[int] = set()
    for start in starts:
        length = _x86.decode(memoryview(code), start)[0]
        assert 0 < length <= 15
        assert not covered & set(range(start, start + length))
        covered |= set(range(start, start + length))
    pairs = list(sweep.undecoded)
    for first, last in zip(pairs[::2], pairs[1::2], strict=True):
        assert first < last
        covered |= set(range(first, last))
    assert covered == set(range(len(code)))


# Where capstone 5 is wrong and objdump right: ud0 and ud1 have a ModRM byte; serialize, pvalidate, psmash, rmpadjust,
# rmpupdate and rmpquery (0f 01 fd to ff, e8) are instructions.
CAPSTONE_IS_WRONG = ("0fb9", "0fff", "0f01")


def differences_from_capstone(code: bytes, address: int) -> list[tuple[str, str, int, int]]:
    import capstone

    disassembler = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    view = memoryview(code)
    found = []
    at = 0
    while at < len(code):
        for where, size, mnemonic, operands in disassembler.disasm_lite(code[at:], address + at):
            offset = where - address
            length, kind, target = _x86.decode(view, offset)
            text = f"{mnemonic} {operands}"
            jump = re.fullmatch(r"(?:[a-z]+ )?(?:j[a-z]+|loop[a-z]*|xbegin) (.*)", text)
            right = length == size
            if jump is None:
                right = right and kind in (_x86.OTHER, _x86.CALL)
            elif jump[1].startswith("0x"):
                right = right and kind == _x86.JUMP and (address + target) % 2**64 == int(jump[1], 16)
            else:
                right = right and kind == _x86.INDIRECT_JUMP
            if not right and not code[offset : offset + size].hex().startswith(CAPSTONE_IS_WRONG):
                found.append((code[offset : offset + 15].hex(), text, size, length))
            at = offset + size
        # Capstone stops at what it does not know.
        if at < len(code):
            length = _x86.decode(view, at)[0]
            if length and not code[at : at + 3].hex().lstrip("f23").startswith("0f01"):
                found.append((code[at : at + 15].hex(), "(bad)", 0, length))
            at += 1
    return found


@pytest.mark.parametrize("path", ["/bin/ls", "/lib/x86_64-linux-gnu/libm.so.6", "/lib/x86_64-linux-gnu/libc.so.6"])
def test_agrees_with_capstone_on_libraries(path: str) -> None:
    elf = ElfFile.open(path)
    section = elf.section(".text")
    assert section is not None
    code = bytes(elf.data(section)[: 400 << 10])
    assert differences_from_capstone(code[:-15], section.address) == []


def test_agrees_with_objdump_on_a_program() -> None:
    path = "/bin/ls"
    elf = ElfFile.open(path)
    section = elf.section(".text")
    assert section is not None
    command = ["objdump", "-d", "-j", ".text", "--no-show-raw-insn", "-w", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = [int(found[1], 16) for found in re.finditer(r"^ +([0-9a-f]+):\t", text, re.M)]
    assert list(_x86.sweep(elf.data(section), section.address, NONE).boundaries()) == theirs


@pytest.mark.kernel
def test_agrees_with_capstone_on_a_kernel() -> None:
    kernels = sorted(Path("~/.cache/inlinetrace-dev/kernels").expanduser().glob("*/usr/lib/debug/boot/vmlinux-*"))
    assert kernels
    for path in kernels:
        elf = ElfFile.open(path)
        section = elf.section(".text")
        assert section is not None
        code = bytes(elf.data(section)[1 << 20 : 3 << 20])
        # The piece starts and ends within an instruction.
        assert [d for d in differences_from_capstone(code, 0)[2:-2] if d[1] != "(bad)"] == []
