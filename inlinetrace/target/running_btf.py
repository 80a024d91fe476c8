"""Location info in the BTF of the running kernel and of loaded modules as an input.

>>> image = open_running_btf(Host())              # /sys/kernel/btf/vmlinux.inline
>>> image = open_running_btf(Host(), "xfs")       # /sys/kernel/btf/xfs.inline

BTF has offsets in sections; where these are, and what function is there, /proc/kallsyms and /sys/module say. Where they
hide it, addresses stay offsets, with a notice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inlinetrace.btf.load import load
from inlinetrace.errors import NotFoundError, UnsupportedError
from inlinetrace.sites.from_btf import BtfSites, Copy, OffsetBase, SectionAddress, is_copy
from inlinetrace.target.btf_image import BtfImage, this_machine
from inlinetrace.target.cache import Cache
from inlinetrace.target.host import Host
from inlinetrace.target.kallsyms import Kallsyms, Symbol
from inlinetrace.target.loaded import AddressKind
from inlinetrace.target.modules import loaded_modules, module_build_id, section_addresses
from inlinetrace.target.running import RunningKernel

BTF_FOLDER = "/sys/kernel/btf"

# include/asm-generic/sections.h: what is left of .init.text once the kernel runs is not its code any more
_TEXT = (".text", "_stext", "_etext")
_IMAGE = "_text"
_CODE = "tTwW"


class KernelSurroundings:
    """Sections and functions of the running kernel, or of one of its modules, from what it says of itself."""

    def __init__(self, host: Host, module: str | None = None) -> None:
        self._symbols = Kallsyms.read(host)
        self._module = module
        self.sections: Mapping[str, SectionAddress] = self._module_sections(host) if module else self._kernel_sections()
        self.image_base = None if module else self._address_of(_IMAGE)

    def _address_of(self, name: str) -> int | None:
        return next((symbol.address for symbol in self._symbols.named(name) if symbol.module is None), None)

    def _kernel_sections(self) -> dict[str, SectionAddress]:
        name, start, end = _TEXT[0], self._address_of(_TEXT[1]), self._address_of(_TEXT[2])
        return {} if start is None or end is None else {name: SectionAddress(start, end - start)}

    def _module_sections(self, host: Host) -> dict[str, SectionAddress]:
        # Their sizes are not told; a module's offsets are never those of an image, so nothing asks for them.
        found = section_addresses(host, self._module or "") or {}
        return {name: SectionAddress(address, 0) for name, address in found.items()}

    def symbol(self, address: int) -> tuple[str, int] | None:
        """See Surroundings."""
        found = self._symbols.lookup(address)
        if found is None or found[0].module != self._module or found[0].type not in _CODE:
            return None
        return found[0].name, found[1]

    def copies(self, name: str) -> list[Copy]:
        """See Surroundings. Parts (``.part.0``, ``.cold``) are no copies."""
        found = []
        for symbol in self._symbols.named_with_suffixes(name):
            section = self._section_of(symbol)
            if section is not None and symbol.address is not None and is_copy(symbol.name, name):
                found.append(Copy(symbol.name, section, symbol.address))
        return found

    def _section_of(self, symbol: Symbol) -> str | None:
        """The section that a function of ours is in: the last one that begins before it."""
        if symbol.module != self._module or symbol.type not in _CODE or symbol.address is None:
            return None
        before = [(where.address, name) for name, where in self.sections.items() if where.address <= symbol.address]
        if not before:
            return None
        name = max(before)[1]
        size = self.sections[name].size
        return name if not size or symbol.address < self.sections[name].address + size else None


def inline_btf_path(module: str | None = None) -> str:
    """Where the kernel shows the location info of itself, or of a module."""
    return f"{BTF_FOLDER}/{(module or 'vmlinux').replace('-', '_')}.inline"


def open_running_btf(
    host: Host,
    module: str | None = None,
    *,
    made: tuple[str, Sequence[str]] | None = None,
    offset_base: OffsetBase | None = None,
) -> BtfImage:
    """Open what the running kernel has in /sys/kernel/btf, or what was ``made`` for it: a file and its bases.

    Raises NotFoundError if there is nothing, or if the module that delivers it is missing; NotPermittedError.
    """
    if module is not None:
        module = module.replace("-", "_")
        if module not in loaded_modules(host):
            raise NotFoundError(f"module {module} is not loaded", path=inline_btf_path(module))
    if made is None:
        if not host.exists(inline_btf_path(module)):
            raise NotFoundError(
                "the running kernel has no location info here: --btf FILE names some that was made for it",
                path=inline_btf_path(module),
            )
        made = host.path(inline_btf_path(module)), ()
    path, bases = made
    btf = load(path, bases)
    surroundings = KernelSurroundings(host, module)
    reader = BtfSites(
        btf,
        this_machine(),
        surroundings=surroundings if surroundings.sections else None,
        offset_base=offset_base,
        module=module,
    )
    if surroundings.sections:
        return BtfImage(path, reader, AddressKind.RUN_TIME)
    why = RunningKernel(host).hidden()
    notice = f"addresses are offsets in their section: run-time addresses are hidden ({why})"
    return BtfImage(path, reader, AddressKind.SECTION_OFFSET, [notice])


def kept_location_info(host: Host, module: str | None = None) -> tuple[str, list[str]] | None:
    """What ``generate`` has made for the running kernel, or a loaded module: the file and its bases; None without."""
    try:
        build_id = RunningKernel(host).build_id if module is None else module_build_id(host, module)
    except UnsupportedError:
        return None
    return None if build_id is None else Cache(host, build_id).location_info()
