"""BTF from DWARF: base types (``.BTF``) and the location info of inlined functions (``.BTF.inline``)."""
