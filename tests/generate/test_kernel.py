"""The BTF of distribution kernels and their modules, held against pahole's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.generate.base import Base
from inlinetrace.generate.features import Features
from inlinetrace.generate.types import types_from_dwarf
from tests.generate.graphs import differences

if TYPE_CHECKING:
    from tests.kernels import Kernel

pytestmark = pytest.mark.kernel

LIKE_OLD_PAHOLE = Features(optimized_func=False, consistent_func=False, decl_tag_kfuncs=False)


def pahole(program: Path, result: Path, base: Path | None = None) -> Btf:
    """What pahole makes of ``program``, written to ``result``."""
    options = [] if base is None else [f"--btf_base={base}"]
    subprocess.run(
        ["pahole", "-J", "--btf_gen_floats", *options, f"--btf_encode_detached={result}", program], check=True
    )
    return Btf(result.read_bytes(), None if base is None else Btf(base.read_bytes()))


def test_kernel_and_modules(distribution_kernel: Kernel, tmp_path: Path) -> None:
    """All types are pahole's; so are the names of functions, and all prototypes but those of ambiguous names.

    pahole takes the first entry of a name, even one that was inlined everywhere; ours has code.
    """
    base_file = tmp_path / "vmlinux.btf"
    theirs = pahole(distribution_kernel.vmlinux, base_file)
    types = types_from_dwarf(DebugInfo(ElfFile.open(distribution_kernel.vmlinux)), features=LIKE_OLD_PAHOLE)
    result = Btf(types.encode())
    assert validate(result, strict=True) == []
    left, right = differences(result, theirs)
    assert {Kind(result.kind(id_)) for id_ in left} <= {Kind.FUNC, Kind.FUNC_PROTO, Kind.VAR, Kind.DATASEC}
    assert {Kind(theirs.kind(id_)) for id_ in right} <= {Kind.FUNC, Kind.FUNC_PROTO, Kind.DATASEC}
    functions = {result.name(id_) for id_ in left if result.kind(id_) == Kind.FUNC}
    assert functions == {theirs.name(id_) for id_ in right if theirs.kind(id_) == Kind.FUNC}
    assert len(functions) < 0.011 * len(result.of_kind(Kind.FUNC))
    # the variable at address 0 of its section, which pahole 1.24 passes over
    assert [result.name(id_) for id_ in left if result.kind(id_) == Kind.VAR] == ["fixed_percpu_data"]
    assert len(types.encode()) <= len(theirs.data) + 12 * 4

    paths = sorted(distribution_kernel.debug_modules.rglob("*.ko*"), key=lambda path: path.stat().st_size)
    base = Base(theirs, many=True)
    for path in (paths[len(paths) // 3], paths[2 * len(paths) // 3], paths[len(paths) * 29 // 30]):
        copy = Path(shutil.copy(path, tmp_path / path.name))
        module_theirs = pahole(copy, tmp_path / "module.btf", base_file)
        debug = DebugInfo(ElfFile.open(path))
        module = Btf(types_from_dwarf(debug, features=LIKE_OLD_PAHOLE, base=base).encode(), theirs)
        assert validate(module, strict=True) == [], path.name
        left, right = differences(module, module_theirs)
        assert {Kind(module.kind(id_)) for id_ in left} <= {Kind.FUNC, Kind.FUNC_PROTO, Kind.PTR}, path.name
        assert module.end_id <= module_theirs.end_id + len(left), path.name


def test_the_bytes_do_not_depend_on_the_number_of_threads(kernel_6_1: Kernel) -> None:
    debug = DebugInfo(ElfFile.open(kernel_6_1.vmlinux))
    one = types_from_dwarf(debug, threads=1).encode()
    assert types_from_dwarf(debug, threads=3).encode() == one
