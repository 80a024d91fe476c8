"""From DWARF to BTF: types, functions and variables as ``pahole -J`` encodes them, and the location info of inlined functions.

``types.types_from_dwarf`` is the entry to the types. Nothing is imported here: the modules are compiled, and whoever only
reads BTF has no use for them.
"""
