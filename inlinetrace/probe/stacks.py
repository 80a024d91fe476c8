"""Stacks of hits with names.

>>> symbols = Symbols(image, library)
>>> symbols.frames(hit, process)             # [Frame("push", inlined), Frame("work", 0x55d0c0, 0x12), ...]

The first frame is the site's own, with the functions that were inlined around it. Names come from the traced file
itself, which is at hand when the process is gone, and for everything else from BCC, which looks into the running
process, where it is seen by the number that its hits have.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from inlinetrace.probe.bcc_library import Library
    from inlinetrace.probe.events import Hit
    from inlinetrace.target.image import Image

_NAMED = re.compile(r"(.*?)(?:\+0x([0-9a-f]+))?(?: \[(.*)\])?\Z", re.DOTALL)
_KEPT = 100_000
# A process may run another program, load and unload libraries, and leave its number to another one.
_FORGET_AFTER = 5.0
_KERNEL = -1


class Frame(NamedTuple):
    """One function of a stack; ``inlined`` into the next one, or at ``address``. Unknown names are None."""

    name: str | None
    address: int | None = None
    offset: int | None = None
    module: str | None = None
    inlined: bool = False

    def text(self) -> str:
        """``work+0x12 [libx.so]``."""
        if self.inlined:
            return f"{self.name} (inlined)"
        if self.name is None:
            return f"{self.address:#x}"
        where = self.name if self.offset is None else f"{self.name}+{self.offset:#x}"
        return where if self.module is None else f"{where} [{self.module}]"

    def json(self) -> dict[str, object]:
        """The frame with the keys of the JSON output."""
        return {
            "name": self.name,
            "address": None if self.address is None else hex(self.address),
            "offset": self.offset,
            "module": self.module,
            "inlined": self.inlined,
        }


class Symbols:
    """Names of addresses in the traced file, the kernel, and running processes if ``processes`` can be asked."""

    def __init__(self, image: Image | None, library: Library, *, kernel: bool, processes: bool = True) -> None:
        self._image = image
        self._library = library
        self._kernel = kernel
        self._processes = processes
        self._known: dict[tuple[int, int, int], Frame] = {}
        self._since = time.monotonic()

    def stacks(self, hit: Hit, process: int | None) -> dict[str, list[Frame]]:
        """The stacks of a hit by ``kernel`` and ``user``, as far as there are any, innermost frame first."""
        now = time.monotonic()
        if len(self._known) >= _KEPT or now - self._since > _FORGET_AFTER:
            self._known.clear()
            self._since = now
        kernel, user = hit.stacks if len(hit.stacks) == 2 else ((), *hit.stacks)
        found = {}
        if self._kernel:
            found["kernel"] = [*self._own(hit), *(self._frame(address, _KERNEL, hit) for address in kernel[1:])]
            found["user"] = [self._frame(address, process, hit) for address in user]
        else:
            found["user"] = [*self._own(hit), *(self._frame(address, process, hit) for address in user[1:])]
        return found

    def _own(self, hit: Hit) -> Iterator[Frame]:
        """The site: the functions inlined there, then the one that is not."""
        site = hit.site
        if site.inlined:
            yield Frame(site.function, inlined=True)
            for caller in site.chain:
                yield Frame(caller.function, inlined=True)
        yield Frame(site.symbol, site.address + hit.load_bias, site.symbol_offset)

    def _frame(self, address: int, process: int | None, hit: Hit) -> Frame:
        # what stands on a stack is where a call returns to: the call is before it
        key = (_KERNEL if process is None else process, address, hit.load_bias)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._find(address, process, hit.load_bias)
        return known

    def _find(self, address: int, process: int | None, bias: int) -> Frame:
        if self._image is not None and self._kernel == (process == _KERNEL):
            found = self._image.symbol((address - bias - 1) & ((1 << 64) - 1))
            if found is not None:
                return Frame(found[0], address, found[1] + 1)
        if process is None or (process != _KERNEL and not self._processes):
            return Frame(None, address)
        names = self._library.BPF
        if process == _KERNEL:
            text = names.ksym(address - 1, show_module=True, show_offset=True)
        else:
            text = names.sym(address - 1, process, show_module=True, show_offset=True)
        parts = _NAMED.match(text.decode("utf-8", "replace"))
        if parts is None or not parts[1] or parts[1] == "[unknown]" or parts[2] is None:
            return Frame(None, address)
        module = parts[3] if parts[3] not in (None, "kernel", "unknown") else None
        return Frame(parts[1], address, int(parts[2], 16) + 1, module)
