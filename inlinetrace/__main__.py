"""``python -m inlinetrace`` is the same as ``inlinetrace``."""

from inlinetrace.cli import main

main()
