"""Deduplication of what distribution kernels have, beside libbpf: equal, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from inlinetrace.btf.dedup import Rules, dedup
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from tests.btf import libbpf
from tests.btf.conftest import modules_of
from tests.btf.undeduplicated import undeduplicated
from tests.kernels import SERIES, kernel

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize("series", SERIES)
def test_kernels_after_each_other(series: str) -> None:
    one = bytes(load(str(kernel(series).vmlinux)).data)
    three = Btf(libbpf.appended([one] * 3))
    expected = libbpf.dedup(bytes(three.data))
    result = dedup(three)
    assert result.data == expected
    assert dedup(three, rules=Rules.LIBBPF_1_1).data == expected
    counts = Btf(one).index.count_kinds()
    assert result.kept == sum(counts.values()) + 2 * (counts[Kind.VAR] + counts[Kind.DATASEC])


def test_both_kernels_in_one() -> None:
    both = Btf(libbpf.appended([bytes(load(str(kernel(series).vmlinux)).data) for series in SERIES]))
    expected = libbpf.dedup(bytes(both.data))
    assert dedup(both, rules=Rules.LIBBPF_1_1).data == expected
    newest = dedup(both)
    assert newest.kept <= Btf(expected).end_id - 1
    assert dedup(Btf(newest.data)).kept <= newest.kept


@pytest.mark.parametrize("series", SERIES)
def test_units_of_modules_on_the_kernel(series: str, tmp_path: Path) -> None:
    vmlinux = kernel(series).vmlinux
    base = load(str(vmlinux))
    base_file = tmp_path / "vmlinux.btf"
    base_file.write_bytes(base.data)
    for number, module in enumerate(modules_of(vmlinux, 6)):
        units = Btf(undeduplicated(module, tmp_path / f"{number}.btf", base_file).read_bytes(), base)
        expected = libbpf.dedup(bytes(units.data), bytes(base.data))
        assert dedup(units, rules=Rules.LIBBPF_1_1).data == expected, module
        result = dedup(units)
        assert result.data == expected, module
        assert result.kept < (units.end_id - units.start_id) / 2


def test_units_of_a_module_alone(tmp_path: Path) -> None:
    module = max(modules_of(kernel("6.1").vmlinux, 40), key=lambda path: path.stat().st_size)
    units = Btf(undeduplicated(module, tmp_path / "units.btf").read_bytes())
    result = dedup(units)
    assert result.data == libbpf.dedup(bytes(units.data))
    assert result.kept < (units.end_id - 1) / 2
