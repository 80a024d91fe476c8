"""The file that is traced: whether it is what was read, and who runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import InlineTraceError, NotFoundError
from inlinetrace.probe.traced_file import TracedFile
from inlinetrace.target.host import Host
from tests.target.machine import BUILD_ID, elf

WRITTEN = "written to while it was traced"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(elf(BUILD_ID))
    return path


@pytest.fixture
def file(program: Path) -> Iterator[TracedFile]:
    opened = TracedFile.open(str(program), ElfFile.open(program))
    yield opened
    os.close(opened.descriptor)


def test_what_happens_to_its_names_and_permissions_is_no_change(program: Path, file: TracedFile) -> None:
    file.check()
    program.chmod(0o700)
    file.check()
    os.link(program, program.with_name("link"))
    program.rename(program.with_name("other"))
    file.check()
    assert not file.is_at_its_path()
    program.with_name("other").rename(program)
    assert file.is_at_its_path()
    program.unlink()
    file.check()


@pytest.mark.parametrize("keeps_time", [False, True])
@pytest.mark.parametrize("change", ["code", "longer", "shorter"])
def test_writing_to_it_is_a_change(change: str, keeps_time: bool, program: Path, file: TracedFile) -> None:
    before = program.stat()
    data = program.read_bytes()
    at = data.index(b"\xc3" * 16)
    changed = {"code": data[:at] + b"\x90" + data[at + 1 :], "longer": data + b"x", "shorter": data[:-1]}
    # in place, as cp does it
    program.write_bytes(changed[change])
    if keeps_time:
        os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(InlineTraceError, match=WRITTEN):
        file.check()


def test_a_change_before_it_is_opened(program: Path) -> None:
    read = ElfFile.open(program)
    time = program.stat().st_mtime_ns
    program.write_bytes(program.read_bytes())
    os.utime(program, ns=(time, time + 1))
    with pytest.raises(InlineTraceError, match="replaced or changed while it was read"):
        TracedFile.open(str(program), read)
    program.unlink()
    with pytest.raises(NotFoundError):
        TracedFile.open(str(program), read)


def test_another_file_with_the_same_code_is_as_good(program: Path) -> None:
    read = ElfFile.open(program)
    copy = program.with_name("copy")
    copy.write_bytes(program.read_bytes())
    copy.rename(program)
    os.close(TracedFile.open(str(program), read).descriptor)


def test_who_runs_it(program: Path, file: TracedFile, tmp_path: Path) -> None:
    host = Host(tmp_path)

    def process(pid: int, exe: Path, *names: str) -> None:
        folder = tmp_path / "proc" / str(pid)
        (folder / "map_files").mkdir(parents=True)
        (folder / "exe").symlink_to(exe)
        lines = ["7f00-7f01 rw-p 00000000 00:00 0 ", "7f01-7f02 r-xp 00000000 00:00 0 [vdso]"]
        for number, name in enumerate(names):
            lines.append(f"{number}000-{number}fff r-xp 00001000 fe:01 12   {name}")
            if os.path.exists(name):
                (folder / "map_files" / f"{number}000-{number}fff").symlink_to(name)
        (folder / "maps").write_text("\n".join(lines) + "\n")

    other = tmp_path / "an other"
    other.write_bytes(b"x")
    process(1, program, str(program))
    process(2, other, str(other), str(program))
    process(3, other, str(other))
    process(4, other, f"{program} (deleted)")
    assert [file.runs_in(host, pid) for pid in range(1, 6)] == [True, True, False, False, False]
    assert file.other_in(host, 3) == f"runs {other} and does not use this file"
    assert "older file of this name" in file.other_in(host, 4)
    assert file.other_in(host, 5) == "runs no program"
