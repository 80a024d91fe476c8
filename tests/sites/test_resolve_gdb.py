"""Arithmetic held against gdb: variables with made-up expressions, printed by gdb without running anything."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from inlinetrace.elf.machine import X86_64
from inlinetrace.sites.location import Location
from inlinetrace.sites.model import Unavailable
from inlinetrace.sites.resolve import Context, resolve
from tests.dwarf.expression_writer import number, op, sleb, uleb

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(not shutil.which("gdb") or not shutil.which("as"), reason="needs gdb and as"),
]

# name, DW_ATE, bytes; each is one DIE of 5 bytes behind the unit's header and DIE.
TYPES = [(b"U", 7, 8), (b"i", 5, 4), (b"u", 7, 4), (b"l", 5, 8), (b"d", 4, 8), (b"f", 4, 4), (b"c", 8, 1)]
HEADER = number(5, 2) + b"\x01\x08" + number(0, 4)
UNIT = b"\x01" + number(0x0C, 2)
FIRST_TYPE = 4 + len(HEADER) + len(UNIT)
OFFSET = {name: FIRST_TYPE + 5 * index for index, (name, _, _) in enumerate(TYPES)}
BY_OFFSET = {OFFSET[name]: (encoding, size) for name, encoding, size in TYPES}
# DW_TAG_compile_unit (language), base_type (name, encoding, byte_size), variable (name, type, location).
ABBREVIATIONS = bytes.fromhex(
    "01 11 01 1305 0000  02 24 00 0308 3e0b 0b0b 0000  03 34 00 0308 4913 0218 0000  00".replace(" ", "")
)


def consts(value: int) -> bytes:
    return op("consts", sleb(value))


def converted(*names: bytes) -> bytes:
    return b"".join(op("convert", uleb(OFFSET[name])) for name in names)


def expressions() -> list[bytes]:
    values = (0, 1, 7, -1, -7, 2**31, -(2**63), 0x1234567890)
    binary = ("div", "mod", "shr", "shra", "shl", "lt", "le", "gt", "ge", "eq", "ne", "minus", "mul", "plus", "and")
    found = []
    for left, right in itertools.product(values, (1, 3, -2, 9)):
        shifts = binary if right >= 0 else [known for known in binary if not known.startswith("sh")]
        for known in shifts:
            found.append(consts(left) + consts(right) + op(known))
            if known not in ("shl", "shr", "shra"):
                for name in (b"i", b"u", b"l"):
                    typed = consts(left) + converted(name) + consts(right) + converted(name) + op(known)
                    compared = known in ("lt", "le", "gt", "ge", "eq", "ne")
                    found.append(typed + (b"" if compared else op("convert", uleb(0))))
    for value in values:
        for names in (
            (b"i", b"l"),
            (b"u", b"l"),
            (b"c", b"u"),
            (b"i", b"d", b"l"),
            (b"u", b"f", b"i"),
            (b"l", b"d", b"l"),
        ):
            found.append(consts(value) + converted(*names) + op("convert", uleb(0)))
        for known in ("neg", "not", "abs"):
            found.append(consts(value) + op(known))
            found.append(consts(value) + converted(b"i") + op(known) + op("convert", uleb(0)))
        found.append(
            consts(value) + converted(b"i") + op("lit1") + converted(b"i") + op("shr") + op("convert", uleb(0))
        )
        found.append(
            consts(value) + converted(b"u") + op("lit1") + converted(b"u") + op("shra") + op("convert", uleb(0))
        )
    return [found_one + op("stack_value") for found_one in found]


def printed_by_gdb(directory: Path, found: list[bytes]) -> list[str]:
    dies = b"".join(b"\x02" + name + b"\0" + bytes([encoding, size]) for name, encoding, size in TYPES)
    for index, data in enumerate(found):
        dies += b"\x03" + b"v%d\0" % index + number(OFFSET[b"U"], 4) + uleb(len(data)) + data
    unit = HEADER + UNIT + dies + b"\0"
    info = number(len(unit), 4) + unit
    lines = []
    for section, data in ((".debug_info", info), (".debug_abbrev", ABBREVIATIONS)):
        lines.append(f'.section {section},"",@progbits')
        lines += [".byte " + ",".join(map(str, data[i : i + 64])) for i in range(0, len(data), 64)]
    source, target, script = directory / "made.s", directory / "made.o", directory / "commands"
    source.write_text("\n".join(lines) + "\n")
    subprocess.run(["as", "-o", target, source], check=True)
    script.write_text("".join(f"output v{index}\necho \\n\n" for index in range(len(found))))
    command = ["gdb", "-nx", "-batch", "-ex", "set language c", "-x", str(script), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout.splitlines()


def test_gdb_computes_the_same(tmp_path: Path) -> None:
    found = expressions()
    printed = printed_by_gdb(tmp_path, found)
    assert len(printed) == len(found)
    context = Context(X86_64, 8, 4, True, 5, size=8, base_type=BY_OFFSET.get)
    different = []
    undefined = 0
    for data, theirs in zip(found, printed, strict=True):
        location = resolve(data, context)
        assert isinstance(location, Location), (data.hex(), location)
        ours = location.evaluate([])
        if isinstance(ours, Unavailable):
            # Only the remainder of signed numbers with different signs, of which DWARF does not say what it is.
            assert op("mod") in data
            undefined += 1
            continue
        if str(int.from_bytes(ours, "little")) != theirs:
            different.append((data.hex(), location.text(X86_64), int.from_bytes(ours, "little"), theirs))
    assert not different, different[:5]
    assert undefined < len(found) / 50
