"""``list`` as a command: what stands on stdout, line by line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from inlinetrace.cli import run

pytestmark = pytest.mark.compiled

SOURCE = """extern int sink(int);
static inline int f(int a) { return sink(a) + a; }
int sink(int x) { __asm__ volatile (""); return x; }
int main(int c, char **v) {
    return f(c);
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "a.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O2", "-fno-ipa-icf", "a.c", "-o", "a"], cwd=tmp_path, check=True)
    return tmp_path / "a"


def test_more_lines_are_indented(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "f", "-x", str(program)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("int f(int a [rdi])")
    assert run(["list", "f", "-x", str(program), "-v"]) == 0
    assert capsys.readouterr().out.splitlines() == [line, "    called at a.c:5:12 in main", "    declared at a.c:2"]


def test_a_name_in_the_dwarf_begins_no_line_of_its_own(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor does it write to the terminal."""
    data = program.read_bytes()
    assert data.count(b"a.c\0")
    program.write_bytes(data.replace(b"a.c\0", b"\n\x1bc\0"))
    assert run(["list", "f", "-x", str(program), "-v"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        r"    called at \n\x1bc:5:12 in main", r"    declared at \n\x1bc:2",
    ]  # fmt: skip
