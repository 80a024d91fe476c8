"""Names of a package that are imported when they are first used: a command that needs one module does not pay for all.

>>> __getattr__ = exporter(__name__, {"ElfFile": "inlinetrace.elf.file"})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def exporter(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of ``package``, whose public names stand in the modules that ``homes`` gives."""

    def attribute(name: str) -> object:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return attribute
