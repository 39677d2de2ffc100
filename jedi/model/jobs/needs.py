"""Needs of jobs that people change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from jedi.model.queries import STORABLE, Question

_LEAST_32 = Field(ge=1, lt=2**31)


@dataclass(frozen=True, slots=True)
class JobNeeds(Question):
    """The needs of the next jobs of a task; None: as before. The memory is that of a job, in MB;
    `max_attempts` are those of the units that are submitted again."""

    site: Annotated[str, Field(min_length=1, max_length=255, pattern=STORABLE)] | None = None
    cores: Annotated[int, Field(ge=1, le=10_000)] | None = None
    memory_mb: Annotated[int, _LEAST_32] | None = None
    walltime_s: Annotated[int, _LEAST_32] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=1_000)] | None = None
