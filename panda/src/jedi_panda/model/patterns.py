"""Patterns of file names: PanDA's clients send regular expressions, and JEDI has those of the
shell.

Only such expressions pass as mean the same as a pattern of the shell. Source:
docs/reference/panda.md#patterns-of-file-names.
"""

from __future__ import annotations

import re

_ENDINGS = {r"(\.\d+)*$": ("", ".[0-9]*"), r"(\.\d+)?$": ("", ".[0-9]*")}
"""Endings with a number, such as `.log.tgz.1`: the pattern asks for its first digit."""

_PIECE = re.compile(r"(\.\*)|\\(\W)|(\.)|(\[[\w.-]+\])|([\w%~@=,-]+)")


class NoShellPattern(ValueError):
    """A regular expression that no pattern of the shell replaces."""


def shell_patterns(expressions: str) -> str:
    """Comma-separated regular expressions, found anywhere in a name, as comma-separated patterns
    of the shell. NoShellPattern names the first that has none."""
    found = (pattern for one in expressions.split(",") if one for pattern in _patterns(one))
    return ",".join(dict.fromkeys(found))


def _patterns(expression: str) -> list[str]:
    for ending, written in _ENDINGS.items():
        if expression.endswith(ending):
            whole = _pattern(expression.removesuffix(ending) + "$", expression)
            return [whole + more for more in written]
    return [_pattern(expression, expression)]


def _pattern(expression: str, whole: str) -> str:
    inner = expression.removeprefix("^").removesuffix("$")
    begin = "" if expression.startswith("^") else "*"
    end = "" if expression.endswith("$") and not expression.endswith(r"\$") else "*"
    place, parts = 0, [begin]
    while place < len(inner):
        piece = _PIECE.match(inner, place)
        if piece is None:
            raise NoShellPattern(whole)
        anything, escaped, dot, group, plain = piece.groups()
        if escaped and escaped in "*?[]{},":
            raise NoShellPattern(whole)
        parts.append("*" if anything else escaped or ("?" if dot else group or plain))
        place = piece.end()
    return re.sub(r"\*+", "*", "".join([*parts, end]))
