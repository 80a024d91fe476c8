"""From a location to fetch arguments of a probe event, and from fetched words back to its value.

>>> recipe = make_recipe(location, place)            # or Unavailable: a probe event cannot do it
>>> recipe.arguments()                               # (Argument("+8(%di)", "u64"), Argument("+0(+9(%di))", "ustring"))

A probe event (Documentation/trace/kprobetrace.rst) fetches registers, and memory at a register, at fetched memory or
at a fixed address, each with a constant added; sums, arithmetic and pieces are computed after the fetch. It does not
tell when a *number* could not be read: the field then holds 0, or what was there before. A *string* that could not be
read takes no room in the record. So every read of memory has a guard, which proves the memory and all pointers on the
way to it. What remains is a pointer that changes between the two fetches of one hit.

In kernels a guard is a string that starts at the last byte read. A read across a page boundary is proved by two or
refused.

The record of a program may not be longer than a page, or the hit is lost with a warning of the kernel, and what follows
in memory may be anything. There a guard is a string *behind* the word that starts one byte into the value, as if this
were a pointer: where the word could not be read the string's place is left as it was set up, where there is no string
its length is 0, and both take no room. The word overlaps two values, so that it is hardly ever an address, and never
a pointer that a structure has. A word of a program that is not 0 proves itself besides: the kernel's copy from a
program fills up with zeros what it cannot read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from inlinetrace.probe.registers import register_text
from inlinetrace.sites.location import (
    MAXIMUM_DEREFERENCE,
    Absolute,
    Fetch,
    Location,
    MemoryCapture,
    Offset,
    RegisterCapture,
    Word,
)
from inlinetrace.sites.nodes import Node, Op
from inlinetrace.sites.reasons import Reason, Unavailable

if TYPE_CHECKING:
    from inlinetrace.elf.machine import Machine

MAXIMUM_ARRAY = 64
"""Elements of an array argument (MAX_ARRAY_LEN, kernel/trace/trace_probe.h)."""
MAXIMUM_OFFSET = (1 << 31) - 1024
"""What an event adds to an address: the kernel keeps 32 bits and is silent on others. Proofs lie a little further."""
PAGE = 4096
"""The smallest page there is: what lies within one such page is readable as a whole or not at all."""

_NUMBERS = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
STRING = "string"
WORD = "ustring"
"""A string behind a word, which proves the word; in programs it is a ``string``, but not to be taken for a text."""


class Argument(NamedTuple):
    """One fetch argument without its name: ``+8(%di)`` of type ``u64``."""

    text: str
    type: str


class Read(NamedTuple):
    """How one word of a location is fetched; ``guards`` prove it, none for a register.

    They do not if the number of bytes up to the next page is in one of ``gaps``.
    """

    argument: Argument
    size: int
    guards: tuple[Argument, ...] = ()
    gaps: tuple[range, ...] = ()


class Place(NamedTuple):
    """Where a probe is, as far as the text of its arguments depends on it.

    ``fixed(address, relocated)`` is the text of memory at a fixed address: ``@+0x1230`` for a user program.
    Without ``guarded`` reads need no proof: whoever does them knows when one fails. ``in_kernel``: the memory is the
    kernel's.
    """

    machine: Machine
    fixed: Callable[[int, bool], str]
    guarded: bool = True
    in_kernel: bool = True


class Recipe(NamedTuple):
    """How a value is had: what to fetch for each word of ``location``; ``string`` if the value points at text."""

    location: Location
    reads: tuple[Read, ...]
    string: Argument | None = None

    def arguments(self) -> Iterator[Argument]:
        """All that has to be fetched; the same argument may come several times."""
        for read in self.reads:
            yield read.argument
            yield from read.guards
        if self.string is not None:
            yield self.string


def make_recipe(location: Location, place: Place, *, string: bool = False) -> Recipe | Unavailable:
    """Return how a probe event fetches ``location``; with ``string`` also the text that its value points at."""
    reads = _reads(location, place)
    if isinstance(reads, Unavailable) or not string:
        return reads if isinstance(reads, Unavailable) else Recipe(location, reads)
    text = dereference(location, 0, 1)
    if text is None:
        return Unavailable(Reason.UNSUPPORTED, "a probe event cannot compute the address of the text")
    behind = _reads(text, place)
    if isinstance(behind, Unavailable):
        return behind
    return Recipe(location, reads, Argument(behind[-1].argument.text, STRING))


def string_at(location: Location, place: Place) -> Recipe | Unavailable:
    """Return how to fetch the text in memory at ``location``, whose last node is a load."""
    first = member_in_memory(location, 0, 1)
    if first is None:
        return Unavailable(Reason.UNSUPPORTED, "the text is not in memory")
    reads = _reads(first, place)
    if isinstance(reads, Unavailable):
        return reads
    return Recipe(location, (), Argument(reads[-1].argument.text, STRING))


def dereference(location: Location, offset: int, size: int) -> Location | None:
    """Return the location of ``size`` bytes at the value of ``location`` plus ``offset``; None if it is no address."""
    if location.pieces or (location.size or location.address_size) != location.address_size:
        return None
    nodes = list(location.nodes)
    last = len(nodes) - 1
    node = nodes[-1]
    if node.type is not None:
        return None
    if node.op in (Op.OFFSET, Op.CONSTANT, Op.ADDRESS) and offset:
        # the sum of two constants is one: a probe event adds one constant to one word
        if node.op == Op.OFFSET:
            nodes[-1] = Node(Op.OFFSET, node.a, node.b + offset)
        else:
            nodes[-1] = Node(node.op, (node.a + offset) & ((1 << 8 * location.address_size) - 1))
    elif offset:
        nodes.append(Node(Op.OFFSET, last, offset))
    nodes.append(Node(Op.LOAD, len(nodes) - 1, size))
    return Location(tuple(nodes), size, location.address_size, location.little_endian)


def member_in_memory(location: Location, offset: int, size: int) -> Location | None:
    """Return the location of ``size`` bytes at ``offset`` of an aggregate in memory; None if it is not in memory."""
    node = location.nodes[-1]
    if location.pieces or node.op != Op.LOAD:
        return None
    address = Location(location.nodes[:-1], 0, location.address_size, location.little_endian)
    return dereference(address, offset, size)


def _reads(location: Location, place: Place) -> tuple[Read, ...] | Unavailable:
    if location.fetch > Fetch.MEMORY:
        if location.depth > MAXIMUM_DEREFERENCE:
            return Unavailable(Reason.UNSUPPORTED, f"{location.depth} nested reads are more than an event allows")
        return Unavailable(Reason.UNSUPPORTED, "a probe event cannot compute the address to read")
    captures = location.capture()
    bases = {
        capture.address.base
        for capture in captures
        if isinstance(capture, MemoryCapture) and isinstance(capture.address, Offset)
    }
    texts: list[str] = []
    reads: list[Read] = []
    for index, capture in enumerate(captures):
        if isinstance(capture, RegisterCapture):
            text = register_text(place.machine, capture.number)
            if text is None:
                name = place.machine.register_name(capture.number)
                if place.machine.is_vector(capture.number):
                    return Unavailable(Reason.VECTOR_REGISTER, f"a probe event cannot fetch {name}")
                detail = f"a probe event cannot fetch {name} of a program for {place.machine.name}"
                return Unavailable(Reason.UNSUPPORTED, detail)
            texts.append(text)
            reads.append(Read(Argument(text, _NUMBERS[place.machine.address_size]), place.machine.address_size))
            continue
        type_ = _type(capture.size)
        if type_ is None:
            return Unavailable(Reason.UNSUPPORTED, f"{capture.size} bytes of memory are more than an event fetches")
        if isinstance(capture.address, Offset) and abs(capture.address.offset) > MAXIMUM_OFFSET:
            return Unavailable(Reason.UNSUPPORTED, f"{capture.address.offset:+d} is further than an event can add")
        texts.append(_memory_text(capture, texts, place, 0))
        read = Read(Argument(texts[-1], type_), capture.size)
        if place.guarded and index not in bases:
            read = _guarded(read, capture, texts, place)
        reads.append(read)
    if place.guarded and not place.in_kernel and location.depth == MAXIMUM_DEREFERENCE:
        return Unavailable(Reason.UNSUPPORTED, f"{location.depth} nested reads are more than an event can prove")
    return tuple(reads)


def _guarded(read: Read, capture: MemoryCapture, texts: Sequence[str], place: Place) -> Read:
    size, word = read.size, place.machine.address_size
    if place.in_kernel:
        guards = [Argument(_memory_text(capture, texts, place, size - 1), STRING)]
        if size > word:
            return read._replace(guards=(*guards, Argument(read.argument.text, STRING)))
        return read._replace(guards=tuple(guards), gaps=(range(1, size),) if size > 1 else ())
    starts = [1 if size > 1 else 0]
    gaps = [range(1, 2)] if size > 1 else []
    if size > word:
        starts.append(size - word - 1)
        gaps.append(range(size - 1, size))
    guards = [Argument(f"+0({_memory_text(capture, texts, place, start)})", WORD) for start in starts]
    return read._replace(guards=tuple(guards), gaps=tuple(gaps))


def _memory_text(capture: MemoryCapture, texts: Sequence[str], place: Place, further: int) -> str:
    where = capture.address
    if isinstance(where, Offset):
        return f"{where.offset + further:+d}({texts[where.base]})"
    assert isinstance(where, Absolute)
    return place.fixed(where.address + further, where.relocated)


def _type(size: int) -> str | None:
    if size in _NUMBERS:
        return _NUMBERS[size]
    if 0 < size <= MAXIMUM_ARRAY:
        return f"x8[{size}]"
    if size % 8 == 0 and size // 8 <= MAXIMUM_ARRAY:
        return f"x64[{size // 8}]"
    return None


Field = int | bytes | None
"""What a record has for an argument: a number, bytes of an array or text, or None for text that could not be read."""


class Evaluator:
    """Gets the value of a recipe out of the fields of a record. ``index`` maps arguments to positions in it."""

    def __init__(self, recipe: Recipe, index: dict[Argument, int]) -> None:
        self._location = recipe.location
        self._words = [index[read.argument] for read in recipe.reads]
        guards = [guard for read in recipe.reads for guard in read.guards]
        self._guards = [index[guard] for guard in guards]
        self._gaps = [(number, gap) for number, read in enumerate(recipe.reads) for gap in read.gaps]
        self._captures = recipe.location.capture()
        # where no read of a part is possible, words may prove themselves
        self._parts: list[tuple[int, range]] | None = None
        if guards and all(guard.type == WORD for guard in guards):
            self._parts = [
                (number, range(1, read.size))
                for number, read in enumerate(recipe.reads)
                if isinstance(self._captures[number], MemoryCapture)
            ]
        self.text_index = None if recipe.string is None else index[recipe.string]

    def value(self, fields: Sequence[Field], load_bias: int) -> bytes | Unavailable:
        """Return the value's bytes, or why there is none."""
        words: list[Word] = [fields[position] for position in self._words]
        if None in words:
            return FAULT
        for guard in self._guards:
            if fields[guard] is None and not self._prove_themselves(words, load_bias):
                return FAULT if self._parts is None else _UNPROVED
        if self._gaps and self._cut(self._gaps, words, load_bias):
            return _CROSSING
        return self._location.evaluate(words, load_bias=load_bias)

    def _cut(self, gaps: Sequence[tuple[int, range]], words: Sequence[Word], load_bias: int) -> bool:
        """Whether a page begins so many bytes behind the start of a read as its gap has."""
        for number, gap in gaps:
            capture = self._captures[number]
            assert isinstance(capture, MemoryCapture)
            address = self._location.address(capture, words, load_bias=load_bias)
            if isinstance(address, int) and -address % PAGE in gap:
                return True
        return False

    def _prove_themselves(self, words: Sequence[Word], load_bias: int) -> bool:
        """Whether all words of a program's memory are other than 0, and none was read in part."""
        if self._parts is None or not all(isinstance(word, int) and word for word in words):
            return False
        return not self._cut(self._parts, words, load_bias)

    def text(self, fields: Sequence[Field]) -> bytes | Unavailable:
        """Return the text that was asked for with the recipe."""
        assert self.text_index is not None
        text = fields[self.text_index]
        return text if isinstance(text, bytes) else _NO_TEXT


FAULT = Unavailable(Reason.FAULT, "the memory could not be read")
_UNPROVED = Unavailable(Reason.FAULT, "the memory could not be read, or holds 0 up to where it cannot")
_NO_TEXT = Unavailable(Reason.FAULT, "the text could not be read, or is longer than 4 KB")
_CROSSING = Unavailable(Reason.FAULT, "a read across a page boundary, which cannot be proved")
