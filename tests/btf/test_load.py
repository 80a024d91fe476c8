"""Where BTF comes from: files, sysfs, ELF sections, and what is said when it is not there."""

from __future__ import annotations

import errno
import gzip
import lzma
import os
from pathlib import Path

import pytest

from inlinetrace.btf import load as module
from inlinetrace.btf._text import render
from inlinetrace.btf.builder import Builder
from inlinetrace.btf.c_source import c_source
from inlinetrace.btf.encode import reencode
from inlinetrace.btf.kinds import Dialect, Kind
from inlinetrace.btf.load import load, read_blob
from inlinetrace.btf.reader import Btf
from inlinetrace.btf.validate import validate
from inlinetrace.errors import FormatError, InlineTraceError, NotFoundError, UnsupportedError
from tests.btf.conftest import output, tool
from tests.btf.examples import APRIL_BLOB, SPLIT_INLINE, SPLIT_MAIN
from tests.btf.samples import everything
from tests.btf.test_c_source import COMPILERS
from tests.btf.test_layout import PROGRAM, compare
from tests.elf.elfwriter import Sec, elf_file


def split(base: bytes, name: str) -> bytes:
    builder = Builder(Btf(base))
    builder.add_typedef(name, 1)
    return builder.to_bytes()


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A tree like /sys/kernel/btf with a kernel, a module and the inline objects of both."""
    folder = tmp_path / "sys/kernel/btf"
    folder.mkdir(parents=True)
    vmlinux = everything()
    module_data = split(vmlinux, "module_t")
    (folder / "vmlinux").write_bytes(vmlinux)
    (folder / "nf_nat").write_bytes(module_data)
    for name, chain in (("vmlinux.inline", [vmlinux]), ("nf_nat.inline", [vmlinux, module_data])):
        base = None
        for data in chain:
            base = Btf(data, base)
        builder = Builder(base)
        builder.add_typedef("inline_t", 1)
        (folder / name).write_bytes(builder.to_bytes())
    return folder


def test_sysfs_files_find_their_bases(sysfs: Path) -> None:
    depth = {"vmlinux": 1, "nf_nat": 2, "vmlinux.inline": 2, "nf_nat.inline": 3}
    for name, count in depth.items():
        assert len(load(str(sysfs / name)).chain) == count
    assert load(str(sysfs / "nf_nat.inline")).find("module_t") != []


def test_extra_files_of_the_rfc(sysfs: Path) -> None:
    extra = sysfs.parent / "btf_extra"
    extra.mkdir()
    (extra / "vmlinux").write_bytes(split(everything(), "extra_t"))
    assert load(str(extra / "vmlinux")).find("extra_t") != []


def test_a_size_of_zero_means_nothing(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(sysfs / "vmlinux.inline")
    expected = Path(path).read_bytes()
    real = os.fstat

    def without_size(descriptor: int) -> os.stat_result:
        values = list(real(descriptor))
        values[6] = 0
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", without_size)
    assert read_blob(path) == expected


@pytest.mark.parametrize(
    ("name", "missing"), [("vmlinux.inline", "btf_vmlinux_inline"), ("nf_nat.inline", "nf_nat"), ("xfs", "xfs")]
)
def test_enodev_names_the_module(name: str, missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, flags: int) -> int:
        raise OSError(errno.ENODEV, "No such device", path)

    monkeypatch.setattr(module, "_opener", refuse)
    with pytest.raises(NotFoundError, match=f"the module {missing} is missing"):
        read_blob(f"/sys/kernel/btf/{name}")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        load(str(tmp_path / "none"))
    with pytest.raises(InlineTraceError):
        load(str(tmp_path))
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FormatError, match="not a regular file"):
        load(str(tmp_path / "fifo"))
    (tmp_path / "text").write_text("hello, this is no BTF at all")
    with pytest.raises(FormatError, match="magic") as caught:
        load(str(tmp_path / "text"))
    assert caught.value.path == str(tmp_path / "text")


def elf(path: Path, **sections: bytes) -> str:
    names = {name.replace("_", ".", 1).replace("BTF_", "BTF."): data for name, data in sections.items()}
    path.write_bytes(elf_file([Sec(name, data) for name, data in names.items()]))
    return str(path)


def test_sections_of_an_elf_file(tmp_path: Path) -> None:
    path = elf(tmp_path / "vmlinux", _BTF=SPLIT_MAIN, _BTF_inline=SPLIT_INLINE)
    main = load(path)
    assert (main.section, main.end_id) == (".BTF", 4)
    inline = load(path, section=".BTF.inline")
    assert (inline.section, inline.dialect, len(inline.chain)) == (".BTF.inline", Dialect.V2, 2)
    only = elf(tmp_path / "inline", _BTF_inline=SPLIT_INLINE)
    with pytest.raises(FormatError, match="name it"):
        load(only)
    assert load(only, [path]).end_id == 8
    with pytest.raises(NotFoundError, match="does not exist"):
        load(path, section=".BTF.extra")


def test_distilled_base(tmp_path: Path) -> None:
    distilled = Builder()
    distilled.add_int("int", 4)
    distilled.add_struct("sk_buff", 240, [])
    base = distilled.to_bytes()
    path = elf(tmp_path / "out.ko", _BTF=split(base, "module_t"), _BTF_base=base)
    found = load(path)
    assert [layer.section for layer in found.chain] == [".BTF.base", ".BTF"]
    assert found.size_of(found.find("sk_buff", Kind.STRUCT)[0]) == 240


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_compressed_modules(tmp_path: Path, pack: object) -> None:
    vmlinux = everything()
    (tmp_path / "vmlinux.btf").write_bytes(vmlinux)
    plain = elf(tmp_path / "a.ko", _BTF=split(vmlinux, "module_t"))
    packed = tmp_path / "a.ko.packed"
    packed.write_bytes(pack(Path(plain).read_bytes()))  # type: ignore[operator]
    assert load(str(packed), [str(tmp_path / "vmlinux.btf")]).find("module_t") != []


@pytest.mark.compiled
def test_bpf_objects_are_read_as_they_are(tmp_path: Path) -> None:
    """Their .BTF has relocations; bpftool does not apply them either."""
    clang = COMPILERS[-1]
    (tmp_path / "a.c").write_text(BPF_PROGRAM)
    output(clang, "-g", "-O2", "-target", "bpf", "-c", "-o", str(tmp_path / "a.o"), str(tmp_path / "a.c"))
    btf = load(str(tmp_path / "a.o"))
    text = render(btf.index, range(1, btf.end_id), False, True)
    assert text == output(tool("bpftool"), "btf", "dump", "file", str(tmp_path / "a.o"))
    assert b"DATASEC 'license'" in text
    assert validate(btf, strict=True) == []


@pytest.mark.compiled
@pytest.mark.parametrize("target", ["s390x", "aarch64", "powerpc64le", "riscv64"])
def test_other_machines(target: str, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text(PROGRAM)
    output(f"{target}-linux-gnu-gcc", "-g", "-gdwarf-4", "-c", "-o", str(tmp_path / "a.o"), str(tmp_path / "a.c"))
    output(tool("pahole"), "-J", str(tmp_path / "a.o"))
    btf = load(str(tmp_path / "a.o"))
    assert btf.byte_order == ("big" if target.startswith("s390x") else "little")
    text = render(btf.index, range(1, btf.end_id), False, True)
    assert text == output(tool("bpftool"), "btf", "dump", "file", str(tmp_path / "a.o"))
    assert validate(btf, strict=True) == []
    assert reencode(btf) == btf.data
    (tmp_path / "b.c").write_text("".join(c_source(btf, asserts=True)))
    output(f"{target}-linux-gnu-gcc", "-Wall", "-Werror", "-fsyntax-only", str(tmp_path / "b.c"))
    assert compare(str(tmp_path / "a.o"), ["inner", "bits", "nested", "aligned", "packed"]) == 5


BPF_PROGRAM = """
#define SEC(name) __attribute__((section(name)))
struct { int (*type)[1]; int *key; } map SEC(".maps");
int counter;
static volatile const int limit = 3;
struct pair { int first; int second; };
SEC("kprobe/x") int program(struct pair *pair) { counter += pair->first + limit; return pair->second; }
char _license[] SEC("license") = "GPL";
"""


def test_april_section_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    path.write_bytes(elf_file([Sec(".BTF_inline", APRIL_BLOB)]))
    with pytest.raises(UnsupportedError, match="April-2025"):
        load(str(path))
    (tmp_path / "blob").write_bytes(APRIL_BLOB)
    with pytest.raises(UnsupportedError, match="April-2025"):
        load(str(tmp_path / "blob"))


def test_an_elf_file_without_btf(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"no section \.BTF"):
        load(elf(tmp_path / "a", text=b"\x90"))
    (tmp_path / "blob").write_bytes(everything())
    with pytest.raises(NotFoundError, match="no ELF file"):
        load(str(tmp_path / "blob"), section=".BTF")
