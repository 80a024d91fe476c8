"""Where fetched and built files are kept, and how they get there without ever being seen half done.

The cache lies outside the repository: ``$INLINETRACE_DEV_CACHE``, else ``~/.cache/inlinetrace-dev``. It may be deleted
at any time. A finished file or directory appears under its final name by rename only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path


class RecipeError(Exception):
    """A recipe cannot be carried out; the text is one line that says what is missing and how to get it."""


def cache_directory() -> Path:
    """The root of the cache; it need not exist yet."""
    configured = os.environ.get("INLINETRACE_DEV_CACHE")
    return Path(configured) if configured else Path.home() / ".cache" / "inlinetrace-dev"


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold the lock ``name`` of this cache, waiting for other processes that build the same thing."""
    directory = cache_directory() / "locks"
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / name, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """Give a temporary directory inside ``parent`` (so that a rename into ``parent`` is atomic), removed at the end."""
    parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=".tmp-", dir=parent))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def built(path: Path, build: Callable[[Path], None]) -> Path:
    """Return ``path``, first calling ``build(temporary)`` to make it if it does not exist.

    ``build`` leaves a file or a directory at the path it is given; that is then renamed to ``path``.
    """
    if path.exists():
        return path
    with lock(hashlib.sha256(str(path).encode()).hexdigest()[:16]):
        if not path.exists():
            with scratch(path.parent) as directory:
                build(directory / path.name)
                os.replace(directory / path.name, path)
    return path


def content_key(*parts: str | bytes) -> str:
    """A short name for a combination of recipe texts and input file contents."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()[:16]


def require(program: str, package: str) -> str:
    """Return the path of ``program``, or raise RecipeError naming the Debian package that has it."""
    found = shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise RecipeError(f"{program} is not installed: apt-get install {package}")
    return found


def run(command: Sequence[str | Path], *, what: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run ``command`` and return its standard output; RecipeError with its last lines of output if it fails."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode:
        tail = " | ".join((done.stderr or done.stdout).strip().splitlines()[-4:])
        raise RecipeError(f"{what} failed (exit status {done.returncode} of {Path(str(command[0])).name}): {tail}")
    return done.stdout
