"""``inlinetrace probe -m``: the values that a module passed, module by name and by file, addresses shown and hidden."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.target.host import Host
from inlinetrace.target.modules import module_build_id
from tests.guest.faults import kptr_restrict_2  # noqa: F401
from tests.guest.state import TRACING
from tests.guest.testmodule import FILE, NAME, InlineShapes
from tests.guest.tracing import end, keep, tracing

CALLS: list[tuple[Any, ...]] = [
    ("take_s8", -5),
    ("take_u8", 0x1FF),
    ("take_s16", -30000),
    ("take_u16", 65535),
    ("take_s32", -(2**31)),
    ("take_u32", 2**32 - 1),
    ("take_s64", -(2**63)),
    ("take_u64", 2**64 - 1),
    ("take_bool", 1),
    ("take_string", "hello"),
    ("take_one_register", 1, 2, -3),
    ("take_two_registers", 8, -9),
    ("take_on_stack", 1, 2, 3, 4, 5, 6),
    ("take_constant",),
    ("take_constant_and_register", 77),
    ("take_sum", 1),
    ("take_masked", 0xFD),
    ("take_member", -4, "label"),
    ("take_literal",),
    ("take_enum", 7),
    ("take_signed_enum", -40),
    ("take_u128", 3, 4),
    ("take_pointer", -1, 2),
    ("take_null", 9),
    ("take_function", 1),
    ("take_global",),
    ("take_local", 3),
    ("take_many", *range(10, 20)),
    ("nest", 10),
    ("same", 6),
    ("take_reassigned", 5),
    ("take_unused", 1, 2),
    ("take_in_loop", 2, 9),
    ("take_twice", 1, 2),
    ("take_either", 1),  # the last one, see run_all
]
FUNCTIONS = ("take_*", "nest_*", "same_*")
ENUMERATORS = {"SHADE_DARK": "7", "FROST": "-40"}
# Addresses in another section of the module than the code's.
IN_OTHER_SECTIONS = {("take_literal", "text")}
# Values that gcc describes nowhere, or in a way that may show others; what pointers lead to was not asked for.
NOT_SHOWN = {
    *((f"take_{name}", "value") for name in ("s8", "s16", "s32", "bool", "signed_enum", "reassigned")),
    *(("take_many", name) for name in "bcde"),
    ("take_on_stack", "value.words"),
    ("take_unused", "unused"),
    ("take_pointer", "record.number"),
    ("take_pointer", "record.flags"),
    ("take_local", "*local"),
}


def flat(name: str, value: Any) -> dict[str, str]:
    """A value of the JSON output as the module writes it."""
    if isinstance(value, dict):
        return {key: text for part, inner in value.items() for key, text in flat(f"{name}.{part}", inner).items()}
    if isinstance(value, list):
        return {name: ",".join(str(element) for element in value)}
    if isinstance(value, bool):
        return {name: str(int(value))}
    if isinstance(value, str) and value in ENUMERATORS:
        return {name: ENUMERATORS[value]}
    if isinstance(value, str) and not value.startswith("0x"):
        return {name: f'"{value}"'}
    return {name: str(value)}


def compare(hits: list[dict[str, Any]], logged: list[Any]) -> dict[tuple[str, str], bool]:
    """For each value that was logged whether it was shown; fails if another value was shown, or a call missed."""
    shown = {}
    assert [hit["function"] for hit in hits] == [call.function for call in logged]
    for hit, call in zip(hits, logged, strict=True):
        assert hit["module"] == NAME
        values = {key: text for label, value in hit["args"].items() for key, text in flat(label, value).items()}
        for name, passed in whole(call.values).items():
            shown[call.function, name] = name in values
            if name in values:
                assert values[name] == passed, (call.function, name)
    return shown


def whole(values: dict[str, str]) -> dict[str, str]:
    """What was passed, an integer of two halves as one."""
    if "value.high" not in values:
        return values
    return {"value": str(int(values["value.high"]) << 64 | int(values["value.low"]))}


def run_all(module: InlineShapes) -> list[Any]:
    """Call every shape; what was passed to those with a probe."""
    # the copy that take_either is called as, too, is one in which the kernel allows no probe (notrace)
    return [logged for call in CALLS for logged in module.call(*call)][:-1]


@pytest.fixture
def installed(inline_shapes: InlineShapes, tmp_path: Path) -> list[str]:
    """The option that names a folder where the module's debug file lies as distributions install it."""
    found = module_build_id(Host(), NAME)
    assert found is not None
    build_id = found.hex()
    place = tmp_path / ".build-id" / build_id[:2] / f"{build_id[2:]}.debug"
    place.parent.mkdir(parents=True)
    place.symlink_to(FILE)
    return ["--debug-root", str(tmp_path)]


