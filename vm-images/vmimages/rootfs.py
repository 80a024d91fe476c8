"""Root file systems of guests, from Debian packages and PyPI wheels, kept in the cache by a key of their recipe.

Two of them: ``minimal`` has Python, pytest and what inlinetrace depends on; ``bcc`` has BCC besides. inlinetrace
itself is on neither: it comes on each run's own drive (:mod:`vmimages.package`), so that a change of code rebuilds
nothing here.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

from vmimages import disks
from vmimages.cache import built, cache_directory, content_key, require, run, scratch

SUITE = "bookworm"

_PACKAGES: dict[str, tuple[str, ...]] = {
    "minimal": (
        "busybox-static", "libc-bin", "python3", "bash", "coreutils", "grep", "sed", "kmod", "util-linux", "mount",
        "iproute2", "procps", "less",
    ),
}  # fmt: skip
_PACKAGES["bcc"] = (*_PACKAGES["minimal"], "python3-bpfcc")

_USERS = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
_GROUPS = "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n"
_SITE = Path("usr/local/lib/python3.11/dist-packages")
_RECIPE = Path(__file__)
_INIT = _RECIPE.with_name("init.sh")
_PROJECT = _RECIPE.parents[2] / "pyproject.toml"


def roots() -> tuple[str, ...]:
    """The names of the root file systems."""
    return tuple(_PACKAGES)


def root_disk(name: str, test_requirements: Sequence[str]) -> Path:
    """Return the disk image of the root file system ``name``, building it if need be.

    ``test_requirements`` are PyPI requirements beyond inlinetrace's own dependencies, for instance ``pytest==9.0.1``.
    """
    project = tomllib.loads(_PROJECT.read_text())["project"]
    requirements = sorted([*project["dependencies"], *test_requirements])
    key = content_key(name, _RECIPE.read_bytes(), _INIT.read_bytes(), *requirements)
    return built(cache_directory() / "roots" / f"{name}-{key}.img", lambda image: _build(name, requirements, image))


def _build(name: str, requirements: Sequence[str], image: Path) -> None:
    with scratch(image.parent) as directory:
        tree = directory / "root"
        run(
            [
                require("mmdebstrap", "mmdebstrap"), "--quiet", "--variant=extract",
                f"--include={','.join(_PACKAGES[name])}", SUITE, tree,
            ],
            what=f"mmdebstrap of the root file system {name} (is a Debian mirror reachable?)",
        )  # fmt: skip
        _configure(tree)
        install(requirements, tree / _SITE)
        (tree / _SITE / "job.pth").write_text("/job/site\n")
        compile_python(tree / "usr" / "lib" / "python3.11", "/usr/lib/python3.11")
        compile_python(tree / "usr" / "lib" / "python3" / "dist-packages", "/usr/lib/python3/dist-packages")
        compile_python(tree / _SITE, f"/{_SITE}")
        disks.root_disk(tree, image)


def _configure(tree: Path) -> None:
    for directory in ("proc", "sys", "dev", "tmp", "run", "job", "kernel", "root"):
        (tree / directory).mkdir(exist_ok=True)
    if not (tree / "bin" / "sh").is_symlink():
        (tree / "bin" / "sh").symlink_to("bash")
    shutil.copy(_INIT, tree / "init")
    (tree / "init").chmod(0o755)
    (tree / "etc" / "passwd").write_text(_USERS)
    (tree / "etc" / "group").write_text(_GROUPS)
    (tree / "etc" / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    (tree / "etc" / "hostname").write_text("guest\n")
    # The kernel's own files are on a drive of their own, so that one root serves every kernel.
    for place in ("boot", "lib/modules", "usr/lib/debug", "usr/src"):
        target = tree / place
        if target.is_dir():
            shutil.rmtree(target)
        target.symlink_to(f"/kernel/{place}")
    for heavy in ("doc", "man", "locale", "info", "i18n", "lintian", "bug"):
        shutil.rmtree(tree / "usr" / "share" / heavy, ignore_errors=True)
    for cache in ("var/cache", "var/lib/apt", "var/lib/dpkg"):
        shutil.rmtree(tree / cache, ignore_errors=True)
    run([require("ldconfig", "libc-bin"), "-r", tree], what="ldconfig of the root file system")


def build_environment() -> Path:
    """Return the Python of a virtual environment of Debian's Python 3.11 that builds and installs wheels for guests."""
    python = Path("/usr/bin/python3.11")
    if not python.exists():
        require("/usr/bin/python3.11", "python3.11 python3.11-venv python3.11-dev")
    requirements = tomllib.loads(_PROJECT.read_text())["build-system"]["requires"]
    key = content_key(*sorted(requirements))
    # A virtual environment names itself in its scripts: it is made in place, and complete once the marker is there.
    environment = cache_directory() / "environments" / key

    def make(marker: Path) -> None:
        run(
            [python, "-m", "venv", "--clear", environment],
            what="making a virtual environment (apt-get install python3.11-venv)",
        )
        run(
            [environment / "bin" / "python", "-m", "pip", "install", "-q", "wheel", *requirements],
            what="installing the build requirements (is PyPI reachable?)",
        )
        marker.write_text("\n".join(requirements))

    built(environment.with_suffix(".complete"), make)
    return environment / "bin" / "python"


def install(requirements: Sequence[str | Path], directory: Path, *options: str) -> None:
    """Install PyPI requirements or wheels into ``directory`` for the guest's Python, binaries only."""
    run(
        [
            build_environment(), "-m", "pip", "--python", "/usr/bin/python3.11", "install", "-q", "--no-compile",
            "--only-binary", ":all:", "--target", directory, *options, *requirements,
        ],
        what=f"installing {' '.join(Path(str(word)).name for word in requirements)} (is PyPI reachable?)",
    )  # fmt: skip


def compile_python(directory: Path, place: str) -> None:
    """Compile the Python files of ``directory``, which the guest sees at ``place``, once for all boots."""
    run(
        [
            "/usr/bin/python3.11", "-m", "compileall", "-q", "-f", "-j", "2", "--invalidation-mode", "unchecked-hash",
            "-s", directory, "-p", place, "-x", r"/(test|tests|lib2to3|idlelib)/", directory,
        ],
        what=f"compiling the Python files of {place}",
    )  # fmt: skip
