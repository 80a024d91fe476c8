"""Values that a guest test needs from outside: computed on the host before the boot, read in the guest.

::

    @from_host
    def lseek_sites(kernel: Kernel) -> list[dict[str, Any]]:
        return oracle.inlined(kernel.vmlinux, caller="ksys_lseek", function="vfs_llseek")

    @pytest.mark.guest
    def test_it() -> None:
        for site in lseek_sites(): ...

The value must survive JSON, or be the Path of a file, which is then copied. What goes wrong on the host is raised where
the test asks for the value.
"""

from __future__ import annotations

import json
import shutil
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
        self._computed: dict[str, dict[str, Any]] = {}
        self.key = f"{function.__module__}.{function.__qualname__}"

    def compute(self, kernel: Kernel) -> dict[str, Any]:
        """Run the function on the host, once per kernel; the value or the error, for :meth:`__call__` in the guest."""
        if kernel.release not in self._computed:
            try:
                self._computed[kernel.release] = {"value": self._function(kernel)}
            except Exception as error:
                self._computed[kernel.release] = {"error": f"{type(error).__name__}: {error}"}
        return self._computed[kernel.release]

    def __call__(self) -> Value:
        """The value that was computed on the host for the kernel that runs here."""
        if not INSIDE:
            raise RuntimeError(f"{self.key}() is for tests in a guest")
        found = json.loads((JOB / "host" / f"{self.key}.json").read_text())
        if "error" in found:
            raise RuntimeError(f"{self.key} failed on the host: {found['error']}")
        if "file" in found:
            return cast(Value, JOB / "host" / found["file"])
        return cast(Value, found["value"])


def from_host(function: Callable[[Kernel], Value]) -> FromHost[Value]:
    """Mark ``function`` as one that runs on the host; calling it in the guest gives its value."""
    return FromHost(function)


def write_values(modules: Iterable[ModuleType], kernel: Kernel, job: Path) -> None:
    """Write the values of all functions from the host that ``modules`` use into the directory that will be JOB."""
    functions = {value for module in modules for value in vars(module).values() if isinstance(value, FromHost)}
    (job / "host").mkdir()
    for function in functions:
        found = function.compute(kernel)
        path = found.get("value")
        if isinstance(path, Path):
            found = {"file": f"{function.key}-{path.name}"}
            shutil.copyfile(path, job / "host" / found["file"])
        (job / "host" / f"{function.key}.json").write_text(json.dumps(found))
