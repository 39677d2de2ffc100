"""Errors carry a code, a sentence and their facts as fields. The client declares the ones that
callers of the service meet."""

from __future__ import annotations

from jedi_client.errors import (
    BadInput,
    Forbidden,
    JediError,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    Problem,
    Refused,
    Unreachable,
    VersionTooOld,
)

__all__ = [
    "BadInput",
    "Forbidden",
    "JediError",
    "LockLost",
    "NoSpace",
    "NotFound",
    "NotWritten",
    "NotYet",
    "OutcomeUnknown",
    "Problem",
    "Refused",
    "Unreachable",
    "VersionTooOld",
]


class NotYet(Unreachable):
    """It is on its way: wait, and ask again."""

    code = "not_yet"


class LockLost(JediError):
    """The lease ran out and another worker took the work: write nothing."""

    code = "lock_lost"


class NotWritten(Exception):
    """The database refused a write; `passing`: it may take it the next time. Its message is in the
    agent's log only: it contains statements and other people's values."""

    def __init__(self, kind: str, *, passing: bool) -> None:
        super().__init__(f"the database refused a write ({kind}): the agent's log has the reason")
        self.passing = passing
