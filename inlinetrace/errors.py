"""The one exception tree.

::

    InlineTraceError            exit code 1
    ├── FormatError             malformed ELF, DWARF or BTF: says the section and the byte offset
    ├── NotFoundError           no such file, function, section or type
    ├── MismatchError           two inputs that belong to different builds
    ├── UnsupportedError        valid input of a kind that is not handled
    ├── UsageError              contradicting or missing options (exit code 2)
    ├── NotPermittedError       root, lockdown, tracefs (exit code 3)
    └── PartialError            attached only in part (exit code 4)

Every error carries what it knows as attributes; its text is one line that says what, where and what to do.
"""

from __future__ import annotations


class InlineTraceError(Exception):
    """Base of every error this package raises on purpose.

    ``path``, ``section``, ``offset`` (bytes from the start of the section) and ``type_id`` (BTF) are None where
    unknown.
    """

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        path: str | None = None,
        section: str | None = None,
        offset: int | None = None,
        type_id: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.section = section
        self.offset = offset
        self.type_id = type_id

    def __str__(self) -> str:
        where = []
        if self.path is not None:
            where.append(self.path)
        if self.section is not None:
            where.append(self.section if self.offset is None else f"{self.section}+{self.offset:#x}")
        elif self.offset is not None:
            where.append(f"offset {self.offset:#x}")
        if self.type_id is not None:
            where.append(f"type [{self.type_id}]")
        return f"{', '.join(where)}: {self.message}" if where else self.message


class FormatError(InlineTraceError):
    """Malformed input."""


class NotFoundError(InlineTraceError):
    """Something that was asked for by name does not exist."""


class MismatchError(InlineTraceError):
    """Two inputs that do not belong together; the message names both build ids."""


class UnsupportedError(InlineTraceError):
    """Well-formed input of a kind that is not handled; the message names it."""


class UsageError(InlineTraceError):
    """Options that contradict each other, or one that is missing."""

    exit_code = 2


class NotPermittedError(InlineTraceError):
    """The machine does not allow it; the message says which permission is missing."""

    exit_code = 3


class PartialError(InlineTraceError):
    """Some of what was asked for could not be attached."""

    exit_code = 4
