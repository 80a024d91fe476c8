"""Remove what a killed trace has left: probe events and trace instances whose process is gone.

  inlinetrace clean

Only groups named inlinetrace_PID_START are touched, and only if the process that made them is gone, in whatever
PID namespace. Everything is disabled first; events that another program may have in use are left alone and named.
"""

from __future__ import annotations

import argparse
import sys

from inlinetrace.errors import PartialError

HELP = "remove the probe events of traces that were killed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``clean``."""
    parser.add_argument("-v", "--verbose", action="store_true", help="name what is removed")


def run(args: argparse.Namespace) -> int:
    """Run ``clean``; 0 if nothing had to be left."""
    from inlinetrace.probe import expedite, groups
    from inlinetrace.target.host import Host
    from inlinetrace.target.requirements import require_tracefs

    host = Host()
    tracefs = require_tracefs(host)
    restored = expedite.restore(host)
    if restored is not None:
        print(f"inlinetrace: {expedite.SWITCH} is {restored} again", file=sys.stderr)
    removed, left = groups.clean(host, tracefs)
    for name in removed if args.verbose else ():
        print(f"inlinetrace: removed {name}", file=sys.stderr)
    if left:
        raise PartialError("; ".join(left))
    return 0
