"""Location info of the distribution kernels: equal to a listing, site by site, and small."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.generate.pipeline import Settings, Wanted, generate
from inlinetrace.sites.from_btf import BtfSites, ElfSurroundings
from inlinetrace.sites.model import Site
from inlinetrace.sites.reasons import Reason, Unavailable
from inlinetrace.target import open_image
from tests.generate.ordinary import differences, kept_sites

if TYPE_CHECKING:
    from tests.kernels import Kernel

pytestmark = pytest.mark.kernel

LARGEST_SITE = 18.0
"""Bytes of LOC_PARAM, LOC_PROTO and LOCSEC for each site."""


def test_every_site_is_that_of_a_listing(distribution_kernel: Kernel) -> None:
    assert differences(open_image(distribution_kernel.vmlinux)) == []


def test_modules_of_all_sizes(distribution_kernel: Kernel) -> None:
    paths = sorted(distribution_kernel.debug_modules.rglob("*.ko*"), key=lambda path: path.stat().st_size)
    for path in [*paths[:: max(1, len(paths) // 8)][:8], paths[-1]]:
        for dialect in (Dialect.NEW, Dialect.RFC):
            assert differences(open_image(path), dialect=dialect) == [], path.name


def _prototype(site: Site, address: int) -> object:
    parameters = tuple((parameter.name, parameter.type.text, parameter.type.size) for parameter in site.parameters)
    return site.function, address, site.section, site.symbol, site.return_type, parameters, site.variadic


def test_the_whole_kernel_read_back(distribution_kernel: Kernel, capsys: pytest.CaptureFixture[str]) -> None:
    image = open_image(distribution_kernel.vmlinux)
    made = generate(image)
    assert made.base is not None
    assert made.inline is not None
    assert made.report is not None
    main = Btf(made.base)
    inline = Btf(made.inline, main)
    assert validate(inline, strict=True) == []
    first = min(inline.of_kind(Kind.LOC_PARAM))
    locations = len(made.inline) - (inline.index.offset(first) - inline.header.type_at) - inline.header.string_len
    with capsys.disabled():
        print(
            f"\n{distribution_kernel.series}: {made.report.sites} sites, {locations / made.report.sites:.1f} bytes of "
            f"location info a site, {len(made.inline) / made.report.sites:.1f} with names and prototypes"
        )
    assert locations / made.report.sites <= LARGEST_SITE
    reader = BtfSites(inline, image.machine, surroundings=ElfSurroundings(image.program))
    missing: Counter[Reason] = Counter()
    located = 0
    places: Counter[object] = Counter()
    for site in reader.build(reader.select(["*"])):
        places[_prototype(site, site.address)] += 1
        for parameter in site.parameters:
            if isinstance(parameter.location, Unavailable):
                missing[parameter.location.reason] += 1
            else:
                located += 1
    assert located == made.report.located
    assert missing == {Reason.NO_FORM: made.report.parameters - located}
    from_dwarf = Counter(_prototype(site, address) for address, _, site in kept_sites(image))
    assert places - from_dwarf == Counter()
    assert from_dwarf - places == Counter()


def test_on_the_kernels_own_types(distribution_kernel: Kernel) -> None:
    """The BTF that the kernel was built with takes the FUNCs; sites and locations are the same."""
    own = load(str(distribution_kernel.vmlinux), section=".BTF")
    made = generate(open_image(distribution_kernel.vmlinux), Settings(Wanted.INLINE), base=own)
    assert made.base is None
    assert made.inline is not None
    inline = Btf(made.inline, own)
    assert validate(inline, strict=True) == []
    reader = BtfSites(inline, open_image(distribution_kernel.vmlinux).machine)
    rows = reader.select(["*"])
    assert made.report is not None
    assert len(rows) == made.report.sites
    partly = sum(row.function < inline.start_id for row in rows)
    assert 0.01 < partly / len(rows) < 0.95
