"""The distribution kernels that tests and benchmarks read: what ``vm-images/fetch.py`` has put in the cache.

::

    from tests.kernels import kernel

    kernel("6.1").vmlinux           # a Path; RecipeError tells how to fetch it if it is not there
"""

from __future__ import annotations

import sys
from pathlib import Path

_RECIPES = str(Path(__file__).resolve().parents[1] / "vm-images")
if _RECIPES not in sys.path:
    sys.path.append(_RECIPES)

from vmimages.cache import RecipeError  # noqa: E402
from vmimages.kernels import SERIES, Kernel, find  # noqa: E402

__all__ = ["SERIES", "Kernel", "RecipeError", "kernel"]


def kernel(series: str) -> Kernel:
    """The newest kernel of ``series`` ("6.1", "6.12") in the cache; RecipeError with the command that fetches it."""
    return find(series)
