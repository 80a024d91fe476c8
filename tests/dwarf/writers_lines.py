"""A small declarative writer for line programs.

::

    line = LineWriter(version=5, directories=["/src"], files=[("a.c", 0)])
    line.set_address(0x1000)
    line.row(advance=4, line=1)
    line.end(advance=8)
    LineProgram(line.data, 0)
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.dwarf.writers_frames import sleb, uleb

LINE_BASE = -5
LINE_RANGE = 14
OPCODE_BASE = 13
OPERANDS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])


class LineWriter:
    """Writes the table of one unit; ``address_fields`` are the offsets of the operands of DW_LNE_set_address."""

    def __init__(
        self,
        *,
        version: int = 5,
        directories: Sequence[str] = ("/src",),
        files: Sequence[tuple[str, int]] = (("a.c", 0),),
        little_endian: bool = True,
        wide: bool = False,
        address_size: int = 8,
        min_instruction_length: int = 1,
        max_operations: int = 1,
        default_is_stmt: bool = True,
        extra_operands: bytes = b"",
        tables: bytes | None = None,
    ) -> None:
        self.version = version
        self.little_endian = little_endian
        self.wide = wide
        self.address_size = address_size
        self.opcode_base = OPCODE_BASE + len(extra_operands)
        self.program = bytearray()
        self._fields: list[int] = []
        header = bytes([min_instruction_length])
        if version >= 4:
            header += bytes([max_operations])
        header += bytes([default_is_stmt, LINE_BASE % 256, LINE_RANGE, self.opcode_base]) + OPERANDS + extra_operands
        self._header = header + (self._tables(directories, files) if tables is None else tables)

    def number(self, value: int, size: int) -> bytes:
        return (value % (1 << (8 * size))).to_bytes(size, "little" if self.little_endian else "big")

    def _tables(self, directories: Sequence[str], files: Sequence[tuple[str, int]]) -> bytes:
        if self.version >= 5:
            out = bytes([1, 1, 0x08]) + uleb(len(directories))
            out += b"".join(name.encode() + b"\0" for name in directories)
            out += bytes([2, 1, 0x08, 2, 0x0B]) + uleb(len(files))
            return out + b"".join(name.encode() + b"\0" + bytes([index]) for name, index in files)
        out = b"".join(name.encode() + b"\0" for name in directories) + b"\0"
        return out + b"".join(name.encode() + b"\0" + uleb(index) + b"\0\0" for name, index in files) + b"\0"

    def _prologue(self) -> bytes:
        out = self.number(self.version, 2)
        if self.version >= 5:
            out += bytes([self.address_size, 0])
        return out + self.number(len(self._header), 8 if self.wide else 4) + self._header

    @property
    def data(self) -> bytes:
        body = self._prologue() + self.program
        if self.wide:
            return b"\xff\xff\xff\xff" + self.number(len(body), 8) + body
        return self.number(len(body), 4) + body

    @property
    def address_fields(self) -> list[int]:
        start = (12 if self.wide else 4) + len(self._prologue())
        return [start + field for field in self._fields]

    def raw(self, data: bytes) -> None:
        self.program += data

    def extended(self, operation: int, data: bytes = b"") -> None:
        self.program += b"\0" + uleb(1 + len(data)) + bytes([operation]) + data

    def set_address(self, address: int) -> None:
        self._fields.append(len(self.program) + 3)
        self.extended(2, self.number(address, self.address_size))

    def copy(self) -> None:
        self.program += b"\x01"

    def row(self, advance: int = 0, line: int = 0) -> None:
        """A special opcode."""
        opcode = line - LINE_BASE + LINE_RANGE * advance + self.opcode_base
        assert opcode < 256
        self.program.append(opcode)

    def advance_pc(self, operations: int) -> None:
        self.program += b"\x02" + uleb(operations)

    def advance_line(self, lines: int) -> None:
        self.program += b"\x03" + sleb(lines)

    def set_file(self, index: int) -> None:
        self.program += b"\x04" + uleb(index)

    def set_column(self, column: int) -> None:
        self.program += b"\x05" + uleb(column)

    def negate_stmt(self) -> None:
        self.program += b"\x06"

    def basic_block(self) -> None:
        self.program += b"\x07"

    def const_add_pc(self) -> None:
        self.program += b"\x08"

    def fixed_advance_pc(self, distance: int) -> None:
        self.program += b"\x09" + self.number(distance, 2)

    def end(self, advance: int = 0) -> None:
        if advance:
            self.advance_pc(advance)
        self.extended(1)
