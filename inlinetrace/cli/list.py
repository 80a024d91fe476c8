"""List every place where a function was inlined, and where each parameter is there.

  inlinetrace list vfs_llseek                      all sites of one function in the running kernel, and its own code
  inlinetrace list 'tcp_*' --caller tcp_v4_rcv     of several, where they are inlined into tcp_v4_rcv
  inlinetrace list --inside tcp_v4_rcv             whatever was inlined into a function
  inlinetrace list '*' --json -k vmlinux           everything, one JSON object per line

A line has the address, the symbol and section around it, and the prototype with the location of each parameter: a
register (rax), memory (*(rsp+8)), a value that is computed (rdi+300), a constant (const 0x2), an address. ~ marks a
location that may show another value than the one passed; what cannot be had says why.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from inlinetrace.cli._rows import Tally
from inlinetrace.cli.inputs import add_btf_arguments, add_input_arguments, open_listing
from inlinetrace.cli.render import Renderer
from inlinetrace.cli.terminal import visible
from inlinetrace.errors import InlineTraceError, NotFoundError
from inlinetrace.sites.reasons import Mark

if TYPE_CHECKING:
    from inlinetrace.cli._rows import Counts
    from inlinetrace.sites.model import Site
    from inlinetrace.target.listing import Listed, Listing

HELP = "list the inlined sites of functions, and where their parameters are"

# More functions than this are summed up in one line.
_SUMMARY_LINES = 10
_LINES_AT_ONCE = 500

_CLANG_NOTICE = (
    "these sites were compiled by clang (or another compiler of LLVM), whose debug information does not tell when a "
    "parameter was changed before the site: its new value may be shown"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``list``."""
    parser.add_argument("functions", nargs="*", metavar="FUNC", help="function names or shell globs")
    add_input_arguments(parser)
    add_btf_arguments(parser)
    parser.add_argument(
        "--inside", metavar="FUNC", action="append", help="list what was inlined into FUNC (glob) instead, at any depth"
    )
    filters = parser.add_argument_group("filters")
    filters.add_argument("--caller", metavar="GLOB", help="only sites inside of a function with this name, or symbol")
    filters.add_argument("--section", metavar="GLOB", help="only sites in this section")
    filters.add_argument("--file", metavar="GLOB", help="only calls from this source file (the end of its path)")
    filters.add_argument(
        "--available",
        choices=("all", "any", "none"),
        help="only sites of which all, any or none of the parameters can be had",
    )
    filters.add_argument(
        "--inline-only", action="store_true", help="leave out the copies that are functions themselves"
    )
    filters.add_argument(
        "--all", action="store_true", help="list the transparent sites too: parts of a function joined to it again"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show call sites, chains, reasons in full, and files tried"
    )


def run(args: argparse.Namespace) -> int:
    """Run ``list``; 0 if every name was found."""
    import gc

    # A listing makes millions of objects and no cycles: looking for cycles would take a third of the time.
    gc.disable()
    if bool(args.functions) == bool(args.inside):
        from inlinetrace.errors import UsageError

        raise UsageError("name functions to list, or --inside FUNC: one of the two")
    image = open_listing(args)
    patterns = args.inside or args.functions
    listing = image.listing(patterns, inside=bool(args.inside))
    missing = _missing(image, patterns)
    summary = Summary(not args.inside)
    renderer = Renderer(image.machine, image.name_address, image.address_kind)
    lines: list[str] = []
    object_of = renderer.json
    count = summary.tally.add
    gone = 0
    for site in keep(listing.sites(), args, summary):
        count(site)
        gone += image.is_gone(site.section)
        if args.json:
            lines.append(object_of(site))
        else:
            lines += map(visible, renderer.lines(site, args.verbose))
        if len(lines) >= _LINES_AT_ONCE:
            _write(lines)
    _write(lines)
    sys.stdout.flush()
    # The interpreter looks for cycles once more when it ends.
    gc.freeze()
    for line in summary.lines(image, listing, patterns):
        print(visible(line), file=sys.stderr)
    if gone:
        print(f"{gone} are in sections that are not in memory (any more): their addresses are offsets", file=sys.stderr)
    if missing:
        raise NotFoundError("; ".join(missing))
    if not listing.count and not args.inside:
        names = ", ".join(patterns)
        nowhere = "neither inlined nor out of line"
        if not image.has_symbols:
            nowhere = "not inlined anywhere (without a symbol table, -k, -m or -x, copies out of line are not known)"
        raise NotFoundError(f"{names}: declared here, but {nowhere}", path=image.path)
    return 0


