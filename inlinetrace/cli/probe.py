"""Trace inlined functions live: one line for each time that a copy of a function, inlined or not, is entered.

  inlinetrace probe area --args -x ./app -- --fast        start a program, show area with its arguments
  inlinetrace probe area -x ./app -p 4242                 in a process that runs already
  inlinetrace probe 'parse_*' --args -x libfoo.so         in every process that uses a library
  inlinetrace probe push --args 'q->len,q->head->name' --where 'q->len > 8' -x ./app
  inlinetrace probe vfs_llseek --args                     in the running kernel
  inlinetrace probe 'xfs_trans_*' --args -m xfs           in a loaded module
  inlinetrace probe push --hist 'q->len' --backend bcc -x ./app -d 10
                                                          a histogram, made in the kernel, after ten seconds
  inlinetrace probe area --args -x ./app --dry-run        what would be attached, and nothing is

name=? is a value that cannot be had (-v says why), ~ marks one that may be another than the one passed
(--doubtful). Names come before the options; --args without a list shows every argument.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from inlinetrace.cli.inputs import add_btf_arguments, add_input_arguments, open_listing
from inlinetrace.cli.terminal import say, visible
from inlinetrace.elf.constants import ET_EXEC
from inlinetrace.errors import InlineTraceError, MismatchError, NotFoundError, NotPermittedError, UsageError
from inlinetrace.sites.reasons import Mark

if TYPE_CHECKING:
    from types import TracebackType

    from inlinetrace.elf.machine import Machine
    from inlinetrace.probe.backend import Backend
    from inlinetrace.probe.bcc import BccBackend, Wanted
    from inlinetrace.probe.events import Hit
    from inlinetrace.probe.fields import Reference
    from inlinetrace.probe.output import Output
    from inlinetrace.probe.plan import Plan, Refused
    from inlinetrace.probe.session import Outcome
    from inlinetrace.probe.stacks import Symbols
    from inlinetrace.probe.tally import Tally
    from inlinetrace.probe.traced_file import TracedFile
    from inlinetrace.probe.types import Types
    from inlinetrace.probe.where import Condition
    from inlinetrace.sites.model import Site
    from inlinetrace.target.btf_image import BtfImage
    from inlinetrace.target.host import Host
    from inlinetrace.target.image import Image

HELP = "trace functions live, inlined copies included, with their arguments"

_REASONS_SHOWN = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``probe``."""
    parser.add_argument("functions", nargs="+", metavar="FUNC", help="function names or shell globs")
    add_input_arguments(parser)
    add_btf_arguments(parser)
    values = parser.add_argument_group("values")
    values.add_argument(
        "--args",
        nargs="?",
        const="",
        metavar="LIST",
        help="show the arguments: all of them, or those in LIST, with fields: 'skb->len,skb->dev->name'",
    )
    values.add_argument("--strings", action="store_true", help="show the text that a char * points at")
    values.add_argument("--where", metavar="EXPR", help="show only hits for which this holds: 'len > 4096 and fd != 2'")
    values.add_argument("--doubtful", action="store_true", help="show values that may be wrong too, with ~")
    limits = parser.add_argument_group("what to trace, and for how long")
    limits.add_argument(
        "-p", "--pid", type=int, action="append", metavar="PID", help="only this process, all its threads"
    )
    limits.add_argument("-c", "--max-hits", type=_positive, metavar="N", help="end after N hits")
    limits.add_argument("-d", "--duration", type=_seconds, metavar="SECONDS", help="end after this time")
    limits.add_argument(
        "--require",
        choices=("any", "all"),
        default="any",
        help="all: attach nothing unless every site can be attached (default: any)",
    )
    limits.add_argument("--max-probes", type=_positive, metavar="N", help="attach no more than N addresses")
    limits.add_argument("--inline-only", action="store_true", help="leave out the copies that are functions themselves")
    limits.add_argument(
        "--backend",
        choices=("tracefs", "bcc"),
        default="tracefs",
        help="tracefs (default) needs nothing; bcc traces with a BPF program, needs BCC's Python module, counts in the "
        "kernel and has --stack",
    )
    limits.add_argument("--buffer-size", type=_positive, metavar="KB", help="buffer of the kernel for each processor")
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="one JSON object per line")
    output.add_argument("--stack", action="store_true", help="show the stacks of each hit (with --backend bcc)")
    output.add_argument(
        "--count",
        action="store_true",
        help="show no hits, but at the end how many there were at each site; counted in the kernel with --backend bcc "
        "where that can be, else from the hits as they come",
    )
    output.add_argument(
        "--hist",
        metavar="ARG",
        help="show no hits, but at the end a histogram of an argument or field by powers of two, counted likewise",
    )
    output.add_argument("-o", "--output", metavar="FILE", help="write the hits to FILE")
    output.add_argument("--summary", action="store_true", help="at the end, hits by site (on stderr)")
    output.add_argument("--dry-run", action="store_true", help="print what would be attached; attach nothing")
    output.add_argument(
        "--emit", choices=("tracefs", "bpftrace", "perf"), help="print the plan for another tool; attach nothing"
    )
    output.add_argument(
        "-v", "--verbose", action="store_true", help="say why values are missing; inline chains; details"
    )


