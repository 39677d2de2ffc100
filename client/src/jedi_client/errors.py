"""Errors carry a code, a sentence and their facts as fields."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


class JediError(Exception):
    """An error that a person can act on: `code` can be counted, the sentence can be read."""

    code = "error"

    def __init__(self, sentence: str, /, *, code: str | None = None, **facts: Any) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.facts = facts
        if code is not None:
            self.code = code


class NotFound(JediError):
    """The object of the request does not exist."""

    code = "not_found"


class Forbidden(JediError):
    """The caller may not do this."""

    code = "forbidden"


class Refused(JediError):
    """The request is well formed but the present state does not allow it."""

    code = "refused"


class NoSpace(Refused):
    """The storage, or the caller's part of it, has no room left."""

    code = "no_space"


class VersionTooOld(JediError):
    """The changes since a version can't be given: list again."""

    code = "version_too_old"


class Unreachable(JediError):
    """A service that this process needs does not answer."""

    code = "unreachable"


class NotReached(Unreachable):
    """The service could not be reached: the request has changed nothing there."""


class OutcomeUnknown(Unreachable):
    """The service lost its database while it stored a change: the change may be done."""

    code = "outcome_unknown"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in an input: its place, its value, the rule, and the remedy."""

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
