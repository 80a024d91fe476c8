"""Show the types of a BTF object as text, JSON, C, or as the layout of a struct.

  inlinetrace dump                                 everything the running kernel has, as 'bpftool btf dump' words it
  inlinetrace dump vmlinux --name tcp_v4_rcv       only what has this name (shell globs too)
  inlinetrace dump --c --name task_struct          C source of a type, with all that it needs to compile
  inlinetrace dump --layout tcp_sock               offsets, sizes, holes and cache lines, as pahole words them
  inlinetrace dump -B vmlinux nf_nat.ko            a split object on its base

FILE is detached BTF, a file of /sys/kernel/btf, or an ELF file. Without --id, --name or --kind every type is shown that
the object stores itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from inlinetrace.btf._text import render
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.cli.terminal import visible
from inlinetrace.errors import NotFoundError, UsageError
from inlinetrace.globs import is_glob

HELP = "show BTF as text, JSON, C or the layout of a struct"

_RUNNING = "/sys/kernel/btf/vmlinux"
_PORTION = 16384
_FORMATS = ("raw", "json", "c")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``dump``."""
    parser.add_argument(
        "file", nargs="?", default=_RUNNING, metavar="FILE",
        help="detached BTF, a file of /sys/kernel/btf, or an ELF file (default: the running kernel's)",
    )  # fmt: skip
    parser.add_argument(
        "-B", "--base-btf", action="append", default=[], metavar="BASE",
        help="base that FILE is split from; give it once per level, outermost first",
    )  # fmt: skip
    parser.add_argument("--format", choices=_FORMATS, default=None, help="form of the output (default: raw)")
    parser.add_argument("-j", "--json", dest="format", action="store_const", const="json", help="same as --format json")
    parser.add_argument("--c", dest="format", action="store_const", const="c", help="same as --format c")
    parser.add_argument("--asserts", action="store_true", help="with --c: static assertions of sizes and offsets")
    parser.add_argument(
        "--id", action="append", type=_number, default=[], metavar="N", help="only the type with this id"
    )
    parser.add_argument("--name", action="append", default=[], metavar="X", help="only types with this name or pattern")
    parser.add_argument("--kind", action="append", type=_kind, default=[], metavar="K", help="only types of this kind")
    parser.add_argument(
        "--layout", action="append", default=[], metavar="STRUCT", help="offsets, holes and cache lines"
    )
    parser.add_argument("--section", metavar="NAME", help="section of an ELF file (default: .BTF, else .BTF.inline)")
    parser.add_argument(
        "--dialect", choices=[dialect.value for dialect in Dialect],
        help="posting that the location kinds follow (default: detected)",
    )  # fmt: skip
    parser.add_argument("--strict", action="store_true", help="refuse an object that breaks a rule of the format")


