"""From a program with DWARF to its ``.BTF`` and ``.BTF.inline``.

>>> made = generate(open_image("vmlinux"))
>>> made.base, made.inline                     # bytes
>>> made.report.sites, made.report.located     # and what could not be said, by reason

``base`` is what the result is split from: a module's types from the kernel's. With ``Wanted.INLINE`` the location info
alone is made, for the types that ``base`` has already: the BTF of the kernel that runs, for example.
"""

from __future__ import annotations

import enum
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.btf.kinds import Dialect
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError
from inlinetrace.generate.features import Features
from inlinetrace.generate.locations import LocationSettings, SiteAddress, collect, counts
from inlinetrace.generate.locsec import InlineSections, LocsecSettings, Written, code_sections
from inlinetrace.generate.types import ImageFacts, InlineObject, Types, types_from_dwarf

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.generate._locations import Collected
    from inlinetrace.target.image import Image

Progress = Callable[[str], None]

_FUNC_WORDS = 3


class Wanted(enum.Enum):
    """Which of the two objects to make."""

    BOTH = "both"
    BASE = "base"
    INLINE = "inline"


@dataclass(frozen=True, slots=True)
class Settings:
    """What to make and how. ``features`` are those of the types."""

    wanted: Wanted = Wanted.BOTH
    features: Features = field(default_factory=Features)
    site_address: SiteAddress = SiteAddress.ENTRY
    doubtful: bool = False
    locsec: LocsecSettings = field(default_factory=LocsecSettings)

    @property
    def locations(self) -> LocationSettings:
        """The part that location info is collected by."""
        return LocationSettings(self.locsec.dialect, self.site_address, self.doubtful)

    @property
    def layout(self) -> bool:
        """Whether the base has a layout section, by which readers can pass over the location kinds."""
        return self.features.layout or (self.wanted is Wanted.BOTH and self.locsec.dialect is not Dialect.RFC)


class Report(NamedTuple):
    """What location info holds: ``located`` of ``parameters`` have a LOC_PARAM.

    ``reasons`` (Reason) and ``doubts`` (Doubt) say why the others have none; with ``doubtful`` those with a doubt are
    among the located. ``transparent`` sites are no calls and were left out, as were ``without_address``.
    """

    written: Written
    functions: int
    parameters: int
    located: int
    reasons: Counter[str]
    doubts: Counter[str]
    transparent: int
    without_address: int

    @property
    def sites(self) -> int:
        """The sites that the object has."""
        return self.written.sites


class Generated(NamedTuple):
    """The objects, None for those that were not wanted; ``base_types`` is the number of types in ``base``."""

    base: bytes | None
    inline: bytes | None
    report: Report | None


def image_base(image: Image) -> int | None:
    """Where addresses and offsets from the image count from: ``_text``, else the start of ``.text``.

    None for a relocatable file, whose sections are put anywhere.
    """
    if image.program.relocatable:
        return None
    for elf in (image.program, image.debug):
        for symbol in elf.symbols().named("_text"):
            return symbol.address
    text = image.program.section(".text")
    return None if text is None else text.address


def generate(
    image: Image,
    settings: Settings | None = None,
    *,
    base: Btf | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Generated:
    """Make the BTF of ``image``; the bytes do not depend on ``jobs``, the number of threads (one per processor).

    Raises FormatError for DWARF that cannot be read or more than the format can number, MismatchError for a base of
    the other byte order, UsageError for settings that contradict each other.
    """
    settings = settings or Settings()
    tell = progress or (lambda _: None)
    start = image_base(image)
    parts: list[Collected] = []
    if settings.wanted is not Wanted.BASE:
        tell("sites")
        parts = collect(image.dwarf, image, settings.locations, image_base=start, jobs=jobs)
        # The types need as much memory as the records: not both at once.
        image.dwarf.forget_records()
        image.forget_code()
        image.debug.forget_pages()
    tell("types")
    types = types_from_dwarf(
        image.dwarf, features=settings.features, base=base, threads=jobs, image=ImageFacts(_with_symbols(image))
    )
    main = None
    if settings.wanted is not Wanted.INLINE:
        main = types.encode(layout=settings.layout)
        if settings.wanted is Wanted.BASE:
            return Generated(main, None, None)
    tell("location info")
    found = InlineSections(
        parts, code_sections(image.program), image_base=start, address_size=image.program.address_size
    )
    own = _functions(types, found)
    beginning = own
    if settings.wanted is Wanted.INLINE:
        # What the base lacks stands in the inline object itself.
        beginning = own._replace(types=types.types + own.types, strings=types.strings + own.strings)
    functions = None
    if settings.locsec.dialect is Dialect.RFC:
        functions = _names_and_prototypes(types, own, base)
    inline, written = found.encode(beginning, settings.locsec, byte_order=types.byte_order, functions=functions)
    reasons, doubts = counts(parts)
    parameters = sum(part.parameters for part in parts)
    missing = reasons.total() + (0 if settings.doubtful else doubts.total())
    return Generated(
        main,
        inline,
        Report(
            written,
            len(set(own.func_ids) - {0}),
            parameters,
            parameters - missing,
            reasons,
            doubts,
            sum(part.transparent for part in parts),
            sum(part.without_address for part in parts),
        ),
    )


def _functions(types: Types, found: InlineSections) -> InlineObject:
    """The FUNCs of all functions that have sites.

    After link-time optimisation sites name an entry that only refers to the one in which the function is described.
    """
    origins = found.origins
    later = [i for i, (origin, end) in enumerate(zip(origins, found.canonical, strict=True)) if origin != end]
    own = types.inline_object(array("Q", [*origins, *(found.canonical[i] for i in later)]) if later else origins)
    func_ids = own.func_ids[: len(origins)]
    for i, func_id in zip(later, own.func_ids[len(origins) :], strict=True):
        func_ids[i] = func_ids[i] or func_id
    return own._replace(func_ids=func_ids)


def _with_symbols(image: Image) -> ElfFile:
    """The file with the fuller symbol table: a stripped program has none, its debug file has."""
    return image.debug if image.debug.section(".symtab") is not None else image.program


def _names_and_prototypes(types: Types, own: InlineObject, base: Btf | None) -> tuple[array[int], array[int]]:
    """For each function with sites the string offset of its name and the id of its FUNC_PROTO."""
    known: dict[int, tuple[int, int]] = {0: (0, 0)}
    main = Btf(types.encode(), base)
    from inlinetrace.btf.builder import object_bytes

    inline = Btf(object_bytes(own.types, own.strings, byte_order=types.byte_order), main)
    names, prototypes = array("I"), array("I")
    for func_id in own.func_ids:
        entry = known.get(func_id)
        if entry is None:
            record = inline.index.record(func_id)
            if len(record) < _FUNC_WORDS:
                raise FormatError("a function without a prototype", type_id=func_id)
            entry = known[func_id] = record[0], record[2]
        names.append(entry[0])
        prototypes.append(entry[1])
    return names, prototypes
