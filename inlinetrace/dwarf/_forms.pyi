"""Abbreviations and forms: compiled, used by the compiled readers only."""
