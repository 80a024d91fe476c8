"""What is shown cannot take the terminal over."""

from __future__ import annotations

import pytest

from inlinetrace.cli.terminal import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("struct file *é", "struct file *é"),
        ("\x1b[2Jfoo", r"\x1b[2Jfoo"),
        ("a\rb\nc\td", r"a\rb\nc\td"),
        ("\x9b31m\x7f", r"\u009b31m\x7f"),
        ("abc\u202edef", r"abc\u202edef"),
        ("\udcff", "\udcff"),
    ],
)
def test_control_characters_are_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown
