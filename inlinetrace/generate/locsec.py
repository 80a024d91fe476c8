"""The inline object: what collected sites are written as.

::

    inline = InlineSections(found, sections)          # Assembly of the sites, with the code sections of the program
    object_ = types.inline_object(inline.origins)     # FUNC ids for the functions that have sites
    data, report = inline.encode(object_, settings, byte_order="little")

The settings are what the postings of the format differ in, or leave open: how a LOCSEC is named, what its offsets
count from, and the order of its elements.
"""

from __future__ import annotations

import enum
import sys
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from inlinetrace.btf.builder import object_bytes
from inlinetrace.btf.kinds import MAX_STRING_OFFSET, Dialect
from inlinetrace.errors import FormatError, UsageError
from inlinetrace.generate._locsec import Assembly
from inlinetrace.sites.from_btf import OffsetBase

if TYPE_CHECKING:
    from inlinetrace.elf.file import ElfFile
    from inlinetrace.generate._locations import Collected

RFC_LOCSEC = "inline"


class LocsecName(enum.Enum):
    """How a LOCSEC is called."""

    SECTION = "section"
    """As the ELF section: ``.text``."""
    INLINE = "inline"
    """The same behind a prefix: ``inline.text``."""


class Order(enum.Enum):
    """What the elements of a LOCSEC are sorted by."""

    FUNCTION = "function"
    """FUNC id, offset, LOC_PROTO id: as the newest split tool writes them."""
    OFFSET = "offset"
    """Offset first: as the RFC had them."""


class LocsecSettings:
    """What a LOCSEC is to be like; None stands for what belongs to the dialect.

    Raises UsageError for what the dialect does not have.
    """

    def __init__(
        self,
        dialect: Dialect = Dialect.NEW,
        name: LocsecName | None = None,
        offset_base: OffsetBase | None = None,
        order: Order | None = None,
    ) -> None:
        self.dialect = dialect
        self.name = name
        self.offset_base = offset_base
        self.order = order
        if dialect is not Dialect.RFC:
            return
        fixed = (("name", None), ("offset base", OffsetBase.IMAGE), ("order", Order.OFFSET))
        for (what, only), chosen in zip(fixed, (name, offset_base, order), strict=True):
            if chosen is not None and chosen is not only:
                raise UsageError(f"dialect rfc leaves no choice of the {what} of a LOCSEC")

    def section_name(self, section: str) -> str:
        """The name of the LOCSEC for an ELF section."""
        if self.dialect is Dialect.RFC:
            return RFC_LOCSEC
        wanted = self.name or (LocsecName.INLINE if self.dialect is Dialect.NEW else LocsecName.SECTION)
        # The prefix is told from a name by the dot that follows it.
        return f"inline{section}" if wanted is LocsecName.INLINE and section.startswith(".") else section

    @property
    def plain(self) -> bool:
        """Whether everything is what belongs to a dialect that says all there is to say."""
        return self.dialect is not Dialect.RFC and not (self.name or self.offset_base or self.order)

    @property
    def from_image(self) -> bool:
        """Whether offsets count from the start of the image."""
        return self.dialect is Dialect.RFC or self.offset_base is OffsetBase.IMAGE

    @property
    def by_offset(self) -> bool:
        """Whether the offset is what elements are sorted by first."""
        return self.dialect is Dialect.RFC or self.order is Order.OFFSET


class CodeSection(NamedTuple):
    """A section with code: its addresses are [start, end)."""

    name: str
    start: int
    end: int


def code_sections(elf: ElfFile) -> list[CodeSection]:
    """The sections of a file that hold code, by address."""
    found = [
        CodeSection(section.name, section.address, section.address + section.size)
        for section in elf.sections
        if section.executable and section.allocated and section.size
    ]
    return sorted(found, key=lambda section: section.start)


class InlineObject(Protocol):
    """What the types of a file give for the functions that have sites.

    ``func_ids`` is the FUNC id for each origin, 0 for none; ``types`` and ``strings`` are the sections of the inline
    object so far, in its byte order; ``next_id`` and ``string_offset`` what the next type and string get.
    """

    @property
    def func_ids(self) -> array[int]: ...  # noqa: D102
    @property
    def strings(self) -> bytearray: ...  # noqa: D102
    @property
    def types(self) -> bytearray: ...  # noqa: D102
    @property
    def next_id(self) -> int: ...  # noqa: D102
    @property
    def string_offset(self) -> int: ...  # noqa: D102


