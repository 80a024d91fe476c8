"""Copies of ELF files with sections added, held against readelf and objcopy."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from inlinetrace.elf.embed import write_with_sections
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import FormatError
from tests.elf.elfwriter import Code, Sec, Sym, elf_file

ADDED = {".BTF": b"types" * 7, ".BTF.inline": b"sites" * 3}


def embedded(data: bytes, sections: dict[str, bytes], path: Path) -> ElfFile:
    with path.open("wb") as out:
        write_with_sections(ElfFile.from_bytes(data), sections, out)
    return ElfFile.open(path)


@pytest.mark.parametrize("little", [True, False])
@pytest.mark.parametrize("bits", [32, 64])
def test_everything_else_stays(little: bool, bits: int, tmp_path: Path) -> None:
    data = elf_file(
        [Code(".text", b"\x90" * 16, 0x1000), Sec(".note", b"note")],
        symbols=[Sym("main", 0x1000, 16, ".text")], little=little, bits=bits, machine=62 if bits == 64 else 3,
    )  # fmt: skip
    before = ElfFile.from_bytes(data)
    after = embedded(data, ADDED, tmp_path / "new")
    assert bytes(after.image[64 : len(data)]) == data[64:]
    for section in before.sections:
        same = after.sections[section.index]
        names = (section.name, section.type, section.flags, section.address, section.link, section.info)
        assert names == (same.name, same.type, same.flags, same.address, same.link, same.info)
        if section.name != ".shstrtab":
            assert (section.offset, section.size) == (same.offset, same.size)
            assert bytes(before.raw_data(section)) == bytes(after.raw_data(same))
    for name, contents in ADDED.items():
        assert bytes(after.data(name)) == contents
    assert [symbol.name for symbol in after.symbols().named("main")] == ["main"]


def test_a_section_of_that_name_is_replaced(tmp_path: Path) -> None:
    data = elf_file([Code(".text", b"\x90", 0x1000), Sec(".BTF", b"old", flags=2, address=0x2000)])
    after = embedded(data, ADDED, tmp_path / "new")
    assert len(after.sections_named(".BTF")) == 1
    section = after.section(".BTF")
    assert section is not None
    assert (section.allocated, section.address) == (False, 0)
    assert bytes(after.data(".BTF")) == ADDED[".BTF"]


def test_a_file_without_section_names_is_refused(tmp_path: Path) -> None:
    data = bytearray(elf_file([Code(".text", b"\x90", 0x1000)]))
    data[60:64] = bytes(4)
    with pytest.raises(FormatError, match="section names"):
        embedded(bytes(data), ADDED, tmp_path / "new")


@pytest.mark.compiled
@pytest.mark.parametrize("link", [True, False])
def test_other_tools_read_the_copy(link: bool, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int main(int count, char **names) { return count + 41; }")
    flags = [] if link else ["-c"]
    subprocess.run(["gcc", "-g", *flags, "a.c", "-o", "a"], cwd=tmp_path, check=True)
    path = tmp_path / "new"
    embedded((tmp_path / "a").read_bytes(), ADDED, path)
    path.chmod(0o755)
    done = subprocess.run(["readelf", "-aW", path], capture_output=True, text=True, check=True)
    assert not re.search(r"[Ww]arning|[Ee]rror", done.stderr)
    assert {".BTF", ".BTF.inline"} <= set(done.stdout.split())
    dumped = tmp_path / "dumped"
    subprocess.run(["objcopy", "--dump-section", f".BTF.inline={dumped}", path, "/dev/null"], check=True)
    assert dumped.read_bytes() == ADDED[".BTF.inline"]
    stripped = tmp_path / "stripped"
    subprocess.run(["objcopy", "-R", ".BTF", "-R", ".BTF.inline", path, stripped], check=True)
    plain = tmp_path / "plain"
    subprocess.run(["objcopy", tmp_path / "a", plain], check=True)
    assert stripped.read_bytes() == plain.read_bytes()
    if link:
        assert subprocess.run([path], check=False).returncode == 42


@pytest.mark.compiled
def test_more_sections_than_the_header_can_count(tmp_path: Path) -> None:
    lines = "".join(f'.section .s{i},"a"\n.byte 1\n' for i in range(65300))
    (tmp_path / "a.s").write_text(lines)
    subprocess.run(["as", "a.s", "-o", "a.o"], cwd=tmp_path, check=True)
    after = embedded((tmp_path / "a.o").read_bytes(), ADDED, tmp_path / "new")
    assert len(after.sections) > 0xFF00
    assert bytes(after.data(".BTF.inline")) == ADDED[".BTF.inline"]
    done = subprocess.run(["readelf", "-SW", tmp_path / "new"], capture_output=True, text=True, check=True)
    assert ".BTF.inline" in done.stdout
    assert not done.stderr
