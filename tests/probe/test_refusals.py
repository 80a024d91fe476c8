"""What the kernel refuses to probe, read from tables of a small kernel and a small module."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from inlinetrace.elf.file import ElfFile
from inlinetrace.probe import x86
from inlinetrace.probe.kernel_text import AddressSet, KernelText, covers, merged
from inlinetrace.probe.plan import Refusal
from inlinetrace.probe.refusals import (
    BLACKLIST,
    CLOCKSOURCE,
    kernel_check,
    predict,
    running_blacklist,
    running_check,
)
from inlinetrace.sites.model import Site
from inlinetrace.target.image import Image
from inlinetrace.target.loaded import LoadedKernel
from inlinetrace.target.running_btf import open_running_btf
from tests.btf import examples
from tests.elf.elfwriter import Code, Rel, Sec, Sym, elf_file
from tests.target.machine import Machine, core_file

TEXT = 0xFFFFFFFF81000000
TABLES = 0xFFFFFFFF82000000
INIT = 0xFFFFFFFF83000000
NOP5 = bytes.fromhex("0f1f440000")


def word(number: int) -> bytes:
    return struct.pack("<Q", number)


def relative(place: int, address: int) -> bytes:
    return struct.pack("<i", address - place)


class SmallKernel:
    """A kernel whose functions have 64 bytes each, filled with nops; ``code`` is put into them."""

    FUNCTIONS = ("_stext", "traced", "hidden", "traced.cold", "lost.cold", "kprobed", "late", "_etext")

    def __init__(self) -> None:
        self.code = bytearray(b"\x90" * (64 * (len(self.FUNCTIONS) - 1)))
        self.tables: dict[str, bytes] = {}
        self.options = ["__within_notrace_func", "kprobe_ftrace_handler"]
        self.put(self.at("traced"), NOP5)
        self.put(self.at("late"), NOP5)
        self.table("mcount_loc", word(self.at("traced")) + word(0) + word(self.at("late")))

    def at(self, name: str, offset: int = 0) -> int:
        return TEXT + 64 * self.FUNCTIONS.index(name) + offset

    def put(self, address: int, code: bytes) -> None:
        self.code[address - TEXT : address - TEXT + len(code)] = code

    def table(self, name: str, content: bytes) -> None:
        """Add a table behind the others: at ``end``."""
        self.tables[name] = content

    @property
    def end(self) -> int:
        return TABLES + sum(len(content) for content in self.tables.values())

    def build(self) -> Image:
        symbols = [Sym(name, self.at(name), 64, section=".text") for name in self.FUNCTIONS]
        symbols += [Sym(name, INIT + 16, 0, section=".init.text") for name in self.options]
        symbols.append(Sym("_einittext", INIT + 64, 0, section=".init.text"))
        at = TABLES
        prefixes = {"alt_instructions": ("__alt_instructions", "__alt_instructions_end")}
        prefixes["retpoline_sites"] = ("__retpoline_sites", "__retpoline_sites_end")
        prefixes["parainstructions"] = ("__parainstructions", "__parainstructions_end")
        for name, content in self.tables.items():
            first, last = prefixes.get(name, (f"__start_{name}", f"__stop_{name}"))
            symbols += [
                Sym(first, at, section=".rodata", type=0),
                Sym(last, at + len(content), section=".rodata", type=0),
            ]
            at += len(content)
        sections = [
            Code(".text", bytes(self.code), TEXT),
            Sec(".rodata", b"".join(self.tables.values()), flags=2, address=TABLES),
            Code(".init.text", b"\x90" * 64, INIT),
        ]
        elf = ElfFile.from_bytes(elf_file(sections, symbols=symbols))
        return Image("vmlinux", elf, elf, None, (), None)


def one(kernel: SmallKernel, address: int) -> Refusal | None:
    found = predict(kernel.build(), [address])[address]
    return None if found is None else found[0]


@pytest.fixture
def kernel() -> SmallKernel:
    return SmallKernel()


def test_ordinary_code_is_accepted(kernel: SmallKernel) -> None:
    for offset in (0, 5, 6, 63):
        assert one(kernel, kernel.at("traced", offset)) is None


def test_code_outside_of_the_text_that_stays_is_gone(kernel: SmallKernel) -> None:
    assert one(kernel, INIT + 16) is Refusal.INIT
    assert one(kernel, kernel.at("_etext")) is Refusal.INIT
    assert one(kernel, 0x1000) is Refusal.INIT


def test_functions_that_cannot_be_traced_are_closed(kernel: SmallKernel) -> None:
    assert one(kernel, kernel.at("hidden", 7)) is Refusal.NOTRACE
    # a cold part belongs to the function whose name it has, if there is one
    assert one(kernel, kernel.at("traced.cold", 7)) is None
    assert one(kernel, kernel.at("lost.cold", 7)) is Refusal.NOTRACE


def test_a_function_that_is_gone_does_not_open_a_part_of_its_name(kernel: SmallKernel) -> None:
    """msg_init.part.0 of 6.1.192: the msg_init that the kernel finds is another file's, in .init.text."""
    kernel.options.append("lost")
    kernel.tables["mcount_loc"] += word(INIT + 16)
    assert one(kernel, kernel.at("lost.cold", 7)) is Refusal.NOTRACE


