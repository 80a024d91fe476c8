"""Notes: small named records such as the build id (gABI chapter 5, "Note Section")."""

from __future__ import annotations

from inlinetrace.errors import FormatError


def read_notes(
    data: memoryview, alignment: int, little_endian: bool, *, path: str, section: str
) -> list[tuple[str, int, bytes]]:
    """Return the notes in ``data`` as (owner, type, description). Raises FormatError."""
    order = "little" if little_endian else "big"
    # Eight only where the section says so (x86 property notes); a nonsensical alignment means the usual four.
    step = 8 if alignment == 8 else 4
    notes = []
    at = 0
    while len(data) - at >= 12:
        name_size = int.from_bytes(data[at : at + 4], order)  # type: ignore[arg-type]
        size = int.from_bytes(data[at + 4 : at + 8], order)  # type: ignore[arg-type]
        kind = int.from_bytes(data[at + 8 : at + 12], order)  # type: ignore[arg-type]
        name_at = at + 12
        start = (name_at + name_size + step - 1) & -step
        if start + size > len(data):
            raise FormatError("a note ends beyond its section", path=path, section=section, offset=at)
        owner = bytes(data[name_at : name_at + name_size]).rstrip(b"\0").decode("utf-8", "replace")
        notes.append((owner, kind, bytes(data[start : start + size])))
        at = (start + size + step - 1) & -step
    return notes
