"""Where the probes of a kernel or a module go, and what its addresses are at run time.

A kernel is moved as a whole: every probe is ``_stext`` plus an offset, whether the run-time addresses are known or
hidden. Of a module each section is moved by itself: a probe is ``module:symbol`` plus an offset, the symbol being one
of the same section whose name is unique in the module (the kernel takes no other). Nothing here depends on addresses
that the kernel may hide, but for what a module's parameters say of its other sections.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from inlinetrace.errors import NotFoundError
from inlinetrace.probe.fetch import Place
from inlinetrace.probe.kernel_text import KernelText
from inlinetrace.sites.from_btf import OffsetBase
from inlinetrace.sites.location import Location
from inlinetrace.sites.nodes import Op
from inlinetrace.sites.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.elf.sections import Section
    from inlinetrace.sites.model import Parameter, Site
    from inlinetrace.target.btf_image import BtfImage
    from inlinetrace.target.image import Image

ANCHOR = "_stext"
"""The symbol that addresses in a kernel are counted from: it needs neither kallsyms nor the KASLR offset."""
_IMAGE_START = "_text"
PER_CPU = ".data..percpu"
_ENDBR64 = b"\xf3\x0f\x1e\xfa"


class Placement(Protocol):
    """Addresses are those of the file; see inlinetrace.target.image."""

    target: str

    def in_file(self, site: Site) -> Site:
        """The site with its address in the file, whatever people call it."""

    def anchor(self, address: int) -> str | None:
        """The symbol that an address is counted from, None for ``target``."""

    def offset(self, address: int) -> int | None:
        """The distance from the anchor; None if there is no anchor."""

    def shift(self, address: int) -> int:
        """How far behind ``address`` the kernel puts a probe."""

    def moved(self, address: int) -> int | None:
        """How far ``address`` is moved, where that must stay so for all of the trace; None if any distance is right."""

    def place(self, site: Site) -> Place:
        """The surroundings of a site, as far as the text of its fetch arguments depends on them."""

    def resolve(self, address: int, site: Site) -> int | Unavailable | None:
        """What an address in a parameter of a site is at run time; None if it moves as the site does."""

    def is_per_cpu(self, address: int) -> bool:
        """Whether an address is that of a per-CPU variable, which is none of memory."""


def settle(site: Site, placement: Placement) -> Site:
    """The site with the addresses in its parameters as they are at run time, where the load bias does not tell."""
    if not any(_has_address(parameter) for parameter in site.parameters):
        return site
    parameters = tuple(
        parameter._replace(location=_settled(parameter.location, site, placement))
        if _has_address(parameter)
        else parameter
        for parameter in site.parameters
    )
    return site._replace(parameters=parameters)


def _has_address(parameter: Parameter) -> bool:
    location = parameter.location
    return isinstance(location, Location) and any(node.op == Op.ADDRESS for node in location.nodes)


def _settled(location: Location | Unavailable, site: Site, placement: Placement) -> Location | Unavailable:
    assert isinstance(location, Location)
    for node in location.nodes:
        if node.op == Op.LOAD:
            address = location.nodes[node.a]
            if address.op == Op.ADDRESS and placement.is_per_cpu(address.a):
                return Unavailable(Reason.UNSUPPORTED, "a per-CPU variable, of which every processor has its own")
    return location.with_addresses(lambda address: placement.resolve(address, site))


class _Kprobes:
    """What kernels and modules have in common."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._program = image.program
        self.text = KernelText(image.program)

    def shift(self, address: int) -> int:
        """See Placement; arch_adjust_kprobe_addr() of arch/x86/kernel/kprobes/core.c."""
        if self._program.machine.name != "x86_64" or self.text.read(address, 4) != _ENDBR64:
            return 0
        symbol = self.text.symbol(address)
        return 4 if symbol is not None and symbol.start == address else 0

    def _section(self, address: int) -> Section | None:
        return self._program.section_at(address) or self._image.debug.section_at(address)

    def is_per_cpu(self, address: int) -> bool:
        """See Placement."""
        section = self._section(address)
        return section is not None and section.name == PER_CPU


class KernelPlacement(_Kprobes):
    """The kernel itself. Raises NotFoundError if the image is none."""

    target = ANCHOR

    def __init__(self, image: Image) -> None:
        super().__init__(image)
        found = image.debug.symbols().named(ANCHOR)
        if not found:
            raise NotFoundError(f"no symbol {ANCHOR}: this is no kernel image", path=image.path)
        self._start = found[0].address
        fixed = self._fixed
        self._place = Place(image.debug.machine, fixed)

    def in_file(self, site: Site) -> Site:
        """See Placement."""
        bias = self._image.load_bias or 0
        return site._replace(address=site.address - bias) if bias else site

    def anchor(self, address: int) -> str | None:
        """See Placement."""
        return None

    def offset(self, address: int) -> int | None:
        """See Placement."""
        return address - self._start if address >= self._start else None

    def moved(self, address: int) -> int | None:
        """See Placement: a kernel stays where it is."""
        return None

    def _fixed(self, address: int, relocated: bool) -> str:
        return f"@{ANCHOR}{address - self._start:+d}" if relocated else f"@{address:#x}"

    def place(self, site: Site) -> Place:
        """See Placement."""
        return self._place

    def resolve(self, address: int, site: Site) -> int | Unavailable | None:
        """See Placement. Per-CPU variables that are linked at 0 stay where they are."""
        if address >= self._start:
            return None
        if self.is_per_cpu(address):
            return address
        return Unavailable(Reason.UNDEFINED_SYMBOL, f"{address:#x} is no address of the kernel")


