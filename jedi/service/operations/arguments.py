"""Types of arguments that several operations take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, Field

from jedi.core import clock, states
from jedi.core.errors import BadInput, Problem
from jedi.core.states import EVENT_CODES, JOB, TASK_STATES
from jedi.core.suggest import suggest
from jedi.model.mistakes import checked_by
from jedi.taskbuffer.reports.conditions import (
    JOB_FIELDS,
    TASK_FIELDS,
    ListField,
    read_conditions,
)

FILE_MAX = 16 * 2**20
"""Bytes of a request with the text of a file."""

MOST_ROWS = 1_000_000
"""Default maximum length of a list."""

_TEXT = r"^[^\x00]*$"
"""PostgreSQL stores no NUL."""

NameText = Annotated[str, Field(min_length=1, max_length=255, pattern=_TEXT)]
"""A name."""

FileText = Annotated[str, Field(max_length=FILE_MAX, pattern=_TEXT)]
"""The text of a file."""

SubmissionKey = Annotated[str, Field(min_length=1, max_length=200, pattern=_TEXT)]
"""A key that its user has chosen, unique for ever."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

Comment = Annotated[str, Field(max_length=1_000, pattern=_TEXT)] | None
"""The reason for a change, for the history."""

SettingText = Annotated[str, Field(max_length=10_000, pattern=_TEXT)]
SettingTexts = Annotated[list[SettingText], Field(min_length=1, max_length=100)]
"""NAME=VALUE, values as in a file."""

TaskId = Annotated[int, Field(ge=1, le=2**63 - 1)]
ManyTasks = Annotated[list[TaskId], Field(min_length=1, max_length=10_000)]
IdsInQuery = Annotated[list[TaskId], Field(min_length=1, max_length=1_500)]
"""As many as a query can hold: 64 KB with the headers."""

MostRows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
Days = Annotated[float, Field(ge=0, le=36_500)]
RowId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


def read_time(written: str) -> datetime:
    """A time; without offset it is UTC, and a time that has not come is now."""
    try:
        found = datetime.fromisoformat(written.strip())
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        rule, remedy = "is no time", "Write it as 2026-11-26T12:00 (UTC), or with an offset"
        raise BadInput([Problem("at", written, rule, remedy)]) from None
    return min(found, clock.now())


MomentText = Annotated[str, Field(min_length=4, max_length=40, pattern=_TEXT)]
Moments = Annotated[
    list[Annotated[MomentText, checked_by(read_time)]], Field(min_length=1, max_length=2)
]
"""Times such as 2026-11-26T12:00; without an offset they are UTC."""

FILE_KINDS = tuple(dict.fromkeys((*states.INPUT_TYPES, *states.MADE_TYPES)))
FILE_STATUSES = tuple(dict.fromkeys((*states.INPUT_FILE.states, *states.OUTPUT_FILE.states)))


def _words(argument: str, known: Collection[str], rule: str) -> AfterValidator:
    """Unknown words of an argument are mistakes, each with the nearest known one."""

    def check(given: list[str]) -> None:
        listed = f"There are {', '.join(known)}"
        problems = [
            Problem(argument, one, rule, suggest(one, known, listed))
            for one in given
            if one not in known
        ]
        if problems:
            raise BadInput(problems)

    return checked_by(check)


def _conditions(fields: Mapping[str, ListField]) -> AfterValidator:
    return checked_by(lambda texts: read_conditions(texts, fields))


TaskStatuses = Annotated[list[str], _words("status", TASK_STATES, "no such status")] | None
JobStatuses = Annotated[list[str], _words("status", JOB.states, "no such status of a job")] | None
FileKinds = Annotated[list[str], _words("type", FILE_KINDS, "no such type of files")] | None
FileStatuses = (
    Annotated[list[str], _words("status", FILE_STATUSES, "no such status of a file")] | None
)
RangeStatuses = (
    Annotated[list[str], _words("status", EVENT_CODES, "no such status of a range")] | None
)
TaskConditions = Annotated[list[str], Field(max_length=50), _conditions(TASK_FIELDS)] | None
JobConditions = Annotated[list[str], Field(max_length=50), _conditions(JOB_FIELDS)] | None
"""Conditions such as status=running,pending."""
