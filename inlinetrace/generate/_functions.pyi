"""Which functions get a FUNC: used by the compiled modules only."""
