"""Single steps of making BTF.

  inlinetrace btf dedup units.btf -o vmlinux.btf            every type and every name once, as libbpf does it
  inlinetrace btf dedup mod.btf -B vmlinux -o mod.small     a split object: without what its base has

'inlinetrace btf STEP --help' says more about a step.
"""

from __future__ import annotations

import argparse
import os

from inlinetrace.btf.kinds import Dialect
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.cli.terminal import say
from inlinetrace.errors import UsageError

HELP = "single steps of making BTF: dedup"

_DEDUP = """Deduplicate BTF: every type once, every name once, with the result of libbpf's btf__dedup.

  inlinetrace btf dedup units.btf -o vmlinux.btf
  inlinetrace btf dedup mod.ko -B vmlinux -o mod.btf

Of equal types the first stays. Structs are equal if all that they are made of is, cycles included; forward
declarations become what they declare. With -B the object is split from BASE, which is not changed: what the base has
goes. OUT is detached BTF with the header, byte order and layout section of the input.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the steps and their options."""
    steps = parser.add_subparsers(dest="step", required=True, metavar="STEP")
    dedup = steps.add_parser(
        "dedup",
        help="every type once, as libbpf's btf__dedup",
        description=_DEDUP,
        formatter_class=parser.formatter_class,
    )
    _add_input(dedup)
    dedup.add_argument(
        "--rules", choices=("newest", "1.1"), default="newest",
        help="form of libbpf's algorithm: the newest, or that of libbpf 1.1 and pahole 1.24 (default: newest)",
    )  # fmt: skip
    dedup.set_defaults(step_run=_dedup)


def _add_input(parser: argparse.ArgumentParser) -> None:
    """Options that every step has: one object, its bases, the output."""
    parser.add_argument("file", metavar="FILE", help="detached BTF, a file of /sys/kernel/btf, or an ELF file")
    parser.add_argument(
        "-B", "--base-btf", action="append", default=[], metavar="BASE",
        help="base that FILE is split from; give it once per level, outermost first",
    )  # fmt: skip
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="file to write")
    parser.add_argument("--section", metavar="NAME", help="section of an ELF file (default: .BTF, else .BTF.inline)")
    parser.add_argument(
        "--dialect", choices=[dialect.value for dialect in Dialect],
        help="posting that the location kinds follow (default: detected)",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Carry a step out. Errors: those of ``inlinetrace.btf``; UsageError for an output that would destroy an input."""
    return int(args.step_run(args))


def _input(args: argparse.Namespace) -> Btf:
    btf = load(args.file, args.base_btf, section=args.section, dialect=Dialect(args.dialect) if args.dialect else None)
    for layer in btf.chain:
        if layer.section is not None and layer.path is not None and _is_same_file(layer.path, args.output):
            raise UsageError(f"{args.output} is the ELF file that is read, and what is written is detached BTF")
        if layer is not btf and layer.path is not None and _is_same_file(layer.path, args.output):
            raise UsageError(f"{args.output} is a base; it would not fit what is split from it any more")
    return btf


def _is_same_file(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except OSError:
        return False


def _dedup(args: argparse.Namespace) -> int:
    from inlinetrace.btf.dedup import Rules, dedup
    from inlinetrace.generate.output import write_together

    btf = _input(args)
    result = dedup(btf, rules=Rules(args.rules))
    write_together({args.output: result.data})
    say(
        f"{args.file}: {btf.end_id - btf.start_id} types, {result.kept} stay; "
        f"{len(btf.data)} bytes, {len(result.data)} after"
    )
    return 0
