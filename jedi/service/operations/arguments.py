"""Types of arguments that several operations take."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from jedi.core import clock
from jedi.core.errors import BadInput, Problem
from jedi.model.mistakes import checked_by
from jedi.model.queries import STORABLE, ListedId

FILE_MAX = 16 * 2**20
"""Bytes of a request with the text of a file."""

PAGE_ROWS = 10_000
PageRows = Annotated[int, Field(ge=1, le=PAGE_ROWS)]
"""The length of a page of a long list."""

NameText = Annotated[str, Field(min_length=1, max_length=255, pattern=STORABLE)]
"""A name."""

FileText = Annotated[str, Field(max_length=FILE_MAX, pattern=STORABLE)]
"""The text of a file."""

SubmissionKey = Annotated[str, Field(min_length=1, max_length=200, pattern=STORABLE)]
"""A key that its user has chosen, unique for ever."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

Comment = Annotated[str, Field(max_length=1_000, pattern=STORABLE)] | None
"""The reason for a change, for the history."""

SettingText = Annotated[str, Field(max_length=10_000, pattern=STORABLE)]
SettingTexts = Annotated[list[SettingText], Field(min_length=1, max_length=100)]
"""NAME=VALUE, values as in a file."""

TaskId = ListedId
ManyTasks = Annotated[list[TaskId], Field(min_length=1, max_length=10_000)]
IdsInQuery = Annotated[list[TaskId], Field(min_length=1, max_length=1_500)]
"""As many as a query can hold: 64 KB with the headers."""

UnitNr = Annotated[int, Field(ge=1, lt=2**31)]
UnitNrs = Annotated[list[UnitNr], Field(min_length=1, max_length=100_000)] | None
"""Numbers of units; None: all."""

FileId = Annotated[int, Field(ge=0, lt=2**63)]
Days = Annotated[float, Field(ge=0, le=36_500)]
Hours = Annotated[int, Field(ge=1, le=24 * 90)]
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


MomentText = Annotated[str, Field(min_length=4, max_length=40, pattern=STORABLE)]
Moments = Annotated[
    list[Annotated[MomentText, checked_by(read_time)]], Field(min_length=1, max_length=2)
]
"""Times such as 2026-11-26T12:00; without an offset they are UTC."""
