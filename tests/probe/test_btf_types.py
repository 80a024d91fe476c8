"""Types from BTF say what those from DWARF say of the same program."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inlinetrace.btf._types import Member
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.kinds import Kind
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.elf.machine import X86_64
from inlinetrace.probe.btf_types import BtfTypes
from inlinetrace.probe.dwarf_types import DwarfTypes
from inlinetrace.probe.output import text_of
from inlinetrace.probe.plan import Refusal, definition
from inlinetrace.probe.target import plan_image
from inlinetrace.probe.types import REST, Types
from inlinetrace.sites.from_btf import BtfSites
from inlinetrace.target import open_image
from inlinetrace.target.running_btf import open_running_btf
from tests.btf import examples
from tests.target.machine import Machine
from tests.target.test_running_btf import KERNEL_SYMBOLS, STEXT

Compiler = Callable[..., Path]

ZOO = """
typedef unsigned int u32;
enum state { CLOSED, OPEN = 5, BROKEN = -1 };
enum big { SMALL, LARGE = 0x123456789 };
struct later;
struct zoo {
    _Bool flag;
    signed char letter;
    char name[12];
    unsigned narrow : 3;
    int below : 7;
    u32 number;
    union { long whole; struct { int low, high; }; };
    enum state state;
    enum big big;
    short row[6];
    const struct zoo *next;
    struct later *later;
    int (*call)(int);
    double real;
    struct { unsigned char bytes[2]; } inner[2];
};
static struct zoo zoo;
struct zoo *volatile where;
__attribute__((noinline)) int look(struct zoo *z) { return z->state == OPEN; }
int main(int argc, char **argv) { where = &zoo; return look(where); }
"""


def described(types: Types, key: int, depth: int = 0) -> object:
    """All that is known of a type, by names rather than by keys."""
    name = types.name(key)
    row: list[object] = [name.size, name.encoding, name.signed, types.enumerators(key), types.is_aggregate(key)]
    target = types.pointee(key)
    row.append(None if target is None else (types.is_complete(target) if types.is_aggregate(target) else "other"))
    array = types.array(key)
    if array is not None:
        row += [array[1], described(types, array[0], depth + 1)]
    for member in types.members(key):
        row.append((member.name, member.offset_bits, member.bits, described(types, member.type, depth + 1)))
    return row


def with_locations(btf: Btf) -> Btf:
    """The types with a location kind on top: without one there are no sites to have types."""
    builder = Builder(btf)
    builder.add_loc_proto([])
    builder.add_locsec(".text", [])
    return Btf(builder.to_bytes(), btf)


@pytest.mark.compiled
@pytest.mark.parametrize("version", [4, 5])
def test_the_same_as_from_dwarf(compiler: Compiler, version: int) -> None:
    program = compiler(ZOO, f"-gdwarf-{version}", "-O1")
    subprocess.run(["pahole", "-J", "--btf_gen_floats", str(program)], check=True)
    image = open_image(str(program))
    from_dwarf = DwarfTypes(image.dwarf.dies, image.debug.machine)
    btf = load(str(program))
    from_btf = BtfTypes(BtfSites(with_locations(btf), X86_64))
    in_btf = btf.get("zoo", Kind.STRUCT).id
    (site,) = image.sites(["look"])
    in_dwarf = from_dwarf.pointee(site.parameters[0].type.die)
    assert in_dwarf is not None
    assert described(from_btf, in_btf) == described(from_dwarf, in_dwarf)
    chance = random.Random(7)
    for _ in range(50):
        raw = chance.randbytes(from_btf.name(in_btf).size)
        assert from_btf.decode(raw, in_btf) == from_dwarf.decode(raw, in_dwarf)
    for field in ("number", "low", "below", "missing"):
        ours, theirs = from_btf.member(in_btf, field), from_dwarf.member(in_dwarf, field)
        assert (ours and ours[:3]) == (theirs and theirs[:3])


def unions(names: str, depth: int = 15) -> tuple[Types, int]:
    """A number in a union that has it once for each name, in a union that has this one as often, and so on."""
    builder = Builder()
    key = builder.add_int("long", 8, 1)
    for number in range(depth):
        key = builder.add_union(f"u{number}", 8, [Member(name.strip(), key, 0) for name in names])
    return BtfTypes(BtfSites(with_locations(Btf(builder.to_bytes())), X86_64)), key


def parts(value: object) -> int:
    return 1 + (sum(map(parts, value.values())) if isinstance(value, dict) else 0)


def test_of_unions_of_unions_the_first_members_are_shown_and_that_there_are_more() -> None:
    types, key = unions("abcd")
    value = types.decode((7).to_bytes(8, "little"), key)
    assert 2000 < parts(value) < 2200
    assert isinstance(value, dict)
    assert value["..."] is REST
    assert text_of(value).startswith("{" + "a={" * 14 + "a=7, b=7, c=7, d=7}, b={a=7, ")
    assert text_of(value).endswith("}, ...}, ...}")
    # each value has its own count
    assert types.decode(bytes(8), key) != value
    assert unions("abcd", depth=5)[0].decode(bytes(8), key=6).keys() == set("abcd")  # type: ignore[union-attr]
    # members without a name do not make the search for one longer
    nested, outer = unions("    ")
    assert nested.member(outer, "absent") is None


def test_probes_of_a_kernel_that_has_its_own_location_info(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.kernel(stext=STEXT)
    machine.write("/proc/kallsyms", KERNEL_SYMBOLS)
    machine.write("/sys/kernel/btf/vmlinux", examples.SPLIT_MAIN)
    machine.write("/sys/kernel/btf/vmlinux.inline", examples.SPLIT_INLINE)
    blacklisted = f"0x{STEXT + 0x28:x}-0x{STEXT + 0x38:x}\thelper\n"
    machine.write("/sys/kernel/debug/kprobes/blacklist", blacklisted)
    image = open_running_btf(machine.host)
    plan = plan_image(
        image, image.listing(["*"]).sites(), BtfTypes(image.reader), kernel=True, host=machine.host, everything=True
    )
    lines = [definition(plan, event, probe, "group") for event in plan.events for probe in event.probes]
    assert [line.split()[1] for line in lines] == ["_stext+0x10", "_stext+0x80"]
    assert "a0=%di:" in lines[0]
    assert [(refused.site.function, refused.refusal) for refused in plan.refused] == [("helper", Refusal.BLACKLIST)]
