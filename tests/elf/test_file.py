from __future__ import annotations

import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from elftools.elf.elffile import ELFFile as OtherReader

from inlinetrace.elf import ElfFile
from inlinetrace.errors import FormatError, NotFoundError, UnsupportedError
from tests.elf.elfwriter import Code, Sec, Seg, Sym, elf_file

NOTE = struct.pack("<III4s4s", 4, 4, 3, b"GNU\0", b"\x01\x02\x03\x04")
LAYOUTS = [(64, True), (64, False), (32, True), (32, False)]


@pytest.mark.parametrize(("bits", "little"), LAYOUTS)
def test_header_and_sections_of_every_class_and_byte_order(bits: int, little: bool) -> None:
    data = elf_file([Code(".text", b"\x90\xc3", 0x1000), Sec(".data", b"abc")], bits=bits, little=little, machine=22)
    elf = ElfFile.from_bytes(data)
    assert (elf.address_size, elf.little_endian, elf.machine.name) == (bits // 8, little, "s390x")
    assert [section.name for section in elf.sections] == ["", ".text", ".data", ".shstrtab"]
    text = elf.section(".text")
    assert text is not None
    assert (text.executable, text.allocated, text.nobits, text.address) == (True, True, False, 0x1000)
    assert bytes(elf.data(".text")) == b"\x90\xc3"
    assert bytes(elf.data(text)) == b"\x90\xc3"


def test_contents_are_read_only_contiguous_and_cached() -> None:
    elf = ElfFile.from_bytes(elf_file([Sec(".data", b"abc")]))
    view = elf.data(".data")
    assert (view.readonly, view.contiguous, view.format) == (True, True, "B")
    assert elf.data(".data") is view


def test_missing_and_nobits_sections_are_empty() -> None:
    elf = ElfFile.from_bytes(elf_file([Sec(".bss", type=8, size=1 << 40)]))
    assert len(elf.data(".bss")) == 0
    assert len(elf.data(".nothing")) == 0
    assert elf.section(".nothing") is None


def test_sections_of_one_name() -> None:
    elf = ElfFile.from_bytes(elf_file([Sec(".group", b"1"), Sec(".group", b"2")]))
    assert [bytes(elf.data(section)) for section in elf.sections_named(".group")] == [b"1", b"2"]
    assert bytes(elf.data(".group")) == b"1"


@pytest.mark.parametrize(
    "compress",
    [
        gzip.compress,
        lzma.compress,
        zstandard.ZstdCompressor().compress,
        lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data),
        lambda data: gzip.compress(data[:100]) + gzip.compress(data[100:]),
        lambda data: lzma.compress(data[:100]) + bytes(8) + lzma.compress(data[100:]),
        lambda data: zstandard.compress(data[:100]) + zstandard.compress(data[100:]),
    ],
)
def test_compressed_files(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    plain = elf_file([Sec(".data", bytes(range(256)) * 40000)])
    path = tmp_path / "module"
    path.write_bytes(compress(plain))
    elf = ElfFile.open(path)
    assert elf.file_size == len(plain)
    assert bytes(elf.data(".data")) == bytes(range(256)) * 40000


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, zstandard.compress])
def test_cut_off_compressed_files(compress: Callable[[bytes], bytes]) -> None:
    whole = compress(elf_file([Sec(".data", os.urandom(20000))]))
    for size in (7, 20, len(whole) // 2, len(whole) - 1):
        with pytest.raises(FormatError):
            ElfFile.from_bytes(whole[:size])


@pytest.mark.parametrize("kind", ["gzip", "xz", "zstd"])
def test_decompression_bomb_stops_at_the_limit(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inlinetrace.elf.compressed.MAX_DECOMPRESSED", 1 << 20)
    compressors: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "xz": lzma.compress,
        "zstd": zstandard.compress,
    }
    with pytest.raises(FormatError, match="more than 1048576 bytes"):
        ElfFile.from_bytes(compressors[kind](bytes(30 << 20)))


def compressed_section(contents: bytes, kind: int, size: int, bits: int, little: bool) -> bytes:
    order = "<" if little else ">"
    header = struct.pack(order + "IIQQ", kind, 0, size, 1) if bits == 64 else struct.pack(order + "III", kind, size, 1)
    return header + contents


@pytest.mark.parametrize(("bits", "little"), LAYOUTS)
@pytest.mark.parametrize(("kind", "compress"), [(1, zlib.compress), (2, zstandard.compress)])
def test_compressed_sections(bits: int, little: bool, kind: int, compress: Callable[[bytes], bytes]) -> None:
    text = b"inlined" * 1000
    packed = compressed_section(compress(text), kind, len(text), bits, little)
    elf = ElfFile.from_bytes(elf_file([Sec(".debug_info", packed, flags=0x800)], bits=bits, little=little))
    assert bytes(elf.data(".debug_info")) == text


def test_zdebug_sections_are_found_by_their_plain_name() -> None:
    packed = b"ZLIB" + struct.pack(">Q", 700) + zlib.compress(b"inlined" * 100)
    elf = ElfFile.from_bytes(elf_file([Sec(".zdebug_str", packed)]))
    assert bytes(elf.data(".debug_str")) == b"inlined" * 100


@pytest.mark.parametrize("claimed", [0, 699, 701, 1 << 62])
def test_a_wrong_size_of_a_compressed_section(claimed: int) -> None:
    packed = compressed_section(zlib.compress(b"inlined" * 100), 1, claimed, 64, True)
    elf = ElfFile.from_bytes(elf_file([Sec(".debug_info", packed, flags=0x800)]))
    with pytest.raises(FormatError, match="bytes") as caught:
        elf.data(".debug_info")
    assert caught.value.section == ".debug_info"


def test_an_unknown_compression() -> None:
    packed = compressed_section(b"", 7, 4, 64, True)
    with pytest.raises(UnsupportedError, match="compression type 7"):
        ElfFile.from_bytes(elf_file([Sec(".debug_info", packed, flags=0x800)])).data(".debug_info")


def test_seventy_thousand_sections() -> None:
    count = 70000
    sections = [Sec(f".text.{i % 7}", bytes([i & 255]), flags=6) for i in range(count)]
    sections[-1].name = ".last"
    data = elf_file(sections, symbols=[Sym("far", 0, 1, section=".last"), Sym("near", 0, 1, section=".text.0")], type=1)
    elf = ElfFile.from_bytes(data)
    last = elf.section(".last")
    assert last is not None
    assert last.index == count
    assert bytes(elf.data(last)) == bytes([(count - 1) & 255])
    other = OtherReader(io.BytesIO(data))
    assert other.num_sections() == len(elf.sections)
    assert other.get_section(count).name == ".last"
    (far,) = elf.symbols().named("far")
    assert far.section_index == count
    found = elf.symbols().lookup(last.address)
    assert found is not None
    assert found[0].name == "far"


def test_build_id_from_a_section_and_from_a_segment() -> None:
    sectioned = elf_file([Sec(".note.gnu.build-id", NOTE, type=7, alignment=4)])
    assert ElfFile.from_bytes(sectioned).build_id == b"\x01\x02\x03\x04"
    data = bytearray(elf_file([Sec("x", NOTE, alignment=4)], segments=[Seg(0, 64 + 56, len(NOTE), len(NOTE), type=4)]))
    data[40:48] = bytes(8)
    assert ElfFile.from_bytes(bytes(data)).build_id == b"\x01\x02\x03\x04"
    assert ElfFile.from_bytes(elf_file([])).build_id is None


def test_links() -> None:
    sections = [
        Sec(".gnu_debuglink", b"a.debug\0" + struct.pack("<I", 0x12345678)),
        Sec(".gnu_debugaltlink", b"../x.debug\0\xaa\xbb"),
    ]
    elf = ElfFile.from_bytes(elf_file(sections))
    assert elf.debug_link == ("a.debug", 0x12345678)
    assert elf.debug_alt_link == ("../x.debug", b"\xaa\xbb")
    bare = ElfFile.from_bytes(elf_file([]))
    assert bare.debug_link is None
    assert bare.debug_alt_link is None


def test_addresses_and_file_offsets() -> None:
    segments = [Seg(0x1000, 0x200, 0x100, 0x180), Seg(0x8000, 0x300, 0x10, 0x10)]
    elf = ElfFile.from_bytes(
        elf_file([Code(".text", bytes(16), 0x1000), Code(".b", bytes(4), 0x8000)], segments=segments)
    )
    assert elf.file_offset(0x1000) == 0x200
    assert elf.file_offset(0x10FF) == 0x2FF
    assert elf.file_offset(0x1100) is None
    assert elf.address_of(0x305) == 0x8005
    assert elf.address_of(0x310) is None
    found = elf.section_at(0x100F)
    assert found is not None
    assert found.name == ".text"
    assert elf.section_at(0x1010) is None
    assert elf.section_at(0xFFF) is None


def resident(path: Path) -> int:
    """Kilobytes of a mapped file that this process has in memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(
        int(next(line for line in lines if line.startswith("Rss:")).split()[1])
        for at in lines
        if at.endswith(str(path))
    )


def test_pages_that_were_let_go_come_back(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(elf_file([Sec(".data", bytes(range(256)) * 4096)]))
    elf = ElfFile.open(path)
    contents = bytes(elf.data(".data"))
    assert resident(path) >= 1024
    elf.forget_pages()
    assert resident(path) == 0
    assert bytes(elf.data(".data")) == contents
    # what is not mapped stays
    ElfFile.from_bytes(path.read_bytes()).forget_pages()


def test_what_is_no_elf_file(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file"):
        ElfFile.open(tmp_path / "nothing")
    with pytest.raises(FormatError, match="not a regular file"):
        ElfFile.open(tmp_path)
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(FormatError, match="empty"):
        ElfFile.open(empty)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FormatError, match="not a regular file"):
        ElfFile.open(tmp_path / "fifo")
    text = tmp_path / "text"
    text.write_text("#!/bin/sh\n")
    with pytest.raises(FormatError, match="not an ELF file"):
        ElfFile.open(text)


@pytest.mark.parametrize(("address", "size"), [((1 << 64) - 16, 17), ((1 << 64) - 1, 1), (0x1000, (1 << 64) - 248)])
def test_sections_beyond_the_last_address(address: int, size: int) -> None:
    """Whoever counts with their ends would count with others."""
    data = bytearray(elf_file([Code(".text", b"\x90", 0x1000), Sec(".note", b"x")]))
    (at,) = struct.unpack_from("<Q", data, 0x28)
    index = ElfFile.from_bytes(bytes(data)).section(".text")
    assert index is not None
    struct.pack_into("<Q", data, at + 64 * index.index + 0x10, address)
    struct.pack_into("<Q", data, at + 64 * index.index + 0x20, size)
    with pytest.raises(FormatError, match=r"\.text reaches beyond the last address"):
        _ = ElfFile.from_bytes(bytes(data)).sections


def test_sections_beyond_the_file_are_named() -> None:
    elf = ElfFile.from_bytes(elf_file([Sec(".data", b"abc", size=1 << 60)]))
    with pytest.raises(FormatError, match="beyond the end of the file") as caught:
        elf.data(".data")
    assert caught.value.section == ".data"


@pytest.mark.parametrize("path", [sys.executable, "/bin/ls", "/lib/x86_64-linux-gnu/libc.so.6"])
def test_agrees_with_pyelftools_and_readelf(path: str) -> None:
    elf = ElfFile.open(path)
    with Path(path).open("rb") as file:
        other = OtherReader(file)
        assert len(elf.sections) == other.num_sections()
        for section, theirs in zip(elf.sections, other.iter_sections(), strict=True):
            h = theirs.header
            assert section.name == theirs.name
            assert (section.address, section.offset, section.size) == (h.sh_addr, h.sh_offset, h.sh_size)
            assert (section.flags, section.link, section.info) == (h.sh_flags, h.sh_link, h.sh_info)
            assert (section.alignment, section.entry_size) == (h.sh_addralign, h.sh_entsize)
            if not section.nobits:
                assert bytes(elf.data(section)) == theirs.data()
        loads = [s for s in other.iter_segments() if s.header.p_type == "PT_LOAD"]
        assert [(s.address, s.offset, s.file_size) for s in elf.segments] == [
            (s.header.p_vaddr, s.header.p_offset, s.header.p_filesz) for s in loads
        ]
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    assert elf.build_id is not None
    assert f"Build ID: {elf.build_id.hex()}" in notes
