"""Naming the input: the options that every command shares, and what they open."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from inlinetrace.cli.terminal import say
from inlinetrace.errors import NotFoundError, UsageError
from inlinetrace.globs import is_glob

if TYPE_CHECKING:
    from inlinetrace.elf.debugfile import Attempt
    from inlinetrace.sites.from_btf import OffsetBase
    from inlinetrace.target.btf_image import BtfImage
    from inlinetrace.target.host import Host
    from inlinetrace.target.image import Image


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``-k``, ``-m``, ``-x``, ``--loaded`` and ``--debug-root``."""
    group = parser.add_argument_group("input", "the running kernel unless one of these names another")
    one = group.add_mutually_exclusive_group()
    one.add_argument("-k", "--vmlinux", metavar="FILE", help="a kernel image with DWARF")
    one.add_argument(
        "-m",
        "--module",
        metavar="NAME|FILE",
        help="a module: the loaded one, or a file (.ko, .ko.xz, .ko.zst, .ko.gz) with or without its debug file",
    )
    one.add_argument("-x", "--exec", metavar="FILE", help="a user program or library")
    group.add_argument(
        "--loaded",
        action="store_true",
        help="the file of -k or -m is what runs now: show run-time addresses (its build id must be the running one's); "
        "with --btf alone: it was made for what runs now",
    )
    group.add_argument(
        "--debug-root",
        metavar="DIR",
        action="append",
        help="where separate debug files are installed (default: /usr/lib/debug); may be repeated",
    )


