"""Plans for programs, without the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.fields import parse
from inlinetrace.probe.plan import Plan
from inlinetrace.probe.target import plan_image
from inlinetrace.sites.reasons import Mark
from inlinetrace.target import open_image
from inlinetrace.target.image import Image


def plan_program(
    path: Path, functions: Sequence[str] = ("*",), arguments: str | None = None, **options: Any
) -> tuple[Plan, DwarfTypes, Image]:
    """Plan all sites of some functions of a program; every argument unless ``arguments`` names some."""
    image = open_image(str(path))
    types = DwarfTypes(image.dwarf.dies, image.debug.machine)
    sites = [site for site in image.sites(functions) if Mark.TRANSPARENT not in site.marks]
    references = [parse(part) for part in arguments.split(",")] if arguments else []
    plan = plan_image(image, sites, types, references=references, everything=arguments is None, **options)
    return plan, types, image
