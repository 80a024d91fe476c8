"""From a program with DWARF to its ``.BTF`` and ``.BTF.inline``.

>>> made = generate(open_image("vmlinux"))
>>> made.base, made.inline                     # bytes
>>> made.report.sites, made.report.located     # and what could not be said, by reason

``base`` is what the result is split from: a module's types from the kernel's. With ``Wanted.INLINE`` the location info
alone is made, for the types that ``base`` has already; that has to be of the same build, as the BTF of a running
kernel is.
"""

from __future__ import annotations

import enum
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace._threads import Ahead, processors
from inlinetrace.btf.builder import object_bytes
from inlinetrace.btf.kinds import Dialect
from inlinetrace.btf.reader import Btf
from inlinetrace.errors import FormatError, NotFoundError, UsageError
from inlinetrace.generate._locsec import distinct
from inlinetrace.generate.base import Base
from inlinetrace.generate.features import Features
from inlinetrace.generate.locations import LocationSettings, SiteAddress, answer, collect, counts
from inlinetrace.generate.locsec import InlineSections, LocsecSettings, Written, code_sections
from inlinetrace.generate.types import (
    EXCLUDED_LANGUAGES,
    ImageFacts,
    InlineObject,
    Types,
    functions_onto_base,
    language_numbers,
    types_from_dwarf,
)
from inlinetrace.sites.from_btf import start_of_image

if TYPE_CHECKING:
    from inlinetrace.target.image import Image

Progress = Callable[[str], None]

_FUNC_WORDS = 3


class Wanted(enum.Enum):
    """Which of the two objects to make."""

    BOTH = "both"
    BASE = "base"
    INLINE = "inline"


class Settings(NamedTuple):
    """What to make and how. ``features`` are those of the types; ``excluded_languages`` names of LANGUAGES."""

    wanted: Wanted = Wanted.BOTH
    features: Features = Features()
    site_address: SiteAddress = SiteAddress.ENTRY
    doubtful: bool = False
    locsec: LocsecSettings = LocsecSettings()
    excluded_languages: tuple[str, ...] = EXCLUDED_LANGUAGES

    @property
    def plain(self) -> bool:
        """Whether location info is what a listing takes for that of the build: exact, and nothing doubtful."""
        return self.site_address is SiteAddress.ENTRY and not self.doubtful and self.locsec.plain

    @property
    def locations(self) -> LocationSettings:
        """The part that location info is collected by."""
        excluded = language_numbers(self.excluded_languages)
        return LocationSettings(self.locsec.dialect, self.site_address, self.doubtful, excluded)


class Report(NamedTuple):
    """What location info holds: ``located`` of ``parameters`` have a LOC_PARAM.

    ``reasons`` (Reason) and ``doubts`` (Doubt) say why the others have none; with ``doubtful`` those with a doubt are
    among the located. ``transparent`` sites are no calls and were left out, as were those ``without_address`` and those
    in units of languages that are left out.
    """

    written: Written
    functions: int
    parameters: int
    located: int
    reasons: Counter[str]
    doubts: Counter[str]
    transparent: int
    without_address: int
    of_other_languages: int

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
    """Where addresses and offsets from the image count from, for the reader of the result too; see start_of_image."""
    return start_of_image(image.program, image.debug)


