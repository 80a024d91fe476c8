"""Naming the input: what the options open, and what is said about it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from inlinetrace.cli import run
from inlinetrace.cli.inputs import Progress, add_input_arguments, open_input
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.errors import NotFoundError, UsageError
from inlinetrace.target.image import Image
from tests.dwarf.writer import Address, Unit, die, make_program
from tests.target.machine import BUILD_ID, LINKED_AT, RELEASE, Machine, elf

VMLINUX = f"/usr/lib/debug/boot/vmlinux-{RELEASE}"
MODULE = f"/lib/modules/{RELEASE}/kernel/net/my-mod.ko"
TEXT = 0xFFFFFFFFC0301000


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    # The small files here have no DWARF that could be read.
    monkeypatch.setattr(Image, "warnings", lambda image: image.notices)
    machine = Machine(tmp_path)
    machine.kernel(stext=LINKED_AT + 0x1000000)
    machine.write(VMLINUX, elf(BUILD_ID))
    machine.write(MODULE, elf(BUILD_ID, relocatable=True))
    machine.module("my_mod", text=TEXT)
    return machine


def opened(machine: Machine, *arguments: str) -> Image:
    parser = argparse.ArgumentParser()
    parser.add_argument("-v", "--verbose", action="store_true")
    add_input_arguments(parser)
    return open_input(parser.parse_args(arguments), machine.host)


def test_the_running_kernel_is_the_default(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    image = opened(machine)
    assert image.path == str(machine.path(VMLINUX))
    assert image.known_as(LINKED_AT) == LINKED_AT + 0x1000000
    assert capsys.readouterr() == ("", "")


def test_a_module_by_name(machine: Machine) -> None:
    image = opened(machine, "-m", "my-mod")
    text = image.program.section(".text")
    assert text is not None
    assert image.known_as(text.address) == TEXT
    assert image.module == "my_mod"


def test_files_have_the_addresses_of_the_file(machine: Machine) -> None:
    assert opened(machine, "-k", str(machine.path(VMLINUX))).known_as(LINKED_AT) == LINKED_AT
    image = opened(machine, "-m", str(machine.path(MODULE)))
    assert image.module == "my_mod"
    assert image.loaded is None


def test_loaded_gives_files_the_run_time_addresses(machine: Machine) -> None:
    image = opened(machine, "-k", str(machine.path(VMLINUX)), "--loaded")
    assert image.known_as(LINKED_AT) == LINKED_AT + 0x1000000
    assert opened(machine, "-m", str(machine.path(MODULE)), "--loaded").loaded is not None


@pytest.mark.parametrize("arguments", [["--loaded"], ["-m", "my_mod", "--loaded"], ["-x", "/bin/true", "--loaded"]])
def test_loaded_needs_a_file_of_the_kernel(machine: Machine, arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="-k FILE or -m FILE"):
        opened(machine, *arguments)


def test_verbose_shows_every_place_as_it_is_tried(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.path(VMLINUX).unlink()
    with pytest.raises(NotFoundError):
        opened(machine, "-v")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"inlinetrace: {VMLINUX}: no such file"
    assert len(lines) == 10


def test_verbose_shows_the_file_that_was_named(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(machine.path(VMLINUX))
    opened(machine, "-v", "-k", path)
    assert f"inlinetrace: {path}: found\n" in capsys.readouterr().err


def test_a_notice_for_hidden_addresses(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.kernel(stext=0)
    machine.write("/proc/sys/kernel/kptr_restrict", "2\n")
    opened(machine)
    assert "kernel.kptr_restrict is 2" in capsys.readouterr().err


def test_progress_is_one_line_that_goes(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.end()
    assert capsys.readouterr().err == ""
    progress("x" * 500)
    progress.end()
    text = capsys.readouterr().err
    assert "\n" not in text
    assert text.endswith("\r\x1b[K")
    assert text.count("x") < 500


def test_near_names_are_not_looked_for_where_that_takes_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    callee = die("subprogram", name="callee_one", low_pc=Address(0x1000), high_pc=0x100)
    path = tmp_path / "program"
    path.write_bytes(make_program([Unit(die("compile_unit", callee, name="a.c", language=0x1D))]))
    program = str(path)
    assert run(["list", "callee_on", "-x", program]) == 1
    assert "no function callee_on" in (said := capsys.readouterr().err)
    assert "near: callee_one" in said
    monkeypatch.setattr(DebugInfo, "bytes_to_scan", lambda self, names: 1 << 60 if names is None else 1)
    assert run(["list", "callee_on", "-x", program]) == 1
    assert "near:" not in capsys.readouterr().err
    assert run(["list", "callee_o*", "-x", program]) == 1
    assert "reading its DWARF takes about" in capsys.readouterr().err
    assert run(["list", "callee_one", "-x", program]) == 0
