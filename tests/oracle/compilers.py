"""The compilers of this machine, and how the units of a program are compiled and linked with them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LEVELS = ("-O1", "-O2", "-O3", "-Os")
DWARF_VERSIONS = (4, 5)


class BuildError(Exception):
    """A compiler refused a program or a combination of options."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler: ``name`` as reports show it, ``command`` as it is called; ``linker`` is the lld that fits its LTO."""

    name: str
    command: str
    family: str
    linker: str | None = None

    def lto(self) -> tuple[str, ...] | None:
        """Options that link with link-time optimisation, or None where this machine has no linker for it."""
        if self.family == "gcc":
            return ("-flto=1",)
        return ("-flto", f"-fuse-ld={self.linker}") if self.linker else None


@dataclass(frozen=True, slots=True)
class Configuration:
    """One way to compile the traced units; ``options`` are further ones, for the compiler alone."""

    toolchain: Toolchain
    level: str
    dwarf: int
    lto: bool = False
    pie: bool = True
    options: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Options for the traced units."""
        link = self.toolchain.lto() if self.lto else ()
        if link is None:
            raise BuildError(f"{self.toolchain.name}: no linker for -flto")
        position = ("-fPIE",) if self.pie else ("-fno-pie",)
        return ("-w", self.level, "-g", f"-gdwarf-{self.dwarf}", *position, *link, *self.options)

    def __str__(self) -> str:
        extra = (" -flto" if self.lto else "") + ("" if self.pie else " -fno-pie")
        extra += "".join(f" {option}" for option in self.options)
        return f"{self.toolchain.name} {self.level} -gdwarf-{self.dwarf}{extra}"


def detect() -> list[Toolchain]:
    """gcc and every clang-N found in the search path, gcc first, then by version."""
    found = [Toolchain("gcc", gcc, "gcc")] if (gcc := shutil.which("gcc")) else []
    majors = set()
    for folder in ("/usr/bin", "/usr/local/bin"):
        for path in Path(folder).glob("clang-[0-9]*"):
            if match := re.fullmatch(r"clang-(\d+)", path.name):
                majors.add(int(match[1]))
    for major in sorted(majors):
        command = shutil.which(f"clang-{major}")
        if command:
            # An lld reads the bitcode of its own and of older releases.
            newer = [n for n in range(major, major + 20) if shutil.which(f"ld.lld-{n}")]
            found.append(Toolchain(f"clang-{major}", command, "clang", f"lld-{newer[0]}" if newer else None))
    return found


def toolchain(name: str) -> Toolchain:
    """The toolchain of that name; :class:`BuildError` if it is not installed."""
    for candidate in detect():
        if candidate.name == name:
            return candidate
    raise BuildError(f"{name} is not installed; there are {', '.join(t.name for t in detect()) or 'none'}")


def run_compiler(arguments: Sequence[str], folder: Path) -> None:
    """Run a compiler in a folder; :class:`BuildError` with its message if it fails or takes more than a minute."""
    try:
        done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{' '.join(arguments)}: took more than a minute") from None
    if done.returncode:
        raise BuildError(f"{' '.join(arguments)}: {done.stderr.strip()[:500]}")


def build(
    configuration: Configuration, sources: Sequence[str], objects: Sequence[str], output: str, folder: Path
) -> None:
    """Compile the traced sources and link them with objects that were compiled without optimisation."""
    command, flags = configuration.toolchain.command, configuration.flags
    traced = []
    for source in sources:
        traced.append(f"{output}.{Path(source).stem}.o")
        run_compiler([command, *flags, "-c", source, "-o", traced[-1]], folder)
    pie = "-pie" if configuration.pie else "-no-pie"
    run_compiler([command, *flags, pie, *traced, *objects, "-o", output], folder)
