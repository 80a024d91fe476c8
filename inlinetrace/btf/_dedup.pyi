from inlinetrace.btf._index import Index

def run(
    index: Index, typedef_graphs: bool, deep_identity: bool, seed: int, limit: int
) -> tuple[bytearray, bytearray, bytearray, int]: ...
