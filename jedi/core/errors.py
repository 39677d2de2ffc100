"""Errors carry a code, a sentence and their facts as fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class JediError(Exception):
    """Something a person can act on: `code` can be counted, the sentence can be read."""

    code = "error"

    def __init__(self, sentence: str, /, *, code: str | None = None, **facts: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.facts = facts
        if code is not None:
            self.code = code


class NotFound(JediError):
    """What was asked for does not exist."""

    code = "not_found"


class Forbidden(JediError):
    """The caller may not do this."""

    code = "forbidden"


class Refused(JediError):
    """The request is well formed but the present state does not allow it."""

    code = "refused"


class Unreachable(JediError):
    """A service this process needs does not answer."""

    code = "unreachable"


class NotYet(Unreachable):
    """It is on its way: wait, and ask again."""

    code = "not_yet"


class LockLost(JediError):
    """The lease ran out and somebody else took the work: write nothing."""

    code = "lock_lost"


class NotWritten(Exception):
    """The database did not take what was to be written; `passing`: it may the next time. What it
    said stands in the agent's log: there are statements in it, and other people's values."""

    def __init__(self, kind: str, *, passing: bool) -> None:
        super().__init__(
            f"the database did not take what was to be written ({kind}): the agent's log tells why"
        )
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in an input: where, what was there, the rule, and what to do."""

    path: str
    value: Any
    rule: str
    remedy: str

    def __str__(self) -> str:
        shown = repr(self.value)
        shown = shown if len(shown) <= 60 else shown[:57] + "..."
        end = "" if self.remedy.endswith("?") else "."
        return f"{self.path}: {shown}: {self.rule}. {self.remedy}{end}"


class BadInput(JediError):
    """An input is wrong; all its mistakes at once, nothing stored."""

    code = "bad_input"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(p) for p in self.problems), problems=self.problems)
