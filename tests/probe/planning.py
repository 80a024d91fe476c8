"""Plans for programs, without the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inlinetrace.probe.fetch import Place
from inlinetrace.probe.fields import parse
from inlinetrace.probe.plan import Plan, make_plan
from inlinetrace.probe.refusals import program_check
from inlinetrace.probe.types import Types
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Mark
from inlinetrace.target import open_image
from inlinetrace.target.image import Image


def program_place(image: Image, site: Site) -> Place:
    """The surroundings of a site in a user program."""
    offset = image.program.file_offset(site.address) or 0

    def fixed(address: int, relocated: bool) -> str:
        return f"@+{offset + address - site.address}" if relocated else f"@{address:#x}"

    return Place(image.debug.machine, fixed)


def plan_program(
    path: Path, functions: Sequence[str] = ("*",), arguments: str | None = None, **options: Any
) -> tuple[Plan, Types, Image]:
    """Plan all sites of some functions of a program; every argument unless ``arguments`` names some."""
    image = open_image(str(path))
    types = Types(image.dwarf.dies, image.debug.machine)
    sites = [site for site in image.sites(functions) if Mark.TRANSPARENT not in site.marks]
    plan = make_plan(
        sites,
        [parse(part) for part in arguments.split(",")] if arguments else None,
        target=str(path),
        kernel=False,
        types=types,
        place=lambda site: program_place(image, site),
        offset=image.program.file_offset,
        check=program_check(image),
        everything=arguments is None,
        **options,
    )
    return plan, types, image
