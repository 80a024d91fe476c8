"""``inlinetrace btf``: its steps, messages, files and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from tests.btf.notation import parse, show
from tests.btf.samples import everything
from tests.elf.elfwriter import Sec, elf_file

TWICE = """
    [1] int int 4
    [2] ptr 1
    [3] int int 4
    [4] ptr 3
"""
ONCE = "[1] int int 4\n[2] ptr 1"


def btf(*arguments: object, code: int = 0) -> tuple[str, str]:
    """Run the command in a process of its own; gives stdout and stderr."""
    command = [sys.executable, "-m", "inlinetrace", "btf", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    path = tmp_path / "twice.btf"
    path.write_bytes(parse(TWICE))
    return path


def test_dedup(twice: Path, tmp_path: Path) -> None:
    out = tmp_path / "once.btf"
    text, messages = btf("dedup", twice, "-o", out)
    assert text == ""
    assert messages == f"inlinetrace: {twice}: 4 types, 2 stay; 85 bytes, 57 after\n"
    assert show(load(str(out))) == ONCE
    assert sorted(os.listdir(tmp_path)) == ["once.btf", "twice.btf"]


def test_the_output_may_be_the_input(twice: Path) -> None:
    btf("dedup", twice, "-o", twice)
    assert show(load(str(twice))) == ONCE


def test_the_output_may_be_a_link_or_a_pipe(twice: Path, tmp_path: Path) -> None:
    place, link = tmp_path / "place.btf", tmp_path / "link.btf"
    place.write_bytes(b"before")
    link.symlink_to(place)
    btf("dedup", twice, "-o", link)
    assert link.is_symlink()
    assert show(load(str(place))) == ONCE
    command = [sys.executable, "-m", "inlinetrace", "btf", "dedup", str(twice), "-o", "/dev/stdout"]
    assert subprocess.run(command, capture_output=True, check=True).stdout == place.read_bytes()


def test_on_a_base(twice: Path, tmp_path: Path) -> None:
    base = Btf(parse(TWICE))
    split, out = tmp_path / "split.btf", tmp_path / "out.btf"
    split.write_bytes(parse("[5] int int 4\n[6] ptr 5\n[7] const 5", base))
    btf("dedup", split, "-B", twice, "-o", out)
    assert show(load(str(out), [str(twice)])) == "[5] const 1"


def test_rules(tmp_path: Path) -> None:
    loop, out = tmp_path / "loop.btf", tmp_path / "out.btf"
    loop.write_bytes(parse("[1] typedef t 2\n[2] ptr 1"))
    btf("dedup", loop, "-o", out)
    _, messages = btf("dedup", loop, "-o", out, "--rules", "1.1", code=1)
    assert messages == (
        f"inlinetrace: {loop}, offset 0x24, type [2]: no declaration can name this type, because it refers to itself "
        "(through type [1])\n"
    )


def test_a_section_of_an_elf_file(tmp_path: Path) -> None:
    elf, out = tmp_path / "module.ko", tmp_path / "out.btf"
    elf.write_bytes(elf_file([Sec(".BTF", parse(TWICE))]))
    btf("dedup", elf, "-o", out)
    assert show(load(str(out))) == ONCE
    _, messages = btf("dedup", elf, "-o", elf, code=2)
    assert messages == f"inlinetrace: {elf} is the ELF file that is read, and what is written is detached BTF\n"
    assert elf.read_bytes()[:4] == b"\x7fELF"


def test_a_base_is_not_overwritten(twice: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.btf"
    split.write_bytes(parse("[5] const 1", Btf(parse(TWICE))))
    before = twice.read_bytes()
    _, messages = btf("dedup", split, "-B", twice, "-o", twice, code=2)
    assert "is a base" in messages
    assert twice.read_bytes() == before


def test_errors(twice: Path, tmp_path: Path) -> None:
    assert btf("dedup", tmp_path / "none", "-o", "out", code=1)[1] == f"inlinetrace: {tmp_path}/none: no such file\n"
    missing = tmp_path / "none/out.btf"
    assert btf("dedup", twice, "-o", missing, code=1)[1] == f"inlinetrace: {missing}: its directory does not exist\n"
    _, messages = btf("dedup", twice, "-o", tmp_path, code=1)
    assert messages == f"inlinetrace: {tmp_path}: is a directory: it cannot be written\n"
    assert btf("dedup", twice, code=2)[1].endswith("the following arguments are required: -o/--output\n")
    assert btf(code=2)[1].endswith("the following arguments are required: STEP\n")
    assert os.listdir(tmp_path) == ["twice.btf"]


def test_location_info_stays_readable(tmp_path: Path) -> None:
    sample, out = tmp_path / "sample.btf", tmp_path / "out.btf"
    sample.write_bytes(everything(layout=True, byte_order="big"))
    btf("dedup", sample, "-o", out)
    assert out.read_bytes() == sample.read_bytes()


def test_help_names_the_steps() -> None:
    assert "dedup" in btf("--help")[0]
    assert "btf__dedup" in btf("dedup", "--help")[0]
