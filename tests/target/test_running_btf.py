"""The running kernel's own location info, on a machine that is a directory."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from inlinetrace.btf._types import InlineSite
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import LocFlag
from inlinetrace.btf.reader import Btf
from inlinetrace.cli.inputs import add_btf_arguments, add_input_arguments, open_listing
from inlinetrace.errors import FormatError, MismatchError, NotFoundError, UsageError
from inlinetrace.target.cache import Cache
from inlinetrace.target.loaded import AddressKind
from inlinetrace.target.running_btf import open_running_btf
from tests.btf import examples
from tests.target.machine import BUILD_ID, LINKED_AT, OTHER_BUILD_ID, RELEASE, Machine, elf

STEXT = LINKED_AT + 0x19000000
KERNEL_SYMBOLS = f"""\
{STEXT:016x} T _text
{STEXT:016x} T _stext
{STEXT + 8:016x} T caller
{STEXT + 0x80:016x} t helper.isra.0
{STEXT + 0x90:016x} t helper.cold
{STEXT + 0x100:016x} T _etext
{STEXT + 0x200:016x} D helper.data
{0xFFFFFFFFC0001000:016x} t inside\t[extra]
"""


def parsed(options: list[str]) -> argparse.Namespace:
    """The options that name an input."""
    parser = argparse.ArgumentParser()
    add_input_arguments(parser)
    add_btf_arguments(parser)
    return parser.parse_args(options, argparse.Namespace(verbose=False))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.location_info(examples.SPLIT_MAIN, examples.SPLIT_INLINE, KERNEL_SYMBOLS, stext=STEXT)
    return machine


def test_addresses_callers_and_copies_are_those_of_kallsyms(machine: Machine) -> None:
    image = open_running_btf(machine.host)
    sites = [site for site in image.listing(["*"]).sites() if site.inlined]
    found = [(site.function, site.inlined, site.address - STEXT, site.symbol) for site in sites]
    assert found == [("add", True, 0x10, "caller"), ("helper", True, 0x30, "caller")]
    helper = [site for site in image.listing(["helper"]).sites() if not site.inlined]
    assert [(site.copy, site.address - STEXT, site.section_offset) for site in helper] == [
        ("helper.isra.0", 0x80, 0x80)
    ]
    assert image.address_kind(".text") is AddressKind.RUN_TIME
    assert image.address_kind(".init.text") is AddressKind.SECTION_OFFSET
    assert image.is_gone(".init.text")


def test_hidden_addresses_leave_offsets_and_a_notice(machine: Machine) -> None:
    machine.write("/proc/kallsyms", f"{0:016x} T _text\n{0:016x} T _stext\n{0:016x} T _etext\n")
    machine.write("/proc/sys/kernel/kptr_restrict", "2\n")
    image = open_running_btf(machine.host)
    assert [site.symbol for site in image.listing(["add"]).sites()] == [None]
    assert image.address_kind(".text") is AddressKind.SECTION_OFFSET
    assert "sysctl kernel.kptr_restrict=1" in image.warnings()[-1]


def test_a_module_is_where_its_sections_are(machine: Machine) -> None:
    text = 0xFFFFFFFFC0001000
    machine.module("extra", text=text)
    base = Btf(examples.SPLIT_MAIN)
    own = Builder(base, classic=True)
    own.add_func("work", 2)
    machine.write("/sys/kernel/btf/extra", own.to_bytes())
    inline = Builder(Btf(own.to_bytes(), base))
    slots = inline.add_loc_proto([inline.add_loc_param(4, LocFlag.REG, [5])])
    inline.add_locsec(".text", [InlineSite(own.end_id - 1, slots, 0x20)])
    machine.write("/sys/kernel/btf/extra.inline", inline.to_bytes())
    image = open_running_btf(machine.host, "extra")
    assert [(site.address, site.symbol, site.module) for site in image.listing(["work"]).sites()] == [
        (text + 0x20, "inside", "extra")
    ]


def test_what_is_not_there(machine: Machine) -> None:
    machine.module("extra")
    with pytest.raises(NotFoundError, match="no location info here"):
        open_running_btf(machine.host, "extra")
    with pytest.raises(NotFoundError, match="not loaded"):
        open_running_btf(machine.host, "absent")


@pytest.mark.parametrize(
    ("options", "shown"),
    [([], True), (["--source", "btf"], True), (["--source", "dwarf"], False)],
)
def test_what_runs_is_read_from_its_own_btf(machine: Machine, options: list[str], shown: bool) -> None:
    args = parsed(options)
    if shown:
        assert open_listing(args, machine.host).path.endswith("/sys/kernel/btf/vmlinux.inline")
    else:
        with pytest.raises(NotFoundError, match="no vmlinux with DWARF"):
            open_listing(args, machine.host)


def test_dwarf_does_where_the_kernel_cannot_deliver_its_btf(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing_module(path: str) -> bytes:
        raise NotFoundError("the module btf_vmlinux_inline is missing", path=path)

    monkeypatch.setattr("inlinetrace.btf.load.read_blob", missing_module)
    machine.write(f"/usr/lib/debug/boot/vmlinux-{RELEASE}", elf(BUILD_ID))
    args = parsed([])
    with pytest.raises(FormatError, match=f"vmlinux-{RELEASE}, .debug_info"):
        open_listing(args, machine.host)
    assert "btf_vmlinux_inline is missing; looking for DWARF" in capsys.readouterr().err
    args.source = "btf"
    with pytest.raises(NotFoundError, match="btf_vmlinux_inline"):
        open_listing(args, machine.host)


def test_what_was_made_of_the_running_kernel_does_where_there_is_no_dwarf(machine: Machine) -> None:
    for name in ("vmlinux", "vmlinux.inline"):
        machine.path(f"/sys/kernel/btf/{name}").unlink()
    args = parsed([])
    with pytest.raises(NotFoundError, match="no vmlinux with DWARF"):
        open_listing(args, machine.host)
    Cache(machine.host, BUILD_ID).remember_location_info(examples.SPLIT_INLINE, examples.SPLIT_MAIN, [])
    image = open_listing(args, machine.host)
    assert [(site.address, site.symbol) for site in image.listing(["add"]).sites()] == [(STEXT + 0x10, "caller")]
    args.source = "dwarf"
    with pytest.raises(NotFoundError, match="no vmlinux with DWARF"):
        open_listing(args, machine.host)


def test_detached_location_info_that_was_made_for_what_runs(machine: Machine) -> None:
    inline = machine.write("/tmp/vmlinux.inline", examples.SPLIT_INLINE)
    base = machine.path("/sys/kernel/btf/vmlinux")
    options = ["--btf", str(inline), "-B", str(base), "--loaded"]
    kernel, other = machine.write("/tmp/vmlinux", elf(BUILD_ID)), machine.write("/tmp/other", elf(OTHER_BUILD_ID))
    for more in ([], ["-k", str(kernel)]):
        image = open_listing(parsed([*options, *more]), machine.host)
        assert [site.address for site in image.listing(["add"]).sites()] == [STEXT + 0x10]
    with pytest.raises(MismatchError, match=f"the running kernel has {BUILD_ID.hex()}"):
        open_listing(parsed([*options, "-k", str(other)]), machine.host)
    with pytest.raises(UsageError, match="--loaded goes with"):
        open_listing(parsed(["--source", "btf", "-k", str(kernel), "--loaded"]), machine.host)
