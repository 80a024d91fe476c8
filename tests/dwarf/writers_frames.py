"""A small declarative writer for call frame information, and the instructions to put into it.

::

    writer = FrameWriter(eh=False)
    cie = writer.cie(def_cfa(7, 8) + offset(16, 1))
    writer.fde(cie, 0x1000, 0x40, advance(1) + def_cfa_offset(16))
    FrameTable(writer.data, eh=False, section=".debug_frame")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


def uleb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def sleb(value: int) -> bytes:
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        done = value == (-1 if byte & 0x40 else 0)
        out.append(byte | (0 if done else 0x80))
        if done:
            return bytes(out)


def advance(delta: int) -> bytes:
    """DW_CFA_advance_loc, with a factored delta below 64."""
    return bytes([0x40 | delta])


def offset(register: int, factored: int) -> bytes:
    return bytes([0x80 | register]) + uleb(factored)


def restore(register: int) -> bytes:
    return bytes([0xC0 | register])


def def_cfa(register: int, distance: int) -> bytes:
    return b"\x0c" + uleb(register) + uleb(distance)


def def_cfa_sf(register: int, factored: int) -> bytes:
    return b"\x12" + uleb(register) + sleb(factored)


def def_cfa_register(register: int) -> bytes:
    return b"\x0d" + uleb(register)


def def_cfa_offset(distance: int) -> bytes:
    return b"\x0e" + uleb(distance)


def def_cfa_offset_sf(factored: int) -> bytes:
    return b"\x13" + sleb(factored)


def def_cfa_expression(expression: bytes) -> bytes:
    return b"\x0f" + uleb(len(expression)) + expression


REMEMBER = b"\x0a"
RESTORE = b"\x0b"
NOP = b"\x00"


@dataclass(frozen=True)
class Cie:
    """What the writer must know of an entry to write functions that refer to it."""

    offset: int
    encoding: int
    augmented: bool
    address_size: int
    segment_size: int


class FrameWriter:
    """Writes one section; ``data`` is what has been written."""

    def __init__(self, *, eh: bool, address: int = 0, little_endian: bool = True, address_size: int = 8) -> None:
        self.eh = eh
        self.address = address
        self.order: Literal["little", "big"] = "little" if little_endian else "big"
        self.address_size = address_size
        self.out = bytearray()
        self.fields: list[int] = []

    @property
    def data(self) -> bytes:
        return bytes(self.out)

    def number(self, value: int, size: int) -> bytes:
        return (value % (1 << (8 * size))).to_bytes(size, self.order)

    def _entry(self, body: bytes, wide: bool) -> None:
        if wide:
            self.out += b"\xff\xff\xff\xff" + self.number(len(body), 8) + body
        else:
            self.out += self.number(len(body), 4) + body

    def cie(
        self,
        program: bytes = b"",
        *,
        version: int = 1,
        augmentation: bytes = b"",
        augmentation_data: bytes = b"",
        encoding: int = 0,
        code_alignment: int = 1,
        data_alignment: int = -8,
        return_register: int = 16,
        address_size: int | None = None,
        segment_size: int = 0,
        wide: bool = False,
    ) -> Cie:
        start = len(self.out)
        size = self.address_size if address_size is None else address_size
        body = self.number(0, 4) if self.eh else b"\xff" * (8 if wide else 4)
        body += bytes([version]) + augmentation + b"\0"
        if version >= 4:
            body += bytes([size, segment_size])
        body += uleb(code_alignment) + sleb(data_alignment)
        body += bytes([return_register]) if version == 1 else uleb(return_register)
        augmented = augmentation.startswith(b"z")
        if augmented:
            body += uleb(len(augmentation_data)) + augmentation_data
        self._entry(body + program, wide)
        return Cie(start, encoding, augmented, size, segment_size)

    def fde(
        self,
        cie: Cie,
        start: int,
        size: int,
        program: bytes = b"",
        *,
        wide: bool = False,
        augmentation_data: bytes = b"",
    ) -> int:
        """Write a function; the offset of its entry is returned."""
        at = len(self.out)
        pointer_at = at + (12 if wide else 4)
        if self.eh:
            body = self.number(pointer_at - cie.offset, 4)
        else:
            body = self.number(cie.offset, 8 if wide else 4)
        body += bytes(cie.segment_size)
        field = pointer_at + len(body)
        self.fields.append(field)
        body += self.pointer(start, cie, field) + self.pointer(size, cie, None)
        if cie.augmented:
            body += uleb(len(augmentation_data)) + augmentation_data
        self._entry(body + program, wide)
        return at

    def pointer(self, value: int, cie: Cie, field: int | None) -> bytes:
        """An address in the encoding of ``cie``; ``field`` is its offset, None for a length."""
        if field is not None and cie.encoding & 0x70 == 0x10:
            value -= self.address + field
        form = cie.encoding & 0x0F
        if form == 0x01:
            return uleb(value)
        if form == 0x09:
            return sleb(value)
        return self.number(value, {0: cie.address_size, 2: 2, 3: 4, 4: 8, 0xA: 2, 0xB: 4, 0xC: 8}[form])

    def terminator(self) -> None:
        self.out += bytes(4)
