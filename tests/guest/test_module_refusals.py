"""Which sites of a distribution's module the kernel refuses is what the plan says."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from inlinetrace.target.host import Host
from inlinetrace.target.modules import loaded_modules
from tests.guest.host import from_host
from tests.guest.state import TRACING, append
from tests.guest.tracing import keep
from tests.kernels import Kernel

MODULES = ("xfs", "dm_mod", "nf_conntrack")
# Of each kind of answer that is foretold, in each module.
SAMPLE = 200


@from_host
def foretold(kernel: Kernel) -> dict[str, Any]:
    """For each module: symbol, offset and the reason that is foretold, None for acceptance."""
    from inlinetrace.probe.placement import ModulePlacement
    from inlinetrace.probe.refusals import KernelRules
    from inlinetrace.target import open_image

    result = {}
    for name in MODULES:
        image = open_image(str(kernel.debug_module(name.replace("_mod", "-mod"))), module=name)
        rules, placement = KernelRules(image), ModulePlacement(image, name)
        kinds: dict[str | None, list[tuple[str | None, int | None]]] = {}
        for address in sorted({placement.in_file(site).address for site in image.sites()}):
            refusal = rules.refusal(address)
            reason = None if refusal is None else refusal[0].value
            # code that is gone has no symbol any more
            if reason != "init":
                kinds.setdefault(reason, []).append((placement.anchor(address), placement.offset(address)))
        draw = random.Random(1)
        result[name] = [
            [*place, reason]
            for reason, places in kinds.items()
            for place in draw.sample(places, min(SAMPLE, len(places)))
        ]
    return result


@contextmanager
def modprobe(name: str) -> Iterator[None]:
    """Load a module, and remove it with everything that came with it."""
    before = set(loaded_modules(Host()))
    subprocess.run(["modprobe", name], check=True)
    try:
        yield
    finally:
        subprocess.run(["modprobe", "-r", name], check=True)
        # what was loaded for an algorithm that the module asked for
        for other in set(loaded_modules(Host())) - before:
            subprocess.run(["rmmod", other], check=True)


@pytest.mark.guest(timeout=600)
@pytest.mark.parametrize("module", MODULES)
def test_what_the_kernel_refuses_of_a_module_was_foretold(module: str) -> None:
    rows = foretold()[module]
    wrong = []
    accepted = False
    with modprobe(module):
        descriptor = os.open(TRACING / "kprobe_events", os.O_WRONLY | os.O_APPEND)
        for number, (symbol, offset, reason) in enumerate(rows):
            try:
                os.write(descriptor, f"p:foretold/one {symbol}+{offset:#x} k=\\{number}:u32\n".encode())
                refused = None
                accepted = True
            except OSError as error:
                refused = error.errno
            if (refused is None) != (reason is None):
                wrong.append(f"{symbol}+{offset:#x}: {reason}, {refused}")
        os.close(descriptor)
        if accepted:
            knob = Path("/sys/kernel/rcu_expedited")
            knob.write_text("1\n")
            append(TRACING / "kprobe_events", "-:foretold/one\n")
            knob.write_text("0\n")
    keep(f"{module}: {len(rows)} tried, {len(wrong)} foretold wrong\n")
    assert len(rows) > 200
    assert wrong == []
