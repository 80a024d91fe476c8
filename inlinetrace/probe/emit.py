"""A plan as text, as JSON, and in the languages of other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from inlinetrace.probe.fetch import Recipe
from inlinetrace.probe.plan import Plan, definition
from inlinetrace.sites.location import Shape
from inlinetrace.sites.model import Encoding
from inlinetrace.sites.reasons import Unavailable

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine
    from inlinetrace.probe.fields import Item
    from inlinetrace.probe.plan import Refused
    from inlinetrace.probe.types import Types
    from inlinetrace.sites.model import Site

GROUP = "inlinetrace"


def plan_text(plan: Plan, *, fetches: bool = True) -> Iterator[str]:
    """The plan for people: each probe with its hits, what is fetched for each value, and what is refused.

    Without ``fetches`` it is not the events that fetch but programs on them.
    """
    for event in plan.events:
        yield f"event {event.name}: {len(event.probes)} probes" + (f", {len(event.types)} arguments" if fetches else "")
        if event.filter is not None:
            yield f"  filter {event.filter}"
        for probe in event.probes:
            yield f"  {definition(plan, event, probe, GROUP, fetches=fetches)}"
            names = {
                argument: f"a{number}" if fetches else f"{argument.text}:{argument.type}"
                for number, argument in enumerate(probe.arguments)
            }
            for hit in probe.hits:
                site = hit.site
                kind = "" if site.inlined else " (out of line)"
                marks = f" [{', '.join(mark.value for mark in site.marks)}]" if site.marks else ""
                yield f"    {site.function} in {place(site)}{kind}{marks}"
                for item in hit.items:
                    yield f"      {item.label}: {_source(item, names)}"
    for refused in plan.refused:
        yield why_not(refused)


def place(site: Site) -> str:
    """Where people find a site, whatever its address counts from: the symbol around it and the offset in that."""
    return f"{site.symbol}+{site.symbol_offset:#x}" if site.symbol is not None else hex(site.address)


def why_not(refused: Refused) -> str:
    """One line for a site that gets no probe."""
    detail = f": {refused.detail}" if refused.detail else ""
    return f"not {refused.site.function} in {place(refused.site)}: {refused.refusal.value}{detail}"


def _source(item: Item, names: dict[Any, str]) -> str:
    recipe = item.recipe
    if isinstance(recipe, Unavailable):
        return f"unavailable: {recipe.reason.value}{', ' if recipe.detail else ''}{recipe.detail}"
    words = [names[read.argument] for read in recipe.reads]
    guards = [names[guard] for read in recipe.reads for guard in read.guards]
    text = ", ".join(words) if words or recipe.string else "a constant"
    if recipe.string is not None:
        text += f"{', ' if words else ''}text {names[recipe.string]}"
    if guards:
        text += f" (proved by {', '.join(guards)})"
    return f"~{text}: {item.doubt.value}" if item.doubt is not None else text


def plan_json(plan: Plan, *, fetches: bool = True) -> Iterator[str]:
    """One object per probe and one per refused site; see plan_text for ``fetches``."""
    for event in plan.events:
        for probe in event.probes:
            row: dict[str, Any] = {
                "event": event.name,
                "number": probe.number,
                "address": hex(probe.address),
                "offset": hex(probe.offset),
                "definition": definition(plan, event, probe, GROUP, fetches=fetches),
                "hits": [
                    {
                        "function": hit.site.function,
                        "inlined": hit.site.inlined,
                        "symbol": hit.site.symbol,
                        "symbol_offset": hit.site.symbol_offset,
                        "marks": [mark.value for mark in hit.site.marks],
                        "args": {
                            item.label: [argument.text for argument in item.recipe.arguments()]
                            for item in hit.items
                            if isinstance(item.recipe, Recipe)
                        },
                        "unavailable": {
                            item.label: item.recipe.reason.value
                            for item in hit.items
                            if isinstance(item.recipe, Unavailable)
                        },
                    }
                    for hit in probe.hits
                ],
            }
            yield json.dumps(row, ensure_ascii=False)
    for refused in plan.refused:
        yield json.dumps(
            {
                "refused": refused.refusal.value,
                "detail": refused.detail,
                "function": refused.site.function,
                "address": hex(refused.site.address),
                "inlined": refused.site.inlined,
            },
            ensure_ascii=False,
        )


def tracefs_script(plan: Plan) -> Iterator[str]:
    """A shell script that defines the events, shows them until it is interrupted, and removes them in order."""
    yield from _definitions(plan)
    yield 'mkdir "$T/instances/$G"'
    yield 'echo 1 > "$T/instances/$G/events/$G/enable"'
    yield "trap : INT TERM"
    yield 'cat "$T/instances/$G/trace_pipe" || :'


def perf_script(plan: Plan) -> Iterator[str]:
    """A shell script that defines the events for perf, records them until it is interrupted, and removes them."""
    yield from _definitions(plan)
    yield "trap : INT"
    yield 'perf record -a -e "$G:*" -o inlinetrace.data || :'
    yield "perf script -i inlinetrace.data"


def _definitions(plan: Plan) -> Iterator[str]:
    events = "kprobe_events" if plan.kernel else "uprobe_events"
    yield "#!/bin/sh -e"
    yield f"T=/sys/kernel/tracing G={GROUP}_script_$$"
    yield "# an event is deleted only when nothing has it enabled: some kernels crash otherwise"
    yield "remove() {"
    yield '    for f in "$T/events/$G/enable" "$T"/instances/*/events/"$G"/enable; do'
    yield '        [ ! -e "$f" ] || echo 0 > "$f"'
    yield "    done"
    yield '    [ ! -e "$T/instances/$G" ] || rmdir "$T/instances/$G"'
    yield f"    for e in {' '.join(event.name for event in plan.events)}; do"
    yield f'        [ ! -e "$T/events/$G/$e" ] || echo "-:$G/$e" >> "$T/{events}"'
    yield "    done"
    yield "}"
    yield '[ ! -e "$T/events/$G" ] && [ ! -e "$T/instances/$G" ]'
    yield "trap remove EXIT"
    yield f"""while IFS= read -r line; do printf 'p:%s/%s\\n' "$G" "$line" >> "$T/{events}"; done <<'END'"""
    for event in plan.events:
        for probe in event.probes:
            yield definition(plan, event, probe, GROUP).removeprefix(f"p:{GROUP}/")
    yield "END"


def bpftrace_program(plan: Plan, machine: Machine, types: Types) -> Iterator[str]:
    """A bpftrace program; values that take more than a register, a constant or one read of memory are left out."""
    for probe in plan.probes:
        if plan.module is not None:
            place = f"kprobe:{probe.anchor}+{probe.offset}"
        elif plan.kernel:
            site = probe.hits[0].site
            place = (
                f"kprobe:{site.symbol}+{site.symbol_offset}" if site.symbol else f"kprobe:{plan.target}+{probe.offset}"
            )
        else:
            place = f"uprobe:{plan.target}:{probe.address:#x}"
        yield f"{place}"
        yield "{"
        for hit in probe.hits:
            yield f"    {_bpftrace_line(hit.site.function, hit.items, machine, types)}"
        yield "}"


def _bpftrace_line(function: str, items: tuple[Item, ...], machine: Machine, types: Types) -> str:
    formats, values = [], []
    for item in items:
        value = _bpftrace_value(item, machine, types)
        if value is None:
            formats.append(f"{item.label}=?")
            continue
        name = types.name(item.type)
        formats.append(f"{item.label}={'%s' if item.text else '0x%lx' if name.encoding is Encoding.POINTER else '%ld'}")
        values.append(value)
    text = json.dumps(f"%s/%d {function}({', '.join(formats)})\n")
    return f"printf({', '.join([text, 'comm', 'pid', *values])});"


def _bpftrace_value(item: Item, machine: Machine, types: Types) -> str | None:
    recipe = item.recipe
    if isinstance(recipe, Unavailable) or item.bits or item.start or item.size:
        return None
    location = recipe.location
    name = types.name(item.type)
    size = location.size or location.address_size
    if size not in (1, 2, 4, 8) or name.encoding in (Encoding.AGGREGATE, Encoding.FLOAT, Encoding.OTHER):
        return None
    signed = name.encoding in (Encoding.SIGNED, Encoding.CHAR) or (name.encoding is Encoding.ENUM and name.signed)
    cast = f"({'int' if signed else 'uint'}{8 * size})"
    shape = location.shape
    if shape is Shape.CONSTANT:
        return f"{cast}{location.nodes[-1].a & ((1 << 8 * size) - 1)}"
    if shape not in (Shape.REGISTER, Shape.VALUE, Shape.MEMORY):
        return None
    register, offset = location.base
    text = f'reg("{_bpftrace_register(machine, register)}")'
    if offset:
        text = f"({text} {'-' if offset < 0 else '+'} {abs(offset)})"
    if shape is Shape.MEMORY:
        text = f"*(uint{8 * size}*){text}"
    value = f"{cast}{text}"
    return f"str({text})" if item.text and shape is not Shape.MEMORY else value


def _bpftrace_register(machine: Machine, number: int) -> str:
    from inlinetrace.probe.registers import register_text

    return (register_text(machine, number) or machine.register_name(number)).lstrip("%")


__all__ = ["bpftrace_program", "perf_script", "plan_json", "plan_text", "tracefs_script"]
