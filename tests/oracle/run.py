"""Build one program, run it under ptrace, and collect the model's calls and every reader's hits."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tests.oracle.compilers import Configuration, build, run_compiler
from tests.oracle.emit import EXIT_MISMATCH, Sources, emit
from tests.oracle.generate import Program, generate
from tests.oracle.ptrace import Tracee, TraceError
from tests.oracle.reader import TracedSite

Reader = Callable[[Path], Sequence[TracedSite]]

SECONDS_PER_RUN = 60.0


class Discarded(Exception):
    """The run says nothing about locations: the two versions of the program computed different results."""


@dataclass(frozen=True, slots=True)
class Event:
    """One call as the model made it: ``lines`` are the lines of the calls that led to it, innermost first."""

    function: str
    invocation: int
    lines: tuple[int, ...]
    arguments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Hit:
    """One logical hit of a site; a value is bytes, or the reason why there is none."""

    site: TracedSite
    invocation: int
    values: tuple[bytes | str, ...]


@dataclass(slots=True)
class Run:
    """Everything one execution showed. ``hits`` has one list per reader, in the order of execution."""

    events: list[Event] = field(default_factory=list)
    hits: dict[str, list[Hit]] = field(default_factory=dict)
    sites: dict[str, Sequence[TracedSite]] = field(default_factory=dict)
    stack: tuple[int, int] = (0, 0)
    stops: int = 0


class Workshop:
    """The folder of one program: sources, and the objects that do not depend on the compiler under test."""

    def __init__(self, program: Program, invocations: int, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.sources: Sources = emit(program, invocations)
        self.traced = [f"traced{number}.c" for number in range(program.units)]
        for name, text in zip(self.traced, self.sources.traced, strict=True):
            (folder / name).write_text(text)
        for name, text in (("model.c", self.sources.model), ("driver.c", self.sources.driver)):
            (folder / name).write_text(text)
            run_compiler(["gcc", "-w", "-O0", "-fPIE", "-c", name], folder)

    def build(self, configuration: Configuration) -> Path:
        """Compile the traced units and link; the path of the program."""
        build(configuration, self.traced, ["model.o", "driver.o"], "program", self.folder)
        return self.folder / "program"

    def run(self, binary: Path, readers: Mapping[str, Reader]) -> Run:
        """Trace the program with every reader's sites; raises :class:`Discarded` or TraceError."""
        log = self.folder / "log"
        run = Run(sites={name: reader(binary) for name, reader in readers.items()})
        _trace(run, [str(binary), str(log), str(self.program.seed)], anchor=symbol(binary, "oracle_anchor"))
        run.events = list(read_log(log.read_bytes(), self.program))
        return run


@contextmanager
def workshop(seed: int, units: int, invocations: int) -> Iterator[Workshop]:
    """A :class:`Workshop` in a temporary folder."""
    with TemporaryDirectory(prefix="oracle-") as folder:
        yield Workshop(generate(seed, units), invocations, Path(folder))


def symbol(binary: Path, name: str) -> int:
    """The link-time address of a symbol."""
    with binary.open("rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        found = table.get_symbol_by_name(name) if isinstance(table, SymbolTableSection) else None
        if not found:
            raise TraceError(f"{binary.name} has no symbol {name}")
        return int(found[0]["st_value"])


def _trace(run: Run, arguments: list[str], anchor: int) -> None:
    """Fill ``run`` from one execution; each stop at ``anchor`` starts the next invocation."""
    with Tracee(arguments) as tracee:
        bias = load_bias(tracee, Path(arguments[0]))
        run.stack = tracee.mapping("[stack]")
        evaluators = _by_address(run, bias)
        tracee.insert({anchor + bias, *evaluators})
        invocation, read = -1, tracee.read
        for address in tracee.stops(SECONDS_PER_RUN):
            run.stops += 1
            if address == anchor + bias:
                invocation += 1
                continue
            registers = tracee.registers()
            for hits, site in evaluators[address]:
                values = tuple(p.reason if p.read is None else p.read(registers, read, bias) for p in site.parameters)
                hits.append(Hit(site, invocation, values))
    if tracee.status == EXIT_MISMATCH:
        raise Discarded("the traced version computed something else than the model")
    if tracee.status != 0:
        raise TraceError(f"the program ended with status {tracee.status}")


def _by_address(run: Run, bias: int) -> dict[int, list[tuple[list[Hit], TracedSite]]]:
    """Run-time address to the sites entered there, outermost first, each with the list its hits go to."""
    found: dict[int, list[tuple[list[Hit], TracedSite]]] = defaultdict(list)
    for name, sites in run.sites.items():
        hits: list[Hit] = []
        run.hits[name] = hits
        for site in sorted(sites, key=lambda s: len(s.lines)):
            found[site.address + bias].append((hits, site))
    return dict(found)


def load_bias(tracee: Tracee, binary: Path) -> int:
    """What has to be added to link-time addresses (0 unless the program is position independent)."""
    with binary.open("rb") as stream:
        elf = ELFFile(stream)
        if elf["e_type"] != "ET_DYN":
            return 0
        lowest = min(s["p_vaddr"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD")
    return tracee.mapping(str(binary))[0] - int(lowest)


def read_log(raw: bytes, program: Program) -> Iterator[Event]:
    """The model's calls in order (the layout is described in :mod:`.emit`)."""
    head = struct.Struct("<HHI")
    shapes = {
        f.number: (f.name, [(p.name, p.type.size) for p in f.parameters], sum(p.type.size for p in f.parameters))
        for f in program.functions
    }
    position = 0
    while position < len(raw):
        number, depth, invocation = head.unpack_from(raw, position)
        position += head.size
        lines = struct.unpack_from(f"<{depth}H", raw, position)[::-1]
        position += 2 * depth
        name, shape, total = shapes[number]
        arguments = {}
        end = position
        for parameter, size in shape:
            arguments[parameter] = raw[end : end + size]
            end += size
        position += total
        yield Event(name, invocation, lines, arguments)
