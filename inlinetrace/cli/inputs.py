"""Naming the input: the options that every command shares, and what they open."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from inlinetrace.errors import UsageError

if TYPE_CHECKING:
    from inlinetrace.target.image import Image


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``-k``, ``-m`` and ``-x``."""
    group = parser.add_argument_group("input").add_mutually_exclusive_group()
    group.add_argument("-k", "--vmlinux", metavar="FILE", help="a kernel image with DWARF")
    group.add_argument(
        "-m", "--module", metavar="FILE", help="a module (.ko, .ko.xz, .ko.zst, .ko.gz), with or without its debug file"
    )
    group.add_argument("-x", "--exec", metavar="FILE", help="a user program or library")
    parser.add_argument(
        "--debug-root",
        metavar="DIR",
        action="append",
        help="where separate debug files are installed (default: /usr/lib/debug); may be repeated",
    )


def module_name(path: str) -> str:
    """The name a module has in the kernel: that of its file, with ``_`` for ``-``."""
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def open_input(args: argparse.Namespace) -> Image:
    """Open what the options name. Raises UsageError if they name nothing."""
    from inlinetrace.elf.debugfile import DEFAULT_ROOTS
    from inlinetrace.target.image import open_image

    path = args.vmlinux or args.module or args.exec
    if path is None:
        raise UsageError("name the input: -k VMLINUX, -m MODULE or -x PROGRAM")
    roots = tuple(args.debug_root or DEFAULT_ROOTS)
    image = open_image(path, roots=roots, module=module_name(path) if args.module else None)
    if args.verbose:
        for attempt in image.tried:
            print(f"inlinetrace: {attempt.path}: {attempt.outcome}", file=sys.stderr)
    for warning in image.warnings():
        print(f"inlinetrace: {warning}", file=sys.stderr)
    return image
