"""Hash-consed records: used by the compiled modules only."""
