"""Sites as lines of text and as JSON objects; both show the same rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from inlinetrace.sites.location import Location
from inlinetrace.sites.reasons import Mark
from inlinetrace.target.loaded import AddressKind

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine
    from inlinetrace.sites.model import CallSite, Parameter, Site, TypeName

MARK_TEXT = {
    Mark.REENTERED: "may be hit more often than called: its address is met again from inside of it",
    Mark.SHARED_ADDRESS: "may be hit from elsewhere too: it has no code of its own here and the address is jumped to",
    Mark.HOISTED: "may be hit without a call: the compiler gave no entry address",
    Mark.COPIES: "may be hit less often than called: the code exists in several copies with one entry",
    Mark.TRANSPARENT: "no call: the function was split and joined again",
}


def declare(type_text: str, name: str) -> str:
    """C text that declares ``name`` with a type: pointers to functions and arrays have the name inside."""
    at = type_text.find("(*")
    if at >= 0:
        at += 2
        while at < len(type_text) and type_text[at] == "*":
            at += 1
        return type_text[:at] + name + type_text[at:]
    bracket = type_text.find("[")
    if bracket > 0:
        return f"{type_text[:bracket]} {name}{type_text[bracket:]}"
    return f"{type_text}{name}" if type_text.endswith("*") else f"{type_text} {name}"


class Renderer:
    """Renders the sites of one machine; equal locations and types are rendered once.

    ``name_address`` says what people call an address of the program's data, ``address_kind`` what the addresses of the
    sites in a section are.
    """

    def __init__(
        self,
        machine: Machine,
        name_address: Callable[[int], str] = hex,
        address_kind: Callable[[str | None], AddressKind] = lambda _: AddressKind.LINK_TIME,
    ) -> None:
        self.machine = machine
        self._name_address = name_address
        # Locations are shared and kept by their reader, so their identity is enough and is much cheaper to hash.
        self._texts: dict[tuple[int, bool], tuple[str, Location]] = {}
        self._address_kind = address_kind

    @cached_property
    def json(self) -> Callable[[Site], str]:
        """A site as a JSON object of one line."""
        from inlinetrace.cli._rows import JsonLines

        return JsonLines(self.location, lambda section: self._address_kind(section).value).line

    def location(self, location: Location, type_: TypeName) -> str:
        """A location in pfunct's words; constants by the sign of the type."""
        key = (id(location), type_.signed)
        known = self._texts.get(key)
        if known is None:
            known = self._texts[key] = (
                location.text(self.machine, signed=type_.signed, name_address=self._name_address),
                location,
            )
        return known[0]

    def parameter(self, parameter: Parameter, verbose: bool) -> str:
        """``struct file *file [rdi]``; ``~`` marks a doubt, what is unavailable says why."""
        location = parameter.location
        if isinstance(location, Location):
            text = self.location(location, parameter.type)
            if parameter.doubt is not None:
                text = f"~{text}: {parameter.doubt.value}" if verbose else f"~{text}"
        else:
            text = f"unavailable: {location.reason.value}"
            if verbose and location.detail:
                text += f", {location.detail}"
        return f"{declare(parameter.type.text, parameter.name)} [{text}]"

    def lines(self, site: Site, verbose: bool) -> list[str]:
        """The listing line, in the shape of ``pfunct --inline_sites``; with ``verbose`` more lines, indented."""
        where = []
        if site.symbol is not None:
            where.append(f"{site.symbol}+{site.symbol_offset:#x}")
        if site.section is not None:
            offset = "" if site.section_offset is None else f" +{site.section_offset:#x}"
            where.append(f"{site.section}{offset}")
        parameters = [self.parameter(parameter, verbose) for parameter in site.parameters]
        if site.variadic:
            parameters.append("...")
        prototype = declare(site.return_type, site.function)
        text = f"{site.address:#x} [{', '.join(where)}] {prototype}({', '.join(parameters) or 'void'})"
        if not site.inlined:
            text += f" (out of line as {site.copy})" if site.copy else " (out of line)"
        elif Mark.TRANSPARENT in site.marks:
            text += " (transparent)"
        lines = [text]
        if not verbose:
            return lines
        if site.inlined:
            outer = [*(frame.function for frame in site.chain), *([site.container] if site.container else [])]
            calls = [site.call, *(frame.call for frame in site.chain)]
            lines += [
                f"    called at {source(call)} in {name}" for call, name in zip(calls, outer, strict=False)
            ]  # fmt: skip
        if site.declared is not None:
            lines.append(f"    declared at {source(site.declared)}")
        lines += [f"    {MARK_TEXT[mark]} ({mark.value})" for mark in site.marks]
        return lines


def source(call: CallSite | None) -> str:
    """``fs/read_write.c:340:11``."""
    if call is None:
        return "an unknown place"
    text = f"{call.file or '?'}:{call.line}"
    return f"{text}:{call.column}" if call.column else text
