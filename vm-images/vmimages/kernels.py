"""Debian's cloud kernels with their debug files, by the names that apt has for them today.

::

    kernel = find("6.12")           # what the cache has; RecipeError tells how to fetch it
    kernel = fetch("6.12")          # from the cache, or through apt

One directory per release, ``<cache>/kernels/<release>/``, laid out as in the packages::

    boot/vmlinuz-<release>                     the image that boots
    lib/modules/<release>/                     every module, stripped (.ko or .ko.xz)
    usr/lib/debug/boot/vmlinux-<release>       the kernel with DWARF
    usr/lib/debug/lib/modules/<release>/       modules with DWARF: those chosen, or all

and, for building modules and for bcc, ``<cache>/headers/<release>/usr/{src,lib}``. No version is written down anywhere:
a series ("6.1") stands for the release that Debian's meta package depends on at the time of the first fetch.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vmimages.cache import RecipeError, cache_directory, lock, require, run, scratch

SERIES = ("6.1", "6.12")

DEFAULT_DEBUG_MODULES = ("dummy", "loop", "overlay", "nf_conntrack", "nf_tables", "xfs", "tun", "veth")
"""Debug files fetched when no modules are named; those a kernel does not have as modules are passed over."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One release in the cache. All paths are absolute."""

    series: str
    release: str
    root: Path

    @property
    def image(self) -> Path:
        """The bootable image."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def config(self) -> Path:
        """The build configuration."""
        return self.root / "boot" / f"config-{self.release}"

    @property
    def vmlinux(self) -> Path:
        """The kernel as ELF with DWARF."""
        return self.root / "usr" / "lib" / "debug" / "boot" / f"vmlinux-{self.release}"

    @property
    def modules(self) -> Path:
        """The directory of the stripped modules."""
        return self.root / "lib" / "modules" / self.release

    @property
    def debug_modules(self) -> Path:
        """The directory of the modules with DWARF."""
        return self.root / "usr" / "lib" / "debug" / "lib" / "modules" / self.release

    @property
    def headers_root(self) -> Path:
        """The directory that has the header packages' ``usr/src`` and ``usr/lib``."""
        return cache_directory() / "headers" / self.release

    @property
    def headers(self) -> Path:
        """The flavour's header directory, what ``/lib/modules/<release>/build`` points to on an installed system."""
        return self.headers_root / "usr" / "src" / f"linux-headers-{self.release}"

    @property
    def headers_common(self) -> Path:
        """The header directory that all flavours of the release share."""
        return self.headers_root / "usr" / "src" / f"linux-headers-{_common_release(self.release)}"

    def module(self, name: str) -> Path | None:
        """The stripped module ``name`` (dashes and underscores alike), None if the kernel has no such module."""
        return _module_file(self.modules, name)

    def debug_module(self, name: str) -> Path | None:
        """The module ``name`` with DWARF, None if it is not in the cache."""
        return _module_file(self.debug_modules, name)


def cached(series: str) -> list[Kernel]:
    """The complete releases of ``series`` that the cache has, newest first."""
    directory = cache_directory() / "kernels"
    names = [entry.name for entry in directory.iterdir()] if directory.is_dir() else []
    kernels = [
        Kernel(series, name, directory / name) for name in names if name.startswith(f"{series}.") and "cloud" in name
    ]
    complete = [kernel for kernel in kernels if kernel.image.is_file() and kernel.vmlinux.is_file()]
    return sorted(complete, key=lambda kernel: _version_key(kernel.release), reverse=True)


def find(series: str) -> Kernel:
    """The newest release of ``series`` in the cache; RecipeError that tells how to fetch one if there is none."""
    kernels = cached(series)
    if not kernels:
        raise RecipeError(
            f"no {series} kernel in {cache_directory() / 'kernels'}: "
            f"fetch it with `python3 vm-images/fetch.py {series}`"
        )
    return kernels[0]


def fetch(
    series: str, *, debug_modules: Iterable[str] | None = None, all_debug_modules: bool = False, update: bool = False
) -> Kernel:
    """Return a kernel of ``series`` with the debug files wanted, through apt only if the cache lacks something.

    ``debug_modules`` names modules whose debug file must be there. With ``update`` the cache's release is used only if
    it is the one that apt names today. RecipeError: apt does not know or cannot reach it, or no such module.
    """
    with lock("kernels"):
        here = cached(series)
        if update or not here:
            release = _current_release(series, refresh=update)
            kernel = Kernel(series, release, cache_directory() / "kernels" / release)
        else:
            kernel = here[0]
        names = DEFAULT_DEBUG_MODULES if debug_modules is None else tuple(debug_modules)
        if not kernel.image.is_file() or not kernel.modules.is_dir():
            _unpack([f"linux-image-{kernel.release}"], kernel.root, last=kernel.image)
        lacking = _lacking_debug_modules(kernel, names, strict=debug_modules is not None, everything=all_debug_modules)
        if lacking or not kernel.vmlinux.is_file():
            patterns = [f"*/{re.sub('[-_]', '[-_]', name)}.ko" for name in lacking]
            _unpack(
                [f"linux-image-{kernel.release}-dbg"],
                kernel.root,
                last=kernel.vmlinux,
                patterns=[f"./usr/lib/debug/boot/vmlinux-{kernel.release}", *patterns],
            )
        still = _lacking_debug_modules(kernel, names, strict=False, everything=all_debug_modules)
        if still:
            raise RecipeError(f"linux-image-{kernel.release}-dbg has no debug file for {', '.join(sorted(still))}")
        return kernel