def test_unless_the_kernel_was_configured_to_open_them(kernel: SmallKernel) -> None:
    kernel.options.remove("__within_notrace_func")
    assert one(kernel, kernel.at("hidden", 7)) is None


def test_the_call_of_function_tracing(kernel: SmallKernel) -> None:
    assert one(kernel, kernel.at("traced")) is None
    assert one(kernel, kernel.at("traced", 2)) is Refusal.NOT_A_BOUNDARY
    kernel.options.remove("kprobe_ftrace_handler")
    assert one(kernel, kernel.at("traced")) is Refusal.FTRACE


def test_instructions_that_are_rewritten(kernel: SmallKernel) -> None:
    label, call = kernel.at("traced", 10), kernel.at("traced", 20)
    place = kernel.end
    kernel.table(
        "__jump_table", relative(place, kernel.at("hidden")) + bytes(12) + relative(place + 16, label) + bytes(12)
    )
    place = kernel.end
    kernel.table("static_call_sites", relative(place, call) + bytes(4))
    image = kernel.build()
    found = predict(image, [label, label + 1, call, call + 1])
    assert [None if reason is None else reason[0] for reason in found.values()] == [
        Refusal.JUMP_LABEL,
        None,
        Refusal.STATIC_CALL,
        None,
    ]


@pytest.mark.parametrize("size", [8, 12, 16])
def test_traps_whatever_the_size_of_their_entries(kernel: SmallKernel, size: int) -> None:
    traps = [kernel.at("traced", 8), kernel.at("late", 9), kernel.at("late", 30)]
    place = kernel.end
    for trap in traps:
        kernel.put(trap, b"\x0f\x0b")
    # what follows an address in an entry must not pass for one
    rows = [relative(place + size * number, trap).ljust(size, b"\x11") for number, trap in enumerate(traps)]
    kernel.table("__bug_table", b"".join(rows))
    image = kernel.build()
    assert list(KernelText(image.program).bugs) == sorted(traps)
    assert predict(image, traps) == dict.fromkeys(traps, (Refusal.BUG, ""))


def test_the_blacklist_of_the_file(kernel: SmallKernel) -> None:
    kernel.table("kprobe_blacklist", word(kernel.at("kprobed")))
    assert one(kernel, kernel.at("kprobed", 63)) is Refusal.BLACKLIST
    assert one(kernel, kernel.at("late")) is None


