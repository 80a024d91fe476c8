"""What programs are split from: the types and strings of a BTF object, ready to be compared with.

>>> base = Base(load("/sys/kernel/btf/vmlinux"), many=True)
>>> for module in modules: types_from_dwarf(module, base=base)

A kernel has a hundred thousand types. They are brought into the graph of the one program that there is; for ``many``
that is done once, and each program begins with a copy.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inlinetrace._threads import Ahead
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
        self._coming: Ahead[Graph] | None = None

    @staticmethod
    def of(base: Base | Btf) -> Base:
        """``base`` itself, or what it takes to split one program from it."""
        return base if isinstance(base, Base) else Base(base)

    @contextmanager
    def prepared(self, jobs: int) -> Iterator[None]:
        """While that lasts, make what ``graph`` gives next, in another thread if that is one of ``jobs``."""
        if self._pattern is not None:
            yield
            return
        with Ahead(self._load, jobs) as self._coming:
            try:
                yield
            finally:
                self._coming = None

    def graph(self) -> Graph:
        """A graph that has all the types. Raises FormatError with the id of a type that cannot be read."""
        if self._pattern is None:
            coming, self._coming = self._coming, None
            loaded = self._load() if coming is None else coming.result()
            if not self._many:
                return loaded
            self._pattern = loaded
        graph = Graph()
        copy_base(graph, self._pattern)
        return graph

    def _load(self) -> Graph:
        graph = Graph()
        load_base(graph, self.btf.index, self.btf)
        self._offsets = name_strings(graph, self.btf.index)
        return graph

    def emitter(self, graph: Graph) -> Emitter:
        """A writer for such a graph, whose ids and strings continue those here."""
        emitter = Emitter(
            graph,
            swap=self.btf.byte_order != sys.byteorder,
            first_id=self.btf.end_id,
            first_string=sum(layer.header.string_len for layer in self.btf.chain),
        )
        emitter.know_names(self._offsets)
        return emitter
