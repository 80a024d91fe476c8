"""Line tables of compilers, held against the rows and views that readelf prints."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from inlinetrace.dwarf.frames import FrameTable
from inlinetrace.dwarf.lines import LineRows, LineTable, RowFlag
from inlinetrace.elf.file import ElfFile
from tests.dwarf.test_frames_compiled import COMPILERS, SOURCE, compile_program
from tests.kernels import Kernel

# File name, line ("-" ends a sequence), address, operation, view, is_stmt.
ROW = re.compile(r"^(.*?)\s+(\d+|-)\s+(0x[0-9a-f]+|0)(\[\d+\])?(?:\s+(\d+))?(?:\s+(x))?$")

Row = tuple[str, int, int, int, bool] | int


def readelf_rows(path: Path) -> Iterator[Row]:
    """(file's last part, line, address, view, is_stmt), or the address alone for the end of a sequence."""
    command = ["readelf", "--wide", "--debug-dump=decodedline", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = ROW.match(line.rstrip())
            if found is None:
                continue
            name, number, address, _, view, statement = found.groups()
            if number == "-":
                yield int(address, 16)
            else:
                yield (name.split("/")[-1], int(number), int(address, 16), int(view or 0), statement is not None)


def our_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        elf = ELFFile(file)

        def data(name: str) -> bytes:
            section = elf.get_section_by_name(name)
            return b"" if section is None else section.data()

        table = LineTable(
            data(".debug_line"),
            little_endian=elf.little_endian,
            address_size=elf.elfclass // 8,
            line_str=data(".debug_line_str"),
            strings=data(".debug_str"),
        )
        for program in table.programs():
            rows = LineRows(*program.rows)
            names = {index: (program.file_name(index) or "").split("/")[-1] for index in set(rows.file)}
            for address, view, line, _, number, flags in zip(*rows, strict=True):
                if flags & RowFlag.END_SEQUENCE:
                    yield address
                else:
                    yield (names[number], line, address, view, bool(flags & RowFlag.IS_STMT))


def check(path: Path) -> tuple[int, int]:
    """Compare every row; the number of rows, and of those with a view above 0."""
    count = views = 0
    for ours, theirs in zip(our_rows(path), readelf_rows(path), strict=True):
        assert ours == theirs
        count += 1
        views += isinstance(ours, tuple) and ours[3] > 0
    return count, views


@pytest.mark.compiled
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("options", [["-O2"], ["-O2", "-gdwarf-4", "-ffunction-sections"], ["-O1", "-gdwarf-3"]])
def test_lines_of_a_compiler(tmp_path: Path, compiler: str, options: list[str]) -> None:
    count, views = check(compile_program(tmp_path, compiler, options))
    assert count > 60
    assert (views > 10) == (not compiler.startswith("clang"))


@pytest.mark.compiled
def test_lines_of_the_64_bit_format(tmp_path: Path) -> None:
    count, _ = check(compile_program(tmp_path, "clang-19", ["-O2", "-gdwarf-5", "-gdwarf64"]))
    assert count > 60


@pytest.mark.compiled
@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_positions_agree_with_addr2line(tmp_path: Path, version: str) -> None:
    assert shutil.which("addr2line") is not None
    path = compile_program(tmp_path, "gcc", ["-O2", version])
    with path.open("rb") as file:
        elf = ELFFile(file)
        sections = {name: elf.get_section_by_name(name) for name in (".debug_line", ".debug_line_str", ".debug_str")}
        read = {name: b"" if section is None else section.data() for name, section in sections.items()}
        text = elf.get_section_by_name(".text")
        assert text is not None
        addresses = range(text["sh_addr"], text["sh_addr"] + text["sh_size"])
    table = LineTable(read[".debug_line"], line_str=read[".debug_line_str"], strings=read[".debug_str"])
    (program,) = table.programs()
    asked = "".join(f"{address:#x}\n" for address in addresses)
    command = ["addr2line", "-e", str(path)]
    answer = subprocess.run(command, input=asked, capture_output=True, text=True, check=True).stdout
    for address, line in zip(addresses, answer.splitlines(), strict=True):
        found = program.find(address)
        theirs = line.split(" (discriminator")[0].rsplit(":", 1)[1]
        assert (found[1] if found else None) == (None if theirs == "?" else int(theirs)), hex(address)


@pytest.mark.compiled
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("name", [".eh_frame", ".debug_frame"])
def test_sections_of_an_object(tmp_path: Path, compiler: str, name: str) -> None:
    """Frames and lines of functions that each have a section; addr2line names the lines by offset in the section."""
    source, path = tmp_path / "object.c", tmp_path / "object.o"
    source.write_text(SOURCE)
    options = ["-g", "-O2", "-w", "-fno-builtin", "-ffunction-sections"]
    if name == ".debug_frame":
        options += ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
    subprocess.run([compiler, *options, "-c", str(source), "-o", str(path)], check=True)
    elf = ElfFile.open(path)
    (program,) = LineTable(
        elf.data(".debug_line"), line_str=elf.data(".debug_line_str"), strings=elf.data(".debug_str")
    ).programs()
    unwinding = elf.section(name)
    assert unwinding is not None
    frames = FrameTable(elf.data(name), eh=name == ".eh_frame", section=name, address=unwinding.address)
    checked = 0
    for section in elf.sections:
        if not section.name.startswith(".text.") or not section.size:
            continue
        assert frames.function_range(section.address) == (section.address, section.address + section.size)
        command = ["addr2line", "-e", str(path), "-j", section.name, *(hex(at) for at in range(section.size))]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for address, line in enumerate(answer.splitlines(), section.address):
            found = program.find(address)
            assert found is not None
            theirs = line.split(" (discriminator")[0].rsplit(":", 1)[1]
            assert found[1] == (0 if theirs == "?" else int(theirs))
        checked += 1
    assert checked >= 5


@pytest.mark.kernel
def test_lines_of_a_kernel(distribution_kernel: Kernel) -> None:
    count, views = check(distribution_kernel.vmlinux)
    assert count > 4_000_000
    assert views > 2_000_000