def _positive(text: str) -> int:
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError("must be more than 0")
    return number


def run(args: argparse.Namespace) -> int:
    """Run ``probe``; 0 when the trace ended as it should."""
    from inlinetrace.probe.kernel_filter import set_filters
    from inlinetrace.probe.where import parse_condition
    from inlinetrace.target.host import Host
    from inlinetrace.target.modules import is_module_file
    from inlinetrace.target.requirements import require_kprobes, require_uprobes

    arguments: list[str] | None = args.program_arguments
    if arguments is not None and not args.exec:
        raise UsageError("-- starts the program that -x names: add -x PROGRAM")
    if arguments is not None and args.pid:
        raise UsageError("-p traces a process that runs, -- starts one: one of the two")
    _check_output(args)
    host = Host()
    attaches = not args.emit and not args.dry_run
    if attaches and (arguments is not None or args.pid) and not host.sees_every_process:
        raise NotPermittedError(
            "-p and -- do not work inside of a PID namespace (a container), where processes have other numbers than "
            "the kernel traces them by: leave them out, or trace from outside"
        )
    if attaches and args.exec:
        # before the debug information is read, which may take a while
        require_uprobes(host)
    elif attaches:
        require_kprobes(host)
    if attaches and args.backend == "bcc":
        from inlinetrace.probe.bcc_library import open_library

        open_library()
    condition = parse_condition(args.where) if args.where else None
    if args.btf and not (args.exec or args.vmlinux):
        # what is traced is what runs
        args.loaded = True
    listed = open_listing(args, host)
    image = _code_image(listed)
    if attaches and image is not None and image.module is not None:
        _require_loaded(host, image, from_file=is_module_file(args.module))
    types = types_of(listed)
    plan = _plan(args, host, listed, image, types, condition)
    if condition is not None:
        set_filters(plan, condition)
    if args.backend == "bcc" and args.dry_run:
        from inlinetrace.probe.bcc import BccBackend

        plan = BccBackend(host, plan, listed.machine, _wanted(args, plan, image, condition)).planned()
    if args.emit or args.dry_run:
        return _print(args, plan, listed, types)
    return _trace(args, host, plan, listed.machine, image, types, condition, arguments)


def _code_image(listed: Image | BtfImage) -> Image | None:
    """The file that probes go into; None if the running kernel is known by its location info alone."""
    from inlinetrace.target.image import Image, make_image

    if isinstance(listed, Image):
        return listed
    program = listed.program
    return None if program is None else make_image(program, program, module=listed.reader.module)


def types_of(listed: Image | BtfImage) -> Types:
    """The types that the sites of an input refer to."""
    from inlinetrace.target.image import Image

    if isinstance(listed, Image):
        from inlinetrace.probe.dwarf_types import DwarfTypes

        return DwarfTypes(listed.dwarf.dies, listed.machine, listed.debug.little_endian)
    from inlinetrace.probe.btf_types import BtfTypes

    return BtfTypes(listed.reader)


