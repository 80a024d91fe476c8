"""The generated programs: deterministic, free of undefined behaviour, and as varied as they are meant to be."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.oracle.c_types import ALL
from tests.oracle.emit import SECOND_UNIT_LINE, emit
from tests.oracle.generate import LEVELS, generate
from tests.oracle.prng import Prng
from tests.oracle.run import Workshop, read_log


def test_the_random_sequence_is_that_of_splitmix64() -> None:
    prng = Prng(1234567)
    assert [prng.word() for _ in range(3)] == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_seed_always_gives_the_same_program() -> None:
    assert emit(generate(7), 5) == emit(generate(7), 5)
    assert emit(generate(7), 5).traced != emit(generate(8), 5).traced


def test_every_call_has_a_line_of_its_own() -> None:
    program = generate(3, units=2)
    sources = emit(program, 5)
    first, second = (text.splitlines() for text in sources.traced)
    start = second.index(f"#line {SECOND_UNIT_LINE}") + 1
    for line, callee in sources.call_lines.items():
        text = first[line - 1] if line < SECOND_UNIT_LINE else second[start + line - SECOND_UNIT_LINE]
        assert re.search(rf"\b{callee}\(", text)


def test_all_types_and_lengths_of_parameter_lists_occur() -> None:
    functions = [f for seed in range(60) for f in generate(seed).functions]
    assert {p.type for f in functions for p in f.parameters} == set(ALL)
    assert max(len(f.parameters) for f in functions) == 9
    assert {f.level for f in functions} == set(range(LEVELS))


@pytest.mark.compiled
@pytest.mark.parametrize(("seed", "units"), [(1, 1), (2, 1), (3, 2), (4, 2)])
def test_the_programs_have_no_undefined_behaviour(seed: int, units: int, tmp_path: Path) -> None:
    shop = Workshop(generate(seed, units), 12, tmp_path)
    sanitize = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all", "-g", "-w"]
    subprocess.run(["gcc", *sanitize, *shop.traced, "model.o", "driver.o", "-o", "program"], cwd=tmp_path, check=True)
    done = subprocess.run(["./program", "log", "1"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.compiled
def test_the_model_records_nested_calls(tmp_path: Path) -> None:
    program = generate(2)
    shop = Workshop(program, 12, tmp_path)
    subprocess.run(["gcc", "-w", *shop.traced, "model.o", "driver.o", "-o", "program"], cwd=tmp_path, check=True)
    subprocess.run(["./program", "log", "1"], cwd=tmp_path, check=True)
    events = list(read_log((tmp_path / "log").read_bytes(), program))
    assert {event.invocation for event in events} == set(range(12))
    assert max(len(event.lines) for event in events) >= 3
    for event in events:
        if event.lines:
            assert shop.sources.call_lines[event.lines[0]] == event.function
        else:
            assert event.function.startswith("entry")
