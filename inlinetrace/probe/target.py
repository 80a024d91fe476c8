"""Plans for a user program and for a kernel image: where their probes go and how their fixed addresses are named.

>>> image = open_image("./program")
>>> types = DwarfTypes(image.dwarf.dies, image.debug.machine)
>>> plan = plan_image(image, image.sites(["push"]), types, everything=True)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from inlinetrace.probe.fetch import Place
from inlinetrace.probe.placement import KernelPlacement, ModulePlacement, Placement, RunningPlacement, settle
from inlinetrace.probe.plan import Plan, make_plan
from inlinetrace.probe.refusals import kernel_check, program_check, running_check
from inlinetrace.target.btf_image import BtfImage
from inlinetrace.target.host import Host

if TYPE_CHECKING:
    from inlinetrace.probe.fields import Reference
    from inlinetrace.probe.types import Types
    from inlinetrace.sites.model import Site
    from inlinetrace.target.image import Image


def plan_image(
    image: Image | BtfImage,
    sites: Iterable[Site],
    types: Types,
    *,
    kernel: bool = False,
    host: Host | None = None,
    references: Sequence[Reference] = (),
    everything: bool = False,
    hidden: Sequence[Reference] = (),
    strings: bool = False,
    doubtful: bool = False,
    maximum_probes: int | None = None,
    guarded: bool = True,
) -> Plan:
    """Plan uprobes in a program, or kprobes in the kernel or module that ``image`` is the file of; see make_plan.

    A BtfImage stands for what runs and has location info, but no file.

    ``host`` is the machine that runs the kernel: its own blacklist is looked at. ``guarded``: reads of memory have to
    be proved (tracefs), see Place.
    """
    if not kernel:
        assert not isinstance(image, BtfImage)
        program = image.program
        return make_plan(
            sites,
            references,
            target=os.path.abspath(program.path),
            kernel=False,
            types=types,
            place=_program_place(image, guarded),
            offset=program.file_offset,
            check=program_check(image),
            strings=strings,
            doubtful=doubtful,
            everything=everything,
            hidden=hidden,
            maximum_probes=maximum_probes,
        )
    if isinstance(image, BtfImage):
        placement: Placement = RunningPlacement(image)
        check, module = running_check(image, host or Host()), image.reader.module
    else:
        where = KernelPlacement(image) if image.module is None else ModulePlacement(image, image.module)
        placement, check, module = where, kernel_check(image, host, where.text), image.module

    def place(site: Site) -> Place:
        return placement.place(site)._replace(guarded=guarded)

    return make_plan(
        [settle(placement.in_file(site), placement) for site in sites],
        references,
        target=placement.target,
        kernel=True,
        types=types,
        place=place,
        offset=placement.offset,
        check=check,
        anchor=placement.anchor,
        shift=placement.shift,
        moved=placement.moved,
        module=module,
        strings=strings,
        doubtful=doubtful,
        everything=everything,
        hidden=hidden,
        maximum_probes=maximum_probes,
    )


def _program_place(image: Image, guarded: bool) -> Callable[[Site], Place]:
    def place(site: Site) -> Place:
        offset = image.program.file_offset(site.address) or 0

        def fixed(address: int, relocated: bool) -> str:
            # The kernel adds an offset in the file to where the site's own mapping starts: any distance will do.
            return f"@+{offset + address - site.address}" if relocated else f"@{address:#x}"

        return Place(image.debug.machine, fixed, guarded, in_kernel=False)

    return place