class ModulePlacement(_Kprobes):
    """The module ``name``."""

    def __init__(self, image: Image, name: str) -> None:
        super().__init__(image)
        self.target = name
        self._name = name

    def in_file(self, site: Site) -> Site:
        """See Placement."""
        section = None if site.section is None else self._program.section(site.section)
        if section is None or site.section_offset is None:
            return site
        return site._replace(address=section.address + site.section_offset)

    @cached_property
    def _unique(self) -> dict[int, tuple[list[int], list[str]]]:
        """Symbols whose names are unique in the module: addresses and names by the number of their section."""
        names: dict[str, int] = {}
        symbols = [symbol for symbol in self._program.symbols() if symbol.section_index and symbol.name]
        for symbol in symbols:
            names[symbol.name] = names.get(symbol.name, 0) + 1
        found: dict[int, list[tuple[int, bool, str]]] = {}
        for symbol in symbols:
            if names[symbol.name] == 1 and _is_kept(symbol.name):
                row = (symbol.address, symbol.is_function, symbol.name)
                found.setdefault(symbol.section_index, []).append(row)
        result = {}
        for index, rows in found.items():
            rows.sort()
            result[index] = ([address for address, _, _ in rows], [name for _, _, name in rows])
        return result

    def _nearest(self, address: int) -> tuple[str, int] | None:
        """The nearest usable symbol at or before an address in the same section, and the distance from it."""
        section = self._program.section_at(address)
        addresses, names = self._unique.get(section.index, ([], [])) if section is not None else ([], [])
        at = bisect_right(addresses, address) - 1
        return None if at < 0 else (f"{self._name}:{names[at]}", address - addresses[at])

    def anchor(self, address: int) -> str | None:
        """See Placement."""
        found = self._nearest(address)
        return None if found is None else found[0]

    def offset(self, address: int) -> int | None:
        """See Placement."""
        found = self._nearest(address)
        return None if found is None else found[1]

    def moved(self, address: int) -> int | None:
        """See Placement: what ``resolve`` said is wrong once the module was loaded again elsewhere."""
        runtime = self._image.runtime_address(address)
        return None if runtime is None else runtime - address

    def place(self, site: Site) -> Place:
        """See Placement."""

        def fixed(address: int, relocated: bool) -> str:
            if not relocated:
                return f"@{address:#x}"
            # resolve() has left only addresses of the site's own section, where the site itself has an anchor
            symbol, distance = self._nearest(site.address) or (self._name, 0)
            return f"@{symbol}{distance + address - site.address:+d}"

        return Place(self._image.debug.machine, fixed)

    def resolve(self, address: int, site: Site) -> int | Unavailable | None:
        """See Placement."""
        section = self._section(address)
        if section is None:
            return Unavailable(Reason.UNDEFINED_SYMBOL, f"{address:#x} is no address of the module")
        if section.name == PER_CPU:
            return Unavailable(Reason.HIDDEN_ADDRESS, "a per-CPU variable of a module")
        if section.name == site.section:
            return None
        runtime = self._image.runtime_address(address)
        if runtime is None:
            return Unavailable(Reason.HIDDEN_ADDRESS, f"where {section.name} of {self._name} is, is not known")
        return runtime


class RunningPlacement:
    """The running kernel, or a module of it, known by its own location info alone: without a file.

    Sites of the kernel are told by their offset in ``.text``, those of a module by their run-time addresses.
    """

    def __init__(self, listed: BtfImage) -> None:
        reader = listed.reader
        self._module = reader.module
        self._surroundings = reader.surroundings
        self._place = Place(reader.machine, lambda address, relocated: f"@{address:#x}")
        from_image = reader.offset_base is OffsetBase.IMAGE and reader.surroundings is None
        self.target = self._module or (_IMAGE_START if from_image else ANCHOR)

    def in_file(self, site: Site) -> Site:
        """See Placement."""
        if self._module is not None or site.section_offset is None:
            return site
        return site._replace(address=site.section_offset)

    def anchor(self, address: int) -> str | None:
        """See Placement."""
        found = self._function(address)
        return None if found is None else f"{self._module}:{found[0]}"

    def offset(self, address: int) -> int | None:
        """See Placement."""
        if self._module is None:
            return address
        found = self._function(address)
        return None if found is None else found[1]

    def _function(self, address: int) -> tuple[str, int] | None:
        """The function of the module around an address, if its name is unique there."""
        if self._module is None or self._surroundings is None:
            return None
        found = self._surroundings.symbol(address)
        return found if found is not None and len(self._surroundings.copies(found[0])) == 1 else None

    def shift(self, address: int) -> int:
        """See Placement. Sites are behind the start of the function that they are in."""
        return 0

    def moved(self, address: int) -> int | None:
        """See Placement."""
        return None if self._module is None else 0

    def place(self, site: Site) -> Place:
        """See Placement."""
        return self._place

    def resolve(self, address: int, site: Site) -> int | Unavailable | None:
        """See Placement: what is known at all is known as it is at run time."""
        return address

    def is_per_cpu(self, address: int) -> bool:
        """See Placement: BTF has no memory at fixed addresses."""
        return False


def _is_kept(name: str) -> bool:
    """Whether the kernel's table has a symbol, and an event can name it."""
    return not name.startswith((".L", "$")) and not any(character in name for character in "+-:%@ \t")
