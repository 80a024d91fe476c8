#!/usr/bin/env python3
"""A shell in a guest, with inlinetrace installed and the kernel's debug files in their places.

::

    python3 vm-images/shell.py 6.12                          Debian's 6.12; the end of the shell is the end of the guest
    python3 vm-images/shell.py 6.1 --root bcc --no-kaslr     with BCC; addresses as in vmlinux
    python3 vm-images/shell.py 6.1 --append lockdown=confidentiality

The console is the terminal: Ctrl-A X ends the guest at once, Ctrl-A C is QEMU's monitor. Nothing of what the guest
writes is kept. The test module is /job/module/inline_shapes.ko.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from vmimages import kernels, kmodule, package, rootfs
from vmimages.cache import RecipeError
from vmimages.machine import Machine, MachineError, MachineOptions

_RUN = """#!/bin/sh
cd /root
stty -F /dev/ttyS0 rows {rows} cols {columns}
cat > /dev/ttyS0 <<TEXT

Linux $(uname -r), inlinetrace from the wheel, debug files under /usr/lib/debug, test module in /job/module.
"exit" ends the guest; so does Ctrl-A X.
TEXT
exec setsid -w -c /bin/bash -i < /dev/ttyS0 > /dev/ttyS0 2>&1
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; the exit status is 1 if there is no guest to be had."""
    parser = argparse.ArgumentParser(description="A shell in a guest with inlinetrace installed.")
    parser.add_argument("series", nargs="?", default=kernels.SERIES[0], help="kernel series (default: %(default)s)")
    parser.add_argument("--root", choices=rootfs.roots(), default="minimal", help="root file system")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="memory (default: %(default)s)")
    parser.add_argument("--cpus", type=int, default=2, help="processors (default: %(default)s)")
    parser.add_argument("--no-kaslr", action="store_true", help="run the kernel where it was linked to run")
    parser.add_argument("--append", default="", metavar="WORDS", help="more words for the kernel's command line")
    options = parser.parse_args(arguments)
    size = shutil.get_terminal_size()
    try:
        kernels.fetch(options.series)
        with tempfile.TemporaryDirectory(prefix="inlinetrace-shell-") as directory:
            job = Path(directory)
            shutil.copytree(package.site(), job / "site")
            module = Path(__file__).resolve().parents[1] / "tests" / "guest" / "module"
            shutil.copytree(kmodule.build(module, options.series), job / "module")
            (job / "run").write_text(_RUN.format(rows=size.lines, columns=size.columns))
            (job / "run").chmod(0o755)
            machine = Machine(
                MachineOptions(
                    kernel=options.series,
                    kaslr=not options.no_kaslr,
                    memory=options.memory,
                    cpus=options.cpus,
                    root=options.root,
                    cmdline=("quiet", *options.append.split()),
                ),
                job,
                interactive=True,
            )
        with machine:
            machine.attend()
    except (RecipeError, MachineError) as error:
        print(f"shell: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
