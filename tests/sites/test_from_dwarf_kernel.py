"""Sites of the distribution kernels: their number, and how many have all parameters."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inlinetrace.target import open_image
from tests.sites.oracle import counted_sites

if TYPE_CHECKING:
    from tests.kernels import Kernel

pytestmark = pytest.mark.kernel


def test_every_site_of_the_kernel(distribution_kernel: Kernel) -> None:
    image = open_image(distribution_kernel.vmlinux)
    sites = located = undoubted = 0
    for site in image.sites():
        if not site.inlined:
            continue
        sites += 1
        if all(parameter.available for parameter in site.parameters):
            located += 1
            undoubted += all(parameter.doubt is None for parameter in site.parameters)
    assert sites == counted_sites(distribution_kernel.vmlinux)
    assert located / sites >= 0.79
    assert undoubted / sites >= 0.68


def test_every_site_of_modules_of_all_sizes(distribution_kernel: Kernel) -> None:
    paths = sorted(distribution_kernel.debug_modules.rglob("*.ko*"), key=lambda path: path.stat().st_size)
    assert len(paths) >= 5
    step = max(1, len(paths) // 10)
    chosen: list[Path] = [*paths[::step][:9], paths[-1]]
    for path in chosen:
        records = open_image(path).dwarf.records
        assert sum(part.site_count for part in records) == counted_sites(path), path.name
        built = sum(site.inlined for site in open_image(path).sites())
        assert built == counted_sites(path), path.name


def test_what_is_read_for_a_few_functions_says_the_same_as_everything(
    distribution_kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rnd = random.Random(612)
    whole = open_image(distribution_kernel.vmlinux)
    names = sorted(set(whole.function_names()))
    chosen = ["up", "fls", "get_file", "vfs_llseek", "do_syscall_64", *rnd.sample(names, 60)]
    narrow = [list(open_image(distribution_kernel.vmlinux).sites([name])) for name in chosen]
    # all units are scanned here, and now all code is decoded
    monkeypatch.setattr(whole, "flow_near", lambda spans: None)
    assert [list(whole.sites([name])) for name in chosen] == narrow
    assert sum(map(len, narrow)) > 300
