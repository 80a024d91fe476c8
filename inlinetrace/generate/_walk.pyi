"""The walk over the entries of a unit: used by the compiled modules only."""
