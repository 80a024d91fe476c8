"""What a trace would attach: pure, printable, the same for every backend.

>>> plan = make_plan(image, sites, references, host=None)
>>> for event in plan.events: print(event.name, len(event.probes))
>>> for refused in plan.refused: print(refused.site.function, refused.refusal.value)

Sites at one address are one probe with several logical hits, the outermost function first. What all of them need is
fetched once. Probes that fetch the same number of arguments of the same types are one event, whatever functions they
belong to: one event with a thousand probes is enabled and removed at once. The number of the probe is its first
argument and leads to its logical hits.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.errors import NotFoundError
from inlinetrace.probe.fetch import STRING, WORD, Argument, Place, Recipe
from inlinetrace.probe.fields import Item, Reference, resolve
from inlinetrace.sites.reasons import Compiler, Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.probe.types import Types
    from inlinetrace.sites.model import Site

MAXIMUM_ARGUMENTS = 128
"""Arguments of one event (MAX_TRACE_ARGS, kernel/trace/trace_probe.h), two of our own among them."""
MAXIMUM_NAME = 63
"""Length of a group's or event's name (MAX_EVENT_NAME_LEN)."""
NUMBER = "k"
COMMAND = "comm"
_OWN_ARGUMENTS = 2
CLANG_NOTICE = (
    "{} sites are not known to have been compiled by gcc: what others write does not tell when an argument was changed "
    "before the site, so that its new value may be shown"
)


class Refusal(enum.Enum):
    """Why a site is not attached. The values are the words of the JSON output."""

    NOT_A_BOUNDARY = "not-a-boundary"
    """The address is not where an instruction begins."""
    BOUNDARY_UNCERTAIN = "boundary-uncertain"
    """It is not certain that an instruction begins here: a probe inside of one would change the program."""
    INSTRUCTION = "instruction"
    """The kernel does not probe this instruction."""
    BUG = "bug"
    """The trap of a BUG or WARN."""
    NO_FILE_OFFSET = "no-file-offset"
    """The address is not in the file."""
    INIT = "init"
    """The code is gone once the kernel has started."""
    BLACKLIST = "blacklist"
    """The kernel forbids probes here (NOKPROBE_SYMBOL, __kprobes, entry code)."""
    NOTRACE = "notrace"
    """The function is not traced (notrace)."""
    JUMP_LABEL = "jump-label"
    """The instruction is rewritten at run time: a static branch."""
    STATIC_CALL = "static-call"
    """The instruction is rewritten at run time: a static call."""
    FTRACE = "ftrace"
    """Inside of the bytes that function tracing rewrites."""
    TOO_MANY_ARGUMENTS = "too-many-arguments"
    """More has to be fetched than an event can."""
    DUPLICATE = "duplicate"
    """The debug information describes the same site twice."""
    LIMIT = "limit"
    """More probes than --max-probes allows."""
    NO_SYMBOL = "no-symbol"
    """A module has no symbol from which the address could be counted."""
    DEADLOCK = "deadlock"
    """The code holds a lock that a hit would wait for: the kernel takes the probe, and the machine stops."""
    MISEMULATED = "misemulated"
    """The kernel takes the probe and carries out the instruction wrongly: the machine crashes."""
    REJECTED = "rejected"
    """The kernel did not accept the probe."""


class Refused(NamedTuple):
    """A site that is not attached, and why."""

    site: Site
    refusal: Refusal
    detail: str = ""


def refuse(probes: Iterable[Probe], refusal: Refusal, detail: str) -> list[Refused]:
    """All sites of some probes, refused for one reason."""
    return [Refused(hit.site, refusal, detail) for probe in probes for hit in probe.hits]


class LogicalHit(NamedTuple):
    """One function entered when a probe is hit, and the values to show for it."""

    site: Site
    items: tuple[Item, ...]


class Probe:
    """One address of the file. ``offset`` is that in the file (programs), or from a symbol (kernels, modules).

    The symbol is ``anchor``, by default the plan's target. ``arguments`` are what is fetched, in the order of the
    event's fields behind the number. ``shift`` is how far behind the address the kernel puts the probe: behind the
    ``endbr64`` that a function starts with. ``moved`` is how far it has to be from the address at run time, None if
    that does not matter.
    """

    __slots__ = ("address", "anchor", "arguments", "hits", "moved", "number", "offset", "shift")

    def __init__(
        self,
        number: int,
        address: int,
        offset: int,
        hits: tuple[LogicalHit, ...],
        arguments: tuple[Argument, ...] = (),
        anchor: str | None = None,
        shift: int = 0,
        moved: int | None = None,
    ) -> None:
        self.number = number
        self.address = address
        self.offset = offset
        self.hits = hits
        self.arguments = arguments
        self.anchor = anchor
        self.shift = shift
        self.moved = moved


class Event:
    """One event of the kernel: probes that fetch the same number of arguments of the same types.

    ``filter``, in the kernel's words, keeps hits from being recorded that are not wanted; see kernel_filter.
    """

    def __init__(
        self, name: str, types: tuple[str, ...], probes: list[Probe] | None = None, filter_: str | None = None
    ) -> None:
        self.name = name
        self.types = types
        self.probes = [] if probes is None else probes
        self.filter = filter_


class Plan:
    """All that is to be attached: kprobes (``kernel``) at ``target`` (``_stext``), or uprobes in a file.

    ``module`` is the module that the kprobes are in, None for the kernel itself.
    """

    def __init__(
        self,
        target: str,
        kernel: bool,
        events: list[Event],
        refused: list[Refused],
        notices: list[str] | None = None,
        module: str | None = None,
    ) -> None:
        self.target = target
        self.kernel = kernel
        self.events = events
        self.refused = refused
        self.notices = [] if notices is None else notices
        self.module = module

    @property
    def probes(self) -> list[Probe]:
        """All probes, by number."""
        return sorted((probe for event in self.events for probe in event.probes), key=lambda probe: probe.number)

    @property
    def sites(self) -> int:
        """How many sites are attached."""
        return sum(len(probe.hits) for event in self.events for probe in event.probes)


Check = Callable[["Site"], tuple[Refusal, str] | None]
"""Says why a site cannot be probed, None if it can."""


def order(sites: Iterable[Site]) -> list[Site]:
    """Sites by address, at one address out-of-line copies first, then outer functions before inner ones."""
    return sorted(sites, key=lambda site: (site.address, site.inlined, len(site.chain)))


def make_plan(
    sites: Iterable[Site],
    references: Sequence[Reference] | None,
    *,
    target: str,
    kernel: bool,
    types: Types,
    place: Callable[[Site], Place],
    offset: Callable[[int], int | None],
    check: Check,
    anchor: Callable[[int], str | None] = lambda address: None,
    shift: Callable[[int], int] = lambda address: 0,
    moved: Callable[[int], int | None] = lambda address: None,
    module: str | None = None,
    strings: bool = False,
    doubtful: bool = False,
    everything: bool = False,
    hidden: Sequence[Reference] = (),
    maximum_probes: int | None = None,
) -> Plan:
    """Plan probes for ``sites``.

    ``references`` are the values to show, ``everything`` asks for all parameters, ``hidden`` are values that only a
    filter needs. ``place`` gives the surroundings of a site, ``offset`` where an address is, counted from ``anchor``;
    ``check`` says what forbids it, ``shift`` how far the kernel moves it on, ``moved`` what it is moved by for good.
    Raises NotFoundError if a reference names a parameter that no function has, UsageError for unknown fields.
    """
    refused: list[Refused] = []
    grouped: dict[int, list[Site]] = {}
    seen: set[tuple[object, ...]] = set()
    clang = 0
    for site in order(sites):
        problem = check(site)
        identity = (site.address, site.function, site.inlined, site.chain, site.call, site.container)
        if identity in seen:
            refused.append(Refused(site, Refusal.DUPLICATE))
            continue
        seen.add(identity)
        if problem is not None:
            refused.append(Refused(site, *problem))
        elif offset(site.address) is None:
            refused.append(Refused(site, Refusal.NO_SYMBOL if module is not None else Refusal.NO_FILE_OFFSET))
        else:
            grouped.setdefault(site.address, []).append(site)
            clang += site.inlined and site.compiler is not Compiler.GCC
    wanted = [*(references or ()), *hidden]
    wanted_values = bool(wanted) or everything
    unknown = _unknown(wanted, [site for group in grouped.values() for site in group])
    if unknown:
        raise NotFoundError(unknown)
    events: dict[tuple[str, ...], Event] = {}
    number = 0
    for address, group in grouped.items():
        if maximum_probes is not None and number >= maximum_probes:
            refused += [Refused(site, Refusal.LIMIT, f"--max-probes {maximum_probes}") for site in group]
            continue
        hits = tuple(
            LogicalHit(site, _items(site, references, everything, hidden, types, place(site), strings, doubtful))
            for site in group
        )
        arguments = _arguments(hits)
        if len(arguments) + _OWN_ARGUMENTS > MAXIMUM_ARGUMENTS:
            possible = MAXIMUM_ARGUMENTS - _OWN_ARGUMENTS
            detail = f"{len(arguments)} values, {possible} are possible: name fewer with --args"
            refused += [Refused(site, Refusal.TOO_MANY_ARGUMENTS, detail) for site in group]
            continue
        place_in_file = offset(address)
        assert place_in_file is not None
        probe = Probe(number, address, place_in_file, hits, arguments, anchor(address), shift(address), moved(address))
        number += 1
        shape = tuple(argument.type for argument in arguments)
        event = events.get(shape)
        if event is None:
            event = events[shape] = Event(f"sites{len(events)}", shape)
        event.probes.append(probe)
    notices = [CLANG_NOTICE.format(clang)] if clang and wanted_values else []
    return Plan(target, kernel, list(events.values()), refused, notices, module)


def _unknown(references: Sequence[Reference], sites: Sequence[Site]) -> str | None:
    known: dict[str, set[str]] = {}
    for site in sites:
        known.setdefault(site.function, set()).update(parameter.name for parameter in site.parameters)
    names = set().union(*known.values()) if known else set()
    missing = [reference.parameter for reference in references if reference.parameter not in names]
    if not missing or not known:
        return None
    functions = ", ".join(sorted(known)[:5])
    have = f"it has {', '.join(sorted(names))}" if names else "it has none"
    return f"no parameter {missing[0]} of {functions}: {have}"


def _items(
    site: Site,
    references: Sequence[Reference] | None,
    everything: bool,
    hidden: Sequence[Reference],
    types: Types,
    place: Place,
    strings: bool,
    doubtful: bool,
) -> tuple[Item, ...]:
    by_name = {parameter.name: parameter for parameter in site.parameters}
    wanted = list(references or ())
    if everything:
        wanted += [Reference(parameter.name, parameter.name, ()) for parameter in site.parameters]
    labels = {reference.label for reference in wanted}
    wanted += [reference for reference in hidden if reference.label not in labels]
    items = []
    for reference in wanted:
        parameter = by_name.get(reference.parameter)
        if parameter is None:
            continue
        exact = any(other.label == reference.label for other in hidden)
        item = resolve(reference, parameter, types, place, strings=strings, exact=exact)
        if item.doubt is not None and not doubtful and isinstance(item.recipe, Recipe):
            item = item._replace(recipe=Unavailable(Reason.DOUBTFUL, item.doubt.value))
        items.append(item)
    return tuple(items)


def _arguments(hits: Sequence[LogicalHit]) -> tuple[Argument, ...]:
    """All that the hits need, each once; ordered by type, so that equal needs have equal shapes."""
    found: dict[Argument, None] = {}
    for hit in hits:
        for item in hit.items:
            if isinstance(item.recipe, Recipe):
                found.update(dict.fromkeys(item.recipe.arguments()))
    # numbers first; text last, behind it the name of the process, whose place tells whether the text was there, and
    # whose own presence tells that there was room for all of it
    return tuple(sorted(found, key=lambda argument: (argument.type in (STRING, WORD), argument.type)))


def definition(
    plan: Plan, event: Event, probe: Probe, group: str, target: str | None = None, *, fetches: bool = True
) -> str:
    """The line that defines a probe in ``uprobe_events`` or ``kprobe_events``, without the newline.

    Without ``fetches`` the event has nothing but the probe's number, which keeps the kernel from taking two probes of
    one event for the same.
    """
    where = target or probe.anchor or plan.target
    place = f"{where}+{probe.offset:#x}" if plan.kernel else f"{where}:{probe.offset:#x}"
    words = [f"p:{group}/{event.name} {place} {NUMBER}=\\{probe.number}:u32"]
    if not fetches:
        return words[0]
    words += [f"a{number}={argument.text}:{argument.type}" for number, argument in enumerate(probe.arguments)]
    return " ".join([*words, f"{COMMAND}=$comm:string"])