def add_btf_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--btf``, ``-B``, ``--source`` and ``--offset-base``, for commands that can do without DWARF."""
    group = parser.add_argument_group("BTF location info")
    group.add_argument(
        "--btf",
        metavar="FILE",
        help="detached location info (vmlinux.inline); -k, -m or -x then only give sections and symbols",
    )
    group.add_argument(
        "-B",
        "--base-btf",
        metavar="BASE",
        action="append",
        default=[],
        help="what the BTF is split from; once per level, outermost first",
    )
    group.add_argument(
        "--source",
        choices=("auto", "btf", "dwarf"),
        default="auto",
        help="which of the two to read where both are there (default: the kernel's own BTF for what runs; of files "
        "DWARF, which says more)",
    )
    group.add_argument(
        "--offset-base",
        choices=("section", "image"),
        help="what the offsets of the BTF count from (default: decided by where functions are)",
    )


def open_listing(args: argparse.Namespace, host: Host | None = None) -> Image | BtfImage:
    """Open what the options name: location info in BTF, else as open_input does.

    For the running kernel and its modules BTF goes first, for files DWARF; ``--source`` says otherwise.
    """
    if args.source == "dwarf" and args.btf:
        raise UsageError("--source dwarf and --btf contradict each other")
    path = _file(args)
    from_btf = args.btf or args.source == "btf"
    if not from_btf and (args.base_btf or args.offset_base):
        raise UsageError("-B and --offset-base go with --btf or --source btf")
    image: BtfImage | None = None
    if args.btf or (from_btf and path):
        image = _open_btf(args, path, host)
    elif path is None and args.source != "dwarf":
        image = _open_running_btf(args, host)
    if image is None:
        try:
            return open_input(args, host)
        except NotFoundError:
            # no DWARF: location info in the file itself will do, or what was made of it before
            image = None if args.source == "dwarf" else _open_kept(args, path, host)
            if image is None:
                raise
    for warning in image.warnings():
        say(warning)
    return image


def _file(args: argparse.Namespace) -> str | None:
    """The file that the options name; None for the running kernel and for a module by its name."""
    path: str | None = args.vmlinux or args.exec
    if path is None and args.module:
        from inlinetrace.target.modules import is_module_file

        if is_module_file(args.module):
            path = args.module
    return path


def _offset_base(args: argparse.Namespace) -> OffsetBase | None:
    from inlinetrace.sites.from_btf import OffsetBase

    return OffsetBase(args.offset_base) if args.offset_base else None


def _open_btf(args: argparse.Namespace, path: str | None, host: Host | None) -> BtfImage:
    from inlinetrace.target.btf_image import open_btf

    module = None
    if args.module:
        from inlinetrace.target.modules import module_name

        module = module_name(args.module)
    if args.loaded:
        if args.exec or not args.btf:
            raise UsageError("--loaded goes with -k FILE or -m FILE, or with --btf FILE")
        from inlinetrace.target.host import Host
        from inlinetrace.target.running_btf import open_running_btf

        host = host or Host()
        if path is not None:
            from inlinetrace.elf.file import ElfFile
            from inlinetrace.target.running import require_running

            require_running(ElfFile.open(path), module, host)
        return open_running_btf(host, module, made=(args.btf, args.base_btf), offset_base=_offset_base(args))
    return open_btf(args.btf or path or "", args.base_btf, program=path, offset_base=_offset_base(args), module=module)


def _open_running_btf(args: argparse.Namespace, host: Host | None) -> BtfImage | None:
    """What the kernel itself has to say; None if it has nothing, or does not deliver it and DWARF may do."""
    from inlinetrace.target.host import Host
    from inlinetrace.target.running_btf import inline_btf_path, open_running_btf

    host = host or Host()
    if args.source != "btf" and not host.exists(inline_btf_path(args.module)):
        return None
    try:
        return open_running_btf(host, args.module, offset_base=_offset_base(args))
    except NotFoundError as error:
        if args.source == "btf":
            raise
        say(f"{error}; looking for DWARF")
        return None


def _open_kept(args: argparse.Namespace, path: str | None, host: Host | None) -> BtfImage | None:
    """Location info in the file itself, or what ``generate`` has made of this build; None if there is neither."""
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.target.btf_image import has_location_info
    from inlinetrace.target.cache import Cache
    from inlinetrace.target.host import Host

    host = host or Host()
    if path is None:
        from inlinetrace.target.running_btf import kept_location_info, open_running_btf

        made = kept_location_info(host, args.module)
        if made is None:
            return None
        return open_running_btf(host, args.module, made=made, offset_base=_offset_base(args))
    if not os.path.isfile(path):
        return None
    if not has_location_info(path):
        build_id = ElfFile.open(path).build_id
        kept = None if build_id is None else Cache(host, build_id).location_info()
        if kept is None:
            return None
        args.btf, args.base_btf = kept
    return _open_btf(args, path, host)


def open_input(args: argparse.Namespace, host: Host | None = None) -> Image:
    """Open what the options name, by default the running kernel of ``host``.

    With ``-v`` each place that is tried is shown on stderr as it is tried. Raises UsageError for options that do not go
    together, and what inlinetrace.target raises.
    """
    from inlinetrace.elf.debugfile import DEFAULT_ROOTS
    from inlinetrace.target.host import Host

    host = host or Host()
    roots = tuple(args.debug_root or DEFAULT_ROOTS)
    report = _show if args.verbose else None
    path = _file(args)
    if args.loaded and (path is None or args.exec):
        raise UsageError("--loaded goes with -k FILE or -m FILE")
    if path is not None:
        from inlinetrace.target.image import open_image
        from inlinetrace.target.modules import module_name

        image = open_image(path, roots=roots, module=module_name(path) if args.module else None)
        if args.loaded:
            from inlinetrace.target.running import resolve_running

            resolve_running(image, host)
    else:
        from inlinetrace.target.running import open_running_kernel, open_running_module

        progress = Progress() if sys.stderr.isatty() else None
        try:
            if args.module:
                image = open_running_module(host, args.module, roots=roots, report=report, progress=progress)
            else:
                image = open_running_kernel(host, roots=roots, report=report, progress=progress)
        finally:
            if progress is not None:
                progress.end()
    from inlinetrace.target.memory import require_memory

    patterns = [*(getattr(args, "functions", None) or ()), *(getattr(args, "inside", None) or ())]
    every = "*" in patterns
    require_memory(host, image, None if not patterns or any(map(is_glob, patterns)) else patterns, every_site=every)
    if report is not None:
        for attempt in image.tried:
            report(attempt)
    for warning in image.warnings():
        say(warning)
    return image


def _show(attempt: Attempt) -> None:
    say(f"{attempt.path}: {attempt.outcome}")


class Progress:
    """Shows what a download says in one line of the terminal, which is empty again at the end."""

    def __init__(self) -> None:
        self._shown = False

    def __call__(self, text: str) -> None:
        """Show ``text`` in place of what was shown before."""
        import shutil

        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"\r\x1b[K{text[: width - 1]}")
        sys.stderr.flush()
        self._shown = True

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
