"""Fixtures for tests of every layer.

``kernel_6_1`` and ``kernel_6_12`` are the distribution kernels (mark the test ``kernel``); ``distribution_kernel`` runs
the test with each. They fail the test, and say how to fetch the kernel, if the cache has none.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest

from tests.kernels import SERIES, Kernel, RecipeError, kernel

if find_spec("hypothesis") is not None:  # guests have no such thing
    import hypothesis

    # The same examples in every run; HYPOTHESIS_PROFILE=explore looks for new ones.
    hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
    hypothesis.settings.register_profile("explore", deadline=None)
    hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def _kernel_or_failure(series: str) -> Kernel:
    try:
        return kernel(series)
    except RecipeError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def kernel_6_1() -> Kernel:
    """Debian's 6.1 cloud kernel."""
    return _kernel_or_failure("6.1")


@pytest.fixture(scope="session")
def kernel_6_12() -> Kernel:
    """Debian's 6.12 cloud kernel."""
    return _kernel_or_failure("6.12")


@pytest.fixture(scope="session", params=SERIES)
def distribution_kernel(request: pytest.FixtureRequest) -> Kernel:
    """Each of the distribution kernels in turn."""
    return _kernel_or_failure(request.param)
