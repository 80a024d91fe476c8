"""The rows of the table: a command of ours and, where there is one, what a peer does for the same question.

To add one, write a function from a kernel to a Row and put it into ROWS.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.measure import DIRECTORY
from tests.btf.undeduplicated import undeduplicated
from tests.kernels import Kernel

# pfunct stops at the first unit that has the function: one in a late unit makes it look as far as we always do.
FUNCTION = "tcp_v4_rcv"
EARLY_FUNCTION = "vfs_llseek"
_MODULES = 30
_INPUTS = Path(__file__).resolve().parents[2] / ".cache/bench"


@dataclass(frozen=True, slots=True)
class Row:
    """``name`` is what the user asks for; ``limit`` the CPU seconds that ours may take, None without a promise.

    ``peer_name`` is what the peer is called in the table, by default its command line without paths.
    """

    name: str
    ours: tuple[str, ...]
    peer: tuple[str, ...] | None = None
    limit: float | None = None
    peer_name: str | None = None


def inlinetrace(*arguments: str) -> tuple[str, ...]:
    """The command line of inlinetrace as it is in this tree."""
    return (sys.executable, "-m", "inlinetrace", *arguments)


def _list(kernel: Kernel, function: str) -> Row:
    vmlinux = str(kernel.vmlinux)
    return Row(
        f"list {function}",
        inlinetrace("list", function, "-k", vmlinux),
        ("pfunct", "-F", "dwarf", "-f", function, vmlinux),
        limit=1.0,
    )


def list_function(kernel: Kernel) -> Row:
    """One function, from DWARF."""
    return _list(kernel, FUNCTION)


def list_early_function(kernel: Kernel) -> Row:
    """One function that the peer finds early, and stops at."""
    return _list(kernel, EARLY_FUNCTION)


def list_all(kernel: Kernel) -> Row:
    """Every site; the peer visits every entry too and counts them."""
    vmlinux = str(kernel.vmlinux)
    return Row(
        "list '*' --json",
        inlinetrace("list", "*", "--json", "-k", vmlinux),
        ("llvm-dwarfdump", "--statistics", vmlinux),
        limit=6.0 if kernel.series == "6.1" else None,
    )


def dump_raw(kernel: Kernel) -> Row:
    """All of the BTF as text."""
    vmlinux = str(kernel.vmlinux)
    return Row("dump", inlinetrace("dump", vmlinux), ("bpftool", "btf", "dump", "file", vmlinux))


def dump_name(kernel: Kernel) -> Row:
    """One struct from the BTF."""
    vmlinux = str(kernel.vmlinux)
    return Row(
        "dump --name task_struct",
        inlinetrace("dump", vmlinux, "--name", "task_struct"),
        ("pahole", "-F", "btf", "-C", "task_struct", vmlinux),
    )


def _generated(kernel: Kernel) -> tuple[str, str]:
    """Detached location info of a kernel and the types that it refers to, made once."""
    inline, base = (_INPUTS / f"{kernel.vmlinux.name}.{kind}" for kind in ("BTF.inline", "BTF"))
    if not (inline.exists() and base.exists()):
        _INPUTS.mkdir(parents=True, exist_ok=True)
        command = inlinetrace("generate", str(kernel.vmlinux), "-o", str(_INPUTS), "-q", "--no-cache")
        subprocess.run(command, check=True)
    return str(inline), str(base)


def list_location_info(kernel: Kernel) -> Row:
    """One function from detached location info of 300,000 sites; the peer looks for its type alone, in the base."""
    inline, base = _generated(kernel)
    return Row(
        f"list {EARLY_FUNCTION} --btf",
        inlinetrace("list", EARLY_FUNCTION, "--btf", inline, "-B", base),
        ("pfunct", "-F", "btf", "-f", EARLY_FUNCTION, base),
        limit=0.06,
    )


def dump_detached(kernel: Kernel) -> Row:
    """One function's type from detached BTF."""
    _, base = _generated(kernel)
    return Row(
        f"dump --name {FUNCTION}",
        inlinetrace("dump", base, "--name", FUNCTION),
        ("pfunct", "-F", "btf", "-f", FUNCTION, base),
    )


def dedup_units(kernel: Kernel) -> Row:
    """The types of all units after each other, as pahole hands them to libbpf (133 MB for 6.1)."""
    _INPUTS.mkdir(parents=True, exist_ok=True)
    units = _INPUTS / f"{kernel.vmlinux.name}.units.btf"
    if not units.exists():
        print(f"making {units} with pahole", file=sys.stderr)
        undeduplicated(kernel.vmlinux, units)
    return Row(
        "btf dedup",
        inlinetrace("btf", "dedup", str(units), "-o", "/dev/null"),
        (sys.executable, "-m", "tests.btf.libbpf", str(units), "/dev/null"),
    )


def _generate(kernel: Kernel, name: str, *options: str) -> Row:
    """One form of generate; pahole makes the types alone, whatever is compared with it."""
    vmlinux = str(kernel.vmlinux)
    return Row(
        name,
        inlinetrace("generate", vmlinux, "-o", DIRECTORY, "-q", "--no-cache", *options),
        ("pahole", "-J", "-j2", f"--btf_encode_detached={DIRECTORY}/pahole.btf", vmlinux),
    )


def generate_both(kernel: Kernel) -> Row:
    """Types and location info."""
    return _generate(kernel, "generate")


def generate_base(kernel: Kernel) -> Row:
    """The types alone, which is what the peer makes."""
    return _generate(kernel, "generate --base-only", "--base-only")


def generate_inline(kernel: Kernel) -> Row:
    """Location info alone, for the types that the kernel has."""
    return _generate(kernel, "generate --inline-only", "--inline-only")


def generate_modules(kernel: Kernel) -> Row:
    """Types of modules, split from their kernel's; the peer begins with the base for each of them."""
    _, base = _generated(kernel)
    every = sorted(str(path) for path in kernel.debug_modules.rglob("*.ko*"))
    modules = every[:: max(len(every) // _MODULES, 1)]
    loop = f'for m; do pahole -J -j2 --btf_base={base} --btf_encode_detached={DIRECTORY}/pahole.btf "$m"; done'
    return Row(
        f"generate --base-only, {len(modules)} modules",
        inlinetrace("generate", *modules, "-B", base, "--base-only", "-o", DIRECTORY, "-q", "--no-cache"),
        ("sh", "-c", loop, "sh", *modules),
        peer_name="pahole -J --btf_base, one by one",
    )


ROWS: tuple[Callable[[Kernel], Row], ...] = (
    list_function,
    list_early_function,
    list_all,
    list_location_info,
    dump_raw,
    dump_name,
    dump_detached,
    dedup_units,
    generate_base,
    generate_inline,
    generate_both,
    generate_modules,
)
