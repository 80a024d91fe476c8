"""Annotations: used by the compiled modules only."""
