"""The values of one entry: used by the compiled modules only."""
