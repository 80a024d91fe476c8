"""Trace a function of a user program from Python, ten hits: python3 trace_sites.py PROGRAM FUNCTION (as root)."""

from __future__ import annotations

import sys

from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.events import Decoder, Hit
from inlinetrace.probe.session import Limits, Session
from inlinetrace.probe.target import plan_image
from inlinetrace.probe.tracefs import TracefsBackend
from inlinetrace.target import open_image
from inlinetrace.target.host import Host


def main() -> None:
    path, function = sys.argv[1:3]
    image = open_image(path)
    types = DwarfTypes(image.dwarf.dies, image.debug.machine)

    plan = plan_image(image, image.sites([function]), types, everything=True)

    def show(hit: Hit, process: int | None) -> None:
        print(process, hit.site.function, dict(hit.values))

    host = Host()
    session = Session(
        host,
        plan,
        TracefsBackend(host, plan),
        Decoder(plan, types),
        show,
        sys.stdout.flush,
        lambda outcome: print(f"{plan.sites} sites", file=sys.stderr),
    )
    session.run(Limits(count=10))


main()
