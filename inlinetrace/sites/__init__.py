"""The model of inlined sites, and its readers."""