def _check_output(args: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    counts = "--count" if args.count else "--hist" if args.hist is not None else None
    if args.stack and args.backend != "bcc":
        raise UsageError("--stack takes a BPF program: add --backend bcc")
    if counts and args.stack:
        raise UsageError(f"{counts} shows no hits, and so no stacks: one of the two")
    if counts and args.args is not None:
        raise UsageError(f"{counts} shows no hits, and so no --args: one of the two")
    if args.backend == "bcc" and args.emit:
        raise UsageError("--emit prints what the tracefs backend attaches: leave out --backend")


def _histogram(args: argparse.Namespace) -> Reference | None:
    from inlinetrace.probe.fields import parse

    return None if args.hist is None else parse(args.hist)


def _plan(
    args: argparse.Namespace,
    host: Host,
    listed: Image | BtfImage,
    image: Image | None,
    types: Types,
    condition: Condition | None,
) -> Plan:
    from inlinetrace.probe.target import plan_image

    sites = _sites(args, listed)
    if condition is not None:
        condition.settle({parameter.name for site in sites for parameter in site.parameters})
    return plan_image(
        listed if image is None else image,
        sites,
        types,
        kernel=not args.exec,
        host=host,
        references=_references(args),
        everything=args.args == "",
        hidden=_hidden(args, condition),
        # a histogram is one of pointers, not of what they point at
        strings=args.strings and args.hist is None,
        doubtful=args.doubtful,
        maximum_probes=args.max_probes,
        guarded=args.backend == "tracefs",
    )


def _hidden(args: argparse.Namespace, condition: Condition | None) -> list[Reference]:
    """What has to be fetched and is not shown as such: what is compared and what is counted."""
    counted = _histogram(args)
    compared = list(condition.references) if condition is not None else []
    if counted is None or any(reference.label == counted.label for reference in compared):
        return compared
    return [*compared, counted]


def _sites(args: argparse.Namespace, image: Image | BtfImage) -> list[Site]:
    missing = image.unknown([pattern for pattern in args.functions if pattern != "*"])
    if missing:
        raise NotFoundError(f"no function {missing[0]}", path=image.path)
    sites = [
        site
        for site in image.listing(args.functions).sites()
        if Mark.TRANSPARENT not in site.marks and (site.inlined or not args.inline_only)
    ]
    if not sites:
        names = ", ".join(args.functions)
        raise NotFoundError(f"{names}: declared here, but neither inlined nor out of line", path=image.path)
    return sites


def _print(args: argparse.Namespace, plan: Plan, image: Image | BtfImage, types: Types) -> int:
    from inlinetrace.probe import emit

    if args.emit == "tracefs":
        lines = emit.tracefs_script(plan)
    elif args.emit == "perf":
        lines = emit.perf_script(plan)
    elif args.emit == "bpftrace":
        lines = emit.bpftrace_program(plan, image.machine, types)
    else:
        fetches = args.backend == "tracefs"
        lines = emit.plan_json(plan, fetches=fetches) if args.json else emit.plan_text(plan, fetches=fetches)
    with _output(args) as file:
        for line in lines:
            file.write(line + "\n")
    if args.emit:
        _say_refused(plan.refused, plan.sites + len(plan.refused))
    return 0


class _output:  # noqa: N801
    """The file that the hits go to: stdout, or the one that -o names."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._path: str | None = args.output
        self._file: TextIO | None = None

    def __enter__(self) -> TextIO:
        if self._path is None:
            return sys.stdout
        try:
            self._file = open(self._path, "w", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise InlineTraceError(error.strerror or str(error), path=self._path) from error
        return self._file

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._file is None or self._path is None:
            return
        from inlinetrace.generate.output import write_error

        try:
            self._file.close()
        except OSError as failure:
            # the disk is full: closing has failed as the write before has
            if error is None or isinstance(error, OSError):
                raise write_error(failure, self._path) from failure


def _trace(
    args: argparse.Namespace,
    host: Host,
    plan: Plan,
    machine: Machine,
    image: Image | None,
    types: Types,
    condition: Condition | None,
    arguments: list[str] | None,
) -> int:
    from inlinetrace.cli.sink import Sink
    from inlinetrace.probe.child import Child
    from inlinetrace.probe.events import Decoder
    from inlinetrace.probe.output import Output
    from inlinetrace.probe.session import Limits, Session
    from inlinetrace.probe.traced_file import TracedFile
    from inlinetrace.probe.tracefs import TracefsBackend

    processes = _processes(host, args.pid)
    if plan.kernel and plan.module is None and image is not None and image.loaded is None:
        check_kernel(host, image)
    traced = None if image is None or plan.kernel else TracedFile.open(plan.target, image.program)
    if traced is not None and args.pid:
        _require_running(host, traced, args.pid)
    program = None if traced is None else traced.descriptor
    shown = {item.label for probe in plan.probes for hit in probe.hits for item in hit.items}
    hidden: frozenset[str] = frozenset()
    if condition is not None and args.args != "":
        asked = {part.label for part in _references(args)}
        hidden = frozenset(shown & {reference.label for reference in condition.references} - asked)
    tally = _tally(args, plan, types)
    backend: Backend
    symbols, stacks = None, 0
    if args.backend == "bcc":
        bcc, symbols = _bcc(args, host, plan, machine, image, condition, program)
        backend, stacks = bcc, bcc.capture.stacks
    else:
        backend = TracefsBackend(host, plan, program=program, buffer_kb=args.buffer_size)
    epoch = host.realtime_ns() - host.monotonic_ns()
    output = Output(epoch, verbose=args.verbose, hidden=hidden, symbols=symbols)
    child = None
    with _output(args) as file:
        sink = Sink(file, args.output)
        render = output.json if args.json else lambda hit, process: _text(output, hit, process)
        session = Session(
            host,
            plan,
            backend,
            Decoder(plan, types, stacks=stacks),
            (lambda hit, process: sink.write(render(hit, process)))
            if tally is None
            else (lambda hit, process: tally.add(hit)),
            sink.flush,
            lambda outcome: _say_attached(args, plan, outcome),
        )
        if arguments is not None:
            child = Child(plan.target, arguments, to_stderr=args.output is None)
            processes = [child.pid]
        limits = Limits(
            args.max_hits,
            args.duration,
            frozenset(processes) if processes is not None and child is None else None,
            condition,
            args.require == "all",
            None if plan.module is None else module_watch(host, plan.module),
        )
        if traced is not None:
            limits = limits._replace(check=traced.check)
        try:
            outcome = session.run(limits, processes=processes, child=child)
        finally:
            for line in session.outcome.left:
                say(f"{line}; inlinetrace clean removes it when it is idle")
        if tally is not None:
            if outcome.totals is not None:
                tally.add_totals(plan, outcome.totals, types)
            for line in tally.json() if args.json else tally.text():
                sink.write(line if args.json else visible(line))
            sink.flush(lambda: outcome.signal is not None)
    if traced is not None and child is None and not traced.is_at_its_path():
        say(f"{plan.target} was replaced or deleted meanwhile: processes that ran another file were not traced")
    return _end(args, outcome)


def _text(output: Output, hit: Hit, process: int | None) -> str:
    """A hit and its stacks; what is of the traced program must not make lines or colours of its own."""
    line = visible(output.line(hit, process))
    stack = output.stack(hit, process)
    return "\n".join([line, *map(visible, stack)]) if stack else line


def _tally(args: argparse.Namespace, plan: Plan, types: Types) -> Tally | None:
    """What counts hits instead of showing them, if that was asked for."""
    from inlinetrace.probe.tally import Tally, check_numbers

    counted = _histogram(args)
    if counted is None and not args.count:
        return None
    if counted is not None:
        check_numbers(plan, types, counted.label)
    return Tally(counts=args.count, histogram=None if counted is None else counted.label)


def _wanted(args: argparse.Namespace, plan: Plan, image: Image | None, condition: Condition | None) -> Wanted:
    """What is wanted of the bcc backend beside its records."""
    from inlinetrace.probe.bcc import Wanted
    from inlinetrace.probe.bpf_capture import MAXIMUM_FRAMES

    counted = _histogram(args)
    return Wanted(
        frames=MAXIMUM_FRAMES if args.stack else 0,
        # with a limit on the hits somebody has to look at each
        counts=(args.count or counted is not None) and args.max_hits is None,
        histogram=None if counted is None else counted.label,
        condition=condition,
        follow=args.program_arguments is not None,
        fixed=not plan.kernel and image is not None and image.program.type == ET_EXEC,
    )


def _bcc(
    args: argparse.Namespace,
    host: Host,
    plan: Plan,
    machine: Machine,
    image: Image | None,
    condition: Condition | None,
    program: int | None,
) -> tuple[BccBackend, Symbols | None]:
    """The bcc backend, and names for stacks if they are shown."""
    from inlinetrace.probe.bcc import BccBackend
    from inlinetrace.probe.bcc_library import open_library
    from inlinetrace.probe.stacks import Symbols

    if args.stack and image is None:
        raise UsageError("--stack takes names of inlined functions from the kernel's file: add -k FILE or -m FILE")
    library = open_library()
    wanted = _wanted(args, plan, image, condition)
    backend = BccBackend(host, plan, machine, wanted, program=program, buffer_kb=args.buffer_size, library=library)
    if not args.stack or image is None:
        return backend, None
    return backend, Symbols(image, library, kernel=plan.kernel, processes=host.sees_every_process)


def _references(args: argparse.Namespace) -> list[Reference]:
    from inlinetrace.probe.fields import parse_list

    return parse_list(args.args) if args.args else []


def _processes(host: Host, pids: list[int] | None) -> list[int] | None:
    if not pids:
        return None
    processes = []
    for pid in pids:
        process = host.process_of(pid)
        if process is None:
            raise NotFoundError(f"no process {pid}")
        processes.append(process)
    return processes


def _require_running(host: Host, file: TracedFile, pids: list[int]) -> None:
    """Refuse a trace of processes that none of the probes can be in; name those that have none."""
    others = [pid for pid in pids if not file.runs_in(host, pid)]
    lines = [f"process {pid} {file.other_in(host, pid)}" for pid in others]
    if len(others) == len(pids):
        raise MismatchError(f"{'; '.join(lines)}: nothing to trace", path=file.path)
    for line in lines:
        say(f"{file.path}: {line}: it is not traced")


def check_kernel(host: Host, image: Image) -> None:
    """Refuse an image that is not the running kernel: its addresses would be those of other code."""
    from inlinetrace.target.running import RunningKernel

    running, given = RunningKernel(host).build_id, image.program.build_id
    if given != running:
        raise MismatchError(
            f"build id {given.hex() if given else 'none'}, but the running kernel has {running.hex()}: "
            "its sites cannot be traced with this file",
            path=image.path,
        )


def _require_loaded(host: Host, image: Image, *, from_file: bool) -> None:
    """Refuse a module that is not the one that is loaded. Its addresses are known then, if they are not hidden."""
    from inlinetrace.target.modules import loaded_modules
    from inlinetrace.target.running import resolve_running

    if image.module not in loaded_modules(host):
        raise NotFoundError(f"module {image.module} is not loaded: its code cannot be traced", path=image.path)
    if from_file and image.loaded is None:
        known = len(image.notices)
        resolve_running(image, host)
        for notice in image.notices[known:]:
            say(notice)


def module_watch(host: Host, module: str) -> Callable[[], str | None]:
    """Says that a module is not there any more, or is another one."""
    from inlinetrace.target.modules import loading

    first = loading(host, module)

    def watch() -> str | None:
        now = loading(host, module)
        if now == first:
            return None
        return f"module {module} was {'unloaded' if now is None else 'loaded again'}: the trace ends"

    return watch


def _say_refused(refused: list[Refused], total: int) -> None:
    if not refused:
        return
    from inlinetrace.probe.emit import why_not

    say(f"{total - len(refused)} of {total} sites can be attached")
    for item in refused[:_REASONS_SHOWN]:
        say(why_not(item))
    if len(refused) > _REASONS_SHOWN:
        say(f"and {len(refused) - _REASONS_SHOWN} more (--dry-run names all)")


def _say_attached(args: argparse.Namespace, plan: Plan, outcome: Outcome) -> None:
    total = plan.sites + len(plan.refused)
    _say_refused(outcome.refused, total)
    for notice in plan.notices:
        say(notice)
    if args.verbose or sys.stderr.isatty():
        attached = total - len(outcome.refused)
        say(f"{attached} of {total} sites attached in {outcome.attach_seconds:.3f} s")


def _end(args: argparse.Namespace, outcome: Outcome) -> int:
    if args.summary:
        for (function, symbol, address), count in sorted(outcome.by_site.items(), key=lambda item: -item[1]):
            print(visible(f"{count:10} {function} {address:#x} {symbol}"), file=sys.stderr)
    if outcome.gone is not None:
        say(outcome.gone)
    if outcome.lost:
        say(f"{outcome.lost} hits were lost: the buffer was full (--buffer-size)")
    if outcome.unrecorded:
        others = "they were of other processes, or " if outcome.others else ""
        say(f"{outcome.unrecorded} hits were not recorded by the kernel: {others}{outcome.why_unrecorded}")
    if outcome.missed:
        say(f"{outcome.missed} hits were missed: the kernel runs no probe inside of another one")
    if args.verbose:
        say(f"{outcome.shown} hits, {outcome.lost} lost; detached in {outcome.detach_seconds:.3f} s")
    return 0 if outcome.signal is None else 128 + outcome.signal
