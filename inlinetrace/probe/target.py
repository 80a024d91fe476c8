"""Plans for a user program and for a kernel image: where their probes go and how their fixed addresses are named.

>>> image = open_image("./program")
>>> types = Types(image.dwarf.dies, image.debug.machine)
>>> plan = plan_image(image, image.sites(["push"]), types, everything=True)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from inlinetrace.errors import NotFoundError
from inlinetrace.probe.fetch import Place
from inlinetrace.probe.plan import Plan, make_plan
from inlinetrace.probe.refusals import kernel_check, program_check

if TYPE_CHECKING:
    from inlinetrace.probe.fields import Reference
    from inlinetrace.probe.types import Types
    from inlinetrace.sites.model import Site
    from inlinetrace.target.image import Image

ANCHOR = "_stext"
"""The symbol that addresses in a kernel are counted from: it needs neither kallsyms nor the KASLR offset."""


def plan_image(
    image: Image,
    sites: Iterable[Site],
    types: Types,
    *,
    kernel: bool = False,
    references: Sequence[Reference] = (),
    everything: bool = False,
    hidden: Sequence[Reference] = (),
    strings: bool = False,
    doubtful: bool = False,
    maximum_probes: int | None = None,
    guarded: bool = True,
) -> Plan:
    """Plan uprobes in a program, or kprobes in the kernel that ``image`` is the file of; see make_plan.

    ``guarded``: reads of memory have to be proved (tracefs), see Place.
    """
    program = image.program
    anchor = _anchor(image) if kernel else 0
    # Probes are placed relative to the anchor, whether the run-time addresses are known or hidden.
    bias = image.load_bias or 0
    if bias:
        sites = (site._replace(address=site.address - bias) for site in sites)
    return make_plan(
        sites,
        references,
        target=ANCHOR if kernel else os.path.abspath(program.path),
        kernel=kernel,
        types=types,
        place=_kernel_place(image, anchor, guarded) if kernel else _program_place(image, guarded),
        offset=(lambda address: address - anchor) if kernel else program.file_offset,
        check=kernel_check(image) if kernel else program_check(image),
        strings=strings,
        doubtful=doubtful,
        everything=everything,
        hidden=hidden,
        maximum_probes=maximum_probes,
    )


def _anchor(image: Image) -> int:
    for symbol in image.debug.symbols().functions():
        if symbol.name == ANCHOR:
            return symbol.address
    raise NotFoundError(f"no symbol {ANCHOR}: this is no kernel image", path=image.path)


def _program_place(image: Image, guarded: bool) -> Callable[[Site], Place]:
    def place(site: Site) -> Place:
        offset = image.program.file_offset(site.address) or 0

        def fixed(address: int, relocated: bool) -> str:
            # The kernel adds an offset in the file to where the site's own mapping starts: any distance will do.
            return f"@+{offset + address - site.address}" if relocated else f"@{address:#x}"

        return Place(image.debug.machine, fixed, guarded)

    return place


def _kernel_place(image: Image, anchor: int, guarded: bool) -> Callable[[Site], Place]:
    def fixed(address: int, relocated: bool) -> str:
        return f"@{ANCHOR}{address - anchor:+d}" if relocated else f"@{address:#x}"

    place = Place(image.debug.machine, fixed, guarded)
    return lambda site: place
