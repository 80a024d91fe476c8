"""Where parameters are: used by the compiled modules only."""
