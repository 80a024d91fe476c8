"""The command line: one module per command, imported only when it is the one that runs.

A command module has ``HELP`` (one line), ``add_arguments(parser)`` and ``run(args) -> int``, its exit code.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from inlinetrace._signals import Interrupted, handled, raise_interrupted
from inlinetrace.cli.terminal import say
from inlinetrace.errors import InlineTraceError

COMMANDS = ("list", "probe", "clean", "generate", "dump", "btf")
_WITH_PROGRAM = ("probe",)
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_EPILOG = (
    "exit codes: 0 done, 1 not found or bad input, 2 usage, 3 not permitted, 4 attached only partly, 128+N signal N"
)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Argparse makes one for every option to check it, and each would import shutil for the width of the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_width())


def _width() -> int:
    try:
        return int(os.environ["COLUMNS"]) - 2
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns - 2
    except (AttributeError, OSError, ValueError):
        return 78


def _parser(command: str | None) -> argparse.ArgumentParser:
    from inlinetrace import __version__

    parser = argparse.ArgumentParser(
        prog="inlinetrace",
        description="Makes inlined functions as traceable as ordinary ones.",
        epilog=_EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"inlinetrace {__version__}")
    # Without prog argparse would format the usage, for which it asks for the size of the terminal.
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", prog=parser.prog)
    for name in COMMANDS if command is None else (command,):
        module = importlib.import_module(f"inlinetrace.cli.{name}")
        subparser = subparsers.add_parser(
            name,
            help=module.HELP,
            description=module.__doc__,
            epilog=_EPILOG,
            formatter_class=_Formatter,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code. What goes wrong is one line on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Names that are no UTF-8 must not end a listing; the escape is one that JSON has, too.
        sys.stdout.reconfigure(errors="backslashreplace")
    command = arguments[0] if arguments and arguments[0] in COMMANDS else None
    # what follows -- is for the program that is started, not for the parser
    program_arguments = None
    if command in _WITH_PROGRAM and "--" in arguments:
        # The command list, once imported, hides the built-in list in this package.
        at = arguments.index("--")
        arguments, program_arguments = arguments[:at], [*arguments[at + 1 :]]
    try:
        with handled(raise_interrupted):
            args = _parser(command).parse_args(arguments)
            args.program_arguments = program_arguments
            if getattr(args, "json", False) and isinstance(sys.stdout, io.TextIOWrapper):
                # whatever the locale: JSON has no other encoding
                sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
            result = args.run(args)
            sys.stdout.flush()
            return int(result)
    except InlineTraceError as error:
        say(str(error))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        _discard_output()
        return 0
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
        _discard_output()
        say(f"the output cannot be written: {os.strerror(error.errno).lower()}")
        return InlineTraceError.exit_code
    except KeyboardInterrupt as error:
        # whoever should read the rest may not do it
        _discard_output()
        return 128 + (error.number if isinstance(error, Interrupted) else signal.SIGINT)


def _discard_output() -> None:
    """Let what stdout still holds go nowhere: the interpreter must not complain when it flushes."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _open_standard_streams() -> None:
    """Open those of stdin, stdout and stderr that are closed, on nothing.

    The next file that is opened would have the number of a closed one, and get what a started program writes to it;
    without a stderr ``print`` writes to stdout.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, descriptor)
            if null != descriptor:
                os.close(null)
            setattr(sys, name, os.fdopen(descriptor, "w" if descriptor else "r", closefd=False))


def main() -> NoReturn:
    """Entry point of the console script."""
    _open_standard_streams()
    sys.exit(run(sys.argv[1:]))
