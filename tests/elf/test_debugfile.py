from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from inlinetrace.elf import ElfFile
from inlinetrace.elf.debugfile import (
    build_id_path,
    find_alternate_file,
    find_debug_file,
    find_program_file,
    has_debug_info,
)
from inlinetrace.errors import MismatchError
from tests.elf.elfwriter import Code, Sec, elf_file
from tests.elf.test_file import NOTE

OTHER_NOTE = NOTE[:-1] + b"\x99"
DWARF = Sec(".debug_info", b"\x01")


def write(path: Path, *sections: Sec) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf_file([Code(".text", b"\xc3"), *sections]))
    return path


def note(contents: bytes = NOTE) -> Sec:
    return Sec(".note.gnu.build-id", contents, type=7, alignment=4)


def test_a_file_with_dwarf_is_its_own(tmp_path: Path) -> None:
    elf = ElfFile.open(write(tmp_path / "a", DWARF))
    assert find_debug_file(elf).file is elf


def test_an_empty_debug_info_is_none(tmp_path: Path) -> None:
    elf = ElfFile.open(write(tmp_path / "a", Sec(".debug_info", type=8, size=100)))
    search = find_debug_file(elf, [str(tmp_path)])
    assert search.file is None
    assert [attempt.outcome for attempt in search.tried] == ["it has no .debug_info"]


def test_by_build_id(tmp_path: Path) -> None:
    root = tmp_path / "debug"
    wanted = write(Path(build_id_path(str(root), b"\x01\x02\x03\x04")), note(), DWARF)
    search = find_debug_file(ElfFile.open(write(tmp_path / "a", note())), [str(tmp_path / "none"), str(root)])
    assert search.file is not None
    assert search.file.path == str(wanted)
    assert [attempt.outcome for attempt in search.tried] == ["it has no .debug_info", "no such file", "found"]


def test_another_build_is_an_error_that_names_both(tmp_path: Path) -> None:
    write(Path(build_id_path(str(tmp_path), b"\x01\x02\x03\x04")), note(OTHER_NOTE), DWARF)
    with pytest.raises(MismatchError, match=r"01020399.*01020304"):
        find_debug_file(ElfFile.open(write(tmp_path / "a", note())), [str(tmp_path)])


@pytest.mark.parametrize("place", ["lib/modules/1.0/kernel/x.ko", "usr/lib/modules/1.0/kernel/x.ko.debug"])
@pytest.mark.parametrize("suffix", ["", ".xz"])
def test_modules(tmp_path: Path, place: str, suffix: str) -> None:
    module = write(tmp_path / "lib/modules/1.0/kernel/x.ko", note())
    if suffix:
        subprocess.run(["xz", module], check=True)
        module = module.with_name("x.ko.xz")
    wanted = write(tmp_path / "debug" / place, note(), DWARF)
    search = find_debug_file(ElfFile.open(module), [str(tmp_path / "debug")])
    assert search.file is not None
    assert search.file.path == str(wanted)


def test_a_module_without_build_ids_is_not_trusted(tmp_path: Path) -> None:
    module = write(tmp_path / "lib/modules/1.0/kernel/x.ko")
    write(tmp_path / "debug/lib/modules/1.0/kernel/x.ko", DWARF)
    with pytest.raises(MismatchError, match="nothing shows that they belong together"):
        find_debug_file(ElfFile.open(module), [str(tmp_path / "debug")])


def test_a_damaged_candidate_is_passed_over(tmp_path: Path) -> None:
    bad = tmp_path / "1" / ".build-id/01/020304.debug"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(b"\x7fELF")
    write(tmp_path / "2" / ".build-id/01/020304.debug", note(), DWARF)
    search = find_debug_file(ElfFile.open(write(tmp_path / "a", note())), [str(tmp_path / "1"), str(tmp_path / "2")])
    assert search.file is not None
    assert search.tried[1].outcome == "not an ELF file"


