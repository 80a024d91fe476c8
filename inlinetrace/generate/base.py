"""What programs are split from: the types and strings of a BTF object, ready to be compared with.

>>> base = Base(load("/sys/kernel/btf/vmlinux"), many=True)
>>> for module in modules: types_from_dwarf(module, base=base)

A kernel has a hundred thousand types. For one program they are brought into its graph; for ``many`` that is done once,
and each program begins with a copy.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

from inlinetrace.generate._base import copy_base, load_base, name_strings
from inlinetrace.generate._emit import Emitter
from inlinetrace.generate._graph import Graph

if TYPE_CHECKING:
    from inlinetrace.btf.reader import Btf


class Base:
    """The BTF object ``btf`` with its own bases. Not for several threads at once."""

    def __init__(self, btf: Btf, *, many: bool = False) -> None:
        self.btf = btf
        self._many = many
        self._pattern: Graph | None = None
        self._offsets = array("I")

    @staticmethod
    def of(base: Base | Btf) -> Base:
        """``base`` itself, or what it takes to split one program from it."""
        return base if isinstance(base, Base) else Base(base)

    def graph(self) -> Graph:
        """A graph that has all the types. Raises FormatError with the id of a type that cannot be read."""
        graph = Graph()
        if not self._many:
            load_base(graph, self.btf.index, self.btf)
            return graph
        if self._pattern is None:
            pattern = Graph()
            load_base(pattern, self.btf.index, self.btf)
            for strings, at in self._strings():
                name_strings(pattern, strings, at, self._offsets)
            self._pattern = pattern
        copy_base(graph, self._pattern)
        return graph

    def emitter(self, graph: Graph) -> Emitter:
        """A writer for such a graph, whose ids and strings continue those here."""
        layers = list(self._strings())
        emitter = Emitter(
            graph,
            swap=self.btf.byte_order != sys.byteorder,
            first_id=self.btf.end_id,
            first_string=sum(len(strings) for strings, _ in layers),
        )
        if self._pattern is not None:
            emitter.know_names(self._offsets)
        else:
            for strings, at in layers:
                emitter.know_strings(strings, at)
        return emitter

    def _strings(self) -> list[tuple[bytes, int]]:
        """The string section of each layer, outermost first, and the offset at which it begins."""
        found, at = [], 0
        for layer in self.btf.chain:
            found.append((layer.strings, at))
            at += len(layer.strings)
        return found
