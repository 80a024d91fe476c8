"""How an argument is distributed, for ten seconds: python3 histogram.py PROGRAM FUNCTION ARGUMENT (root, BCC)."""

from __future__ import annotations

import sys

from inlinetrace.probe.bcc import BccBackend, Wanted
from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.events import Decoder
from inlinetrace.probe.fields import parse
from inlinetrace.probe.session import Limits, Session
from inlinetrace.probe.tally import Tally
from inlinetrace.probe.target import plan_image
from inlinetrace.target import open_image
from inlinetrace.target.host import Host


def main() -> None:
    path, function, argument = sys.argv[1:4]
    image = open_image(path)
    types = DwarfTypes(image.dwarf.dies, image.debug.machine)
    # hidden: wanted as it is, not to be shown; BPF programs know by themselves when a read fails
    plan = plan_image(image, image.sites([function]), types, hidden=[parse(argument)], guarded=False)

    host = Host()
    tally = Tally(counts=True, histogram=argument)
    backend = BccBackend(host, plan, image.debug.machine, Wanted(counts=True, histogram=argument))
    session = Session(
        host,
        plan,
        backend,
        Decoder(plan, types),
        lambda hit, process: tally.add(hit),
        lambda: None,
        lambda outcome: print(f"{plan.sites} sites", file=sys.stderr),
    )
    outcome = session.run(Limits(seconds=10))
    if outcome.totals is not None:
        tally.add_totals(plan, outcome.totals, types)
    print("\n".join(tally.text()))


main()
