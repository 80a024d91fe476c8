"""DWARF: units, entries, lists, lines, call frames and expressions."""
