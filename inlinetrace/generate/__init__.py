"""From DWARF to BTF: base types as ``pahole -J`` encodes them, and the location info of inlined functions.

``types.types_from_dwarf`` makes the types, ``locations`` and ``locsec`` what describes the sites. Nothing is imported
here: the modules are compiled, and whoever only reads BTF has no use for them.
"""
