from inlinetrace.btf._index import Index
from inlinetrace.btf.reader import Btf
from inlinetrace.generate._graph import Graph

def load_base(g: Graph, index: Index, base: Btf) -> None: ...
