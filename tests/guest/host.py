"""Values that a guest test needs from outside: computed on the host before the boot, read in the guest.

::

    @from_host
    def lseek_sites(kernel: Kernel) -> list[dict[str, Any]]:
        return oracle.inlined(kernel.vmlinux, caller="ksys_lseek", function="vfs_llseek")

    @pytest.mark.guest
    def test_it() -> None:
        for site in lseek_sites(): ...

The value must survive JSON. What goes wrong on the host is raised where the test asks for the value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from tests.guest.configs import INSIDE
from tests.kernels import Kernel

Value = TypeVar("Value")

JOB = Path("/job")


class FromHost(Generic[Value]):
    """A function of the kernel whose value is carried into the guest."""

    def __init__(self, function: Callable[[Kernel], Value]) -> None:
        self._function = function
        self.key = f"{function.__module__}.{function.__qualname__}"

    def compute(self, kernel: Kernel) -> dict[str, Any]:
        """Run the function on the host; the value or the error, for :meth:`__call__` in the guest."""
        try:
            return {"value": self._function(kernel)}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def __call__(self) -> Value:
        """The value that was computed on the host for the kernel that runs here."""
        if not INSIDE:
            raise RuntimeError(f"{self.key}() is for tests in a guest")
        found = json.loads((JOB / "host.json").read_text())[self.key]
        if "error" in found:
            raise RuntimeError(f"{self.key} failed on the host: {found['error']}")
        return cast(Value, found["value"])


def from_host(function: Callable[[Kernel], Value]) -> FromHost[Value]:
    """Mark ``function`` as one that runs on the host; calling it in the guest gives its value."""
    return FromHost(function)


def values_for(modules: Iterable[ModuleType], kernel: Kernel) -> dict[str, Any]:
    """The values of all functions from the host that ``modules`` use."""
    functions = {
        value.key: value for module in modules for value in vars(module).values() if isinstance(value, FromHost)
    }
    return {key: function.compute(kernel) for key, function in functions.items()}
