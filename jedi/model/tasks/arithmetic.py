"""Sums with one unknown, `#`: whole numbers, + - * / % and parentheses. Nothing is evaluated as
code.

The form M[…] of a placeholder. Division rounds down. Source:
docs/reference/task-parameters.md#placeholders.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

Sum = Callable[[int], int]
"""The value for each value of the unknown; ZeroDivisionError if it has none."""

_TOKEN = re.compile(r"\s*(\d{1,15}|//|[-+*/%()#])")
_LONGEST = 100
_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.floordiv, "//": operator.floordiv, "%": operator.mod},
)


def parse(text: str) -> Sum:
    """Parse a sum from a text; ValueError names the first invalid part."""
    tokens, at = [], 0
    while at < len(text.rstrip()) and len(text) <= _LONGEST:
        token = _TOKEN.match(text, at)
        if not token:
            raise ValueError(f"{text[at:]!r} is not part of a sum")
        tokens.append(token[1])
        at = token.end()
    rest = tokens[::-1]
    result = _level(rest, 0)
    if rest:
        raise ValueError(f"{rest[-1]!r} stands where the sum should end")
    return result


def _level(rest: list[str], level: int) -> Sum:
    """Terms (level 0), factors (1), a single value (2): the next one, taken off `rest`."""
    if level == len(_LEVELS):
        return _value(rest)
    left = _level(rest, level + 1)
    while rest and rest[-1] in _LEVELS[level]:
        left = _both(_LEVELS[level][rest.pop()], left, _level(rest, level + 1))
    return left


def _both(apply: Callable[[int, int], int], left: Sum, right: Sum) -> Sum:
    return lambda unknown: apply(left(unknown), right(unknown))


def _value(rest: list[str]) -> Sum:
    token = rest.pop() if rest else ""
    if token == "#":
        return lambda unknown: unknown
    if token.isdigit():
        number = int(token)
        return lambda _unknown: number
    if token == "-":
        value = _value(rest)
        return lambda unknown: -value(unknown)
    if token == "(":
        inner = _level(rest, 0)
        if rest and rest.pop() == ")":
            return inner
        raise ValueError("a parenthesis is not closed")
    raise ValueError(f"{token!r} is not a value" if token else "a value is missing")
