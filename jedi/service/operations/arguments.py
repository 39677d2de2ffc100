"""Types of arguments that several operations take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

FILE_MAX = 16 * 2**20
"""Bytes of a request with the text of a file."""

_TEXT = r"^[^\x00]*$"
"""PostgreSQL stores no NUL."""

NameText = Annotated[str, Field(min_length=1, max_length=255, pattern=_TEXT)]
"""A name."""

FileText = Annotated[str, Field(max_length=FILE_MAX, pattern=_TEXT)]
"""The text of a file."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]

Comment = Annotated[str, Field(max_length=1_000, pattern=_TEXT)] | None
"""The reason for a change, for the history."""

SettingText = Annotated[str, Field(max_length=10_000, pattern=_TEXT)]
SettingTexts = Annotated[list[SettingText], Field(min_length=1, max_length=100)]
"""NAME=VALUE, values as in a file."""

RowId = Annotated[int, Field(ge=0, le=2**31 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]

MomentText = Annotated[str, Field(min_length=4, max_length=40, pattern=_TEXT)]
Moments = Annotated[list[MomentText], Field(min_length=1, max_length=2)]
"""Times such as 2026-11-26T12:00; without an offset they are UTC."""
