"""Stacks with names: of the site, of the traced file, of the kernel and of other libraries."""

from __future__ import annotations

import json
from typing import Any

from inlinetrace.probe.events import Hit
from inlinetrace.probe.output import Output
from inlinetrace.probe.stacks import Frame, Symbols
from inlinetrace.sites.model import Site

SITE = Site("inner", True, 0x1010, ".text", 0, "third", 0x10, "void", ())
BIAS = 0x550000


class Names:
    """BCC's look-ups: what they were asked for, and one answer."""

    def __init__(self, answer: bytes = b"[unknown]") -> None:
        self.answer = answer
        self.asked: list[tuple[object, ...]] = []

    def ksym(self, address: int, **options: bool) -> bytes:
        self.asked.append(("kernel", address))
        return self.answer

    def sym(self, address: int, process: int, **options: bool) -> bytes:
        self.asked.append((process, address))
        return self.answer


class Image:
    """Knows one function at 0x1000 and one at 0x1100."""

    def symbol(self, address: int) -> tuple[str, int] | None:
        for start, name in ((0x1000, "third"), (0x1100, "main")):
            if start <= address < start + 0x100:
                return name, address - start
        return None


def symbols(names: Names, *, kernel: bool = False, image: Any = None) -> Symbols:
    library: Any = type("Library", (), {"BPF": names})()
    file: Any = Image() if image is None else image or None
    return Symbols(file, library, kernel=kernel)


def hit(*stacks: tuple[int, ...], site: Site = SITE) -> Hit:
    return Hit(0, 0, 7, "x", site, BIAS, {}, {}, stacks)


def test_the_site_comes_first_with_what_is_inlined_there() -> None:
    found = symbols(Names()).stacks(hit((0x551010, 0x551120)), 7)
    assert found == {
        "user": [
            Frame("inner", inlined=True),
            Frame("third", 0x551010, 0x10),
            # the call is before the address that it returns to
            Frame("main", 0x551120, 0x20),
        ]
    }
    assert [frame.text() for frame in found["user"]] == ["inner (inlined)", "third+0x10", "main+0x20"]


def test_a_return_behind_the_end_of_a_function_belongs_to_it() -> None:
    (*_, frame) = symbols(Names()).stacks(hit((0x551010, 0x551100)), 7)["user"]
    assert frame.text() == "third+0x100"


def test_a_function_of_its_own_is_not_inlined() -> None:
    site = SITE._replace(inlined=False)
    assert symbols(Names()).stacks(hit((0x551010,), site=site), 7)["user"] == [Frame("third", 0x551010, 0x10)]


def test_other_names_are_asked_of_the_process() -> None:
    names = Names(b"malloc+0x1f [libc.so.6]")
    known = symbols(names)
    for _ in range(2):
        (*_, frame) = known.stacks(hit((0x551010, 0x7F0020)), 7)["user"]
        assert frame == Frame("malloc", 0x7F0020, 0x20, "libc.so.6")
    # once, for the byte before
    assert names.asked == [(7, 0x7F001F)]
    assert frame.text() == "malloc+0x20 [libc.so.6]"


def test_nobody_knows() -> None:
    for answer in (b"[unknown]", b"[unknown] [libx.so]", b""):
        (*_, frame) = symbols(Names(answer)).stacks(hit((0x551010, 0x7F0020)), 7)["user"]
        assert frame == Frame(None, 0x7F0020)
        assert frame.text() == "0x7f0020"
    names = Names(b"malloc+0x1f [libc.so.6]")
    (*_, frame) = symbols(names).stacks(hit((0x551010, 0x7F0020)), None)["user"]
    assert frame.name is None
    assert names.asked == []


def test_a_kernel_has_two_stacks() -> None:
    names = Names(b"do_syscall_64+0x5 [kernel]")
    found = symbols(names, kernel=True).stacks(hit((0x551010, 0x551120, 0xFFFF0000), (0x401000,)), 7)
    assert [frame.text() for frame in found["kernel"]] == [
        "inner (inlined)",
        "third+0x10",
        "main+0x20",
        "do_syscall_64+0x6",
    ]
    # an address of the program, though the kernel's file had a name for the number
    assert names.asked == [("kernel", 0xFFFEFFFF), (7, 0x400FFF)]
    assert found["user"][0].address == 0x401000


def test_a_kernel_without_a_file_is_asked_for_all() -> None:
    names = Names(b"vfs_read+0x5 [kernel]")
    found = symbols(names, kernel=True, image=False).stacks(hit((1, 0xFFFF0000), ()), 7)
    assert [frame.text() for frame in found["kernel"]] == ["inner (inlined)", "third+0x10", "vfs_read+0x6"]
    assert found["user"] == []


def test_stacks_in_the_output() -> None:
    output = Output(0, symbols=symbols(Names()))
    one = hit((0x551010, 0x551120))
    assert output.stack(one, 7) == ["        inner (inlined)", "        third+0x10", "        main+0x20"]
    row = json.loads(output.json(one, 7))
    assert row["stack"]["user"][2] == {
        "name": "main",
        "address": "0x551120",
        "offset": 0x20,
        "module": None,
        "inlined": False,
    }
    assert Output(0).stack(one, 7) == []
    assert "stack" not in json.loads(Output(0).json(one, 7))
