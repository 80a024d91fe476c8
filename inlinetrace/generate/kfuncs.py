"""Which functions BPF programs may call (kfuncs), as ``.BTF_ids`` of a kernel or module lists them.

The section holds sets that resolve_btfids fills with type ids later: symbols ``__BTF_ID__set8__NAME`` cover a count,
flags, and pairs of id and flags; symbols ``__BTF_ID__func__NAME__N`` lie on the pairs (include/linux/btf_ids.h).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile

_SECTION = ".BTF_ids"
_SET = "__BTF_ID__set8__"
_FUNCTION = "__BTF_ID__func__"
_SET_OF_KFUNCS = 1
_FASTCALL = 1 << 12


def kernel_functions(elf: ElfFile) -> dict[bytes, list[bytes]]:
    """The tags of every kfunc: ``bpf_kfunc``, and ``bpf_fastcall`` where its flags say so.

    Empty without the section.
    """
    section = elf.section(_SECTION)
    data = elf.data(section)
    if section is None or not len(data):
        return {}
    order = "<" if elf.little_endian else ">"
    table = elf.symbols()
    sets = []
    for symbol in table.names_starting_with(_SET):
        at = symbol.address - section.address
        if 0 <= at <= len(data) - 8 and struct.unpack_from(order + "I", data, at + 4)[0] & _SET_OF_KFUNCS:
            sets.append((at, at + symbol.size))
    tags: dict[bytes, list[bytes]] = {}
    if not sets:
        return tags
    for symbol in sorted(table.names_starting_with(_FUNCTION), key=lambda symbol: (symbol.address, symbol.name)):
        at = symbol.address - section.address
        name = symbol.name[len(_FUNCTION) :].rpartition("__")[0]
        if not name or not 0 <= at <= len(data) - 8 or not any(first <= at < last for first, last in sets):
            continue
        found = tags.setdefault(name.encode("utf-8", "surrogateescape"), [])
        if b"bpf_kfunc" not in found:
            found.append(b"bpf_kfunc")
        if struct.unpack_from(order + "I", data, at + 4)[0] & _FASTCALL and b"bpf_fastcall" not in found:
            found.append(b"bpf_fastcall")
    return tags