def generate(
    image: Image,
    settings: Settings | None = None,
    *,
    base: Base | Btf | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Generated:
    """Make the BTF of ``image``; the bytes do not depend on ``jobs``, the number of threads (one per processor).

    Raises FormatError for DWARF that cannot be read or more than the format can number, NotFoundError for a part of
    split DWARF that is not there, MismatchError for a base of the other byte order, UsageError for settings that
    contradict each other.
    """
    settings = settings or Settings()
    tell = progress or (lambda _: None)
    jobs = jobs or processors()
    if settings.wanted is Wanted.BASE:
        tell("types")
        _require_all(image)
        return Generated(_types(image, settings, base, jobs).encode(layout=settings.features.layout), None, None)
    given = None if base is None else Base.of(base)
    if settings.wanted is Wanted.INLINE and given is None:
        raise UsageError("location info alone needs the types that it refers to")
    with ExitStack() as waiting:
        return _generate_inline(image, settings, given, jobs, tell, waiting)


def _generate_inline(
    image: Image, settings: Settings, base: Base | None, jobs: int, tell: Progress, waiting: ExitStack
) -> Generated:
    """Make the location info, for the types of ``base`` or with those; no thread outlasts ``waiting``."""
    if settings.wanted is Wanted.INLINE and base is not None:
        waiting.enter_context(base.prepared(jobs))
    tell("sites")
    _require_all(image)
    start = image_base(image)
    parts = collect(image.dwarf, image, settings.locations, image_base=start, jobs=jobs)
    found = InlineSections(
        parts, code_sections(image.program), image_base=start, address_size=image.program.address_size
    )

    def settle() -> None:
        if settings.wanted is not Wanted.INLINE:
            image.debug.forget_pages()
        answer(parts, image, settings.doubtful)
        image.forget_code()
        found.describe(settings.locsec.dialect)

    settled = waiting.enter_context(Ahead(settle, jobs))
    tell("types")
    main: bytes | None = None
    if settings.wanted is Wanted.INLINE and base is not None:
        beneath = base.btf
        own = _functions(
            found,
            lambda keys: functions_onto_base(
                image.dwarf,
                keys,
                base,
                features=settings.features,
                threads=jobs,
                excluded_languages=settings.excluded_languages,
            ),
        )
    else:
        types = _types(image, settings, base, jobs)
        main = types.encode(layout=settings.features.layout)
        beneath = Btf(main, None if base is None else base.btf)
        own = _functions(found, types.inline_object)
    tell("location info")
    functions = _names_and_prototypes(own, beneath) if settings.locsec.dialect is Dialect.RFC else None
    settled.result()
    # at the end of the process that takes as long, and alone
    forgotten = waiting.enter_context(Ahead(image.debug.forget_pages, jobs))
    inline, written = found.encode(own, settings.locsec, byte_order=beneath.byte_order, functions=functions)
    reasons, doubts = counts(parts)
    parameters = sum(part.parameters for part in parts)
    forgotten.result()
    missing = reasons.total() + (0 if settings.doubtful else doubts.total())
    return Generated(
        main,
        inline,
        Report(
            written,
            distinct(own.func_ids),
            parameters,
            parameters - missing,
            reasons,
            doubts,
            sum(part.transparent for part in parts),
            sum(part.without_address for part in parts),
            sum(part.of_other_languages for part in parts),
        ),
    )


def _require_all(image: Image) -> None:
    """Refuse DWARF of which a part is not there."""
    missing = image.dwarf.split.what_is_missing
    if missing is not None:
        raise NotFoundError(f"{missing}: its types and sites would be missing", path=image.debug.path)


def _types(image: Image, settings: Settings, base: Base | Btf | None, jobs: int | None) -> Types:
    return types_from_dwarf(
        image.dwarf,
        features=settings.features,
        base=base,
        threads=jobs,
        image=ImageFacts(image.symbols_file),
        excluded_languages=settings.excluded_languages,
    )


def _functions(found: InlineSections, ask: Callable[[array[int]], InlineObject]) -> InlineObject:
    """The FUNCs of all functions that have sites, from ``ask``.

    After link-time optimisation sites name an entry that only refers to the one in which the function is described.
    """
    origins = found.origins
    ends = found.canonical
    later = (
        []
        if origins == ends
        else [i for i, (origin, end) in enumerate(zip(origins, ends, strict=True)) if origin != end]
    )
    own = ask(array("Q", [*origins, *(ends[i] for i in later)]) if later else origins)
    func_ids = own.func_ids[: len(origins)]
    for i, func_id in zip(later, own.func_ids[len(origins) :], strict=True):
        func_ids[i] = func_ids[i] or func_id
    return own._replace(func_ids=func_ids)


def _names_and_prototypes(own: InlineObject, beneath: Btf) -> tuple[array[int], array[int]]:
    """For each function with sites the string offset of its name and the id of its FUNC_PROTO."""
    known: dict[int, tuple[int, int]] = {0: (0, 0)}
    inline = Btf(object_bytes(own.types, own.strings, byte_order=beneath.byte_order), beneath)
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
