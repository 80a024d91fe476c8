"""The debugger: every stop is seen once, registers and memory are the program's, and nothing outlives it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.oracle.ptrace import Tracee, TraceError
from tests.oracle.run import load_bias, symbol

pytestmark = pytest.mark.compiled

SOURCE = """
#include <stdlib.h>
long cell = 42;
__attribute__((noinline)) long step(long n, long *where) { __asm__ volatile (""); return n + *where; }
int main(int argc, char **argv)
{
	long sum = 0;
	for (long i = 0; i < 1000; i++) sum += step(i, &cell);
	if (argc == 2) abort();
	while (argc > 2) __asm__ volatile ("");
	return sum == 541500 ? 7 : 1;
}
"""


@pytest.fixture(params=["-pie", "-no-pie"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (tmp_path / "p.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", request.param, "-fPIE", "p.c", "-o", "p"], cwd=tmp_path, check=True)
    return tmp_path / "p"


def test_registers_and_memory_at_each_stop(program: Path) -> None:
    with Tracee([str(program)]) as tracee:
        bias = load_bias(tracee, program)
        step, cell = (symbol(program, name) + bias for name in ("step", "cell"))
        tracee.insert([step])
        counters = []
        for address in tracee.stops(30):
            registers = tracee.registers()
            assert address == registers[16] == step
            assert registers[4] == cell
            assert tracee.read(registers[4], 8) == (42).to_bytes(8, "little")
            counters.append(registers[5])
        assert counters == list(range(1000))
        assert tracee.status == 7


def test_memory_that_is_not_mapped_is_none(program: Path) -> None:
    with Tracee([str(program)]) as tracee:
        assert tracee.read(16, 8) is None
        assert tracee.read(1 << 63, 8) is None
        low, high = tracee.mapping("[stack]")
        assert tracee.read(high - 8, 16) is None
        assert tracee.read(low, 8) is not None


def test_neighbouring_instructions_can_both_have_breakpoints(program: Path) -> None:
    with Tracee([str(program)]) as tracee:
        step = symbol(program, "step") + load_bias(tracee, program)
        text = subprocess.run(["objdump", "-d", str(program)], capture_output=True, text=True, check=True).stdout
        lines = text[text.index("<step>:") :].splitlines()[1:3]
        first, second = (int(line.split(":")[0], 16) for line in lines)
        tracee.insert([step, step + second - first])
        stops = list(tracee.stops(30))
        assert stops == [step, step + second - first] * 1000


def test_a_crash_is_an_error(program: Path) -> None:
    with Tracee([str(program), "abort"]) as tracee, pytest.raises(TraceError, match="SIGABRT"):
        list(tracee.stops(30))


def test_a_program_that_hangs_is_killed(program: Path) -> None:
    with Tracee([str(program), "loop", "for", "ever"]) as tracee, pytest.raises(TraceError, match="SIGKILL"):
        list(tracee.stops(0.5))


def test_leaving_kills_the_program(program: Path) -> None:
    with Tracee([str(program)]) as tracee:
        pid = tracee.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