@pytest.mark.compiled
@pytest.mark.parametrize("build_id", ["sha1", "none"])
@pytest.mark.parametrize("place", [".", ".debug", "root"])
def test_only_keep_debug_pairs(tmp_path: Path, build_id: str, place: str) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }")
    program = tmp_path / "a"
    subprocess.run(["gcc", "-g", f"-Wl,--build-id={build_id}", "-o", program, tmp_path / "a.c"], check=True)
    folder = tmp_path / place if place != "root" else tmp_path / "root" / str(tmp_path.resolve()).lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    debug = folder / "a.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "-g", f"--add-gnu-debuglink={debug}", program], check=True)
    elf = ElfFile.open(program)
    found = find_debug_file(elf, [str(tmp_path / "root")]).file
    assert found is not None
    assert os.path.samefile(found.path, debug)
    assert found.build_id == elf.build_id
    assert len(found.data(".text")) == 0
    assert len(elf.data(".text")) > 0
    if build_id == "none":
        with debug.open("ab") as file:
            file.write(b"x")
        with pytest.raises(MismatchError, match="CRC"):
            find_debug_file(elf, [str(tmp_path / "root")])


@pytest.mark.parametrize(
    ("debug", "program"),
    [
        ("top/usr/lib/debug/lib/modules/1/x.ko", "top/lib/modules/1/x.ko"),
        ("top/usr/lib/debug/lib/modules/1/x.ko.debug", "top/usr/lib/modules/1/x.ko.xz"),
        ("top/usr/lib/debug/usr/bin/x.debug", "top/usr/bin/x"),
        ("top/usr/lib/debug/.build-id/01/020304.debug", "top/usr/lib/.build-id/01/020304"),
        ("x.ko.debug", "x.ko.xz"),
        ("x.debug", "x"),
    ],
)
def test_the_program_of_a_debug_file(tmp_path: Path, debug: str, program: str) -> None:
    bare = tmp_path / debug
    bare.parent.mkdir(parents=True, exist_ok=True)
    bare.write_bytes(elf_file([Sec(".text", type=8, size=1, flags=6), note(), DWARF]))
    assert find_program_file(ElfFile.open(bare)).file is None
    wanted = write(tmp_path / program.removesuffix(".xz"), note(OTHER_NOTE))
    search = find_program_file(ElfFile.open(bare))
    assert search.file is None
    assert "the build id is 01020399" in " ".join(attempt.outcome for attempt in search.tried)
    wanted.write_bytes(elf_file([Code(".text", b"\xc3"), note()]))
    if program.endswith(".xz"):
        subprocess.run(["xz", wanted], check=True)
        wanted = tmp_path / program
    found = find_program_file(ElfFile.open(bare)).file
    assert found is not None
    assert found.path == str(wanted)
    assert find_program_file(found).file is found


@pytest.mark.compiled
def test_dwz_alternate_file(tmp_path: Path) -> None:
    common = "struct s { int a, b, c, d; struct s *next; char name[40]; }; int sum(struct s *s) { return s->a + s->b; }"
    for name in ("a", "b"):
        (tmp_path / f"{name}.c").write_text(common + "int main(void) { return 0; }")
        subprocess.run(["gcc", "-g", "-gdwarf-4", "-Wl,--build-id", "-o", name, f"{name}.c"], cwd=tmp_path, check=True)
    subprocess.run(["dwz", "-m", "common.debug", "-r", "a", "b"], cwd=tmp_path, check=True)
    elf = ElfFile.open(tmp_path / "a")
    assert elf.debug_alt_link is not None
    search = find_alternate_file(elf, [str(tmp_path / "root")])
    assert search.file is not None
    assert search.file.build_id == elf.debug_alt_link[1]
    target = Path(build_id_path(str(tmp_path / "root"), elf.debug_alt_link[1]))
    target.parent.mkdir(parents=True)
    shutil.move(tmp_path / "common.debug", target)
    search = find_alternate_file(elf, [str(tmp_path / "root")])
    assert search.file is not None
    assert search.file.path == str(target)
    assert find_alternate_file(ElfFile.open(target), []).file is None


@pytest.mark.kernel
def test_modules_of_distribution_kernels() -> None:
    kernels = sorted(Path("~/.cache/inlinetrace-dev/kernels").expanduser().iterdir())
    assert kernels
    for kernel in kernels:
        (module,) = kernel.glob("lib/modules/*/kernel/fs/xfs/xfs.ko*")
        elf = ElfFile.open(module)
        search = find_debug_file(elf, [str(kernel / "usr/lib/debug")])
        assert search.file is not None
        assert search.file.build_id == elf.build_id
        assert has_debug_info(search.file)
