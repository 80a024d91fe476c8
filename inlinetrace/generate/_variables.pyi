"""Which variables get a VAR: used by the compiled modules only."""
