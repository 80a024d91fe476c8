from __future__ import annotations

from itertools import pairwise

import pytest

from inlinetrace.elf import ElfFile
from inlinetrace.elf.layout import FIRST_ADDRESS, GAP
from inlinetrace.errors import FormatError
from tests.elf.elfwriter import Code, Sec, elf_file


def relocatable(*sections: Sec, bits: int = 64) -> ElfFile:
    return ElfFile.from_bytes(elf_file(sections, type=1, bits=bits, machine=62 if bits == 64 else 3))


def addresses(elf: ElfFile) -> dict[str, int]:
    return {section.name: section.address for section in elf.sections if section.allocated}


def test_sections_of_a_relocatable_file_lie_apart() -> None:
    elf = relocatable(
        Code(".text", bytes(5)), Sec(".comment", b"x"), Code(".empty", b""), Code(".init.text", bytes(0x30))
    )
    placed = [section for section in elf.sections if section.allocated]
    assert [section.name for section in placed] == [".text", ".empty", ".init.text"]
    assert placed[0].address == FIRST_ADDRESS
    for one, following in pairwise(placed):
        assert one.address + one.size + GAP <= following.address
    assert {section.address for section in elf.sections if not section.allocated} == {0}
    text, init = placed[0], placed[2]
    assert elf.section_at(text.address + 4) is text
    assert elf.section_at(text.address + 5) is None
    assert elf.section_at(init.address) is init
    assert elf.section_at(0) is None


def test_alignment() -> None:
    elf = relocatable(Code(".a", bytes(3)), Sec(".b", bytes(3), flags=2, alignment=4096))
    assert elf.sections[2].address % 4096 == 0


def test_thread_local_sections_have_no_address() -> None:
    elf = relocatable(Sec(".tdata", bytes(8), flags=0x403), Sec(".tbss", type=8, size=8, flags=0x403))
    assert [section.address for section in elf.sections[1:3]] == [0, 0]
    assert elf.section_at(4) is None


def test_linked_files_keep_their_addresses() -> None:
    elf = ElfFile.from_bytes(elf_file([Code(".text", bytes(4), 0x1000)]))
    assert elf.sections[1].address == 0x1000
    assert elf.laid_out_as(relocatable(Code(".text", bytes(4)))) is elf


def test_the_files_of_a_pair_agree() -> None:
    twice = [Code(".text.x", b"1"), Code(".text.x", b"22")]
    program = relocatable(Code(".plt", bytes(0x20)), Code(".text", bytes(0x40)), *twice)
    debug = relocatable(
        Sec(".text", type=8, size=0x40, flags=6),
        Sec(".text.x", type=8, size=1, flags=6),
        Sec(".text.x", type=8, size=2, flags=6),
    )
    same = program.laid_out_as(debug)
    assert addresses(debug) == {name: at for name, at in addresses(same).items() if name != ".plt"}
    twins = [section.address for section in same.sections_named(".text.x")]
    assert twins == [section.address for section in debug.sections_named(".text.x")]
    only_there = same.section(".plt")
    assert only_there is not None
    assert only_there.address >= max(s.address + s.size for s in debug.sections) + GAP
    assert bytes(same.data(".text.x")) == b"1"


def test_a_section_of_another_size_is_another_section() -> None:
    program, debug = relocatable(Code(".text", bytes(9))), relocatable(Code(".text", bytes(8)))
    (moved,) = program.laid_out_as(debug).sections_named(".text")
    assert moved.address >= debug.sections[1].address + 8 + GAP


@pytest.mark.parametrize(("bits", "size"), [(64, (1 << 64) - 1), (32, (1 << 32) - 1)])
def test_impossible_sizes(bits: int, size: int) -> None:
    elf = relocatable(Code(".text", bytes(4)), Sec(".bss", type=8, size=size, flags=3), bits=bits)
    with pytest.raises(FormatError, match="larger than the address space") as caught:
        elf.sections  # noqa: B018
    assert caught.value.section == ".bss"


def test_impossible_alignment() -> None:
    elf = relocatable(Code(".text", bytes(4)), Sec(".data", bytes(4), flags=3, alignment=1))
    data = bytearray(elf_file([Sec(".data", bytes(4), flags=3, alignment=0x40)], type=1))
    at = data.rindex((0x40).to_bytes(8, "little"))
    data[at : at + 8] = b"\xff" * 8
    assert ElfFile.from_bytes(bytes(data)).sections[1].address == FIRST_ADDRESS
    assert elf.sections[2].address < 1 << 31
