"""What the tests of this layer share."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kernels import RecipeError, kernel

RUNNING = "/sys/kernel/btf/vmlinux"


def tool(name: str) -> str:
    """The path of a tool that a test cannot do without."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    assert path is not None, f"{name} is not installed"
    return path


def output(*command: str) -> bytes:
    """What a tool prints; it has to succeed."""
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return done.stdout


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[bytes], str]:
    """Write bytes to a file of their own; gives its path."""
    count = 0

    def save(data: bytes) -> str:
        nonlocal count
        count += 1
        path = tmp_path / f"{count}.btf"
        path.write_bytes(data)
        return str(path)

    return save


@pytest.fixture(scope="session")
def running_btf() -> str:
    """Path of the running kernel's BTF; where it shows none, that of a distribution kernel has to do."""
    if os.path.exists(RUNNING):
        return RUNNING
    try:
        return str(kernel("6.12").vmlinux)
    except RecipeError as error:
        pytest.fail(f"this kernel shows no BTF, and {error}", pytrace=False)


def modules_of(image: Path, count: int) -> list[Path]:
    """Modules that belong to an image, spread over all of them."""
    release = image.name.removeprefix("vmlinux-")
    found = sorted((image.parents[1] / "lib/modules" / release).rglob("*.ko*"))
    return found[:: max(len(found) // count, 1)][:count]