class Written(NamedTuple):
    """What an inline object holds, and which sites it could not take."""

    sites: int
    loc_params: int
    loc_protos: int
    locsecs: int
    without_section: int
    without_function: int
    out_of_range: int


class InlineSections:
    """The sites that were collected, and the code sections that they are in.

    ``origins`` are the keys of the functions' entries, each once; ``image_base`` is where the image starts, None where
    that means nothing.
    """

    def __init__(
        self, parts: Sequence[Collected], sections: Sequence[CodeSection], *, image_base: int | None, address_size: int
    ) -> None:
        self._sections = list(sections)
        self._image_base = image_base
        self._address_size = address_size
        self._assembly = Assembly(parts, [(section.start, section.end) for section in sections])

    @property
    def origins(self) -> array[int]:
        """Keys of the functions' entries ("Q")."""
        return self._assembly.origins

    @property
    def canonical(self) -> array[int]:
        """Keys of the entries where the chains of these end: of other ones after link-time optimisation."""
        return self._assembly.canonical

    def describe(self, dialect: Dialect) -> None:
        """Do what ``encode`` does first and needs no types for: find the LOC_PARAMs and LOC_PROTOs of the sites.

        Nothing may change the collected parts from then on.
        """
        self._assembly.describe(rfc=dialect is Dialect.RFC, address_size=self._address_size)

    def encode(
        self,
        types: InlineObject,
        settings: LocsecSettings,
        *,
        byte_order: str,
        functions: tuple[array[int], array[int]] | None = None,
    ) -> tuple[bytes, Written]:
        """The inline object and what it holds.

        ``functions`` is needed by the RFC: for each origin the string offset of its name and the id of its FUNC_PROTO.
        Raises UsageError for offsets from an image that has no start, FormatError for more than the format can number.
        """
        assembly = self._assembly
        self.describe(settings.dialect)
        strings = bytearray(types.strings)
        names: list[int] = []
        known: dict[str, int] = {}
        for section, count in zip(self._sections, assembly.section_sites, strict=True):
            name = settings.section_name(section.name)
            if (count or settings.dialect is Dialect.RFC) and name not in known:
                known[name] = types.string_offset + len(strings) - len(types.strings)
                strings += name.encode("utf-8", "surrogateescape") + b"\0"
            names.append(known.get(name, 0))
        encoded = assembly.encode(
            types.func_ids,
            first_id=types.next_id,
            names=names,
            bases=self._bases(settings),
            by_offset=settings.by_offset,
            little_endian=byte_order == "little",
            rfc=functions if settings.dialect is Dialect.RFC else None,
        )
        if types.string_offset + len(strings) - len(types.strings) > MAX_STRING_OFFSET + 1:
            raise FormatError(f"more strings than offsets up to {MAX_STRING_OFFSET:#x} can name")
        words = encoded.words
        if byte_order != sys.byteorder:
            words.byteswap()
        rfc = settings.dialect is Dialect.RFC
        data = object_bytes(
            types.types + memoryview(words).cast("B"),
            strings,
            byte_order=byte_order,
            classic=rfc,
            layout=None if rfc else settings.dialect,
        )
        locsecs = encoded.types - encoded.loc_params - encoded.loc_protos
        return data, Written(
            encoded.sites,
            encoded.loc_params,
            encoded.loc_protos,
            locsecs,
            assembly.without_section,
            encoded.without_function,
            encoded.out_of_range,
        )

    def _bases(self, settings: LocsecSettings) -> list[int]:
        if not settings.from_image:
            return [section.start for section in self._sections]
        base = self._image_base
        if base is None:
            # a relocatable file has no image; the RFC counts from .text whatever the file is
            text = next((section.start for section in self._sections if section.name == ".text"), None)
            if text is None or settings.dialect is not Dialect.RFC:
                raise UsageError("a relocatable file has no start of an image that offsets could count from")
            base = text
        return [base] * len(self._sections)
