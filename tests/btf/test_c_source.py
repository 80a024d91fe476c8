"""C source compiles, means what BTF says, and defines the types that bpftool defines."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from inlinetrace.btf._types import Composite, Enumerator, Member
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.c_source import c_source, declaration
from inlinetrace.btf.kinds import INT_BOOL, INT_SIGNED, Kind
from inlinetrace.btf.load import load
from inlinetrace.btf.reader import Btf
from tests.btf.conftest import output, tool
from tests.btf.samples import fill
from tests.kernels import Kernel

COMPILERS = [
    name for name in ("gcc", "clang", *(f"clang-{version}" for version in range(13, 30))) if shutil.which(name)
]


def compiles(text: str, tmp_path: Path, *options: str) -> None:
    """Compile with everything that is installed; warnings are errors."""
    path = tmp_path / "types.c"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert COMPILERS
    for compiler in COMPILERS:
        output(compiler, "-Wall", "-Werror", "-fsyntax-only", *options, str(path))


def source(btf: Btf, *ids: int) -> str:
    return "".join(c_source(btf, ids or None, asserts=True))


def plain(btf: Btf, *ids: int) -> str:
    return "".join(c_source(btf, ids or None))


@pytest.mark.compiled
def test_every_kind_compiles(tmp_path: Path) -> None:
    text = source(Btf(fill(Builder()).to_bytes()))
    assert text.count("_Static_assert") == 11
    compiles(text, tmp_path)


def test_declarations() -> None:
    builder = Builder()
    integer = builder.add_int("int", 4, INT_SIGNED)
    constant = builder.add_reference(Kind.CONST, integer)
    pointer = builder.add_ptr(constant)
    constant_pointer = builder.add_reference(Kind.CONST, pointer)
    array = builder.add_array(pointer, integer, 3)
    matrix = builder.add_array(builder.add_array(integer, integer, 4), integer, 2)
    to_array = builder.add_ptr(array)
    function = builder.add_func_proto(integer, [("a", pointer), ("", integer)], variadic=True)
    to_function = builder.add_ptr(function)
    table = builder.add_array(to_function, integer, 8)
    returning = builder.add_func_proto(to_function, [])
    to_returning = builder.add_ptr(returning)
    to_array_of_constant = builder.add_ptr(builder.add_reference(Kind.CONST, matrix))
    tagged = builder.add_ptr(builder.add_reference(Kind.TYPE_TAG, integer, "user"))
    btf = Btf(builder.to_bytes())
    for type_id, text in {
        0: "void x",
        integer: "int x",
        pointer: "const int *x",
        constant_pointer: "const int * const x",
        array: "const int *x[3]",
        matrix: "int x[2][4]",
        to_array: "const int *(*x)[3]",
        function: "int x(const int *a, int, ...)",
        to_function: "int (*x)(const int *a, int, ...)",
        table: "int (*x[8])(const int *a, int, ...)",
        to_returning: "int (*(*x)(void))(const int *a, int, ...)",
        to_array_of_constant: "const int (*x)[2][4]",
        tagged: 'int __btf_type_tag("user") *x',
    }.items():
        assert declaration(btf, type_id, "x") == text
    assert declaration(btf, to_function) == "int (*)(const int *a, int, ...)"


def test_definitions_come_in_an_order_that_compiles(tmp_path: Path) -> None:
    builder = Builder()
    later = 4
    alias = builder.add_typedef("inner_t", later)
    pointer = builder.add_ptr(alias)
    outer = builder.add_struct("outer", 16, [Member("p", pointer, 0), Member("value", alias, 64)])
    assert builder.add_struct("inner", 8, [Member("back", 5, 0)]) == later
    builder.add_ptr(outer)
    text = plain(Btf(builder.to_bytes()), outer)
    assert re.findall(r"^(?:struct|typedef) [^;{]+", text, re.M) == [
        "struct inner",
        "typedef struct inner inner_t",
        "struct outer",
        "struct inner ",
        "struct outer ",
    ]
    compiles(text, tmp_path)


def test_a_prototype_with_what_it_needs(tmp_path: Path) -> None:
    builder = fill(Builder())
    btf = Btf(builder.to_bytes())
    text = plain(btf, btf.find("handle")[0])
    assert text.endswith(
        'handle(struct node *self, const char * restrict format, enum color color, ...) __btf_decl_tag("kfunc");\n\n'
    )
    assert "struct node;" in text
    assert "struct node {" not in text
    compiles(text, tmp_path)
    assert plain(btf, btf.find("counter")[0]) == "extern int counter;\n\n"


LAYOUTS: dict[str, tuple[int, list[tuple[str, str, int, int]]]] = {
    "packed": (5, [("a", "char", 0, 0), ("b", "int", 8, 0)]),
    "packed_by_size": (5, [("a", "int", 0, 0), ("b", "char", 32, 0)]),
    "hole_before": (64, [("a", "int", 0, 0), ("b", "int", 256, 0)]),
    "tail": (64, [("a", "long", 0, 0)]),
    "bits": (4, [("a", "int", 0, 3), ("b", "int", 3, 5), ("c", "int", 16, 16)]),
    "bits_after_char": (4, [("a", "char", 0, 0), ("b", "int", 8, 5), ("c", "int", 20, 12)]),
    "bits_of_long": (16, [("a", "long", 0, 40), ("b", "long", 64, 40)]),
    "bits_across": (6, [("a", "int", 0, 30), ("b", "int", 30, 10)]),
    "bits_packed": (3, [("a", "char", 0, 0), ("b", "short", 8, 9), ("c", "short", 17, 7)]),
    "gap_in_bits": (8, [("a", "long", 0, 1), ("b", "long", 63, 1)]),
    "only_tail": (7, []),
    "empty": (0, []),
    "flexible": (4, [("a", "int", 0, 0), ("b", "none", 32, 0)]),
    "wide": (32, [("a", "char", 0, 0), ("b", "wide", 128, 0)]),
    "page": (8192, [("a", "int", 0, 0), ("b", "int", 32768, 0)]),
    "far": (20000, [("a", "int", 0, 0), ("b", "char", 159992, 0)]),
}


@pytest.mark.compiled
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, tmp_path: Path) -> None:
    """Sizes and offsets as asserted; bitfields as pahole reads them back from the compiled object."""
    size, members = LAYOUTS[name]
    builder = Builder(classic=True)
    types = {
        "char": builder.add_int("char", 1, INT_SIGNED),
        "short": builder.add_int("short int", 2, INT_SIGNED),
        "int": builder.add_int("int", 4, INT_SIGNED),
        "long": builder.add_int("long int", 8, INT_SIGNED),
        "wide": builder.add_int("__int128", 16, INT_SIGNED),
    }
    types["none"] = builder.add_array(types["char"], types["int"], 0)
    given = [Member(member, types[kind], offset, width) for member, kind, offset, width in members]
    found = builder.add_struct("node", size, given)
    btf = Btf(builder.to_bytes())
    text = source(btf, found)
    assert "no C struct" not in text
    compiles(text, tmp_path)
    (tmp_path / "object.c").write_text(text + "struct node node;\n")
    output("gcc", "-g", "-gdwarf-4", "-c", "-o", str(tmp_path / "object.o"), str(tmp_path / "object.c"))
    output(tool("pahole"), "-J", str(tmp_path / "object.o"))
    compiled = load(str(tmp_path / "object.o")).get("node")
    assert isinstance(compiled, Composite)
    assert compiled.size == size
    got = [(m.name, m.bit_offset, m.bitfield_size) for m in compiled.members if not m.name.startswith("__hole")]
    assert got == [(m.name, m.bit_offset, m.bitfield_size) for m in given]


def test_a_union_larger_than_its_members_is_aligned(tmp_path: Path) -> None:
    builder = Builder()
    text = builder.add_array(builder.add_int("char", 1), builder.add_int("int", 4), 5)
    union = builder.add_union("u", 8, [Member("text", text, 0)])
    out = source(Btf(builder.to_bytes()), union)
    assert "} __attribute__((aligned(4)));" in out
    compiles(out, tmp_path)


def test_what_no_compiler_lays_out_is_opaque(tmp_path: Path) -> None:
    builder = Builder()
    integer = builder.add_int("int", 4)
    builder.add_struct("overlap", 8, [Member("a", integer, 0), Member("b", integer, 16)])
    text = source(Btf(builder.to_bytes()))
    assert "/* no C struct has its members in these places (size 8, 2 members) */\n\tchar __opaque[8];" in text
    compiles(text, tmp_path)


def test_bitfields_wider_than_their_type_are_opaque(tmp_path: Path) -> None:
    builder = Builder()
    empty = builder.add_struct("", 0, [])
    builder.add_struct("none", 4, [Member("a", empty, 0, 3)])
    builder.add_struct("wide", 4, [Member("a", builder.add_int("char", 1), 0, 9)])
    text = source(Btf(builder.to_bytes()))
    assert text.count("char __opaque[4];") == 2
    compiles(text, tmp_path)


@pytest.mark.compiled
def test_enums_keep_their_sizes(tmp_path: Path) -> None:
    builder = Builder()
    builder.add_enum("byte", 1, [Enumerator("B", 1)])
    builder.add_enum("half", 2, [Enumerator("H", 1)])
    builder.add_enum("word", 4, [Enumerator("W", (1 << 32) - 1)])
    builder.add_enum64("narrow", 8, [Enumerator("N", 1)])
    builder.add_enum64("wide", 8, [Enumerator("X", (1 << 64) - 1)])
    builder.add_enum64("low", 8, [Enumerator("L", -(1 << 63))], signed=True)
    builder.add_enum("none", 4, [])
    builder.add_enum("", 4, [Enumerator("ALONE", 7)])
    text = source(Btf(builder.to_bytes()))
    assert "\tALONE = 7,\n" in text
    assert text.count("_Static_assert") == 6
    compiles(text, tmp_path)


def test_names_that_c_cannot_have(tmp_path: Path) -> None:
    builder = Builder()
    rust = builder.add_int("u32", 4)
    boolean = builder.add_int("bool", 1, INT_BOOL)
    strange = builder.add_int("core::num", 8, INT_SIGNED)
    builder.add_struct("int", 16, [Member("class", rust, 0), Member("for", boolean, 32), Member("a b", strange, 64)])
    builder.add_struct("same", 4, [Member("a", rust, 0)])
    builder.add_struct("same", 8, [Member("a", strange, 0)])
    builder.add_enum("", 4, [Enumerator("SAME", 0)])
    builder.add_enum("", 4, [Enumerator("SAME", 1)])
    builder.add_typedef("__builtin_va_list", rust)
    text = source(Btf(builder.to_bytes()))
    assert "typedef unsigned int u32;" in text
    assert "struct same___2 {" in text
    assert "SAME___2 = 1" in text
    assert "typedef u32 __builtin_va_list" not in text
    compiles(text, tmp_path)


def test_declarations_share_the_tag_of_their_definition() -> None:
    builder = Builder()
    forward = builder.add_fwd("thing")
    holder = builder.add_struct("holder", 8, [Member("p", builder.add_ptr(forward), 0)])
    defined = builder.add_struct("thing", 0, [])
    text = plain(Btf(builder.to_bytes()), holder, defined)
    assert text == "struct thing;\n\nstruct holder {\n\tstruct thing *p;\n};\n\nstruct thing {};\n\n"


def definitions(text: str) -> Counter[tuple[str, str]]:
    """Kind and name of what a header defines, without the numbers of namesakes."""
    found: Counter[tuple[str, str]] = Counter()
    for chunk in re.split(r";\n(?:#endif\n)?\n", text):
        body = re.sub(r"^(?:#.*\n\s*)+", "", chunk.strip())
        if match := re.match(r"(struct|union|enum) (\w+) \{", body):
            found[match[1], re.sub(r"___\d+$", "", match[2])] += 1
        elif match := re.match(r"enum \{\s*(\w+)", body):
            found["enumerators", match[1]] += 1
        elif body.startswith("typedef"):
            last = body.rsplit("\n", 1)[-1]
            name = re.search(
                r"\(\*+ ?(?:const |volatile )?(\w+)(?:\[\d*\])*\)[(\[]|(\w+)\((?!\*).*\)$|(\w+)(?:\[\d+\])*$", last
            )
            assert name is not None, body
            found["typedef", re.sub(r"___\d+$", "", next(filter(None, name.groups())))] += 1
    return found


def check_kernel(path: str, tmp_path: Path, *compilers: str) -> None:
    btf = load(path)
    text = "".join(c_source(btf, asserts=True))
    compiles(text, tmp_path)
    theirs = definitions(output(tool("bpftool"), "btf", "dump", "file", path, "format", "c").decode())
    assert sum(theirs.values()) > 10000
    assert definitions("".join(c_source(btf))) == theirs
    check_members(btf, text, tmp_path, compilers)


def check_members(btf: Btf, text: str, tmp_path: Path, compilers: tuple[str, ...]) -> None:
    """Compile with debug information and let pahole say where all members are, bitfields too."""
    (tmp_path / "all.c").write_text(text, errors="surrogateescape")
    for compiler in compilers:
        command = [compiler, "-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-c", "-o"]
        output(*command, str(tmp_path / "all.o"), str(tmp_path / "all.c"))
        output(tool("pahole"), "-J", "--btf_gen_floats", str(tmp_path / "all.o"))
        compiled = members_of(load(str(tmp_path / "all.o")))
        expected = {key: value for key, value in members_of(btf).items() if len(value) == 1}
        missing = [key for key in expected if key not in compiled]
        assert len(missing) <= 2, missing  # a struct with the name of a union has a number
        assert {key: compiled[key] for key in expected if key in compiled} == {
            key: value for key, value in expected.items() if key in compiled
        }


def members_of(btf: Btf) -> dict[tuple[int, str], list[tuple[int, list[tuple[str, int, int]]]]]:
    found = defaultdict(list)
    for record in btf.types():
        if isinstance(record, Composite) and record.name:
            places = [(member.name, member.bit_offset, member.bitfield_size) for member in record.members]
            found[record.kind, record.name].append((record.size, places))
    return found


@pytest.mark.compiled
def test_running_kernel(running_btf: str, tmp_path: Path) -> None:
    check_kernel(running_btf, tmp_path, "gcc")


@pytest.mark.compiled
def test_the_header_is_good_for_bpf_programs(running_btf: str, tmp_path: Path) -> None:
    (tmp_path / "vmlinux.h").write_text("".join(c_source(load(running_btf))))
    program = '#include "vmlinux.h"\nint pid(struct task_struct *t) { return t->pid; }\n'
    (tmp_path / "program.c").write_text(program)
    command = [
        COMPILERS[-1],
        "-g",
        "-O2",
        "-target",
        "bpf",
        "-c",
        "-o",
        str(tmp_path / "o"),
        str(tmp_path / "program.c"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.compiled
@pytest.mark.kernel
def test_kernels(distribution_kernel: Kernel, tmp_path: Path) -> None:
    check_kernel(str(distribution_kernel.vmlinux), tmp_path, "gcc", COMPILERS[-1])