def _write(lines: list[str]) -> None:
    """Write ``lines`` to stdout and forget them."""
    if lines:
        lines.append("")
        sys.stdout.write("\n".join(lines))
        lines.clear()


def keep(sites: Iterable[Site], args: argparse.Namespace, summary: Summary) -> Iterator[Site]:
    """Pass on the sites that the filter options let through; count the transparent ones, shown or not."""
    every = args.all
    filtered = args.inline_only or args.caller or args.section or args.file or args.available
    transparent = Mark.TRANSPARENT
    for site in sites:
        if transparent in site.marks:
            summary.transparent += 1
            if not every:
                continue
        if not filtered:
            yield site
            continue
        if args.inline_only and not site.inlined:
            continue
        if args.caller and not _inside(site, args.caller):
            continue
        if args.section and not fnmatch.fnmatchcase(site.section or "", args.section):
            continue
        if args.file and not _from_file(site, args.file):
            continue
        if args.available:
            available = [parameter.available for parameter in site.parameters]
            if args.available == "all" and not all(available):
                continue
            if args.available == "any" and not any(available):
                continue
            if args.available == "none" and any(available):
                continue
        yield site


def _inside(site: Site, glob: str) -> bool:
    names = [site.symbol, site.container, *(frame.function for frame in site.chain)]
    return site.inlined and any(name is not None and fnmatch.fnmatchcase(name, glob) for name in names)


def _from_file(site: Site, glob: str) -> bool:
    position = site.call if site.inlined else site.declared
    if position is None or position.file is None:
        return False
    return fnmatch.fnmatchcase(position.file, glob) or fnmatch.fnmatchcase(position.file, f"*/{glob}")


def _missing(image: Listed, patterns: list[str]) -> list[str]:
    """A message for each pattern that no function has."""
    names: list[str] | None = None
    messages = []
    for pattern in image.unknown([pattern for pattern in patterns if pattern != "*"]):
        if names is None:
            names = _known(image)
        import difflib

        near = difflib.get_close_matches(pattern, names, 5, 0.7)
        hint = f"; near: {', '.join(near)}" if near else ""
        messages.append(f"no function {pattern} in {image.path}{hint}")
    return messages


def _known(image: Listed) -> list[str]:
    """Every name that a function has, to suggest some; none where there is too little memory to read them all."""
    from inlinetrace.target.host import Host
    from inlinetrace.target.image import Image
    from inlinetrace.target.memory import require_memory

    try:
        if isinstance(image, Image):
            require_memory(Host(), image, None)
    except InlineTraceError:
        return []
    return sorted(set(image.function_names()))


class Summary:
    """Counts what was listed, for the lines on stderr."""

    def __init__(self, by_function: bool) -> None:
        self.tally = Tally()
        self.transparent = 0
        self._by_function = by_function

    def lines(self, image: Listed, listing: Listing, patterns: list[str]) -> Iterator[str]:
        """The lines of the summary."""
        functions = self.tally.functions
        if len(functions) <= _SUMMARY_LINES:
            for name, counts in functions.items():
                yield f"{name}: {self._text(counts)}"
        else:
            yield f"{len(functions)} functions: {self._text(self.tally.total)}"
        if self._by_function and "*" not in patterns:
            sites, callees = listing.inside()
            if sites:
                inside = " ".join(f"--inside {pattern}" for pattern in patterns)
                what = patterns[0] if len(patterns) == 1 else "them"
                yield (f"{sites} sites of {callees} functions are inlined into {what}: inlinetrace list {inside}")
        elif not self._by_function:
            own = image.listing(patterns)
            yield (
                f"{', '.join(patterns)} itself: {own.count - own.inlined} out of line, {own.inlined} inlined: "
                f"inlinetrace list {' '.join(patterns)}"
            )
        if self.transparent:
            yield f"{self.transparent} transparent sites, parts of a function joined to it again (--all lists them)"
        if self.tally.not_gcc:
            yield f"{self.tally.not_gcc} of {self.tally.shown}: {_CLANG_NOTICE}"

    @staticmethod
    def _text(counts: Counts) -> str:
        text = f"{counts.out_of_line} out of line, {counts.inlined} inlined at {counts.addresses} addresses"
        if counts.parameters:
            text += f", {counts.available} of {counts.parameters} arguments available"
        if counts.doubtful:
            text += f" ({counts.doubtful} doubtful)"
        return text
