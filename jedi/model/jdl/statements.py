"""Division of a JDL text into its statements, without their grammar.

One pass over strings, comments, brackets and semicolons: a mistake in a statement leaves the
others readable, and nesting is bounded before anything is built.
Source: docs/reference/jdl.md#text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

MAX_CHARACTERS = 16_000_000
MAX_DEPTH = 32

_PIECE = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"'  # a string
    r"|^[ \t]*\#[^\n]*|(?<![^\s;{\[,=])//[^\n]*|/\*.*?\*/"  # comments
    r'|[;\[\]{}]|"|/\*',  # marks; a string or comment without an end
    re.DOTALL | re.MULTILINE,
)
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
_CLOSES = {"]": "[", "}": "{"}


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake at an offset of the text."""

    offset: int
    shown: str
    rule: str
    remedy: str


@dataclass(frozen=True, slots=True)
class JdlStatement:
    """The text of a statement, comments blanked out, and its offset in the whole text."""

    offset: int
    text: str


class Lines:
    """Lines and columns of offsets, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer(r"\n", text))]

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def divide(text: str) -> tuple[list[JdlStatement], list[Mistake]]:
    """Return the statements of a text, without empty ones, and the mistakes of its brackets,
    strings and comments."""
    if len(text) > MAX_CHARACTERS:
        rule = f"a manifest has at most {MAX_CHARACTERS} characters"
        return [], [Mistake(0, text[:40], rule, "Shorten it")]
    if bad := _UNSTORABLE.search(text):
        rule = "the character can't be stored"
        return [], [Mistake(bad.start(), bad[0], rule, "Remove it")]
    mistakes: list[Mistake] = []
    clean, marks = _scan(text, mistakes)
    if mistakes:
        return [], mistakes
    begin, end = _inside(clean, marks)
    stops = [at for at, depth in marks if clean[at] == ";" and depth == (1 if begin else 0)]
    parts = zip([begin, *(at + 1 for at in stops)], [*stops, end], strict=True)
    return [JdlStatement(a, clean[a:b]) for a, b in parts if clean[a:b].strip()], []


def _scan(text: str, mistakes: list[Mistake]) -> tuple[str, list[tuple[int, int]]]:
    """Return the text with blanks for comments, and the depth in front of each mark."""
    pieces: list[str] = []
    marks: list[tuple[int, int]] = []
    opened: list[int] = []
    last = 0
    for match in _PIECE.finditer(text):
        piece, at = match[0], match.start()
        if piece in ('"', "/*"):
            kind = "string" if piece == '"' else "comment"
            mistakes.append(Mistake(at, text[at : at + 40], f"the {kind} has no end", "End it"))
            break
        elif len(piece) == 1:
            marks.append((at, len(opened)))
            if not _nest(text, at, opened, mistakes):
                break
        elif piece[0] != '"':
            pieces += [text[last:at], re.sub(r"[^\n]", " ", piece)]
            last = match.end()
    else:
        mistakes += [
            Mistake(at, text[at : at + 40], "the bracket is not closed", "Close it")
            for at in opened
        ]
    return "".join([*pieces, text[last:]]), marks


def _nest(text: str, at: int, opened: list[int], mistakes: list[Mistake]) -> bool:
    """Follow a bracket; False: the rest cannot be read."""
    mark = text[at]
    if mark in "[{":
        opened.append(at)
        if len(opened) <= MAX_DEPTH:
            return True
        rule = f"brackets are nested deeper than {MAX_DEPTH}"
        mistakes.append(Mistake(opened.pop(), text[at : at + 40], rule, "Flatten it"))
        opened.clear()
        return False
    if mark in _CLOSES:
        if opened and text[opened[-1]] == _CLOSES[mark]:
            opened.pop()
            return True
        rule = f"no {_CLOSES[mark]} is open here"
        mistakes.append(Mistake(at, mark, rule, "Remove it, or open it before"))
        opened.clear()
        return False
    return True


def _inside(clean: str, marks: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the part inside the outer brackets, if the whole text stands in them."""
    brackets = [at for at, depth in marks if not depth and clean[at] != ";"]
    outer = len(clean) - len(clean.lstrip())
    closing = next((at for at, depth in marks if depth == 1 and clean[at] == "]"), 0)
    if (
        brackets[:1] == [outer]
        and clean[outer] == "["
        and not clean[closing + 1 :].strip(" \t\r\n;")
    ):
        return outer + 1, closing
    return 0, len(clean)
