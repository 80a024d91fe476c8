"""Text that is safe to show: names and strings come from files and processes that nobody vouches for."""

from __future__ import annotations

import sys


def visible(line: str) -> str:
    """``line`` with what is not printable written as an escape: it could rewrite the screen or the reader's mind."""
    if line.isprintable():
        return line
    # Surrogates stand for bytes that are no UTF-8, which the stream escapes by itself.
    return "".join(c if c.isprintable() or "\ud800" <= c <= "\udfff" else _escape(c) for c in line)


def say(text: str) -> None:
    """One line on stderr."""
    print(f"inlinetrace: {visible(text)}", file=sys.stderr)


def _escape(character: str) -> str:
    # a byte that is no UTF-8 is shown as \x9b, a character with that number is another thing
    if "\x80" <= character <= "\xff":
        return f"\\u{ord(character):04x}"
    return character.encode("unicode_escape").decode("ascii")
