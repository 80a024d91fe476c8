"""``list`` on location info in BTF: detached, split from a base, with and without a symbol table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from inlinetrace.btf._types import InlineSite
from inlinetrace.btf.builder import Builder
from inlinetrace.cli import run
from inlinetrace.cli.render import Renderer
from inlinetrace.elf.machine import X86_64
from inlinetrace.sites.model import Site
from tests.btf import examples
from tests.elf.elfwriter import Code, Sym, elf_file


@pytest.fixture
def newest(tmp_path: Path) -> str:
    path = tmp_path / "vmlinux.inline"
    path.write_bytes(examples.NEW_OBJECT)
    return str(path)


@pytest.fixture
def vmlinux(tmp_path: Path) -> str:
    path = tmp_path / "vmlinux"
    symbols = [
        Sym("caller", 0xFFFFFFFF81000030, 0x40, ".text"),
        Sym("add", 0xFFFFFFFF81000000, 0x10, ".text"),
    ]
    path.write_bytes(elf_file([Code(".text", bytes(0x100), address=0xFFFFFFFF81000000)], symbols=symbols))
    return str(path)


def test_a_detached_object_has_offsets(newest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "add", "--btf", newest]) == 0
    out, err = capsys.readouterr()
    assert out == "0x40 [.text +0x40] int add(int a [rdi], int b [const -1])\n"
    assert "add: 0 out of line, 1 inlined at 1 addresses, 2 of 2 arguments available" in err
    assert "without a symbol table" in err


def test_json_names_the_source(newest: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "*", "--json", "--btf", newest]) == 0
    site = json.loads(capsys.readouterr().out)
    assert (site["function"], site["source"], site["call"], site["symbol"]) == ("add", "btf", None, None)
    assert (site["address"], site["address_kind"], site["section"]) == ("0x40", "section-offset", ".text")


def test_a_symbol_table_gives_addresses_callers_and_copies(
    newest: str, vmlinux: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", "add", "--btf", newest, "-k", vmlinux]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0xffffffff81000000 [add+0x0, .text +0x0] int add(int a [unavailable: no-form], int b [unavailable: no-form]) "
        "(out of line)",
        "0xffffffff81000040 [caller+0x10, .text +0x40] int add(int a [rdi], int b [const -1])",
    ]
    assert run(["list", "--inside", "caller", "--btf", newest, "-k", vmlinux]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_program_of_another_build_is_refused(newest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``mov $0x11223344, %eax`` over and over: at 0x40 is the last byte of one."""
    other = tmp_path / "other"
    symbols = [Sym("caller", 0xFFFFFFFF81000000, 0x100, ".text")]
    code = bytes.fromhex("b844332211") * 51 + b"\xc3"
    other.write_bytes(elf_file([Code(".text", code, address=0xFFFFFFFF81000000)], symbols=symbols))
    assert run(["list", "add", "--btf", newest, "-k", str(other)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"1 of 1 sites are not where an instruction of {other} begins: it is of another build" in err
    assert err.count("\n") == 1


def test_a_split_object_needs_its_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, inline = tmp_path / "vmlinux.btf", tmp_path / "vmlinux.inline"
    base.write_bytes(examples.SPLIT_MAIN)
    inline.write_bytes(examples.SPLIT_INLINE)
    assert run(["list", "*", "--btf", str(inline), "-B", str(base)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("(")[0].split()[-1] for line in lines] == ["add", "helper"]
    assert run(["list", "main", "--btf", str(inline), "-B", str(base)]) == 1
    assert "no function main" in capsys.readouterr().err
    assert run(["list", "*", "--btf", str(inline)]) == 1
    assert str(inline) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--inside", "add", "--btf", "{newest}"], 2, "-k, -m or -x"),
        (["ad", "--btf", "{newest}"], 1, "near: add"),
        (["add", "--btf", "{newest}", "--source", "dwarf"], 2, "contradict"),
        (["add", "--source", "btf"], 1, "the running kernel has no location info here"),
        (["add", "-B", "{newest}", "-k", "{newest}"], 2, "-B"),
        (["add", "--btf", "{newest}.not-there"], 1, "no such file"),
    ],
)
def test_mistakes_are_one_line(
    options: list[str], code: int, message: str, newest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["list", *(option.format(newest=newest) for option in options)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err.splitlines()[-1]


def test_names_cannot_write_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder()
    function = builder.add_func("evil\x1b[2J", builder.add_func_proto(0, []))
    builder.add_locsec(".text", [InlineSite(function, builder.add_loc_proto([]), 0x40)])
    path = tmp_path / "vmlinux.inline"
    path.write_bytes(builder.to_bytes())
    assert run(["list", "*", "--btf", str(path)]) == 0
    out, err = capsys.readouterr()
    assert r"evil\x1b[2J" in out
    assert "\x1b" not in out + err


def test_a_function_that_is_nowhere_inlined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    builder = Builder()
    prototype = builder.add_func_proto(0, [])
    builder.add_func("outside", prototype)
    inlined = builder.add_func("inside", prototype)
    builder.add_locsec(".text", [InlineSite(inlined, builder.add_loc_proto([]), 0x40)])
    path = tmp_path / "vmlinux.inline"
    path.write_bytes(builder.to_bytes())
    assert run(["list", "outside", "--btf", str(path)]) == 1
    assert "not inlined anywhere (without a symbol table" in capsys.readouterr().err


def test_a_site_outside_of_all_sections_has_no_offset() -> None:
    site = Site("f", True, 0x40, ".text", None, None, None, "void", ())
    assert Renderer(X86_64).lines(site, False) == ["0x40 [.text] void f(void)"]
