"""Fills placeholders in: for many jobs at once, without evaluating anything.

A template is cut at its placeholders once; each of them stands for a column with one text a job.
Source: docs/reference/task-parameters.md#placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from jedi.core.errors import JediError
from jedi.model.tasks.placeholders import Form, placeholders

BARE = ("$ORIGINPANDAID", "$JEDITASKID", "$PANDAID", "$JOBSETID", "$JEDIFILEID")
"""Placeholders without braces."""

_form = lru_cache(Form.parse)

TextColumn = Sequence[str] | str
"""One text a job, or the same for all."""


class Template:
    """A text with placeholders."""

    def __init__(self, text: str) -> None:
        words = sorted(
            {*BARE, *(placeholder.text for placeholder in placeholders(text))}, reverse=True
        )
        parts = re.split(f"({'|'.join(map(re.escape, words))})", text)
        self._literals, self._words = parts[::2], parts[1::2]

    def render(self, column: Callable[[str], TextColumn], jobs: int) -> list[str]:
        """The text for each job; `column` gives the texts behind a placeholder."""
        pieces = [self._literals[0].replace("%", "%%")]
        columns = []
        for word, literal in zip(self._words, self._literals[1:], strict=True):
            values = column(word)
            if isinstance(values, str):
                pieces.append(values.replace("%", "%%"))
            else:
                pieces.append("%s")
                columns.append(values)
            pieces.append(literal.replace("%", "%%"))
        line = "".join(pieces)
        if not columns:
            return [line % ()] * jobs
        return list(map(line.__mod__, zip(*columns, strict=True)))


def list_names(names: Sequence[str], form: str) -> str:
    """Input file names as a placeholder shows them: with `/L` separated by commas, with `/S` by
    blanks, with `/A` quoted, with `/T` as a literal; without a kind, several names that differ in
    one number are folded, `data_[1,2,7].txt`. `[1:]` leaves the first out."""
    part = _form(form)
    names = names[part.part]
    match part.kind:
        case "S":
            return " ".join(names)
        case "A":
            return ",".join(f'"{name}"' for name in names)
        case "T":
            return str(list(names))
        case "" if len(names) > 1:
            return _fold(names)
    return ",".join(names)


def _fold(names: Sequence[str]) -> str:
    head = _common(names).rstrip("0123456789")
    tails = [name[len(head) :][::-1] for name in names]
    tail = _common(tails)[::-1].lstrip("0123456789")
    middles = [name[len(head) : len(name) - len(tail)] for name in names]
    if all(middle.isdigit() for middle in middles):
        return f"{head}[{','.join(middles)}]{tail}"
    return ",".join(names)


def _common(texts: Sequence[str]) -> str:
    """The common beginning of all texts."""
    low, high = min(texts), max(texts)
    return low[: next((i for i, c in enumerate(low) if c != high[i : i + 1]), len(low))]


def unresolved(word: str) -> JediError:
    """A placeholder that nothing stands behind."""
    return JediError(
        f"Nothing stands behind {word} in the job parameters. Give the task an item that feeds it.",
        code="unresolved_placeholder",
        placeholder=word,
    )
