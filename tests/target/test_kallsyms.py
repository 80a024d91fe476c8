from __future__ import annotations

from pathlib import Path

import pytest

from inlinetrace.errors import FormatError, NotFoundError
from inlinetrace.target.kallsyms import Kallsyms, Symbol, first_address
from tests.target.machine import Machine

TABLE = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000040 t helper
ffffffff81000080 T work
ffffffff81000100 t helper
ffffffff82000000 D data
ffffffffc0000010 t helper\t[extra]
ffffffffc0000000 t first\t[extra]
ffffffffa0000000 t bpf_prog_6deef7357e7b4530\t[bpf]
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.write("/proc/kallsyms", TABLE)
    return machine


def test_the_first_of_several_names(machine: Machine) -> None:
    assert first_address(machine.host, ("_text", "_stext")) == ("_stext", 0xFFFFFFFF81000000)
    assert first_address(machine.host, ("work",)) == ("work", 0xFFFFFFFF81000080)


def test_modules_and_parts_of_names_are_not_found(machine: Machine) -> None:
    assert first_address(machine.host, ("first",)) is None
    assert first_address(machine.host, ("wor", "ork")) is None


def test_no_table_and_hidden_addresses_are_unknown(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert first_address(machine.host, ("_stext",)) is None
    machine.kernel(stext=0)
    assert first_address(machine.host, ("_stext",)) is None
    assert Kallsyms.read(machine.host).hidden


def test_a_name_across_pieces_is_found(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    # The line with the name lies across the border of what is read at once, at every possible place.
    line = "ffffffff81234560 T wanted\n"
    for shift in range(len(line) + 2):
        filler = "ffffffff81000000 T x\n" * 3120
        filler = filler[: 65536 - shift - 21]
        filler = filler[: filler.rfind("\n") + 1]
        pad = 65536 - shift - len(filler)
        text = filler + "ffffffff81000000 T " + "y" * (pad - 20) + "\n"
        assert len(text) == 65536 - shift
        machine.write("/proc/kallsyms", text + line)
        assert first_address(machine.host, ("wanted",)) == ("wanted", 0xFFFFFFFF81234560)


def test_a_line_without_end_is_malformed(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("/proc/kallsyms", "f" * 200_000)
    with pytest.raises(FormatError, match="more than 4096 bytes"):
        first_address(machine.host, ("_stext",))


def test_all_of_a_name(machine: Machine) -> None:
    table = Kallsyms.read(machine.host)
    assert len(table) == 10
    assert not table.hidden
    assert table.named("helper") == [
        Symbol("helper", 0xFFFFFFFF81000040, "t", None),
        Symbol("helper", 0xFFFFFFFF81000100, "t", None),
        Symbol("helper", 0xFFFFFFFFC0000010, "t", "extra"),
    ]
    assert table.named("fixed_percpu_data") == [Symbol("fixed_percpu_data", None, "A", None)]
    assert table.named("nothing") == []
    assert table.named(".*") == []


@pytest.mark.parametrize(
    ("address", "name", "offset"),
    [
        (0xFFFFFFFF81000000, "_stext", 0),
        (0xFFFFFFFF8100003F, "_stext", 0x3F),
        (0xFFFFFFFF81000081, "work", 1),
        (0xFFFFFFFFC0000008, "first", 8),
        (0xFFFFFFFFC0000010, "helper", 0),
        (0xFFFFFFFFA0000000, "bpf_prog_6deef7357e7b4530", 0),
    ],
)
def test_the_symbol_around_an_address(machine: Machine, address: int, name: str, offset: int) -> None:
    found = Kallsyms.read(machine.host).lookup(address)
    assert found is not None
    assert (found[0].name, found[1]) == (name, offset)


def test_a_symbol_of_a_module(machine: Machine) -> None:
    found = Kallsyms.read(machine.host).lookup(0xFFFFFFFFC0000011)
    assert found == (Symbol("helper", 0xFFFFFFFFC0000010, "t", "extra"), 1)


def test_hidden_addresses_have_no_symbol(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel(stext=0)
    assert Kallsyms.read(machine.host).lookup(5) is None


@pytest.mark.parametrize("bad", ["zzzzzzzzzzzzzzzz T x\n", "ffff T x\n", "T\n", "ffffffff810000001 T x\n", "\n"])
def test_malformed_lines(tmp_path: Path, bad: str) -> None:
    machine = Machine(tmp_path)
    machine.write("/proc/kallsyms", TABLE + bad)
    with pytest.raises(FormatError, match="no address") as caught:
        Kallsyms.read(machine.host).lookup(0xFFFFFFFF81000000)
    assert caught.value.offset == len(TABLE)


def test_a_32_bit_kernel(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("/proc/kallsyms", "c0008000 T _stext\nc0008100 T work\n")
    table = Kallsyms.read(machine.host)
    assert table.lookup(0xC0008104) == (Symbol("work", 0xC0008100, "T", None), 4)
    assert first_address(machine.host, ("_stext",)) == ("_stext", 0xC0008000)


def test_no_table(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="CONFIG_KALLSYMS"):
        Kallsyms.read(Machine(tmp_path).host)


def test_an_empty_table(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.write("/proc/kallsyms", "")
    assert len(Kallsyms.read(machine.host)) == 0
    assert Kallsyms.read(machine.host).lookup(1) is None