def fetch_headers(kernel: Kernel) -> Path:
    """Return ``kernel.headers``, fetching the header packages of exactly that release if the cache lacks them."""
    with lock("headers"):
        if not (kernel.headers / ".config").is_file():
            flavour = f"linux-headers-{kernel.release}"
            needed = [flavour]
            for dependency in _depends(flavour):
                if re.fullmatch(r"linux-headers-.*-common|linux-kbuild-.*", dependency):
                    needed.append(dependency)
            _unpack(needed, kernel.headers_root, last=kernel.headers / ".config")
    return kernel.headers


def _common_release(release: str) -> str:
    return release.removesuffix("-cloud-amd64") + "-common"


def _version_key(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]


def _module_name(path: Path) -> str:
    return path.name.split(".ko")[0].replace("-", "_")


def _module_file(directory: Path, name: str) -> Path | None:
    wanted = name.replace("-", "_")
    return next((path for path in sorted(directory.rglob("*.ko*")) if _module_name(path) == wanted), None)


def _lacking_debug_modules(kernel: Kernel, names: Iterable[str], *, strict: bool, everything: bool) -> set[str]:
    existing = {_module_name(path) for path in kernel.modules.rglob("*.ko*")}
    have = {_module_name(path) for path in kernel.debug_modules.rglob("*.ko*")}
    wanted = existing if everything else {name.replace("-", "_") for name in names}
    unknown = wanted - existing
    if strict and unknown:
        raise RecipeError(f"kernel {kernel.release} has no module {', '.join(sorted(unknown))}")
    return (wanted & existing) - have


def _current_release(series: str, *, refresh: bool) -> str:
    if refresh:
        _apt_update()
    for attempt in range(2):
        for meta in (f"linux-image-{series}-cloud-amd64", "linux-image-cloud-amd64"):
            for dependency in _depends(meta):
                found = re.fullmatch(rf"linux-image-({re.escape(series)}\.\S*-cloud-amd64)", dependency)
                if found:
                    return found[1]
        if attempt == 0 and not refresh:
            _apt_update()
    raise RecipeError(
        f"apt knows no cloud kernel {series} (linux-image-{series}-cloud-amd64 or linux-image-cloud-amd64): "
        "this needs the package lists of Debian 12 with its security updates"
    )


def _depends(package: str) -> list[str]:
    done = subprocess.run(
        [require("apt-cache", "apt"), "depends", package], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return re.findall(r"^\s*\|?Depends: (\S+)", done.stdout, re.MULTILINE)


def _apt_update() -> None:
    run([require("apt-get", "apt"), "update", "-q"], what="apt-get update (is a Debian mirror reachable?)")


def _download(packages: list[str], directory: Path) -> list[Path]:
    command = [require("apt-get", "apt"), "download", "-q", *packages]
    # apt cannot drop its privileges in a directory that only root can enter; it warns, and downloads all the same.
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        _apt_update()
        run(command, cwd=directory, what=f"downloading {' '.join(packages)} by apt (is a Debian mirror reachable?)")
    return sorted(directory.glob("*.deb"))


def _unpack(packages: list[str], root: Path, *, last: Path, patterns: list[str] | None = None) -> None:
    """Unpack ``packages`` (only what matches ``patterns``) into ``root``; the file ``last`` comes last."""
    with scratch(root.parent) as directory:
        downloads, tree = directory / "download", directory / "tree"
        downloads.mkdir()
        tree.mkdir()
        for package in _download(packages, downloads):
            unpack_package(package, tree, patterns)
            package.unlink()
        if not (tree / last.relative_to(root)).is_file() and not last.is_file():
            raise RecipeError(f"{' '.join(packages)} does not contain {last.relative_to(root)}")
        files = [path for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()]
        files.sort(key=lambda path: path.relative_to(tree) == last.relative_to(root))
        for path in files:
            target = root / path.relative_to(tree)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)


def unpack_package(package: Path, directory: Path, patterns: list[str] | None = None) -> None:
    """Unpack a Debian package into ``directory``, only the files that match one of ``patterns`` if given."""
    archive = subprocess.Popen(
        [require("dpkg-deb", "dpkg"), "--fsys-tarfile", str(package)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    command = [require("tar", "tar"), "-x", "--no-same-owner", "-C", str(directory)]
    done = subprocess.run(
        [*command, "--wildcards", *(patterns or ["*"])], stdin=archive.stdout, capture_output=True, text=True
    )
    if archive.stdout is not None:
        archive.stdout.close()
    # tar's complaint that a pattern matched nothing is left to the caller, who knows which files it cannot do without.
    serious = [
        line for line in done.stderr.splitlines() if "Not found in archive" not in line and "previous err" not in line
    ]
    if archive.wait() or (done.returncode and serious):
        raise RecipeError(
            f"cannot unpack {package.name}: {' | '.join(serious[-2:])} (disk full, or a damaged download)"
        )
