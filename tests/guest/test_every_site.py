"""Every place where a kernel can be probed, under load: nothing breaks, and refusals are those that were foretold.

A part of the addresses is tried in every run; ``INLINETRACE_SWEEP=all`` tries all of them, which takes an hour
(``just vm-soak``), ``INLINETRACE_SWEEP=3000:3100`` those of the probes that may have killed a kernel.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.guest.host import from_host
from tests.guest.load import Load
from tests.guest.state import KernelLog
from tests.guest.sweep import Sweep, batches, planned, say
from tests.kernels import Kernel

WANTED = os.environ.get("INLINETRACE_SWEEP", "5000")
HOURS = 4 if WANTED == "all" else 0.25


@from_host
def addresses(kernel: Kernel) -> dict[str, Any]:
    """What to probe, and what the plan refuses."""
    return planned(kernel, WANTED)


@pytest.mark.guest(timeout=HOURS * 3600)
def test_sites_come_and_go_under_load(tmp_path: Path) -> None:
    chosen = addresses()
    log = KernelLog()
    with Load(tmp_path) as load:
        sweep = Sweep(load, log)
        load.wait_for_rounds()
        with load.aside():
            sweep.try_refused(chosen["refused"])
        for portion in batches(chosen["probes"]):
            sweep.attach(portion)
            tried = sum(sweep.outcome.values())
            say(f"{tried} tried, {len(sweep.wrong)} predicted wrong; {sweep.hit} hit, {sweep.optimized} jumps")
    log.close()
    print(sweep.report())
    table = [[*key, count] for key, count in sweep.outcome.items()]
    results = {"table": table, "wrong": sweep.wrong, "seconds": sweep.seconds}
    Path(os.environ["OUT"], "every-site.json").write_text(json.dumps(results))
    assert sweep.hit
    assert sweep.optimized
    assert sweep.right >= 0.995, "\n".join(sweep.wrong[:50])
