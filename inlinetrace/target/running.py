"""The running kernel and its modules as inputs: found by build id, with run-time addresses.

>>> image = open_running_kernel(Host())
>>> for site in image.sites(["vfs_llseek"]): print(hex(site.address))      # as /proc/kallsyms has them
>>> image = open_running_module(Host(), "xfs")

Sources, in this order: the path remembered in the cache, a vmlinux with DWARF in the places where distributions put
one (those libbpf looks in, then the build id below the debug roots), the debuginfod client's cache, debuginfod. The
build id must be that of /sys/kernel/notes, for modules of /sys/module/NAME/notes.

Location info in BTF, where the kernel has it, is an input of its own: running_btf.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from inlinetrace.elf.debugfile import DEFAULT_ROOTS, Attempt, build_id_path
from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import MismatchError, NotFoundError, UnsupportedError
from inlinetrace.target import modules
from inlinetrace.target.distribution import debug_symbols_advice
from inlinetrace.target.host import Host
from inlinetrace.target.image import Image, make_image
from inlinetrace.target.kallsyms import first_address
from inlinetrace.target.loaded import LoadedKernel, LoadedModule
from inlinetrace.target.search import Search

KERNEL_NOTES = "/sys/kernel/notes"

Report = Callable[[Attempt], None]
Progress = Callable[[str], None]

# Where the kernel's code begins. Some architectures have a header between the two.
_ANCHORS = ("_stext", "_text")

# btf__load_vmlinux_btf() of libbpf, the debug packages' place first; ROOT is a debug root, RELEASE uname -r.
_KERNEL_PLACES = (
    "ROOT/boot/vmlinux-RELEASE",
    "/boot/vmlinux-RELEASE",
    "/lib/modules/RELEASE/vmlinux-RELEASE",
    "/lib/modules/RELEASE/build/vmlinux",
    "/usr/lib/modules/RELEASE/kernel/vmlinux",
    "ROOT/boot/vmlinux-RELEASE.debug",
    "ROOT/lib/modules/RELEASE/vmlinux",
)


class RunningKernel:
    """What the running kernel says of itself; each thing is read when it is first asked for."""

    def __init__(self, host: Host) -> None:
        self.host = host

    @cached_property
    def release(self) -> str:
        """``uname -r``."""
        return self.host.release

    @cached_property
    def build_id(self) -> bytes:
        """The build id. Raises UnsupportedError if the kernel has none."""
        try:
            data = self.host.read_bytes(KERNEL_NOTES)
        except OSError:
            data = b""
        found = modules.build_id_of_notes(data, KERNEL_NOTES)
        if found is None:
            raise UnsupportedError(
                "the running kernel does not tell its build id, so nothing shows which vmlinux is its own: "
                "name one with -k",
                path=KERNEL_NOTES,
            )
        return found

    @cached_property
    def anchor(self) -> tuple[str, int] | None:
        """``_stext`` (else ``_text``) with its run-time address; None if it is hidden."""
        for name in _ANCHORS:
            found = first_address(self.host, (name,))
            if found is not None:
                return found
        return None

    def require(self, elf: ElfFile) -> None:
        """Raise MismatchError, naming both build ids, if ``elf`` is of another build."""
        if elf.build_id != self.build_id:
            has = f"the build id is {elf.build_id.hex()}" if elf.build_id else "it has no build id"
            raise MismatchError(f"{has}, the running kernel has {self.build_id.hex()}", path=elf.path)

    def loaded(self, elf: ElfFile) -> LoadedKernel | None:
        """Where the kernel, whose symbols are in ``elf``, is loaded; None if its addresses are hidden.

        Raises MismatchError if ``elf`` has another build id.
        """
        self.require(elf)
        if self.anchor is None:
            return None
        name, runtime = self.anchor
        symbols = elf.symbols().named(name)
        return LoadedKernel(name, symbols[0].address, runtime) if symbols else None

    def hidden(self) -> str:
        """Why addresses are hidden, and what shows them: one clause (kallsyms_show_value() of the kernel)."""
        try:
            level = int(self.host.read_text("/proc/sys/kernel/kptr_restrict"))
        except (OSError, ValueError):
            level = 1
        if not self.host.exists("/proc/kallsyms"):
            return "the kernel has no /proc/kallsyms"
        if level >= 2:
            return f"kernel.kptr_restrict is {level}: sysctl kernel.kptr_restrict=1 shows them to root"
        if self.host.is_root:
            return f"kernel.kptr_restrict is {level} and this process lacks CAP_SYSLOG"
        return f"kernel.kptr_restrict is {level}: only root may see them"


def _kernel_places(release: str, roots: Sequence[str], build_id: bytes) -> Iterator[str]:
    for place in _KERNEL_PLACES:
        for root in roots if place.startswith("ROOT/") else roots[:1]:
            yield place.replace("ROOT", root.rstrip("/"), 1).replace("RELEASE", release)
    for root in roots:
        yield build_id_path(root, build_id)


def _module_places(path: str | None, release: str, roots: Sequence[str], build_id: bytes) -> Iterator[str]:
    """The module itself, and where distributions put its debug file."""
    if path is not None:
        yield path
        plain = path
        for suffix in modules.MODULE_SUFFIXES:
            if plain.endswith(suffix):
                plain = plain.removesuffix(suffix) + ".ko"
        yield plain + ".debug"
        _, _, rest = plain.partition(f"/lib/modules/{release}/")
        for root in roots if rest else ():
            for folder in ("lib/modules", "usr/lib/modules"):
                for suffix in ("", ".debug"):
                    yield os.path.join(root, folder, release, rest + suffix)
    for root in roots:
        yield build_id_path(root, build_id)


def _find(search: Search, places: Iterator[str], progress: Progress | None) -> bool:
    found = search.take_cached() or any(search.take(place) for place in places) or search.take_debuginfod(progress)
    search.remember()
    if found:
        # The instructions may be in a file that was not tried because the cache knew one with DWARF.
        for place in places:
            if search.program is not None:
                break
            search.take(place)
    return found


def _roots(host: Host, roots: Sequence[str]) -> list[str]:
    """Debug roots as this process sees them."""
    return [host.path(root) for root in roots]


def open_running_kernel(
    host: Host,
    *,
    roots: Sequence[str] = DEFAULT_ROOTS,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Image:
    """Open the running kernel with its DWARF and its run-time addresses.

    Where these are hidden the image has the link-time ones, and a notice. ``report`` is called with every place that is
    tried, ``progress`` with what the debuginfod client says. Raises NotFoundError that says what to install,
    MismatchError if the only vmlinux are of other builds, NotPermittedError if one may not be read.
    """
    kernel = RunningKernel(host)
    search = Search(host, kernel.build_id, owner="the running kernel", report=report)
    _find(search, _kernel_places(kernel.release, roots, kernel.build_id), progress)
    if search.found is None:
        advice = f"{debug_symbols_advice(host, kernel.release)}, or name a vmlinux with -k; -v lists the places tried"
        raise search.failure(f"no vmlinux with DWARF for the running kernel {kernel.release}", advice)
    image = make_image(search.program or search.found, search.found, roots=_roots(host, roots))
    _resolve(image, kernel)
    return image


def _resolve(image: Image, kernel: RunningKernel) -> None:
    image.loaded = kernel.loaded(image.debug)
    if image.loaded is None:
        image.notices.append(f"the addresses are link-time ones: run-time addresses are hidden ({kernel.hidden()})")


def open_running_module(
    host: Host,
    name: str,
    *,
    roots: Sequence[str] = DEFAULT_ROOTS,
    report: Report | None = None,
    progress: Progress | None = None,
) -> Image:
    """Open a module by its name, ``-`` and ``_`` being equal: the loaded one, else what modprobe would load.

    The build id of a loaded module must be that of its files. Addresses are run-time ones if it is loaded and they are
    not hidden, else offsets in sections, with a notice. Raises as open_running_kernel does.
    """
    name = name.replace("-", "_")
    kernel = RunningKernel(host)
    release = kernel.release
    loaded = name in modules.loaded_modules(host)
    path = modules.find_module_file(host, name, release)
    if path is None and not loaded:
        if modules.is_built_in(host, name, release):
            raise NotFoundError(f"module {name} is built into the kernel: leave -m out")
        raise NotFoundError(f"no module {name} is loaded or below /lib/modules/{release}; a file is named by its path")
    build_id = modules.module_build_id(host, name) if loaded else _build_id_of_file(host, path or "")
    if build_id is None:
        where = "the kernel does not tell the build id of" if loaded else f"{path} has no build id:"
        raise UnsupportedError(
            f"{where} module {name}, so nothing shows which file belongs to it: name one with -m FILE"
        )
    owner = f"the loaded module {name}" if loaded else f"module {name}"
    search = Search(host, build_id, owner=owner, report=report)
    if not _find(search, _module_places(path, release, roots, build_id), progress) or search.found is None:
        file = "its file is not below /lib/modules: name it with -m FILE" if path is None else "build it with -g"
        ours = path is not None and "/kernel/" in path
        advice = debug_symbols_advice(host, release) if ours else file
        raise search.failure(f"no DWARF for module {name}", f"{advice}; -v lists the places tried")
    image = make_image(search.program or search.found, search.found, roots=_roots(host, roots), module=name)
    if loaded:
        _resolve_module(image, kernel, name)
    else:
        image.notices.append(f"module {name} is not loaded: the addresses are offsets in its sections")
    return image


def _build_id_of_file(host: Host, path: str) -> bytes | None:
    return ElfFile.open(host.path(path)).build_id


def _resolve_module(image: Image, kernel: RunningKernel, name: str) -> None:
    sections = modules.section_addresses(kernel.host, name)
    if sections is not None:
        image.loaded = LoadedModule(sections)
        return
    if name not in modules.loaded_modules(kernel.host):
        raise NotFoundError(f"module {name} was unloaded meanwhile")
    image.notices.append(
        f"the addresses are offsets in sections: those of module {name} are hidden ({kernel.hidden()})"
    )


def resolve_running(image: Image, host: Host) -> None:
    """Give an image that was opened from a file the run-time addresses, if it is what runs now.

    Raises MismatchError, naming both build ids, if it is another build, NotFoundError if the module is not loaded.
    """
    kernel = RunningKernel(host)
    if image.module is None:
        _resolve(image, kernel)
        return
    _require_module(image.debug, image.module, host)
    _resolve_module(image, kernel, image.module)


def require_running(elf: ElfFile, module: str | None, host: Host) -> None:
    """Check that a file is what the kernel runs, the kernel itself or ``module``; errors as of ``resolve_running``."""
    if module is None:
        RunningKernel(host).require(elf)
    else:
        _require_module(elf, module, host)


def _require_module(elf: ElfFile, module: str, host: Host) -> None:
    if module not in modules.loaded_modules(host):
        raise NotFoundError(f"module {module} is not loaded", path=elf.path)
    running, own = modules.module_build_id(host, module), elf.build_id
    if running is None or own != running:
        ids = [value.hex() if value is not None else "unknown" for value in (own, running)]
        raise MismatchError(f"the build id is {ids[0]}, the loaded module {module} has {ids[1]}", path=elf.path)
