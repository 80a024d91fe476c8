"""The drive with a kernel's own files, mounted read-only at /kernel: modules, debug files, headers.

The root file system's /boot, /lib/modules, /usr/lib/debug and /usr/src lead there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from vmimages import disks
from vmimages.cache import built, cache_directory, content_key, require, run, scratch
from vmimages.kernels import Kernel, fetch_headers


def kernel_disk(kernel: Kernel) -> Path:
    """Return the image of the drive for ``kernel`` with the debug files the cache has, building it if need be."""
    fetch_headers(kernel)
    debug = sorted(path for path in kernel.debug_modules.rglob("*.ko*"))
    listing = "\n".join(f"{path.name} {path.stat().st_size}" for path in [kernel.vmlinux, kernel.image, *debug])
    key = content_key(Path(__file__).read_bytes(), listing)
    directory = cache_directory() / "kernel-disks"
    return built(directory / f"{kernel.release}-{key}.img", lambda image: _build(kernel, image))


def _build(kernel: Kernel, image: Path) -> None:
    with scratch(image.parent) as directory:
        tree = directory / "kernel"
        for part in ("boot", "lib", "usr/lib/debug"):
            _link_tree(kernel.root / part, tree / part)
        # Where the kernel's build system and bcc look for headers: installed, not in the image package.
        sources = kernel.headers_root / "usr" / "src"
        for entry in sorted(sources.iterdir()):
            _link_tree(entry, tree / "usr" / "src" / entry.name)
        common = tree / "usr" / "src" / kernel.headers_common.name
        for architecture in (common / "arch").iterdir():
            if architecture.is_dir() and architecture.name != "x86":
                shutil.rmtree(architecture)
        modules = tree / "lib" / "modules" / kernel.release
        for name, target in (("build", kernel.headers.name), ("source", kernel.headers_common.name)):
            (modules / name).unlink(missing_ok=True)
            (modules / name).symlink_to(f"/usr/src/{target}")
        run([require("depmod", "kmod"), "-b", tree, kernel.release], what=f"depmod for {kernel.release}")
        disks.filesystem(tree, image, label="kernel")


def _link_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, symlinks=True, copy_function=_link)


def _link(source: str, target: str) -> str:
    os.link(source, target, follow_symlinks=False)
    return target
