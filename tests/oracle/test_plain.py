"""The plain rule reads DWARF by itself: what it finds is held against llvm-dwarfdump and a program's own output."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.oracle import plain
from tests.oracle.compilers import detect


def operations(*items: tuple[str, list[object]]) -> list[SimpleNamespace]:
    return [SimpleNamespace(op_name=f"DW_OP_{name}", args=args) for name, args in items]


def machine(registers: dict[int, int] | None = None, memory: bytes = b"") -> plain._Machine:
    def read(address: int, size: int) -> bytes | None:
        return memory[address : address + size] if address + size <= len(memory) else None

    return plain._Machine(registers or {}, read, 0x1000, None, (7, 16))


def test_a_register_is_cut_to_the_size() -> None:
    assert machine({5: 0x1122334455667788}).value(operations(("reg5", [])), 2) == b"\x88\x77"


def test_a_register_plus_an_offset_is_memory_unless_it_is_a_value() -> None:
    expression = operations(("breg5", [2]))
    assert machine({5: 1}, b"abcdefgh").value(expression, 4) == b"defg"
    assert machine({5: 1}).value([*expression, *operations(("stack_value", []))], 1) == b"\x03"


def test_addresses_get_the_load_bias() -> None:
    assert machine().value(operations(("addr", [0x234]), ("stack_value", [])), 8) == (0x1234).to_bytes(8, "little")


def test_the_frame_address_comes_from_the_call_frame_row() -> None:
    assert machine({7: 0x100}).value(operations(("call_frame_cfa", []), ("stack_value", [])), 2) == b"\x10\x01"


def test_signed_division_and_shifts() -> None:
    expression = operations(("lit7", []), ("neg", []), ("lit2", []), ("div", []), ("stack_value", []))
    assert machine().value(expression, 4) == (-3).to_bytes(4, "little", signed=True)
    expression = operations(("const1s", [-8]), ("lit1", []), ("shra", []), ("stack_value", []))
    assert machine().value(expression, 1) == (-4).to_bytes(1, "little", signed=True)


def test_pieces_and_holes() -> None:
    whole = operations(("reg0", []), ("piece", [4]), ("reg1", []), ("piece", [4]))
    assert machine({0: 1, 1: 2}).value(whole, 8) == b"\1\0\0\0\2\0\0\0"
    with pytest.raises(plain.Refused, match="partly"):
        machine({0: 1}).value(operations(("reg0", []), ("piece", [4]), ("piece", [4])), 8)


def test_faults_are_refused() -> None:
    with pytest.raises(plain.Refused, match="fault"):
        machine({5: 100}, b"abc").value(operations(("breg5", [0])), 4)


SOURCE = """
static inline long half(int n, const char *s) { return s[n] / 2; }
static inline long twice(int n) { return half(n, "twice") + half(n + 1, "more"); }
volatile long out;
void first(int n) { out = twice(n); }
int main(int argc, char **argv) { first(argc); out = twice(argc + 3); return 0; }
"""


@pytest.mark.compiled
@pytest.mark.parametrize("dwarf", [4, 5])
def test_as_many_inlined_sites_as_llvm_dwarfdump_counts(dwarf: int, tmp_path: Path) -> None:
    tool = next((t for n in ("", *(f"-{v}" for v in range(13, 30))) if (t := shutil.which(f"llvm-dwarfdump{n}"))), None)
    assert tool is not None, "llvm-dwarfdump is needed"
    (tmp_path / "p.c").write_text(SOURCE)
    for number, compiler in enumerate(detect()):
        binary = tmp_path / f"p{number}"
        command = [compiler.command, "-O2", "-g", f"-gdwarf-{dwarf}", "p.c", "-o", binary.name]
        subprocess.run(command, cwd=tmp_path, check=True)
        statistics = subprocess.run([tool, "--statistics", str(binary)], capture_output=True, text=True, check=True)
        counted = re.search(r'"#inlined functions": ?(\d+)', statistics.stdout)
        assert counted is not None
        sites = [site for site in plain.read(binary) if site.inlined]
        assert len(sites) == int(counted[1]) > 0
        assert {site.function for site in sites} >= {"half", "twice"}