def test_the_blacklist_of_the_machine(kernel: SmallKernel, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    image = kernel.build()
    assert running_blacklist(machine.host, image) == []
    moved = 0x1200000
    image.loaded = LoadedKernel("_stext", TEXT, TEXT + moved)
    first = kernel.at("late", 8) + moved
    lines = f"0x{first:016x}-0x{first + 8:016x}\tlate\n0x0000000000000000-0x0000000000000000\thidden\nnonsense\n"
    machine.write(BLACKLIST, lines)
    assert running_blacklist(machine.host, image) == [(first - moved, first + 8 - moved)]
    found = predict(image, [kernel.at("late", 7), kernel.at("late", 8), kernel.at("late", 16)], machine.host)
    assert list(found.values()) == [None, (Refusal.BLACKLIST, ""), None]


CALL = bytes.fromhex("ff1425000000a0")


def test_calls_through_memory_unless_they_are_replaced_at_the_start(kernel: SmallKernel) -> None:
    first, second = kernel.at("traced", 8), kernel.at("traced", 24)
    kernel.put(first, CALL)
    kernel.put(second, CALL)
    kernel.table("parainstructions", word(second) + bytes((3, 7)) + bytes(6))
    assert one(kernel, first) is Refusal.INSTRUCTION
    assert one(kernel, second) is None


# The kernel takes probes at all of these. The first crashed Debian's 6.1.192: cpu_stopper_thread() went on in the last
# byte of its call.
@pytest.mark.parametrize(
    ("instruction", "is_retpoline", "wrong"),
    [
        ("2ee8cdf5c700", False, True), ("66e8cdf5c700", False, True), ("48e8cdf5c700", False, True),
        ("e8cdf5c70090", False, False), ("e8cdf5c70090", True, True), ("e9cdf5c70090", True, False),
        ("ffd0", False, True), ("41ffd7", False, True), ("2effd7", False, True), ("ffe0", False, False),
        ("ff1425000000a0", False, False), ("ff30", False, False), ("2ec3", False, False), ("ff", False, False),
        ("", True, False), ("2e", False, False), ("f30f1efa2ee8cdf5c700", False, True), ("f30f1efaffd0", False, True),
        ("f30f1efae8cdf5c700", False, False), ("f30f1efae8cdf5c700", True, True), ("f30f1efa", False, False),
    ],
)  # fmt: skip
def test_calls_that_return_to_the_wrong_place(instruction: str, is_retpoline: bool, wrong: bool) -> None:
    assert x86.is_misemulated(bytes.fromhex(instruction), is_retpoline) is wrong


def site(address: int, container: str = "traced", *, inlined: bool = True) -> Site:
    return Site("inlined", inlined, address, None, None, None, None, "", (), container=container)


def test_what_would_stop_the_machine_is_refused_though_the_kernel_takes_it(kernel: SmallKernel) -> None:
    padded, thunk, plain = kernel.at("traced", 8), kernel.at("traced", 16), kernel.at("traced", 24)
    kernel.put(padded, bytes.fromhex("2ee8cdf5c700"))
    kernel.put(thunk, bytes.fromhex("e8cdf5c700"))
    kernel.put(plain, bytes.fromhex("e8cdf5c700"))
    kernel.table("retpoline_sites", relative(kernel.end, thunk))
    image = kernel.build()
    assert set(predict(image, [padded, thunk, plain]).values()) == {None}
    check = kernel_check(image)
    found = [check(site(address)) for address in (padded, thunk, plain)]
    assert [None if reason is None else reason[0] for reason in found] == [
        Refusal.MISEMULATED,
        Refusal.MISEMULATED,
        None,
    ]


def test_a_probe_that_would_wait_for_itself(kernel: SmallKernel) -> None:
    check = kernel_check(kernel.build())
    for container in ("read_hpet", "read_hpet.cold"):
        found = check(site(kernel.at("traced", 8), container))
        assert found == (Refusal.DEADLOCK, f"{container} holds a lock that reading the clock takes")
    # its entry is before the lock
    assert check(site(kernel.at("traced", 8), "read_hpet", inlined=False)) is None
    assert check(site(kernel.at("traced", 8), "read_tsc")) is None


def test_the_instruction_in_memory_counts_too(kernel: SmallKernel, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    image = kernel.build()
    moved = 0x1200000
    image.loaded = LoadedKernel("_stext", TEXT, TEXT + moved)
    now = bytearray(b"\x90" * 64)
    now[8:10] = bytes.fromhex("ffd0")
    machine.write("/proc/kcore", core_file([(kernel.at("traced") + moved, bytes(now))]))
    check = kernel_check(image, machine.host)
    assert check(site(kernel.at("traced", 7))) is None
    found = check(site(kernel.at("traced", 8)))
    assert found is not None
    assert found[0] is Refusal.MISEMULATED


def location_info(tmp_path: Path, kallsyms: str) -> Machine:
    """A kernel with two inlined sites in its location info, at _stext+0x10 and _stext+0x30."""
    machine = Machine(tmp_path)
    machine.location_info(examples.SPLIT_MAIN, examples.SPLIT_INLINE, kallsyms, stext=TEXT)
    return machine


def refusals(machine: Machine) -> list[Refusal | None]:
    listed = open_running_btf(machine.host)
    check = running_check(listed, machine.host)
    found = [check(site) for site in listed.listing(["*"]).sites() if site.inlined]
    return [None if reason is None else reason[0] for reason in found]


def test_without_the_file_the_symbols_and_the_memory_tell(tmp_path: Path) -> None:
    names = f"{TEXT:x} T _text\n{TEXT:x} T _stext\n{TEXT + 8:x} t read_hpet\n{TEXT + 0x28:x} t other\n"
    machine = location_info(tmp_path, f"{names}{TEXT + 0x100:x} T _etext\n")
    assert refusals(machine) == [Refusal.DEADLOCK, None]
    memory = bytearray(64)
    memory[0x30:0x36] = bytes.fromhex("2ee8cdf5c700")
    machine.write("/proc/kcore", core_file([(TEXT, bytes(memory))]))
    assert refusals(machine) == [Refusal.DEADLOCK, Refusal.MISEMULATED]


def test_with_hidden_addresses_a_clock_with_a_lock_forbids_all(tmp_path: Path) -> None:
    machine = location_info(tmp_path, "0 T _text\n0 T _stext\n0 T _etext\n")
    machine.write("/proc/sys/kernel/kptr_restrict", "2\n")
    assert refusals(machine) == [None, None]
    memory = bytearray(64)
    memory[0x30:0x36] = bytes.fromhex("2ee8cdf5c700")
    machine.write("/proc/kcore", core_file([(TEXT, bytes(memory))], f"SYMBOL(_stext)={TEXT:x}\n".encode()))
    machine.write(CLOCKSOURCE, "tsc\n")
    assert refusals(machine) == [None, Refusal.MISEMULATED]
    machine.write(CLOCKSOURCE, "hpet\n")
    assert refusals(machine) == [Refusal.DEADLOCK, Refusal.MISEMULATED]


@pytest.mark.parametrize("size", [12, 14])
def test_alternatives_whatever_the_size_of_their_entries(kernel: SmallKernel, size: int) -> None:
    site = kernel.at("traced", 8)
    kernel.put(site, CALL)
    place = kernel.end
    row = relative(place, site) + relative(place + 4, site) + bytes(size - 10) + bytes((7, 5))
    second = place + size
    more = relative(second, site + 20) + relative(second + 4, site) + bytes(size - 10) + bytes((3, 3))
    kernel.table("alt_instructions", row + more)
    text = KernelText(kernel.build().program)
    assert text.patched == [(site, site + 7), (site + 20, site + 23)]
    assert text.patched_at(site + 6) == (site, site + 7)
    assert text.patched_at(site + 7) is None
    assert one(kernel, site) is None


@pytest.mark.parametrize(
    ("code", "accepted"),
    [
        ("90", True),
        ("e800000000", True),
        ("ffd0", True),
        ("41ffe3", True),
        ("ff1425000000a0", False),
        ("ff25aabbccdd", False),
        ("ff1500000000", False),
        ("fff0", True),
        ("ffd8", False),
        ("ff7008", True),
        ("cc", False),
        ("48cf", False),
        ("0f01c1", False),
        ("0f01d0", True),
        ("8ed0", False),
        ("8ed8", True),
        ("0f0b", True),
        ("", False),
        ("66", False),
    ],
)
def test_instructions_that_the_kernel_cannot_emulate(code: str, accepted: bool) -> None:
    assert x86.can_be_emulated(bytes.fromhex(code)) is accepted


def test_a_module_has_its_tables_in_sections() -> None:
    text = bytearray(b"\x90" * 64)
    text[0:5] = NOP5
    text[16:18] = b"\x0f\x0b"
    sections = [
        Code(".text", bytes(text)),
        Code(".init.text", b"\x90" * 16),
        Code(".noinstr.text", b"\x90" * 16),
        Sec("__jump_table", bytes(16), flags=3),
        Sec("__bug_table", bytes(12), flags=3),
        Sec("__mcount_loc", bytes(8), flags=2),
        Sec("_kprobe_blacklist", bytes(8), flags=3),
    ]
    symbols = [
        Sym("traced", 0, 32, section=".text"),
        Sym("closed", 32, 32, section=".text"),
        Sym("quiet", 0, 16, section=".noinstr.text"),
        Sym("start", 0, 16, section=".init.text"),
    ]
    relocations = {
        # R_X86_64_PC32 and R_X86_64_64
        "__jump_table": [Rel(0, 2, "traced", 8)],
        "__bug_table": [Rel(0, 2, "traced", 16)],
        "__mcount_loc": [Rel(0, 1, "traced", 0)],
        "_kprobe_blacklist": [Rel(0, 1, "closed", 0)],
    }
    elf = ElfFile.from_bytes(elf_file(sections, symbols=symbols, relocations=relocations, type=1))
    image = Image("small.ko", elf, elf, None, (), "small")
    starts = {section.name: section.address for section in elf.sections}
    wanted = {
        starts[".text"]: None,
        starts[".text"] + 8: Refusal.JUMP_LABEL,
        starts[".text"] + 16: Refusal.BUG,
        starts[".text"] + 20: None,
        starts[".text"] + 40: Refusal.BLACKLIST,
        starts[".noinstr.text"] + 3: Refusal.BLACKLIST,
        starts[".init.text"] + 3: Refusal.INIT,
    }
    found = predict(image, wanted)
    assert {address: None if reason is None else reason[0] for address, reason in found.items()} == wanted


def test_a_file_without_instructions_leaves_it_to_the_kernel() -> None:
    symbols = [Sym("_stext", TEXT, section=".text", type=0), Sym("_etext", TEXT + 64, section=".text", type=0)]
    elf = ElfFile.from_bytes(elf_file([Sec(".text", type=8, flags=6, address=TEXT, size=128)], symbols=symbols))
    image = Image("vmlinux.debug", elf, elf, None, (), None)
    assert predict(image, [TEXT + 3, TEXT + 64]) == {TEXT + 3: None, TEXT + 64: (Refusal.INIT, ".text")}


def test_symbols_are_those_of_the_kernels_own_table() -> None:
    code = Code(".text", b"\x90" * 64, TEXT)
    symbols = [
        Sym("_stext", TEXT, section=".text", type=0),
        Sym("__twin", TEXT + 16, 16, section=".text"),
        Sym("weak", TEXT + 16, 16, section=".text", binding=2),
        Sym("twin", TEXT + 16, 16, section=".text"),
        Sym(".Llocal", TEXT + 20, section=".text", type=0, binding=0),
        Sym("label", TEXT + 24, section=".text", type=0, binding=0),
        Sym("_etext", TEXT + 48, section=".text", type=0),
    ]
    text = KernelText(ElfFile.from_bytes(elf_file([code], symbols=symbols)))
    assert text.symbol(TEXT + 21) == (TEXT + 16, TEXT + 24, "twin")
    assert text.symbol(TEXT + 47) == (TEXT + 24, TEXT + 48, "label")
    assert text.symbol(TEXT - 1) is None
    assert text.bounds == (TEXT, TEXT + 48)


def test_damaged_tables_say_nothing(kernel: SmallKernel) -> None:
    kernel.table("__bug_table", b"\x7f" * 24)
    kernel.table("alt_instructions", b"\x7f" * 28)
    kernel.table("__jump_table", b"\x7f" * 15)
    kernel.table("static_call_sites", b"\x7f" * 8)
    text = KernelText(kernel.build().program)
    assert len(text.bugs) == len(text.jump_labels) == 0
    assert text.patched == []
    assert one(kernel, kernel.at("traced", 9)) is None


def test_sets_of_addresses_and_stretches() -> None:
    addresses = AddressSet([5, 1, 5, 9])
    assert list(addresses) == [1, 5, 9]
    assert (5 in addresses, 6 in addresses) == (True, False)
    assert (addresses.any_in(2, 5), addresses.any_in(2, 6), addresses.any_in(10, 99)) == (False, True, False)
    stretches = merged([(10, 20), (15, 25), (30, 40), (25, 26)])
    assert stretches == [(10, 26), (30, 40)]
    assert [covers(stretches, number) for number in (9, 10, 25, 26, 39, 40)] == [False, True, True, False, True, False]
