"""Compiled abbreviations: used by the compiled readers only."""
