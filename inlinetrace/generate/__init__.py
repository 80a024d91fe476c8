"""From DWARF to BTF: types, functions and variables as ``pahole -J`` encodes them, and where inlined functions are.

``types.types_from_dwarf`` is the entry to the types. Nothing is imported here: who only reads BTF has no use for it.
"""
