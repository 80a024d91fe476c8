"""Finding the file that has the DWARF of another one, and the other way round.

>>> search = find_debug_file(ElfFile.open("/usr/bin/gdb"))
>>> search.file                             # an ElfFile, or None
>>> for attempt in search.tried: print(attempt.path, attempt.outcome)

Places, in the order of gdb's manual ("Debugging Information in Separate Files"): the file itself, the build id under
each root, the debug link (same folder, ``.debug/``, the folder below each root), and for kernel modules the same place
below each root, with or without ``.debug``, as distributions install them. A file of another build is never returned.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from inlinetrace.elf.file import ElfFile
from inlinetrace.errors import InlineTraceError, MismatchError, NotFoundError

DEFAULT_ROOTS = ("/usr/lib/debug",)

_COMPRESSED_SUFFIXES = (".xz", ".zst", ".gz")


class Attempt(NamedTuple):
    """One place that was tried, and what came of it: ``found``, ``no such file``, or what is wrong with the file."""

    path: str
    outcome: str


class DebugFileSearch(NamedTuple):
    """The file that was found, or None, and every place that was tried, in order."""

    file: ElfFile | None
    tried: tuple[Attempt, ...]


class _Candidate(NamedTuple):
    path: str
    checksum: int | None = None


def has_debug_info(elf: ElfFile) -> bool:
    """Tell whether ``elf`` itself has DWARF entries: a ``.debug_info`` with contents."""
    section = elf.section(".debug_info")
    return section is not None and section.size > 0 and not section.nobits


def has_code(elf: ElfFile) -> bool:
    """Tell whether the instructions are in ``elf``: a separate debug file has their sections without contents."""
    return any(section.executable and section.size and not section.nobits for section in elf.sections)


def build_id_path(root: str, build_id: bytes) -> str:
    """Return where below ``root`` the debug file of ``build_id`` is installed."""
    text = build_id.hex()
    return os.path.join(root, ".build-id", text[:2], f"{text[2:]}.debug")


def _linked(elf: ElfFile, roots: Sequence[str]) -> Iterator[_Candidate]:
    link = elf.debug_link
    if link is None:
        return
    # Only the last component: a link must not lead out of the places it belongs to.
    name, checksum = os.path.basename(link[0]), link[1]
    if not name:
        return
    folder = os.path.dirname(os.path.realpath(elf.path))
    yield _Candidate(os.path.join(folder, name), checksum)
    yield _Candidate(os.path.join(folder, ".debug", name), checksum)
    for root in roots:
        yield _Candidate(os.path.join(root, folder.lstrip("/"), name), checksum)


def _module(elf: ElfFile, roots: Sequence[str]) -> Iterator[_Candidate]:
    """Yield the places of a kernel module's debug file: ``<root>/lib/modules/RELEASE/kernel/...``."""
    path = os.path.abspath(elf.path)
    for suffix in _COMPRESSED_SUFFIXES:
        path = path.removesuffix(suffix)
    if not path.endswith(".ko"):
        return
    yield _Candidate(path + ".debug")
    _, found, rest = path.rpartition("/lib/modules/")
    if found:
        for root in roots:
            for prefix in ("lib/modules", "usr/lib/modules"):
                for suffix in ("", ".debug"):
                    yield _Candidate(os.path.join(root, prefix, rest + suffix))


def _same_file(elf: ElfFile, path: str) -> bool:
    try:
        return os.path.samefile(elf.path, path)
    except (OSError, ValueError):
        return False


def _checksum(path: str) -> int:
    value = 0
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            value = zlib.crc32(piece, value)
    return value


def _try(candidate: _Candidate, build_id: bytes | None) -> ElfFile:
    """Open a candidate and see that it belongs to ``build_id`` or has the checksum. Raises InlineTraceError."""
    found = ElfFile.open(candidate.path)
    if build_id is not None and found.build_id is not None:
        if build_id != found.build_id:
            raise MismatchError(
                f"the build id is {found.build_id.hex()}, wanted is {build_id.hex()}", path=candidate.path
            )
    elif candidate.checksum is not None:
        actual = _checksum(candidate.path)
        if actual != candidate.checksum:
            raise MismatchError(
                f"the CRC is {actual:#010x}, the debug link wants {candidate.checksum:#010x}", path=candidate.path
            )
    else:
        missing = "no build id" if found.build_id is None else f"build id {found.build_id.hex()}"
        wanted = "none" if build_id is None else build_id.hex()
        raise MismatchError(
            f"it has {missing}, wanted is {wanted}: nothing shows that they belong together", path=candidate.path
        )
    return found