def _number(text: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if value < 0:
        raise argparse.ArgumentTypeError("a type id is not negative")
    return value


def _kind(text: str) -> Kind:
    try:
        return Kind[text.upper().replace("-", "_")]
    except KeyError:
        known = ", ".join(kind.name.lower() for kind in Kind if kind)
        raise argparse.ArgumentTypeError(f"unknown kind {text!r}; the kinds are {known}") from None


def run(args: argparse.Namespace) -> int:
    """Carry the command out. Errors: those of ``inlinetrace.btf``; UsageError for options that contradict."""
    if args.layout and (args.format or args.id or args.name or args.kind):
        raise UsageError("--layout goes without --format, --id, --name and --kind")
    if args.asserts and args.format != "c":
        raise UsageError("--asserts goes with --c")
    dialect = Dialect(args.dialect) if args.dialect else None
    btf = load(args.file, args.base_btf, section=args.section, dialect=dialect)
    _check(btf, args)
    if btf.dialect is not None:
        dialect_text = f"location info in dialect {btf.dialect.value}: {btf.dialect.description}"
        print(f"{visible(args.file)}: {dialect_text}", file=sys.stderr)
    if args.layout:
        from inlinetrace.btf.layout import layout_text

        for position, name in enumerate(args.layout):
            if position:
                sys.stdout.write("\n")
            sys.stdout.write(layout_text(btf, name))
        return 0
    chosen = _chosen(btf, args)
    if args.format == "c":
        _write_c(btf, chosen, args.asserts)
    else:
        _write(btf, chosen if chosen is not None else range(btf.start_id, btf.end_id), args.format == "json")
    return 0


def _check(btf: Btf, args: argparse.Namespace) -> None:
    """Validate the object: refuse it with --strict, else say once for each kind of fault what was found."""
    if not args.strict and (args.id or args.name):
        return
    from inlinetrace.btf.validate import validate

    for fault in validate(btf, strict=args.strict):
        if args.strict:
            raise fault.error(btf)
        others = f" (and {fault.count - 1} more like it)" if fault.count > 1 else ""
        print(f"warning: {visible(str(fault.error(btf)))}{others}", file=sys.stderr)


def _chosen(btf: Btf, args: argparse.Namespace) -> list[int] | None:
    """Ids that the options choose, None for all own types. Errors: NotFoundError if one of them chooses none."""
    if not (args.id or args.name or args.kind):
        return None
    chosen: list[int] = []
    for type_id in args.id:
        if type_id == 0 or type_id >= btf.end_id:
            raise NotFoundError(f"no type {type_id}: the ids go from 1 to {btf.end_id - 1}", path=args.file)
        if not args.kind or btf.kind(type_id) in args.kind:
            chosen.append(type_id)
    for name in args.name:
        found = _named(btf, name, args.kind)
        if not found:
            raise NotFoundError(_not_found(btf, name, args.kind), path=args.file)
        chosen += found
    if not (args.id or args.name):
        for kind in args.kind:
            chosen += btf.of_kind(kind)
        chosen.sort()
    return list(dict.fromkeys(chosen))


def _named(btf: Btf, name: str, kinds: list[Kind]) -> list[int]:
    if not is_glob(name):
        found = btf.find(name, *kinds)
        return [type_id for type_id in found if type_id >= btf.start_id] or found
    from fnmatch import fnmatchcase

    return [
        type_id
        for type_id in range(btf.start_id, btf.end_id)
        if (not kinds or btf.kind(type_id) in kinds) and fnmatchcase(btf.name(type_id), name)
    ]


def _not_found(btf: Btf, name: str, kinds: list[Kind]) -> str:
    from difflib import get_close_matches

    names = {btf.name(type_id) for type_id in range(btf.start_id, btf.end_id)} - {""}
    near = get_close_matches(name, sorted(names), n=3) if len(names) < 20000 else _near(name, names)
    what = "/".join(kind.name.lower() for kind in kinds) or "type"
    return f"no {what} is called {name!r}" + (f"; near names: {', '.join(near)}" if near else "")


def _near(name: str, names: set[str]) -> list[str]:
    """Names that contain the wanted one or are contained in it; comparing all of a kernel's would take seconds."""
    return sorted(other for other in names if name in other or (len(other) > 4 and other in name))[:3]


def _portions(ids: range | list[int]) -> Iterator[range | list[int]]:
    for start in range(0, len(ids), _PORTION):
        yield ids[start : start + _PORTION]


def _write(btf: Btf, ids: range | list[int], json: bool) -> None:
    out = sys.stdout.buffer
    if json:
        out.write(b'{"types":[')
    first = True
    for portion in _portions(ids):
        out.write(render(btf.index, portion, json, first))
        first = False
    if json:
        out.write(b"]}\n")
    out.flush()


def _write_c(btf: Btf, chosen: list[int] | None, asserts: bool) -> None:
    from inlinetrace.btf.c_source import c_source

    out = sys.stdout.buffer
    for portion in c_source(btf, chosen, asserts=asserts):
        out.write(portion.encode("utf-8", "surrogateescape"))
    out.flush()
