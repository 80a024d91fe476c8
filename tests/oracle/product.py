"""The product as a reader of the harness: what inlinetrace says about the sites of a program."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from inlinetrace.elf.machine import X86_64
from inlinetrace.sites.model import Parameter, Site
from inlinetrace.sites.reasons import Mark, Unavailable
from inlinetrace.sites.values import decode_value
from inlinetrace.target import open_image
from tests.oracle.reader import Memory, Read, TracedParameter, TracedSite


def read(path: Path) -> list[TracedSite]:
    """Every site and out-of-line copy of a linked program, as inlinetrace lists them; transparent ones are left out."""
    image = open_image(str(path))
    return [convert(site) for site in image.sites() if Mark.TRANSPARENT not in site.marks]


def call_lines(site: Site) -> tuple[int, ...]:
    """Lines of the calls, innermost first; a function inlined directly into itself was not called."""
    names = [site.function, *(frame.function for frame in site.chain), site.container]
    calls = [site.call, *(frame.call for frame in site.chain)]
    return tuple(
        call.line if call else 0 for call, name, around in zip(calls, names, names[1:], strict=False) if name != around
    )


def convert(site: Site) -> TracedSite:
    """A site of the product's model as the harness sees it."""
    return TracedSite(
        site.function,
        site.inlined,
        site.address,
        call_lines(site) if site.inlined else (),
        tuple(_parameter(p) for p in site.parameters),
        frozenset(mark.value for mark in site.marks),
        site.copy or "",
    )


def _parameter(parameter: Parameter) -> TracedParameter:
    location = parameter.location
    if isinstance(location, Unavailable):
        reason = location.reason.value
        return TracedParameter(parameter.name, parameter.type.size, location.detail, None, f"{reason}")
    return TracedParameter(
        parameter.name,
        parameter.type.size,
        location.text(X86_64, signed=parameter.type.signed),
        _reader(parameter),
        doubt=parameter.doubt.value if parameter.doubt else "",
    )


def _reader(parameter: Parameter) -> Read:
    location, kind = parameter.location, parameter.type
    assert not isinstance(location, Unavailable)

    def read(registers: Mapping[int, int], memory: Memory, bias: int) -> bytes | str:
        raw = location.read(registers, memory, bias)
        if isinstance(raw, Unavailable):
            return raw.reason.value
        value = decode_value(raw, kind)
        return value.reason.value if isinstance(value, Unavailable) else bytes(raw[: kind.size])

    return read
