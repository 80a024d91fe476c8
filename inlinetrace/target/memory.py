"""Whether the machine has the memory that reading DWARF takes, told before the kernel has to kill somebody.

>>> require_memory(Host(), image, ["vfs_llseek"])        # InlineTraceError if it certainly has not
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inlinetrace.errors import InlineTraceError

if TYPE_CHECKING:
    from inlinetrace.target.host import Host
    from inlinetrace.target.image import Image

# Measured with kernels: 0.6 to 0.65 bytes for each byte of the units that are scanned, and 20 MB for the rest. To show
# every site is to read the units again, in the order of addresses: without room for their pages that takes minutes.
_SHARE = 0.65
_AGAIN = 1.0
_FIXED = 20 << 20
_MEGABYTE = 1 << 20


def available_memory(host: Host) -> int | None:
    """Bytes that can be had without anybody being killed, swap included; None if the machine does not say."""
    try:
        text = host.read_text("/proc/meminfo")
    except OSError:
        return None
    found = {name: int(size) << 10 for name, size in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)}
    if "MemAvailable" not in found:
        return None
    return found["MemAvailable"] + found.get("SwapFree", 0)


def require_memory(host: Host, image: Image, names: Sequence[str] | None, *, every_site: bool = False) -> None:
    """Raise InlineTraceError if there is too little memory to read of ``image`` what functions of some names need.

    None stands for all functions; ``every_site`` tells that not only their names are wanted.
    """
    have = available_memory(host)
    if have is None:
        return
    need = int(image.dwarf.bytes_to_scan(names) * (_SHARE + _AGAIN * every_site)) + _FIXED
    if have < need:
        raise InlineTraceError(
            f"reading its DWARF takes about {need // _MEGABYTE} MB of memory, {have // _MEGABYTE} MB are available",
            path=image.debug.path,
        )
