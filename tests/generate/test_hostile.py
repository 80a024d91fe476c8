"""Damaged DWARF: one of the package's errors with section and offset, or types; never anything else."""

from __future__ import annotations

import random
from typing import Any

import pytest

from inlinetrace.btf.reader import Btf
from inlinetrace.dwarf.info import DebugInfo
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import FormatError, InlineTraceError
from inlinetrace.generate.types import types_from_dwarf
from tests.dwarf.writer import Address, Die, Form, die, make_program, write
from tests.elf.elfwriter import Sym
from tests.generate.writing import CHAR, INT, btf, read, unit


def fault(*entries: Die, **options: Any) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read(unit(*entries, **options))
    error = caught.value
    assert error.section is not None
    assert error.offset is not None
    return error


def test_a_type_that_contains_itself() -> None:
    typedef = die("typedef", name="t", type="c", label="t")
    assert "contains itself" in str(fault(typedef, die("const_type", type="t", label="c")))
    assert "contains itself" in str(fault(die("const_type", type="c", label="c")))
    nameless = die("structure_type", die("member", name="m", type="p", data_member_location=0), byte_size=8, label="s")
    assert "contains itself" in str(fault(nameless, die("pointer_type", type="s", label="p")))


def test_references_to_what_is_no_type() -> None:
    assert "no type" in str(fault(INT, die("pointer_type", type=Form("ref4", 3))))
    assert "no type" in str(fault(INT, die("pointer_type", type=Form("ref4", 0x7FFFFFF0))))
    assert "no type" in str(fault(die("subprogram", name="f", label="f"), die("pointer_type", type="f")))
    member = die("member", name="m", type=Form("ref4", 2), data_member_location=0)
    assert "no type" in str(fault(die("structure_type", member, name="s", byte_size=8)))
    parameter = die("formal_parameter", name="a", type=Form("ref4", 0x1000))
    assert "no type" in str(fault(die("subprogram", parameter, name="f", low_pc=Address(0x1000))))
    assert "no type" in str(fault(die("pointer_type", type=Form("data4", 3))))


def test_names_that_lead_nowhere() -> None:
    assert "name" in str(fault(die("structure_type", name=Form("strp", 0x7FFF), byte_size=4)))
    assert "name" in str(fault(die("structure_type", name="x" * 5000, byte_size=4)))
    assert "name" in str(fault(die("structure_type", name=Form("strx1", 200), byte_size=4)))


def test_a_signature_that_no_unit_has() -> None:
    assert "signature" in str(fault(die("structure_type", declaration=True, signature=Form("ref_sig8", 7))))


def test_a_sibling_that_leads_backwards() -> None:
    site = die("inlined_subroutine", INT, more={"sibling": Form("ref4", 0)})
    assert "sibling" in str(fault(die("subprogram", site, name="f")))


def test_members_of_impossible_places() -> None:
    member = die("member", name="m", type="int", bit_size=4, bit_offset=90, data_member_location=0)
    with pytest.raises(InlineTraceError, match="cannot say"):
        read(unit(INT, die("structure_type", member, name="s", byte_size=4)))


def test_long_chains_cost_no_stack() -> None:
    chain = [INT, die("pointer_type", type="int", label="p0")]
    chain += [die("pointer_type", type=f"p{number}", label=f"p{number + 1}") for number in range(20000)]
    assert btf(unit(*chain)).end_id == 20003
    assert btf(unit(*reversed(chain))).end_id == 20003
    nested = INT
    for _ in range(300):
        nested = die("lexical_block", nested)
    assert btf(unit(nested)).end_id == 2


def test_a_struct_of_many_members_that_are_all_new() -> None:
    count = 3000
    members = [die("member", name="m", type=f"p{number}", data_member_location=0) for number in range(count)]
    sizes = [die("subrange_type", count=number) for number in range(count)]
    types = [die("array_type", size, type="int", label=f"p{number}") for number, size in enumerate(sizes)]
    assert btf(unit(die("structure_type", *members, name="s", byte_size=1 << 24), *types, INT)).end_id == count + 3


def sample() -> bytes:
    members = [
        die("member", name="next", type="p", data_member_location=0),
        die("member", name="bits", type="int", bit_size=3, data_bit_offset=64),
    ]
    node = die("structure_type", *members, name="node", byte_size=16, label="n")
    entries = [
        INT, CHAR, node, die("pointer_type", die(0x6000, name="btf_type_tag", const_value="tag"), type="n", label="p"),
        die("enumeration_type", die("enumerator", name="A", const_value=1), name="e", byte_size=4),
        die("array_type", die("subrange_type", upper_bound=3), type="char"),
        die("subroutine_type", die("formal_parameter", type="p"), die("unspecified_parameters"), type="int"),
        die(0x6001, name="btf_decl_tag", const_value="first", label="note", more={0x2139: Form("ref4", "notes")}),
        die(0x6001, name="btf_type_tag", const_value="second", label="notes"),
        die("pointer_type", type="int", more={0x2139: Form("ref4", "note")}),
        die("subprogram", die("formal_parameter", name="a", type="p", label="a", more={0x2139: Form("ref4", "note")}),
            name="f", inline=1, label="f", more={0x2139: Form("ref4", "note")}),
        die("subprogram", die("formal_parameter", abstract_origin="a"), abstract_origin="f", low_pc=Address(0x1000)),
    ]  # fmt: skip
    other = die("structure_type", die("member", name="x", type="i2"), name="node", byte_size=4)
    two = unit(die("base_type", label="i2", name="int", byte_size=4, encoding=5), other)
    return make_program(write([unit(*entries), two]), symbols=[Sym("f", 0x1000, 4, ".text")])


def survive(data: bytes, base: Btf) -> None:
    """Read the types of ``data``, with and without a base; only errors of the package may come out."""
    for onto in (None, base):
        try:
            result = types_from_dwarf(DebugInfo(ElfFile.from_bytes(data)), base=onto, threads=1)
            Btf(result.encode(), onto)
        except InlineTraceError:
            pass


def damaged(seed: int) -> bytes:
    """The sample with some bytes changed, where its DWARF is."""
    chance = random.Random(seed)
    data = bytearray(sample())
    elf = ElfFile.from_bytes(bytes(data))
    sections = [section for section in elf.sections if section.name.startswith(".debug")]
    for _ in range(chance.randint(1, 6)):
        section = chance.choice(sections)
        at = section.offset + chance.randrange(section.size)
        data[at] = chance.choice([chance.randrange(256), data[at] ^ 1 << chance.randrange(8), 0, 0xFF, 0x7F, 0x80])
    return bytes(data)


def test_damaged_programs() -> None:
    base = btf(unit(INT, die("structure_type", name="node", declaration=True)))
    for seed in range(400):
        survive(damaged(seed), base)
