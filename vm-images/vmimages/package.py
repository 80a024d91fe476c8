"""inlinetrace as its users get it: a wheel built for the guest's Python, installed into a directory.

The wheel is built in a copy of the sources that stays in the cache, so that only changed extension modules are compiled
again; what is installed lies beside it under a key of the sources' content.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from pathlib import Path

from vmimages.cache import RecipeError, built, cache_directory, content_key, lock, run, scratch
from vmimages.rootfs import build_environment, compile_python, install

_REPOSITORY = Path(__file__).resolve().parents[2]
_BUILT = (".so", ".c", ".html", ".pyc")


def sources() -> list[Path]:
    """The files a wheel is made of, relative to the repository, sorted."""
    found = [
        path.relative_to(_REPOSITORY)
        for path in (_REPOSITORY / "inlinetrace").rglob("*")
        if path.is_file() and path.suffix not in _BUILT
    ]
    extra = [Path("pyproject.toml"), Path("README.md"), Path("setup.py"), Path("MANIFEST.in")]
    found += [path for path in extra if (_REPOSITORY / path).is_file()]
    found += [path.relative_to(_REPOSITORY) for path in (_REPOSITORY / "LICENSES").glob("*")]
    return sorted(found)


def site() -> Path:
    """Return a directory that has the installed package and ``bin/inlinetrace``, building the wheel if need be."""
    files = sources()
    key = content_key(
        Path(__file__).read_bytes(),
        *(part for name in files for part in (str(name), (_REPOSITORY / name).read_bytes())),
    )
    return built(cache_directory() / "sites" / key, lambda directory: _install(files, directory))


def _install(files: list[Path], directory: Path) -> None:
    # Of its own for each working tree: two that take turns would compile everything again each time.
    name = f"wheel-build-{content_key(str(_REPOSITORY))}"
    tree = cache_directory() / name
    with lock(name):
        _synchronise(files, tree / "source")
        (tree / "source" / "setup.cfg").write_text(f"[build_ext]\nparallel = {os.cpu_count()}\n")
        wheels = tree / "wheels"
        shutil.rmtree(wheels, ignore_errors=True)
        with scratch(tree) as temporary:
            run(
                [
                    build_environment(), "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index",
                    "-w", wheels, tree / "source",
                ],
                what="building the wheel of inlinetrace for the guest (apt-get install python3.11-dev gcc)",
                env={**os.environ, "TMPDIR": str(temporary), "CFLAGS": "-g0"},
            )  # fmt: skip
        found = list(wheels.glob("inlinetrace-*.whl"))
        if len(found) != 1:
            raise RecipeError(f"building the wheel left {len(found)} wheels in {wheels}")
        install(found, directory, "--no-deps", "--no-index")
    compile_python(directory, "/job/site")


def _synchronise(files: list[Path], tree: Path) -> None:
    """Make the sources in ``tree`` equal to the repository's, touching only what differs (build tools go by time)."""
    changed = [
        name
        for name in files
        if not (tree / name).exists() or not filecmp.cmp(_REPOSITORY / name, tree / name, shallow=False)
    ]
    wanted = {tree / name for name in files}
    removed = [path for path in (tree / "inlinetrace").rglob("*") if path.is_file() and path not in wanted]
    removed = [path for path in removed if path.suffix not in _BUILT]
    shared = (".pxd", ".toml")
    if any(name.suffix in shared or name.name == "setup.py" for name in changed) or any(
        path.suffix in (".pyx", *shared) for path in removed
    ):
        # Everything compiled depends on these, and what is compiled from a file that is gone must go.
        shutil.rmtree(tree, ignore_errors=True)
        changed, removed = files, []
    for name in changed:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(_REPOSITORY / name, tree / name)
    for path in removed:
        path.unlink()
    # setuptools adds to the wheel what earlier builds left here: only what is compiled may stay.
    for left in (tree / "build").glob("lib*") if (tree / "build").is_dir() else ():
        for path in left.rglob("*.py*"):
            path.unlink()
