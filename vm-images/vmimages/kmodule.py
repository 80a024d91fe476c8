"""Builds a kernel module against Debian's headers as they lie in the cache, with nothing of the kernel installed here.

The result keeps its DWARF and has a ``.BTF`` split from the kernel's, by pahole: what a distribution's build makes.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from vmimages.cache import RecipeError, built, cache_directory, content_key, require, run
from vmimages.kernels import Kernel, fetch_headers, find

__all__ = ["build", "find"]


def build(sources: Path, series: str) -> Path:
    """Return a directory with the modules (``NAME.ko``) that ``sources`` (C files and a Kbuild) make for a kernel."""
    kernel = find(series)
    files = sorted(path for path in sources.iterdir() if path.suffix in (".c", ".h") or path.name == "Kbuild")
    key = content_key(
        kernel.release,
        Path(__file__).read_bytes(),
        *(part for path in files for part in (path.name, path.read_bytes())),
    )
    return built(
        cache_directory() / "modules" / f"{kernel.release}-{key}", lambda directory: _build(kernel, files, directory)
    )


def _build(kernel: Kernel, files: list[Path], directory: Path) -> None:
    fetch_headers(kernel)
    work = directory.with_name("build")
    work.mkdir()
    for path in files:
        shutil.copyfile(path, work / path.name)
    compiler = require(_compiler(kernel), _compiler(kernel))
    # The flavour's own Makefile includes the common one by its installed path, which is not where it lies here.
    run(
        [
            require("make", "make"), "-C", kernel.headers, "-f", kernel.headers_common / "Makefile", f"M={work}",
            f"CC={compiler}", "PAHOLE=true", "modules",
        ],
        what=f"building a module for {kernel.release}",
        env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    directory.mkdir()
    modules = sorted(work.glob("*.ko"))
    if not modules:
        raise RecipeError(f"building a module for {kernel.release} made no .ko file")
    for module in modules:
        run(
            [require("pahole", "dwarves"), "-J", "--btf_base", kernel.vmlinux, module],
            what=f"making the BTF of {module.name}",
            env={**os.environ, "LLVM_OBJCOPY": "objcopy"},
        )
        shutil.copyfile(module, directory / module.name)


def _compiler(kernel: Kernel) -> str:
    found = re.search(r'CONFIG_CC_VERSION_TEXT="(?:\S*-)?(gcc-\d+) ', kernel.config.read_text())
    return found[1] if found is not None else "gcc-12"
