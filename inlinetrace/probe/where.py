"""Filters on arguments: ``len > 4096 and skb->protocol == 8``.

>>> condition = parse_condition("len > 4096 and not (whence == 2)")
>>> condition.references                     # what has to be fetched for it
>>> condition.holds(hit.values)

Comparisons are ``== != < <= > >=`` between arguments, numbers, texts in quotes and enumerators; ``&`` masks bits
(``flags & 0x40`` alone, or compared); ``and or not`` (also ``&& || !``) and brackets join them. What is unavailable is
neither true nor false: a hit matches only if the whole is true whatever the missing value may be.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from inlinetrace.errors import UsageError
from inlinetrace.probe.fields import Reference, parse
from inlinetrace.probe.types import Decoded, Enumerator
from inlinetrace.sites.reasons import Unavailable

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)(?!\w))
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<operator>==|!=|<=|>=|&&|\|\||<|>|&|!|\(|\))
      | (?P<name>\**\s*[A-Za-z_]\w*(?:\#\d+)?(?:\s*(?:->|\.)\s*[A-Za-z_]\w*|\s*\[\s*\w+\s*\])*)
    )""",
    re.VERBOSE,
)
# No value has more: 128 bits are 39 digits.
_MAXIMUM_DIGITS = 400
_LONGEST_SHOWN = 200
_COMPARE: dict[str, Callable[[object, object], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,  # type: ignore[dict-item]
    "<=": operator.le,  # type: ignore[dict-item]
    ">": operator.gt,  # type: ignore[dict-item]
    ">=": operator.ge,  # type: ignore[dict-item]
}
_MAXIMUM_TOKENS = 500

Shown = Decoded | Unavailable
Truth = bool | None


class Literal(NamedTuple):
    """A number or text."""

    value: int | float | str


class Operand(NamedTuple):
    """A value to compare: a reference or a literal, perhaps with a mask; a bare name may be an enumerator."""

    source: Reference | Literal
    mask: int | None = None


class Comparison(NamedTuple):
    """Two values and what is asked of them; one alone is asked whether it is anything but 0."""

    left: Operand
    symbol: str | None
    right: Operand | None


class Condition:
    """A parsed filter, in postfix order: comparisons and the words ``and``, ``or``, ``not``."""

    def __init__(self, text: str, program: list[Comparison | str], references: dict[str, Reference]) -> None:
        self.text = text
        self._program = program
        self._references = references
        self._enumerators: set[str] = set()

    @property
    def program(self) -> list[Comparison | str]:
        """The filter in postfix order."""
        return self._program

    @property
    def references(self) -> list[Reference]:
        """The arguments and fields that the filter looks at, without names that are none."""
        return [reference for label, reference in self._references.items() if label not in self._enumerators]

    def settle(self, parameters: set[str]) -> None:
        """Take bare names that are no parameter for names of enumerators.

        Raises UsageError if nothing is left that could be fetched.
        """
        for label, reference in self._references.items():
            if reference.parameter not in parameters and not reference.steps:
                self._enumerators.add(label)
        if not self.references:
            raise UsageError(f"--where {self.text!r}: none of its names is a parameter")

    def holds(self, values: Mapping[str, Shown]) -> bool:
        """Whether the filter is true for these values, whatever is unavailable."""
        stack: list[Truth] = []
        for item in self._program:
            if isinstance(item, Comparison):
                stack.append(self._compare(item, values))
            elif item == "not":
                top = stack.pop()
                stack.append(None if top is None else not top)
            else:
                right, left = stack.pop(), stack.pop()
                decisive = item == "or"
                if left is decisive or right is decisive:
                    stack.append(decisive)
                else:
                    stack.append(None if left is None or right is None else not decisive)
        return stack[-1] is True

    def _operand(self, operand: Operand, values: Mapping[str, Shown]) -> Shown:
        source = operand.source
        value: Shown
        if isinstance(source, Literal):
            value = source.value
        elif source.label in self._enumerators:
            value = Enumerator(source.label)
        else:
            value = values.get(source.label)
        if operand.mask is not None:
            return value & operand.mask if isinstance(value, int) else None
        return value

    def _compare(self, item: Comparison, values: Mapping[str, Shown]) -> Truth:
        left = self._operand(item.left, values)
        if left is None or isinstance(left, Unavailable):
            return None
        if item.right is None or item.symbol is None:
            return bool(left)
        right = self._operand(item.right, values)
        if right is None or isinstance(right, Unavailable):
            return None
        if isinstance(left, str) != isinstance(right, str):
            left, right = _number(left), _number(right)
            # A one-character text is compared with a character; nothing else is like text.
            left, right = _character(left), _character(right)
            if isinstance(left, str) != isinstance(right, str):
                return None
        if isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
            return None
        return _COMPARE[item.symbol](left, right)


def _number(value: Decoded) -> Decoded:
    return value.number if isinstance(value, Enumerator) and value.number is not None else value


def _character(value: Decoded) -> Decoded:
    if isinstance(value, str) and not isinstance(value, Enumerator) and len(value) == 1:
        return ord(value)
    return value


_PRECEDENCE = {"or": 1, "and": 2, "not": 3}
_WORDS = {"&&": "and", "||": "or", "!": "not"}


def parse_condition(text: str) -> Condition:
    """Parse a filter. Raises UsageError that shows the place."""
    return _Parser(text).condition()


class _Parser:
    """Operator precedence with an explicit stack: the depth of brackets costs no recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str, int]] = []
        self._at = 0
        self._references: dict[str, Reference] = {}
        at = 0
        stripped = text.rstrip()
        while at < len(stripped):
            found = _TOKEN.match(stripped, at)
            if found is None:
                raise self._error("this is neither an argument, a number, a text nor an operator", at)
            kind = str(found.lastgroup)
            token = found[kind]
            if kind == "name" and token in ("and", "or", "not"):
                kind = "operator"
            self._tokens.append((kind, _WORDS.get(token, token), found.start(kind)))
            at = found.end()
        if len(self._tokens) > _MAXIMUM_TOKENS:
            raise UsageError("--where: the filter is too long")

    def _error(self, message: str, at: int | None = None) -> UsageError:
        if at is None:
            at = self._tokens[self._at][2] if self._at < len(self._tokens) else len(self._text)
        text = self._text if len(self._text) <= _LONGEST_SHOWN else f"{self._text[:_LONGEST_SHOWN]}..."
        return UsageError(f"--where {text!r}: at {self._text[at : at + 20]!r}: {message}")

    def _peek(self) -> str | None:
        if self._at >= len(self._tokens):
            return None
        kind, token, _ = self._tokens[self._at]
        return token if kind == "operator" else None

    def condition(self) -> Condition:
        output: list[Comparison | str] = []
        stack: list[str] = []
        want_operand = True
        while self._at < len(self._tokens):
            token = self._peek()
            if want_operand:
                if token in ("not", "("):
                    stack.append(token)
                    self._at += 1
                    continue
                output.append(self._comparison())
                want_operand = False
                continue
            if token in ("and", "or"):
                while stack and stack[-1] != "(" and _PRECEDENCE[stack[-1]] >= _PRECEDENCE[token]:
                    output.append(stack.pop())
                stack.append(token)
                want_operand = True
            elif token == ")":
                while stack and stack[-1] != "(":
                    output.append(stack.pop())
                if not stack:
                    raise self._error("this bracket was not opened")
                stack.pop()
            else:
                raise self._error("'and' or 'or' is missing")
            self._at += 1
        if want_operand:
            raise self._error("something to compare is missing")
        while stack:
            if stack[-1] == "(":
                raise self._error("a bracket is not closed")
            output.append(stack.pop())
        return Condition(self._text, output, self._references)

    def _comparison(self) -> Comparison:
        left = self._operand()
        symbol = self._peek()
        if symbol not in _COMPARE:
            if left.mask is None and isinstance(left.source, Literal):
                raise self._error("a number or text alone is no condition")
            return Comparison(left, None, None)
        self._at += 1
        return Comparison(left, symbol, self._operand())

    def _operand(self) -> Operand:
        if self._at >= len(self._tokens):
            raise self._error("something to compare is missing")
        kind, token, at = self._tokens[self._at]
        if kind == "number":
            self._check_number(token, at)
        source: Reference | Literal
        if kind == "number":
            source = Literal(float(token) if "." in token else _integer(token))
        elif kind == "text":
            source = Literal(re.sub(r"\\(.)", r"\1", token[1:-1]))
        elif kind == "name":
            source = parse(token)
            self._references.setdefault(source.label, source)
        else:
            raise self._error("something to compare is missing")
        self._at += 1
        if self._peek() == "&":
            self._at += 1
            if self._at >= len(self._tokens) or self._tokens[self._at][0] != "number":
                raise self._error("behind & comes a number")
            _, mask, at = self._tokens[self._at]
            self._check_number(mask, at)
            if "." in mask:
                raise self._error("behind & comes a whole number")
            self._at += 1
            return Operand(source, _integer(mask))
        return Operand(source)

    def _check_number(self, token: str, at: int) -> None:
        if len(token) > _MAXIMUM_DIGITS:
            raise self._error(f"a number of {len(token)} digits is larger than any value", at)


def _integer(token: str) -> int:
    """A number in decimal or hexadecimal; leading zeros are nothing special."""
    return int(token, 16) if "x" in token.lower() else int(token)
