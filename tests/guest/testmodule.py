"""The test module ``inline_shapes`` (``module/``): loads it, calls its functions, reads the values they were given.

::

    def test_it(inline_shapes: InlineShapes) -> None:
        assert inline_shapes.call("take_s16", -5) == [Call("take_s16", {"value": "-5"})]
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

FILE = Path("/job/module/inline_shapes.ko")
NAME = "inline_shapes"

_FILES = Path("/sys/kernel/debug/inline_shapes")


@dataclass(frozen=True, slots=True)
class Call:
    """One entry of an inlined function: its name and the values passed, as text (pointers in hexadecimal)."""

    function: str
    values: dict[str, str]


def kallsyms(name: str, module: str | None = None) -> int:
    """The address of the only symbol ``name`` of the kernel, or of a module; LookupError if there is not just one."""
    wanted = f"[{module}]" if module is not None else ""
    found = []
    for line in Path("/proc/kallsyms").read_text().splitlines():
        words = line.split()
        if words[2] == name and (words[3] if len(words) > 3 else "") == wanted:
            found.append(int(words[0], 16))
    if len(found) != 1:
        raise LookupError(f"{len(found)} symbols {name}{wanted} in /proc/kallsyms")
    return found[0]


class InlineShapes:
    """The module, loaded or not."""

    def load(self) -> None:
        """Insert the module; CalledProcessError with insmod's words if the kernel refuses it."""
        subprocess.run(["insmod", str(FILE)], check=True, capture_output=True, text=True)

    def unload(self) -> None:
        """Remove the module."""
        subprocess.run(["rmmod", NAME], check=True, capture_output=True, text=True)

    def call(self, shape: str, *arguments: int | str) -> list[Call]:
        """Call ``shape`` and return what was passed to the inlined functions, in order."""
        (_FILES / "log").write_text("\n")
        (_FILES / "call").write_text(" ".join([shape, *(str(argument) for argument in arguments)]) + "\n")
        return self.log()

    def log(self) -> list[Call]:
        """All calls since the log was emptied."""
        calls = []
        for line in (_FILES / "log").read_text().splitlines():
            function, _, rest = line.partition(" ")
            calls.append(Call(function, dict(re.findall(r'(\S+?)=("[^"]*"|\S*)', rest))))
        return calls


@pytest.fixture(scope="module")
def inline_shapes() -> Iterator[InlineShapes]:
    """The test module, loaded for the tests of one file."""
    module = InlineShapes()
    module.load()
    yield module
    module.unload()
