"""From records to nodes: used by the compiled modules only."""