@pytest.mark.guest(kaslr=(True, False), timeout=400)
@pytest.mark.parametrize("by", [NAME, NAME.replace("_", "-"), str(FILE)])
def test_the_values_are_those_that_the_module_passed(
    inline_shapes: InlineShapes, installed: list[str], by: str
) -> None:
    with tracing(*FUNCTIONS, "--args", "--strings", "-m", by, *installed, "-p", str(os.getpid())) as process:
        logged = run_all(inline_shapes)
        hits = end(process)
    shown = compare(hits, logged)
    keep(
        f"{by}: {sum(shown.values())} of {len(shown)} values shown, not {[name for name in shown if not shown[name]]}\n"
    )
    assert {name for name in shown if not shown[name]} <= NOT_SHOWN
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()


@pytest.mark.guest(timeout=400)
@pytest.mark.usefixtures("kptr_restrict_2")
def test_hidden_addresses_hide_only_what_they_are_needed_for(inline_shapes: InlineShapes, installed: list[str]) -> None:
    with tracing(*FUNCTIONS, "--args", "--strings", "-m", NAME, *installed, "-p", str(os.getpid())) as process:
        logged = run_all(inline_shapes)
        hits = end(process)
    shown = compare(hits, logged)
    assert {name for name in shown if not shown[name]} >= IN_OTHER_SECTIONS
    (literal,) = [hit for hit in hits if hit["function"] == "take_literal" and hit["inlined"]]
    assert literal["unavailable"]["text"] == "hidden-address"


@pytest.fixture
def alone() -> Iterator[InlineShapes]:
    """The test module, loaded for one test, which may unload it."""
    module = InlineShapes()
    others = Path(f"/sys/module/{NAME}").exists()
    if others:
        module.unload()
    module.load()
    yield module
    with suppress(subprocess.CalledProcessError):
        module.unload()
    if others:
        module.load()


@pytest.mark.guest(timeout=400)
def test_a_module_that_goes_ends_the_trace(alone: InlineShapes) -> None:
    with tracing("take_u32", "--args", "-m", str(FILE)) as process:
        alone.call("take_u32", 5)
        alone.unload()
        output, errors = process.communicate(timeout=100)
    assert "inlinetrace: module inline_shapes was unloaded: the trace ends" in errors.splitlines()
    assert process.returncode == 0
    assert '"value": 5' in output
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
    done = subprocess.run(["inlinetrace", "probe", "take_u32", "-m", FILE], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"inlinetrace: {FILE}: module inline_shapes is not loaded: its code cannot be traced"
    ]


@pytest.mark.guest(timeout=400)
def test_a_module_that_is_loaded_again_ends_the_trace(alone: InlineShapes) -> None:
    with tracing("take_literal", "--args", "-m", str(FILE)) as process:
        subprocess.run(f"rmmod {NAME} && insmod {FILE}", shell=True, check=True)
        _, errors = process.communicate(timeout=100)
    assert any(line.startswith("inlinetrace: module inline_shapes was ") for line in errors.splitlines())


@pytest.mark.guest(timeout=400)
def test_two_traces_of_one_module_at_once(inline_shapes: InlineShapes) -> None:
    arguments = ("take_u32", "--args", "-m", str(FILE))
    with tracing(*arguments) as one, tracing(*arguments) as two:
        inline_shapes.call("take_u32", 5)
        for process in (one, two):
            process.send_signal(signal.SIGINT)
        for process in (one, two):
            output, errors = process.communicate(timeout=250)
            assert [json.loads(line)["args"] for line in output.splitlines()] == [{"value": 5}], errors
    assert "inlinetrace" not in (TRACING / "kprobe_events").read_text()
    assert Path("/sys/kernel/rcu_expedited").read_text().strip() == "0"