def _search(
    elf: ElfFile,
    candidates: Iterator[_Candidate],
    build_id: bytes | None,
    usable: Callable[[ElfFile], str | None],
) -> DebugFileSearch:
    """Take the first candidate that belongs to ``build_id`` and that ``usable`` has no objection to."""
    tried: list[Attempt] = []
    mismatch: MismatchError | None = None
    seen: set[str] = set()
    for candidate in candidates:
        if candidate.path in seen or _same_file(elf, candidate.path):
            continue
        seen.add(candidate.path)
        try:
            found = _try(candidate, build_id)
            objection = usable(found)
        except NotFoundError:
            tried.append(Attempt(candidate.path, "no such file"))
            continue
        except MismatchError as error:
            mismatch = mismatch or error
            tried.append(Attempt(candidate.path, error.message))
            continue
        except InlineTraceError as error:
            tried.append(Attempt(candidate.path, error.message))
            continue
        except OSError as error:
            tried.append(Attempt(candidate.path, error.strerror or str(error)))
            continue
        if objection is None:
            tried.append(Attempt(candidate.path, "found"))
            return DebugFileSearch(found, tuple(tried))
        tried.append(Attempt(candidate.path, objection))
    if mismatch is not None:
        raise mismatch
    return DebugFileSearch(None, tuple(tried))


def find_debug_file(elf: ElfFile, roots: Sequence[str] = DEFAULT_ROOTS) -> DebugFileSearch:
    """Find the file with the DWARF of ``elf``: itself, or a separate file of the same build.

    Raises MismatchError, naming both build ids, if the only files in these places belong to another build.
    """
    if has_debug_info(elf):
        return DebugFileSearch(elf, (Attempt(elf.path, "found"),))

    def candidates() -> Iterator[_Candidate]:
        if elf.build_id is not None and len(elf.build_id) > 1:
            for root in roots:
                yield _Candidate(build_id_path(root, elf.build_id))
        yield from _linked(elf, roots)
        yield from _module(elf, roots)

    search = _search(elf, candidates(), elf.build_id, lambda e: None if has_debug_info(e) else "it has no .debug_info")
    return DebugFileSearch(search.file, (Attempt(elf.path, "it has no .debug_info"), *search.tried))


def _programs(elf: ElfFile, roots: Sequence[str]) -> Iterator[_Candidate]:
    """Yield where the program of a separate debug file may be: beside it, or where the debug file's path points to."""
    path = os.path.abspath(elf.path)
    places = [path]
    for root in dict.fromkeys((*roots, *DEFAULT_ROOTS)):
        # Also in an unpacked package, whose folders stand in another one.
        folder = root.rstrip("/") + "/"
        at = path.rfind(folder)
        if at < 0:
            continue
        top, rest = path[:at], path[at + len(folder) :]
        if rest.startswith(".build-id/"):
            places.append(os.path.join(top or "/", "usr/lib", rest))
        else:
            places += [os.path.join(top or "/", rest), os.path.join(top or "/", "usr", rest)]
    for place in places:
        for name in (place.removesuffix(".debug"), place):
            yield _Candidate(name)
            if name.endswith(".ko"):
                for suffix in _COMPRESSED_SUFFIXES:
                    yield _Candidate(name + suffix)


def find_program_file(elf: ElfFile, roots: Sequence[str] = DEFAULT_ROOTS) -> DebugFileSearch:
    """Find the file with the instructions of ``elf``: itself, or the program that it is the separate debug file of.

    Only a file of the same build id counts; nothing is raised if there is none.
    """
    if has_code(elf):
        return DebugFileSearch(elf, ())
    missing = Attempt(elf.path, "it has no instructions")
    if elf.build_id is None:
        return DebugFileSearch(None, (missing,))
    try:
        search = _search(elf, _programs(elf, roots), elf.build_id, lambda e: None if has_code(e) else missing.outcome)
    except MismatchError as error:
        return DebugFileSearch(None, (missing, Attempt(error.path or "", error.message)))
    return DebugFileSearch(search.file, (missing, *search.tried))


def find_alternate_file(elf: ElfFile, roots: Sequence[str] = DEFAULT_ROOTS) -> DebugFileSearch:
    """Find the file that dwz moved the common DWARF of ``elf`` into (``.gnu_debugaltlink``).

    The search is empty if ``elf`` has no such link. Raises MismatchError as find_debug_file does.
    """
    link = elf.debug_alt_link
    if link is None:
        return DebugFileSearch(None, ())
    name, build_id = link

    def candidates() -> Iterator[_Candidate]:
        folder = os.path.dirname(os.path.realpath(elf.path))
        yield _Candidate(os.path.normpath(os.path.join(folder, name)))
        if len(build_id) > 1:
            for root in roots:
                yield _Candidate(build_id_path(root, build_id))
        # Distributions install these files in <root>/.dwz, whatever relative path the link has.
        _, found, rest = name.rpartition(".dwz/")
        for root in roots:
            if found:
                yield _Candidate(os.path.join(root, ".dwz", rest))
            elif os.path.isabs(name):
                yield _Candidate(os.path.join(root, name.lstrip("/")))

    # It may have nothing but shared strings.
    return _search(elf, candidates(), build_id, lambda _: None)
