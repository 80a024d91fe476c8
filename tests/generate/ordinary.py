"""What location info has to hold, by the ordinary way: Sites as a listing makes them, one by one, and their forms.

Slow and plain; the compiled path has to give exactly the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from inlinetrace.btf.kinds import Dialect
from inlinetrace.generate.forms import Form, form_of
from inlinetrace.generate.locations import LocationSettings, answer, collect, counts
from inlinetrace.generate.pipeline import image_base
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Mark, Unavailable
from inlinetrace.target.image import Image

Row = tuple[int, int, list[Form | None]]


@dataclass
class Expected:
    """Rows as ``Collected.rows`` has them, and the counts."""

    rows: list[Row] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    doubts: Counter[str] = field(default_factory=Counter)


def kept_sites(image: Image) -> Iterator[tuple[int, int, Site]]:
    """(address in the file, offset of the origin, Site) of every inlined site that is not transparent."""
    selected = image.select(["*"]).rows
    records = image.dwarf.records
    entries = [
        (number, records[number].site(id_))
        for number, id_, inlined in selected
        if inlined and records[number].site(id_).has_address
    ]
    sites = (site for site in image.reader.build(selected) if site.inlined)
    for (_, entry), site in zip(entries, sites, strict=True):
        if Mark.TRANSPARENT not in site.marks:
            yield entry.address, entry.origin, site


def expected(image: Image, settings: LocationSettings) -> Expected:
    """The sites of ``image`` with the forms of their parameters."""
    result = Expected()
    base = image_base(image)
    for address, origin, site in kept_sites(image):
        forms: list[Form | None] = []
        for parameter in site.parameters:
            form = None
            if isinstance(parameter.location, Unavailable):
                result.reasons[parameter.location.reason.value] += 1
            else:
                assert isinstance(parameter.location, Location)
                form = form_of(parameter.location, settings.dialect, signed=parameter.type.signed, image_base=base)
                if form is None:
                    result.reasons["no-form"] += 1
                elif parameter.doubt is not None:
                    result.doubts[parameter.doubt.value] += 1
                    form = form if settings.doubtful else None
            forms.append(form)
        if site.variadic:
            forms.append(None)
        result.rows.append((address, origin, forms))
    return result


def differences(image: Image, *, dialect: Dialect = Dialect.NEW, doubtful: bool = False, jobs: int = 2) -> list[str]:
    """What the compiled path gives otherwise than the ordinary one; at most 20 lines."""
    settings = LocationSettings(dialect, doubtful=doubtful)
    parts = collect(image.dwarf, image, settings, image_base=image_base(image), jobs=jobs)
    answer(parts, image, doubtful)
    rows = [(address, origin & (1 << 44) - 1, forms) for part in parts for address, origin, forms in part.rows()]
    wanted = expected(image, settings)
    found = []
    if len(rows) != len(wanted.rows):
        found.append(f"{len(rows)} sites instead of {len(wanted.rows)}")
    for row, other in zip(rows, wanted.rows, strict=False):
        if row != other:
            found.append(f"{row} is {other}")
    for got, right in zip(counts(parts), (wanted.reasons, wanted.doubts), strict=True):
        if got != right:
            found.append(f"counted {got - right}, not {right - got}")
    return found[:20]
