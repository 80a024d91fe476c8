"""What a few places need to know of the code: the same answers as from decoding everything."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from inlinetrace.code import FileCode
from inlinetrace.code.analysis import Jumps
from inlinetrace.elf import ElfFile
from tests.elf.elfwriter import Code, Sym, elf_file
from tests.kernels import Kernel

START = 0x1000


def file_of(code: bytes, functions: list[int], *, cold: bytes = b"\x90") -> ElfFile:
    """A program with ``code`` at START, and functions at these offsets of it."""
    symbols = [Sym(f"f{offset}", START + offset, 1, ".text") for offset in functions]
    sections = [Code(".text", code, START), Code(".text.cold", cold, 0x20000)]
    return ElfFile.from_bytes(elf_file(sections, symbols=symbols))


def asked(elf: ElfFile, wanted: set[int]) -> tuple[set[int], bool]:
    """The answer, and whether it was found without decoding everything."""
    code = FileCode(elf)
    return code.jump_targets(wanted), "jumps" not in code.__dict__


@pytest.mark.parametrize(
    ("text", "is_target"),
    [
        ("e9 f7030000", True),  # jmp
        ("0f84 f6030000", True),  # je
        ("f2 0f84 f5030000", True),  # bnd je
        ("c7f8 f6030000", True),  # xbegin
        ("66 c7f8 f703", True),  # xbegin with two bytes
        ("e8 f7030000", False),  # call
        ("b8 e9f60300 00", False),  # mov: the bytes of a jump inside of another instruction
        ("90", False),
    ],
)
def test_far_jumps(text: str, is_target: bool) -> None:
    code = bytes.fromhex(text).ljust(0x600, b"\x90")
    # The jump is not the first instruction, so that it is behind the start of its function.
    elf = file_of(b"\x90\x90\x90\x90" + code, [0, 0x100, 0x380, 0x500])
    wanted = {START + 4 + 5 + 0x3F7, START + 0x123}
    found, cheap = asked(elf, wanted)
    assert cheap
    assert found == ({START + 0x400} if is_target else set())
    assert found == {address for address in wanted if address in FileCode(elf).jumps}


def test_from_another_section() -> None:
    # jmp to START + 0x10 from 0x20000
    elf = file_of(b"\x90" * 64, [0], cold=b"\xe9" + (START + 0x10 - 0x20005).to_bytes(4, "little", signed=True))
    assert asked(elf, {START + 0x10, START + 0x11}) == ({START + 0x10}, True)


def test_many_indirect_jumps_without_tables() -> None:
    """Such a stretch is swept once, however many it has."""
    elf = file_of(bytes.fromhex("ffe0 ff6010") * 3000 + b"\xeb\xf9", [])
    wanted = {START + 15000 - 5, START + 15000 - 4}
    assert asked(elf, wanted) == ({START + 15000 - 5}, True)


def test_nothing_asked() -> None:
    assert asked(file_of(b"\xeb\xfe", [0]), set()) == (set(), True)


def random_code(rnd: random.Random) -> tuple[bytes, list[int]]:
    """Any bytes, with the ones that jumps are made of more often than others, and where functions start."""
    size = rnd.choice((1, 2, 5, 17, 255, 256, 257, 700, 3000))
    choice = [0x90, 0xE9, 0x0F, 0x84, 0xEB, 0xE3, 0x74, 0xC7, 0xF8, 0x66, 0x06, 0xFE, 0x00, 0x01, 0xFF]
    code = bytes(rnd.choice(choice) if rnd.random() < 0.6 else rnd.randrange(256) for _ in range(size))
    return code, sorted({rnd.randrange(size) for _ in range(rnd.randrange(8))})


def test_random_bytes() -> None:
    rnd = random.Random(20260)
    cheap = 0
    for _ in range(300):
        code, functions = random_code(rnd)
        elf = file_of(code, functions)
        whole = FileCode(elf).jumps
        wanted = set(range(START, START + len(code), rnd.choice((1, 3, 50)))) | set(
            rnd.choices([*whole.targets, 0], k=5)
        )
        found, easily = asked(elf, wanted)
        assert found == {address for address in wanted if address in whole}
        cheap += easily
    assert cheap > 100


def near(jumps: Jumps, spans: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """The jumps that lead to where a span begins or come from inside of one."""
    begins = {begin for begin, _ in spans}
    return {(s, t) for s, t in jumps if t in begins or any(begin <= s < end for begin, end in spans)}


def test_jumps_near_spans_of_random_bytes() -> None:
    rnd = random.Random(20261)
    cheap = 0
    for _ in range(300):
        code, functions = random_code(rnd)
        elf = file_of(code, functions)
        whole = FileCode(elf).jumps
        spans = []
        for _ in range(rnd.choice((1, 2, 5))):
            begin = START + rnd.randrange(-3, len(code) + 3)
            spans.append((begin, begin + rnd.choice((0, 1, 7, 200))))
        if len(whole):
            spans.append((rnd.choice(whole.targets),) * 2)
        codes = FileCode(elf)
        found = codes.jumps_near(spans)
        assert near(found, spans) == near(whole, spans)
        assert list(zip(found.targets, found.sources, strict=True)) == sorted(
            zip(found.targets, found.sources, strict=True)
        )
        assert set(found) <= set(whole)
        cheap += "jumps" not in codes.__dict__
    assert cheap > 100


def test_boundaries_of_random_bytes() -> None:
    """A function alone tells them as all code does, where its bytes are instructions and where they are none."""
    rnd = random.Random(20262)
    for _ in range(100):
        code, functions = random_code(rnd)
        elf = file_of(code, functions)
        whole = FileCode(elf).code(elf.sections[1])
        codes = FileCode(elf)
        for address in range(START - 1, START + len(code) + 1):
            expected = whole.is_boundary(address)
            if expected:
                # the others need to know all jumps
                codes = FileCode(elf)
            assert codes.is_boundary(address) == expected, hex(address)


def test_a_boundary_is_found_without_decoding_everything() -> None:
    codes = FileCode(file_of(bytes.fromhex("48 89 c3 c3") * 16, [0, 16, 32]))
    assert codes.is_boundary(START + 19) is True
    assert not codes.__dict__["_codes"]
    assert codes.is_boundary(START + 18) is False
    assert codes.is_boundary(0x777) is False


@pytest.mark.compiled
@pytest.mark.parametrize("option", ["-fjump-tables", "-fno-jump-tables"])
def test_jump_tables_make_it_decode_everything(option: str, tmp_path: Path) -> None:
    cases = "".join(f"case {n}: return g({n * n + 7}) + {n};" for n in range(12))
    (tmp_path / "a.c").write_text(f"extern int g(int); int f(int n) {{ switch (n) {{ {cases} }} return 0; }}")
    subprocess.run(
        ["gcc", "-O2", option, "-fcf-protection=none", "-r", "-nostdlib", "a.c", "-o", "a.o"], cwd=tmp_path, check=True
    )
    elf = ElfFile.open(tmp_path / "a.o")
    whole = FileCode(elf).jumps
    wanted = set(whole.targets) | {target + 1 for target in whole.targets}
    found, cheap = asked(elf, wanted)
    assert len(whole) > 3
    assert found == {address for address in wanted if address in whole}
    assert cheap == (option == "-fno-jump-tables")


@pytest.mark.kernel
def test_the_whole_kernel(distribution_kernel: Kernel) -> None:
    elf = ElfFile.open(distribution_kernel.vmlinux)
    whole = FileCode(elf).jumps
    rnd = random.Random(61)
    for count in (1, 10, 3000):
        targets = rnd.choices(whole.targets, k=count)
        wanted = {*targets, *(target + rnd.choice((-1, 1, 3)) for target in targets)}
        found, cheap = asked(elf, wanted)
        assert cheap
        assert found == {address for address in wanted if address in whole}
        spans = [(target - rnd.choice((0, 50)), target + rnd.choice((0, 100))) for target in targets[:50]]
        codes = FileCode(elf)
        assert near(codes.jumps_near(spans), spans) == near(whole, spans)
        assert "jumps" not in codes.__dict__
