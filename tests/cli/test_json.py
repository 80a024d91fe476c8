"""list --json: the text is what json.dumps gives for the documented keys, whatever the names are."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from inlinetrace.cli.render import Renderer
from inlinetrace.elf.machine import machine_for
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import CallSite, Encoding, InlineFrame, Parameter, Site, TypeName
from inlinetrace.sites.reasons import Compiler, Doubt, Mark, Reason, Unavailable
from inlinetrace.target.image import open_image
from tests.kernels import Kernel

X86_64 = machine_for(62, 8)
INT = TypeName("int", 4, Encoding.SIGNED, True, 0x10)
UNSIGNED = TypeName("unsigned int", 4, Encoding.UNSIGNED, False, 0x20)
MINUS_ONE = Location.constant(0xFFFFFFFF, size=4)


def documented(renderer: Renderer, site: Site) -> str:
    """The object of design and documentation, by way of dictionaries."""

    def position(call: CallSite | None) -> dict[str, Any] | None:
        return None if call is None else {"file": call.file, "line": call.line, "column": call.column or None}

    def parameter(item: Parameter) -> dict[str, Any]:
        result: dict[str, Any] = {"name": item.name, "type": item.type.text}
        if isinstance(item.location, Location):
            result["location"] = item.location.text(renderer.machine, signed=item.type.signed)
            if item.doubt is not None:
                result["doubt"] = item.doubt.value
        else:
            result["unavailable"] = item.location.reason.value
            if item.location.detail:
                result["detail"] = item.location.detail
        return result

    keys = {
        "function": site.function,
        "inlined": site.inlined,
        "address": hex(site.address),
        "symbol": site.symbol,
        "symbol_offset": site.symbol_offset,
        "section": site.section,
        "section_offset": site.section_offset,
        "inlined_into": [frame.function for frame in site.chain]
        + ([site.container] if site.container is not None else []),
        "call": position(site.call),
        "module": site.module,
        "source": site.source,
        "parameters": [parameter(item) for item in site.parameters],
        "return_type": site.return_type,
        "variadic": site.variadic,
        "copy": site.copy,
        "declared": position(site.declared),
        "marks": [mark.value for mark in site.marks],
        "compiler": site.compiler.value,
    }
    return json.dumps(keys, ensure_ascii=False)


def site(**changes: Any) -> Site:
    plain = Site("f", True, 0x1000, ".text", 0, "g", 0, "int", ())
    return plain._replace(**changes)


SITES = {
    "plain": site(),
    "nothing known": site(symbol=None, symbol_offset=None, section=None, section_offset=None),
    "largest address": site(address=(1 << 64) - 1, section_offset=(1 << 64) - 1),
    "out of line": site(inlined=False, copy="f.isra.0", declared=CallSite("a.c", 3, 0)),
    "call": site(call=CallSite("a.c", 10, 12), container="g"),
    "call in no file": site(call=CallSite(None, 10, 0)),
    "chain": site(chain=(InlineFrame("a", CallSite("a.c", 1, 2)), InlineFrame("b", None)), container="c"),
    "chain without end": site(chain=(InlineFrame("a", None),)),
    "every mark": site(marks=tuple(Mark)),
    "module, variadic": site(module="nf_nat", variadic=True, source="btf", compiler=Compiler.CLANG),
    "parameters": site(
        parameters=(
            Parameter("a", INT, MINUS_ONE),
            Parameter("b", UNSIGNED, MINUS_ONE),
            Parameter("c", INT, Location.register(5, size=4), Doubt.SINGLE_REGISTER),
            Parameter("d", INT, Unavailable(Reason.NO_LOCATION)),
            Parameter("e", INT, Unavailable(Reason.ENTRY_VALUE, 'DW_OP_entry_value(rdx) "\\')),
        )
    ),
}


@pytest.mark.parametrize("name", SITES)
def test_documented_keys(name: str) -> None:
    renderer = Renderer(X86_64)
    assert renderer.json(SITES[name]) == documented(renderer, SITES[name])


def test_rows_that_follow_each_other() -> None:
    renderer = Renderer(X86_64)
    for each in [*SITES.values(), *reversed(SITES.values())]:
        assert renderer.json(each) == documented(renderer, each)


HOSTILE = [
    '"',
    "\\",
    "a\nb",
    "\x00\x1f\x7f",
    "</script>",
    "%s{}",
    "äö",
    "\U0001f600",
    "\u2028",
    "\udc80\udcff",
    "",
    "null",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_names(text: str) -> None:
    renderer = Renderer(X86_64)
    type_ = TypeName(text, 4, Encoding.SIGNED, True, 1)
    hostile = site(
        function=text,
        symbol=text,
        section=text,
        return_type=text,
        container=text,
        copy=text,
        module=text,
        call=CallSite(text, 1, 1),
        declared=CallSite(text, 1, 0),
        chain=(InlineFrame(text, None),),
        parameters=(
            Parameter(text, type_, Location.register(0, size=4)),
            Parameter(text, type_, Unavailable(Reason.PARTLY, text)),
        ),
    )
    line = renderer.json(hostile)
    assert line == documented(renderer, hostile)
    assert json.loads(line)["function"] == text


def test_not_a_site() -> None:
    with pytest.raises(TypeError):
        Renderer(X86_64).json("site")  # type: ignore[arg-type]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.kernel
@pytest.mark.usefixtures("no_collector")
def test_every_row_of_a_kernel(kernel_6_1: Kernel) -> None:
    image = open_image(kernel_6_1.vmlinux)
    renderer, rows = Renderer(image.debug.machine), 0
    for each in image.sites():
        assert renderer.json(each) == documented(renderer, each)
        rows += 1
    assert rows > 300_000
