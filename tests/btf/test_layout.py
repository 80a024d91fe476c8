"""Struct layouts have the offsets, sizes, holes, paddings and cache lines that pahole prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from inlinetrace.btf._types import Composite
from inlinetrace.btf.layout import analyse, layout_text
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import NotFoundError
from tests.btf.conftest import output, tool
from tests.btf.samples import everything
from tests.kernels import Kernel

PROGRAM = """
enum color { RED };
struct inner { long a; char b; };
typedef struct inner inner_t;
struct bits {
    int a : 3; int b : 5; char c; short d : 2; long e : 40; unsigned char f : 1; int : 0; unsigned g : 31; enum color
    h : 4;
};
struct nested {
    char first;
    struct inner one;
    inner_t two;
    union { int number; struct { char x; long y[9]; } z; struct { short s; long t; }; };
    struct { char c; int i; } list[3];
    int (*get)(struct nested *, int);
    const char *names[4];
    char flexible[];
};
union choice { int a; struct { char b; long c; } d; };
struct aligned { int a; int b __attribute__((aligned(64))); char c; } __attribute__((aligned(64)));
struct packed { char a; int b; long c : 33; } __attribute__((packed));
struct nested nested; struct bits bits; union choice choice; struct aligned aligned; struct packed packed;
"""


def facts(text: str) -> list[tuple[str, ...]]:
    """What each line says, apart from how it is spaced: members with their numbers, remarks, the summary.

    Left out is what pahole infers about attributes and explains about bitfields.
    """
    found: list[tuple[str, ...]] = []
    for line in re.sub(r" ?__attribute__\(\(\w+(\(\d+\))?\)\)", "", text).split("\n"):
        for remark in re.findall(r"/\*.*?\*/", line):
            if re.search("[Ff]orce|Bitfield combined", remark):
                continue
            if place := re.match(r"/\*\s+(\d+)(?::\s*(\d+))?\s+(\d+) \*/", remark):
                name = re.search(r"(\w*)(?:\)\(.*\))?(?:\[\d*\])*(?::\d+)?;\s*$", line.split("/*")[0])
                assert name is not None, line
                found.append((name[1], *map(str, place.groups())))
            else:
                found.append((remark,))
    return found


def compare(path: str, names: list[str]) -> int:
    """How many of the structs are laid out as pahole says; the others fail the test."""
    btf = load(path)
    different = []
    for name in names:
        theirs = output(tool("pahole"), "-F", "btf", "-C", name, path).decode()
        if facts(layout_text(btf, name)) != facts(theirs):
            different.append(name)
    assert different == []
    return len(names)


@pytest.mark.compiled
def test_every_shape(tmp_path: Path) -> None:
    source, binary = tmp_path / "a.c", tmp_path / "a.o"
    source.write_text(PROGRAM)
    output("gcc", "-g", "-gdwarf-4", "-c", "-o", str(binary), str(source))
    output(tool("pahole"), "-J", str(binary))
    assert compare(str(binary), ["inner", "bits", "nested", "aligned", "packed"]) == 5


def all_layouts(path: str) -> dict[str, str]:
    """What pahole prints for every struct of a file, those with a name of their own."""
    text = output(tool("pahole"), "-F", "btf", path).decode()
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"^(?:struct|union) (\w+) \{\n.*?^\}[^\n]*;$", text, re.M | re.S):
        found.setdefault(match[1], []).append(match[0])
    return {name: texts[0] for name, texts in found.items() if len(texts) == 1}


def check_all(path: str) -> None:
    """All structs of a kernel. Left out is where pahole 1.24 itself goes wrong or prints another thing:

    members whose type is a pointer to an array (it drops the array) or to an anonymous struct (it lists its members
    as if they were the member's), and anonymous structs that are const (it adds a summary of their own).
    """
    btf = load(path)
    compared, different = 0, []
    for name, theirs in all_layouts(path).items():
        ids = [type_id for type_id in btf.find(name) if isinstance(btf.type(type_id), Composite)]
        if len(ids) != 1 or re.search(r"const struct \{|^\t+\} \*", theirs, re.M):
            continue
        ours = layout_text(btf, name)
        if re.search(r"\(\*\w+\)\[", ours):
            continue
        compared += 1
        if facts(ours) != facts(theirs):
            different.append(name)
    assert compared > 5000
    assert different == []


def test_structs_of_the_running_kernel(running_btf: str) -> None:
    check_all(running_btf)


@pytest.mark.kernel
def test_kernels(distribution_kernel: Kernel) -> None:
    check_all(str(distribution_kernel.vmlinux))


def test_the_analysis_is_there_for_programs() -> None:
    btf = Btf(everything())
    layout = analyse(btf, btf.find("node")[0])
    assert [(place.offset, place.size, place.hole) for place in layout.places][:5] == [
        (0, 8, 0),
        (8, 1, 0),
        (8, 4, 0),
        (8, 4, 4),
        (16, 8, 0),
    ]
    assert layout.padding == 4
    assert (layout.holes, layout.bit_holes) == ([4], [16])
    with pytest.raises(NotFoundError, match="no struct"):
        analyse(btf, 1)


def test_typedefs_are_followed() -> None:
    btf = Btf(everything())
    assert layout_text(btf, "node_t") == layout_text(btf, "node")
    with pytest.raises(NotFoundError, match="no struct or union is called 'color'"):
        layout_text(btf, "color")
